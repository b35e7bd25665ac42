//! Fortran pointers to a component of an array of derived types (`p => cells%value`), and to arrays in reverse order.
//!
//! GCC computes start and length of the data from counts of elements, as if the elements were contiguous and ascending. The descriptor that
//! follows contains their distance (its span), so here the entry gets the range that contains them.

use super::descriptor::{ArrayOfDescriptor, Descriptor, EntryMeaning, Spaced};
use super::entries::{Entries, NoncontiguousEntry, Special};
use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Mode, Stop, is_nothing};
use crate::device::Device;
use crate::ports::HostMemory;
use crate::present::Found as Present;
use accord_types::{Error, ErrorCode, HostRange, Result};

/// Calls `act` with the entries, those of such pointers with the ranges that contain their elements.
///
/// # Errors
/// Returns the errors of `act`; `acc_error_invalid_data_section` if the elements can't be determined.
#[inline]
pub(super) fn with_ranges<T>(
    host: &dyn HostMemory,
    device: &Device,
    entries: &mut Entries<'_>,
    act: impl FnOnce(&mut Entries<'_>) -> Result<T>,
) -> Result<T> {
    let described = entries.kinds.iter().any(|word| word & 0xff == DESCRIPTOR);
    if described { ranged(host, device, entries, act) } else { act(entries) }
}

/// The kind of a descriptor's entry.
const DESCRIPTOR: u16 = 0x05;

/// [`with_ranges`] where there are descriptors.
fn ranged<T>(
    host: &dyn HostMemory,
    device: &Device,
    entries: &mut Entries<'_>,
    act: impl FnOnce(&mut Entries<'_>) -> Result<T>,
) -> Result<T> {
    let (mut moved, mut within) = (Vec::new(), Vec::new());
    for i in 0..entries.hosts.len().saturating_sub(1) {
        if entries.kinds[i + 1] & 0xff == DESCRIPTOR {
            match real_range(entries, i, host)? {
                Found::AsSaid => {}
                Found::Lies(range, spaced) => moved.push((i, range, spaced)),
                Found::Within(range) => within.push((i, range)),
                Found::Trimmed(range) => {
                    let all = range_of(entries.hosts[i], entries.len_of(i));
                    if is_present_but_for_its_end(device, all, range) {
                        moved.push((i, range, None));
                    }
                }
            }
        }
    }
    if moved.is_empty() && within.is_empty() {
        return act(entries);
    }
    let mut sizes = entries.sizes.to_vec();
    let mut apart = Vec::new();
    for (i, range, spaced) in &mut moved {
        sizes[*i] = range.len;
        // The descriptor's pointer, whose size says how far from it the data starts.
        let pointer = *i + 2;
        if entries.hosts.get(pointer) == Some(&entries.hosts[*i + 1])
            && Kind::decode(entries.kinds[pointer]).is_ok_and(Kind::follows_data)
        {
            let further = range.start.wrapping_sub(entries.hosts[*i]);
            sizes[pointer] = sizes[pointer].wrapping_add(further);
        }
        // The old values are restored after the call: the array is the compiler's.
        let all = *range;
        range.start = std::mem::replace(&mut entries.hosts[*i], range.start);
        apart.extend(spaced.map(|spaced| NoncontiguousEntry { entry: *i, spaced, with_others: all, others: false }));
    }
    join(&mut apart);
    let done = {
        let special = Special { apart: &apart, within: &within };
        act(&mut Entries { special, ..Entries::new(entries.hosts, &sizes, entries.kinds) })
    };
    for (i, range, _) in moved {
        entries.hosts[i] = range.start;
    }
    done
}

/// Groups entries whose ranges overlap.
fn join(apart: &mut [NoncontiguousEntry]) {
    let end = |range: HostRange| range.start + range.len;
    loop {
        let mut grown = false;
        for k in 0..apart.len() {
            for other in 0..apart.len() {
                let (mine, theirs) = (apart[k].with_others, apart[other].with_others);
                let all = HostRange { start: mine.start.min(theirs.start), len: 0 };
                let all = HostRange { len: end(mine).max(end(theirs)) - all.start, ..all };
                let overlap = mine.start < end(theirs) && theirs.start < end(mine);
                if overlap && other != k {
                    apart[k].others = true;
                    grown |= all != mine;
                    apart[k].with_others = all;
                }
            }
        }
        if !grown {
            break;
        }
    }
}

/// Whether an array is present that contains the elements of an entry, but not its end. If not, the entry stays unchanged: other
/// constructs name the same data without a descriptor.
fn is_present_but_for_its_end(device: &Device, all: HostRange, elements: HostRange) -> bool {
    let state = device.lock();
    let find = |range: HostRange| state.table.find(range.start, range.len);
    matches!((find(all), find(elements)), (Present::Partly(_), Present::Whole(_)))
}

fn range_of(start: usize, len: usize) -> HostRange {
    HostRange { start, len }
}

/// The elements of an entry, compared with its descriptor.
enum Found {
    /// The entry's own bytes.
    AsSaid,
    /// In this range.
    Lies(HostRange, Option<Spaced>),
    /// They end before the entry's end.
    Trimmed(HostRange),
    /// Somewhere in this range, with unknown size.
    Within(HostRange),
}

/// Returns the range of the elements of entry `i`, if that is not the entry's own.
fn real_range(entries: &Entries<'_>, i: usize, host: &dyn HostMemory) -> Result<Found> {
    let (start, bytes) = (entries.hosts[i], entries.sizes[i].cast_signed() as i64);
    let (at, len) = (entries.hosts[i + 1], entries.sizes[i + 1]);
    let about_data = matches!(Kind::decode(entries.kinds[i]), Ok(Kind::Data(_) | Kind::Release { .. }));
    if !about_data || is_nothing(start) || is_nothing(at) || len > Descriptor::MAX {
        return Ok(Found::AsSaid);
    }
    let mut words = [0; Descriptor::MAX];
    host.read(at, &mut words[..len]);
    let Some(mut descriptor) = Descriptor::decode(&words[..len]) else { return Ok(Found::AsSaid) };
    let alignment = 1 << (entries.kinds[i] >> 8).min(16);
    let whose = descriptor.whose(start.cast_signed() as i64, bytes, alignment);
    if whose != ArrayOfDescriptor::Own {
        let size = host.element_size(at, i).map(i64::try_from);
        descriptor = match (size, whose, descriptor.half()) {
            (Some(Ok(size)), ..) if size > 0 && size < descriptor.element() => descriptor.component(size),
            (Some(_), ..) | (None, ArrayOfDescriptor::Own, _) => descriptor,
            (None, ArrayOfDescriptor::Array, Some(half)) => descriptor.component(half),
            (None, ArrayOfDescriptor::Array, None) => {
                return Ok(descriptor.component(alignment).whole().map_or(Found::AsSaid, Found::Within));
            }
            (None, ArrayOfDescriptor::Either { likely }, _) => {
                if likely {
                    host.report_possible_component(
                        HostRange { start, len: entries.sizes[i] },
                        i,
                        descriptor.element() as usize,
                    );
                }
                descriptor
            }
        };
    }
    if descriptor.is_plain() {
        let printed = range_of(start, entries.len_of(i));
        return Ok(descriptor.trimmed(printed).map_or(Found::AsSaid, Found::Trimmed));
    }
    match descriptor.meant(start.cast_signed() as i64, bytes) {
        Some(EntryMeaning::AsSaid) | None => Ok(Found::AsSaid),
        Some(EntryMeaning::Elements { low, high }) => {
            Ok(descriptor.range(low, high).map_or(Found::AsSaid, |(range, spaced)| Found::Lies(range, spaced)))
        }
        Some(EntryMeaning::Unclear) => {
            let range = HostRange { start, len: entries.len_of(i) };
            let more = "as it may be one of several sections of a pointer to a component of an array of derived types";
            Err(Error::about(ErrorCode::InvalidDataSection, range, "ambiguous", more)
                .remedy("name the whole pointer, or a section of one dimension with two elements or more"))
        }
    }
}

impl Mapping<'_, '_> {
    /// Maps entry `i`, whose elements are `spaced`.
    pub(super) fn spaced(&mut self, i: usize, spaced: Spaced, data: Data) -> Result<(), Stop> {
        let range = HostRange { start: self.entries.hosts[i], len: self.entries.sizes[i] };
        // What lies between the elements belongs to the program on the device, too.
        let data = Data { copy_in: true, ..data };
        let joined = self.entries.joined(i).filter(|_| self.mode != Mode::Enter && data.absent == Absent::Create);
        if let Some(all) = joined
            && self.find(all)?.is_none()
        {
            self.make_present(all, Data { copy_out: false, ..data })?;
            self.region.joined.extend(self.region.mapped.last().map(|mapped| mapped.id));
        }
        let before = self.region.mapped.len();
        self.data(i, range, data)?;
        for mapped in &mut self.region.mapped[before..] {
            mapped.spaced = Some(spaced);
            // They are one entry: each is copied out at the end, not only the last.
            mapped.always |= self.region.joined.contains(&mapped.id);
        }
        Ok(())
    }

    /// Maps entry `i`, whose elements lie somewhere in `within`. Which bytes to copy is unknown, but where all of them are present,
    /// nothing has to be copied.
    pub(super) fn somewhere(&mut self, i: usize, within: HostRange, data: Data) -> Result<(), Stop> {
        let start = self.entries.hosts[i];
        match self.find(within) {
            Ok(Some(id)) if !data.always => {
                self.hold(id, within, Data { copy_out: false, ..data });
                let device = self.translate(id, start);
                self.slot(i, device.0);
                Ok(())
            }
            Err(stop @ (Stop::Arrival | Stop::Resolve(_))) => Err(stop),
            _ => Err(unknown_component(within).into()),
        }
    }
}

/// Returns the error for elements whose size and place the entry does not determine.
pub(super) fn unknown_component(within: HostRange) -> Error {
    let more = "which is not what its length says, so it points to a component (p => cells%value), of which nothing here says the size";
    Error::about(
        ErrorCode::InvalidDataSection,
        within,
        "described as whole elements of an array of derived types",
        more,
    )
    .remedy("write p => cells(:)%value, or compile with -g, or make all of cells present before")
}

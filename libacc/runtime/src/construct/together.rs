//! Copies the small variables that a synchronous compute construct copies both ways in one block to the device. After the region
//! one block is copied back, of which the program's memory gets what has changed.
//!
//! GCC maps every scalar of a `kernels` construct so. Separate copies would take many times as long as the region.

use super::declared_pointer::point_into;
use super::kind::{Data, Kind};
use super::map::{Mapping, Mode, PRIVATE_MAX, Stop, is_nothing};
use super::names::SCALAR_MAX;
use super::pointee::{LOW, may_be_pointer};
use super::region::ScalarBlock;
use crate::memory::Purpose;
use crate::plan::{STORE_MAX, Step};
use crate::ports::Part;
use crate::present::Found;
use accord_types::{DevicePtr, HostRange, QueueId};

/// The least alignment of a variable. GCC passes what each needs; close together they occupy fewer cache lines, which move from
/// core to core and back in each region.
const ALIGN_MIN: usize = 8;
/// The alignment of the strictest types.
const ALIGN_MAX: usize = 64;
/// Bytes of all of them.
const BYTES_MAX: usize = STORE_MAX;

impl Mapping<'_, '_> {
    /// Whether an absent variable of `len` bytes that stands alone, which is entry `i`, may travel with others.
    pub(super) fn is_grouped(&self, i: usize, len: usize) -> bool {
        self.mode == Mode::Launch
            && self.queue == QueueId::SYNC
            && len <= PRIVATE_MAX
            && self.region.together.next(alignment(self.entries.kinds[i])) + len <= self.space()
    }

    /// Returns the bytes for all variables that may be in the block.
    fn space(&self) -> usize {
        self.names.space().min(BYTES_MAX)
    }

    /// Puts all absent scalars into the block and sets their slots, if the construct has no special case. The rest is
    /// handled entry by entry, which costs much more. Returns false if nothing was done.
    pub(super) fn take_scalars_along(&mut self) -> Result<bool, Stop> {
        if self.mode != Mode::Launch
            || self.queue != QueueId::SYNC
            || self.device.rules.maps_unmapped
            || !self.entries.kinds.iter().any(|kind| Kind::is_plain_both_ways(*kind))
        {
            return Ok(false);
        }
        self.know_names()?;
        let scalars = self.names.scalars();
        if scalars.len == 0
            || !self.names.are_plain()
            || !self.device.shared.copies_out.is_empty()
            || !self.state.links.is_empty()
        {
            return Ok(false);
        }
        let device = self.open_block()?;
        let space = self.space();
        let Self { entries, state, region, block, host, .. } = self;
        let is_absent = |start, len| state.table.find(start, len) == Found::Absent;
        let are_absent = is_absent(scalars.start, scalars.len);
        let ScalarBlock { values, len: used, parts, .. } = &mut region.together;
        let values = &mut values[..space];
        let all = entries.hosts.iter().zip(entries.sizes).zip(entries.kinds);
        for (i, ((&start, &len), &kind)) in all.enumerate() {
            if !is_scalar(start, len, kind)
                || !(are_absent || is_absent(start, len))
                || point_into(*host, &state.pointers, HostRange { start, len })
            {
                continue;
            }
            let at = used.next_multiple_of(ALIGN_MIN);
            let Some(place) = values.get_mut(at..at + len) else { break };
            host.read(start, place);
            if let Ok(value) = <[u8; size_of::<u64>()]>::try_from(&*place)
                && let value = u64::from_ne_bytes(value)
                && may_be_pointer(value)
                && (Kind::is_forced(kind) || value >= LOW)
            {
                continue;
            }
            *used = at + len;
            parts.push(Part { at, dst: HostRange { start, len } });
            block.set(i, device.0 + at as u64);
        }
        Ok(true)
    }

    /// Makes sure that what the entries name is known.
    #[inline]
    pub(super) fn know_names(&mut self) -> Result<(), Stop> {
        if self.names.are_gathered() { Ok(()) } else { self.gather_names() }
    }

    #[inline(never)]
    fn gather_names(&mut self) -> Result<(), Stop> {
        let Self { entries, names, host: memory, .. } = self;
        let all = || entries.hosts.iter().zip(entries.sizes).zip(entries.kinds);
        for (i, ((&host, &size), &word)) in all().enumerate() {
            if is_scalar(host, size, word) {
                names.add_scalar(host, size);
                continue;
            }
            let kind = Kind::decode(word)?;
            if is_nothing(host) {
                names.add_nothing(kind);
                continue;
            }
            let pointed = || {
                let mut value = [0; size_of::<usize>()];
                memory.read(host, &mut value);
                usize::from_ne_bytes(value).wrapping_add(size)
            };
            let len = entries.len_of(i);
            if kind == Kind::Data(Data::BOTH_WAYS) && len <= PRIVATE_MAX {
                names.add_room(len, alignment(word));
            }
            names.add(kind, host, len, pointed);
        }
        if names.scalars_may_meet() {
            for ((&host, &size), _) in all().filter(|((host, size), word)| is_scalar(**host, **size, **word)) {
                names.add_section(host, size);
            }
        }
        names.finish();
        Ok(())
    }

    /// Puts entry `i` into the block.
    pub(super) fn take_along(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        self.before_reading(range)?;
        let device = self.open_block()?;
        let together = &mut self.region.together;
        let at = together.next(alignment(self.entries.kinds[i]));
        self.host.read(range.start, &mut together.values[at..at + range.len]);
        together.len = at + range.len;
        together.parts.push(Part { at, dst: range });
        self.slot(i, device.0 + at as u64);
        Ok(())
    }

    /// Returns the block, which is created for the first of them.
    fn open_block(&mut self) -> Result<DevicePtr, Stop> {
        if let Some(device) = self.region.together.device {
            return Ok(device);
        }
        let space = self.space();
        let device = self.allocate(space, Purpose::Arguments)?;
        self.region.temporaries.push(device);
        let together = &mut self.region.together;
        together.device = Some(device);
        if together.values.len() < space {
            together.values.resize(space, 0);
        }
        Ok(device)
    }

    /// Completes the block after all entries: records its contents, and how it is copied back.
    pub(super) fn send_together(&mut self) {
        let ScalarBlock { device, values, len, parts } = &self.region.together;
        let Some(device) = device.filter(|_| !parts.is_empty()) else { return };
        let at = self.plan.bytes.len();
        self.plan.bytes.extend_from_slice(&values[..*len]);
        self.plan.before.push(Step::Bytes { dst: device, at, len: *len });
        self.plan.parts.extend_from_slice(parts);
        self.plan.brings_back(device, at, parts.len(), None);
    }
}

/// Whether an entry is a scalar, or equally small, that is copied both ways.
#[inline]
fn is_scalar(start: usize, len: usize, kind: u16) -> bool {
    Kind::is_plain_both_ways(kind) && len.wrapping_sub(1) < SCALAR_MAX && !is_nothing(start)
}

/// The alignment of a place for an entry, by its kind.
fn alignment(kind: u16) -> usize {
    (1 << (kind >> 8).min(8)).clamp(ALIGN_MIN, ALIGN_MAX)
}

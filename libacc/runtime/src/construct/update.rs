//! `update` (OpenACC 3.3, 2.14.4).

use super::by_pointer::PointerWord;
use super::component::unknown_component;
use super::kind::{Absent, Kind};
use super::map::{Mode, Stop};
use super::missing::{not_present_in_clause, partly_present};
use super::pointee::Pointee;
use super::{ConstructExit, Entries, Spaced, on_host};
use crate::device::Device;
use crate::present::{Attachment, Counter, EntryId, Found};
use crate::{LocalThread, Runtime};
use accord_types::{Error, ErrorCode, HostRange, QueueId, Result};

/// The direction of an update, and the treatment of absent data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Direction {
    /// Whether it copies to the program's memory.
    pub(crate) out: bool,
    /// Whether absent data is skipped (`if_present`).
    pub(crate) if_present: bool,
    /// Whether a section that starts inside present data and is no longer than that is cut to it: GCC extends
    /// strided Fortran sections past the end. C has no such sections.
    pub(crate) cut: bool,
    /// Whether it is of a Fortran array with a descriptor: strided ones may be longer than the array, by less than a
    /// stride.
    pub(crate) described: bool,
}

impl Runtime {
    /// Implements `update` (2.14.4).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn update(
        &self,
        t: &mut LocalThread,
        flags: i32,
        entries: &mut Entries<'_>,
        async_: i32,
        waits: &[i32],
    ) -> Result<()> {
        let update = |t: &mut LocalThread, device: &Device, queue, entries: &mut Entries<'_>| {
            self.update_all(t, device, queue, entries)
        };
        self.unstructured(t, flags, entries, async_, waits, update).map_err(|error| error.call("update"))
    }

    /// Whether a construct is for a device: neither its `if` clause nor the program has chosen the host.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub fn is_for_device(&self, t: &mut LocalThread, flags: i32) -> Result<bool> {
        Ok(!on_host(flags) && self.target(t)?.is_some())
    }

    fn update_all(
        &self,
        t: &mut LocalThread,
        device: &Device,
        queue: QueueId,
        entries: &mut Entries<'_>,
    ) -> Result<()> {
        let exact = self.plan_update(t, device, queue, entries, false);
        match exact {
            // Queried only then, as it takes long.
            Err(error) if error.code() == ErrorCode::PartlyPresent && self.host.sections_may_have_gaps() => {
                self.plan_update(t, device, queue, entries, true)?;
            }
            planned => planned?,
        }
        self.finish(device, queue, &t.scratch.plan)?;
        if entries.sizes.contains(&Attachment::BYTES) {
            self.notify_of_pointers(device, entries);
        }
        Ok(())
    }

    /// Warns of an `update` of a pointer, not of its target. An attached pointer keeps its value on either side, and an absent one
    /// is skipped where `if_present` says so.
    #[cold]
    fn notify_of_pointers(&self, device: &Device, entries: &Entries<'_>) {
        let word = |i: usize| {
            let range = HostRange { start: entries.hosts[i], len: entries.sizes[i] };
            let is_data = matches!(Kind::decode(entries.kinds[i]), Ok(Kind::Data(_)));
            is_data.then(|| PointerWord::read(i, range, &*self.host)).flatten()
        };
        let words: Vec<PointerWord> = (0..entries.hosts.len()).filter_map(word).collect();
        let state = device.lock();
        let pointed = words.into_iter().filter(|word| word.pointed(&state.table, entries.hosts).is_some());
        let pointed: Vec<PointerWord> = pointed.collect();
        drop(state);
        for PointerWord { entry, start, .. } in pointed {
            self.host.report_pointer_itself(HostRange { start, len: Attachment::BYTES }, entry);
        }
    }

    /// Decides what to copy. Sections that reach past present data are `cut` to it, or an error.
    fn plan_update(
        &self,
        t: &mut LocalThread,
        device: &Device,
        queue: QueueId,
        entries: &mut Entries<'_>,
        cut: bool,
    ) -> Result<()> {
        let entering = self.entering(device, queue, Mode::Enter);
        entering.plan(entries, &mut t.scratch, |mapping| {
            for i in 0..mapping.entries.hosts.len() {
                let range = HostRange { start: mapping.entries.hosts[i], len: mapping.entries.len_of(i) };
                match mapping.kind(i)? {
                    _ if range.start == 0 => {}
                    Kind::Data(_) if let Some(within) = mapping.entries.within(i) => {
                        return Err(unknown_component(within).into());
                    }
                    Kind::Data(data) if range.len > 0 && data.copy_in != data.copy_out => {
                        let forced = Kind::is_forced(mapping.entries.kinds[i]);
                        let if_present = !forced && data.absent != Absent::Fail;
                        let next = i + 1;
                        let described = next < mapping.entries.hosts.len() && mapping.kind(next)? == Kind::Descriptor;
                        let cut = cut || if_present;
                        let direction = Direction { out: data.copy_out, if_present, cut, described };
                        mapping.update_elements(range, direction, mapping.entries.spaced(i))?;
                    }
                    // The data's pointer, where it was copied to the device.
                    Kind::AlwaysPointer if i > 0 && matches!(mapping.kind(i - 1)?, Kind::Data(d) if d.copy_in) => {
                        mapping.pointer_entry(i, Kind::AlwaysPointer)?;
                    }
                    _ => {}
                }
            }
            Ok(())
        })
    }
}

impl super::map::Mapping<'_, '_> {
    /// Copies present data one way.
    pub(crate) fn update(&mut self, range: HostRange, direction: Direction) -> Result<(), Stop> {
        self.update_elements(range, direction, None)
    }

    /// Does the same; to the program only the elements, if they are `spaced`.
    #[inline]
    fn update_elements(&mut self, range: HostRange, direction: Direction, spaced: Option<Spaced>) -> Result<(), Stop> {
        let Some((id, range)) = self.updated(range, direction)? else { return Ok(()) };
        if self.state.table[id].is_constant() {
            return Ok(());
        }
        self.count(id, range.len);
        if direction.out {
            ConstructExit { state: self.state, plan: self.plan, counter: Counter::Dynamic }
                .copy_out_elements(id, range, spaced);
        } else {
            let device = self.translate(id, range.start);
            self.copy_in(device, range)?;
            self.repoint(id, range)?;
        }
        Ok(())
    }

    fn updated(&self, range: HostRange, direction: Direction) -> Result<Option<(EntryId, HostRange)>, Stop> {
        match self.state.table.find(range.start, range.len) {
            Found::Whole(id) => Ok(Some((self.ready(id)?, range))),
            Found::Absent if direction.if_present || self.is_lendable(range) => Ok(None),
            Found::Absent => Err(self.absent_in_update(range).into()),
            Found::Partly(id) => {
                let entry = &self.state.table[id];
                let beyond = range.start.saturating_add(range.len).saturating_sub(entry.end);
                let widened = range.len <= entry.len() || (direction.described && beyond <= range.len / 2);
                if direction.cut && range.start >= entry.start && widened {
                    let len = entry.end - range.start;
                    return Ok(Some((self.ready(id)?, HostRange { len, ..range })));
                }
                let error: Error = partly_present(range, &self.state.table);
                Err(error.into())
            }
        }
    }

    fn absent_in_update(&self, range: HostRange) -> Error {
        if range.len == Attachment::BYTES
            && let Pointee::Present((pointer, _)) = self.pointee(self.read_pointer(range.start))
        {
            let more = format!("but it points to present data at {pointer:#x}");
            return Error::about(ErrorCode::NotPresent, range, "not present", more)
                .remedy("name what the pointer points to: write p[0:n] in place of p");
        }
        not_present_in_clause(range, &self.state.table, self.device.rules.maps_unmapped)
    }
}

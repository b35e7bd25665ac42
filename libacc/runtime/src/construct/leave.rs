//! Leaves a construct: releases what it held, copies out and frees entries without holders.

use super::descriptor::Spaced;
use super::region::{Mapped, Region, Use};
use crate::device::DeviceData;
use crate::issue::give_back;
use crate::plan::{Plan, ProfilingRecord, Step};
use crate::ports::HostMemory;
use crate::present::{Attachment, Backing, Counter, EntryId};
use crate::prof::ProfilingEvent;
use crate::queues::{After, Queues};
use accord_types::{DevicePtr, HostRange};

/// One construct being left, under the device's lock.
pub(crate) struct ConstructExit<'a> {
    pub(crate) state: &'a mut DeviceData,
    pub(crate) plan: &'a mut Plan,
    pub(crate) counter: Counter,
}

impl ConstructExit<'_> {
    /// Ends a compute construct, right after its start: copies out come after the launch. Table entries are removed now,
    /// so that new data at the same host address is not mistaken for the same data.
    pub(crate) fn launch(&mut self, region: &Region, host: &dyn HostMemory) {
        for (id, offset) in &region.attachments.held {
            // A pointer that came with its target stays as it is on the device: the next construct need not store it again.
            self.unhold_pointer(*id, *offset);
        }
        let before = self.plan.before.len();
        self.give_up_all(&region.mapped);
        for (id, offset) in &region.attachments.by_clause {
            if self.is_unheld(*id, *offset) {
                self.restore_pointer(*id, *offset, host);
            }
        }
        if self.plan.before.len() > before {
            self.plan.after.extend(self.plan.before.drain(before..));
        }
        for block in &region.temporaries {
            self.free(*block);
        }
    }

    /// The end of a data region. Pointers are detached before data is copied out (OpenACC 3.3, 2.7.2).
    pub(crate) fn region(&mut self, region: &Region, host: &dyn HostMemory) {
        let detached: Vec<_> =
            region.attachments.held.iter().copied().filter(|(id, offset)| self.unhold_pointer(*id, *offset)).collect();
        self.give_up_all(&region.mapped);
        for (id, offset) in detached {
            self.restore_pointer(id, offset, host);
        }
    }

    /// Releases all that a construct holds. An entry that several of its clauses mean stays until the last of them. Then all is
    /// copied out that any of them copies out.
    fn give_up_all(&mut self, mapped: &[Mapped]) {
        for (k, one) in mapped.iter().enumerate() {
            self.release(one, &mapped[..k], false);
        }
    }

    /// Copies out what earlier clauses of an entry name and the last one does not. Returns whether there is any.
    fn copy_out_earlier(&mut self, earlier: &[Mapped], last: &Mapped) -> bool {
        let mut any = false;
        let contains = |outer: &Mapped, inner: &Mapped| match (outer.out, inner.out) {
            (Some(all), Some(part)) => {
                outer.spaced.is_none() && all.start <= part.start && part.start + part.len <= all.start + all.len
            }
            _ => false,
        };
        let of_entry = |one: &&Mapped| one.id == last.id && !one.always;
        for (k, one) in earlier.iter().enumerate() {
            let Some(range) = one.out.filter(|_| of_entry(&one)) else { continue };
            let before =
                earlier[..k].iter().filter(of_entry).any(|other| contains(other, one) && !contains(one, other));
            let after = earlier[k + 1..].iter().filter(of_entry).any(|other| contains(other, one));
            if !before && !after && !contains(last, one) {
                self.copy_out_elements(one.id, range, one.spaced);
                any = true;
            }
        }
        any
    }

    /// Releases one reference, or all dynamic ones. The last one removes the entry after copying `out`.
    pub(crate) fn give_up(
        &mut self,
        id: EntryId,
        out: Option<(HostRange, Option<Spaced>)>,
        always: bool,
        finalize: bool,
    ) {
        let (out, spaced) = out.map_or((None, None), |(range, spaced)| (Some(range), spaced));
        self.release(&Mapped { id, out, spaced, always }, &[], finalize);
    }

    /// Does the same; `earlier` are references that the construct has released before.
    fn release(&mut self, mapped: &Mapped, earlier: &[Mapped], finalize: bool) {
        let id = mapped.id;
        // Removed already by `acc_shutdown` or `acc_unmap_data` inside the region.
        let Some(entry) = self.state.table.get_mut(id) else { return };
        let ended = entry.release(self.counter, finalize);
        let out = mapped.out.filter(|_| ended || mapped.always);
        if let Some(range) = out {
            self.copy_out_elements(id, range, mapped.spaced);
        }
        if ended {
            let copied = self.copy_out_earlier(earlier, mapped);
            self.remove(id, copied || out.is_some());
        }
    }

    /// Takes an entry out of the table; its memory is freed once the plan is done. `copied`: the plan copies it out before.
    pub(super) fn remove(&mut self, id: EntryId, copied: bool) {
        let Some(entry) = self.state.table.remove(id) else { return };
        if entry.locked {
            self.plan.releases.pages.push((entry.range(), copied));
        }
        self.plan.releases.are_shared |= !entry.used_by.is_empty();
        if copied {
            self.plan.releases.used_by.extend(entry.used_by);
        }
        if self.plan.profiling.is_watched {
            let (host, address) = (entry.start, entry.device().unwrap_or_default());
            let bytes = entry.len() as u64;
            self.plan.profiling.ends.push(ProfilingRecord { what: ProfilingEvent::Delete, host, address, bytes });
        }
        match entry.backing {
            Backing::Block(block) => self.free(block),
            Backing::Linked(block, variable) => {
                self.plan.pointer(variable, 0);
                self.free(block);
            }
            Backing::Foreign => {}
        }
    }

    /// Removes one holder of a block, once the plan is done.
    fn free(&mut self, block: DevicePtr) {
        self.plan.releases.blocks.push(block);
        if self.plan.profiling.is_watched {
            let (bytes, holders) = self.state.memory.holders(block);
            let left = self.plan.releases.blocks.iter().filter(|free| **free == block).count();
            if left == holders as usize {
                let deleted = self.plan.profiling.ends.last().filter(|last| last.address == block);
                let host = deleted.map_or(0, |last| last.host);
                self.plan.profiling.ends.push(ProfilingRecord {
                    what: ProfilingEvent::Free,
                    host,
                    address: block,
                    bytes,
                });
            }
        }
    }

    /// Copies a part of an entry out, or if they are `spaced` only the elements in it.
    pub(crate) fn copy_out_elements(&mut self, id: EntryId, range: HostRange, spaced: Option<Spaced>) {
        let Some(spaced) = spaced else { return self.copy_out(id, range) };
        let entry = &self.state.table[id];
        let holds_pointers = entry.attachments.iter().any(|attached| {
            let pointer = entry.start + attached.offset;
            pointer < range.start + range.len && range.start < pointer + Attachment::BYTES
        });
        if holds_pointers {
            for start in (range.start..range.start + range.len).step_by(spaced.every) {
                self.copy_out(id, HostRange { start, len: spaced.len });
            }
        } else {
            self.plan.before.push(Step::OutSpaced { src: entry.translate(range.start), dst: range, spaced });
        }
    }

    /// Copies a part of an entry out, except for pointers that hold device addresses: the
    /// program's keep their values, as if they had been detached first.
    pub(crate) fn copy_out(&mut self, id: EntryId, range: HostRange) {
        let entry = &self.state.table[id];
        let end = range.start.saturating_add(range.len).min(entry.end);
        let mut from = range.start.max(entry.start);
        let mut piece = |from: usize, to: usize| {
            if from < to {
                let dst = HostRange { start: from, len: to - from };
                self.plan.before.push(Step::Out { src: entry.translate(from), dst });
            }
        };
        for attached in &entry.attachments {
            let pointer = entry.start + attached.offset;
            if pointer < end && pointer + Attachment::BYTES > from {
                piece(from, pointer);
                from = pointer + Attachment::BYTES;
            }
        }
        piece(from, end);
    }

    /// Performs the detach action (OpenACC 3.3, 2.7.2) for the pointer variable at `host`; with `finalize` as if its counter were one.
    pub(crate) fn detach(&mut self, id: EntryId, host: usize, finalize: bool, memory: &dyn HostMemory) {
        let entry = &mut self.state.table[id];
        let offset = host - entry.start;
        let Ok(at) = entry.attachment(offset) else { return };
        if finalize {
            entry.attachments[at].count = entry.attachments[at].count.min(1);
        }
        if entry.attachments[at].count == 0 || self.unhold_pointer(id, offset) {
            self.restore_pointer(id, offset, memory);
        }
    }

    /// Undoes what a construct that failed has done so far.
    pub(crate) fn undo(&mut self, region: &Region, queues: &Queues) {
        for (id, offset) in &region.attachments.held {
            self.unhold_pointer(*id, *offset);
        }
        for (id, offset) in &region.attachments.stored {
            if let Some(entry) = self.state.table.get_mut(*id)
                && let Ok(at) = entry.attachment(*offset)
            {
                // The store was never sent.
                entry.attachments.remove(at);
            }
        }
        self.plan.clear();
        self.disinherit_pointer_members(&region.members.replaced);
        for member in &region.members.counted {
            self.state.table.members.take(*member, 1);
        }
        for mapped in &region.mapped {
            self.give_up(mapped.id, None, false, false);
        }
        self.restore_pointer_members(&region.members.replaced);
        self.plan.releases.blocks.extend_from_slice(&region.temporaries);
        self.plan.releases.blocks.extend(region.write_backs.iter().filter_map(Use::fresh_block));
        // The blocks may have been handed out on condition of waits that were never sent.
        let after = After { queue: None, moment: queues.now() };
        give_back(self.state, &self.plan.releases.blocks, after, queues);
        // Other threads may have released what this one held last.
        let unlocks = std::mem::take(&mut self.plan.releases.pages);
        self.plan.clear();
        self.plan.releases.pages = unlocks;
    }

    /// Decrements an attachment's counter; returns true if it was the last.
    fn unhold_pointer(&mut self, id: EntryId, offset: usize) -> bool {
        let Some(entry) = self.state.table.get_mut(id) else { return false };
        let Ok(at) = entry.attachment(offset) else { return false };
        let count = &mut entry.attachments[at].count;
        if *count == 0 {
            return false;
        }
        *count -= 1;
        *count == 0
    }

    fn is_unheld(&self, id: EntryId, offset: usize) -> bool {
        let entry = self.state.table.get(id);
        entry.is_some_and(|entry| entry.attachments.iter().any(|one| one.offset == offset && one.count == 0))
    }

    /// Stores the program's pointer over the device's.
    fn restore_pointer(&mut self, id: EntryId, offset: usize, host: &dyn HostMemory) {
        let Some(entry) = self.state.table.get_mut(id) else { return };
        let Ok(at) = entry.attachment(offset) else { return };
        entry.attachments.remove(at);
        let pointer = HostRange { start: entry.start + offset, len: Attachment::BYTES };
        let mut value = [0; Attachment::BYTES];
        host.read(pointer.start, &mut value);
        let dst = entry.translate(pointer.start);
        // A later directive that names it alone still means a member.
        self.state.table.members.note(pointer);
        self.plan.pointer(dst, u64::from_ne_bytes(value));
    }
}

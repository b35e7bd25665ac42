//! Pointer members: pointer variables that GCC maps together with what they point to.
//!
//! `enter data copyin(s.p[0:n])` of a variable `s` makes the array present (OpenACC 3.3, 2.7.7), and an entry for `s.p` too: a pointer
//! member. The specification has none, so members are removed when the object that contains them becomes present after them. What
//! held them holds the object from then on, as it does where the object came first.

use super::ConstructExit;
use super::descriptor::Spaced;
use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Mode, Stop};
use crate::present::{Attachment, Entry, EntryId, Found, Lifetime};
use accord_types::HostRange;

impl Mapping<'_, '_> {
    /// Whether entry `i` of the construct maps a member: a place without a copy, for a pointer that the same construct attaches.
    pub(super) fn is_pointer_member(&self, i: usize) -> Result<bool, Stop> {
        let reserves = match self.kind(i)? {
            Kind::Data(data) => !data.copy_in && !data.copy_out && data.absent == Absent::Create,
            Kind::Descriptor => true,
            _ => false,
        };
        if self.mode != Mode::Enter || !reserves {
            return Ok(false);
        }
        for j in (0..self.entries.hosts.len()).filter(|j| self.entries.hosts[*j] == self.entries.hosts[i]) {
            if self.kind(j)? == Kind::Attach {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the members in `range` out of the table if it contains nothing else there and all of them lie inside. Then the
    /// whole range can become present. The region records what they were.
    pub(super) fn take_pointer_members(&mut self, range: HostRange, data: Data) -> Result<(), Stop> {
        if self.mode != Mode::Enter
            || data.absent != Absent::Create
            || !matches!(self.state.table.find(range.start, range.len), Found::Partly(_))
        {
            return Ok(());
        }
        let members = self.state.table.overlapping(range);
        let end = range.start.saturating_add(range.len);
        let gives_way = |entry: &Entry| {
            let inside = range.start <= entry.start && entry.end <= end;
            inside && entry.pointer_member && entry.references.structured == 0 && entry.lifetime == Lifetime::Counted
        };
        if !members.iter().all(|id| gives_way(&self.state.table[*id])) {
            return Ok(());
        }
        for id in &members {
            match self.state.table[*id].arriving {
                // The same construct names an object and its member.
                Some(ticket) if ticket == self.plan.ticket => return Ok(()),
                Some(_) => return Err(Stop::Arrival),
                None => {}
            }
        }
        let counter = self.counter();
        for id in members {
            self.region.members.replaced.push(self.state.table[id].clone());
            ConstructExit { state: self.state, plan: self.plan, counter }.remove(id, false);
        }
        Ok(())
    }

    /// Transfers to a new object what its members had: holders, and attached pointers.
    pub(super) fn inherit_pointer_members(&mut self, id: EntryId) {
        let table = &mut self.state.table;
        let object = table[id].range();
        let inside = |member: &&Entry| object.start <= member.start && member.end <= object.start + object.len;
        for member in self.region.members.replaced.iter().filter(inside) {
            table.members.add(member.range(), member.references.dynamic);
            let entry = &mut table[id];
            let device = entry.device().unwrap_or_default();
            entry.references.dynamic = entry.references.dynamic.saturating_add(member.references.dynamic);
            for held in &member.attachments {
                let attached = Attachment { offset: member.start - object.start + held.offset, ..*held };
                // In order, as the members are.
                entry.attachments.push(attached);
                self.plan.pointer(device.offset(attached.offset as u64), attached.value);
            }
        }
    }

    /// Records the same for entry `i`, which names no member by itself: its structure is named by the same directive.
    pub(super) fn count_pointer_member(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        if self.is_pointer_member(i)?
            && let Some(id) = self.find(range)?
        {
            self.count_member(id, range);
        }
        Ok(())
    }

    /// Records that `enter data` has counted a structure for the member at `range`.
    pub(super) fn count_member(&mut self, id: EntryId, range: HostRange) {
        let table = &mut self.state.table;
        let entry = &table[id];
        if self.mode == Mode::Enter && !entry.is_static() && range.len < entry.len() {
            table.members.add(range, 1);
            self.region.members.counted.push(range);
        }
    }
}

impl ConstructExit<'_> {
    /// Releases what names all of an entry or a part of it. A member of a structure ends the references that it has added: with
    /// `finalize` all of them, otherwise one. Without any, the part counts for the entry, unless it `is_pointer`: GCC names a pointer beside
    /// the array that it points to.
    pub(crate) fn give_up_part(
        &mut self,
        id: EntryId,
        part: HostRange,
        out: Option<(HostRange, Option<Spaced>)>,
        finalize: bool,
        is_pointer: bool,
    ) {
        let table = &mut self.state.table;
        let is_member =
            table.get(id).is_some_and(|entry| part.len < entry.len()) && (is_pointer || table.members.of(part) > 0);
        if !is_member {
            return self.give_up(id, out, false, finalize);
        }
        let references = table.members.take(part, if finalize { u32::MAX } else { 1 });
        for _ in 0..references {
            self.give_up(id, out, false, false);
        }
        if let Some((range, spaced)) = out.filter(|_| finalize && references > 0)
            && self.state.table.get(id).is_some_and(|entry| entry.references.structured == 0)
        {
            // The member ends though its structure stays.
            self.copy_out_elements(id, range, spaced);
        }
    }

    /// Undoes [`Mapping::inherit_pointer_members`]; `region` still holds the objects.
    pub(super) fn disinherit_pointer_members(&mut self, members: &[Entry]) {
        for member in members {
            if let Found::Whole(id) = self.state.table.find(member.start, member.len()) {
                let entry = &mut self.state.table[id];
                entry.references.dynamic = entry.references.dynamic.saturating_sub(member.references.dynamic);
                self.state.table.members.take(member.range(), member.references.dynamic);
            }
        }
    }

    /// Undoes [`Mapping::take_pointer_members`], after the objects are removed.
    pub(super) fn restore_pointer_members(&mut self, members: &[Entry]) {
        for member in members {
            // It is present only if the device was shut down and used again meanwhile.
            if self.state.table.find(member.start, member.len()) == Found::Absent {
                self.state.table.insert(member.clone());
            }
        }
    }
}

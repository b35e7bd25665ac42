//! Absent objects of which a compute construct names members (`copy(p->a)`, in a method `copy(a)`).
//!
//! GCC's entries say which object the members belong to, and from version 13 on make the region's pointer to the object from
//! that. GCC 12 passes the pointer by value if the object is `this` or a Fortran pointer. In Fortran it names the object once
//! for each member. So the members of one object keep their distances whichever clause names them, and such a pointer
//! leads to where the object would be.

use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Mode, Stop};
use super::pointer::apart;
use super::region::{Form, OBJECT_MAX, Object, UnmappedPointer};
use crate::present::{Attachment, Backing, Found};
use accord_types::{DevicePtr, HostRange};

/// A place whose bytes are copied separately.
const RESERVED: Data = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Create };

impl Mapping<'_, '_> {
    /// Returns the block that an earlier entry has made for members of the same object, if these are among them.
    pub(super) fn object_with(&self, base: usize, members: HostRange) -> Option<Object> {
        let holds = |all: HostRange| all.start <= members.start && members.start + members.len <= all.start + all.len;
        self.region.members.objects.iter().find(|object| object.base == base && holds(object.members)).copied()
    }

    /// Returns the range of absent members and of those that entries from `next` on name of the same object.
    fn with_later_members(&self, base: usize, members: HostRange, next: usize) -> Result<HostRange, Stop> {
        let (mut start, mut end) = (members.start, members.start + members.len);
        let count = if self.mode == Mode::Launch { self.entries.hosts.len() } else { 0 };
        for j in next..count {
            if self.kind(j)? != Kind::Struct || self.entries.hosts[j] != base {
                continue;
            }
            for k in j + 1..count.min(j.saturating_add(1).saturating_add(self.entries.sizes[j])) {
                if let Some((range, data)) = self.member(k)?
                    && data.absent == Absent::Create
                    && self.state.table.find(range.start, range.len) == Found::Absent
                {
                    (start, end) = (start.min(range.start), end.max(range.start + range.len));
                }
            }
        }
        Ok(HostRange { start, len: end - start })
    }

    /// Creates a block for absent members, and for those that entries from `next` on name of the same object.
    pub(super) fn new_object(&mut self, base: usize, members: HostRange, next: usize) -> Result<Object, Stop> {
        let members = self.with_later_members(base, members, next)?;
        let pointers = self.absent_pointers(base)?;
        let Some(last) = pointers.iter().max() else {
            let block = self.allocate_for(members)?;
            let object = Object { base, members, block, is_held: false };
            if self.mode == Mode::Launch {
                self.region.members.objects.push(object);
            }
            return Ok(object);
        };
        let end = (members.start + members.len).max(last + Attachment::BYTES);
        let members = HostRange { start: base, len: end - base };
        let block = self.allocate_for(members)?;
        let object = Object { base, members, block, is_held: true };
        self.region.members.objects.push(object);
        for (nth, start) in pointers.into_iter().enumerate() {
            if nth > 0 {
                self.state.memory.share(block);
            }
            let device = DevicePtr(object.distance().wrapping_add(start as u64));
            self.create(device, Backing::Block(block), HostRange { start, len: Attachment::BYTES }, RESERVED)?;
        }
        // What lies between is as in the program.
        self.copy_in(block, members)?;
        Ok(object)
    }

    /// Returns the places of an object's pointers that the construct attaches (`copy(p->x[0:n])`), if they are
    /// neither present nor named by it.
    fn absent_pointers(&self, base: usize) -> Result<Vec<usize>, Stop> {
        let mut found = Vec::new();
        let count =
            if self.mode == Mode::Launch && !self.device.rules.maps_unmapped { self.entries.hosts.len() } else { 0 };
        for j in 0..count {
            let at = self.entries.hosts[j];
            let near = at.checked_sub(base).is_some_and(|distance| distance < OBJECT_MAX);
            if near
                && self.kind(j)? == Kind::Attach
                && self.object_of(at)? == Some(base)
                && !self.is_named(at)?
                && self.state.table.find(at, Attachment::BYTES) == Found::Absent
                && self.host.check_source(HostRange { start: base, len: at + Attachment::BYTES - base }).is_ok()
                && !found.contains(&at)
            {
                found.push(at);
            }
        }
        Ok(found)
    }

    /// Returns the nearest object below an address that the construct names.
    fn object_of(&self, at: usize) -> Result<Option<usize>, Stop> {
        let mut nearest = None;
        for j in 0..self.entries.hosts.len() {
            let host = self.entries.hosts[j];
            if host <= at && nearest < Some(host) && matches!(self.kind(j)?, Kind::Struct | Kind::Zero) {
                nearest = Some(host);
            }
        }
        Ok(nearest)
    }

    /// Whether a member or a descriptor includes a pointer.
    fn is_named(&self, at: usize) -> Result<bool, Stop> {
        for j in 0..self.entries.hosts.len() {
            let (host, len) = (self.entries.hosts[j], self.entries.len_of(j));
            let overlaps = host < at + Attachment::BYTES && at < host.saturating_add(len);
            if overlaps && matches!(self.kind(j)?, Kind::Data(_) | Kind::Descriptor) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Resolves pointers by value to objects of which the construct names members, after all its data.
    pub(super) fn settle_objects(&mut self) -> Result<(), Stop> {
        let mut k = 0;
        while k < self.region.unmapped_pointers.len() {
            let unmapped_pointer = self.region.unmapped_pointers[k];
            let settled = match unmapped_pointer.form {
                Form::Scalar(_) => self.give_object(unmapped_pointer)?,
                Form::Slot => self.bring_pointers(unmapped_pointer)?,
                Form::Present(..) | Form::Other => false,
            };
            if settled {
                self.region.unmapped_pointers.remove(k);
            } else {
                k += 1;
            }
        }
        Ok(())
    }

    fn give_object(&mut self, unmapped_pointer: UnmappedPointer) -> Result<bool, Stop> {
        let Some(device) = self.object_at(unmapped_pointer.pointer)? else { return Ok(false) };
        self.value(unmapped_pointer.entry, device)?;
        Ok(true)
    }

    /// Handles an object of which the construct names the targets of pointers in it (`copy(p->x[0:n])`). GCC 12 has the pointers attached, but maps
    /// nothing that contains them. So the object is present for this launch, up to the last of them.
    fn bring_pointers(&mut self, unmapped_pointer: UnmappedPointer) -> Result<bool, Stop> {
        // Then all of it is copied.
        if self.device.rules.maps_unmapped {
            return Ok(false);
        }
        let start = unmapped_pointer.pointer;
        if let Some(device) = self.object_at(start)? {
            if let Some(absent) = self.absent_pointers(start)?.first() {
                let of = |start| HostRange { start, len: Attachment::BYTES };
                return Err(apart(of(start), of(*absent)).into());
            }
            self.slot(unmapped_pointer.entry, device);
            return Ok(true);
        }
        let mut end = start;
        for j in 0..self.entries.hosts.len() {
            let host = self.entries.hosts[j];
            let len = match self.kind(j)? {
                Kind::Attach => Attachment::BYTES,
                Kind::Descriptor => self.entries.sizes[j],
                _ => continue,
            };
            let nearest = self
                .region
                .unmapped_pointers
                .iter()
                .filter(|other| other.pointer <= host)
                .map(|other| other.pointer)
                .max();
            if nearest == Some(start) && host - start < OBJECT_MAX {
                end = end.max(host.saturating_add(len));
            }
        }
        let range = HostRange { start, len: end - start };
        if range.len == 0 || self.state.table.find(start, range.len) != Found::Absent {
            return Ok(false);
        }
        let copied = Data { copy_in: true, copy_out: false, always: false, absent: Absent::Create };
        let device = self.make_present(range, copied)?;
        self.slot(unmapped_pointer.entry, device.0);
        Ok(true)
    }

    /// Returns the region's address of the object at an address of the program, if the construct names something in it.
    fn object_at(&self, pointer: usize) -> Result<Option<u64>, Stop> {
        let mut found = None;
        for i in 0..self.entries.hosts.len() {
            if self.entries.hosts[i] != pointer || self.kind(i)? != Kind::Struct {
                continue;
            }
            let device = self.block.value(i);
            // Some members are present at other distances.
            if device == 0 || device == pointer as u64 || found.is_some_and(|other| other != device) {
                return Ok(None);
            }
            found = Some(device);
        }
        Ok(found)
    }
}

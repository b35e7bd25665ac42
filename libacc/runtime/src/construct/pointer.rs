//! Enters a construct, second pass: pointers, descriptors and members of objects
//! (OpenACC 3.3, 2.6.4 and 2.7.2, attach action).

use super::descriptor::Descriptor;
use super::kind::{Absent, Data, Kind};
use super::map::{Mapping, Mode, Stop, is_nothing};
use super::missing::not_present;
use super::private::Target;
use crate::plan::Step;
use crate::present::{Attachment, Backing, EntryId, Found};
use accord_types::{DevicePtr, Error, ErrorCode, HostRange};

impl Mapping<'_, '_> {
    /// Attaches, detaches or translates the pointer of entry `i` in the second pass. Returns the next entry.
    pub(super) fn pointer_entry(&mut self, i: usize, kind: Kind) -> Result<usize, Stop> {
        let (host, bias) = (self.entries.hosts[i], self.entries.sizes[i]);
        match kind {
            _ if is_nothing(host) => {}
            Kind::Pointer => {
                let raw = self.read_pointer(host);
                let value = if i > 0 && self.kind(i - 1)? == Kind::DevicePtr {
                    Target::Device(raw)
                } else if let Some(private) = self.private_target(raw) {
                    private
                } else {
                    let absent = if self.is_skipped(i)? { raw } else { 0 };
                    Target::Device(self.target(raw, bias)?.unwrap_or(absent))
                };
                self.pointer_variable(i, host, value)?;
            }
            Kind::AlwaysPointer => {
                let before = i.checked_sub(1).map_or(0, |before| self.entries.hosts[before]);
                let value = self.target(before as u64, 0)?.map_or(0, |device| device.wrapping_sub(bias as u64));
                self.pointer_variable(i, host, Target::Device(value))?;
            }
            Kind::Descriptor => return self.descriptor(i),
            Kind::Attach => {
                if let Some(id) = self.holder_of(host)? {
                    self.slot(i, self.translate(id, host).0);
                    let before = self.region.attachments.held.len();
                    self.attach(id, host, bias)?;
                    if self.mode == Mode::Launch && !self.has_target_entry(i)? {
                        let new = self.region.attachments.held.get(before).copied();
                        self.region.attachments.by_clause.extend(new);
                    }
                }
            }
            _ => {}
        }
        Ok(i + 1)
    }

    /// Whether the pointer or descriptor of entry `i` is of a `no_create` clause: of absent data the region uses the program's address.
    fn is_skipped(&self, i: usize) -> Result<bool, Stop> {
        let Some(before) = i.checked_sub(1) else { return Ok(false) };
        Ok(matches!(self.kind(before)?, Kind::Data(data) if data.absent == Absent::Skip))
    }

    /// Whether the pointer of entry `i` is attached because its target is named (`copy(s.p[0:n])`): GCC puts the target's entry just before it.
    fn has_target_entry(&self, i: usize) -> Result<bool, Stop> {
        let Some(before) = i.checked_sub(1) else { return Ok(false) };
        let start = (self.read_pointer(self.entries.hosts[i]) as usize).wrapping_add(self.entries.sizes[i]);
        Ok(matches!(self.kind(before)?, Kind::Data(_) | Kind::Zero) && self.entries.hosts[before] == start)
    }

    /// Performs the attach action for the pointer variable at `host` inside an entry. A null pointer becomes one on the device,
    /// uncounted. Without a present target this has no effect.
    pub(crate) fn attach(&mut self, id: EntryId, host: usize, bias: usize) -> Result<(), Stop> {
        let raw = self.read_pointer(host);
        if raw == 0 {
            self.set_pointer(id, host, 0, false, true);
        } else if let Some(value) = self.target(raw, bias)? {
            self.set_pointer(id, host, value, true, true);
            self.bring_bounds(id, host);
        }
        Ok(())
    }

    /// Copies a Fortran pointer's descriptor, which is attached with it (OpenACC 3.3, 2.7.2). GCC names only its address: the device gets the
    /// program's bounds.
    fn bring_bounds(&mut self, id: EntryId, host: usize) {
        let mut bytes = [0; Descriptor::MAX];
        let space = (self.state.table[id].end - host).min(Descriptor::MAX);
        if space < Descriptor::MIN {
            return;
        }
        self.host.read(host, &mut bytes[..space]);
        if let Some(len) = Descriptor::len(&bytes[..space]) {
            let bounds = host + Attachment::BYTES;
            let dst = self.translate(id, bounds);
            self.plan.bytes(dst, &bytes[Attachment::BYTES..len]);
        }
    }

    /// Restores device addresses in attached pointers after a copy over part of an entry.
    #[inline]
    pub(super) fn repoint(&mut self, id: EntryId, range: HostRange) -> Result<(), Stop> {
        if !self.state.table[id].attachments.is_empty() {
            self.repoint_attached(id, range);
        }
        if self.state.pointers.is_empty() { Ok(()) } else { self.reattach_declared(range) }
    }

    fn repoint_attached(&mut self, id: EntryId, range: HostRange) {
        let entry = &mut self.state.table[id];
        let (start, end) = (entry.start, range.start.saturating_add(range.len));
        let device = entry.device().unwrap_or_default();
        let touched = |a: &Attachment| start + a.offset < end && range.start < start + a.offset + Attachment::BYTES;
        entry.attachments.retain(|a| a.count > 0 || !touched(a));
        for attachment in entry.attachments.iter().filter(|a| touched(a)) {
            self.plan.pointer(device.offset(attachment.offset as u64), attachment.value);
        }
    }

    /// Implements `host_data use_device`: passes device addresses to the caller. All are found before any is written.
    pub(super) fn use_device(&mut self) -> Result<(), Stop> {
        if self.mode != Mode::Region {
            return Ok(());
        }
        for write in [false, true] {
            for i in 0..self.entries.hosts.len() {
                let host = self.entries.hosts[i];
                let Kind::UseDevice { if_present } = self.kind(i)? else { continue };
                if host == 0 {
                    continue;
                }
                match self.state.table.find_pointer(host) {
                    Some(id) => {
                        let id = self.ready(id)?;
                        if write {
                            self.entries.hosts[i] = self.translate(id, host).0 as usize;
                        }
                    }
                    // If the device accesses host memory, the host address is right, as in shared memory.
                    None if if_present || self.device.uses_as_is() => {}
                    None => return Err(not_present(HostRange { start: host, len: 1 }, &self.state.table).into()),
                }
            }
        }
        Ok(())
    }

    /// Maps the members of one object, so that they have the same distances from each other on the device. `i` is the object's entry. Returns the
    /// entry after its members.
    pub(super) fn structure(&mut self, i: usize) -> Result<usize, Stop> {
        let after = i.saturating_add(1).saturating_add(self.entries.sizes[i]);
        if after > self.entries.hosts.len() {
            let cause =
                format!("an object with {} members in {} entries", self.entries.sizes[i], self.entries.hosts.len());
            return Err(Error::new(ErrorCode::InvalidArgument, cause).into());
        }
        // The difference of host and device addresses, once a member is found.
        let mut distance: Option<(u64, HostRange)> = None;
        let mut absent: Option<(usize, usize, usize)> = None;
        for j in i + 1..after {
            let Some((range, data)) = self.member(j)? else { continue };
            match self.find(range)? {
                Some(id) => {
                    let here = self.translate(id, range.start).0.wrapping_sub(range.start as u64);
                    match distance {
                        Some((other, first)) if other != here => return Err(apart(first, range).into()),
                        _ => distance = Some((here, range)),
                    }
                }
                None if data.absent == Absent::Skip => {}
                None if data.absent == Absent::Fail => {
                    return Err(not_present(range, &self.state.table).into());
                }
                None => {
                    let (start, end, count) = absent.unwrap_or((usize::MAX, 0, 0));
                    absent = Some((start.min(range.start), end.max(range.start + range.len), count + 1));
                }
            }
        }
        let base = self.entries.hosts[i];
        let mut shared = false;
        let block = match (absent, distance) {
            (Some((start, ..)), Some((_, present))) => {
                return Err(apart(present, HostRange { start, len: 1 }).into());
            }
            (Some((start, end, _)), None) => {
                let members = HostRange { start, len: end - start };
                let object = self.object_with(base, members);
                shared = object.is_some();
                let object = match object {
                    Some(object) => object,
                    None => self.new_object(base, members, after)?,
                };
                shared |= object.is_held;
                distance = Some((object.distance(), HostRange { start, len: 1 }));
                Some(object.block)
            }
            (None, _) => None,
        };
        let distance = distance.map_or(0, |(distance, _)| distance);
        for j in i + 1..after {
            let Some((range, data)) = self.member(j)? else { continue };
            let device = DevicePtr(distance.wrapping_add(range.start as u64));
            match (self.find(range), block) {
                (Ok(None), Some(block)) if data.absent == Absent::Create => {
                    if shared {
                        self.state.memory.share(block);
                    }
                    shared = true;
                    self.create(device, Backing::Block(block), range, data)?;
                    if self.is_pointer_member(j)?
                        && let Some(created) = self.region.mapped.last()
                    {
                        self.state.table[created.id].pointer_member = true;
                    }
                    self.slot(j, device.0);
                }
                (found, _) => {
                    // An error of a member, or a member that is named twice.
                    if let Some(id) = found? {
                        self.data(j, range, data)?;
                        self.count_member(id, range);
                    }
                }
            }
        }
        let object = distance.wrapping_add(base as u64);
        self.slot(i, object);
        // GCC 12's region finds a pointer to the object in the slot of one of its members, and no version finds a member there.
        for j in i + 1..after {
            if self.mode == Mode::Launch && self.block.is_set(j) {
                self.slot(j, object);
            }
        }
        Ok(after)
    }

    pub(super) fn member(&self, j: usize) -> Result<Option<(HostRange, Data)>, Stop> {
        let range = HostRange { start: self.entries.hosts[j], len: self.entries.len_of(j) };
        match self.kind(j)? {
            Kind::Data(data) if range.start != 0 && range.len > 0 => Ok(Some((range, data))),
            // From GCC 14 on. It is only reserved and counted here: the second pass copies its bytes.
            Kind::Descriptor if range.start != 0 && range.len > 0 => {
                let reserved = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Create };
                Ok(Some((range, reserved)))
            }
            Kind::Data(_) | Kind::Zero | Kind::Descriptor => Ok(None),
            other => {
                let cause = format!("an object's member is of kind {other:?}");
                Err(Error::new(ErrorCode::InvalidArgument, cause).into())
            }
        }
    }

    /// Handles a Fortran array descriptor and the pointers that follow it: the program's bytes, with device addresses
    /// instead of the pointers.
    fn descriptor(&mut self, i: usize) -> Result<usize, Stop> {
        let range = HostRange { start: self.entries.hosts[i], len: self.entries.sizes[i] };
        if range.len == 0 {
            return Ok(i + 1);
        }
        let place = match self.state.table.find(range.start, range.len) {
            Found::Whole(id) => Some(self.ready(id)?),
            Found::Absent | Found::Partly(_) => None,
        };
        if place.is_none() && self.mode != Mode::Launch {
            return Ok(i + 1);
        }
        let at = self.plan.bytes.len();
        self.plan.bytes.resize(at + range.len, 0);
        self.host.read(range.start, &mut self.plan.bytes[at..]);
        if let Some(id) = place {
            let entry = &self.state.table[id];
            let offset = range.start - entry.start;
            for attached in &entry.attachments {
                if attached.offset >= offset && attached.offset + Attachment::BYTES <= offset + range.len {
                    let bytes = &mut self.plan.bytes[at + attached.offset - offset..][..Attachment::BYTES];
                    bytes.copy_from_slice(&attached.value.to_ne_bytes());
                }
            }
        }
        let mut next = i + 1;
        while next < self.entries.hosts.len() {
            let (host, bias) = (self.entries.hosts[next], self.entries.sizes[next]);
            let kind = self.kind(next)?;
            let inside = host >= range.start && host.saturating_add(Attachment::BYTES) <= range.start + range.len;
            if !inside || !matches!(kind, Kind::Pointer | Kind::Attach) {
                break;
            }
            let raw = self.read_pointer(host);
            let target = self.target(raw, bias)?;
            let value = match (kind, target) {
                (_, Some(value)) => Some(value),
                (Kind::Pointer, None) => Some(if self.is_skipped(i)? { raw } else { 0 }),
                (_, None) => None,
            };
            if let Some(value) = value {
                let bytes = &mut self.plan.bytes[at + host - range.start..][..Attachment::BYTES];
                bytes.copy_from_slice(&value.to_ne_bytes());
                if let Some(id) = place {
                    self.set_pointer(id, host, value, kind == Kind::Attach && raw != 0, false);
                }
            }
            next += 1;
        }
        if let Some(id) = place {
            let dst = self.translate(id, range.start);
            self.plan.before.push(Step::Bytes { dst, at, len: range.len });
            for j in i..next {
                self.slot(j, self.translate(id, self.entries.hosts[j]).0);
            }
        } else {
            self.private_descriptor(i..next, (range.start, range.len), at)?;
        }
        Ok(next)
    }

    /// Provides the device's copy of a pointer variable: in place if it is present, otherwise for this launch only.
    fn pointer_variable(&mut self, i: usize, host: usize, target: Target) -> Result<(), Stop> {
        if let Some(id) = self.holder_of(host)? {
            let value = self.absolute(target)?;
            self.set_pointer(id, host, value, false, true);
            self.slot(i, self.translate(id, host).0);
        } else if self.mode == Mode::Launch {
            self.private_pointer(i, host, target)?;
        }
        Ok(())
    }

    /// The entry that holds the pointer variable at `host`.
    pub(crate) fn holder_of(&self, host: usize) -> Result<Option<EntryId>, Stop> {
        match self.state.table.find(host, Attachment::BYTES) {
            Found::Whole(id) => self.ready(id).map(Some),
            Found::Absent | Found::Partly(_) => Ok(None),
        }
    }

    /// Returns the value of the device's pointer for a host pointer `raw` whose target's section starts `bias` bytes
    /// on.
    fn target(&self, raw: u64, bias: usize) -> Result<Option<u64>, Stop> {
        if raw == 0 {
            return Ok(None);
        }
        let address = (raw as usize).wrapping_add(bias);
        if let Some(id) = self.state.table.find_pointer(address) {
            let id = self.ready(id)?;
            return Ok(Some(self.translate(id, address).0.wrapping_sub(bias as u64)));
        }
        // A device address stands for itself.
        Ok(self.state.memory.block_of(address as u64).map(|_| raw))
    }

    /// Records what the device's pointer at `host` holds. Stores it, unless it is known to be there or `store` is
    /// false. `held` counts an attach action.
    pub(super) fn set_pointer(&mut self, id: EntryId, host: usize, value: u64, held: bool, store: bool) {
        let device = self.translate(id, host);
        let entry = &mut self.state.table[id];
        let offset = host - entry.start;
        let changed = match entry.attachment(offset) {
            Ok(at) => {
                let attached = &mut entry.attachments[at];
                let changed = attached.value != value;
                if changed {
                    *attached = Attachment { offset, count: 0, value };
                }
                attached.count += u32::from(held);
                changed
            }
            Err(at) => {
                entry.attachments.insert(at, Attachment { offset, count: u32::from(held), value });
                true
            }
        };
        if held {
            self.region.attachments.held.push((id, offset));
        }
        if changed {
            self.region.attachments.stored.push((id, offset));
            if store {
                self.plan.pointer(device, value);
            }
        }
    }
}

pub(super) fn apart(first: HostRange, second: HostRange) -> Error {
    let more = format!(
        "and {:#x} belong to one object, and each is in device memory of its own, or one is absent",
        second.start
    );
    Error::about(ErrorCode::PartlyPresent, first, "not present together with the object's other members", more)
        .remedy("map the whole object before its members")
}

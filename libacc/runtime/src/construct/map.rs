//! Enters a construct: makes data present, counts its holders, fills the slots.
//!
//! Has two passes: first all data, then all pointers, since a pointer may come before the object that
//! contains it. Everything is decided under the device's lock; [`crate::plan::Plan`] lists the resulting operations.

use super::block::Block;
use super::entries::Entries;
use super::kind::{Absent, Data, Kind};
use super::missing::partly_present;
use super::names::Names;
use super::region::{Form, Mapped, Region};
use crate::device::{Device, DeviceData};
use crate::memory::{BlockRequest, Blocked, Purpose, Range};
use crate::plan::{Plan, ProfilingRecord, Step};
use crate::ports::{HostMemory, ReadWhen};
use crate::present::{Backing, Counter, DataLocation, Entry, EntryId, Found, Lifetime};
use crate::prof::ProfilingEvent;
use crate::queues::Queues;
use accord_types::{DevicePtr, Error, ErrorCode, HostRange, QueueId};

/// Largest copied-in value that is part of a launch's arguments.
pub(super) const PRIVATE_MAX: usize = 256;

/// Largest scalar: what GCC passes by an implicit mapping is no larger.
const SCALAR_MAX: usize = 16;

/// The kind of construct that is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// A compute construct: has slots, and leaves at once.
    Launch,
    /// A data region.
    Region,
    /// `enter data`, `declare` and the equivalent routines.
    Enter,
}

/// The reason why a construct could not be entered yet. All of it is undone; the caller acts on it without the lock
/// and tries again.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Data of another thread, or memory, is in transit: wait for it.
    Arrival,
    /// Find the device's address of the global variable at this address.
    Resolve(usize),
    /// Wait for these queues.
    Wait(Vec<QueueId>),
    /// Map more memory.
    Grow(Range),
    /// Return memory, and wait until that is done.
    Shrink(Vec<Range>),
    /// Wait for these queues of other devices.
    WaitElsewhere(Vec<(usize, QueueId)>),
    /// It fails.
    Fail(Error),
}

/// The history of attempts to enter a construct.
#[derive(Default)]
pub(crate) struct EnterAttempts {
    /// Queues whose operations before the construct are done.
    pub(crate) waited: Vec<QueueId>,
    /// Whether the construct has waited for other devices' copies to the program's memory that it reads.
    pub(crate) waited_elsewhere: bool,
    /// The reason why the device maps no more memory.
    pub(crate) refused: Option<Error>,
}

/// One construct being entered.
pub(crate) struct Mapping<'a, 'e> {
    pub(crate) device: &'a Device,
    pub(crate) host: &'a dyn HostMemory,
    pub(crate) state: &'a mut DeviceData,
    pub(crate) queues: &'a mut Queues,
    pub(crate) queue: QueueId,
    pub(crate) tried: &'a EnterAttempts,
    pub(crate) mode: Mode,
    pub(crate) entries: &'a mut Entries<'e>,
    pub(crate) plan: &'a mut Plan,
    pub(crate) region: &'a mut Region,
    pub(crate) block: &'a mut Block,
    pub(crate) names: &'a mut Names,
}

impl Mapping<'_, '_> {
    /// Enters the construct. After an error the caller undoes what [`Region`] has recorded.
    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        let count = self.entries.hosts.len();
        if self.mode == Mode::Launch {
            self.block.begin(count)?;
        }
        self.names.clear();
        let taken = self.take_scalars_along()?;
        let (mut i, mut pointers) = (0, false);
        while i < count {
            if taken && self.block.is_set(i) {
                i += 1;
                continue;
            }
            let kind = self.kind(i)?;
            pointers |= kind.follows_data() || kind == Kind::Struct;
            i = self.data_entry(i, kind)?;
        }
        if !self.region.unmapped_pointers.is_empty() {
            self.settle_unmapped_pointers()?;
        }
        let mut i = if pointers { 0 } else { count };
        while i < count {
            i = self.pointer_entry(i, self.kind(i)?)?;
        }
        self.use_device()?;
        self.note_block_pointers();
        self.send_together();
        self.send_write_backs();
        self.settle_if_silent();
        Ok(())
    }

    /// Lets other threads use new data at once, if the device gets no commands.
    pub(crate) fn settle_if_silent(&mut self) {
        if self.plan.is_silent() {
            for id in self.plan.arrivals.drain(..) {
                self.state.table[id].arriving = None;
            }
        }
    }

    pub(super) fn kind(&self, i: usize) -> Result<Kind, Stop> {
        Ok(Kind::decode(self.entries.kinds[i])?)
    }

    pub(super) fn counter(&self) -> Counter {
        if self.mode == Mode::Enter { Counter::Dynamic } else { Counter::Structured }
    }

    /// Handles entry `i` in the first pass, if it is about data. Returns the next entry.
    fn data_entry(&mut self, i: usize, kind: Kind) -> Result<usize, Stop> {
        let (host, size) = (self.entries.hosts[i], self.entries.sizes[i]);
        match kind {
            Kind::Struct => return self.structure(i),
            // A null address is nothing, unless declared otherwise: absent Fortran arguments arrive so.
            Kind::Value if self.mode == Mode::Launch => self.block.set(i, host as u64),
            _ if is_nothing(host) => {}
            Kind::Data(_) if self.entries.len_of(i) == 0 => self.zero(i, host)?,
            Kind::Zero => self.zero(i, host)?,
            Kind::Data(data) => {
                let range = HostRange { start: host, len: size };
                if let Some(within) = self.entries.within(i) {
                    self.somewhere(i, within, data)?;
                } else if let Some(spaced) = self.entries.spaced(i) {
                    self.spaced(i, spaced, data)?;
                } else if i == 0 && self.is_frame(range, data) {
                    self.frame(range, data)?;
                } else {
                    self.data(i, range, data)?;
                    self.count_pointer_member(i, range)?;
                }
            }
            Kind::FirstPrivate if self.mode == Mode::Launch && size > 0 => {
                self.by_value(i, HostRange { start: host, len: size })?;
            }
            Kind::DevicePtr => self.device_ptr(i)?,
            Kind::Release { .. } | Kind::Detach { .. } | Kind::DeleteZero => {
                let cause = format!("entry {i} of the construct ends data where data begins");
                return Err(Error::new(ErrorCode::InvalidArgument, cause).into());
            }
            _ => {}
        }
        Ok(i + 1)
    }

    pub(crate) fn data(&mut self, i: usize, range: HostRange, data: Data) -> Result<(), Stop> {
        self.take_pointer_members(range, data)?;
        if let Some(pointer) = self.followed(range)
            && data.absent != Absent::Skip
            && self.follow(i, range, pointer)?
        {
            return Ok(());
        }
        let device = match (self.find(range)?, data.absent) {
            (Some(id), _) => {
                self.hold(id, range, data);
                let device = self.translate(id, range.start);
                if data.always && data.copy_in && !self.state.table[id].is_constant() {
                    self.copy_in(device, range)?;
                    self.count(id, range.len);
                    self.repoint(id, range)?;
                }
                device
            }
            (None, Absent::Fail) if self.is_lendable(range) => {
                if self.mode == Mode::Launch {
                    self.unmapped_pointer(i, range.start, Form::Slot);
                }
                return Ok(());
            }
            (None, Absent::Fail | Absent::Skip) => return self.pointee_or_absent(i, range, data),
            (None, Absent::Create) => {
                self.check_program_memory(range)?;
                // An observer is notified of small arrays as of large ones: they are created and deleted then.
                let reported = self.plan.profiling.is_watched && range.len > SCALAR_MAX;
                if !reported && self.stands_alone(i, range, data)? {
                    if !data.copy_out {
                        return self.by_value(i, range);
                    }
                    if let Some(found) = self.kernels_pointee(i, range)? {
                        return self.point(i, found);
                    }
                    if self.is_grouped(i, range.len) {
                        return self.take_along(i, range);
                    }
                    if self.is_written_back(range.len) {
                        return self.write_back(i, range);
                    }
                }
                self.make_present(range, data)?
            }
        };
        self.slot(i, device.0);
        if self.state.pointers.is_empty() { Ok(()) } else { self.attach_declared(range) }
    }

    /// Makes absent data present.
    pub(super) fn make_present(&mut self, range: HostRange, data: Data) -> Result<DevicePtr, Stop> {
        let (place, backing) = self.memory_for(range)?;
        self.create(place, backing, range, data)
    }

    /// Handles a section without bytes: the slot gets the device's address if there is one.
    fn zero(&mut self, i: usize, host: usize) -> Result<(), Stop> {
        if self.mode == Mode::Enter {
            return Ok(());
        }
        let range = HostRange { start: host, len: 1 };
        if let Found::Whole(_) = self.state.table.find(host, 1)
            && let Some(id) = self.find(range)?
        {
            let nothing = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Skip };
            self.hold(id, range, nothing);
            self.slot(i, self.translate(id, host).0);
        } else if self.state.memory.block_of(host as u64).is_some() {
            // A device address without a `deviceptr` clause.
            self.slot(i, host as u64);
        } else if self.mode == Mode::Launch {
            self.unmapped_pointer(i, host, Form::Slot);
        }
        Ok(())
    }

    /// Handles `deviceptr`. C: the entry is the pointer variable. Fortran: the entry is the device address itself and the next one
    /// the pointer variable.
    fn device_ptr(&mut self, i: usize) -> Result<(), Stop> {
        let (host, size) = (self.entries.hosts[i], self.entries.sizes[i]);
        let fortran = i + 1 < self.entries.hosts.len() && self.kind(i + 1)? == Kind::Pointer;
        self.check_device_ptr(host, fortran)?;
        match (self.mode, fortran) {
            (Mode::Enter, _) => {}
            (Mode::Launch, false) if self.device.rules.maps_unmapped => {
                self.by_value(i, HostRange { start: host, len: 8 })?;
            }
            (Mode::Launch, false) => self.private(i, HostRange { start: host, len: 8 })?,
            (Mode::Launch, true) => self.slot(i, host as u64),
            (Mode::Region, false) => {
                // Constructs inside the region refer to the variable itself.
                let range = HostRange { start: host, len: 8 };
                let plain = Data { copy_in: true, copy_out: false, always: true, absent: Absent::Create };
                self.data(i, range, plain)?;
            }
            (Mode::Region, true) if size > 0 => {
                // Constructs inside the region refer to the device address as if it were the host's.
                let range = HostRange { start: host, len: size };
                let plain = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Create };
                match self.find(range)? {
                    Some(id) => self.hold(id, range, plain),
                    None => {
                        self.create(DevicePtr(host as u64), Backing::Foreign, range, plain)?;
                    }
                }
            }
            (Mode::Region, true) => {}
        }
        Ok(())
    }

    /// Whether absent copied-in data may have a place of its own for this launch: it is small, and nothing else in the
    /// construct means the same bytes.
    pub(super) fn stands_alone(&mut self, i: usize, range: HostRange, data: Data) -> Result<bool, Stop> {
        let large = range.len > PRIVATE_MAX;
        if self.mode != Mode::Launch || !data.copy_in || data.always || large || self.is_declared_target(range) {
            return Ok(false);
        }
        let next = i + 1;
        if next < self.entries.hosts.len() && self.kind(next)?.follows_data() {
            return Ok(false);
        }
        self.know_names()?;
        if self.names.refer_to(range) {
            return Ok(false);
        }
        let end = range.start + range.len;
        let others = if self.names.are_apart() { 0 } else { self.entries.hosts.len() };
        for j in (0..others).filter(|j| *j != i) {
            let (start, size) = (self.entries.hosts[j], self.entries.len_of(j));
            if start < end
                && range.start < start.saturating_add(size)
                && matches!(self.kind(j)?, Kind::Data(_))
                && (size > PRIVATE_MAX || data.copy_out)
            {
                return Ok(false);
            }
        }
        if self.queue == QueueId::SYNC {
            return Ok(true);
        }
        Ok(!self.after_pending_copies(range)?)
    }

    /// Counts a holder of an entry and records what to do at the end.
    pub(super) fn hold(&mut self, id: EntryId, range: HostRange, data: Data) {
        let counter = self.counter();
        let entry = &mut self.state.table[id];
        entry.hold(counter);
        entry.used_by.insert(self.queue);
        let copy_out = data.copy_out && !entry.is_constant();
        self.region.mapped.push(Mapped { id, out: copy_out.then_some(range), spaced: None, always: data.always });
    }

    /// Creates present data at `device`, which the caller has found absent.
    pub(super) fn create(
        &mut self,
        device: DevicePtr,
        backing: Backing,
        range: HostRange,
        data: Data,
    ) -> Result<DevicePtr, Stop> {
        let mut entry = Entry::new(range, DataLocation::At(device), backing, Lifetime::Counted);
        if self.mode != Mode::Launch {
            entry.arriving = Some(self.plan.ticket);
        }
        let id = self.state.table.insert(entry);
        if self.region.call != 0 {
            self.state.table.note_origin(id, self.region.call);
        }
        if self.plan.profiling.is_watched {
            let (host, bytes) = (range.start, range.len as u64);
            if let Some(alloc) = self.plan.profiling.begins.last_mut().filter(|last| last.address == device) {
                alloc.host = host;
            }
            self.plan.profiling.begins.push(ProfilingRecord {
                what: ProfilingEvent::Create,
                host,
                address: device,
                bytes,
            });
        }
        self.hold(id, range, data);
        if self.mode != Mode::Launch {
            self.plan.arrivals.push(id);
        }
        if data.copy_in {
            self.copy_in(device, range)?;
            self.count(id, range.len);
        }
        if !self.region.members.replaced.is_empty() {
            self.inherit_pointer_members(id);
        }
        Ok(device)
    }

    /// Counts a copy of an entry's bytes, after which locking its pages may be worth it.
    pub(crate) fn count(&mut self, id: EntryId, bytes: usize) {
        let entry = &mut self.state.table[id];
        if self.device.rules.locks_pages && entry.moves(bytes) {
            // With the lock held: the construct that ends the entry unlocks the pages after this.
            self.device.register_pages(entry.range());
        }
    }

    /// Returns device memory for a new entry. Regions know a `link` variable's by its name.
    fn memory_for(&mut self, range: HostRange) -> Result<(DevicePtr, Backing), Stop> {
        let Some(link) = self.state.link(range).cloned() else {
            let block = self.allocate_for(range)?;
            return Ok((block, Backing::Block(block)));
        };
        let variable = link.device.ok_or(Stop::Resolve(range.start))?;
        let offset = (range.start - link.range.start) as u64;
        if !self.device.sees_named_memory_only() {
            return Ok((variable.offset(offset), Backing::Foreign));
        }
        let block = self.allocate_for(range)?;
        self.plan.pointer(variable, block.0.wrapping_sub(offset));
        Ok((block, Backing::Linked(block, variable)))
    }

    /// Returns device memory for present data.
    pub(crate) fn allocate_for(&mut self, range: HostRange) -> Result<DevicePtr, Stop> {
        self.allocate_wanted(BlockRequest { bytes: range.len as u64, purpose: Purpose::Data, host: range.start })
    }

    /// Returns device memory for other purposes than present data.
    pub(crate) fn allocate(&mut self, bytes: usize, purpose: Purpose) -> Result<DevicePtr, Stop> {
        self.allocate_wanted(BlockRequest { bytes: bytes as u64, purpose, host: 0 })
    }

    fn allocate_wanted(&mut self, wanted: BlockRequest) -> Result<DevicePtr, Stop> {
        let (address, bytes) = (self.take(wanted)?, wanted.bytes);
        if self.plan.profiling.is_watched {
            let happened = ProfilingRecord { what: ProfilingEvent::Alloc, host: 0, address, bytes };
            self.plan.profiling.begins.push(happened);
        }
        Ok(address)
    }

    /// Allocates memory whose allocation and release no observer is notified of.
    pub(super) fn allocate_unobserved(&mut self, bytes: usize, purpose: Purpose) -> Result<DevicePtr, Stop> {
        self.take(BlockRequest { bytes: bytes as u64, purpose, host: 0 })
    }

    fn take(&mut self, wanted: BlockRequest) -> Result<DevicePtr, Stop> {
        let DeviceData { memory, .. } = &mut *self.state;
        let refused = self.tried.refused.as_ref();
        let address = memory.take(wanted, self.queue, self.queues, refused, &mut self.plan.order.waits)?;
        if self.device.rules.checks_bounds && wanted.purpose != Purpose::Arguments {
            self.plan.patterns.push(address);
        }
        Ok(address)
    }

    /// A private copy of the program's bytes, for this launch only.
    pub(super) fn private(&mut self, i: usize, range: HostRange) -> Result<(), Stop> {
        let value = self.value_on_device(range)?;
        if value.is_none() {
            self.before_reading(range)?;
        }
        if value.is_none()
            && let Some(at) = self.block.reserve(range.len)
        {
            self.host.read(range.start, self.block.private(at, range.len));
            self.block.set_private(i, at);
            return Ok(());
        }
        let device = self.allocate(range.len, Purpose::Arguments)?;
        self.region.temporaries.push(device);
        self.plan.before.push(match value {
            Some(src) => Step::Copy { dst: device, src, len: range.len as u64 },
            // Too much for the launch, or a compiler temporary of any size: it is read now in either case.
            None => Step::In { dst: device, src: range, when: ReadWhen::BeforeReturn },
        });
        self.slot(i, device.0);
        Ok(())
    }

    /// The entry that holds all of a range. An object's constants that it only overlaps do not count: they are no variable.
    pub(crate) fn find(&self, range: HostRange) -> Result<Option<EntryId>, Stop> {
        let table = &self.state.table;
        match table.find(range.start, range.len) {
            Found::Absent => Ok(None),
            Found::Partly(_) if table.overlapping(range).into_iter().all(|id| table[id].is_constant()) => Ok(None),
            Found::Partly(_) => Err(partly_present(range, &self.state.table).into()),
            Found::Whole(id) => self.ready(id).map(Some),
        }
    }

    /// Makes sure that an entry's address is known and its bytes are in transit.
    pub(super) fn ready(&self, id: EntryId) -> Result<EntryId, Stop> {
        let entry = &self.state.table[id];
        match entry.arriving {
            Some(ticket) if ticket != self.plan.ticket => Err(Stop::Arrival),
            _ if entry.device().is_none() => Err(Stop::Resolve(entry.start)),
            _ => Ok(id),
        }
    }

    /// The device address of a host address in an entry that is [`Mapping::ready`].
    pub(crate) fn translate(&self, id: EntryId, host: usize) -> DevicePtr {
        self.state.table[id].translate(host)
    }

    pub(super) fn slot(&mut self, i: usize, value: u64) {
        if self.mode == Mode::Launch {
            self.block.set(i, value);
        }
    }

    pub(super) fn read_pointer(&self, address: usize) -> u64 {
        let mut value = [0; 8];
        self.host.read(address, &mut value);
        u64::from_ne_bytes(value)
    }
}

/// Whether an entry's address is null. No variable lies in the lowest page: GCC passes any value from the stack as the address
/// of a copy that the region does not read.
pub(super) fn is_nothing(host: usize) -> bool {
    const PAGE: usize = 4096;
    host < PAGE
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::Until(queues) => Self::Wait(queues),
            Blocked::Grow(range) => Self::Grow(range),
            Blocked::Growing => Self::Arrival,
            Blocked::Shrink(ranges) => Self::Shrink(ranges),
            Blocked::Failed(error) => Self::Fail(error),
        }
    }
}

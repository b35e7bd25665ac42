//! One device with what the program's side knows of it.

use crate::address_space::AddressSpace;
use crate::device_rules::DeviceRules;
use crate::failed_launch::FailedLaunch;
use crate::memory::Allocator;
use crate::pending_copies_out::PendingCopiesOut;
use crate::plan::Plan;
use crate::pointer_log::PointerLog;
use crate::ports::{Changes, CudaObjects, DeviceClient};
use crate::present::{Attachment, Backing, DataLocation, Entry, Found, Lifetime, Table};
use crate::prof::{Handles, Notice, ProfilingEvent, Watch};
use crate::program::{Global, GlobalKind, Settings};
use crate::queues::{After, Moment, QueueList, Queues};
use crate::waits_in_turn::WaitsInTurn;
use crate::write_back::{EffectCache, WriteBacks};
use accord_types::short_lock::{self, ShortGuard, ShortLock};
use accord_types::turn_lock::TurnLock;
use accord_types::{
    AddressRange, DeviceInfo, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, GlobalSpec, HostRange, LaunchDims,
    QueueId, Result,
};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar};

/// Most places for its memory that are requested of a device, should drivers refuse them.
pub(crate) const PLACES_MAX: usize = 4;

/// A device of the session. `state` is locked before `queues` if both are; neither is held while a call
/// can block. What is decided under the lock is recorded as a [`crate::plan::Plan`] and done without it.
pub(crate) struct Device {
    /// The client that drives it.
    client: Arc<dyn DeviceClient>,
    /// Its place in [`crate::ports::Cluster::ports`].
    pub(crate) index: usize,
    /// Its number among the devices of its type.
    num: AtomicU32,
    /// The type under which the program sees it.
    pub(crate) device_type: DeviceType,
    pub(crate) shared: Shared,
    pub(crate) rules: DeviceRules,
    life: Lifecycle,
    pub(crate) launches: LaunchRecords,
    state: ShortLock<DeviceData>,
    /// Whether there may be [`DeviceData::write_backs`]. Changes under the lock.
    pub(crate) has_write_backs: AtomicBool,
    arrived: Condvar,
    queues: ShortLock<Queues>,
}

/// Starts and ends of a device.
struct Lifecycle {
    started: AtomicBool,
    /// Held by the thread that starts or ends the device.
    starting: TurnLock<()>,
    /// Number of shutdowns.
    epoch: AtomicU32,
    /// Whether its regions access host memory directly; known once it has started.
    reaches_program_memory: AtomicBool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            started: AtomicBool::new(false),
            starting: TurnLock::new(()),
            epoch: AtomicU32::new(0),
            reaches_program_memory: AtomicBool::new(false),
        }
    }
}

/// Facts about launches, for messages about errors.
#[derive(Default)]
pub(crate) struct LaunchRecords {
    /// The pointers that regions got without a clause.
    pub(crate) pointers: PointerLog,
    /// The data of the last launch that failed.
    pub(crate) failed: FailedLaunch,
}

/// The state that all devices of a session share.
pub(crate) struct Shared {
    /// The pending copies of all devices' queues to the program.
    pub(crate) copies_out: Arc<PendingCopiesOut>,
    /// The owners of addresses.
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) in_turn: Arc<WaitsInTurn>,
    /// The observer of devices.
    pub(crate) watch: Arc<Watch>,
}

/// The state that a device's lock protects.
#[derive(Default)]
pub(crate) struct DeviceData {
    /// The present table.
    pub(crate) table: Table,
    /// The device's memory.
    pub(crate) memory: Allocator,
    /// Variables with a `link` clause: absent until something maps them.
    pub(crate) links: Vec<LinkVariable>,
    /// Addresses of `declare` variables that may be pointers, by their size.
    pub(crate) pointers: Vec<usize>,
    /// Small variables of queued constructs.
    pub(crate) write_backs: WriteBacks,
    /// The effects of regions on such variables.
    pub(crate) effects: EffectCache,
    tickets: u64,
    /// Threads in [`Device::wait_for_arrival`].
    waiting: usize,
}

/// A `declare link` variable on one device.
#[derive(Clone, Debug)]
pub(crate) struct LinkVariable {
    /// Range in the program.
    pub(crate) range: HostRange,
    /// The name by which the device finds it.
    pub(crate) spec: Arc<GlobalSpec>,
    /// Its address on the device, once queried. On a CPU device the variable itself: regions there name it directly.
    /// On a GPU a pointer variable that regions read.
    pub(crate) device: Option<DevicePtr>,
}

impl Device {
    /// A device that was not started.
    pub(crate) fn new(
        client: Arc<dyn DeviceClient>,
        index: usize,
        num: DeviceNum,
        shared: Shared,
        settings: &Settings,
    ) -> Self {
        let rules = DeviceRules::new(settings, client.guards_blocks());
        Self {
            device_type: client.device_type(),
            client,
            index,
            num: AtomicU32::new(num.0),
            shared,
            rules,
            life: Lifecycle::default(),
            launches: LaunchRecords::default(),
            state: ShortLock::default(),
            has_write_backs: AtomicBool::new(false),
            arrived: Condvar::new(),
            queues: ShortLock::default(),
        }
    }

    /// Returns the program's number of it, within its type.
    pub(crate) fn num(&self) -> DeviceNum {
        DeviceNum(self.num.load(Ordering::Relaxed))
    }

    /// Changes its number, before its first use.
    pub(crate) fn renumber(&self, num: DeviceNum) {
        self.num.store(num.0, Ordering::Relaxed);
        self.client.renumber(num);
    }

    /// Whether it was started and not shut down since.
    pub(crate) fn is_started(&self) -> bool {
        self.life.started.load(Ordering::Acquire)
    }

    /// Whether an observer watches it.
    pub(crate) fn is_watched(&self) -> bool {
        self.shared.watch.is_active()
    }

    /// Empties a plan for the next commands of `queue` of this device.
    pub(crate) fn begin(&self, plan: &mut Plan, queue: QueueId) {
        plan.begin(self.is_watched());
        plan.follow(queue, &mut self.queues());
    }

    /// Returns the number of shutdowns: what was present before one is not present after it.
    pub(crate) fn epoch(&self) -> u32 {
        self.life.epoch.load(Ordering::Acquire)
    }

    /// Starts the device unless it is started. `publish` makes the loaded globals present and calls [`Device::set_started`],
    /// both under the lock that guards the list of them.
    pub(crate) fn start(&self, publish: impl FnOnce()) -> Result<()> {
        if self.is_started() {
            return Ok(());
        }
        self.notify(ProfilingEvent::DeviceInitStart, |_| {});
        let started = self.start_once(publish);
        self.notify(ProfilingEvent::DeviceInitEnd, |_| {});
        started
    }

    fn start_once(&self, publish: impl FnOnce()) -> Result<()> {
        let _one = self.life.starting.take();
        if self.is_started() {
            return Ok(());
        }
        let mut tries = 1..PLACES_MAX;
        while let Err(error) = self.start_in_place().map_err(|error| self.place(error))? {
            // An error of its shutdown is of no interest to the program.
            let _ = self.client().shutdown();
            tries.next().ok_or_else(|| self.place(error))?;
        }
        self.life.reaches_program_memory.store(self.client.reaches_program_memory(), Ordering::Relaxed);
        let (start, len) = self.client.addresses();
        let capacity = self.client.info().memory;
        let allocates = self.client.allocates();
        self.lock().memory = match (allocates, self.rules.checks_bounds) {
            (true, _) => Allocator::of_slabs(capacity),
            (false, true) => Allocator::with_guards(start, len, capacity),
            (false, false) => Allocator::new(start, len, capacity),
        };
        publish();
        Ok(())
    }

    /// Starts it with memory in a range that no other device has. The inner error says that it lies in another one's range.
    fn start_in_place(&self) -> Result<Result<()>> {
        let info = self.client.info();
        let name = format!("{} (node {})", self.num(), info.node_name);
        if self.client.allocates() {
            self.client().start()?;
            self.shared.space.settle_without(self.index, name);
            return Ok(Ok(()));
        }
        self.client.lie_at(self.shared.space.place(self.index, self.client.addresses_wanted(), info.memory)?);
        self.client().start()?;
        let (start, len) = self.client.addresses();
        Ok(self.shared.space.settle(self.index, AddressRange { start, len }, name))
    }

    /// Records that it has started, see [`Device::start`].
    pub(crate) fn set_started(&self) {
        self.life.started.store(true, Ordering::Release);
    }

    /// Ends the device and forgets what was present on it.
    pub(crate) fn shut_down(&self) -> Result<()> {
        if !self.is_started() {
            return Ok(());
        }
        self.notify(ProfilingEvent::DeviceShutdownStart, |_| {});
        let ended = self.shut_down_once();
        self.notify(ProfilingEvent::DeviceShutdownEnd, |_| {});
        ended
    }

    fn shut_down_once(&self) -> Result<()> {
        let _one = self.life.starting.take();
        if !self.is_started() {
            return Ok(());
        }
        self.life.started.store(false, Ordering::Release);
        {
            let mut state = self.lock();
            self.life.epoch.fetch_add(1, Ordering::AcqRel);
            *state = DeviceData::default();
        }
        *self.queues() = Queues::default();
        self.shared.space.ended(self.index);
        self.shared.copies_out.forget(self.index);
        self.arrived.notify_all();
        self.client().shutdown().map_err(|error| self.place(error))
    }

    /// Whether regions may use host memory directly, if nothing is mapped and the setting allows it.
    pub(crate) fn uses_as_is(&self) -> bool {
        self.rules.maps_unmapped && self.life.reaches_program_memory.load(Ordering::Relaxed)
    }

    /// Returns the client for calls that may wait, so that no lock may be held at any of them.
    pub(crate) fn client(&self) -> WaitingCalls<'_> {
        WaitingCalls(&*self.client)
    }

    /// Returns the client as [`crate::Runtime::clients`] shows it.
    pub(crate) fn observed_client(&self) -> &dyn DeviceClient {
        &*self.client
    }

    /// Returns the description of the device.
    pub(crate) fn info(&self) -> &DeviceInfo {
        self.client.info()
    }

    /// Returns the objects of [`DeviceClient::cuda`].
    pub(crate) fn cuda(&self) -> Option<&dyn CudaObjects> {
        self.client.cuda()
    }

    /// Returns the count of [`DeviceClient::changes`].
    pub(crate) fn changes(&self) -> Changes {
        self.client.changes()
    }

    /// Registers pages as [`DeviceClient::register_pages`], which never waits.
    pub(crate) fn register_pages(&self, range: HostRange) {
        self.client.register_pages(range);
    }

    /// The table and the memory.
    pub(crate) fn lock(&self) -> ShortGuard<'_, DeviceData> {
        self.state.lock()
    }

    /// The queues.
    pub(crate) fn queues(&self) -> ShortGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Blocks until another thread's data in transit has been put into its queue.
    pub(crate) fn wait_for_arrival<'a>(&self, mut state: ShortGuard<'a, DeviceData>) -> ShortGuard<'a, DeviceData> {
        state.waiting += 1;
        let mut state = ShortGuard::wait(state, &self.arrived);
        state.waiting = state.waiting.saturating_sub(1);
        state
    }

    /// Wakes the threads in [`Device::wait_for_arrival`], if there are any: it costs a system call.
    pub(crate) fn notify_arrival(&self, state: &DeviceData) {
        if state.waiting > 0 {
            self.arrived.notify_all();
        }
    }

    /// Blocks until everything now in `queues` is done: one round trip.
    pub(crate) fn wait(&self, queues: &[QueueId]) -> Result<()> {
        if queues.is_empty() {
            return Ok(());
        }
        let moment = self.queues().now();
        self.wait_since(queues, moment)
    }

    /// Does the same for everything that was in `queues` at `moment`.
    fn wait_since(&self, queues: &[QueueId], moment: Moment) -> Result<()> {
        self.shared.in_turn.ask_others(self.index);
        self.client().wait(queues).map_err(|error| self.place(error))?;
        self.shared.in_turn.waited(self.index, &self.client);
        self.forget_done(queues, moment);
        Ok(())
    }

    /// Records that everything put into `queues` up to `moment` is done.
    fn forget_done(&self, queues: &[QueueId], moment: Moment) {
        // Read without the lock: what is added now is not done yet.
        let mut state = self.has_write_backs.load(Ordering::Acquire).then(|| self.lock());
        let mut known = self.queues();
        known.done(queues, moment);
        if self.shared.copies_out.any(self.index) {
            for queue in queues {
                self.shared.copies_out.done(self.index, *queue, moment);
                known.passed_with(*queue, moment, |queue, moment| {
                    self.shared.copies_out.done(self.index, queue, moment);
                });
            }
        }
        if let Some(state) = &mut state {
            let DeviceData { write_backs, memory, .. } = &mut **state;
            write_backs.forget(memory, &known);
            self.has_write_backs.store(!write_backs.0.is_empty(), Ordering::Release);
        }
    }

    /// Makes what `queue` does next wait for what is in `other` now; `left_behind` as for [`Queues::filled`].
    pub(crate) fn queue_follows(&self, queue: QueueId, other: QueueId, left_behind: bool) -> Result<()> {
        // What other threads put in meanwhile may come before it, or after.
        let until = self.queues().now();
        self.client().wait_queue(queue, other).map_err(|error| self.place(error))?;
        self.queues().waits(queue, other, until, left_behind);
        Ok(())
    }

    /// Does [`Device::wait`] at the end of a synchronous construct, and notifies an observer of it.
    pub(crate) fn wait_observed(&self, queue: QueueId) -> Result<()> {
        let moment = self.queues().now();
        self.wait_observed_since(queue, moment)
    }

    /// Does the same for everything that was in the queue at `moment`.
    pub(crate) fn wait_observed_since(&self, queue: QueueId, moment: Moment) -> Result<()> {
        let reported = |notice: &mut Notice| {
            (notice.queue, notice.implicit) = (queue, true);
        };
        self.notify(ProfilingEvent::WaitStart, reported);
        let waited = self.wait_since(&[queue], moment);
        self.notify(ProfilingEvent::WaitEnd, reported);
        waited.map_err(|error| error.queue(queue))
    }

    /// Does [`Device::wait_observed`] for several queues.
    pub(crate) fn wait_each_observed(&self, queues: &[QueueId]) -> Result<()> {
        if !self.shared.watch.is_active() {
            return self.wait(queues);
        }
        let mut first = Ok(());
        for queue in queues {
            first = first.and(self.wait_observed(*queue));
        }
        first
    }

    /// Does [`Device::wait`] as the program requests it. An observer is notified of each queue. A watched
    /// program waits for them one after the other, so that each has its own time.
    pub(crate) fn wait_asked(&self, queues: &[QueueId]) -> Result<()> {
        if !self.shared.watch.is_active() {
            return self.wait(queues);
        }
        let mut first = Ok(());
        for queue in queues {
            self.notify(ProfilingEvent::WaitStart, |notice| notice.queue = *queue);
            let waited = self.wait(&[*queue]);
            self.notify(ProfilingEvent::WaitEnd, |notice| notice.queue = *queue);
            first = first.and(waited);
        }
        first
    }

    /// Makes an object's variables present. Returns what is to be passed to [`Device::unlock`].
    #[must_use]
    pub(crate) fn add_globals(&self, globals: &[Global]) -> Vec<HostRange> {
        let named_only = self.sees_named_memory_only();
        self.lock().add_globals(globals, named_only, &self.queues())
    }

    /// Forgets an object's variables. Returns what is to be passed to [`Device::unlock`].
    #[must_use]
    pub(crate) fn remove_globals(&self, globals: &[Global]) -> Vec<HostRange> {
        self.lock().remove_globals(globals, &self.queues())
    }

    /// Unlocks arrays that are no longer present.
    pub(crate) fn unlock(&self, locked: &[HostRange]) {
        for range in locked {
            // The device's next call returns its error.
            let _ = self.client().unregister_pages(None, *range);
        }
    }

    /// Whether everything now in `queues` is done: one round trip, none if that is known already.
    pub(crate) fn test(&self, queues: &[QueueId]) -> Result<bool> {
        let (busy, moment) = {
            let known = self.queues();
            let busy: QueueList = queues.iter().copied().filter(|queue| known.busy(*queue)).collect();
            (busy, known.now())
        };
        if busy.is_empty() {
            return Ok(true);
        }
        let done = self.client().test(&busy).map_err(|error| self.place(error))?;
        if done {
            self.forget_done(&busy, moment);
        }
        Ok(done)
    }

    /// Finds the device's address of the global or link variable at `host`; one round trip, once.
    pub(crate) fn resolve(&self, host: usize) -> Result<()> {
        let spec = {
            let state = self.lock();
            match state.table.find_byte(host).map(|id| &state.table[id].place) {
                Some(DataLocation::Global(spec)) => spec.clone(),
                _ => match state.link(HostRange { start: host, len: 1 }) {
                    Some(link) if link.device.is_none() => link.spec.clone(),
                    _ => return Ok(()),
                },
            }
        };
        let device = self.client().global(&spec).map_err(|error| self.place(error))?;
        let mut state = self.lock();
        if let Some(id) = state.table.find_byte(host)
            && matches!(&state.table[id].place, DataLocation::Global(s) if Arc::ptr_eq(s, &spec))
        {
            state.table.place(id, device);
        }
        if let Some(link) = state.links.iter_mut().find(|link| Arc::ptr_eq(&link.spec, &spec)) {
            link.device = Some(device);
        }
        Ok(())
    }

    /// Notifies the observer, if one is registered. Must not be called with a lock held.
    #[inline]
    pub(crate) fn notify(&self, what: ProfilingEvent, fill: impl FnOnce(&mut Notice)) {
        if self.shared.watch.is_active() {
            self.notify_observer(what, fill);
        }
    }

    #[cold]
    fn notify_observer(&self, what: ProfilingEvent, fill: impl FnOnce(&mut Notice)) {
        short_lock::assert_none_held();
        let mut notice = Notice {
            what,
            device_type: self.device_type,
            device: self.num(),
            index: self.index,
            handles: None,
            implicit: false,
            queue: QueueId::SYNC,
            host: 0,
            address: 0,
            bytes: 0,
            function: 0,
            dims: LaunchDims::default(),
        };
        fill(&mut notice);
        notice.handles = self.handles(notice.queue);
        self.shared.watch.notify(&notice);
    }

    /// The driver's objects, of a started GPU of this process.
    pub(crate) fn handles(&self, queue: QueueId) -> Option<Handles> {
        let cuda = self.client.cuda().filter(|_| self.is_started())?;
        let (device, context) = (cuda.device().ok()?, cuda.context().ok()?);
        Some(Handles { device, context, stream: cuda.stream_of(queue) })
    }

    /// Whether its regions access only what a slot or a pointer variable names.
    pub(crate) fn sees_named_memory_only(&self) -> bool {
        self.client.sees_named_memory_only()
    }

    /// Adds to an error where it happened.
    pub(crate) fn place(&self, error: Error) -> Error {
        let quota = self.client.quota().filter(|_| error.code() == ErrorCode::OutOfMemory);
        let error = match quota.filter(|_| !error.cause().contains("quota")) {
            Some(quota) => error
                .more(format_args!(
                    "a session's quota is {quota} bytes on each device (the coordinator's --memory-quota)"
                ))
                .instead("free data that is no longer needed, use more devices, or ask the site for a larger quota"),
            None => error,
        };
        error.device(self.num()).node(self.client.info().node_name.as_str())
    }
}

/// A device's client that checks before each call whether this thread holds a lock.
pub(crate) struct WaitingCalls<'a>(&'a dyn DeviceClient);

impl<'a> std::ops::Deref for WaitingCalls<'a> {
    type Target = dyn DeviceClient + 'a;

    #[inline]
    fn deref(&self) -> &Self::Target {
        short_lock::assert_none_held();
        self.0
    }
}

impl DeviceData {
    /// A number that no other construct has.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Returns the device's address of `bytes` at `host`, if that is known at once: present there, or an address of
    /// its own.
    pub(crate) fn located(&self, host: usize, bytes: usize) -> Option<DevicePtr> {
        match self.table.find(host, bytes) {
            Found::Whole(id) => {
                let entry = &self.table[id];
                (entry.arriving.is_none() && entry.device().is_some()).then(|| entry.translate(host))
            }
            Found::Absent => self.memory.block_of(host as u64).map(|_| DevicePtr(host as u64)),
            Found::Partly(_) => None,
        }
    }

    /// The link variable that holds a range.
    pub(crate) fn link(&self, range: HostRange) -> Option<&LinkVariable> {
        let end = range.start.saturating_add(range.len);
        self.links.iter().find(|link| link.range.start <= range.start && end <= link.range.start + link.range.len)
    }

    /// Makes an object's variables present. What was present at their addresses is left over from an
    /// object that was unloaded without notice. Returns what of that has to be unlocked.
    ///
    /// A device that sees `named_only` memory has no constants of objects: those that a region names are copied.
    fn add_globals(&mut self, globals: &[Global], named_only: bool, queues: &Queues) -> Vec<HostRange> {
        let mut locked = Vec::new();
        for global in globals {
            let range = HostRange { start: global.host, len: global.bytes };
            if range.len == 0 || (named_only && global.kind == GlobalKind::Constants) {
                continue;
            }
            if let Found::Whole(id) = self.table.find(range.start, range.len)
                && self.table[id].lifetime == Lifetime::Constant
            {
                // A constant with a `declare` clause: the device has it with the object's other constants.
                continue;
            }
            locked.extend(self.forget(range, queues));
            let spec = Arc::new(global.spec.clone());
            if global.kind == GlobalKind::Constants {
                let place = DataLocation::Global(spec);
                self.table.insert(Entry::new(range, place, Backing::Foreign, Lifetime::Constant));
            } else if global.kind == GlobalKind::Link {
                self.links.push(LinkVariable { range, spec, device: None });
            } else {
                let entry = Entry::new(range, DataLocation::Global(spec), Backing::Foreign, Lifetime::Global);
                self.table.insert(entry);
                if range.len == Attachment::BYTES && !self.pointers.contains(&range.start) {
                    self.pointers.push(range.start);
                }
            }
        }
        locked
    }

    /// Forgets an object's variables. Returns what has to be unlocked.
    fn remove_globals(&mut self, globals: &[Global], queues: &Queues) -> Vec<HostRange> {
        let mut locked = Vec::new();
        for global in globals {
            let range = HostRange { start: global.host, len: global.bytes };
            locked.extend(self.forget(range, queues));
            self.links.retain(|link| link.range.start != range.start);
            self.pointers.retain(|at| *at != range.start);
        }
        locked
    }

    /// Ends the entries in a range. Returns what has to be unlocked.
    fn forget(&mut self, range: HostRange, queues: &Queues) -> Vec<HostRange> {
        let after = After { queue: None, moment: queues.now() };
        let mut locked = Vec::new();
        for id in self.table.overlapping(range) {
            let Some(entry) = self.table.remove(id) else { continue };
            if let Backing::Block(block) | Backing::Linked(block, _) = entry.backing {
                self.memory.give_back(block, after, queues);
            }
            if entry.locked {
                locked.push(entry.range());
            }
        }
        locked
    }
}

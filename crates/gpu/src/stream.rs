//! One stream: the driver's stream, the threads that use it, and the rules ([`accord_device::stream`]) that they follow.
//!
//! Most operations go directly into the driver's stream on the calling thread. An operation that needs the host in its turn
//! (bytes from a network, memory to unmap, host work) enters a list of the stream's worker. Until the list is empty, all
//! later operations enter it too. The driver's stream never waits for the host, so that waiting for its end always ends.

mod busy;
mod following;
mod host_thread;
mod turns;

use super::completion::Completion;
use super::device_stream::DeviceStream;
use super::driver::DriverError;
use super::egress::Egress;
use super::launch_batch::LaunchBatch;
use super::pending;
use super::repeated::Repeated;
use super::rows::Rows;
use super::shared::Shared;
use super::timer_slack;
use accord_device::Activity;
use accord_device::failure::{no_thread, shut_down};
use accord_device::stream::{Finish, Marks, Progress, StreamCore, WorkerStep};
use accord_types::spin_policy::{POLLS_PER_YIELD, SpinPolicy};
use accord_types::threads;
use accord_types::turn_lock::{self, TurnLock};
use accord_types::{ArgBlock, QueueId, Result, Seq};
use cudarc::driver::sys::{CUdeviceptr, CUevent, CUevent_flags, CUstream, CUstream_flags};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

pub(crate) use host_thread::HostThread;

/// Longest sleep, so that a lost device never becomes a hang.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Stream {
    pub(crate) index: u32,
    pub(crate) queue: QueueId,
    pub(crate) raw: CUstream,
    /// Recorded when another stream has to wait for this one.
    event: CUevent,
    /// Argument blocks of kernels that take theirs by address. One is enough: the stream's order writes the next block only
    /// after the previous kernel has ended.
    block: OnceLock<CUdeviceptr>,
    /// The events of batches of launches, see [`LaunchBatch`].
    batch_events: OnceLock<BatchEvents>,
    /// Whether the program created the driver's stream.
    adopted: bool,
    /// Whether the program puts its own work into the stream.
    exposed: AtomicBool,
    pub(crate) shared: Arc<Shared>,
    /// Performs an operation in its turn.
    perform: Perform,
    state: TurnLock<StreamProgress>,
    pub(super) signals: Signals,
    pub(crate) egress: Egress,
}

/// Signals of a stream to threads that do not hold its lock.
#[derive(Default)]
pub(super) struct Signals {
    /// [`StreamCore::performing`].
    performing: AtomicU64,
    /// Whether [`StreamCore::failure`] returns an error.
    pub(super) failed: AtomicBool,
    /// Counts events for the worker.
    news: AtomicU32,
    /// Notified when an operation was enqueued or performed, or the stream has failed.
    moved: Condvar,
}

// SAFETY: the driver's streams and events may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The events of two batches of launches.
struct BatchEvents([CUevent; 2]);

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for BatchEvents {}
// SAFETY: as above.
unsafe impl Sync for BatchEvents {}

#[derive(Default)]
pub(crate) struct StreamProgress {
    /// The rules of positions, order and completion.
    pub(crate) core: StreamCore<Op, Completion<Stream>>,
    /// The buffer in which a launch's parameter is packed.
    pub(crate) parameter: Vec<u8>,
    /// Consecutive small copies, of which some may be held back.
    pub(super) rows: Rows,
    /// Regions that the stream launches repeatedly.
    pub(crate) repeated: Repeated,
    /// Launches of this turn.
    batch: LaunchBatch,
}

pub(crate) type Op = pending::Op<Stream>;

/// Performs the operation at a position of a stream.
pub(crate) type Perform = fn(&Stream, u64, Op) -> Result<()>;

impl Stream {
    /// Creates a stream of the driver, or wraps one that the program has created. The context is current.
    pub(crate) fn new(
        index: u32,
        queue: QueueId,
        shared: Arc<Shared>,
        perform: Perform,
        adopt: Option<CUstream>,
    ) -> Result<Self, DriverError> {
        let driver = shared.context.driver;
        let (mut raw, mut event) = (adopt.unwrap_or(null_mut()), null_mut());
        // SAFETY: both are valid for writing.
        unsafe {
            if adopt.is_none() {
                // Ordered with the default stream, in which the program's own CUDA and libraries work unless told otherwise.
                driver.cuStreamCreate(&raw mut raw, CUstream_flags::CU_STREAM_DEFAULT as u32)?;
            }
            driver.cuEventCreate(&raw mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)?;
        }
        Ok(Self {
            index,
            queue,
            raw,
            event,
            block: OnceLock::new(),
            batch_events: OnceLock::new(),
            adopted: adopt.is_some(),
            exposed: AtomicBool::new(adopt.is_some()),
            shared,
            perform,
            state: TurnLock::default(),
            signals: Signals::default(),
            egress: Egress::default(),
        })
    }

    /// Whether `other` is this stream.
    pub(crate) fn is_same(&self, other: &dyn DeviceStream) -> bool {
        std::ptr::addr_eq(self, other)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamProgress> {
        self.state.take()
    }

    /// The device's or stream's failure, if any.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.failure.check()?;
        if self.signals.failed.load(Ordering::Acquire)
            && let Some(error) = self.lock().core.failure()
        {
            return Err(error.clone());
        }
        Ok(())
    }

    /// Locks the state, to enqueue an operation. Blocks while the work is suspended.
    ///
    /// # Errors
    /// Returns an error if the device or stream has failed, or was shut down, so that its memory is about to be freed.
    pub(crate) fn lock_to_put(&self) -> Result<MutexGuard<'_, StreamProgress>> {
        loop {
            match self.lock_unless_held() {
                Ok(None) => self.shared.await_work(),
                Ok(Some(state)) => return Ok(state),
                Err(error) => return Err(error),
            }
        }
    }

    /// Locks as [`Stream::lock_to_put`], but returns `None` while the work is suspended.
    pub(crate) fn lock_unless_held(&self) -> Result<Option<MutexGuard<'_, StreamProgress>>> {
        self.check()?;
        let state = self.lock();
        if self.shared.held_work.is_held() {
            return Ok(None);
        }
        match state.core.failure() {
            _ if state.core.is_closing() => Err(shut_down()),
            // Another thread has failed it since the check.
            Some(error) => Err(error.clone()),
            None => Ok(Some(state)),
        }
    }

    /// Returns the last assigned position.
    pub(crate) fn last(&self) -> Seq {
        Seq(self.lock().core.last())
    }

    /// Puts an operation into the driver's stream by `now`, or into the list by `later` if the list is not empty.
    pub(crate) fn put(
        self: &Arc<Self>,
        now: impl FnOnce(&mut StreamProgress) -> Result<(), DriverError>,
        later: impl FnOnce() -> Result<Op>,
    ) -> Result<Seq> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if state.core.may_issue() { self.put_now(state, now) } else { self.push(state, later()?) }
    }

    /// Puts a launch into the driver's stream by `now`, or into the list by `later` if launches take turns or the list is not
    /// empty.
    pub(crate) fn put_launch(
        self: &Arc<Self>,
        now: impl FnOnce(&mut StreamProgress) -> Result<(), DriverError>,
        later: impl FnOnce() -> Op,
    ) -> Result<Seq> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if self.may_launch(&state) { self.put_now(state, now) } else { self.push(state, later()) }
    }

    /// Puts as [`Stream::put_launch`], but returns without effect if the list is full or the work is suspended: a caller that holds locks must not block.
    pub(crate) fn try_put_launch(
        self: &Arc<Self>,
        now: impl FnOnce(&mut StreamProgress) -> Result<(), DriverError>,
        later: impl FnOnce() -> Op,
    ) -> Result<Option<Seq>> {
        let Some(mut state) = self.lock_unless_held()? else { return Ok(None) };
        self.flush(&mut state)?;
        if self.may_launch(&state) {
            return self.put_now(state, now).map(Some);
        }
        if state.core.is_full() { Ok(None) } else { self.push(state, later()).map(Some) }
    }

    fn put_now(
        &self,
        mut state: MutexGuard<'_, StreamProgress>,
        now: impl FnOnce(&mut StreamProgress) -> Result<(), DriverError>,
    ) -> Result<Seq> {
        if let Err(error) = self.order_after(&mut state).and_then(|()| now(&mut state)) {
            drop(state);
            return Err(self.shared.driver_failed(error, Some(self.queue)));
        }
        Ok(Seq(state.core.issue()))
    }

    /// Puts an operation into the driver's stream by `now`, unless the list is not empty or `now` declines.
    pub(crate) fn put_if(
        &self,
        now: impl FnOnce(&mut StreamProgress) -> Result<bool, DriverError>,
    ) -> Result<Option<Seq>> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if !state.core.is_idle() {
            return Ok(None);
        }
        match self.order_after(&mut state).and_then(|()| now(&mut state)) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(Seq(state.core.issue()))),
            Err(error) => {
                drop(state);
                Err(self.shared.driver_failed(error, Some(self.queue)))
            }
        }
    }

    /// Orders the driver's stream after the clearing of all memory mapped until now, and after the device's fence. The context
    /// is current.
    #[inline]
    pub(crate) fn order_after(&self, state: &mut StreamProgress) -> Result<(), DriverError> {
        let marks = Marks { scrubs: self.shared.memory.scrubs(), fences: self.shared.fence.count() };
        if !state.core.must_follow(marks) {
            return Ok(());
        }
        self.shared.memory.hold_up(self.raw)?;
        self.shared.fence.hold_up(self.raw)?;
        state.core.follows(marks);
        Ok(())
    }

    /// Puts an operation that needs the host into the list. The calling thread performs it if `by` permits and the list is
    /// empty.
    pub(crate) fn put_host(self: &Arc<Self>, op: Op, by: HostThread) -> Result<Seq> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if by == HostThread::Worker || !state.core.is_idle() {
            return self.push(state, op);
        }
        let seq = state.core.begin(&op);
        self.run(state, seq, op);
        self.check()?;
        Ok(Seq(seq))
    }

    /// Adds an operation to the list, and blocks while it is full. Copies from other devices have no such bound: there is one
    /// per lane, and its thread may have to supply the bytes that the stream waits for.
    ///
    /// # Errors
    /// Returns an error if the stream has failed meanwhile, or the system has no thread for it. The operation is not enqueued
    /// then.
    pub(super) fn push<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, StreamProgress>, op: Op) -> Result<Seq> {
        while state.core.is_full() && !state.core.is_closing() && self.queue != QueueId::INCOMING {
            drop(self.sleep(state));
            self.check()?;
            state = self.lock();
        }
        if state.core.needs_worker() {
            let stream = Arc::clone(self);
            let thread = threads::spawn(format!("accord-q{}", self.queue), move || stream.serve());
            if let Err(error) = thread {
                // Dropped without the lock, which waiters for the operation's sink or source may need.
                drop(state);
                return Err(no_thread(&error).queue(self.queue));
            }
            state.core.worker_started();
        }
        let seq = state.core.enlist(op);
        self.signals.news.fetch_add(1, Ordering::Release);
        drop(state);
        self.signals.moved.notify_all();
        Ok(Seq(seq))
    }

    /// The worker.
    fn serve(&self) {
        let Ok(_current) = self.shared.context.enter() else { return };
        timer_slack::wake_in_time();
        let mut spin = SpinPolicy::long_spin();
        let mut state = self.lock();
        loop {
            let seen = self.signals.news.load(Ordering::Acquire);
            state = match state.core.worker_step(self.shared.failure.check().is_err()) {
                WorkerStep::Perform(seq, op) => {
                    self.run(state, seq, op);
                    self.lock()
                }
                WorkerStep::Drop(ops) => {
                    drop(state);
                    drop(ops);
                    self.signals.moved.notify_all();
                    self.lock()
                }
                WorkerStep::Wait => self.await_update(state, seen, &mut spin),
                WorkerStep::End => return,
            };
        }
    }

    /// Waits for an event since `seen`. Spins before it sleeps.
    fn await_update<'a>(
        &'a self,
        mut state: MutexGuard<'a, StreamProgress>,
        seen: u32,
        spin: &mut SpinPolicy,
    ) -> MutexGuard<'a, StreamProgress> {
        let start = Instant::now();
        let has_update = || self.signals.news.load(Ordering::Acquire) != seen;
        if spin.limit() > Duration::ZERO {
            drop(state);
            spin.spin(start, POLLS_PER_YIELD, || has_update().then_some(()));
            state = self.lock();
        }
        if !has_update() {
            state = self.sleep(state);
        }
        spin.waited(start.elapsed());
        state
    }

    /// Performs the operation at `seq`, whose turn has begun.
    fn run(&self, state: MutexGuard<'_, StreamProgress>, seq: u64, op: Op) {
        self.signals.performing.store(state.core.performing(), Ordering::Release);
        drop(state);
        let result = self.perform(seq, op).map_err(|error| error.queue(self.queue));
        let mut state = self.lock();
        if state.core.finish(result) == Finish::Drain {
            drop(state);
            self.end_what_was_issued();
            state = self.lock();
            state.core.drained();
            self.signals.failed.store(true, Ordering::Release);
        }
        self.signals.performing.store(state.core.performing(), Ordering::Release);
        self.signals.news.fetch_add(1, Ordering::Release);
        drop(state);
        self.signals.moved.notify_all();
    }

    /// Performs the operation at `seq`. All earlier ones are in the driver's stream or done, except for outcomes that other parties have to report.
    pub(crate) fn perform(&self, seq: u64, op: Op) -> Result<()> {
        (self.perform)(self, seq, op)
    }

    /// Takes the next listed operation, see [`StreamCore::take_next`].
    pub(crate) fn take_if(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        self.lock().core.take_next(is_such)
    }

    /// Takes an operation that enters the driver's stream behind those in progress, see [`StreamCore::take_pipelined`].
    pub(crate) fn take_pipelined(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        self.lock().core.take_pipelined(is_such)
    }

    /// Records that the operation at `seq` and all earlier ones are done, while the thread that performed it continues with others.
    pub(crate) fn is_done(&self, seq: u64) {
        // A trace has added events after the operation.
        let is_traced = self.shared.tracer.is_on();
        let mut state = self.lock();
        state.core.done(seq, !is_traced);
        self.signals.performing.store(state.core.performing(), Ordering::Release);
        drop(state);
        self.signals.moved.notify_all();
    }

    pub(super) fn sleep<'a>(&self, state: MutexGuard<'a, StreamProgress>) -> MutexGuard<'a, StreamProgress> {
        turn_lock::wait_timeout(state, &self.signals.moved, CHECK_INTERVAL)
    }

    /// Blocks until all operations up to `seq` have read the program's memory and are in the driver's stream.
    pub(crate) fn wait_issued(&self, seq: u64) -> Result<()> {
        let mut state = self.lock();
        if !state.core.has_issued(seq) {
            self.flush(&mut state)?;
        }
        while !state.core.has_issued(seq) {
            drop(state);
            self.check()?;
            state = self.lock();
            if !state.core.has_issued(seq) {
                state = self.sleep(state);
            }
        }
        drop(state);
        self.check()
    }

    /// Blocks until `seq` is reached. The device's context is current.
    pub(crate) fn synchronize(&self, seq: u64) -> Result<()> {
        self.synchronize_unless(seq, !self.is_exposed())
    }

    /// Blocks as [`Stream::synchronize`]. `knows`: the driver is not asked if all operations up to `seq` are known to be reached.
    pub(crate) fn synchronize_unless(&self, seq: u64, knows: bool) -> Result<()> {
        self.flush_all();
        self.check()?;
        let mut state = self.lock();
        if !state.core.has_issued(seq) {
            drop(state);
            self.wait_issued(seq)?;
            state = self.lock();
        }
        if let Progress::InDriver { issued } = state.core.progress(seq, knows) {
            drop(state);
            // SAFETY: the stream lives as long as `self`.
            let waited = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
            waited.map_err(|error| self.shared.driver_failed(error, Some(self.queue)))?;
            self.shared.tracer.drain();
            state = self.lock();
            state.core.arrived(issued);
        }
        self.complete_from(state, seq, true)?;
        self.check()
    }

    /// Records that the driver's stream is empty and the operation at `seq` done. Called by the thread that performs it.
    pub(crate) fn arrived(&self, seq: u64) {
        // A trace must wait for its own later events.
        if !self.shared.tracer.is_on() {
            self.lock().core.arrived(seq);
        }
    }

    /// Whether `seq` is reached. A waiter polls, and the driver admits one thread at a time, which would delay the thread that
    /// performs the awaited operation. So the driver is queried only if no other source decides.
    pub(crate) fn reached(&self, seq: u64) -> Result<bool> {
        self.check()?;
        let performing = self.signals.performing.load(Ordering::Acquire);
        if performing != 0 && performing <= seq {
            return Ok(false);
        }
        let mut state = self.lock();
        self.flush(&mut state)?;
        let progress = state.core.progress(seq, !self.is_exposed());
        drop(state);
        match progress {
            Progress::NotIssued => return Ok(false),
            Progress::Done => return Ok(true),
            Progress::InDriver { .. } | Progress::OnHost => {}
        }
        let _current =
            self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, Some(self.queue)))?;
        if let Progress::InDriver { issued } = progress {
            // SAFETY: the stream lives as long as `self`.
            match unsafe { self.shared.context.driver.cuStreamQuery(self.raw) } {
                Ok(()) => {
                    self.lock().core.arrived(issued);
                    self.print()?;
                }
                Err(DriverError { code: DriverError::NOT_READY, .. }) => return Ok(false),
                Err(error) => return Err(self.shared.driver_failed(error, Some(self.queue))),
            }
        }
        self.complete(seq, false)
    }

    /// Makes the driver write text that regions have printed. The stream is empty, unless a later operation was just added,
    /// whose wait then writes the text.
    fn print(&self) -> Result<()> {
        let more = !self.lock().core.is_reached();
        if more || !self.shared.prints.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: the stream lives as long as `self`.
        let printed = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
        printed.map_err(|error| self.shared.driver_failed(error, Some(self.queue)))
    }

    /// Whether the program puts its own work into the stream, so that its order is the driver's.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Acquire)
    }

    pub(crate) fn expose(&self) {
        self.exposed.store(true, Ordering::Release);
        self.flush_held_back();
    }

    /// Returns the address of this stream's argument blocks. Called with the lock held.
    pub(crate) fn block(&self) -> Result<CUdeviceptr, DriverError> {
        if let Some(&block) = self.block.get() {
            return Ok(block);
        }
        let mut block = 0;
        // SAFETY: `block` is valid for writing.
        unsafe { self.shared.context.driver.cuMemAlloc_v2(&raw mut block, ArgBlock::BYTES_MAX) }?;
        Ok(*self.block.get_or_init(|| block))
    }

    /// Whether all operations up to `seq` are in the driver's stream.
    pub(crate) fn has_issued(&self, seq: u64) -> bool {
        let mut state = self.lock();
        // An error fails the stream, which reports it.
        let _ = self.flush(&mut state);
        state.core.has_issued(seq)
    }

    /// Ends the worker, and drops the remaining operations.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.core.close();
        self.signals.news.fetch_add(1, Ordering::Release);
        drop(state);
        self.egress.close();
        self.signals.moved.notify_all();
    }
}

impl DeviceStream for Stream {
    fn index(&self) -> u32 {
        self.index
    }

    fn queue(&self) -> QueueId {
        self.queue
    }

    fn raw(&self) -> CUstream {
        self.raw
    }

    fn pass(&self) {
        drop(self.lock());
    }

    fn recent_kernels(&self) -> Vec<u32> {
        // Called after a failed call, which may hold this stream's lock.
        self.state.try_take().map_or_else(Vec::new, |state| state.core.recent_kernels().to_vec())
    }

    fn activity(&self) -> Activity {
        self.region_activity()
    }

    fn is_idle(&self) -> bool {
        self.is_busy() == Some(false)
    }

    fn flush_held_back(&self) {
        let mut state = self.lock();
        let _ = self.flush(&mut state);
    }

    fn drain(&self) {
        self.flush_held_back();
        // SAFETY: the stream lives as long as `self`.
        let _ = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
    }

    fn settle(&self, seq: u64) -> Result<()> {
        let _current =
            self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, Some(self.queue)))?;
        self.synchronize(seq.min(self.last().0))
    }

    fn wake(&self) {
        self.signals.news.fetch_add(1, Ordering::Release);
        self.signals.moved.notify_all();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Ok(_current) = self.shared.context.enter() else { return };
        self.lock().repeated.end(self.shared.context.driver);
        // SAFETY: the stream and the event have no users any more, and the driver first completes work in flight.
        unsafe {
            if !self.adopted {
                let _ = self.shared.context.driver.cuStreamDestroy_v2(self.raw);
            }
            for event in self.batch_events.get().iter().flat_map(|events| events.0).chain([self.event]) {
                let _ = self.shared.context.driver.cuEventDestroy_v2(event);
            }
            if let Some(&block) = self.block.get() {
                let _ = self.shared.context.driver.cuMemFree_v2(block);
            }
        }
    }
}

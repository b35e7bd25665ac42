//! The owner's side of one stream: positions, the owner's operations, and waiters.

use super::layout::{Control, StreamShared};
use super::owner_queue::{Done, Op, OwnerQueue, Work};
use super::progress::Progress;
use super::ring::{self, Corrupt, Record};
use super::watched::Watched;
use super::{arena::Arena, futex, output::Output, spans::Tracer};
use crate::any_end::CopySink;
use crate::failure::Failure;
use accord_types::short_lock::{ShortGuard, ShortLock, assert_none_held};
use accord_types::signal::SharedSpinPolicy;
use accord_types::threads;
use accord_types::{DevicePtr, Error, QueueId, Result, Seq, SpanKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Longest sleep, so that a lost wake-up never becomes a hang.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Most operations in an owner queue; a caller that adds one more waits for the first. More than an executor allows in a
/// stream. Copies from other devices have their own bound, see `accord_fabric::transfer`.
const OWNER_OPS_MAX: usize = 1_024;

/// The state that the streams of one device share.
pub(crate) struct Shared {
    pub(crate) arena: Arc<Arena>,
    pub(crate) control: Control,
    pub(crate) failure: Failure,
    pub(crate) tracer: Tracer,
    /// Serves a stream on a thread of its own, until the stream is closed.
    pub(crate) run: fn(&Stream),
    /// Performs the operation at a position, and possibly later ones; the position is then that of the last one.
    pub(crate) perform: fn(&Stream, &mut u64, Op) -> Result<()>,
    pub(crate) output: Option<Arc<Output>>,
    pub(crate) watched: Watched,
}

impl Shared {
    /// Checks at intervals whether the worker is alive. Each thread that waits for the worker calls it.
    pub(crate) fn check_alive(&self) {
        if self.watched.check_alive(self.control.header().beats.load(Ordering::Relaxed)) {
            self.give_up();
        }
    }

    /// Fails the device because the worker has reported an impossible value.
    pub(crate) fn distrust(&self, Corrupt(what): Corrupt) {
        self.failure.set(self.watched.corrupt(what));
        self.watched.end();
    }

    /// Fails the device because the worker does not respond.
    pub(crate) fn give_up(&self) {
        self.failure.set(self.watched.hung());
        self.watched.end();
    }
}

pub(crate) struct Stream {
    pub(crate) index: u32,
    pub(crate) queue: QueueId,
    pub(crate) shared: Arc<Shared>,
    state: ShortLock<OwnerQueue>,
    progress: Progress,
    /// Whether an owner operation failed; `state.failure` holds the error.
    failed: AtomicBool,
    spin: SharedSpinPolicy,
}

impl Stream {
    pub(crate) fn new(index: u32, queue: QueueId, shared: Arc<Shared>) -> Arc<Self> {
        let (state, spin, progress) = (ShortLock::default(), SharedSpinPolicy::default(), Progress::new());
        let stream = Self { index, queue, shared, state, progress, failed: AtomicBool::new(false), spin };
        stream.progress.set_want(u64::MAX, stream.block());
        Arc::new(stream)
    }

    pub(crate) fn block(&self) -> &StreamShared {
        self.shared.control.stream(self.index)
    }

    /// Returns the position up to which all operations are done.
    pub(crate) fn reached(&self) -> u64 {
        self.progress.reached(self.block()).unwrap_or_else(|false_claim| {
            self.shared.distrust(false_claim);
            self.progress.owner_done()
        })
    }

    /// Whether this process waits for the reached position.
    pub(crate) fn is_wanted(&self) -> bool {
        self.reached() >= self.progress.want()
    }

    fn lock(&self) -> ShortGuard<'_, OwnerQueue> {
        self.state.lock()
    }

    /// The device's or stream's failure, if any.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.failure.check()?;
        if self.failed.load(Ordering::Acquire)
            && let Some(error) = &self.lock().failure
        {
            return Err(error.clone());
        }
        Ok(())
    }

    /// Returns the position of the last operation.
    pub(crate) fn last(&self) -> Seq {
        Seq(self.lock().last)
    }

    /// Puts a record into the worker ring. If no operation of the stream is in progress, `drained` may perform it here instead; it
    /// must be short.
    pub(crate) fn push_worker(
        self: &Arc<Self>,
        mut record: Record,
        first: &[u8],
        second: &[u8],
        drained: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<Seq> {
        loop {
            self.check()?;
            let mut state = self.hurry()?;
            let seq = state.last + 1;
            if let Some(now) = drained
                && self.reached() >= state.last
            {
                let begin = self.shared.tracer.begin();
                now()?;
                let kind = if record.kind == ring::STORE { SpanKind::CopyIn } else { SpanKind::Copy };
                self.shared.tracer.end(self.queue, kind, record.c, begin);
                state.last = seq;
                state.last_of_owner = seq;
                self.progress.let_worker(seq);
                self.progress.owner_has_done(seq, self.block());
                return Ok(Seq(seq));
            }
            record.seq = seq;
            record.after = if state.last_of_owner == state.last { state.last } else { 0 };
            let control = &self.shared.control;
            // In this order: a worker that has done all operations has freed all space before.
            let reached = self.reached();
            let put = state.ring.put(control, self.index, record, first, second);
            if put == Ok(true) {
                state.last = seq;
                if self.progress.owner_done() >= state.last_of_owner {
                    self.progress.let_worker(seq);
                }
                state.ring.publish(control, self.index);
                drop(state);
                self.block().ring_worker();
                return Ok(Seq(seq));
            }
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            // The ring is full: the worker has operations to do, so that the position will advance.
            let false_claim =
                put.err().or_else(|| (reached >= state.last).then_some(Corrupt("a ring that stays full")));
            drop(state);
            if let Some(false_claim) = false_claim {
                self.shared.distrust(false_claim);
                continue;
            }
            self.synchronize(Seq(reached + 1))?;
        }
    }

    /// Puts an operation into the owner queue. Performs it here instead if none is in progress and it is `immediate`.
    pub(crate) fn push_owner(self: &Arc<Self>, op: Op, immediate: bool) -> Result<Seq> {
        self.check()?;
        let mut state = loop {
            let state = self.lock();
            if state.closing {
                return Err(crate::failure::shut_down());
            }
            match state.ops.front() {
                Some((first, _)) if state.ops.len() >= OWNER_OPS_MAX && self.queue != QueueId::INCOMING => {
                    let first = Seq(*first);
                    drop(state);
                    self.synchronize(first)?;
                }
                _ => break state,
            }
        };
        let seq = state.last + 1;
        let drained = self.reached() >= seq - 1;
        let waiters = immediate && self.queue == QueueId::SYNC && (state.ops.is_empty() || state.deferred);
        if !(waiters || drained && immediate) {
            // First, because without a thread the operation is not enqueued.
            self.start_worker(&mut state)?;
        }
        state.last = seq;
        state.last_of_owner = seq;
        if drained && immediate {
            drop(state);
            self.run(seq, op);
            self.check()?;
            return Ok(Seq(seq));
        }
        if waiters {
            state.deferred = true;
            state.ops.push_back((seq, op));
            return Ok(Seq(seq));
        }
        state.deferred = false;
        state.ops.push_back((seq, op));
        self.set_want(&state);
        drop(state);
        // If the operation's turn came meanwhile, no other event wakes the worker.
        if self.reached() >= seq - 1 {
            self.wake_owner();
        }
        Ok(Seq(seq))
    }

    /// Locks the stream and ends its deferral, because it must continue without a waiter.
    fn hurry(self: &Arc<Self>) -> Result<ShortGuard<'_, OwnerQueue>> {
        let mut state = self.lock();
        if state.deferred {
            self.start_worker(&mut state)?;
            state.deferred = false;
            self.set_want(&state);
            self.wake_owner();
        }
        Ok(state)
    }

    /// Makes the stream continue without a waiter, or fails the stream.
    pub(crate) fn go_on(self: &Arc<Self>) {
        let Err(error) = self.hurry().map(drop) else { return };
        let mut state = self.lock();
        self.fail(&mut state, error);
        // Dropped without the lock, which they may need.
        let dropped = std::mem::take(&mut state.ops);
        state.deferred = false;
        let last = state.last;
        self.set_want(&state);
        drop(state);
        drop(dropped);
        self.complete(last);
        self.wake_owner();
    }

    pub(crate) fn notify(self: &Arc<Self>, seq: Seq, done: Done) {
        self.go_on();
        let failed = self.check();
        if failed.is_err() || self.reached() >= seq.0 {
            self.settle();
            return done(failed.and_then(|()| self.check()));
        }
        let mut state = self.lock();
        if state.closing {
            drop(state);
            return done(Err(crate::failure::shut_down()));
        }
        if let Err(error) = self.start_worker(&mut state) {
            drop(state);
            return done(Err(error));
        }
        state.notifies.push((seq.0, done));
        self.set_want(&state);
        drop(state);
        if let Err(error) = self.shared.failure.check() {
            self.notify_failed(&error);
        } else if self.reached() >= seq.0 {
            self.wake_owner();
        }
    }

    /// Notifies all waiters of the device's failure. Done here, because the stream's own thread may be blocked in an operation
    /// on another party.
    pub(crate) fn notify_failed(&self, error: &Error) {
        let mut state = self.lock();
        let due = std::mem::take(&mut state.notifies);
        self.set_want(&state);
        drop(state);
        if due.is_empty() {
            return;
        }
        self.settle();
        due.into_iter().for_each(|(_, done)| done(Err(error.clone())));
    }

    pub(crate) fn synchronize(&self, seq: Seq) -> Result<()> {
        // If the position is reached, the remaining operations need no check.
        while self.reached() < seq.0
            && let Some((at, op)) = self.take_deferred(seq.0)
        {
            self.wait_until(at - 1);
            if self.check().is_ok() {
                self.run(at, op);
            } else {
                drop(op);
                self.complete(at);
            }
        }
        self.wait_until(seq.0);
        self.settle();
        self.check()
    }

    fn take_deferred(&self, seq: u64) -> Option<(u64, Op)> {
        let mut state = self.lock();
        if !state.deferred || state.ops.front().is_none_or(|(at, _)| *at > seq) {
            return None;
        }
        let op = state.ops.pop_front();
        state.deferred = !state.ops.is_empty();
        op
    }

    /// Blocks until the stream has reached `seq`, or the device has failed. Spins before it sleeps.
    fn wait_until(&self, seq: u64) {
        if self.reached() >= seq {
            return;
        }
        self.spin.wait(|| self.reached() >= seq, || self.sleep_until(seq));
    }

    fn sleep_until(&self, seq: u64) {
        assert_none_held();
        {
            let mut state = self.lock();
            state.waiters.push(seq);
            self.set_want(&state);
        }
        loop {
            let doorbell = self.block().owner_doorbell.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            if self.reached() >= seq || self.shared.failure.check().is_err() {
                break;
            }
            futex::wait(&self.block().owner_doorbell, doorbell, Some(CHECK_INTERVAL));
            self.shared.check_alive();
        }
        let mut state = self.lock();
        if let Some(at) = state.waiters.iter().position(|&w| w == seq) {
            state.waiters.swap_remove(at);
        }
        self.set_want(&state);
    }

    /// Passes on the worker's output and spans so far.
    fn settle(&self) {
        if let Some(output) = &self.shared.output {
            output.drain();
        }
        self.take_spans();
    }

    /// Passes on the worker's spans so far.
    pub(crate) fn take_spans(&self) {
        let Shared { tracer, control, .. } = &*self.shared;
        if let Err(false_claim) = tracer.drain(control, self.index, self.queue, &self.progress) {
            self.shared.distrust(false_claim);
        }
    }

    /// Ends the owner's worker thread, and drops the remaining operations.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake_owner();
    }

    /// Wakes all owner threads that sleep on this stream.
    pub(crate) fn wake_owner(&self) {
        self.block().owner_doorbell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.block().owner_doorbell);
    }

    /// Publishes the first position that this process waits for.
    fn set_want(&self, state: &OwnerQueue) {
        self.progress.set_want(state.want(), self.block());
    }

    fn start_worker(self: &Arc<Self>, state: &mut OwnerQueue) -> Result<()> {
        if !state.worker_started {
            let stream = Arc::clone(self);
            threads::spawn(format!("accord-q{}", self.queue), move || (stream.shared.run)(&stream))
                .map_err(|error| crate::failure::no_thread(&error).queue(self.queue))?;
            state.worker_started = true;
        }
        Ok(())
    }

    /// Fails the stream, so that all later operations fail.
    fn fail(&self, state: &mut OwnerQueue, error: Error) {
        state.failure.get_or_insert(error);
        self.block().poisoned.store(1, Ordering::Release);
        self.failed.store(true, Ordering::Release);
    }

    /// Returns the next work of the owner's worker thread, or `None` to end it.
    pub(crate) fn next_work(&self) -> Option<Work> {
        let mut state = self.lock();
        let failure = self.shared.failure.check().err().or_else(|| state.failure.clone());
        if state.closing || failure.is_some() {
            let error = failure.unwrap_or_else(crate::failure::shut_down);
            let due = std::mem::take(&mut state.notifies).into_iter().map(|(_, done)| done).collect();
            // Operations are dropped without the lock, which they may need, and after `due` is complete.
            let dropped = std::mem::take(&mut state.ops);
            let last = state.last;
            self.set_want(&state);
            let closing = state.closing;
            drop(state);
            drop(dropped);
            self.complete(last);
            return if closing { Work::last(due, error) } else { Some(Work::Notify(due, Err(error))) };
        }
        let reached = self.reached();
        let mut due = Vec::new();
        let mut i = 0;
        while i < state.notifies.len() {
            if state.notifies[i].0 <= reached {
                due.push(state.notifies.swap_remove(i).1);
            } else {
                i += 1;
            }
        }
        if !due.is_empty() {
            self.set_want(&state);
            return Some(Work::Notify(due, Ok(())));
        }
        if !state.deferred
            && state.ops.front().is_some_and(|(seq, _)| reached >= seq - 1)
            && let Some((seq, op)) = state.ops.pop_front()
        {
            self.set_want(&state);
            return Some(Work::Run(seq, op));
        }
        self.set_want(&state);
        Some(Work::Sleep)
    }

    /// Returns the copy out after the operation at `seq`, if its bytes may be sent before that operation is finished.
    pub(crate) fn take_following(&self, seq: u64) -> Option<(DevicePtr, u64, CopySink)> {
        let mut state = self.lock();
        match state.ops.front() {
            Some((next, Op::CopyOut { sink, .. })) if *next == seq + 1 && !state.closing && sink.follows() => {}
            _ => return None,
        }
        let Some((_, Op::CopyOut { src, len, sink })) = state.ops.pop_front() else { return None };
        self.set_want(&state);
        Some((src, len, sink))
    }

    /// Runs one owner operation, and others that may be combined with it. Moves the stream past them even on failure.
    pub(crate) fn run(&self, mut seq: u64, op: Op) {
        let outcome = (self.shared.perform)(self, &mut seq, op);
        let failed = outcome.is_err();
        if let Err(error) = outcome {
            let error = error.queue(self.queue);
            self.fail(&mut self.lock(), error);
        }
        self.complete(seq);
        if failed {
            self.wake_owner();
        }
    }

    /// Completes all operations of the owner up to `seq`.
    fn complete(&self, seq: u64) {
        let state = self.lock();
        self.progress.let_worker(state.worker_may());
        self.has_done(state, seq);
    }

    /// Completes one operation while others that left the list are in progress.
    pub(crate) fn has_done_one(&self, seq: u64) {
        self.has_done(self.lock(), seq);
    }

    fn has_done(&self, state: ShortGuard<'_, OwnerQueue>, seq: u64) {
        let block = self.block();
        self.progress.owner_has_done(seq, block);
        drop(state);
        block.ring_waiting_worker();
        if self.progress.want() <= seq {
            self.wake_owner();
        }
        self.shared.control.header().ring_cross();
    }
}

//! Copies out whose bytes leave the process. The device fills slots in the stream's order. A thread per stream passes them
//! to their sinks, so that later operations do not wait for a network.

use super::shared::Shared;
use super::staging::slot_pool::Slot;
use super::timer_slack;
use accord_device::CopySink;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::Signal;
use accord_types::spin_policy::SpinPolicy;
use accord_types::threads;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar};

/// Number of queued parts from which on a copy out waits for space. The queue may grow beyond it by the parts of copies that
/// had space, as many as the slots that they hold.
const PARTS_MAX: usize = 256;

/// A part of a copy out. Copies are queued one after the other.
pub(crate) enum Part {
    /// The beginning of a copy.
    Begin(CopySink),
    /// The next bytes: so many will be in the slot.
    Bytes(Slot, usize),
    /// The end of a copy.
    End,
    /// The failure of a copy, of which no more parts follow.
    Abort,
}

/// The copies out of one stream.
#[derive(Default)]
pub(crate) struct Egress(Arc<PartQueue>);

#[derive(Default)]
struct PartQueue {
    state: ShortLock<WaitingParts>,
    /// Raised when there are parts, or the queue is closed.
    changed: Signal,
    /// Notified when there is space again.
    taken: Condvar,
}

#[derive(Default)]
struct WaitingParts {
    parts: VecDeque<Part>,
    started: bool,
    closed: bool,
}

impl Egress {
    /// Starts the thread unless it runs. Returns `false` if it can't be started.
    pub(crate) fn is_ready(&self, shared: &Arc<Shared>) -> bool {
        let mut state = self.0.lock();
        if !state.started && !state.closed {
            let (inner, shared) = (Arc::clone(&self.0), Arc::clone(shared));
            state.started = threads::spawn("accord-egress", move || inner.serve(&shared)).is_ok();
        }
        state.started && !state.closed
    }

    /// Whether a copy out must wait for space.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Blocks until there is space for a copy out. Only for the stream's worker, without a lock.
    pub(crate) fn wait_for_space(&self) {
        let mut state = self.0.lock();
        while state.is_full() {
            state = ShortGuard::wait(state, &self.0.taken);
        }
    }

    /// Enqueues the next part of a copy. The part is dropped after the end.
    pub(crate) fn put(&self, part: Part) {
        let mut state = self.0.lock();
        if !state.closed {
            state.parts.push_back(part);
            self.0.changed.raise();
            drop(state);
        }
    }

    /// Ends the thread after its current bytes; others are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.parts);
        self.0.changed.raise();
        drop(state);
        drop(dropped);
        self.0.taken.notify_all();
    }
}

impl WaitingParts {
    fn is_full(&self) -> bool {
        self.parts.len() >= PARTS_MAX && !self.closed
    }
}

impl PartQueue {
    fn serve(&self, shared: &Shared) {
        let Ok(_current) = shared.context.enter() else { return };
        timer_slack::wake_in_time();
        // The sink of the current copy, unless that has failed.
        let mut sink = None;
        let mut spin = SpinPolicy::long_spin();
        let mut state = self.lock();
        while !state.closed {
            let Some(part) = state.parts.pop_front() else {
                state = self.changed.spin_then_wait(&self.state, state, None, &mut spin);
                continue;
            };
            drop(state);
            self.taken.notify_all();
            give(part, &mut sink, shared);
            state = self.lock();
        }
    }

    fn lock(&self) -> ShortGuard<'_, WaitingParts> {
        self.state.lock()
    }
}

/// Handles a part. Waiters for the bytes learn of a failure from the device, or from the sink, which is dropped.
fn give(part: Part, current: &mut Option<CopySink>, shared: &Shared) {
    match part {
        Part::Begin(sink) => *current = Some(sink),
        Part::Bytes(mut slot, len) => {
            // The device writes to the slot nevertheless.
            let Some(sink) = current else { return slot.release_after() };
            let there = slot.wait().map_err(|error| shared.driver_failed(error, None));
            if there.and_then(|()| sink.drain(slot.bytes(len))).is_err() {
                *current = None;
            }
        }
        Part::Abort => *current = None,
        Part::End => {
            if let Some(mut sink) = current.take() {
                let _ = sink.finish();
            }
        }
    }
}

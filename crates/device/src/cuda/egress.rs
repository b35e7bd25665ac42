//! Copies out whose bytes leave the process: the device fills slots in the stream's order, and a thread of the stream's own
//! gives them to their sinks. What comes next in the stream does not wait for a network.

use super::shared::Shared;
use super::staging::slot_pool::Slot;
use super::timer_slack;
use crate::CopySink;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::Signal;
use accord_types::spin_policy::SpinPolicy;
use accord_types::threads;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar};

/// Parts that wait for the thread, beyond which a copy out waits for room. Those of a copy that had room may be more: they are as
/// many as the slots that it has taken.
const PARTS_MAX: usize = 256;

/// Part of a copy out; copies come one after the other.
pub(crate) enum Part {
    /// One begins.
    Begin(CopySink),
    /// Its next bytes: so many will be in the slot.
    Bytes(Slot, usize),
    /// That was all of it.
    End,
    /// No more of it will come.
    Abort,
}

/// The copies of one stream.
#[derive(Default)]
pub(crate) struct Egress(Arc<PartQueue>);

#[derive(Default)]
struct PartQueue {
    state: ShortLock<WaitingParts>,
    /// There are parts, or it is closed.
    changed: Signal,
    /// There is room again.
    taken: Condvar,
}

#[derive(Default)]
struct WaitingParts {
    parts: VecDeque<Part>,
    started: bool,
    closed: bool,
}

impl Egress {
    /// Has the thread, started now if it isn't there. False without one.
    pub(crate) fn is_ready(&self, shared: &Arc<Shared>) -> bool {
        let mut state = self.0.lock();
        if !state.started && !state.closed {
            let (inner, shared) = (Arc::clone(&self.0), Arc::clone(shared));
            state.started = threads::spawn("accord-egress", move || inner.serve(&shared)).is_ok();
        }
        state.started && !state.closed
    }

    /// Whether a copy out has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Waits for room for a copy out. Only for the stream's worker, without a lock.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.0.lock();
        while state.is_full() {
            state = ShortGuard::wait(state, &self.0.taken);
        }
    }

    /// Takes the next part of what the device is to do. It is dropped after the end.
    pub(crate) fn put(&self, part: Part) {
        let mut state = self.0.lock();
        if !state.closed {
            state.parts.push_back(part);
            self.0.changed.raise();
            drop(state);
        }
    }

    /// Ends the thread after the bytes that it is at; the others are dropped.
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
        // The sink of the copy that it is at, unless that has failed.
        let mut sink = None;
        let mut spin = SpinPolicy::patient();
        let mut state = self.lock();
        while !state.closed {
            let Some(part) = state.parts.pop_front() else {
                state = self.changed.look_then_wait(&self.state, state, None, &mut spin);
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

/// Waiters for the bytes learn of a failure as one of the device, or from the sink, which is dropped.
fn give(part: Part, current: &mut Option<CopySink>, shared: &Shared) {
    match part {
        Part::Begin(sink) => *current = Some(sink),
        Part::Bytes(mut slot, len) => {
            // The device writes it all the same.
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

//! Operations after one that a thread performs, with which the same thread may continue.

use super::{Op, Stream, StreamProgress};
use std::sync::atomic::Ordering;

impl Stream {
    /// Takes the next operation of the list if `is_such` accepts it. Returns `None` if the device has yet to perform the previous one: the calling thread
    /// would wait for it, while others wait for earlier operations.
    pub(crate) fn take_if(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        let mut state = self.lock();
        let taken = if state.closing || state.behind > 0 { None } else { state.pending.pop_if(is_such) };
        state.lets_behind &= taken.is_none();
        taken
    }

    /// Takes as [`Stream::take_if`] an operation that enters the driver's stream while only other parties have to end the previous one. If none is left
    /// that must wait for that, later operations are issued at once.
    pub(crate) fn take_behind(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        let mut state = self.lock();
        let taken = if state.closing { None } else { state.pending.pop_if(is_such) };
        match &taken {
            Some((seq, _)) => (state.behind, state.lets_behind) = (*seq, false),
            None => state.lets_behind = state.pending.is_empty(),
        }
        taken
    }

    /// Records that the operation at `seq` and all earlier ones are done, while the thread that performed it continues with others.
    pub(crate) fn is_done(&self, seq: u64) {
        // A trace has added events after the operation.
        let is_traced = self.shared.tracer.is_on();
        let mut state = self.lock();
        state.issued = seq;
        if !is_traced {
            state.arrived(seq);
        }
        self.performing.store(seq + 1, Ordering::Release);
        drop(state);
        self.moved.notify_all();
    }
}

impl StreamProgress {
    /// Whether the next operation may enter the driver's stream now.
    pub(super) fn may_issue(&self) -> bool {
        self.pending.is_empty() && (!self.busy || self.lets_behind)
    }
}

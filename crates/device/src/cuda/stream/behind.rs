//! Operations ordered after one that a thread performs: the same thread may continue with them.

use super::{Op, Stream, StreamProgress};
use std::sync::atomic::Ordering;

impl Stream {
    /// Takes the next operation of the list if `is_such` accepts it. Returns `None` behind an operation that the device has still to do: the calling thread
    /// would wait for it, while others wait for the operations before.
    pub(crate) fn take_if(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        let mut state = self.lock();
        let taken = if state.closing || state.behind > 0 { None } else { state.pending.pop_if(is_such) };
        state.lets_behind &= taken.is_none();
        taken
    }

    /// The same for what goes into the driver's stream behind an operation that only others have still to end. If nothing is left that has to wait for
    /// that, what is put in goes there at once.
    pub(crate) fn take_behind(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        let mut state = self.lock();
        let taken = if state.closing { None } else { state.pending.pop_if(is_such) };
        match &taken {
            Some((seq, _)) => (state.behind, state.lets_behind) = (*seq, false),
            None => state.lets_behind = state.pending.is_empty(),
        }
        taken
    }

    /// Records that the operation at `seq` is done, and all before it; the thread that performed it continues with others.
    pub(crate) fn is_done(&self, seq: u64) {
        // A trace has put something in after it.
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
    /// Whether what comes next may go into the driver's stream now.
    pub(super) fn may_issue(&self) -> bool {
        self.pending.is_empty() && (!self.busy || self.lets_behind)
    }
}

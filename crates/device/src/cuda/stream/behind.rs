//! What comes behind an operation that somebody works on: that one may go on with it.

use super::{Op, Stream, StreamProgress};
use std::sync::atomic::Ordering;

impl Stream {
    /// Takes the operation that follows those that somebody works on, if it is one of those. None behind what the device has still to do: who works on it
    /// would have to wait for that, and others may wait for those before it.
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

    /// The operation at `seq` is done, and all before it; whoever works on it goes on with others.
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

//! Operations after one that a thread performs, with which the same thread may continue.

use super::{Op, Stream};
use std::sync::atomic::Ordering;

impl Stream {
    /// Takes the next listed operation, see [`crate::stream::StreamCore::take_next`].
    pub(crate) fn take_if(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        self.lock().core.take_next(is_such)
    }

    /// Takes an operation that enters the driver's stream behind those in progress, see [`crate::stream::StreamCore::take_behind`].
    pub(crate) fn take_behind(&self, is_such: impl FnOnce(&mut Op) -> bool) -> Option<(u64, Op)> {
        self.lock().core.take_behind(is_such)
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
}

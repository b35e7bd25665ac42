//! Launches of a stream while the device is shared by turns.

use super::{Op, Stream};
use crate::turn::Activity;
use accord_types::{Result, Seq};
use std::time::Instant;

impl Stream {
    /// Whether launches enter the list, so that the stream's worker issues them in turns. Launches between the program's own
    /// work in the driver's stream can't be held back.
    #[inline]
    pub(crate) fn takes_turns(&self) -> bool {
        self.shared.turn.as_ref().is_some_and(|turn| !turn.is_open()) && !self.is_exposed()
    }

    /// Puts a launch into the list, or returns `None` if it is full.
    pub(crate) fn try_list(self: &std::sync::Arc<Self>, op: Op) -> Result<Option<Seq>> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if state.core.is_full() { Ok(None) } else { self.push(state, op).map(Some) }
    }

    /// Blocks until a launch may be issued. Called by the stream's worker.
    pub(crate) fn await_turn(&self) {
        if let Some(turn) = &self.shared.turn {
            while turn.is_closed() {
                turn.park();
            }
        }
    }

    /// Waits for launches that the worker has issued, if they are enough for a while. The launch at `seq` is the last one.
    ///
    /// # Errors
    /// Returns the failure of the device.
    pub(crate) fn launched_in_turn(&self, seq: u64) -> Result<()> {
        if !self.takes_turns() || !self.lock().batch.launched(Instant::now()) {
            return Ok(());
        }
        // SAFETY: the stream lives as long as `self`.
        let waited = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
        waited.map_err(|error| self.shared.driver_failed(error, Some(self.queue)))?;
        self.lock().batch.waited(Instant::now());
        self.arrived(seq);
        Ok(())
    }

    /// Returns what the stream does. The device's context is current.
    pub(super) fn region_activity(&self) -> Activity {
        // The holder of the lock is enqueuing an operation.
        let Some(state) = self.state.try_take() else { return Activity::Ready };
        let may_run = !state.core.recent_kernels().is_empty();
        let is_next = state.core.has_listed() && state.core.performing() == 0;
        drop(state);
        if may_run && self.has_driver_work() == Some(true) {
            return Activity::Running;
        }
        if is_next { Activity::Ready } else { Activity::Idle }
    }
}

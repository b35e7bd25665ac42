//! Launches of a stream while the device is shared by turns.

use super::{BatchEvents, Op, Stream};
use crate::cuda::driver::DriverError;
use crate::cuda::launch_batch::AfterLaunch;
use crate::turn::Activity;
use accord_types::Seq;
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::ptr::null_mut;
use std::time::Instant;

impl Stream {
    /// Whether launches enter the list, so that the stream's worker issues them in turns. Launches between the program's own
    /// work in the driver's stream can't be held back.
    #[inline]
    pub(crate) fn takes_turns(&self) -> bool {
        self.shared.turn.as_ref().is_some_and(|turn| !turn.is_open()) && !self.is_exposed()
    }

    /// Puts a launch into the list, or returns `None` if it is full.
    pub(crate) fn try_list(self: &std::sync::Arc<Self>, op: Op) -> accord_types::Result<Option<Seq>> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        if state.core.is_full() { Ok(None) } else { self.push(state, op).map(Some) }
    }

    /// Blocks until a launch may be issued. Called by the stream's worker.
    pub(crate) fn await_turn(&self) {
        let Some(turn) = self.shared.turn.as_ref().filter(|turn| turn.is_closed()) else { return };
        // The keeper of the turn returns it once no launch runs, and is woken then. The next wait reports an error.
        // SAFETY: the stream lives as long as `self`.
        let _ = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
        self.lock().batch.drained();
        while turn.is_closed() {
            turn.park();
        }
    }

    /// Waits for launches that the worker has issued, so that the driver's stream has few. The launch at `seq` is the last one.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub(crate) fn launched_in_turn(&self, seq: u64) -> Result<(), DriverError> {
        if !self.takes_turns() {
            return Ok(());
        }
        let driver = self.shared.context.driver;
        let after = self.lock().batch.launched(Instant::now());
        // SAFETY: stream and events live as long as `self`.
        unsafe {
            match after {
                AfterLaunch::Issue => return Ok(()),
                AfterLaunch::Record(event) => return driver.cuEventRecord(self.batch_events()?[event], self.raw),
                AfterLaunch::RecordAndWait(event) => {
                    let events = self.batch_events()?;
                    driver.cuEventRecord(events[event], self.raw)?;
                    driver.cuEventSynchronize(events[1 - event])?;
                }
                AfterLaunch::Drain => {
                    driver.cuStreamSynchronize(self.raw)?;
                    self.arrived(seq);
                }
            }
        }
        self.lock().batch.waited(Instant::now());
        Ok(())
    }

    /// Returns the events of the two latest batches.
    fn batch_events(&self) -> Result<[CUevent; 2], DriverError> {
        if let Some(events) = self.batch_events.get() {
            return Ok(events.0);
        }
        let mut events = [null_mut(); 2];
        for event in &mut events {
            // SAFETY: `event` is valid for writing.
            unsafe {
                self.shared.context.driver.cuEventCreate(event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)?;
            }
        }
        Ok(self.batch_events.get_or_init(|| BatchEvents(events)).0)
    }

    /// Returns what the stream does. The device's context is current.
    pub(super) fn region_activity(&self) -> Activity {
        if self.is_exposed() {
            // The program's own work may never end.
            return Activity::Idle;
        }
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

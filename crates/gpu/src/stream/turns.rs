//! Launches of a stream while the device is shared by turns.

use super::{BatchEvents, Stream, StreamProgress};
use crate::driver::DriverError;
use crate::launch_batch::AfterLaunch;
use accord_device::{Activity, TurnWords};
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::ptr::null_mut;
use std::sync::MutexGuard;
use std::time::Instant;

impl Stream {
    /// Whether launches enter the list, so that the stream's worker issues them in turns. Launches between the program's own
    /// work in the driver's stream can't be held back.
    #[inline]
    pub(crate) fn takes_turns(&self) -> bool {
        self.shared.turn.as_ref().is_some_and(|turn| !turn.is_open()) && !self.is_exposed()
    }

    /// Whether the next launch may enter the driver's stream at once. The gate is read under the lock, as in
    /// [`Stream::lock_in_turn`].
    #[inline]
    pub(super) fn may_launch(&self, state: &StreamProgress) -> bool {
        state.core.may_issue() && !self.takes_turns()
    }

    /// Blocks until a launch may be issued, and returns the lock under which the caller must issue it. The keeper of the turn
    /// reads the stream's activity under the lock after it has closed the gate, so that it never misses the launch. Called by the
    /// stream's worker.
    pub(crate) fn lock_in_turn(&self) -> MutexGuard<'_, StreamProgress> {
        let mut state = self.lock();
        while let Some(turn) = self.closed_gate() {
            drop(state);
            // The keeper of the turn returns it once no launch runs, and is woken then. The next wait reports an error.
            // SAFETY: the stream lives as long as `self`.
            let _ = unsafe { self.shared.context.driver.cuStreamSynchronize(self.raw) };
            turn.park();
            state = self.lock();
            state.batch.drained();
        }
        state
    }

    /// Returns the gate if launches must wait at it. To wait for the stream would invalidate the program's capture of an exposed
    /// one.
    fn closed_gate(&self) -> Option<&TurnWords> {
        self.shared.turn.as_deref().filter(|turn| turn.is_closed() && !self.is_exposed())
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
        // The holder of the lock may be issuing a launch.
        let Some(state) = self.state.try_take() else { return Activity::Running };
        let may_run = !state.core.recent_kernels().is_empty();
        let is_next = state.core.has_listed() && state.core.performing() == 0;
        drop(state);
        if may_run && self.has_driver_work() == Some(true) {
            return Activity::Running;
        }
        if is_next { Activity::Ready } else { Activity::Idle }
    }
}

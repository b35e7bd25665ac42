//! Holds small copies of a stream back to merge them into one, see `rows.rs`.

use super::completion::Completion;
use super::direct::{self, HostMemoryQuery};
use super::driver::DriverError;
use super::rows::{HELD_FROM, Held, Run};
use super::staging::copy_route::{self, Direction, End, Facts, IssuePoint, NoMemory, Route};
use super::staging::slot_pool::SMALL_SLOT;
use super::stream::{Stream, StreamProgress};
use accord_device::CopySink;
use accord_device::program_bytes;
use accord_types::{DevicePtr, HostRange, Result, Seq};
use std::sync::atomic::Ordering;

impl Stream {
    /// Holds back a small copy in that continues a run. Returns `None` if it must be issued as usual. The context is current.
    pub(crate) fn hold_in(&self, facts: &Facts, dst: DevicePtr, range: HostRange) -> Result<Option<Seq>> {
        self.hold(facts, dst, |stream, state, facts| {
            let mut asked = HostMemoryQuery::at_call(stream, state, range);
            if copy_route::route(facts, &mut asked).route != Route::Held {
                return Ok(None);
            }
            stream.hold_bytes(state, program_bytes(range))
        })
    }

    /// Holds a copy back as `hold_in`, of bytes that the caller supplies.
    pub(crate) fn hold_store(&self, dst: DevicePtr, bytes: &[u8]) -> Result<Option<Seq>> {
        let handed = End::Handed { detached: false };
        let facts = direct::facts(self, Direction::In, IssuePoint::Call, bytes.len(), handed, false);
        self.hold(&facts, dst, |stream, state, facts| {
            if copy_route::route(facts, &mut NoMemory).route != Route::Held {
                return Ok(None);
            }
            stream.hold_bytes(state, bytes)
        })
    }

    /// Holds a small copy out back as `hold_in`, and takes its sink then.
    pub(crate) fn hold_out(&self, facts: &Facts, src: DevicePtr, sink: &mut Option<CopySink>) -> Result<Option<Seq>> {
        self.hold(facts, src, |stream, state, facts| {
            if copy_route::route(facts, &mut NoMemory).route != Route::Held {
                return Ok(None);
            }
            let Some(held) = stream.space(state)? else { return Ok(None) };
            let Some(sink) = sink.take() else { return Ok(None) };
            held.sinks.push(sink);
            held.rows += 1;
            Ok(Some(Seq(state.core.hold())))
        })
    }

    /// Records a copy, and holds it back by `hold` if it continues a run.
    fn hold(
        &self,
        facts: &Facts,
        at: DevicePtr,
        hold: impl FnOnce(&Self, &mut StreamProgress, &Facts) -> Result<Option<Seq>>,
    ) -> Result<Option<Seq>> {
        if !facts.may_be_held() || !self.is_unobserved() {
            return Ok(None);
        }
        let mut state = self.lock_to_put()?;
        let in_row = state.follows_run(facts.direction, at, facts.len);
        if in_row { hold(self, &mut state, &Facts { in_row, ..*facts }) } else { Ok(None) }
    }

    fn hold_bytes(&self, state: &mut StreamProgress, bytes: &[u8]) -> Result<Option<Seq>> {
        let Some(held) = self.space(state)? else { return Ok(None) };
        let at = held.rows * held.len;
        held.slot.bytes(SMALL_SLOT)[at..at + bytes.len()].copy_from_slice(bytes);
        held.rows += 1;
        Ok(Some(Seq(state.core.hold())))
    }

    /// Whether single copies are unobservable, by tracing or by other code that uses the driver.
    fn is_unobserved(&self) -> bool {
        // Code that waits through the driver would not wait for copies that are held back.
        !self.shared.tracer.is_on() && !self.shared.company.is_some_and(|in_company| in_company())
    }

    /// Returns the slot entry for the last copy of the stream's run, or `None` if there is no slot.
    fn space<'a>(&self, state: &'a mut StreamProgress) -> Result<Option<&'a mut Held>> {
        let Some(run) = state.rows.run else { return Ok(None) };
        if state.rows.held.as_ref().is_some_and(|held| !held.has_space() || !held.is_followed_by(&run)) {
            self.flush(state)?;
        }
        if state.rows.held.is_none() {
            let slot = self.shared.small.try_take();
            let slot = slot.map_err(|error| self.shared.driver_failed(error, Some(self.queue)))?;
            let Some(slot) = slot else { return Ok(None) };
            let Run { direction, len, at, distance, .. } = run;
            let (first_seq, sinks) = (state.core.next(), Vec::new());
            state.rows.held = Some(Held { direction, len, first: at, first_seq, distance, rows: 0, slot, sinks });
            self.shared.streams_holding.fetch_add(1, Ordering::Relaxed);
        }
        Ok(state.rows.held.as_mut())
    }

    /// Issues the copies that are held back.
    #[inline]
    pub(crate) fn flush(&self, state: &mut StreamProgress) -> Result<()> {
        if state.rows.held.is_none() { Ok(()) } else { self.flush_held(state) }
    }

    fn flush_held(&self, state: &mut StreamProgress) -> Result<()> {
        let Some(held) = state.rows.held.take() else { return Ok(()) };
        self.shared.streams_holding.fetch_sub(1, Ordering::Relaxed);
        state.core.release_held();
        let copied = (|| {
            let _current = self.shared.context.enter()?;
            self.order_after(state)?;
            held.copy(&self.shared.context, self.raw)?;
            match held.direction {
                Direction::In => {
                    held.slot.record(self.raw)?;
                    held.slot.release_after();
                }
                Direction::Out => {
                    let Held { slot, len, sinks, .. } = held;
                    // A waiter for the first copy completes all.
                    state.core.add_work(held.first_seq, Completion::Rows { slot, len, sinks });
                }
            }
            Ok(())
        })();
        copied.map_err(|error: DriverError| {
            let error = self.shared.driver_failed(error, Some(self.queue)).queue(self.queue);
            // The driver has taken nothing of the copy.
            state.core.fail(error.clone());
            state.core.drained();
            self.signals.failed.store(true, Ordering::Release);
            error
        })
    }

    /// Issues held-back copies of all streams of the device, because a region may run until another stream's copy arrives.
    pub(crate) fn flush_all(&self) {
        if self.shared.streams_holding.load(Ordering::Relaxed) > 0 {
            for stream in self.shared.all_streams() {
                stream.flush_held_back();
            }
        }
    }
}

impl StreamProgress {
    /// Records a small copy that comes next. Returns whether it continues a run.
    fn follows_run(&mut self, direction: Direction, at: DevicePtr, len: usize) -> bool {
        if !self.core.is_idle() {
            return false;
        }
        let run = Run::with(self.rows.run, direction, at.0, len, self.core.next());
        self.rows.run = Some(run);
        run.rows >= HELD_FROM
    }
}

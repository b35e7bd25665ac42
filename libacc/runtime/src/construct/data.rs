//! Structured data regions: `data` and `host_data` (OpenACC 3.3, 2.6.5 and 2.8).

use super::component::with_ranges;
use super::map::Mode;
use super::{ConstructExit, Entries, Region, on_host};
use crate::device::Device;
use crate::issue::Issue;
use crate::plan::Plan;
use crate::present::Counter;
use crate::queues::QueueList;
use crate::{LocalThread, Runtime};
use accord_types::{Error, ErrorCode, QueueId, Result};

impl Runtime {
    /// Starts a `data` or `host_data` region (2.6.5, 2.8).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`]. The thread has not entered the region then.
    pub fn data_start(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        let started = self.start_region(t, flags, entries);
        started.map_err(|error| error.call(if entries.use_devices() { "host_data" } else { "data" }))
    }

    /// Ends the innermost `data` region of this thread.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`]; `acc_error_invalid_argument` if the thread is in no region.
    pub fn data_end(&self, t: &mut LocalThread) -> Result<()> {
        self.end_region(t).map_err(|error| error.call("end data"))
    }

    fn start_region(&self, t: &mut LocalThread, flags: i32, entries: &mut Entries<'_>) -> Result<()> {
        let device = if on_host(flags) { None } else { self.target(t)? };
        let Some(device) = device else {
            // The end is reached whatever the condition was.
            t.regions.push(None);
            return Ok(());
        };
        with_ranges(&*self.host, device, entries, |entries| {
            self.enter(t, device, QueueId::SYNC, Mode::Region, entries)
        })
        .map_err(|error| device.place(error))?;
        let next = t.scratch.spare.pop().unwrap_or_default();
        t.regions.push(Some(std::mem::replace(&mut t.scratch.region, next)));
        Ok(())
    }

    fn end_region(&self, t: &mut LocalThread) -> Result<()> {
        let Some(top) = t.regions.pop() else {
            return Err(Error::new(ErrorCode::InvalidArgument, "this thread is in no data region"));
        };
        let Some(mut region) = top else { return Ok(()) };
        let ended = self.leave(&mut t.scratch.plan, &region);
        region.clear();
        t.scratch.spare.push(region);
        ended
    }

    fn leave(&self, plan: &mut Plan, region: &Region) -> Result<()> {
        let device = &self.devices[region.device];
        device.begin(plan, QueueId::SYNC);
        if !device.is_started() || device.epoch() != region.epoch {
            return Ok(());
        }
        let mut state = device.lock();
        ConstructExit { state: &mut state, plan, counter: Counter::Structured }.region(region, &*self.host);
        drop(state);
        self.finish(device, QueueId::SYNC, plan)
    }

    /// Enters a construct that outlasts the call, and sends its commands to the device.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::parallel`].
    pub(crate) fn enter(
        &self,
        t: &mut LocalThread,
        device: &Device,
        queue: QueueId,
        mode: Mode,
        entries: &mut Entries<'_>,
    ) -> Result<()> {
        let entering = self.entering(device, queue, mode);
        entering.decide(entries, &mut t.scratch)?;
        self.send_or_undo(t, device, queue, mode)
    }

    /// Sends the plan to the device; if that fails, undoes all of it.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub(crate) fn send_or_undo(&self, t: &mut LocalThread, device: &Device, queue: QueueId, mode: Mode) -> Result<()> {
        let plan = &mut t.scratch.plan;
        let issue = Issue { device, all: &self.devices, host: &*self.host, queue };
        let sent = issue.check_bounds_before(plan).and_then(|()| self.send(device, queue, plan));
        if sent.is_err() {
            // What could not be filled is not present.
            let mut state = device.lock();
            let counter = if mode == Mode::Enter { Counter::Dynamic } else { Counter::Structured };
            let queues = device.queues();
            let arrivals = std::mem::take(&mut plan.arrivals);
            ConstructExit { state: &mut state, plan, counter }.undo(&t.scratch.region, &queues);
            plan.arrivals = arrivals;
        }
        issue.settle(plan, None, true)?;
        sent
    }

    /// Puts a plan without a launch into a queue. Waits for copies out if the queue is the synchronous one.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub(crate) fn send(&self, device: &Device, queue: QueueId, plan: &Plan) -> Result<()> {
        let issue = Issue { device, all: &self.devices, host: &*self.host, queue };
        if plan.profiling.is_watched {
            issue.notify(&plan.profiling.begins);
        }
        if plan.is_silent() {
            return Ok(());
        }
        let laid = issue.lay_patterns(plan).and_then(|()| issue.join_for(plan));
        let sent = laid.and_then(|()| issue.steps(&plan.before, plan));
        let moment = issue.filled(&plan.before, true);
        sent?;
        if queue == QueueId::SYNC && plan.copies_out() {
            device.wait_observed_since(queue, moment)?;
        }
        Ok(())
    }

    /// Enqueues the commands of a plan, and frees the memory of the entries that it ends.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub(crate) fn finish(&self, device: &Device, queue: QueueId, plan: &Plan) -> Result<()> {
        let waited = if queue == QueueId::SYNC && !plan.releases.used_by.is_empty() {
            Self::wait_for_forgotten(device, plan)
        } else {
            Ok(())
        };
        let issue = Issue { device, all: &self.devices, host: &*self.host, queue };
        let checked = waited.and_then(|()| issue.check_bounds_before(plan));
        let sent = checked.and_then(|()| self.send(device, queue, plan));
        let after = (queue != QueueId::SYNC || !plan.releases.are_shared).then_some(queue);
        issue.settle(plan, after, true)?;
        sent
    }

    /// Waits for queues that the program forgot to wait for: a synchronous end may copy out and free what they still use.
    #[cold]
    fn wait_for_forgotten(device: &Device, plan: &Plan) -> Result<()> {
        let used = |busy: &QueueId| plan.releases.used_by.may_have(*busy);
        let forgotten: QueueList = device.queues().all_busy().filter(used).collect();
        // The host waits: a failed queue must not make the synchronous one fail, and its failure is to be reported.
        forgotten.into_iter().try_for_each(|forgotten| device.wait_observed(forgotten))
    }
}

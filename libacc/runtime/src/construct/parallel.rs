//! Compute constructs (OpenACC 3.3, 2.5).

use super::component::with_ranges;
use super::kind::Kind;
use super::map::Mode;
use super::region::Scratch;
use super::tags::Tags;
use super::{Entries, Placement, on_host};
use crate::block_copies::Buffers;
use crate::device::Device;
use crate::issue::Issue;
use crate::plan::{Plan, Step};
use crate::pointer_log::PointerMeaning;
use crate::prof::{Notice, ProfilingEvent};
use crate::{LocalThread, Runtime};
use accord_types::{LaunchDims, QueueId, Result};

impl Runtime {
    /// Runs a compute construct (OpenACC 3.3, 2.5). `flags` is the `dev` word of the call, `function` the
    /// address of the region's host version, `tags` the meaning of its launch tags.
    ///
    /// # Errors
    /// Returns the errors of the specification for its clauses, and those of the device.
    pub fn parallel(
        &self,
        t: &mut LocalThread,
        flags: i32,
        function: usize,
        entries: &mut Entries<'_>,
        tags: &Result<Tags>,
    ) -> Result<Placement> {
        self.parallel_or_host(t, flags, function, entries, tags).map_err(|error| error.call("parallel"))
    }

    fn parallel_or_host(
        &self,
        t: &mut LocalThread,
        flags: i32,
        function: usize,
        entries: &mut Entries<'_>,
        tags: &Result<Tags>,
    ) -> Result<Placement> {
        if on_host(flags) {
            entries.lead_to_objects();
            return Ok(Placement::Host);
        }
        let Some(device) = self.target(t)? else {
            entries.lead_to_objects();
            return Ok(Placement::Host);
        };
        let tags = tags.as_ref().map_err(|error| device.place(error.clone()))?;
        let queue = t.queue(tags.queue);
        if !tags.waits.is_empty() {
            device.wait_clause(t, queue, tags.waits.iter().copied())?;
        }
        with_ranges(&*self.host, device, entries, |entries| {
            self.launch(t, device, queue, function, entries, tags.dims)
        })
        .map_err(|error| device.place(self.explain_element(device, function, error, entries)))?;
        Ok(Placement::Device)
    }

    fn launch(
        &self,
        t: &mut LocalThread,
        device: &Device,
        queue: QueueId,
        function: usize,
        entries: &mut Entries<'_>,
        dims: LaunchDims,
    ) -> Result<()> {
        if device.rules.maps_unmapped {
            self.look_ahead(entries);
        }
        let scratch = &mut t.scratch;
        scratch.region.function = function;
        self.entering(device, queue, Mode::Launch).decide(entries, scratch)?;
        let [gangs, workers, _] = self.settings.default_dims;
        let choose = |clause: u32, setting: u32| if clause == 0 { setting } else { clause };
        let dims = LaunchDims { gangs: choose(dims.gangs, gangs), workers: choose(dims.workers, workers), ..dims };
        let issue = Issue { device, all: &self.devices, host: &*self.host, queue };
        if !scratch.region.unmapped_pointers.is_empty() || !scratch.plan.launch_copies.blocks.is_empty() {
            return self.launch_with_unmapped_pointers(&issue, scratch, function, dims, entries);
        }
        let sent = self.send_launch(&issue, scratch, function, dims, None);
        Self::settle_launch(&issue, scratch, sent, queue == QueueId::SYNC)
    }

    /// Launches with pointers to memory that is not mapped.
    #[cold]
    fn launch_with_unmapped_pointers(
        &self,
        issue: &Issue<'_>,
        scratch: &mut Scratch,
        function: usize,
        dims: LaunchDims,
        entries: &Entries<'_>,
    ) -> Result<()> {
        let device = issue.device;
        let means = scratch
            .region
            .unmapped_pointers
            .first()
            .map_or(PointerMeaning::Array, |unmapped_pointer| entries.meaning(unmapped_pointer));
        device.launches.pointers.note(
            function,
            means,
            scratch
                .region
                .unmapped_pointers
                .iter()
                .map(|unmapped_pointer| (unmapped_pointer.pointer, unmapped_pointer.block.is_some())),
        );
        let block_copies = match Buffers::take(&*self.host, &self.spare, &scratch.plan.launch_copies.blocks) {
            Ok(block_copies) => block_copies,
            // The device's memory for them is allocated already.
            Err(error) => return Self::settle_launch(issue, scratch, Err(device.place(error)), false),
        };
        let sent = self.send_launch(issue, scratch, function, dims, Some(&block_copies));
        // Copied blocks are copied back before the program continues, which may use them.
        let waits = issue.queue == QueueId::SYNC || !block_copies.is_empty();
        Self::settle_launch(issue, scratch, sent, waits)?;
        if !block_copies.is_empty() {
            block_copies.merge(&scratch.plan.launch_copies.pointers);
            for unmapped_pointer in &scratch.region.unmapped_pointers {
                if let Some(block) = unmapped_pointer.block {
                    self.host.report_unmapped(function, unmapped_pointer.entry, unmapped_pointer.pointer, block);
                }
            }
        }
        Ok(())
    }

    /// The commands of a compute construct, in order.
    fn send_launch(
        &self,
        issue: &Issue<'_>,
        scratch: &Scratch,
        function: usize,
        dims: LaunchDims,
        block_copies: Option<&Buffers<'_>>,
    ) -> Result<()> {
        let (plan, device, queue) = (&scratch.plan, issue.device, issue.queue);
        issue.lay_patterns(plan)?;
        issue.join_for(plan)?;
        // Copied blocks first: pointers in them become the device's.
        if let Some(block_copies) = block_copies {
            block_copies.copy_in(&device.client(), queue)?;
        }
        Self::data_of_construct(issue, plan, true, &plan.before)?;
        let spec = || self.host.function(function);
        let key = function as u64;
        let launch = || device.client().launch(queue, key, &spec, dims, scratch.block.finish());
        let sent = if plan.profiling.is_watched {
            let dims = device.client().grid(key, &spec, dims);
            let launched = |notice: &mut Notice| *notice = Notice { queue, function, dims, ..*notice };
            device.notify(ProfilingEvent::LaunchStart, launched);
            let sent = match self.comparison.get() {
                Some(comparison) => self.launch_compared(comparison, issue, scratch, (function, dims), &launch),
                None => launch(),
            };
            device.notify(ProfilingEvent::LaunchEnd, launched);
            sent
        } else {
            launch()
        };
        sent.map_err(|error| device.place(error).queue(queue))?;
        Self::data_of_construct(issue, plan, false, &plan.after)?;
        block_copies.map_or(Ok(()), |block_copies| block_copies.copy_out(&device.client(), queue))
    }

    /// Ends a compute construct after its commands were sent, or not: updates the tables, and waits if necessary.
    fn settle_launch(issue: &Issue<'_>, scratch: &Scratch, sent: Result<()>, waits: bool) -> Result<()> {
        let (Issue { device, queue, .. }, plan) = (issue, &scratch.plan);
        let queue = *queue;
        let waits = waits || device.rules.checks_bounds;
        let moment = issue.filled(&plan.after, false);
        let waited = if waits && sent.is_ok() { device.wait_observed_since(queue, moment) } else { Ok(()) };
        // The failure of a region that crashes at once may be the answer to a later command.
        if sent.is_err() || waited.is_err() {
            device.launches.failed.note(plan);
        }
        let is_over = device.rules.checks_bounds && sent.is_ok() && waited.is_ok();
        let checked = if is_over { issue.check_bounds(Some(scratch.region.function)) } else { Ok(()) };
        issue.settle(plan, Some(queue), false)?;
        sent.and(waited).and(checked).map_err(|error| error.queue(queue))
    }

    /// Looks up the blocks of a construct's pointers, so that no files have to be read for them while the device is
    /// locked.
    #[cold]
    fn look_ahead(&self, entries: &Entries<'_>) {
        for (i, host) in entries.hosts.iter().copied().enumerate().filter(|(_, host)| *host != 0) {
            let variable = entries.sizes[i] == size_of::<usize>();
            let pointer = match Kind::decode(entries.kinds[i]) {
                Ok(Kind::Zero) => host,
                Ok(Kind::Data(_) | Kind::FirstPrivate | Kind::DevicePtr) if variable => {
                    let mut value = [0; size_of::<usize>()];
                    self.host.read(host, &mut value);
                    usize::from_ne_bytes(value)
                }
                _ => continue,
            };
            let _ = self.host.block_of(pointer);
        }
    }

    /// Sends the commands for a compute construct's own data, before or after its launch.
    #[inline]
    fn data_of_construct(issue: &Issue<'_>, plan: &Plan, enter: bool, steps: &[Step]) -> Result<()> {
        if !plan.profiling.is_watched {
            return if steps.is_empty() { Ok(()) } else { issue.steps(steps, plan) };
        }
        let (start, end) = if enter {
            (ProfilingEvent::EnterDataStart, ProfilingEvent::EnterDataEnd)
        } else {
            (ProfilingEvent::ExitDataStart, ProfilingEvent::ExitDataEnd)
        };
        let reported = |notice: &mut Notice| (notice.queue, notice.implicit) = (issue.queue, true);
        issue.device.notify(start, reported);
        if enter {
            issue.notify(&plan.profiling.begins);
        }
        let sent = issue.steps(steps, plan);
        if !enter {
            issue.notify(&plan.profiling.ends);
        }
        issue.device.notify(end, reported);
        sent
    }
}

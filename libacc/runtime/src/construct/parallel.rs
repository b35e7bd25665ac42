//! Compute constructs (OpenACC 3.3, 2.5).

use super::component::with_ranges;
use super::kind::Kind;
use super::map::Mode;
use super::tags::Tags;
use super::{Entries, Placement, on_host};
use crate::device::Device;
use crate::issue::Issue;
use crate::loan::Buffers;
use crate::plan::{Plan, Step};
use crate::prof::{Happening, Notice};
use crate::{LocalThread, Runtime};
use accord_types::{LaunchDims, QueueId, Result};

impl Runtime {
    /// A compute construct (OpenACC 3.3, 2.5). `flags` is the `dev` word of the call, `function` the
    /// address of the region's host version, `tags` what its launch tags say.
    ///
    /// # Errors
    /// Those of the specification for its clauses, and those of the device.
    pub fn parallel(
        &self,
        t: &mut LocalThread,
        flags: i32,
        function: usize,
        entries: &mut Entries<'_>,
        tags: Result<Tags<'_>>,
    ) -> Result<Placement> {
        self.parallel_or_host(t, flags, function, entries, tags).map_err(|error| error.call("parallel"))
    }

    fn parallel_or_host(
        &self,
        t: &mut LocalThread,
        flags: i32,
        function: usize,
        entries: &mut Entries<'_>,
        tags: Result<Tags<'_>>,
    ) -> Result<Placement> {
        if on_host(flags) {
            return Ok(Placement::Host);
        }
        let Some(device) = self.target(t)? else { return Ok(Placement::Host) };
        let tags = tags.map_err(|error| device.place(error))?;
        let queue = t.queue(tags.queue);
        device.wait_clause(t, queue, tags.waits.iter().map(|raw| raw.cast_signed()))?;
        with_ranges(&*self.host, entries, |entries| self.launch(t, device, queue, function, entries, tags.dims))
            .map_err(|error| device.place(error))?;
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
        if device.maps_unmapped {
            self.look_ahead(entries);
        }
        let scratch = &mut t.scratch;
        let entering = self.entering(device, queue, Mode::Launch);
        entering.decide(entries, scratch)?;
        let (plan, block) = (&scratch.plan, &scratch.block);
        let strays = &scratch.region.strays;
        if !strays.is_empty() {
            device.given.note(function, strays.iter().map(|stray| (stray.pointer, stray.block.is_some())));
        }
        let loans = Buffers::take(&*self.host, &plan.loans).map_err(|error| device.place(error))?;
        let issue = Issue { device, host: &*self.host, queue };
        let [gangs, workers, _] = self.settings.default_dims;
        let choose = |clause: u32, setting: u32| if clause == 0 { setting } else { clause };
        let dims = LaunchDims { gangs: choose(dims.gangs, gangs), workers: choose(dims.workers, workers), ..dims };
        let run = || {
            issue.join_for(plan)?;
            Self::data_of_construct(&issue, plan, true, &plan.before)?;
            loans.copy_in(&device.client(), queue)?;
            let spec = || self.host.function(function);
            let grid = if plan.watched { device.client().grid(function as u64, &spec, dims) } else { dims };
            let launched = |notice: &mut Notice| {
                *notice = Notice { queue, function, dims: grid, ..*notice };
            };
            if plan.watched {
                device.tell(Happening::LaunchStart, launched);
            }
            let sent = device.client().launch(queue, function as u64, &spec, dims, block.finish());
            if plan.watched {
                device.tell(Happening::LaunchEnd, launched);
            }
            sent.map_err(|error| device.place(error).queue(queue))?;
            Self::data_of_construct(&issue, plan, false, &plan.after)?;
            loans.copy_out(&device.client(), queue)
        };
        let sent = run();
        let moment = issue.filled(&plan.after, false);
        // What is lent comes back before the program goes on, which may use it.
        let waits = queue == QueueId::SYNC || !loans.is_empty();
        let waited = if waits && sent.is_ok() { device.wait_told_since(queue, moment) } else { Ok(()) };
        issue.settle(plan, Some(queue), false)?;
        sent.and(waited).map_err(|error| error.queue(queue))?;
        if !loans.is_empty() {
            loans.merge();
            for stray in strays {
                if let Some(block) = stray.block {
                    self.host.tell_unmapped(function, stray.entry, stray.pointer, block);
                }
            }
        }
        Ok(())
    }

    /// Asks for the blocks of a construct's pointers, so that nothing has to be read from files for them while the device is
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

    /// The commands for a compute construct's own data, before or after its launch.
    fn data_of_construct(issue: &Issue<'_>, plan: &Plan, enter: bool, steps: &[Step]) -> Result<()> {
        if !plan.watched {
            return issue.steps(steps, plan);
        }
        let (start, end) = if enter {
            (Happening::EnterDataStart, Happening::EnterDataEnd)
        } else {
            (Happening::ExitDataStart, Happening::ExitDataEnd)
        };
        let told = |notice: &mut Notice| (notice.queue, notice.implicit) = (issue.queue, true);
        issue.device.tell(start, told);
        if enter {
            issue.tell(&plan.begins);
        }
        let sent = issue.steps(steps, plan);
        if !enter {
            issue.tell(&plan.ends);
        }
        issue.device.tell(end, told);
        sent
    }
}

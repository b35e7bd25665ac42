//! Carries out without the lock what a construct decided under it.

use crate::device::{Device, DeviceData, Shared};
use crate::plan::{Plan, ProfilingRecord, STORE_MAX, Step};
use crate::ports::{HostMemory, ReadWhen, TargetAccess};
use crate::prof::ProfilingEvent;
use crate::queues::{After, Due, Moment, QueueList, Queues};
use accord_types::{DevicePtr, Error, HostRange, QueueId, Result};
use std::sync::atomic::Ordering;

/// Copies of single variables have a buffer of their own.
const SMALL_STORE_MAX: usize = 64;

/// Largest constant of the program that is compared when it would be copied out. A region can change one only without the
/// compiler's knowledge, and a large one is not worth the transfer.
const COMPARED_MAX: usize = 64 << 10;

/// Puts commands into one queue of a device and updates the tables.
pub(crate) struct Issue<'a> {
    pub(crate) device: &'a Device,
    /// All devices of the session.
    pub(crate) all: &'a [Device],
    pub(crate) host: &'a dyn HostMemory,
    pub(crate) queue: QueueId,
}

impl Issue<'_> {
    /// Makes the queue wait for what has to be done before a plan.
    #[inline]
    pub(crate) fn join_for(&self, plan: &Plan) -> Result<()> {
        if let Some(due) = plan.order.due {
            self.join_synchronous(due)?;
        }
        if !plan.order.streams.is_empty() {
            self.device.wait_each_observed(&plan.order.streams)?;
        }
        if !plan.order.waits.is_empty() {
            let follow = |other: &QueueId| self.device.queue_follows(self.queue, *other, true);
            plan.order.waits.iter().try_for_each(follow).map_err(|error| error.queue(self.queue))?;
        }
        if self.device.shared.copies_out.is_empty() { Ok(()) } else { self.after_pending_copies(plan) }
    }

    /// Makes the queue wait for the synchronous one, as far as necessary; the synchronous one for streams of CUDA Fortran.
    pub(crate) fn join(&self) -> Result<()> {
        if self.queue == QueueId::SYNC {
            // The host waits: a failed stream must not make the synchronous queue fail.
            let streams: QueueList = self.device.queues().busy_streams().collect();
            return self.device.wait_each_observed(&streams);
        }
        let due = self.device.queues().due(self.queue);
        due.map_or(Ok(()), |due| self.join_synchronous(due))
    }

    fn join_synchronous(&self, due: Due) -> Result<()> {
        // Recorded when it is done: another thread that finds this recorded must find it done.
        self.device.client().wait_queue(self.queue, QueueId::SYNC).map_err(|e| self.place(e))?;
        self.device.queues().joined(self.queue, due);
        Ok(())
    }

    /// Orders what the plan copies out after copies of other queues, of all devices, to the same memory: the later copy remains.
    fn after_pending_copies(&self, plan: &Plan) -> Result<()> {
        let Device { shared: Shared { copies_out, .. }, index, .. } = self.device;
        for step in plan.before.iter().chain(&plan.after) {
            let (Step::Out { dst, .. } | Step::OutSpaced { dst, .. }) = step else { continue };
            // No queue orders what devices do to the same memory; the host waits.
            for (device, one) in copies_out.elsewhere(Some(*index), *dst).iter().filter(|(_, one)| !one.unknown) {
                self.all[*device].wait_observed(one.queue)?;
            }
            for one in copies_out.here(*index, *dst).iter().filter(|one| !one.unknown) {
                if self.device.queues().is_ordered_after(self.queue, one.queue, one.moment) {
                    continue;
                }
                if self.queue == QueueId::SYNC {
                    // The host waits: a failed queue must not make the synchronous one fail.
                    self.device.wait_observed(one.queue)?;
                } else {
                    self.device.queue_follows(self.queue, one.queue, true).map_err(|error| error.queue(self.queue))?;
                }
            }
        }
        Ok(())
    }

    /// Notifies the observer of what a watched plan began or ended.
    pub(crate) fn notify(&self, all: &[ProfilingRecord]) {
        for happened in all {
            self.device.notify(happened.what, |notice| {
                notice.queue = self.queue;
                notice.host = happened.host;
                notice.address = happened.address.0;
                notice.bytes = happened.bytes;
            });
        }
    }

    /// Sends commands of the plan: those before the launch, or after it.
    pub(crate) fn steps(&self, steps: &[Step], plan: &Plan) -> Result<()> {
        let put = |step: &Step| {
            if plan.profiling.is_watched { self.observed_step(*step, plan) } else { self.step(*step, plan) }
        };
        steps.iter().try_for_each(put).map_err(|e| self.place(e))
    }

    /// Records that commands were sent, and returns the moment. `left_behind`: the caller does not wait for them.
    pub(crate) fn filled(&self, steps: &[Step], left_behind: bool) -> Moment {
        let mut state = self.device.has_write_backs.load(Ordering::Acquire).then(|| self.device.lock());
        let mut queues = self.device.queues();
        queues.filled(self.queue, left_behind);
        if let Some(state) = &mut state {
            for step in steps {
                if let Some(changed) = state.write_backs.put_in(step, queues.now()) {
                    self.device.shared.copies_out.add_variable(self.device.index, self.queue, changed, queues.now());
                }
            }
        }
        // Those of the synchronous queue are waited for at once.
        if self.queue != QueueId::SYNC {
            for step in steps {
                if let Step::Out { dst, .. } | Step::OutSpaced { dst, .. } = step {
                    self.device.shared.copies_out.add(self.device.index, self.queue, *dst, queues.now());
                }
            }
        }
        queues.now()
    }

    /// Ends the issue once the commands were sent, or failed to be: others may use what arrived, blocks become free. `notify`:
    /// the observer was not notified yet of what ended.
    pub(crate) fn settle(&self, plan: &Plan, after_queue: Option<QueueId>, notify: bool) -> Result<()> {
        if notify && plan.profiling.is_watched {
            self.notify(&plan.profiling.ends);
        }
        let unlocked = self.unlock(plan);
        if plan.releases.blocks.is_empty() && plan.arrivals.is_empty() {
            return unlocked;
        }
        let mut guard = self.device.lock();
        let state: &mut DeviceData = &mut guard;
        for id in &plan.arrivals {
            if let Some(entry) = state.table.get_mut(*id) {
                entry.arriving = None;
            }
        }
        if !plan.arrivals.is_empty() {
            self.device.notify_arrival(state);
        }
        let queues = self.device.queues();
        let after = After { queue: after_queue, moment: queues.now() };
        give_back(state, &plan.releases.blocks, after, &queues);
        let idle = state.memory.trim(&queues);
        drop((queues, guard));
        unlocked.and(self.device.shrink(&idle))
    }

    /// Unlocks arrays that the program may free when this construct is over; those that a queue copies to when that is waited for.
    fn unlock(&self, plan: &Plan) -> Result<()> {
        let mut result = Ok(());
        for (range, copied) in &plan.releases.pages {
            let after = (*copied && self.queue != QueueId::SYNC).then_some(self.queue);
            result = result.and(self.device.client().unregister_pages(after, *range).map_err(|e| self.place(e)));
        }
        result
    }

    /// Does the same for an observer.
    fn observed_step(&self, step: Step, plan: &Plan) -> Result<()> {
        use ProfilingEvent::{DownloadEnd, DownloadStart, UploadEnd, UploadStart};
        let (start, end, host, address, len) = match step {
            Step::Bytes { dst, len, .. } => (UploadStart, UploadEnd, 0, dst, len),
            Step::In { dst, src, .. } => (UploadStart, UploadEnd, src.start, dst, src.len),
            Step::Out { src, dst } | Step::OutSpaced { src, dst, .. } => {
                (DownloadStart, DownloadEnd, dst.start, src, dst.len)
            }
            Step::OutChanged { src, len, parts: (first, _), .. } => {
                let host = plan.parts.get(first).map_or(0, |part| part.dst.start);
                (DownloadStart, DownloadEnd, host, src, len)
            }
            Step::Copy { .. } => return self.step(step, plan),
        };
        let happened = |what| [ProfilingRecord { what, host, address, bytes: len as u64 }];
        self.notify(&happened(start));
        let put = self.step(step, plan);
        self.notify(&happened(end));
        put
    }

    #[inline]
    fn step(&self, step: Step, plan: &Plan) -> Result<()> {
        let client = self.device.client();
        match step {
            Step::Bytes { dst, at, len } => {
                let mut done = 0;
                for piece in plan.bytes[at..at + len].chunks(STORE_MAX) {
                    client.store(self.queue, dst.offset(done), piece)?;
                    done += piece.len() as u64;
                }
                Ok(())
            }
            Step::In { dst, src, when } => {
                self.host.check_source(src)?;
                if src.len > STORE_MAX || when == ReadWhen::InOrder {
                    return client.copy_in(self.queue, dst, src, when);
                }
                let store = |piece: &mut [u8]| {
                    self.host.read(src.start, piece);
                    client.store(self.queue, dst, piece)
                };
                // Clearing the large one costs more than the rest of a small copy.
                if src.len <= SMALL_STORE_MAX {
                    store(&mut [0; SMALL_STORE_MAX][..src.len])
                } else {
                    store(&mut [0; STORE_MAX][..src.len])
                }
            }
            Step::Out { src, dst } => match self.host.check_target(dst)? {
                TargetAccess::Writable => client.copy_out(self.queue, src, dst),
                TargetAccess::Constant if dst.len > COMPARED_MAX => Ok(()),
                TargetAccess::Constant | TargetAccess::ReadOnly => client.compare(self.queue, src, dst, dst),
                TargetAccess::Mixed => self.out_by_parts(src, dst, dst),
            },
            Step::OutSpaced { src, dst, spaced } => {
                let access = self.host.check_target(dst)?;
                for offset in (0..dst.len).step_by(spaced.every) {
                    let element = HostRange { start: dst.start + offset, len: spaced.len };
                    let src = src.offset(offset as u64);
                    match access {
                        TargetAccess::Writable => client.copy_out(self.queue, src, element)?,
                        TargetAccess::Constant | TargetAccess::ReadOnly => {
                            client.compare(self.queue, src, element, dst)?;
                        }
                        TargetAccess::Mixed => self.out_by_parts(src, element, dst)?,
                    }
                }
                Ok(())
            }
            Step::OutChanged { src, at, len, parts: (first, end), chain } => {
                let (sent, parts) = (&plan.bytes[at..at + len], &plan.parts[first..end]);
                client.copy_out_changed(self.queue, src, sent, parts, chain.map(|chain| &plan.chains[chain]))
            }
            Step::Copy { dst, src, len } => client.copy(self.queue, dst, src, len),
        }
    }

    /// Copies to memory of which a part is read-only, and compares that part. `whole` is the range of the copy.
    #[cold]
    fn out_by_parts(&self, src: DevicePtr, dst: HostRange, whole: HostRange) -> Result<()> {
        let client = self.device.client();
        for (part, access) in self.host.target_parts(dst)? {
            let src = src.offset((part.start - dst.start) as u64);
            if access == TargetAccess::Writable {
                client.copy_out(self.queue, src, part)?;
            } else {
                client.compare(self.queue, src, part, whole)?;
            }
        }
        Ok(())
    }

    fn place(&self, error: Error) -> Error {
        self.device.place(error).queue(self.queue)
    }
}

/// Frees blocks.
pub(crate) fn give_back(state: &mut DeviceData, blocks: &[DevicePtr], after: After, queues: &Queues) {
    for block in blocks {
        state.memory.give_back(*block, after, queues);
    }
}

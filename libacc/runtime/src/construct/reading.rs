//! Decides when a construct reads the program's memory.
//!
//! Copies of queues into that memory come first. A program that does not require this has forgotten a `wait` (OpenACC 3.3,
//! 2.16). It works with libgomp, whose asynchronous copies of ordinary memory block, so it does here.

use super::map::{Mapping, Stop};
use crate::pending_copies_out::PendingCopyOut;
use crate::plan::{Step, read_when};
use crate::ports::ReadWhen;
use accord_types::{DevicePtr, HostRange, QueueId};

impl Mapping<'_, '_> {
    /// Copies the program's bytes to the device.
    pub(crate) fn copy_in(&mut self, dst: DevicePtr, src: HostRange) -> Result<(), Stop> {
        if let Some(value) = self.value_on_device(src)? {
            self.plan.before.push(Step::Copy { dst, src: value, len: src.len as u64 });
            return Ok(());
        }
        let when = if self.queue == QueueId::SYNC {
            self.before_reading(src)?;
            ReadWhen::BeforeReturn
        } else {
            // The caller's arrays of entries are in its frame.
            let near = self.entries.hosts.as_ptr().addr();
            read_when(src, near, self.after_pending_copies(src)?)
        };
        self.plan.before.push(Step::In { dst, src, when });
        Ok(())
    }

    /// Makes sure that nothing is being copied to the program's bytes before the call itself reads them.
    #[inline]
    pub(super) fn before_reading(&self, range: HostRange) -> Result<(), Stop> {
        if self.device.shared.copies_out.is_empty() { Ok(()) } else { self.nothing_arrives(range) }
    }

    fn nothing_arrives(&self, range: HostRange) -> Result<(), Stop> {
        self.nothing_elsewhere(range)?;
        let mut queues = Vec::new();
        self.device.shared.copies_out.each_here(self.device.index, range, |one| {
            // The program has to order what other threads have queued since.
            if !self.tried.waited.contains(&one.queue) && !self.passes(&one, range) {
                queues.push(one.queue);
            }
        });
        if queues.is_empty() { Ok(()) } else { Err(Stop::Wait(queues)) }
    }

    /// Whether all pending copies are small variables of regions that come first: their current values are found on the device.
    fn passes(&self, one: &PendingCopyOut, range: HostRange) -> bool {
        one.only_variables && self.queue != QueueId::SYNC && self.state.write_backs.passes(one.queue, range, self.queue)
    }

    /// Makes the queue wait for this device's queues that still copy into a range. Returns whether there are any: then it
    /// can be read in the queue's order only.
    pub(super) fn after_pending_copies(&mut self, range: HostRange) -> Result<bool, Stop> {
        if self.device.shared.copies_out.is_empty() {
            return Ok(false);
        }
        self.nothing_elsewhere(range)?;
        let (mut certain, mut unknown, mut waits) = (false, Vec::new(), Vec::new());
        self.device.shared.copies_out.each_here(self.device.index, range, |one| {
            // The program may set a small variable while the queue continues, so it is read at the call.
            if one.unknown || one.only_variables {
                if !self.passes(&one, range) && !self.tried.waited.contains(&one.queue) {
                    unknown.push(one.queue);
                }
                return;
            }
            certain = true;
            if !self.queues.is_ordered_after(self.queue, one.queue, one.moment)
                && !self.plan.order.waits.contains(&one.queue)
            {
                waits.push(one.queue);
            }
        });
        self.plan.order.waits.extend(waits);
        if unknown.is_empty() { Ok(certain) } else { Err(Stop::Wait(unknown)) }
    }

    /// Stops until no other device writes the range: no queue orders what devices do to the same memory, so the host waits.
    fn nothing_elsewhere(&self, range: HostRange) -> Result<(), Stop> {
        if self.tried.waited_elsewhere {
            return Ok(());
        }
        let elsewhere = self.device.shared.copies_out.elsewhere(Some(self.device.index), range);
        if elsewhere.is_empty() {
            return Ok(());
        }
        Err(Stop::WaitElsewhere(elsewhere.into_iter().map(|(device, one)| (device, one.queue)).collect()))
    }
}

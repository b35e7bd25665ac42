//! Copies in that don't fit in a command. The calling thread sends them where possible, otherwise threads of the
//! connection do, at once or at the executor's request. The machine decides the order.

use super::connection::Connection;
use crate::connection::{AwaitedEvent, Bytes, CopyIn, CopyLine, Need, WaitId};
use crate::host_copy;
use accord_fabric::stats::LinkStats;
use accord_runtime::ports::ReadWhen;
use accord_types::{DevicePtr, HostRange, QueueId, Result};
use std::sync::Arc;

/// Most bytes of a staging copy, for copies that must be read before the call returns but can't be sent yet. Larger
/// ones wait.
const STAGE_MAX: usize = 64 << 10;

impl Connection {
    /// Performs a copy in that does not fit in a command.
    ///
    /// # Errors
    /// Returns an error if the queue, device or connection has failed.
    pub(super) fn copy_in(
        self: &Arc<Self>,
        device: u32,
        queue: QueueId,
        dst: DevicePtr,
        src: HostRange,
        when: ReadWhen,
    ) -> Result<()> {
        let now = when == ReadWhen::BeforeReturn;
        let (transfer, len) = (self.spec.transfer(), src.len as u64);
        let copy = CopyIn { device, queue, dst, src, now, transfer, streams: self.spec.streams };
        let stage = now && src.len <= STAGE_MAX;
        let mut machine = self.machine_with_room(Need::Operation(device, queue))?;
        let mut staged = None;
        if stage && !machine.is_direct(&copy)? {
            drop(machine);
            staged = Some(host_copy::bytes(src).to_vec());
            machine = self.machine_with_room(Need::Operation(device, queue))?;
        }
        // One lock over the command and the choice of a lane, so that both have the same order.
        let plan = machine.copy_in(&copy, self.now())?;
        let eager = plan.eager;
        if plan.direct
            && let Some(mut outgoing) = self.link.eager_outbox().try_begin(transfer, len)?
        {
            drop(machine);
            self.flush_without_waiting()?;
            return outgoing.send(host_copy::bytes(src)).map_err(|error| self.lose_aside(error.cause()));
        }
        let sent = (now && !stage).then(|| machine.wait(AwaitedEvent::Sent(transfer), std::thread::current()));
        let bytes = match staged {
            Some(bytes) => Bytes::Staged(bytes),
            None if stage => Bytes::Staged(host_copy::bytes(src).to_vec()),
            None => Bytes::Host(src),
        };
        machine.queue_copy(plan, bytes, sent);
        let Some(sent) = sent else {
            let flush = machine.flush_soon();
            self.act(machine);
            return self.flush_as(flush);
        };
        self.act(machine);
        if !eager {
            LinkStats::add(&self.link.stats().round_trips, 1);
        }
        // If that fails, the connection is lost, and the copy fails.
        let _ = self.flush();
        self.wait(sent).map(drop)
    }

    /// Waits until no thread accesses the program's memory for the failed ones of `queues`, after a wait for them has
    /// failed.
    pub(super) fn wait_for_memory_of_failed(self: &Arc<Self>, device: u32, queues: &[QueueId]) {
        let ids = self.machine().wait_for_memory_of_failed(device, queues, &std::thread::current());
        self.wait_to_the_end(ids);
    }

    /// Waits until no thread accesses the program's memory for a device that was shut down.
    pub(super) fn wait_for_memory(self: &Arc<Self>, device: u32) {
        let ids = self.machine().wait_for_memory(device, None, &std::thread::current());
        self.wait_to_the_end(ids);
    }

    fn wait_to_the_end(self: &Arc<Self>, ids: Vec<WaitId>) {
        for id in ids {
            // The copy's outcome is no longer needed.
            let _ = self.wait(id);
        }
    }

    /// Runs a thread of a line.
    pub(super) fn send_copies(self: &Arc<Self>, way: CopyLine) {
        let outbox = match way {
            CopyLine::Eager => self.link.eager_outbox(),
            CopyLine::Asked => self.link.outbox(),
        };
        let mut machine = self.machine();
        while machine.check().is_ok() {
            let Some(job) = machine.take_copy(way) else {
                machine = self.copy_wakeups.sleep(way, machine);
                continue;
            };
            drop(machine);
            let bytes = match &job.bytes {
                Bytes::Host(range) => Some(host_copy::bytes(*range)),
                Bytes::Staged(bytes) => Some(&bytes[..]),
                Bytes::Gone(_) => None,
            };
            let outgoing = outbox.begin(job.transfer, job.bytes.size() as u64);
            let mut locked = self.machine();
            locked.has_lane(way);
            self.act(locked);
            // This thread must not wait for the executor to read commands, because its streams may wait for these
            // bytes.
            let flushed = match way {
                CopyLine::Eager => self.flush_without_waiting(),
                CopyLine::Asked => Ok(()),
            };
            // Ending a transfer without its bytes means that there are none.
            let outcome =
                flushed.and(outgoing).and_then(|mut outgoing| bytes.map_or(Ok(()), |bytes| outgoing.send(bytes)));
            let outcome = outcome.map_err(|error| self.lose_aside(error.cause()));
            let mut locked = self.machine();
            locked.sent(way, job, outcome);
            self.act(locked);
            machine = self.machine();
        }
    }
}

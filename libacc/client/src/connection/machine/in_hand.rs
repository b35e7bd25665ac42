//! Program memory in use by threads that are sending or storing its bytes.
//!
//! Queued copies are cancelled at once when a queue fails or a device is shut down. Those in use by threads complete,
//! and only then may the program unmap its memory.

use super::Machine;
use crate::connection::waits::{AwaitedEvent, WaitId};
use accord_types::QueueId;

impl<W: Clone> Machine<W> {
    /// Registers waits for the copies that threads are sending or storing, of `queue` or of the whole device. Call it
    /// after the queue has failed or the device was shut down; the program may reuse its memory after these waits. Each
    /// copy ends with its lane at the latest.
    pub fn wait_for_memory(&mut self, device: u32, queue: Option<QueueId>, waker: &W) -> Vec<WaitId> {
        let sending = self.copies_in.in_hand(device, queue).map(AwaitedEvent::LetGo);
        let copies_out = self.copies_out.in_hand(device, queue).map(AwaitedEvent::Landed);
        let wants: Vec<_> = sending.chain(copies_out).collect();
        wants.into_iter().map(|want| self.waits.register(want, waker.clone())).collect()
    }

    /// Registers the same waits for the failed ones of `queues`, after a wait for them has failed.
    pub fn wait_for_memory_of_failed(&mut self, device: u32, queues: &[QueueId], waker: &W) -> Vec<WaitId> {
        let Ok(state) = self.device(device) else { return self.wait_for_memory(device, None, waker) };
        let failed: Vec<_> = queues.iter().copied().filter(|&queue| state.queue(queue).is_err()).collect();
        failed.into_iter().flat_map(|queue| self.wait_for_memory(device, Some(queue), waker)).collect()
    }
}

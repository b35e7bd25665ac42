//! Small variables of queued constructs on one device: `construct/echo.rs` says why they have places there.

use crate::memory::Allocator;
use crate::ports::{CHAIN_BYTES_MAX, Chain};
use crate::queues::{After, Queues};
use accord_types::{DevicePtr, HostRange, QueueId};
use std::sync::Arc;

/// Largest value that is treated so: scalars, complex and extended ones included.
pub(crate) const ECHO_BYTES_MAX: usize = CHAIN_BYTES_MAX;

/// A value as the program had it.
pub(crate) type Value = [u8; ECHO_BYTES_MAX];

/// A variable's place on the device for one queue.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    pub(crate) queue: QueueId,
    pub(crate) range: HostRange,
    pub(crate) device: DevicePtr,
    /// What the program had at its last call.
    pub(crate) sent: Value,
    /// [`crate::ports::DeviceClient::changes`] then.
    pub(crate) changes: u64,
    /// Queues that were made to wait for what was done to it last.
    pub(crate) followers: Vec<QueueId>,
    /// Of the regions that go on from what the last one left.
    pub(crate) chain: Arc<Chain>,
}

/// All of one device.
#[derive(Default)]
pub(crate) struct Echoes(pub(crate) Vec<Echo>);

impl Echoes {
    /// `queue` waits for what is in `others` now, and so for what those were made to wait for.
    pub(crate) fn follow(&mut self, queue: QueueId, others: &[QueueId]) {
        let comes_before = |echo: &&mut Echo| {
            others.contains(&echo.queue) || echo.followers.iter().any(|follower| others.contains(follower))
        };
        for echo in self.0.iter_mut().filter(comes_before) {
            if !echo.followers.contains(&queue) {
                echo.followers.push(queue);
            }
        }
    }

    /// The place in which a queue that `queue` waits for leaves this unchanged variable. That queue gets a
    /// new one when it comes to the variable again: nothing may write there any more.
    pub(crate) fn pass_on(&mut self, queue: QueueId, range: HostRange, value: &Value) -> Option<Echo> {
        let passed = |echo: &Echo| echo.range == range && echo.sent == *value && echo.followers.contains(&queue);
        let at = self.0.iter().position(passed)?;
        Some(self.0.swap_remove(at))
    }

    /// Gives the places of queues without work left back.
    pub(crate) fn forget(&mut self, memory: &mut Allocator, queues: &Queues) {
        self.0.retain(|echo| {
            let drained = queues.drained(echo.queue);
            if drained {
                memory.give_back(echo.device, After::NOTHING, queues);
            }
            !drained
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_waits_again_and_again_is_noted_once() {
        let (queue, device) = (QueueId(1), DevicePtr(64));
        let range = HostRange { start: 8, len: 4 };
        let echo = Echo {
            queue,
            range,
            device,
            sent: Value::default(),
            changes: 0,
            followers: Vec::new(),
            chain: Arc::default(),
        };
        let mut echoes = Echoes::default();
        echoes.0.push(echo);
        (0..100).for_each(|_| echoes.follow(QueueId(2), &[queue]));
        echoes.follow(QueueId(3), &[QueueId(4)]);
        assert_eq!(echoes.0[0].followers, [QueueId(2)]);
        // By way of queue 2.
        echoes.follow(QueueId(5), &[QueueId(2)]);
        assert_eq!(echoes.0[0].followers, [QueueId(2), QueueId(5)]);
    }
}

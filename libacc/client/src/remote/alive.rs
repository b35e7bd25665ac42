//! What is known of the executor's life, and of its devices' workers'.

use accord_fabric::peer::PeerId;
use accord_types::liveness::Liveness;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DeviceNum, QueueId, Seq};
use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A queue of a device of another executor.
type RemoteQueue = (PeerId, u32, QueueId);

/// Another executor, which pushes to this one.
pub(super) trait PushSource: Send + Sync {
    /// Whether an operation of a queue of its may be under way.
    fn is_under_way(&self, device: u32, queue: QueueId, seq: Seq) -> bool;
}

/// The last push of a queue.
struct LastPush {
    from: Weak<dyn PushSource>,
    /// Its position, or a later one.
    seq: Seq,
}

/// The signs of life of the peer.
#[derive(Default)]
pub(super) struct Alive {
    /// Threads that have waited here for a while.
    pub(super) waiting: AtomicU32,
    /// Answers so far, and other control messages.
    pub(super) heard: AtomicU64,
    /// The coordinator hears nothing of the node, and it has not answered here since.
    pub(super) doubted: AtomicBool,
    state: ShortLock<Lives>,
    /// Queues of other nodes whose last push to this one may be under way, and its position. Nothing here waits for it, but they do.
    pushes: ShortLock<BTreeMap<RemoteQueue, LastPush>>,
}

#[derive(Default)]
pub(super) struct Lives {
    pub(super) executor: Liveness,
    /// The workers of devices that have some, by ordinal.
    pub(super) workers: BTreeMap<u32, Liveness>,
    /// The program's numbers of the devices that it has started.
    pub(super) names: BTreeMap<u32, DeviceNum>,
    pub(super) asked: Option<Duration>,
    /// The signs of life until the coordinator reported that it hears nothing of the node.
    pub(super) doubted: Option<u64>,
}

impl Alive {
    pub(super) fn heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// A queue of another node pushes to this one, with its operation at a position, or one before.
    pub(super) fn pushed_by(&self, from: Weak<dyn PushSource>, queue: RemoteQueue, seq: Seq) {
        let mut pushes = self.pushes.lock();
        pushes.insert(queue, LastPush { from, seq });
    }

    /// Whether a push to this node may be under way.
    pub(super) fn is_pushed_to(&self) -> bool {
        let mut pushes = self.pushes.lock();
        pushes.retain(|(_, device, queue), LastPush { from, seq }| {
            from.upgrade().is_some_and(|from| from.is_under_way(*device, *queue, *seq))
        });
        !pushes.is_empty()
    }

    pub(super) fn lock(&self) -> ShortGuard<'_, Lives> {
        self.state.lock()
    }
}

impl Lives {
    /// Returns a worker if the program has started its device. The executor's news of other devices are ignored.
    pub(super) fn worker(&mut self, ordinal: u32) -> Option<&mut Liveness> {
        self.names.contains_key(&ordinal).then(|| self.workers.entry(ordinal).or_default())
    }

    /// The devices for messages: all that the program has started there, or one of them.
    pub(super) fn name(&self, node: &str, only: Option<u32>) -> String {
        let wanted = self.names.iter().filter(|(ordinal, _)| only.is_none_or(|only| only == **ordinal));
        let names: Vec<_> = wanted.map(|(_, num)| format!("dev{}", num.0)).collect();
        if names.is_empty() { format!("node {node}") } else { format!("{} (node {node})", names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There are 2^32 numbers.
    #[test]
    fn an_executor_that_speaks_of_devices_which_there_are_not_is_not_listened_to() {
        let mut lives = Lives::default();
        lives.names.insert(3, DeviceNum(7));
        (0..100).for_each(|ordinal| assert_eq!(lives.worker(ordinal).is_some(), ordinal == 3));
        assert_eq!(lives.workers.len(), 1);
    }
}

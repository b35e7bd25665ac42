//! Liveness of the executor and of its devices' workers.

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
    /// Whether an operation of one of its queues may be incomplete.
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
pub(super) struct ConnectionLiveness {
    /// Number of threads in a long wait here.
    pub(super) waiting: AtomicU32,
    /// Number of control messages so far.
    pub(super) signs_of_life: AtomicU64,
    /// Whether the coordinator does not hear from the node, and it has not answered here since.
    pub(super) doubted: AtomicBool,
    state: ShortLock<NodeLiveness>,
    /// The last pushes of other nodes' queues to this one that may be in flight. Only those nodes wait for them.
    pushes: ShortLock<BTreeMap<RemoteQueue, LastPush>>,
}

#[derive(Default)]
pub(super) struct NodeLiveness {
    pub(super) executor: Liveness,
    /// The workers of devices that have some, by ordinal.
    pub(super) workers: BTreeMap<u32, Liveness>,
    /// The program's numbers of the devices that it has started.
    pub(super) names: BTreeMap<u32, DeviceNum>,
    pub(super) asked: Option<Duration>,
    /// The number of signs of life when the coordinator reported that it does not hear from the node.
    pub(super) doubted: Option<u64>,
}

impl ConnectionLiveness {
    pub(super) fn signs_of_life(&self) {
        self.signs_of_life.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a queue of another node pushes to this one, by its operation at `seq` or an earlier one.
    pub(super) fn pushed_by(&self, from: Weak<dyn PushSource>, queue: RemoteQueue, seq: Seq) {
        let mut pushes = self.pushes.lock();
        pushes.insert(queue, LastPush { from, seq });
    }

    /// Whether a push to this node may be in flight.
    pub(super) fn is_pushed_to(&self) -> bool {
        let mut pushes = self.pushes.lock();
        pushes.retain(|(_, device, queue), LastPush { from, seq }| {
            from.upgrade().is_some_and(|from| from.is_under_way(*device, *queue, *seq))
        });
        !pushes.is_empty()
    }

    pub(super) fn lock(&self) -> ShortGuard<'_, NodeLiveness> {
        self.state.lock()
    }
}

impl NodeLiveness {
    /// Returns a worker if the program has started its device. Reports on other devices are ignored.
    pub(super) fn worker(&mut self, ordinal: u32) -> Option<&mut Liveness> {
        self.names.contains_key(&ordinal).then(|| self.workers.entry(ordinal).or_default())
    }

    /// Returns the names for messages of all devices that the program has started there, or of one of them.
    pub(super) fn name(&self, node: &str, only: Option<u32>) -> String {
        let wanted = self.names.iter().filter(|(ordinal, _)| only.is_none_or(|only| only == **ordinal));
        let names: Vec<_> = wanted.map(|(_, num)| format!("dev{}", num.0)).collect();
        if names.is_empty() { format!("node {node}") } else { format!("{} (node {node})", names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The executor could name any of 2^32 devices.
    #[test]
    fn liveness_reports_of_unknown_devices_are_ignored() {
        let mut lives = NodeLiveness::default();
        lives.names.insert(3, DeviceNum(7));
        (0..100).for_each(|ordinal| assert_eq!(lives.worker(ordinal).is_some(), ordinal == 3));
        assert_eq!(lives.workers.len(), 1);
    }
}

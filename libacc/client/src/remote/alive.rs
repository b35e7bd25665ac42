//! What is known of the executor's life, and of its devices' workers'.

use accord_types::DeviceNum;
use accord_types::liveness::Liveness;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known of the other end's life.
#[derive(Default)]
pub(super) struct Alive {
    /// Threads that have waited here for a while.
    pub(super) waiting: AtomicU32,
    /// Answers so far, and other control messages.
    pub(super) heard: AtomicU64,
    /// The coordinator hears nothing of the node, and it has not answered here since.
    pub(super) doubted: AtomicBool,
    state: Mutex<Lives>,
}

#[derive(Default)]
pub(super) struct Lives {
    pub(super) executor: Liveness,
    /// By ordinal, of those with workers.
    pub(super) workers: BTreeMap<u32, Liveness>,
    /// As the program counts the devices that it has started.
    pub(super) names: BTreeMap<u32, DeviceNum>,
    pub(super) asked: Option<Duration>,
    /// What was heard when the coordinator said that it hears nothing of the node.
    pub(super) doubted: Option<u64>,
}

impl Alive {
    pub(super) fn heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Lives> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lives {
    /// The devices for messages: all that the program has started there, or one of them.
    pub(super) fn name(&self, node: &str, only: Option<u32>) -> String {
        let wanted = self.names.iter().filter(|(ordinal, _)| only.is_none_or(|only| only == **ordinal));
        let names: Vec<_> = wanted.map(|(_, num)| format!("dev{}", num.0)).collect();
        if names.is_empty() { format!("node {node}") } else { format!("{} (node {node})", names.join(", ")) }
    }
}

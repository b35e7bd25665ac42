//! The time of a cluster over restarts, and the numbers of its coordinators.

use super::uptime::Uptime;
use accord_cluster::{Millis, Restart};

/// A restored backup, and a new state, go on with an epoch that no earlier coordinator had: at least the number of these times since 2026.
const EPOCH_UNIT_MS: u64 = 1_000;
const EPOCHS_BEGAN_UNIX_MS: u64 = 1_767_225_600_000;

/// The clocks at the last commit, and the epoch of the coordinator that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastCommit {
    pub(super) epoch: u64,
    /// The time of the core.
    pub(super) now: u64,
    /// The wall clock; 0: there was no commit.
    pub(super) unix_ms: u64,
    pub(super) uptime: Uptime,
}

impl LastCommit {
    /// Returns how the next coordinator goes on: the time since the last commit has passed.
    pub(super) fn restart(&self, unix_ms: u64, uptime: Uptime) -> Restart {
        let since = |earlier: u64, later: u64| later.saturating_sub(earlier);
        let passed = match self.unix_ms {
            0 => 0,
            // The wall clock may have been set meanwhile.
            _ if self.uptime.boot == uptime.boot && uptime.boot != 0 => since(self.uptime.ms, uptime.ms),
            before => since(before, unix_ms),
        };
        let least = since(EPOCHS_BEGAN_UNIX_MS, unix_ms) / EPOCH_UNIT_MS;
        let epoch = self.epoch.saturating_add(1).max(least);
        Restart { now: Millis(self.now.saturating_add(passed)), committed: Millis(self.now), unix_ms, epoch }
    }
}

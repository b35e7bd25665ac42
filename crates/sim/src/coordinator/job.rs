//! An MPI job: agents that are ranks of one world and end together.

use accord_types::NodeId;
use std::collections::BTreeSet;

/// A job. Its agents start together, and none joins later.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) ranks: Vec<usize>,
    /// Number of starts.
    pub(super) run: u64,
    /// Whether its launcher ends all ranks when one has ended; not every launcher does.
    pub(super) launcher_sees: bool,
    /// Nodes of this run, which every rank knows.
    pub(super) nodes: BTreeSet<NodeId>,
    /// Whether a rank of this run has ended.
    pub(super) is_broken: bool,
    /// Whether a rank was cut off or stopped, so that it may count as dead.
    pub(super) is_disturbed: bool,
}

//! An MPI job: agents that are ranks of one world, which ends with any of them.

use accord_types::NodeId;
use std::collections::BTreeSet;

/// One job. All its agents start together, and none joins later.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) ranks: Vec<usize>,
    /// How often it was started.
    pub(super) run: u64,
    /// Its launcher ends all when one has ended. Not every launcher does.
    pub(super) launcher_sees: bool,
    /// Nodes of this run, as its ranks have told each other.
    pub(super) nodes: BTreeSet<NodeId>,
    /// A rank of this run has ended.
    pub(super) is_broken: bool,
    /// One was cut off or stood still, so that it may count as dead.
    pub(super) is_disturbed: bool,
}

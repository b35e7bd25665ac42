//! What the coordinator knows of paths, and of nodes by their own word.

use super::input::LinkId;
use super::measured_path::MeasuredPath;
use super::time::Millis;
use accord_types::{NodeFigures, NodeId};
use std::collections::BTreeMap;

/// A path by its ends, the lower number first: it takes the same both ways.
pub(super) type Ends = (NodeId, NodeId);

/// What is known of paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) measured: BTreeMap<Ends, MeasuredPath>,
    pub(super) failures: BTreeMap<Ends, u8>,
    pub(super) under_way: BTreeMap<u64, UnderWay>,
    pub(super) figures: BTreeMap<NodeId, NodeFigures>,
    /// Of the last measurement that was ordered.
    pub(super) last: u64,
    pub(super) hurry_until: Millis,
    pub(super) looked: Millis,
    /// When a node was seen in a session last.
    pub(super) used: BTreeMap<NodeId, Millis>,
    /// There is nothing to measure that was not.
    pub(super) settled: bool,
}

#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) ends: Ends,
    pub(super) link: LinkId,
    pub(super) since: Millis,
}

impl Paths {
    /// One more.
    pub(super) fn failed(&mut self, ends: Ends) {
        let failures = self.failures.entry(ends).or_default();
        *failures = failures.saturating_add(1);
    }
}

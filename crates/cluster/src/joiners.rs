//! Agents that wait for their MPI worlds, on separate connections.

use super::input::{Joiner, LinkId};
use super::steps::counted;
use std::collections::{BTreeMap, BTreeSet};

/// The agents that wait for their MPI worlds.
#[derive(Debug, Default)]
pub(super) struct Joiners {
    by_link: BTreeMap<LinkId, Joiner>,
    /// Connections by the world's name and run.
    by_world: BTreeMap<(String, u64), BTreeSet<LinkId>>,
}

impl Joiners {
    pub(super) fn insert(&mut self, link: LinkId, joiner: Joiner) {
        self.by_world.entry((joiner.world.clone(), joiner.run)).or_default().insert(link);
        self.by_link.insert(link, joiner);
    }

    /// Removes an agent that waits no longer.
    pub(super) fn remove(&mut self, link: LinkId) -> Option<Joiner> {
        let joiner = self.by_link.remove(&link)?;
        let world = (joiner.world.clone(), joiner.run);
        if let Some(links) = self.by_world.get_mut(&world) {
            links.remove(&link);
            if links.is_empty() {
                self.by_world.remove(&world);
            }
        }
        Some(joiner)
    }

    pub(super) fn contains(&self, link: LinkId) -> bool {
        self.by_link.contains_key(&link)
    }

    pub(super) fn len(&self) -> usize {
        self.by_link.len()
    }

    /// Returns the connections of agents that wait for the same world.
    pub(super) fn other_ranks(&self, of: &Joiner) -> impl Iterator<Item = LinkId> {
        let links = self.by_world.get(&(of.world.clone(), of.run));
        counted(links.into_iter().flatten().copied())
    }
}

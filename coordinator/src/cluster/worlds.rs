//! MPI worlds: nodes whose agents are ranks of one world, which ends with any of them.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::node::Node;
use super::state::Cluster;
use super::time::Millis;
use accord_types::NodeId;
use std::collections::BTreeMap;

/// How often agents that are ranks say that they live, at least: of a link that is back after 2 s the next word has to come before that.
const HEARTBEAT_MAX_MS: u64 = 250;
/// Once a rank has been connected for so long without one that has gone, that one won't come back either: it was no coordinator that nobody
/// reached.
const OVER_MS: u64 = 10_000;

impl Cluster {
    /// How often the agent of a node is to say that it lives.
    pub fn heartbeat_ms(&self, id: NodeId) -> u64 {
        let of_all = self.limits.heartbeat_ms;
        match self.nodes.get(&id) {
            Some(node) if !node.world.is_empty() => of_all.min(HEARTBEAT_MAX_MS),
            _ => of_all,
        }
    }

    /// The agent of a node has gone without a word. If it was a rank of an MPI world, that ends with it: programs that use the world's nodes are
    /// told which one it was, before the others' ends reach them.
    pub(super) fn blame(&self, id: NodeId, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get(&id).filter(|node| !node.world.is_empty()) else { return };
        tracing::warn!(
            "the agent of node {} ({id}) has gone without a word: it ends MPI world {}",
            node.name,
            node.world
        );
        let is_of_world = |other: &NodeId| self.nodes.get(other).is_some_and(|other| other.world == node.world);
        for session in self.sessions.values().filter(|session| session.nodes.keys().any(is_of_world)) {
            if let Some(client) = session.client {
                out.push(Effect::ToClient(client, ClientPush::NodeLost(id, node.name.clone())));
            }
        }
    }

    /// The other ranks of a node's world. An agent that began after this one was there last is of another run of the world, with the same name.
    pub(super) fn fellows(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let lost = self.nodes.get(&id).filter(|node| !node.world.is_empty());
        let last = lost.map(|node| node.unlinked.unwrap_or(node.heard).max(node.heard));
        let is_fellow = move |other: &&Node| {
            lost.is_some_and(|lost| other.world == lost.world) && last.is_some_and(|last| other.began <= last)
        };
        self.nodes.values().filter(is_fellow).map(|other| other.id)
    }

    /// Tells ranks that were away themselves when one of their world was lost, or have come back after they were taken for dead: whatever has started them may
    /// not see that one is missing. They know whether it was of their run.
    pub(super) fn tell_ranks(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let mut gone = BTreeMap::<&str, (Millis, NodeId)>::new();
        for node in self.nodes.values().filter(|node| !node.world.is_empty() && !node.is_up()) {
            let last = (node.left, node.id);
            gone.entry(&node.world).and_modify(|known| *known = last.max(*known)).or_insert(last);
        }
        let mut told = Vec::new();
        for node in self.nodes.values() {
            let (Some(link), Some(&lost)) = (node.link(), gone.get(node.world.as_str())) else { continue };
            if node.told != Some(lost) && now.since(node.linked.max(lost.0)) >= OVER_MS {
                told.push((node.id, link, lost));
            }
        }
        for (id, link, lost) in told {
            let name = self.nodes.get(&lost.1).map(|node| node.name.clone()).unwrap_or_default();
            if let Some(node) = self.nodes.get_mut(&id) {
                node.told = Some(lost);
            }
            out.push(Effect::ToAgent(link, AgentOrder::NodeLost(lost.1, name)));
        }
    }
}

//! MPI worlds: nodes whose agents are ranks of one world, which ends with any of them.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::state::Cluster;
use super::time::Millis;
use accord_types::{NodeId, SessionId};
use std::collections::BTreeSet;

/// Longest interval of heartbeats from ranks, short enough that a link which recovers within 2 s carries one in time.
const HEARTBEAT_MAX_MS: u64 = 250;
/// Time for which a rank is connected after which a missing rank will not reconnect, because the coordinator was
/// reachable all the time.
const OVER_MS: u64 = 10_000;

impl Cluster {
    /// Returns the interval of heartbeats of a node's agent.
    pub fn heartbeat_ms(&self, id: NodeId) -> u64 {
        let of_all = self.limits.heartbeat_ms;
        match self.nodes.get(&id) {
            Some(node) if !node.world.is_empty() => of_all.min(HEARTBEAT_MAX_MS),
            _ => of_all,
        }
    }

    /// Handles the silent loss of an agent. If it was a rank of an MPI world, the world ends. Programs that use the
    /// world's nodes are informed of the lost rank before the others' ends reach them.
    pub(super) fn blame(&self, id: NodeId, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get(&id).filter(|node| !node.world.is_empty()) else { return };
        tracing::warn!(
            "the agent of node {} ({id}) has gone without a word: it ends MPI world {}",
            node.name,
            node.world
        );
        let ranks = self.nodes.of_world(&node.world).map(|rank| rank.id);
        let sessions: BTreeSet<SessionId> = ranks.flat_map(|rank| self.sessions.on(rank)).collect();
        let clients = sessions.iter().filter_map(|session| self.sessions.get(session)?.client);
        out.extend(clients.map(|client| Effect::ToClient(client, ClientPush::NodeLost(id, node.name.clone()))));
    }

    /// Returns the other ranks of a node's world. An agent that began after the node was last present belongs to
    /// another run of a world with the same name.
    pub(super) fn other_ranks(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let lost = self.nodes.get(&id).filter(|node| !node.world.is_empty());
        let last = lost.map(|node| node.contact.unlinked.unwrap_or(node.contact.last).max(node.contact.last));
        let ranks = self.nodes.of_world(lost.map_or("", |lost| lost.world.as_str()));
        ranks.filter(move |other| last.is_some_and(|last| other.contact.began <= last)).map(|other| other.id)
    }

    /// Informs ranks of a lost rank that were disconnected themselves when it was lost, or that have reconnected after
    /// they counted as dead. Their launcher may not notice the missing rank. The ranks themselves know whether it was
    /// of their run.
    pub(super) fn notify_ranks(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some(world) = self.nodes.next_unsettled(now) {
            let Some(lost) = self.nodes.last_gone(&world) else { continue };
            let unreported = self.nodes.of_world(&world).filter(|node| node.reported != Some(lost));
            let (due, later): (Vec<_>, Vec<_>) = unreported
                .filter_map(|node| Some((node.contact.linked.max(lost.0).plus(OVER_MS), node.id, node.link()?)))
                .partition(|(at, ..)| *at <= now);
            if let Some(at) = later.iter().map(|(at, ..)| *at).min() {
                self.nodes.check_later(world, at);
            }
            let name = self.nodes.get(&lost.1).map(|node| node.name.clone()).unwrap_or_default();
            for (_, id, link) in due {
                self.nodes.reported(id, lost);
                out.push(Effect::ToAgent(link, AgentOrder::NodeLost(lost.1, name.clone())));
            }
        }
    }
}

//! The begin of MPI worlds: ranks wait for each other in `MPI_Init`, and not every launcher ends the others when a rank
//! has ended.

use super::agents::check_name;
use super::effect::{AgentOrder, Effect, Refusal};
use super::input::{Joiner, LinkId};
use super::state::Cluster;

impl Cluster {
    pub(super) fn join(&mut self, link: LinkId, joiner: Joiner, out: &mut Vec<Effect>) {
        match self.check_joiner(link, &joiner) {
            Ok(()) => self.joining.insert(link, joiner),
            Err(refusal) => out.push(Effect::RefuseAgent(link, refusal)),
        }
    }

    fn check_joiner(&self, link: LinkId, joiner: &Joiner) -> Result<(), Refusal> {
        if self.is_taken(link) {
            return Err(Refusal::Malformed("joins twice on one connection"));
        }
        check_name(&joiner.node_name)?;
        if joiner.world.is_empty() {
            return Err(Refusal::Malformed("joins no world"));
        }
        let max = self.limits.nodes_max;
        if self.joining.len() >= max {
            return Err(Refusal::Full { what: "agents that join MPI worlds", max });
        }
        Ok(())
    }

    /// Whether a connection belongs to a node or to an agent that waits for its world.
    pub(super) fn is_taken(&self, link: LinkId) -> bool {
        self.links.contains_key(&link) || self.joining.contains(link)
    }

    /// Handles the end of a waiting agent's connection without goodbye. The agent has died, and the other ranks would
    /// wait for it for ever.
    pub(super) fn rank_lost(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(lost) = self.joining.remove(link) else { return };
        tracing::warn!(
            "the agent of node {} of MPI world {} has ended before all had registered",
            lost.node_name,
            lost.world
        );
        for other in self.joining.other_ranks(&lost) {
            out.push(Effect::ToAgent(other, AgentOrder::RankLost(lost.node_name.clone())));
        }
    }
}

//! MPI worlds that begin: ranks wait in MPI's start for each other, and not every launcher ends the others when one of them has ended.

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

    /// Whether a connection is a node's, or one that joins a world.
    pub(super) fn is_taken(&self, link: LinkId) -> bool {
        self.links.contains_key(&link) || self.joining.contains(link)
    }

    /// The connection of an agent that joined a world has ended without a word: it has died, and the others that join would wait for it.
    pub(super) fn rank_lost(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(lost) = self.joining.remove(link) else { return };
        tracing::warn!(
            "the agent of node {} of MPI world {} has ended before all had registered",
            lost.node_name,
            lost.world
        );
        for other in self.joining.fellows(&lost) {
            out.push(Effect::ToAgent(other, AgentOrder::RankLost(lost.node_name.clone())));
        }
    }
}

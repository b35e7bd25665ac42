//! Programs that ask while the agents are about to be back: right after this coordinator's start, or after it has not run for a while.

use super::effect::Effect;
use super::job::{Held, Opener};
use super::node::{Node, NodeState};
use super::state::Cluster;
use super::time::Millis;

/// So long an agent may take to connect again before nobody waits for it. It tries every second.
const BACK_WITHIN_MS: u64 = 2_000;

/// It counts as up, and has no connection.
fn is_away(node: &&Node) -> bool {
    matches!(node.state, NodeState::Up { link: None })
}

/// When one that lost its connection last should have had another one.
fn back_by(node: &Node) -> Option<Millis> {
    node.unlinked.map(|at| at.plus(BACK_WITHIN_MS))
}

impl Cluster {
    /// Whether a request is better answered a little later: agents are about to be back, and there is no other one, or so many have gone at
    /// once that it was this coordinator that did not run. Some devices less would be no answer then; where one agent dies, it is.
    pub(super) fn is_worth_waiting(&self, now: Millis) -> bool {
        let is_bare = !self.nodes.values().any(|node| node.link().is_some());
        let (up, gone) =
            self.nodes.values().filter(|node| node.is_up()).fold((0, 0), |(up, gone), node| {
                (up + 1, gone + usize::from(back_by(node).is_some_and(|by| now < by)))
            });
        let all_at_once = gone >= 2 && 2 * gone > up && self.nodes.values().any(|node| is_away(&node));
        (is_bare || all_at_once) && now < self.back_until() && self.held.len() < self.limits.sessions_max
    }

    /// Whether a job that is not known may be one of before this coordinator's start, which agents are about to name.
    pub(super) fn may_be_named(&self, now: Millis) -> bool {
        now < self.back_until() && self.held.len() < self.limits.sessions_max
    }

    /// Gives an answer to those who wait, as soon as all are back, or should be.
    pub(super) fn let_in(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if self.held.is_empty() || now < self.back_until() {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(Held::place);
        for Held { opener, is_command } in held {
            let Opener { client, request, owner } = opener;
            match is_command {
                true => self.hold(now, Opener { client, request, owner }, out),
                false => self.open(now, client, request, owner, out),
            }
        }
    }

    /// Until when agents may be about to be back.
    pub(super) fn back_until(&self) -> Millis {
        // Of a coordinator's first moments it is not known who was there before.
        let started = Millis(0).plus(BACK_WITHIN_MS);
        let away = self.nodes.values().filter(is_away).filter_map(back_by).max();
        away.map_or(started, |away| away.max(started))
    }
}

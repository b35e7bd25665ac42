//! Programs that ask while the agents are about to be back: right after this coordinator's start, or after it has not run for a while.

use super::effect::Effect;
use super::input::ClientId;
use super::node::{Node, NodeState};
use super::session::{Held, Owner};
use super::state::Cluster;
use super::time::Millis;
use accord_types::SessionRequest;

/// So long an agent may take to connect again before nobody waits for it. It tries every second.
const BACK_WITHIN_MS: u64 = 2_000;

impl Cluster {
    /// Has a request wait if there is nothing that it could get, but soon may be. Whether it waits.
    pub(super) fn hold(&mut self, now: Millis, client: ClientId, request: SessionRequest, owner: Owner) -> bool {
        let is_bare = !self.nodes.values().any(|node| node.link().is_some());
        let waits = is_bare && now < self.back_until() && self.held.len() < self.limits.sessions_max;
        if waits {
            self.held.push(Held { client, request, owner });
        }
        waits
    }

    /// Gives an answer to those who wait, as soon as all are back, or should be.
    pub(super) fn let_in(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if self.held.is_empty() || now < self.back_until() {
            return;
        }
        for Held { client, request, owner } in std::mem::take(&mut self.held) {
            self.open(now, client, request, owner, out);
        }
    }

    /// Until when agents may be about to be back.
    pub(super) fn back_until(&self) -> Millis {
        // Of a coordinator's first moments it is not known who was there before.
        let started = Millis(0).plus(BACK_WITHIN_MS);
        let is_away = |node: &&Node| matches!(node.state, NodeState::Up { link: None });
        let away = self.nodes.values().filter(is_away).map(|node| node.unlinked.plus(BACK_WITHIN_MS)).max();
        away.map_or(started, |away| away.max(started))
    }
}

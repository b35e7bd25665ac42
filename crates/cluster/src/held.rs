//! Requests that wait because agents are about to reconnect: after this coordinator's start, or after it was suspended.

use super::effect::Effect;
use super::input::ClientId;
use super::job::{DeferredRequest, Opener};
use super::state::Cluster;
use super::time::Millis;

/// Time that a request waits for lost agents to reconnect. They try every second.
const BACK_WITHIN_MS: u64 = 2_000;

impl Cluster {
    /// Whether a request should wait because agents are about to reconnect. It waits if no agent is connected, or if so
    /// many were lost at once that this coordinator must have been suspended. A single lost agent does not delay
    /// requests.
    pub(super) fn is_worth_waiting(&mut self, now: Millis) -> bool {
        let is_bare = self.nodes.connected().is_empty();
        let gone = self.nodes.broken_within(BACK_WITHIN_MS, now);
        let all_at_once = gone >= 2 && 2 * gone > self.nodes.up() && self.nodes.last_away().is_some();
        (is_bare || all_at_once) && self.may_be_named(now)
    }

    /// Whether an unknown job may stem from before this coordinator's start, so that agents are about to name it.
    pub(super) fn may_be_named(&self, now: Millis) -> bool {
        now < self.back_until() && self.held.len() < self.limits.sessions_max
    }

    /// Drops the requests of a connection that has ended.
    pub(super) fn forget_held(&mut self, client: ClientId) {
        self.held.remove(client);
        self.held_uses.remove(client);
    }

    /// Answers the waiting requests once all agents are back, or the time for that has passed.
    pub(super) fn let_in(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if self.held_until().is_none_or(|until| now < until) {
            return;
        }
        self.answer_held_uses(now, None, out);
        let mut held = self.held.take();
        held.sort_by_key(DeferredRequest::place);
        for DeferredRequest { opener, is_command } in held {
            let Opener { client, request, owner } = opener;
            match is_command {
                true => self.hold(now, Opener { client, request, owner }, out),
                false => self.open(now, client, request, owner, out),
            }
        }
    }

    /// Returns the deadline for waiting requests; `None` if there are none.
    pub(super) fn held_until(&self) -> Option<Millis> {
        (self.held.len() > 0 || !self.held_uses.is_empty()).then(|| self.back_until())
    }

    /// Returns the time until which agents may be about to reconnect.
    fn back_until(&self) -> Millis {
        // Right after the start it is unknown which agents were connected before.
        let started = self.began.plus(BACK_WITHIN_MS);
        let away = self.nodes.last_away().map(|at| at.plus(BACK_WITHIN_MS));
        away.map_or(started, |away| away.max(started))
    }
}

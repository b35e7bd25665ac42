//! Programs that ask while the agents are about to be back: right after this coordinator's start, or after it has not run for a while.

use super::effect::Effect;
use super::input::ClientId;
use super::job::{Held, Opener};
use super::state::Cluster;
use super::time::Millis;

/// How long a request waits for lost agents to connect again. They try every second.
const BACK_WITHIN_MS: u64 = 2_000;

impl Cluster {
    /// Whether a request is better answered a little later: agents are about to be back, and there is no other one, or so many have gone at
    /// once that it was this coordinator that did not run. Some devices less would be no answer then; where one agent dies, it is.
    pub(super) fn is_worth_waiting(&mut self, now: Millis) -> bool {
        let is_bare = self.nodes.connected().is_empty();
        let gone = self.nodes.broken_within(BACK_WITHIN_MS, now);
        let all_at_once = gone >= 2 && 2 * gone > self.nodes.up() && self.nodes.last_away().is_some();
        (is_bare || all_at_once) && self.may_be_named(now)
    }

    /// Whether a job that is not known may be one of before this coordinator's start, which agents are about to name.
    pub(super) fn may_be_named(&self, now: Millis) -> bool {
        now < self.back_until() && self.held.len() < self.limits.sessions_max
    }

    /// The requests of a connection that has gone need no answer.
    pub(super) fn forget_held(&mut self, client: ClientId) {
        self.held.remove(client);
        self.held_uses.remove(client);
    }

    /// Gives an answer to those who wait, as soon as all are back, or should be.
    pub(super) fn let_in(&mut self, now: Millis, out: &mut Vec<Effect>) {
        if self.held_until().is_none_or(|until| now < until) {
            return;
        }
        self.answer_held_uses(now, None, out);
        let mut held = self.held.take();
        held.sort_by_key(Held::place);
        for Held { opener, is_command } in held {
            let Opener { client, request, owner } = opener;
            match is_command {
                true => self.hold(now, Opener { client, request, owner }, out),
                false => self.open(now, client, request, owner, out),
            }
        }
    }

    /// Returns the time until which requests wait; `None` if none waits.
    pub(super) fn held_until(&self) -> Option<Millis> {
        (self.held.len() > 0 || !self.held_uses.is_empty()).then(|| self.back_until())
    }

    /// Until when agents may be about to be back.
    fn back_until(&self) -> Millis {
        // Of a coordinator's first moments it is not known who was there before.
        let started = self.began.plus(BACK_WITHIN_MS);
        let away = self.nodes.last_away().map(|at| at.plus(BACK_WITHIN_MS));
        away.map_or(started, |away| away.max(started))
    }
}

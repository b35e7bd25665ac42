//! The agent's departure: the coordinator gives the node no further session, and the agent leaves once the last has ended.

use super::departure::{Departure, Notice};
use super::effect::{AgentEnding, AgentReport, Effect};
use super::state::{Membership, Node};
use std::time::Duration;

impl Node {
    /// Begins the departure: the agent leaves once nothing uses the node, and after `time` at the latest. Leaves at once if the departure has
    /// begun before, or there is no time.
    pub fn depart(&mut self, now: Duration, time: Duration) {
        if self.departure.is_some() || time.is_zero() {
            return self.leave(AgentEnding::Stopped);
        }
        self.departure = Some(Departure { by: now.saturating_add(time), notice: Notice::Unsent });
    }

    /// Takes the coordinator's order on whether the node is drained. Returns whether the order stays in force for the node's next connections: not
    /// while the agent departs, whose successor is not to be drained.
    pub fn drained(&mut self, draining: bool) -> bool {
        let Some(departure) = &mut self.departure else { return true };
        if draining && departure.notice == Notice::Sent {
            departure.notice = Notice::Answered;
        }
        false
    }

    /// Has the coordinator told of the departure on a new connection.
    pub(super) fn report_departure_again(&mut self) {
        if let Some(departure) = &mut self.departure {
            departure.notice = Notice::Unsent;
        }
    }

    /// Returns the time by which the agent leaves.
    pub(super) fn departs_by(&self) -> Option<Duration> {
        self.departure.filter(|_| self.link != Membership::Left).map(|departure| departure.by)
    }

    pub(super) fn attend_departure(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let (is_in, in_use) = (self.is_in(), !self.is_quiet() || !self.jobs.is_empty());
        let Some(departure) = &mut self.departure else { return };
        if is_in && departure.notice == Notice::Unsent {
            departure.notice = Notice::Sent;
            effects.push(Effect::Send(AgentReport::Leaving));
        }
        // Without a connection the coordinator opens no session here.
        let is_last = !is_in || departure.notice == Notice::Answered;
        if departure.by <= now || is_last && !in_use {
            self.leave(AgentEnding::Stopped);
        }
    }
}

//! The agent's departure: told to stop, it has the coordinator give its node nothing new, and lets what uses the node end first.

use super::effect::{Effect, Ending, Word};
use super::state::{Membership, Node};
use std::time::Duration;

/// A departure that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Departure {
    /// The agent leaves then, whatever uses the node.
    by: Duration,
    notice: Notice,
}

/// The coordinator's knowledge of a departure, on this connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notice {
    /// It was not told.
    Unsent,
    /// It was told, and may have opened sessions before.
    Sent,
    /// It opens no further session here.
    Answered,
}

impl Node {
    /// Begins the departure: the agent leaves once nothing uses the node, and after `time` at the latest. Leaves at once if the departure has
    /// begun before, or there is no time.
    pub fn depart(&mut self, now: Duration, time: Duration) {
        if self.departure.is_some() || time.is_zero() {
            return self.leave(Ending::Stopped);
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
    pub(super) fn tell_of_departure_again(&mut self) {
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
            effects.push(Effect::Send(Word::Leaving));
        }
        // Without a connection the coordinator opens no session here.
        let is_last = !is_in || departure.notice == Notice::Answered;
        if departure.by <= now || is_last && !in_use {
            self.leave(Ending::Stopped);
        }
    }
}

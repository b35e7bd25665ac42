//! The program's turns on devices of its own node, which it drives itself. The node's agent gives them out to all sessions
//! whose jobs share a device.
//!
//! A program to which the agent opens no lane, or closes it because it is of no job, runs regions at any time. So does one
//! whose agent has ended, until an agent is back. The agent suspends the program's work by the lane, too; suspended work waits
//! for an agent that is back.

use crate::coordinator_link::CoordinatorLink;
use accord_device::{TurnAgent, TurnKeeper};
use accord_executor::{EndedTurns, TurnLane};
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms};
use accord_fabric::transport::route_now;
use accord_types::backoff::Backoff;
use accord_types::turn_lock::TurnLock;
use accord_types::{NextTurn, SessionId};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time limit of opening the lane: the agent may not know the session yet.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a program looks for an agent that is back. Afterwards its regions run at any time until a device starts.
const RETURN_MAX: Duration = Duration::from_secs(60 * 60);
/// Pause after a lane that the agent has closed without a turn.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Pause between attempts while the work is suspended, which only an agent ends.
const SUSPENDED_PAUSE: Duration = Duration::from_secs(1);

/// The program's turns on its node's devices.
pub(crate) struct NodeTurns {
    /// For lanes, which must not keep this alive.
    this: Weak<Self>,
    agent: Endpoint,
    terms: LaneTerms,
    session: SessionId,
    key: Key,
    coordinator: Arc<CoordinatorLink>,
    lane: TurnLock<Option<Arc<TurnLane>>>,
}

impl NodeTurns {
    /// Creates the turns of `session` at the agent, which is connected to when the first device has started.
    pub(crate) fn new(
        agent: Endpoint,
        terms: LaneTerms,
        session: SessionId,
        key: Key,
        coordinator: Arc<CoordinatorLink>,
    ) -> Arc<Self> {
        let lane = TurnLock::default();
        Arc::new_cyclic(|this| Self { this: this.clone(), agent, terms, session, key, coordinator, lane })
    }

    /// Returns the lane, if the agent serves it.
    fn lane(&self) -> Option<Arc<TurnLane>> {
        let mut lane = self.lane.take();
        if lane.as_ref().is_none_or(|lane| lane.has_ended()) {
            *lane = self.connect();
        }
        lane.clone()
    }

    fn connect(&self) -> Option<Arc<TurnLane>> {
        if !self.coordinator.agent_knows(self.agent.node) {
            return None;
        }
        let hello = Hello::new(Purpose::Turns, self.session, 0, PeerId::PROGRAM);
        let route = route_now(&self.agent, self.terms);
        let lane = handshake::connect_by(&route, &hello, &self.key, CONNECT_MAX).ok()?;
        let this = self.this.clone();
        TurnLane::start(lane, move |ended| join_again(&this, ended)).ok()
    }

    fn known(&self) -> Option<Arc<TurnLane>> {
        self.lane.take().clone()
    }
}

/// Joins the devices of a lane that has ended again once there is an agent. Their regions run meanwhile, unless they are suspended.
fn join_again(turns: &Weak<NodeTurns>, mut ended: EndedTurns) {
    let begun = Instant::now();
    let mut backoff = turns.upgrade().map(|turns| Backoff::new(RETURN_MAX, turns.session.0));
    let mut pause = match (ended.suspended, ended.gave_turns) {
        (Some(_), _) => SUSPENDED_PAUSE,
        (None, true) => Duration::ZERO,
        (None, false) => REFUSED_PAUSE,
    };
    while !ended.keepers.is_empty() {
        std::thread::sleep(pause);
        // Devices that have stopped are not joined again.
        ended.keepers.retain(|(_, keeper)| !keeper.has_ended());
        let Some(turns) = turns.upgrade() else { return };
        if let Some(lane) = turns.lane() {
            // The agent may have closed the lane again, as it does not know the session's job yet.
            lane.join_again(&mut ended);
            pause = REFUSED_PAUSE;
            continue;
        }
        if ended.suspended.is_some() {
            continue;
        }
        let Some(next) = backoff.as_mut().and_then(|backoff| backoff.pause(begun.elapsed())) else { return };
        pause = next;
    }
}

impl TurnAgent for NodeTurns {
    fn join(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        match self.lane() {
            Some(lane) => lane.join(ordinal, keeper),
            None => keeper.release(),
        }
    }

    fn wants(&self, ordinal: u32) {
        if let Some(lane) = self.known() {
            lane.wants(ordinal);
        }
    }

    fn returns(&self, ordinal: u32, turn: u64, next: NextTurn) {
        if let Some(lane) = self.known() {
            lane.returns(ordinal, turn, next);
        }
    }

    fn leave(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        if let Some(lane) = self.known() {
            lane.leave(ordinal, keeper);
        }
    }
}

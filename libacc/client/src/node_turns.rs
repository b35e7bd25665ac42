//! The program's turns on devices of its own node, which it drives itself. The node's agent gives them out to all sessions
//! whose jobs share a device.
//!
//! A program to which the agent opens no lane, or closes it because it is of no job, runs regions at any time. The agent
//! suspends the program's work by the lane, too.

use crate::coordinator_link::CoordinatorLink;
use accord_device::{TurnAgent, TurnKeeper};
use accord_executor::TurnLane;
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms};
use accord_fabric::transport::{SharedLane, route_now};
use accord_types::SessionId;
use accord_types::turn_lock::TurnLock;
use std::sync::Arc;
use std::time::Duration;

/// The time limit of opening the lane: the agent may not know the session yet.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The program's turns on its node's devices.
pub(crate) struct NodeTurns {
    way: Arc<Way>,
    lane: TurnLock<Option<Arc<TurnLane>>>,
}

/// The way to the agent.
struct Way {
    agent: Endpoint,
    terms: LaneTerms,
    session: SessionId,
    key: Key,
    coordinator: Arc<CoordinatorLink>,
}

impl Way {
    /// Opens a lane, if the agent serves it.
    fn open(&self) -> Option<SharedLane> {
        if !self.coordinator.agent_knows(self.agent.node) {
            return None;
        }
        let hello = Hello::new(Purpose::Turns, self.session, 0, PeerId::PROGRAM);
        let route = route_now(&self.agent, self.terms);
        handshake::connect_by(&route, &hello, &self.key, CONNECT_MAX).ok()
    }
}

impl NodeTurns {
    /// Creates the turns of `session` at the agent, which is connected to when the first device has started.
    pub(crate) fn new(
        agent: Endpoint,
        terms: LaneTerms,
        session: SessionId,
        key: Key,
        coordinator: Arc<CoordinatorLink>,
    ) -> Self {
        Self { way: Arc::new(Way { agent, terms, session, key, coordinator }), lane: TurnLock::default() }
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
        let lane = self.way.open()?;
        let way = self.way.clone();
        TurnLane::start(lane, Some(Box::new(move || way.open()))).ok()
    }

    fn known(&self) -> Option<Arc<TurnLane>> {
        self.lane.take().clone()
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

    fn returns(&self, ordinal: u32, turn: u64, wants: bool) {
        if let Some(lane) = self.known() {
            lane.returns(ordinal, turn, wants);
        }
    }

    fn leave(&self, ordinal: u32, keeper: &Arc<TurnKeeper>) {
        if let Some(lane) = self.known() {
            lane.leave(ordinal, keeper);
        }
    }
}

//! The program's account of memory of its own node's CPU devices, which it drives itself. The node's agent counts the
//! memory of all sessions.
//!
//! A program without its node's agent, or to which the agent opens no lane, goes on uncounted: it could map the memory without asking, and an agent that
//! restarts must not end programs. So does a program of whose session the agent was not told because the coordinator is away.

use crate::coordinator_link::CoordinatorLink;
use accord_device::MemoryAccount;
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::memory_claims::{ClaimChannel, Request};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms};
use accord_fabric::transport::route_now;
use accord_types::turn_lock::TurnLock;
use accord_types::{MemoryClaim, Result, SessionId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of opening the lane: the agent may not know the session yet.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Pause before the agent is tried again after it opened no lane, or did not answer.
const PAUSE: Duration = Duration::from_secs(10);

/// The program's account of its node's memory.
pub(crate) struct NodeMemory {
    agent: Endpoint,
    terms: LaneTerms,
    session: SessionId,
    key: Key,
    coordinator: Arc<CoordinatorLink>,
    connection: TurnLock<AgentLane>,
}

#[derive(Default)]
struct AgentLane {
    channel: Option<ClaimChannel>,
    /// The program's bytes by device ordinal, to be claimed again at a restarted agent.
    held: BTreeMap<u32, u64>,
    /// The time of the last failed try.
    failed: Option<Instant>,
}

impl NodeMemory {
    /// An account of `session` at the agent, which is connected to at the first claim.
    pub(crate) fn new(
        agent: Endpoint,
        terms: LaneTerms,
        session: SessionId,
        key: Key,
        coordinator: Arc<CoordinatorLink>,
    ) -> Self {
        Self { agent, terms, session, key, coordinator, connection: TurnLock::default() }
    }

    /// Sends a request to the agent. Returns `None` if it does not count.
    fn ask(&self, connection: &mut AgentLane, request: Request) -> Option<MemoryClaim> {
        let known = connection.channel.take().map(|channel| (channel.ask(request), channel));
        if let Some((Ok(answer), channel)) = known {
            connection.channel = Some(channel);
            return Some(answer);
        }
        let has_failed = connection.failed.is_some_and(|at| at.elapsed() < PAUSE);
        if has_failed || !self.coordinator.agent_knows(self.agent.node) {
            return None;
        }
        let anew = self.connect(&connection.held).and_then(|channel| Some((channel.ask(request).ok()?, channel)));
        connection.failed = anew.is_none().then(Instant::now);
        let (answer, channel) = anew?;
        connection.channel = Some(channel);
        Some(answer)
    }

    /// Opens the lane and claims the memory that the program has already.
    fn connect(&self, held: &BTreeMap<u32, u64>) -> Option<ClaimChannel> {
        let hello = Hello::new(Purpose::Memory, self.session, 0, PeerId::PROGRAM);
        let route = route_now(&self.agent, self.terms);
        let lane = handshake::connect_by(&route, &hello, &self.key, CONNECT_MAX).ok()?;
        let channel = ClaimChannel::new(lane, ANSWER_MAX).ok()?;
        for (&ordinal, &bytes) in held.iter().filter(|(_, bytes)| **bytes > 0) {
            // Memory that other sessions have got meanwhile makes this claim fail; it then stays uncounted.
            channel.ask(Request::Claim { ordinal, bytes }).ok()?;
        }
        Some(channel)
    }
}

impl MemoryAccount for NodeMemory {
    fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim> {
        let mut connection = self.connection.take();
        let claim = self.ask(&mut connection, Request::Claim { ordinal, bytes }).unwrap_or(MemoryClaim::Granted);
        if claim == MemoryClaim::Granted {
            *connection.held.entry(ordinal).or_default() += bytes;
        }
        Ok(claim)
    }

    fn give_back(&self, ordinal: u32, bytes: u64) {
        let mut connection = self.connection.take();
        if let Some(held) = connection.held.get_mut(&ordinal) {
            *held = held.saturating_sub(bytes);
        }
        if connection.channel.as_ref().is_some_and(|channel| channel.notify(ordinal, bytes).is_err()) {
            connection.channel = None;
        }
    }

    fn others(&self, ordinal: u32) -> u64 {
        let answer = self.ask(&mut self.connection.take(), Request::Ask { ordinal });
        match answer {
            Some(MemoryClaim::OthersHold(bytes)) => bytes,
            _ => 0,
        }
    }
}

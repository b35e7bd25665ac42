//! The lane that informs the node's agent that this program drives devices of its own node without an executor. The
//! agent releases the program's job only after the lane has ended. A restarted agent watches the process that had the
//! lane.
//!
//! A program that asked for nothing and finds no agent goes on without, as an agent that restarts must not end programs; the next device that
//! starts tries again. So does a program of whose session the agent was not told because the coordinator is away. A program of a job does not: an
//! agent that was cut off may have confirmed meanwhile that no program drives the job's devices, and the coordinator may have given them to another
//! job.

use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms, Route, TransportChoice};
use accord_fabric::transport::{SharedLane, Transport, route, route_now};
use accord_types::backoff::Backoff;
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use std::time::{Duration, Instant};

/// The time limit of opening the lane: the agent may not know the session yet, or be restarting.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The time limit of opening the lane while the agent refuses it for now, as while the site's prolog runs.
const ADMIT_MAX: Duration = Duration::from_secs(90);

/// A session's lane to the agent of its own node, open while the program drives a device.
pub(crate) struct DriverLane {
    agent: Endpoint,
    terms: LaneTerms,
    session: SessionId,
    key: Key,
    /// Open while the session drives a device.
    lane: TurnLock<Option<SharedLane>>,
}

impl DriverLane {
    /// Creates the lane of `session` to the agent, not open yet.
    pub(crate) fn new(agent: Endpoint, terms: LaneTerms, session: SessionId, key: Key) -> Self {
        Self { agent, terms, session, key, lane: TurnLock::default() }
    }

    /// Returns the agent's node.
    pub(crate) fn node(&self) -> NodeId {
        self.agent.node
    }

    /// Opens the lane before a device starts, if it is not open. Retries for a while if the lane `is_needed`.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if a lane that is needed can't be opened.
    pub(crate) fn open(&self, is_needed: bool) -> Result<()> {
        let begun = Instant::now();
        let mut backoff = Backoff::new(ADMIT_MAX, self.session.0);
        let mut lane = self.lane.take();
        while lane.is_none() {
            match self.connect(route_now(&self.agent, self.terms)) {
                Ok(new) => *lane = Some(new),
                Err(_) if !is_needed => return Ok(()),
                Err(error) => {
                    let since = begun.elapsed();
                    let goes_on = error.is_transient() || since < CONNECT_MAX;
                    let Some(pause) = backoff.pause(since).filter(|_| goes_on) else {
                        return Err(not_admitted(&error));
                    };
                    std::thread::sleep(pause);
                }
            }
        }
        Ok(())
    }

    /// Replaces an open lane: a restarted agent knows only the program's process.
    pub(crate) fn open_anew(&self) {
        let mut lane = self.lane.take();
        let Some(known) = lane.as_mut() else { return };
        // By the same transport, because another one does not identify this process. The agent may not listen there
        // yet.
        let wanted = if known.transport() == Transport::Shm { TransportChoice::Shm } else { self.terms.wanted };
        if let Ok(new) = self.connect(route(&self.agent, LaneTerms { wanted, ..self.terms })) {
            std::mem::replace(known, new).shutdown();
        }
    }

    fn connect(&self, route: Route) -> Result<SharedLane> {
        let hello = Hello::new(Purpose::Driver, self.session, 0, PeerId::PROGRAM);
        handshake::connect_by(&route, &hello, &self.key, CONNECT_MAX)
    }

    /// Closes the lane, because the program drives no device any more.
    pub(crate) fn close(&self) {
        // A child of the program may have inherited the lane's descriptors.
        let lane = self.lane.take().take();
        if let Some(lane) = lane {
            lane.shutdown();
        }
    }
}

/// Returns the error for a job's device on the program's own node whose agent does not admit the program.
fn not_admitted(why: &Error) -> Error {
    let cause = format!(
        "the node's agent does not admit the program to the job's device, which may be another job's by now: {}",
        why.cause()
    );
    Error::new(ErrorCode::DeviceUnavailable, cause).remedy("ask for devices again")
}

impl Drop for DriverLane {
    fn drop(&mut self) {
        self.close();
    }
}

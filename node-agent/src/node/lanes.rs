//! Admission of lanes, and the choice of their executors.

use super::executors::{EXECUTORS_MAX, ExecutorId, Stage};
use super::state::Node;
use accord_fabric::handshake::{Hello, Purpose, check_secure};
use accord_types::{Error, ErrorCode, Result, SessionGrant, SessionId, SessionKey};
use std::time::Duration;

/// How long a connection waits for the node's registration and the announcement of its session or measurement.
const ANNOUNCEMENT_WAIT: Duration = Duration::from_secs(3);
/// How long a new executor waits for the end of the previous one. The driver may take seconds to destroy a GPU's
/// context. Shorter than a program's timeout for such a lane.
const REPLACE_MAX: Duration = Duration::from_secs(8);

/// The path by which a lane arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePath {
    /// Whether the lane came from another machine.
    pub leaves_machine: bool,
    /// Whether the lane came over the MPI of the agent's own world.
    pub is_of_world: bool,
}

/// A command lane that waits for an executor of its own.
#[derive(Debug)]
pub struct CommandLane {
    session: SessionId,
    since: Duration,
    /// The executor whose end it waits for.
    behind: Option<ExecutorId>,
}

impl CommandLane {
    /// Creates the state of a lane that has just arrived.
    pub fn new(now: Duration, session: SessionId) -> Self {
        Self { session, since: now, behind: None }
    }
}

impl Node {
    /// Returns the key that a connection with this purpose must prove, for `session` or the measurement with that
    /// number. The connection arrived at `since`, maybe before the coordinator's announcement. Returns `None` while it
    /// must wait for that, at most until [`Node::key_within`].
    ///
    /// # Errors
    /// Returns an error if the session or measurement was not announced to this agent, or has ended. The text reveals
    /// nothing of other sessions, since unauthenticated peers may ask.
    pub fn key_of(
        &self,
        now: Duration,
        purpose: Purpose,
        session: SessionId,
        since: Duration,
    ) -> Result<Option<SessionKey>> {
        let is_measured = purpose == Purpose::Measure;
        let is_known = if is_measured {
            self.key_of_measurement(now, session).is_ok()
        } else {
            self.grants.find(now, session).is_some() || self.grants.has_ended(session)
        };
        let waits = !self.stopping && (self.endpoint.is_none() || !is_known) && now < Self::key_within(since);
        if waits {
            return Ok(None);
        }
        if is_measured {
            return self.key_of_measurement(now, session).map(Some);
        }
        self.check(session)?;
        Ok(Some(self.grant(now, session)?.key))
    }

    /// Whether lanes of a session are admitted.
    pub fn serves(&self, session: SessionId) -> bool {
        self.grants.knows(session)
    }

    /// Returns the time by which [`Node::key_of`] has an answer.
    pub fn key_within(since: Duration) -> Duration {
        since + ANNOUNCEMENT_WAIT
    }

    /// Checks a lane whose key is proven: that it is for this node, and encrypted where it must be. Returns its
    /// session's grant.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub fn admit(&self, now: Duration, hello: &Hello, way: LanePath) -> Result<SessionGrant> {
        self.check(hello.session)?;
        let grant = self.grant(now, hello.session)?;
        self.check_quota(&grant)?;
        let own = self.endpoint.as_ref().map(|endpoint| endpoint.node);
        if hello.to.is_some() && hello.to != own {
            return Err(refused(format!("this is node {}, and another one is meant", self.name)));
        }
        // The MPI world was configured, and its messages are MPI's.
        let may_be_plain = way.is_of_world || self.plain_tcp && grant.plain_tcp;
        check_secure(hello, way.leaves_machine, may_be_plain)
            .inspect_err(|error| tracing::warn!("session {} is refused: {}", hello.session, error.cause()))?;
        Ok(grant)
    }

    /// Returns the executor for a lane that is no command lane.
    ///
    /// # Errors
    /// Returns an error if the session has no executor.
    pub fn executor_of(&self, now: Duration, session: SessionId) -> Result<ExecutorId> {
        self.check(session)?;
        self.grant(now, session)?;
        self.executors.of(session).ok_or_else(|| {
            let none = format!("session {session} has no executor on node {} any more", self.name);
            match self.grants.why_ended(session) {
                Some(why) => {
                    refused(format!("{none}: its process has ended: {why}")).remedy("see the agent's messages")
                }
                None => refused(none),
            }
        })
    }

    /// Starts a command lane's executor, once the previous one has ended. Returns `None` if the caller must call again
    /// after each event, and by [`Node::begun_within`]. A caller that stops doing so blocks the executor's place.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub fn begin(
        &mut self,
        now: Duration,
        lane: &mut CommandLane,
        ends: &mut Vec<ExecutorId>,
    ) -> Result<Option<ExecutorId>> {
        let answer = self.next_executor(now, lane, ends);
        let waits = matches!(answer, Ok(None));
        if let Some(place) = self.executors.place(lane.session)
            && waits != lane.behind.is_some()
        {
            lane.behind = waits.then_some(place.executor);
            place.successors = if waits { place.successors + 1 } else { place.successors - 1 };
            self.executors.tidy(lane.session);
        }
        answer
    }

    /// Returns the time by which [`Node::begin`] has an answer.
    pub fn begun_within(lane: &CommandLane) -> Duration {
        lane.since + REPLACE_MAX
    }

    fn next_executor(
        &mut self,
        now: Duration,
        lane: &CommandLane,
        ends: &mut Vec<ExecutorId>,
    ) -> Result<Option<ExecutorId>> {
        let session = lane.session;
        self.check(session)?;
        let grant = self.grant(now, session)?;
        self.check_quota(&grant)?;
        match self.check_prolog(&grant) {
            Err(error) if error.is_transient() && now < Self::begun_within(lane) => return Ok(None),
            checked => checked?,
        }
        let user = &grant.user;
        let job = grant.job;
        let Some(place) = self.executors.place(session) else {
            return Ok(Some(self.executors.make(session, user, job)));
        };
        let is_anothers = lane.behind.is_some_and(|before| before != place.executor);
        match place.stage {
            Stage::Over if !is_anothers => Ok(Some(self.executors.make(session, user, job))),
            Stage::Runs | Stage::Ending if !is_anothers && now < Self::begun_within(lane) => {
                place.end(ends);
                Ok(None)
            }
            Stage::Runs | Stage::Ending if !is_anothers => {
                Err(refused(format!("the executor of session {session} does not end")).remedy("try again"))
            }
            // The other lane may be of the same program, which gave that attempt up after a broken connection.
            _ => {
                let why = format!("session {session} has a command lane that is just being opened");
                Err(refused(why).remedy("try again").transient())
            }
        }
    }

    fn check(&self, session: SessionId) -> Result<()> {
        let name = &self.name;
        if self.stopping {
            return Err(refused(format!("node {name} is stopping")));
        }
        if self.endpoint.is_none() {
            return Err(refused(format!("node {name} has not registered yet")).transient());
        }
        if self.grants.has_ended(session) {
            return Err(refused(format!("session {session} has ended")));
        }
        if self.executors.count() >= EXECUTORS_MAX && !self.executors.has(session) {
            let why =
                format!("node {name} can't take session {session}: it has {EXECUTORS_MAX} sessions, its agent's limit");
            let remedy =
                "wait until programs that use the node have ended (accord info lists them), or use other nodes";
            return Err(refused(why).node(name).remedy(remedy));
        }
        Ok(())
    }

    /// Whether the session's user may have one more executor here, if the session has none.
    fn check_quota(&self, grant: &SessionGrant) -> Result<()> {
        let SessionGrant { session, user, .. } = grant;
        if self.executors.has(*session) {
            return Ok(());
        }
        let checked = self.quota.check(user, self.executors.of_user(user), self.executors.count());
        checked.map_err(|(why, remedy)| {
            refused(format!("node {} can't take session {session}: {why}", self.name)).node(&self.name).remedy(remedy)
        })
    }

    /// Returns the limits of the session's lease here, until it ends.
    ///
    /// # Errors
    /// Returns an error if the session has ended, or was not announced to the agent.
    pub fn grant(&self, now: Duration, session: SessionId) -> Result<SessionGrant> {
        self.grants.find(now, session).ok_or_else(|| {
            refused(format!("the coordinator has not told node {} of session {session}", self.name))
                .remedy("check that the coordinator runs, and start the program again")
                .transient()
        })
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, why)
}

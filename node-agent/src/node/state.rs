//! The state of the rules.

use super::departure::Departure;
use super::device_tests::Testing;
use super::drivers::{DriverId, Drivers};
use super::effect::{AgentEnding, Effect};
use super::executors::{ExecutorId, Executors};
use super::grants::Grants;
use super::jobs::Jobs;
use super::loads::Loads;
use super::measurements::Measuring;
use super::quota::Quota;
use super::suspended_jobs::Suspensions;
use super::uses::Uses;
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::route::Endpoint;
use accord_types::{NodeId, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// First pause before connecting again.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The connection to the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Membership {
    /// There is none; the next try is at `again`.
    Away { again: Duration },
    /// A connection attempt is in progress.
    Connecting,
    /// The coordinator has registered the node; the next heartbeat is due at `beat`.
    In { beat: Duration },
    /// The agent is ending.
    Left,
}

/// The state of an agent's node.
#[derive(Debug)]
pub struct Node {
    pub(super) name: String,
    /// Whether lanes from other machines may be unencrypted, if their session's grant permits it, too.
    pub(super) plain_tcp: bool,
    /// The node's number and address, as last assigned by a coordinator.
    pub(super) endpoint: Option<Endpoint>,
    /// The number of this node in the grants of an earlier agent.
    pub(super) previous: Option<NodeId>,
    pub(super) grants: Grants,
    pub(super) executors: Executors,
    /// Programs that drive devices of this node themselves.
    pub(super) drivers: Drivers,
    /// Deadlines by which programs of ended sessions must stop their devices.
    pub(super) overdue: BTreeMap<DriverId, Duration>,
    /// Number of changes of the state that outlives the agent.
    pub(super) kept_changes: u64,
    pub(super) quota: Quota,
    pub(super) stopping: bool,
    pub(super) link: Membership,
    /// The reason why the agent must end.
    pub(super) ending: Option<AgentEnding>,
    /// `None`: the agent was not told to stop.
    pub(super) departure: Option<Departure>,
    /// Before the next try to connect.
    pub(super) pause: Duration,
    /// Period of heartbeats.
    pub(super) period: Duration,
    /// Sessions that the coordinator knows to have an executor here.
    pub(super) reported: BTreeSet<SessionId>,
    /// Reasons for unexpected ends of such sessions' executors.
    pub(super) reasons: BTreeMap<SessionId, String>,
    pub(super) jobs: Jobs,
    pub(super) suspensions: Suspensions,
    pub(super) uses: Uses,
    pub(super) loads: Loads,
    pub(super) measuring: Measuring,
    pub(super) testing: Testing,
}

impl Node {
    /// Creates the state of an agent that has just started; `measures` says whether it measures its node and paths.
    pub fn new(name: String, plain_tcp: bool, measures: bool) -> Self {
        Self {
            name,
            plain_tcp,
            endpoint: None,
            previous: None,
            grants: Grants::default(),
            executors: Executors::default(),
            drivers: Drivers::default(),
            overdue: BTreeMap::new(),
            kept_changes: 0,
            quota: Quota::default(),
            stopping: false,
            link: Membership::Away { again: Duration::ZERO },
            ending: None,
            departure: None,
            pause: PAUSE_MIN,
            period: Duration::ZERO,
            reported: BTreeSet::new(),
            reasons: BTreeMap::new(),
            jobs: Jobs::default(),
            suspensions: Suspensions::default(),
            uses: Uses::default(),
            loads: Loads::default(),
            measuring: Measuring::new(measures),
            testing: Testing::default(),
        }
    }

    /// Sets the division of executors among users.
    #[must_use]
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = quota;
        self
    }

    /// Has the site's scripts run for each job.
    #[must_use]
    pub fn with_scripts(mut self) -> Self {
        self.jobs = self.jobs.with_scripts();
        self
    }

    /// Returns the node's number and address, once a coordinator has assigned them.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Returns the latest time of the next poll.
    pub fn next(&self) -> Option<Duration> {
        let link = match self.link {
            Membership::Away { again } => Some(again),
            Membership::In { beat } => Some(beat),
            Membership::Connecting | Membership::Left => None,
        };
        let measuring = self.measuring.next().filter(|_| self.is_in() && self.is_quiet());
        let ends =
            [self.grants.next_end().map(|(end, _)| end), self.jobs.next_end(), self.overdue.values().min().copied()];
        [link, measuring, self.departs_by()].into_iter().chain(ends).flatten().min()
    }

    /// Whether no session uses the node.
    pub(super) fn is_quiet(&self) -> bool {
        self.grants.is_empty() && self.is_idle() && self.drivers.count() == 0
    }

    /// Ends sessions and jobs past their end, and returns the effects that are due.
    pub fn poll(&mut self, now: Duration, ends: &mut Vec<ExecutorId>) -> Vec<Effect> {
        while let Some((end, session)) = self.grants.next_end()
            && end <= now
        {
            tracing::warn!("session {session} has lasted as long as it was allowed to");
            self.end_session(session, Some(&ExecutorEnding::time_is_over(session)), ends);
        }
        self.end_jobs(now, ends);
        self.attend(now)
    }
}

//! State that outlives an agent: jobs that hold devices, and programs that drive them. The next agent on the same boot
//! resumes it.

use super::drivers::Driver;
use super::jobs::Admission;
use super::quota::Quota;
use super::state::Node;
use accord_types::{JobGrant, NodeId, SessionGrant};
use std::collections::BTreeSet;
use std::time::Duration;

/// State of a node that outlives its agent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SavedNode {
    /// The node's last number at the coordinator.
    pub node: Option<NodeId>,
    /// Jobs that hold devices here, and whose prolog has succeeded.
    pub jobs: Vec<JobGrant>,
    /// Sessions whose programs drive devices here.
    pub sessions: Vec<SessionGrant>,
    /// Programs that drive devices here, also those whose session has ended.
    pub drivers: Vec<Driver>,
}

impl Node {
    /// Returns the number of changes of [`Node::saved`] so far.
    pub fn kept_changes(&self) -> u64 {
        self.kept_changes
    }

    /// Returns the state that outlives the agent.
    pub fn kept(&self, now: Duration) -> SavedNode {
        let drivers: Vec<Driver> = self.drivers.all().map(|(_, driver)| driver.clone()).collect();
        let sessions: BTreeSet<_> = drivers.iter().map(|driver| driver.session).collect();
        SavedNode {
            node: self.endpoint.as_ref().map(|endpoint| endpoint.node).or(self.previous),
            // A job that its prolog has not admitted uses nothing here: the next agent runs the prolog again.
            jobs: self
                .jobs_held(now)
                .into_iter()
                .filter(|job| self.jobs.admission(job.token.key) == Some(Admission::Admitted))
                .collect(),
            sessions: sessions.into_iter().filter_map(|session| self.grants.find(now, session)).collect(),
            drivers,
        }
    }

    /// Takes over the state of an earlier agent of this node. Its programs have no lane to this agent.
    pub fn resume(&mut self, now: Duration, kept: SavedNode) {
        self.previous = kept.node;
        let suspended: Vec<_> = kept.jobs.iter().filter(|job| job.is_suspended).map(|job| job.token.key).collect();
        for job in kept.jobs {
            self.jobs.resume(now, job);
        }
        for session in kept.sessions {
            self.grants.announce(now, session, |_| true);
        }
        for job in suspended {
            self.was_suspended(now, job);
        }
        for driver in kept.drivers {
            let user = self.grants.find(now, driver.session).map(|grant| grant.user).unwrap_or_default();
            // The earlier agent has checked the quota.
            let _ = self.drivers.add(Driver { has_lane: false, ..driver }, &user, Quota::of_one_user());
        }
    }
}

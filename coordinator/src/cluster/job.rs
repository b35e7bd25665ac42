//! A job: a request for devices and, once it is granted, the allocation in which its programs open their sessions.

use super::input::ClientId;
use super::session::Owner;
use accord_scheduler::{JobId, LeasedDevice};
use accord_types::{HeldDevice, JobGrant, JobToken, NodeId, SessionId, SessionRequest};
use std::collections::BTreeSet;

/// A program that opens a session in a job once the job has started.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) client: ClientId,
    pub(super) request: SessionRequest,
    pub(super) owner: Owner,
}

/// Where a job is on its way.
#[derive(Debug)]
pub(super) enum Stage {
    /// The scheduler has not granted its devices yet.
    Waiting,
    /// It holds these devices.
    Running(Vec<LeasedDevice>),
    /// It has ended. Agents have yet to confirm that its devices are free.
    Ended,
}

/// One job, as the coordinator keeps it beside the scheduler.
#[derive(Debug)]
pub(super) struct Job {
    /// Its number for people, and its secret.
    pub(super) token: JobToken,
    /// Its user, as attested.
    pub(super) user: String,
    /// Its account, the user's leaf of the policy's tree.
    pub(super) account: String,
    pub(super) stage: Stage,
    /// Programs that wait for its start.
    pub(super) openers: Vec<Opener>,
    /// Its open sessions.
    pub(super) sessions: BTreeSet<SessionId>,
    /// Nodes that were lost while it ran: its devices there are lost to it.
    pub(super) lost: BTreeSet<NodeId>,
}

impl Job {
    /// A job that waits for its devices, and the program that has asked for them.
    pub(super) fn asked_by(opener: Opener, id: JobId, account: String) -> Self {
        Self {
            token: JobToken { job: id.0, key: opener.owner.key },
            account,
            user: opener.owner.user.clone(),
            stage: Stage::Waiting,
            openers: vec![opener],
            sessions: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Its devices; none unless it runs.
    pub(super) fn devices(&self) -> &[LeasedDevice] {
        match &self.stage {
            Stage::Running(devices) => devices,
            Stage::Waiting | Stage::Ended => &[],
        }
    }

    /// Nodes that its devices are of.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        self.devices().iter().map(|leased| leased.device.node).collect()
    }

    /// What the agent of `node` is told.
    pub(super) fn grant(&self, node: NodeId) -> JobGrant {
        let devices = self.devices().iter().filter(|leased| leased.device.node == node).map(|leased| HeldDevice {
            ordinal: leased.device.ordinal,
            milli: leased.amount.milli,
            memory: leased.amount.memory,
            exclusive: leased.exclusive,
        });
        JobGrant {
            token: self.token,
            user: self.user.clone(),
            account: self.account.clone(),
            ends_in_ms: None,
            devices: devices.collect(),
        }
    }

    /// Whether it uses its devices of a node.
    pub(super) fn uses(&self, node: NodeId) -> bool {
        matches!(self.stage, Stage::Running(_)) && !self.lost.contains(&node)
    }
}

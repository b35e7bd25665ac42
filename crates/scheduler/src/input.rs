//! Inputs of the scheduler.

use crate::effect::LeasedDevice;
use crate::ids::{JobId, ReservationId};
use crate::node::NodeDescription;
use crate::path_class::PathTimesByClass;
use crate::policy::{Account, Policy};
use crate::request::Request;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId, SessionId};

/// Devices that are reserved for a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Its number.
    pub id: ReservationId,
    /// Its name, which jobs request. All weeks of a weekly reservation have the same name.
    pub name: String,
    /// The devices.
    pub devices: ReservedDevices,
    /// The start.
    pub starts: Millis,
    /// The end. A weekly reservation is one of these for each week.
    pub ends: Millis,
    /// Its number in the order of creation, the same for all weeks. Of two reservations for members that overlap on a
    /// device, the one created earlier takes precedence.
    pub created: u64,
    /// The accounts and users whose jobs may use the devices; none for maintenance.
    pub members: Members,
    /// Whether other jobs that hold its devices at the start are ended.
    pub end_jobs: bool,
}

/// The devices of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReservedDevices {
    /// All devices of the cluster, including those of nodes that join later.
    All,
    /// These nodes with all devices that they have at the time, and these devices.
    Listed(Vec<DrainTarget>),
}

/// The accounts and users that may use a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Accounts by name, including their descendants.
    pub accounts: Vec<String>,
    /// Attested users.
    pub users: Vec<String>,
}

impl Members {
    /// Whether there are no members, so that no job may use the devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.users.is_empty()
    }
}

/// A node or a device of a drain or a reservation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DrainTarget {
    /// All devices of a node.
    Node(NodeId),
    /// A device.
    Device(DeviceId),
}

/// A job that an earlier scheduler has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierJob {
    /// Its number, which no other job has.
    pub id: JobId,
    /// Its user.
    pub user: String,
    /// Its account, by name. The site is charged if the account does not exist.
    pub account: String,
    /// Its devices on one node.
    pub devices: Vec<LeasedDevice>,
    /// The rest of its time limit, in milliseconds; `None` without a limit.
    pub limit_ms: Option<u64>,
    /// Whether its memory is in host memory, and it holds no device.
    pub is_suspended: bool,
}

/// An input of the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A node joins, returns, or has changed. With a new incarnation no earlier lease holds its devices.
    NodeJoined(NodeDescription),
    /// A node joins on which jobs of an earlier scheduler hold devices. Known jobs hold these devices as well.
    NodeReturned(NodeDescription, Vec<EarlierJob>),
    /// A node's agent was silent for too long. Jobs lose the node's devices.
    NodeLost(NodeId),
    /// A node's agent has left, so no job holds the node's devices any more.
    NodeLeft(NodeId),
    /// A user requests devices.
    Ask {
        /// The attested user.
        user: String,
        /// The account, by name.
        account: String,
        /// The node of the program, if it is in the cluster.
        origin: Option<NodeId>,
        /// The request.
        request: Request,
    },
    /// A user or an administrator withdraws a waiting job, or ends a running one.
    Cancel {
        /// The job.
        job: JobId,
        /// Who did it, for the audit log and messages.
        by: String,
    },
    /// The command of a running job has ended.
    Ended {
        /// The job.
        job: JobId,
    },
    /// The command of a running job, or its sessions, did not come back after their connections were lost.
    Abandoned {
        /// The job.
        job: JobId,
        /// Its last sign of life, until which it is charged; `None` charges it until now.
        seen: Option<Millis>,
    },
    /// Puts a waiting job on hold, or releases it.
    Hold {
        /// The job.
        job: JobId,
        /// Whether the job is on hold.
        held: bool,
    },
    /// An administrator puts a waiting job before all others.
    ToFront {
        /// The job.
        job: JobId,
        /// The administrator.
        by: String,
    },
    /// An administrator sets the time limit of a job, counted from its start.
    SetLimit {
        /// The job.
        job: JobId,
        /// The limit in milliseconds.
        limit_ms: u64,
        /// The administrator.
        by: String,
    },
    /// A user or an administrator suspends a running job.
    Suspend {
        /// The job.
        job: JobId,
        /// Who did it, for the audit log and messages.
        by: String,
        /// The reason; empty if none was given.
        reason: String,
    },
    /// A node's agent answers [`crate::Effect::Suspend`].
    Suspended {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// Whether the memory of the job's devices is in host memory, or why it can't be.
        outcome: Result<(), String>,
    },
    /// A user or an administrator resumes a suspended job.
    Resume {
        /// The job.
        job: JobId,
        /// Who did it, for the audit log.
        by: String,
    },
    /// A node's agent answers [`crate::Effect::Resume`].
    Resumed {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
        /// Whether the memory is in the job's devices again, or why it can't be.
        outcome: Result<(), String>,
    },
    /// The requester of a waiting job has connected or disconnected.
    Connected {
        /// The job.
        job: JobId,
        /// Whether the requester is connected.
        connected: bool,
    },
    /// A session of a job has opened.
    SessionOpened {
        /// The job.
        job: JobId,
        /// The session.
        session: SessionId,
    },
    /// A session of a job has ended. The job continues until its command ends it.
    SessionClosed {
        /// The job.
        job: JobId,
        /// The session.
        session: SessionId,
    },
    /// A node's agent confirms that it has ended a job.
    Released {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A checked policy takes effect.
    PolicyApplied {
        /// The policy.
        policy: Box<Policy>,
        /// The administrator.
        by: String,
    },
    /// Adds an account to the policy in effect: the leaf of a user with a first request, below an account without jobs
    /// of its own. Nothing else changes. An existing account stays as it is.
    AccountAdded(Box<Account>),
    /// A program without a request has used a device, and its account is charged for the time.
    Used {
        /// The account, by name. The site is charged if the account does not exist.
        account: String,
        /// The device.
        device: DeviceId,
        /// Thousandths of the device times milliseconds.
        milli_ms: u64,
    },
    /// A running job has left its devices idle for longer than the policy allows.
    Idle {
        /// The job.
        job: JobId,
    },
    /// Path times have been measured. Later placements use them.
    PathTimes(PathTimesByClass),
    /// A month begins, which resets monthly budgets.
    MonthBegan,
    /// A reservation is created or replaced.
    Reserve(Box<Reservation>),
    /// A reservation is deleted.
    Unreserve(ReservationId),
    /// Drains a node or device: no job starts there that may run beyond the deadline.
    Drain {
        /// The node or device.
        target: DrainTarget,
        /// The deadline.
        by_time: Millis,
        /// Whether jobs that are still there at the deadline are ended.
        end: bool,
        /// The reason.
        reason: String,
        /// The administrator.
        by: String,
    },
    /// Ends a drain.
    Undrain {
        /// The node or device.
        target: DrainTarget,
        /// The administrator.
        by: String,
    },
    /// Puts a device into quarantine because of its own fault or for an administrator, so that no job starts there.
    /// Faults put at most 10 % of a class's devices into quarantine.
    Quarantine {
        /// The device.
        device: DeviceId,
        /// The fault, or the administrator's reason.
        reason: String,
        /// The administrator; `None` if it is a fault.
        by: Option<String>,
        /// Whether jobs that hold the device stay charged for it, because a region may have caused the fault.
        charged: bool,
        /// The device's UUID; empty if it has none.
        uuid: String,
    },
    /// A device in quarantine is at another place now.
    DeviceMoved {
        /// Its UUID.
        uuid: String,
        /// The place; `None` if no node has the device.
        to: Option<DeviceId>,
    },
    /// Ends a device's quarantine, after a test or for an administrator.
    Unquarantine {
        /// The device.
        device: DeviceId,
        /// The test or the administrator.
        by: String,
    },
    /// A device is in use by a program without a job, or no longer. No job starts there meanwhile.
    InUse {
        /// The device.
        device: DeviceId,
        /// Whether the device is in use.
        in_use: bool,
    },
    /// Pauses all starts, or allows them again.
    Pause {
        /// Whether starts are paused.
        paused: bool,
        /// The administrator.
        by: String,
    },
    /// Time has passed.
    Tick,
}

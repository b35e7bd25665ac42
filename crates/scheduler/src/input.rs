//! What can happen to the scheduler.

use crate::effect::LeasedDevice;
use crate::ids::{JobId, ReservationId};
use crate::node::NodeDescription;
use crate::path_class::PathTimesByClass;
use crate::policy::{Account, Policy};
use crate::request::Request;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId, SessionId};

/// Devices that are set aside for a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// Its number.
    pub id: ReservationId,
    /// Its name, by which jobs ask for it. The weeks of a weekly reservation have one name.
    pub name: String,
    /// The devices.
    pub devices: ReservedDevices,
    /// Its first moment.
    pub starts: Millis,
    /// Its end. A weekly reservation is one of these for each week.
    pub ends: Millis,
    /// Its number in the order in which reservations were created, one for all weeks of a weekly one. Of two for members that have a
    /// device at one time the one created earlier goes first.
    pub created: u64,
    /// The accounts and users whose jobs may use the devices meanwhile; none: maintenance.
    pub members: Members,
    /// Whether other jobs that still hold its devices at its start are ended.
    pub end_jobs: bool,
}

/// The devices of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReservedDevices {
    /// All devices of the cluster, also of nodes that join later.
    All,
    /// These nodes, with all devices that they have meanwhile, and these devices.
    Listed(Vec<DrainTarget>),
}

/// The accounts and users that a reservation is for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Accounts by name, their descendants included.
    pub accounts: Vec<String>,
    /// Attested users.
    pub users: Vec<String>,
}

impl Members {
    /// Whether there are none: no job may use the devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.users.is_empty()
    }
}

/// A node or a device, as drains and reservations name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DrainTarget {
    /// All devices of a node.
    Node(NodeId),
    /// One device.
    Device(DeviceId),
}

/// A job that another scheduler has started, before this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierJob {
    /// Its number: that of no other job.
    pub id: JobId,
    /// Its user.
    pub user: String,
    /// Its account, by name. The site is charged if there is none.
    pub account: String,
    /// Its devices of one node.
    pub devices: Vec<LeasedDevice>,
    /// Rest of its time limit, in milliseconds; `None`: it has none.
    pub limit_ms: Option<u64>,
}

/// An event for the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A node joins, returns, or has changed. With another incarnation than before it holds nothing of earlier leases.
    NodeJoined(NodeDescription),
    /// A node joins on which jobs hold devices that this scheduler has not started. Jobs that are known hold these devices, too.
    NodeReturned(NodeDescription, Vec<EarlierJob>),
    /// A node's agent was not heard for too long. Its devices are lost to their jobs.
    NodeLost(NodeId),
    /// A node's agent said goodbye: it holds nothing any more.
    NodeLeft(NodeId),
    /// A user asks for devices.
    Ask {
        /// The attested user.
        user: String,
        /// The account, by name.
        account: String,
        /// The node of the program, if it is one of the cluster's.
        origin: Option<NodeId>,
        /// What is asked for.
        request: Request,
    },
    /// A waiting job is withdrawn, or a running one ended, by its user or an administrator.
    Cancel {
        /// The job.
        job: JobId,
        /// Who, for the audit log and messages.
        by: String,
    },
    /// A running job's command ended.
    Ended {
        /// The job.
        job: JobId,
    },
    /// A waiting job is not to start, or may start again.
    Hold {
        /// The job.
        job: JobId,
        /// Whether it is held.
        held: bool,
    },
    /// An administrator puts a waiting job before all others.
    ToFront {
        /// The job.
        job: JobId,
        /// Who.
        by: String,
    },
    /// An administrator sets the time limit of a job, counted from its start.
    SetLimit {
        /// The job.
        job: JobId,
        /// The limit in milliseconds.
        limit_ms: u64,
        /// Who.
        by: String,
    },
    /// A waiting job's requester is connected, or no longer.
    Connected {
        /// The job.
        job: JobId,
        /// Whether it is.
        connected: bool,
    },
    /// A session of a job opened.
    SessionOpened {
        /// The job.
        job: JobId,
        /// The session.
        session: SessionId,
    },
    /// A session of a job ended. The job goes on: its command says when it ends.
    SessionClosed {
        /// The job.
        job: JobId,
        /// The session.
        session: SessionId,
    },
    /// A node's agent confirms that nothing of an ended job is left on the node's devices.
    Released {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A policy takes effect. It was checked before.
    PolicyApplied {
        /// The policy.
        policy: Box<Policy>,
        /// Who.
        by: String,
    },
    /// An account joins the policy in effect: the leaf of a user who asks for the first time, below an account without jobs of its own. Nothing
    /// else changes. An account that is there already stays as it is.
    AccountAdded(Box<Account>),
    /// A program that asked for nothing has used a device, and its account is charged for the time.
    Used {
        /// The account, by name. The site is charged if there is none.
        account: String,
        /// The device.
        device: DeviceId,
        /// Thousandths of the device times milliseconds.
        milli_ms: u64,
    },
    /// A running job did nothing with its devices for as long as the policy allows.
    Idle {
        /// The job.
        job: JobId,
    },
    /// Paths between nodes were measured. Later placements go by this.
    PathTimes(PathTimesByClass),
    /// A month begins: monthly budgets are whole again.
    MonthBegan,
    /// A reservation is made, or replaced.
    Reserve(Box<Reservation>),
    /// A reservation is removed.
    Unreserve(ReservationId),
    /// Nothing is placed there that may last longer than until a deadline.
    Drain {
        /// The node or device.
        target: DrainTarget,
        /// The deadline.
        by_time: Millis,
        /// Jobs that are still there then are ended.
        end: bool,
        /// Why.
        reason: String,
        /// Who.
        by: String,
    },
    /// A drain is taken back.
    Undrain {
        /// The node or device.
        target: DrainTarget,
        /// Who.
        by: String,
    },
    /// A device showed a fault of its own, or an administrator puts it into quarantine. Nothing more is placed there. Of each class faults put
    /// 10 % of the devices into quarantine at most.
    Quarantine {
        /// The device.
        device: DeviceId,
        /// The fault, or the administrator's reason.
        reason: String,
        /// The administrator; `None` if it is a fault.
        by: Option<String>,
        /// Whether jobs that hold the device are charged for it on: a region may have caused the fault.
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
    /// A device works again, as a test region or an administrator says.
    Unquarantine {
        /// The device.
        device: DeviceId,
        /// Who.
        by: String,
    },
    /// A device is in use by others than jobs, or no longer. Nothing is placed there meanwhile.
    InUse {
        /// The device.
        device: DeviceId,
        /// Whether it is.
        in_use: bool,
    },
    /// No job starts, or jobs start again.
    Pause {
        /// Whether it is so.
        paused: bool,
        /// Who.
        by: String,
    },
    /// Time has passed.
    Tick,
}

//! Effects of the scheduler, which the driver carries out.

use crate::amount::Amount;
use crate::ids::JobId;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A device of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeasedDevice {
    /// The device.
    pub device: DeviceId,
    /// The job's part of the device.
    pub amount: Amount,
    /// Whether no other job may use the device.
    pub exclusive: bool,
}

/// Equal devices of a job on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DevicesOnNode {
    /// The node's name.
    pub node: String,
    /// Their class, as in a request: `nvidia/h200`, `cpu/epyc-9654`.
    pub model: String,
    /// Their ordinals on the node.
    pub ordinals: Vec<u32>,
    /// Thousandths of each device's time; 0 for memory alone.
    pub milli: u32,
    /// Bytes of each device's memory; 0 for whole devices.
    pub memory: u64,
    /// Whether no other job may use the devices.
    pub exclusive: bool,
}

/// The reason for refusing a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The policy has no such account.
    NoAccount(String),
    /// The account has children, so that jobs must use one of these.
    HasAccounts(String),
    /// The request contradicts itself.
    Malformed(&'static str),
    /// The account may not use this priority.
    Priority {
        /// The account.
        account: String,
        /// The lowest and highest priority that it may use.
        allowed: (i32, i32),
    },
    /// The time limit exceeds the account's longest limit.
    TooLong {
        /// The account.
        account: String,
        /// Its longest limit in milliseconds.
        longest_ms: u64,
    },
    /// The request exceeds what the account may hold at any time.
    MoreThanMost {
        /// The account.
        account: String,
        /// The number of devices that it may hold.
        devices: u32,
    },
    /// The month's device-hours are used up.
    Spent {
        /// The account.
        account: String,
    },
    /// The request names a reservation that does not exist, or that the user may not use.
    Reservation {
        /// The reservation.
        name: String,
        /// Whether the reservation exists.
        is_known: bool,
    },
    /// Too many jobs are waiting.
    Waiting {
        /// The account, or `None` for all users together.
        account: Option<String>,
        /// The limit.
        max: usize,
    },
}

/// The reason for a job's end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EndCause {
    /// Its command has ended.
    Done,
    /// A user or an administrator has cancelled it.
    Cancelled {
        /// The user or the administrator.
        by: String,
    },
    /// Its time limit has passed.
    Limit,
    /// Its quantum has ended, and a job within its guarantee waits for the devices.
    Quantum,
    /// Its longest wait has passed.
    WaitOver,
    /// Its requester was disconnected for longer than the policy allows.
    Abandoned,
    /// A drain's deadline has passed.
    Drained,
    /// The new policy lacks its account, or its user is not in it.
    NoAccount,
    /// It has lost all its devices.
    Lost,
    /// Its devices were idle for longer than the policy allows.
    Idle,
    /// It has no time limit, and its account has spent its device-hours of the month.
    Spent,
    /// A reservation for others has begun, and ends other jobs.
    Reserved {
        /// The reservation.
        name: String,
    },
    /// It waited for a reservation that it names, which is over or was deleted.
    ReservationOver {
        /// The reservation.
        name: String,
    },
}

/// The reason for moving a reserved start to a later time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlipCause {
    /// Devices were lost, drained, quarantined or reserved.
    Devices,
    /// The jobs before it have changed, by priority, guarantee or another account's share.
    Order,
    /// A lease was extended, or the release of its devices takes long.
    Leases,
    /// The policy changed.
    Policy,
}

/// An action of the driver. Effects are carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The request of [`crate::Input::Ask`] waits as this job.
    Queued {
        /// The job.
        job: JobId,
    },
    /// The request of [`crate::Input::Ask`] is refused.
    Refused(Refusal),
    /// A job has got its devices, in the order of its parts and by device within a part.
    Started {
        /// The job.
        job: JobId,
        /// The devices.
        devices: Vec<LeasedDevice>,
        /// The end of its lease.
        ends: Millis,
    },
    /// The end of a job's lease has moved.
    LeaseEnds {
        /// The job.
        job: JobId,
        /// The end.
        ends: Millis,
    },
    /// A job's lease ends soon.
    Warning {
        /// The job.
        job: JobId,
        /// The end of the lease.
        ends: Millis,
        /// The reason for the end.
        cause: EndCause,
    },
    /// A running job has lost devices. They keep their numbers, and are no longer charged.
    DevicesLost {
        /// The job.
        job: JobId,
        /// The devices.
        devices: Vec<DeviceId>,
    },
    /// A job has ended.
    Ended {
        /// The job.
        job: JobId,
        /// The reason.
        cause: EndCause,
    },
    /// The agent of a node must move the memory of the job's devices there to host memory, and answer with
    /// [`crate::Input::Suspended`].
    Suspend {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// The agent of a node must bring the memory of the job's devices there back, and answer with
    /// [`crate::Input::Resumed`].
    Resume {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// A job is suspended. Other jobs may have its devices.
    Suspended {
        /// The job.
        job: JobId,
    },
    /// A suspended job holds its devices again.
    DevicesHeldAgain {
        /// The job.
        job: JobId,
    },
    /// A suspended job runs again.
    Resumed {
        /// The job.
        job: JobId,
    },
    /// A job can't be suspended or resumed.
    SuspensionFailed {
        /// The job.
        job: JobId,
        /// The reason.
        why: String,
    },
    /// The agent of a node must end the job there, and confirm with [`crate::Input::Released`].
    Release {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// The state of a job as displayed to users has changed; `Scheduler::explain` returns it.
    Changed {
        /// The job.
        job: JobId,
    },
    /// A waiting job has got a reserved start, or a different one.
    Reserved {
        /// The job.
        job: JobId,
        /// The reserved start.
        starts: Millis,
        /// The reason why it is later than before; `None` if it is not.
        slipped: Option<SlipCause>,
    },
    /// A device's quarantine has begun or ended, or has a new reason.
    Quarantine {
        /// The device.
        device: DeviceId,
    },
    /// A fault begins no quarantine yet: too many devices of its class are in quarantine for one.
    QuarantineRefused {
        /// The device.
        device: DeviceId,
        /// The fault.
        reason: String,
        /// Whether a region may have caused it.
        charged: bool,
        /// The refusal, for the audit log.
        why: String,
    },
    /// For the audit log: an administrator's act, or a refusal.
    Audit(String),
}

/// The lowest and highest priority of an account, in words.
pub(crate) struct AllowedPriorities(pub(crate) i32, pub(crate) i32);

impl fmt::Display for AllowedPriorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(lowest, highest) = self;
        if lowest == highest { write!(f, "priority {lowest}") } else { write!(f, "priorities {lowest} to {highest}") }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount(account) => write!(f, "the policy has no account {account:?}; ask for one that it names"),
            Self::HasAccounts(account) => write!(f, "account {account:?} has accounts below it; name one of these"),
            Self::Malformed(why) => write!(f, "the request makes no sense: {why}"),
            Self::Priority { account, allowed: (lowest, highest) } => {
                let allowed = AllowedPriorities(*lowest, *highest);
                write!(f, "account {account:?} may use {allowed} only; change the request's priority")
            }
            Self::TooLong { account, longest_ms } => {
                let longest = crate::units::long_time_text(*longest_ms);
                write!(f, "jobs of account {account:?} may last {longest} at most; name a shorter limit")
            }
            Self::MoreThanMost { account, devices } => {
                write!(f, "account {account:?} may have {devices} of these devices; ask for fewer")
            }
            Self::Spent { account } => {
                write!(f, "account {account:?} has spent its device-hours of this month; ask an administrator for more")
            }
            Self::Reservation { name, is_known: true } => {
                write!(f, "the reservation {name:?} is for other accounts and users; name an account that it is for")
            }
            Self::Reservation { name, is_known: false } => {
                write!(f, "there is no reservation {name:?}; `accord reservation list` names those that there are")
            }
            Self::Waiting { account: Some(account), max } => {
                write!(f, "account {account:?} has its {max} waiting jobs already; ask again when one has started")
            }
            Self::Waiting { account: None, max } => {
                write!(f, "{max} jobs wait already; ask again when one has started")
            }
        }
    }
}

impl EndCause {
    /// A name for each cause, for metrics.
    pub const WORDS: [&'static str; 13] = [
        "done",
        "cancelled",
        "limit",
        "quantum",
        "wait_over",
        "abandoned",
        "drained",
        "no_account",
        "lost",
        "idle",
        "reserved",
        "spent",
        "reservation_over",
    ];

    /// Returns the index of the cause's name.
    #[must_use]
    pub const fn index(&self) -> usize {
        match self {
            Self::Done => 0,
            Self::Cancelled { .. } => 1,
            Self::Limit => 2,
            Self::Quantum => 3,
            Self::WaitOver => 4,
            Self::Abandoned => 5,
            Self::Drained => 6,
            Self::NoAccount => 7,
            Self::Lost => 8,
            Self::Idle => 9,
            Self::Reserved { .. } => 10,
            Self::Spent => 11,
            Self::ReservationOver { .. } => 12,
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("its command ended"),
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::Limit => f.write_str("its time limit"),
            Self::Quantum => f.write_str("its quantum ended, and a job within its guarantee waits for its devices"),
            Self::WaitOver => f.write_str("it waited as long as its request allows"),
            Self::Abandoned => f.write_str("its requester did not come back in time"),
            Self::Drained => f.write_str("its devices are drained"),
            Self::NoAccount => f.write_str("the policy has its account no longer, or not for its user"),
            Self::Lost => f.write_str("all its devices are lost"),
            Self::Idle => f.write_str("it did nothing with its devices for as long as the policy allows"),
            Self::Reserved { name } => write!(f, "its devices are reserved by {name:?}"),
            Self::Spent => f.write_str("its account has spent its device-hours of this month"),
            Self::ReservationOver { name } => write!(f, "its reservation {name:?} is over"),
        }
    }
}

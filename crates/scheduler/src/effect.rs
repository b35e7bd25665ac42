//! What the scheduler wants done.

use crate::amount::Amount;
use crate::ids::JobId;
use crate::time::Millis;
use accord_types::{DeviceId, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One device of a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeasedDevice {
    /// The device.
    pub device: DeviceId,
    /// Share of it.
    pub amount: Amount,
    /// Whether no other job has any of it.
    pub exclusive: bool,
}

/// Equal devices of one node that a job has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DevicesOnNode {
    /// The node's name.
    pub node: String,
    /// Their model as a request names it: `nvidia/h200`, `cpu/epyc-9654`.
    pub model: String,
    /// Their ordinals there.
    pub ordinals: Vec<u32>,
    /// Thousandths of each device's time; 0 for memory alone.
    pub milli: u32,
    /// Bytes of each device's memory; 0 for whole devices.
    pub memory: u64,
    /// Whether no other job has any of them.
    pub exclusive: bool,
}

/// The reason for refusing a request at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The policy has no such account.
    NoAccount(String),
    /// The account has accounts below it: jobs are of these.
    HasAccounts(String),
    /// The request contradicts itself.
    Malformed(&'static str),
    /// The account may not use this priority.
    Priority {
        /// The account.
        account: String,
        /// The lowest and highest that it may use.
        allowed: (i32, i32),
    },
    /// The time limit is longer than the account's longest.
    TooLong {
        /// The account.
        account: String,
        /// Its longest limit in milliseconds.
        longest_ms: u64,
    },
    /// More devices than the account may ever have.
    MoreThanMost {
        /// The account.
        account: String,
        /// How many it may have.
        devices: u32,
    },
    /// The month's device-hours are spent.
    Spent {
        /// The account.
        account: String,
    },
    /// The request names a reservation that there is not, or that is for others.
    Reservation {
        /// The reservation.
        name: String,
        /// Whether there is one.
        is_known: bool,
    },
    /// So many jobs wait already.
    Waiting {
        /// The account, or none for all users together.
        account: Option<String>,
        /// The limit.
        max: usize,
    },
}

/// The reason for a job's end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EndCause {
    /// Its command ended.
    Done,
    /// It was withdrawn or ended.
    Cancelled {
        /// By whom.
        by: String,
    },
    /// Its time limit.
    Limit,
    /// Its quantum ended, and a job within its guarantee waits for its devices.
    Quantum,
    /// It waited as long as it said.
    WaitOver,
    /// Its requester was gone for longer than the policy keeps a place.
    Abandoned,
    /// A drain's deadline.
    Drained,
    /// Its account is not in the new policy.
    NoAccount,
    /// All its devices are lost.
    Lost,
    /// Its devices were idle for as long as the policy allows.
    Idle,
    /// A reservation that is not for it has begun, and ends the jobs of others.
    Reserved {
        /// The reservation.
        name: String,
    },
}

/// The reason why a reserved start is later than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlipCause {
    /// Devices were lost, drained, quarantined or set aside.
    Devices,
    /// Jobs ahead of it changed: priority, guarantee or share of another account.
    Order,
    /// A lease was made longer, or its devices take long to be released.
    Leases,
    /// The policy changed.
    Policy,
}

/// An action for the driver; several are in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// The request of [`crate::Input::Ask`] has this number and waits.
    Queued {
        /// The job.
        job: JobId,
    },
    /// The request of [`crate::Input::Ask`] is refused.
    Refused(Refusal),
    /// A job has its devices. Their order is that of its parts, and by device within a part.
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
        /// When.
        ends: Millis,
        /// Why.
        cause: EndCause,
    },
    /// Devices of a running job are lost. Their numbers stay, and they are charged no longer.
    DevicesLost {
        /// The job.
        job: JobId,
        /// The devices.
        devices: Vec<DeviceId>,
    },
    /// A job is over.
    Ended {
        /// The job.
        job: JobId,
        /// Why.
        cause: EndCause,
    },
    /// The agent of a node ends what a job has there and confirms by [`crate::Input::Released`].
    Release {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeId,
    },
    /// What watchers of a job see has changed; `Scheduler::explain` has it.
    Changed {
        /// The job.
        job: JobId,
    },
    /// A waiting job has a reserved start, or another one.
    Reserved {
        /// The job.
        job: JobId,
        /// The reserved start.
        starts: Millis,
        /// Why it is later than before; none if it is not.
        slipped: Option<SlipCause>,
    },
    /// A device's quarantine has begun, has another reason, or has ended.
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

/// The lowest and the highest priority that an account may use, in words.
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
                write!(f, "jobs of account {account:?} may last {} s; name a shorter limit", longest_ms / 1_000)
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
    /// One word for each cause, for metrics.
    pub const WORDS: [&'static str; 11] = [
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
    ];

    /// Returns the position of the cause's word.
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
            Self::NoAccount => f.write_str("the policy has its account no longer"),
            Self::Lost => f.write_str("all its devices are lost"),
            Self::Idle => f.write_str("it did nothing with its devices for as long as the policy allows"),
            Self::Reserved { name } => write!(f, "its devices are reserved by {name:?}"),
        }
    }
}

//! Requests for sessions, and the leases granted for them.

use crate::{DeviceInfo, DeviceKind, JobToken, NodeId, SessionId, SessionKey};

/// The order in which a session numbers its devices. Whatever the policy, numbers are dense, and fixed for the life of
/// the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OrderPolicy {
    /// The program's node first, then the others in order, beginning with the one after it. So `local_rank % n` means a
    /// device of the own node on every node.
    #[default]
    Local,
    /// The same order for every program: by node, then by ordinal.
    Global,
    /// This rank's slice of the global order first, then the following ones.
    Rank,
}

impl OrderPolicy {
    /// Returns the word used in settings and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
            Self::Rank => "rank",
        }
    }

    /// Returns the policy called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Local, Self::Global, Self::Rank].into_iter().find(|policy| policy.name() == name)
    }
}

/// A program's place in an MPI job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rank {
    /// Rank in the world, from 0.
    pub rank: u32,
    /// Ranks of the job.
    pub size: u32,
    /// Rank on this node, from 0.
    pub local_rank: u32,
    /// Ranks of the job on this node; 0 if neither is known.
    pub local_size: u32,
    /// A hash of the launcher's name for the job, the same in all of its ranks; 0 if unknown.
    pub job: u64,
}

/// A program's request for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// The machine that the program runs on.
    pub node_name: String,
    /// The program's process number.
    pub pid: u32,
    /// The program's name, for display.
    pub program: String,
    /// The program's rank, if it is part of an MPI job.
    pub rank: Option<Rank>,
    /// Kind of the requested devices; all kinds if `None`.
    pub kind: Option<DeviceKind>,
    /// The order of device numbers.
    pub order: OrderPolicy,
    /// The requested devices, as the text of a request; all devices if `None`.
    pub devices: Option<String>,
    /// The job that the program belongs to: a running job, or a queued one that the program requested.
    pub job: Option<JobToken>,
}

/// A session's right to devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The key by which the program, agents and executors authenticate each other.
    pub key: SessionKey,
    /// The program's own node, if it has an agent.
    pub own_node: Option<NodeId>,
    /// The devices in the order of their device numbers.
    pub devices: Vec<LeasedDevice>,
    /// Bytes that the session may hold on each device; 0 means no limit.
    pub memory_quota: u64,
    /// Streams that the session may use on each device.
    pub stream_quota: u32,
    /// Whether lanes may leave a machine unencrypted.
    pub plain_tcp: bool,
    /// Whether the devices are those of a job, which the program requested or a policy assigned.
    pub is_of_job: bool,
}

/// One device of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedDevice {
    /// Description of the device.
    pub info: DeviceInfo,
    /// `host:port` of its node's agent.
    pub address: String,
    /// Whether the session's job shares the device with other jobs, so that regions run in turns.
    pub is_shared: bool,
}

/// A session as an agent knows it: its owner, limits, duration and key. A coordinator can restore its state from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionGrant {
    /// The session. Its upper bits are its coordinator's epoch.
    pub session: SessionId,
    /// The key by which the session's processes authenticate each other.
    pub key: SessionKey,
    /// The owner, as the coordinator attests it: a user's name, or the number of a user without a name.
    pub user: String,
    /// Time until the session's end, from the moment of this grant; `None` means no end.
    pub ends_in_ms: Option<u64>,
    /// Its program's name.
    pub program: String,
    /// The machine that the program runs on.
    pub node_name: String,
    /// The program's process there.
    pub pid: u32,
    /// The program's rank.
    pub rank: Option<Rank>,
    /// The agent's devices that the lease names.
    pub ordinals: Vec<u32>,
    /// Bytes that the session may hold on each device; 0 means no limit.
    pub memory_quota: u64,
    /// Streams that the session may use on each device.
    pub stream_quota: u32,
    /// Whether lanes may leave a machine unencrypted.
    pub plain_tcp: bool,
    /// Time at which the session was opened, in milliseconds since 1970 by the coordinator's clock.
    pub opened_unix_ms: u64,
    /// The key of its job; `None` if the program requested nothing.
    pub job: Option<SessionKey>,
}

//! What a program asks of the cluster, and what it gets.

use crate::{DeviceInfo, DeviceKind, JobToken, NodeId, SessionId, SessionKey};

/// The order in which a session numbers its devices. Whatever the policy, numbers are dense, and fixed for the life of
/// the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OrderPolicy {
    /// The program's node first, then the others, beginning with the one after it: on every
    /// node `local_rank % n` goes on meaning a device of that node.
    #[default]
    Local,
    /// The same order for every program: by node, then by ordinal.
    Global,
    /// This rank's slice of the global order first, then the following ones.
    Rank,
}

impl OrderPolicy {
    /// The word used in settings and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
            Self::Rank => "rank",
        }
    }

    /// The policy called `name`, if there is one.
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
    /// A hash of what the launcher calls the job, the same in all of its ranks; 0 if it is not told.
    pub job: u64,
}

/// A program's request for a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// The machine that it runs on.
    pub node_name: String,
    /// Its process.
    pub pid: u32,
    /// Its name, for people.
    pub program: String,
    /// Its rank, if it is part of an MPI job.
    pub rank: Option<Rank>,
    /// Kind of the requested devices; all when absent.
    pub kind: Option<DeviceKind>,
    /// The order of device numbers.
    pub order: OrderPolicy,
    /// The devices that it asks for, as the text of a request; none: all that there are.
    pub devices: Option<String>,
    /// The job that it is of: a running one, or one that waits and that it has asked for.
    pub job: Option<JobToken>,
}

/// A session's right to devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The key that the program, agents and executors prove to each other.
    pub key: SessionKey,
    /// The program's own node, if it has an agent.
    pub own_node: Option<NodeId>,
    /// The devices in the order of their device numbers.
    pub devices: Vec<LeasedDevice>,
    /// Bytes that the session may hold on each device; 0 means no limit.
    pub memory_quota: u64,
    /// Streams that the session may use on each device.
    pub stream_quota: u32,
    /// Its lanes may leave a machine in clear.
    pub plain_tcp: bool,
    /// Its devices are those of a job: the program has asked for them, or a policy has for it.
    pub is_of_job: bool,
}

/// One device of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeasedDevice {
    /// Description of the device.
    pub info: DeviceInfo,
    /// `host:port` of its node's agent.
    pub address: String,
}

/// One session as an agent knows it: who it is for, what it may use there, for how long, and the key that its peers
/// prove. It is enough to rebuild a coordinator's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionGrant {
    /// The session. Its upper bits are its coordinator's epoch.
    pub session: SessionId,
    /// The key that its processes prove to each other.
    pub key: SessionKey,
    /// The owner, as the coordinator attests it: a user's name, or number where it has none.
    pub user: String,
    /// Time until its end, from the moment of this grant; `None`: without end.
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
    /// Its lanes may leave a machine in clear.
    pub plain_tcp: bool,
    /// Time of its opening, in milliseconds since 1970 by the coordinator's clock.
    pub opened_unix_ms: u64,
    /// The key of its job; none: its program has asked for nothing.
    pub job: Option<SessionKey>,
}

//! What can happen to the cluster.

use super::measured_path::MeasuredPath;
use super::new_reservation::NewReservation;
use accord_scheduler::policy::SitePolicy;
use accord_types::node_labels::NodeLabels;
use accord_types::{
    DeviceId, DeviceInfo, DeviceUse, DeviceVerdict, Hardware, JobGrant, NodeFigures, NodeId, SessionGrant, SessionId,
    SessionKey, SessionRequest,
};

/// One connection of an agent, numbered by the driver and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// One connection of a program, numbered by the driver and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// The limits of a session that the kernel enforces on a node, whatever the session's regions do to their executor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLimits {
    /// Host memory of its processes.
    pub memory: bool,
    /// Number of its processes and threads.
    pub processes: bool,
    /// The reason for a missing limit.
    pub why_not: String,
}

/// The registration of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Its node's name: what makes it the same node after a restart.
    pub node_name: String,
    /// Differs from start to start of an agent on that node, see [`accord_types::incarnation`].
    pub incarnation: u64,
    /// `host:port` for programs and executors.
    pub address: String,
    /// Its devices by ordinal, each with one of its own; their node numbers and names are set here.
    pub devices: Vec<DeviceInfo>,
    /// Its machine.
    pub hardware: Hardware,
    /// Its node's labels.
    pub labels: NodeLabels,
    /// The limits of sessions that its kernel enforces.
    pub kernel_limits: KernelLimits,
    /// The number that an earlier coordinator gave it.
    pub previous: Option<NodeId>,
    /// The highest epoch of a coordinator that has taken the agent; 0: of none.
    pub coordinator_epoch: u64,
    /// Sessions that have an executor there.
    pub sessions: Vec<SessionGrant>,
    /// Sessions that it was told of, with an executor there or without.
    pub granted: Vec<SessionId>,
    /// Jobs that hold devices there.
    pub jobs: Vec<JobGrant>,
    /// The MPI world that it is a rank of; empty: none.
    pub world: String,
    /// An earlier coordinator has taken it out of new sessions. One that knows the node knows better.
    pub draining: bool,
}

impl Registration {
    /// The registration of an agent that no coordinator has taken, and that keeps no session and no job.
    pub fn new(
        node_name: impl Into<String>,
        address: impl Into<String>,
        incarnation: u64,
        devices: Vec<DeviceInfo>,
    ) -> Self {
        Self {
            node_name: node_name.into(),
            incarnation,
            address: address.into(),
            devices,
            hardware: Hardware::default(),
            labels: NodeLabels::default(),
            kernel_limits: KernelLimits::default(),
            previous: None,
            coordinator_epoch: 0,
            sessions: Vec::new(),
            granted: Vec::new(),
            jobs: Vec::new(),
            world: String::new(),
            draining: false,
        }
    }
}

/// An agent that is about to join an MPI world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joiner {
    /// Its node's name.
    pub node_name: String,
    /// The world.
    pub world: String,
    /// Number of its run: worlds are run again with the same name. 0 if its launcher does not tell.
    pub run: u64,
}

/// An event for the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// An agent joins an MPI world, on a connection of its own. It says goodbye there when all ranks have registered.
    Join { link: LinkId, joiner: Joiner },
    /// An agent registers, for the first time or again.
    Register { link: LinkId, registration: Registration },
    /// An agent lives, and these sessions have an executor there.
    Heartbeat { link: LinkId, sessions: Vec<SessionId> },
    /// An agent started an executor.
    ExecutorStarted { link: LinkId, grant: SessionGrant },
    /// An executor ended; why, if that was not to be expected.
    ExecutorEnded { link: LinkId, session: SessionId, why: String },
    /// Of a job that an agent was told to release no executor is left on its node.
    JobReleased { link: LinkId, job: SessionKey },
    /// An agent stops.
    Goodbye { link: LinkId },
    /// An agent's connection is gone. It may come back before it counts as lost.
    LinkLost { link: LinkId },
    /// A program of `user`, who is attested, asks for a session; `key` was made for it.
    Open { client: ClientId, request: SessionRequest, key: SessionKey, user: String },
    /// A program of `user`, who is attested, comes back to the session whose key it names.
    Attach { client: ClientId, session: SessionId, request: SessionRequest, key: SessionKey, user: String },
    /// A program asks whether it may use a device.
    MayUse { client: ClientId, device: DeviceId },
    /// A program that has come back says which devices it uses.
    InUse { client: ClientId, devices: Vec<DeviceId> },
    /// A program reports what it did so far on devices that it drives itself.
    ProgramUsed { client: ClientId, uses: Vec<(DeviceId, DeviceUse)> },
    /// An agent reports what sessions did so far on its devices, by their ordinals.
    AgentUsed { link: LinkId, uses: Vec<(SessionId, u32, DeviceUse)> },
    /// Executors of these sessions have ended, after the last report on their use of devices.
    UseEnded { link: LinkId, sessions: Vec<SessionId> },
    /// An agent has tested the device with this ordinal, for the order with this number.
    DeviceTested { link: LinkId, ordinal: u32, number: u64, verdict: DeviceVerdict },
    /// A command of `user`, who is attested, asks for a job that lasts as long as its connection, or comes back to its job; `key` was made for it.
    Hold { client: ClientId, request: SessionRequest, key: SessionKey, user: String },
    /// A program's connection is gone, and with it the session.
    ClientGone { client: ClientId },
    /// The same, and the program may live: its machine does not answer. A request that waits keeps its place for a while, and a job its devices.
    ClientLost { client: ClientId },
    /// An administrator takes a node out of, or back into, new sessions.
    Drain { node_name: String, drain: bool },
    /// An administrator ends a session.
    Close { session: SessionId },
    /// An agent has measured within its node.
    NodeMeasured { link: LinkId, figures: NodeFigures },
    /// An agent has measured a path, or could not, and why.
    PathMeasured { link: LinkId, measurement: u64, path: Result<MeasuredPath, String> },
    /// A client wants to see figures: missing ones are measured now.
    MeasureSoon,
    /// A user or an administrator changes a job, or pauses all starts. It was looked before whether they may.
    Schedule(accord_scheduler::Input),
    /// A policy takes effect. It was checked before.
    ApplyPolicy { policy: Box<SitePolicy>, by: String },
    /// The coordinator is started with a policy, which was checked before. It takes effect unless it is the one of the start before.
    StartPolicy { policy: Box<SitePolicy>, by: String },
    /// The Unix groups of a user.
    Groups { user: String, groups: Vec<String> },
    /// An administrator makes a reservation. It was checked before.
    Reserve(Box<NewReservation>),
    /// An administrator removes a reservation.
    Unreserve { name: String, by: String },
    /// Time has passed.
    Tick,
}

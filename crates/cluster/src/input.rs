//! Inputs of the core.

use super::measured_path::MeasuredPath;
use super::new_reservation::NewReservation;
use accord_scheduler::policy::SitePolicy;
use accord_types::{
    DeviceId, DeviceInfo, DeviceLoad, DeviceUse, DeviceVerdict, JobGrant, Machine, NodeFigures, NodeId, SessionGrant,
    SessionId, SessionKey, SessionRequest, SiteScript,
};

/// A connection of an agent. The driver never reuses a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

/// A connection of a program. The driver never reuses a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// The registration of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The node's name, which identifies the node after a restart.
    pub node_name: String,
    /// Identifies the start of the agent on its node, see [`accord_types::incarnation`].
    pub incarnation: u64,
    /// `host:port` for programs and executors.
    pub address: String,
    /// The devices, each with an ordinal of its own; node numbers and names are set here.
    pub devices: Vec<DeviceInfo>,
    /// The machine.
    pub machine: Machine,
    /// The node's number from an earlier coordinator.
    pub previous: Option<NodeId>,
    /// The highest epoch of a coordinator that has registered the agent; 0 if there was none.
    pub coordinator_epoch: u64,
    /// Sessions with an executor on the node.
    pub sessions: Vec<SessionGrant>,
    /// Sessions that the agent knows, with or without an executor.
    pub granted: Vec<SessionId>,
    /// Jobs that hold devices of the node.
    pub jobs: Vec<JobGrant>,
    /// The MPI world of which the agent is a rank, or empty.
    pub world: String,
    /// Whether an earlier coordinator has drained the node. It counts only for a node that this coordinator does not
    /// know.
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
            machine: Machine::default(),
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
    /// The node's name.
    pub node_name: String,
    /// The world's name.
    pub world: String,
    /// Number of the world's run, because names are reused; 0 if the launcher gives none.
    pub run: u64,
}

/// An event for the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// An agent waits for its MPI world, on a separate connection. It sends goodbye there once all ranks have
    /// registered.
    Join { link: LinkId, joiner: Joiner },
    /// An agent registers, for the first time or again.
    Register { link: LinkId, registration: Registration },
    /// An agent is alive, and has executors of these sessions.
    Heartbeat { link: LinkId, sessions: Vec<SessionId> },
    /// An agent has started an executor.
    ExecutorStarted { link: LinkId, grant: SessionGrant },
    /// An executor has ended; `why` is empty for an ordinary end.
    ExecutorEnded { link: LinkId, session: SessionId, why: String },
    /// No executor of a job is left on its node, after the agent received the order to release the job.
    JobReleased { link: LinkId, job: SessionKey },
    /// An agent has carried out [`AgentOrder::Suspend`](super::AgentOrder::Suspend) with this value, or reports why it could not.
    JobSuspended { link: LinkId, job: SessionKey, suspend: bool, outcome: Result<(), String> },
    /// A script of the site has failed for a job whose release this agent is about to confirm.
    ScriptFailed { link: LinkId, job: SessionKey, script: SiteScript, why: String },
    /// An agent stops soon, and lets what uses its node end first.
    Leaving { link: LinkId },
    /// An agent stops.
    Goodbye { link: LinkId },
    /// An agent's connection has ended. The agent may reconnect before it counts as lost.
    LinkLost { link: LinkId },
    /// A program of the attested `user` requests a session; `key` is new.
    Open { client: ClientId, request: SessionRequest, key: SessionKey, user: String },
    /// A program of the attested `user` reconnects to the session with this key.
    Attach { client: ClientId, session: SessionId, request: SessionRequest, key: SessionKey, user: String },
    /// A program asks whether it may use a device.
    MayUse { client: ClientId, device: DeviceId },
    /// A reconnected program lists the devices that it uses.
    InUse { client: ClientId, devices: Vec<DeviceId> },
    /// A program reports its use of devices that it drives itself.
    ProgramUsed { client: ClientId, uses: Vec<(DeviceId, DeviceUse)> },
    /// An agent reports the use of its devices by sessions, by ordinal.
    AgentUsed { link: LinkId, uses: Vec<(SessionId, u32, DeviceUse)> },
    /// An agent reports the load of its devices by all programs of their machine, by ordinal.
    AgentLoads { link: LinkId, loads: Vec<(u32, DeviceLoad)> },
    /// The executors of these sessions have sent their last reports and ended.
    UseEnded { link: LinkId, sessions: Vec<SessionId> },
    /// An agent has tested the device with this ordinal, for the order with this number.
    DeviceTested { link: LinkId, ordinal: u32, number: u64, verdict: DeviceVerdict },
    /// A command of the attested `user` requests a job for as long as it stays connected, or reconnects to its job;
    /// `key` is new.
    Hold { client: ClientId, request: SessionRequest, key: SessionKey, user: String },
    /// A program's connection has ended, and so has its session.
    ClientGone { client: ClientId },
    /// A program's machine does not answer, but the program may be alive. Its waiting request keeps its place, and its
    /// job its devices, for a while.
    ClientLost { client: ClientId },
    /// An administrator begins or ends the drain of a node.
    Drain { node_name: String, drain: bool },
    /// An administrator ends a session.
    Close { session: SessionId },
    /// An agent has measured its node.
    NodeMeasured { link: LinkId, figures: NodeFigures },
    /// An agent has measured a path, or reports why it could not.
    PathMeasured { link: LinkId, measurement: u64, path: Result<MeasuredPath, String> },
    /// A client requests figures, so missing ones are measured now.
    MeasureSoon,
    /// A user or an administrator changes a job, or pauses all starts. Permission was checked before.
    Schedule(accord_scheduler::Input),
    /// A policy takes effect, after it was checked.
    ApplyPolicy { policy: Box<SitePolicy>, by: String },
    /// The coordinator starts with a checked policy. It takes effect unless the previous start had the same one.
    StartPolicy { policy: Box<SitePolicy>, by: String },
    /// The Unix groups of a user.
    Groups { user: String, groups: Vec<String> },
    /// An administrator creates a reservation, after it was checked.
    Reserve(Box<NewReservation>),
    /// An administrator deletes a reservation.
    Unreserve { name: String, by: String },
    /// Time has passed.
    Tick,
}

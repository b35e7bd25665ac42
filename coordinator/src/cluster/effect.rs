//! What the core wants done.

use super::input::{ClientId, LinkId};
use super::session_end::SessionEnd;
use accord_types::{DeviceId, Error, HeldJob, JobGrant, NodeId, QueuedJob, SessionGrant, SessionId, SessionKey};
use std::fmt;

/// An action for the driver; several are in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send to an agent.
    ToAgent(LinkId, AgentOrder),
    /// Refuse an agent and close its connection.
    RefuseAgent(LinkId, Refusal),
    /// Close a connection that a newer one of the same agent has replaced.
    DropLink(LinkId),
    /// Send to a program.
    ToClient(ClientId, ClientPush),
    /// Close a program's connection.
    CloseClient(ClientId),
    /// Have a path measured: both agents are told of one key, that of the answering one first.
    MeasurePath(PathOrder),
    /// Nodes, devices or sessions have changed.
    Changed,
}

/// One order to measure a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathOrder {
    /// Its number.
    pub measurement: u64,
    /// The measuring agent.
    pub from: LinkId,
    /// The answering agent.
    pub to: LinkId,
    /// Node of the answering agent.
    pub to_node: NodeId,
    /// Address of the answering agent, as `host:port`.
    pub address: String,
}

/// A message to an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentOrder {
    /// It is in, under this number.
    Registered(NodeId),
    /// A session may use devices of the agent.
    SessionOpened(SessionGrant),
    /// End the session's executor, which tells its program why, if that has not ended the session.
    SessionClosed(SessionId, Option<SessionEnd>),
    /// As [`Self::SessionClosed`], if the agent knows the session by this key: only a program has named the session to this coordinator.
    ClaimClosed(SessionId, SessionKey, Option<SessionEnd>),
    /// A job holds devices of the agent.
    JobStarted(JobGrant),
    /// A job holds none of them any more: end its executors, and say when they have ended.
    ReleaseJob(SessionKey),
    /// Another node is lost.
    NodeLost(NodeId, String),
    /// To one that joins an MPI world: the agent of this node won't come.
    RankLost(String),
    /// New sessions leave the node out, or no longer do.
    Drain(bool),
    /// Test the device with this ordinal, and answer with this number and the verdict.
    TestDevice(u32, u64),
    /// Measure within the node now.
    MeasureNode,
    /// Measure the path to another agent.
    MeasurePath { measurement: u64, to: NodeId, address: String, key: SessionKey },
    /// Another agent is about to measure the path to here.
    ExpectMeasurement { measurement: u64, key: SessionKey },
}

/// A message to a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientPush {
    /// The session is open; [`super::Cluster::lease`] has what to send.
    Granted(SessionId),
    /// The program's request waits.
    Queued(QueuedJob),
    /// The command has a job.
    Held(HeldJob),
    /// The program has its session again.
    Attached,
    /// There is no session.
    Refused(Error),
    /// The devices of a node are lost.
    NodeLost(NodeId, String),
    /// A node's agent was stopped: its devices are lost.
    NodeLeft(NodeId, String),
    /// The program may use the device, or an error.
    UseAnswered(DeviceId, Option<Error>),
    /// The session's executor on a node has ended, and why.
    ExecutorEnded(NodeId, String),
    /// For the program's standard error, once.
    Warning(String),
    /// The session was ended from outside its program.
    Ended(String),
}

/// The reason why an agent may not take part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// An agent that started later has the node's name.
    Stale { node_name: String },
    /// An agent of another machine, or of before the machine's reboot, has the node's name and was just heard.
    Taken { node_name: String },
    /// A coordinator with a higher epoch has taken the agent.
    Superseded { node_name: String },
    /// A bound is reached.
    Full { what: &'static str, max: usize },
    /// The registration makes no sense.
    Malformed(&'static str),
    /// There is no such connection any more.
    NotRegistered,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { node_name } => {
                write!(f, "another agent that started later is node {node_name}; give every agent its own --node")
            }
            Self::Taken { node_name } => {
                write!(f, "an agent of another machine is node {node_name}; give every agent its own --node")
            }
            Self::Superseded { node_name } => write!(
                f,
                "the agent of node {node_name} is of a coordinator that was started later, or with a newer state file; stop this coordinator"
            ),
            Self::Full { what, max } => write!(f, "the cluster has its {max} {what} already"),
            Self::Malformed(what) => write!(f, "malformed registration: {what}"),
            Self::NotRegistered => write!(f, "not registered; register first"),
        }
    }
}

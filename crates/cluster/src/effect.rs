//! Effects of the core, which the driver carries out.

use super::input::{ClientId, LinkId};
use super::session_end::SessionEnd;
use accord_types::{DeviceId, Error, HeldJob, JobGrant, NodeId, QueuedJob, SessionGrant, SessionId, SessionKey};
use std::fmt;

/// An action of the driver. Effects are carried out in order.
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
    /// Measures a path. Both agents get the same key, the answering one first.
    MeasurePath(PathOrder),
    /// Nodes, devices or sessions have changed.
    Changed,
}

/// An order to measure a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathOrder {
    /// Number of the measurement.
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
    /// The agent is registered, with this node number.
    Registered(NodeId),
    /// A session may use devices of the agent.
    SessionOpened(SessionGrant),
    /// End the session's executor. It informs its program of the reason, unless the program itself ended the session.
    SessionClosed(SessionId, Option<SessionEnd>),
    /// As [`Self::SessionClosed`], if the agent knows the session by this key: only a program has named the session to this coordinator.
    ClaimClosed(SessionId, SessionKey, Option<SessionEnd>),
    /// A job holds devices of the agent.
    JobStarted(JobGrant),
    /// The job holds no device of the agent any more: end its executors, and confirm their end.
    ReleaseJob(SessionKey),
    /// Suspend the job on this node, or resume it if `false`, and answer.
    Suspend(SessionKey, bool),
    /// Another node is lost.
    NodeLost(NodeId, String),
    /// The agent of this node, which waited for the same MPI world, has ended.
    RankLost(String),
    /// Whether new sessions avoid the node.
    Drain(bool),
    /// Test the device with this ordinal, and reply with this number and the verdict.
    TestDevice(u32, u64),
    /// Measure the node now.
    MeasureNode,
    /// Measure the path to another agent.
    MeasurePath { measurement: u64, to: NodeId, address: String, key: SessionKey },
    /// Expect another agent's measurement of the path to here.
    ExpectMeasurement { measurement: u64, key: SessionKey },
}

/// A message to a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientPush {
    /// The session is open; [`super::Cluster::lease`] returns its lease.
    Granted(SessionId),
    /// The program's request waits.
    Queued(QueuedJob),
    /// The command has a job.
    Held(HeldJob),
    /// The program is connected to its session again.
    Attached,
    /// The request is refused.
    Refused(Error),
    /// The devices of a node are lost.
    NodeLost(NodeId, String),
    /// The agent of a node was stopped, so its devices are lost.
    NodeLeft(NodeId, String),
    /// Whether the program may use the device, or the error.
    UseAnswered(DeviceId, Option<Error>),
    /// The session's executor on a node has ended, with the reason.
    ExecutorEnded(NodeId, String),
    /// A message for the program's standard error.
    Warning(String),
    /// The session was ended from outside its program.
    Ended(String),
}

/// The reason for refusing an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A later start of the agent has registered.
    Stale { node_name: String },
    /// An agent of another machine, or of the machine's previous boot, has the node's name and is alive.
    Taken { node_name: String },
    /// A coordinator with a higher epoch has registered the agent.
    Superseded { node_name: String },
    /// A bound is reached.
    Full { what: &'static str, max: usize },
    /// The registration is malformed.
    Malformed(&'static str),
    /// The connection is not registered.
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

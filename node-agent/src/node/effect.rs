//! Actions that the rules ask for, and events of the connection.

use super::drivers::{DriverId, ProcessId};
use accord_types::{
    DeviceLoad, DeviceUse, DeviceVerdict, JobGrant, NodeFigures, NodeId, PathTimes, SessionGrant, SessionId,
    SessionKey, SiteScript,
};

/// An action for the driver, to be carried out in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Connect to the coordinator, and register as the node that it called `previous`, with executors of these sessions.
    Connect {
        /// The number that an earlier registration assigned.
        previous: Option<NodeId>,
        /// Sessions that have an executor here, or whose programs drive devices here.
        sessions: Vec<SessionGrant>,
        /// All sessions that the coordinator has announced and not ended.
        granted: Vec<SessionId>,
        /// Jobs that hold devices here.
        jobs: Vec<JobGrant>,
    },
    /// Suspend the job here, or resume it if `false`, and then call [`super::Node::suspension_ended`].
    Suspend(SessionKey, bool),
    /// Send to the coordinator.
    Send(AgentReport),
    /// End the process of a program that has not stopped devices of an ended session in time.
    EndProcess(DriverId, ProcessId),
    /// Measure within the node, and tell [`super::Node::measured`].
    Measure,
    /// Test the device with this ordinal for the coordinator's order with this number, and tell [`super::Node::tested`].
    Test(u32, u64),
    /// Run the site's script for a job, and then call [`super::Node::script_ended`].
    RunScript(SiteScript, JobGrant),
    /// Say goodbye to the coordinator if it is there, and end the agent.
    Leave(AgentEnding),
}

/// A message to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentReport {
    /// The agent lives, and these sessions have an executor, or programs that drive devices here themselves.
    Heartbeat(Vec<SessionId>),
    /// The use of devices by sessions so far, by the devices' ordinals.
    Used(Vec<(SessionId, u32, DeviceUse)>),
    /// The load of devices by all programs, by the devices' ordinals.
    Loads(Vec<(u32, DeviceLoad)>),
    /// Executors of these sessions have ended, after the last report on their use of devices.
    UseEnded(Vec<SessionId>),
    /// A session has an executor now.
    Started(SessionGrant),
    /// A session has no executor any more. The reason is empty if that was expected.
    Ended(SessionId, String),
    /// The agent stops once nothing uses the node, or soon: the coordinator is to open no further session here.
    Leaving,
    /// No executor of a job is left that was to be released.
    JobReleased(SessionKey),
    /// A script of the site has failed for a job, for this reason. [`AgentReport::JobReleased`] follows.
    ScriptFailed(SessionKey, SiteScript, String),
    /// The coordinator's order to suspend a job, or to resume it, was carried out, or could not be for this reason.
    JobSuspended(SessionKey, bool, Result<(), String>),
    /// The verdict of a test of the device with this ordinal, and the number of the order.
    Tested(u32, u64, DeviceVerdict),
    /// The node's measurements within itself.
    Measured(NodeFigures),
    /// A path's times one way and its transport, or why it could not be measured.
    PathMeasured {
        /// The coordinator's number.
        measurement: u64,
        /// The outcome.
        path: Result<(PathTimes, String), String>,
    },
}

/// The reason for an agent's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEnding {
    /// The agent was asked to stop.
    Stopped,
    /// The coordinator asked for it.
    StoppedByCoordinator,
    /// A node of its MPI world is lost.
    WorldLost(String),
    /// The coordinator refuses it.
    Refused(String),
}

/// The reason for the missing connection to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disconnect {
    /// A later agent has this node's name.
    Replaced(String),
    /// Another authority, another version, or an invalid registration.
    Refused(String),
    /// Anything else.
    Unreachable(String),
}

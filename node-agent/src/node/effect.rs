//! What the rules want said to the coordinator, and what they hear of the connection.

use super::drivers::{DriverId, ProcessId};
use accord_types::{
    DeviceUse, DeviceVerdict, JobGrant, NodeFigures, NodeId, PathTimes, SessionGrant, SessionId, SessionKey,
};

/// An action for the driver; several are in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Connect to the coordinator, and register as the node that it called `previous`, with executors of these sessions.
    Connect {
        /// The number that an earlier registration got.
        previous: Option<NodeId>,
        /// Sessions that have an executor here, or whose programs drive devices here.
        sessions: Vec<SessionGrant>,
        /// All sessions that the coordinator has told of and whose end it has not.
        granted: Vec<SessionId>,
        /// Jobs that hold devices here.
        jobs: Vec<JobGrant>,
    },
    /// Send to the coordinator.
    Send(Word),
    /// End the process of a program that has not stopped devices of an ended session in time.
    EndProcess(DriverId, ProcessId),
    /// Measure within the node, and tell [`super::Node::measured`].
    Measure,
    /// Test the device with this ordinal for the coordinator's order with this number, and tell [`super::Node::tested`].
    Test(u32, u64),
    /// Say goodbye to the coordinator if it is there, and end the agent.
    Leave(Ending),
}

/// A message to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// The agent lives, and these sessions have an executor, or programs that drive devices here themselves.
    Heartbeat(Vec<SessionId>),
    /// The use of devices by sessions so far, by the devices' ordinals.
    Used(Vec<(SessionId, u32, DeviceUse)>),
    /// Executors of these sessions have ended, after the last report on their use of devices.
    UseEnded(Vec<SessionId>),
    /// A session has one now.
    Started(SessionGrant),
    /// A session has none any more. The reason is empty if that was to be expected.
    Ended(SessionId, String),
    /// The agent stops once nothing uses the node, or soon: the coordinator is to open no further session here.
    Leaving,
    /// No executor of a job is left that was to be released.
    JobReleased(SessionKey),
    /// The verdict of a test of the device with this ordinal, and the number of the order.
    Tested(u32, u64, DeviceVerdict),
    /// What the node has measured within itself.
    Measured(NodeFigures),
    /// What a path takes one way and what carried the bytes, or why it could not be measured.
    PathMeasured {
        /// The coordinator's number.
        measurement: u64,
        /// See above.
        path: Result<(PathTimes, String), String>,
    },
}

/// The reason for an agent's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It was told to.
    Stopped,
    /// The coordinator told it to.
    StoppedByCoordinator,
    /// A node of its MPI world is gone.
    WorldLost(String),
    /// The coordinator does not take it.
    Refused(String),
}

/// The reason why there is no connection to the coordinator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disconnect {
    /// Another agent that was started later has this node's name.
    Replaced(String),
    /// Another authority, another version, senseless registration.
    Refused(String),
    /// Anything else.
    Unreachable(String),
}

//! The parameters of an executor's start, and of creating its devices.

use crate::limits::Limits;
use accord_device::image::Images;
use accord_device::{Device, WorkerStart};
use accord_fabric::copy_way::CopyWays;
use accord_fabric::route::LaneTerms;
use accord_fabric::{Key, ProgramSpec};
use accord_types::{AddressRange, DeviceUse, NodeId, Result, SessionId};
use std::sync::Arc;

/// Receives a worker's output: the file descriptor (1 or 2) and the bytes.
pub type OutputSink = Arc<dyn Fn(u8, &[u8]) + Send + Sync>;

/// Receives reports on the session's use of devices, by their ordinals. Must not block.
pub type UseSink = Arc<dyn Fn(&[(u32, DeviceUse)]) + Send + Sync>;

/// Creates this node's devices for one session.
pub trait DeviceFactory: Send + Sync {
    /// Passes to `take`, in order, the text that devices have printed through this process. For devices without a process of
    /// their own, whose factory can't pass it to their `output`.
    fn printed(&self, take: &mut dyn FnMut(&[u8])) {
        let _ = take;
    }

    /// Whether these devices and other processes of the machine may access each other's memory.
    fn ipc(&self) -> bool {
        false
    }

    /// Creates the device of this ordinal, with new memory at `place`. Called when the program first uses it, and again after it was shut down. Other
    /// threads observe a worker's start through `start`.
    ///
    /// # Errors
    /// Returns an error if the device can't start.
    fn create(
        &self,
        work: &Work,
        ordinal: u32,
        place: Option<AddressRange>,
        output: OutputSink,
        start: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>>;
}

/// The program and the code that a session's devices run.
pub struct Work {
    /// The program.
    pub program: ProgramSpec,
    /// The program's code for GPUs, as far as it was sent.
    pub images: Arc<Images>,
}

/// The parameters of an executor's start.
pub struct ExecutorConfig {
    /// The node of the executor.
    pub node: NodeId,
    /// The node's name, for messages.
    pub node_name: String,
    /// The session of the executor.
    pub session: SessionId,
    /// The limits of the session's lease on this node.
    pub limits: Limits,
    /// The session's key, by which its processes authenticate each other.
    pub key: Key,
    /// The terms of lanes to other executors.
    pub transport: LaneTerms,
    /// The ways of copies to devices of other processes of the machine, with their costs.
    pub ways: CopyWays,
    /// The factory of this node's devices.
    pub devices: Box<dyn DeviceFactory>,
    /// Receives reports on the use of devices, for the agent.
    pub report: UseSink,
}

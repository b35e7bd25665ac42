//! What an executor is started with, and what a node makes its devices for.

use crate::limits::Limits;
use accord_device::image::Images;
use accord_device::{Device, WorkerStart};
use accord_fabric::copy_way::CopyWays;
use accord_fabric::route::LaneTerms;
use accord_fabric::{Key, ProgramSpec};
use accord_types::{AddressRange, DeviceUse, NodeId, Result, SessionId};
use std::sync::Arc;

/// Takes what a worker wrote: the file descriptor (1 or 2) and the bytes.
pub type OutputSink = Arc<dyn Fn(u8, &[u8]) + Send + Sync>;

/// Receives reports on the session's use of devices, by their ordinals. Does not block.
pub type UseSink = Arc<dyn Fn(&[(u32, DeviceUse)]) + Send + Sync>;

/// Makes this node's devices for one session.
pub trait DeviceFactory: Send + Sync {
    /// Gives what devices have printed by way of this process to `take`, in order. For devices without a process of
    /// their own, whose factory can't give it to their `output`.
    fn printed(&self, take: &mut dyn FnMut(&[u8])) {
        let _ = take;
    }

    /// Whether other processes of the machine may reach these devices' memory, and these devices theirs.
    fn ipc(&self) -> bool {
        false
    }

    /// Makes the device of this ordinal, with fresh memory, which is to lie at `place`. Called when the program starts to use it, and
    /// again after it was shut down. If it has a worker, others look after its `start`.
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
    /// Its code for GPUs, as far as it was sent.
    pub images: Arc<Images>,
}

/// The parameters of an executor's start.
pub struct ExecutorConfig {
    /// The node that it runs on.
    pub node: NodeId,
    /// The node's name, for messages.
    pub node_name: String,
    /// The session that it serves.
    pub session: SessionId,
    /// The limits of its lease here.
    pub limits: Limits,
    /// The session's key, which its processes prove to each other.
    pub key: Key,
    /// The terms of lanes to other executors.
    pub transport: LaneTerms,
    /// The ways of copies to devices of other processes of the machine, and their costs.
    pub ways: CopyWays,
    /// The factory of this node's devices.
    pub devices: Box<dyn DeviceFactory>,
    /// Passes reports on the use of devices to the agent.
    pub report: UseSink,
}

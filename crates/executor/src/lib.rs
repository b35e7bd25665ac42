//! One session's use of a node's devices, in a process of its own: commands come in on the
//! session's lanes, go into the devices' streams, and events go back.
//!
//! ```text
//! command lane ── commands (one thread, which only puts them in) ───> streams of the devices
//!      ^                                                              │ copies read and write lanes
//!      └── events (written by whichever thread has the news) <────────┘ on the devices' own threads
//! ```
#![forbid(unsafe_code)]

pub mod arrivals;

mod copies;
pub mod copy;
mod driver;
mod events;
pub mod executor;
pub mod hosted;
mod images;
mod limits;
mod peers;
pub mod push;
pub mod queue_table;
mod same_host;
mod session;
mod waits;
pub mod window;

use accord_device::Device;
use accord_device::image::Images;
use accord_fabric::transport::Handover;
use accord_fabric::{Key, ProgramSpec};
use accord_types::{NodeId, Result, SessionId};
pub use limits::Limits;
use session::Session;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long an executor waits for its program's command lane.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes what a worker wrote: the file descriptor (1 or 2) and the bytes.
pub type OutputSink = Arc<dyn Fn(u8, &[u8]) + Send + Sync>;

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

    /// Makes the device of this ordinal, with fresh memory. Called when the program starts to use it, and
    /// again after it was shut down.
    ///
    /// # Errors
    /// When the device can't start.
    fn create(&self, work: &Work, ordinal: u32, output: OutputSink) -> Result<Arc<dyn Device>>;
}

/// What a session's devices work for.
pub struct Work {
    /// The program.
    pub program: ProgramSpec,
    /// Its code for GPUs, as far as it was sent.
    pub images: Arc<Images>,
}

/// What an executor is started with.
pub struct ExecutorConfig {
    /// The node that it runs on.
    pub node: NodeId,
    /// The node's name, for messages.
    pub node_name: String,
    /// The session that it serves.
    pub session: SessionId,
    /// What its lease lets it have here.
    pub limits: Limits,
    /// The session's key, which its processes prove to each other.
    pub key: Key,
    /// This node's devices.
    pub devices: Box<dyn DeviceFactory>,
}

/// Serves one session until its program's command lane or the agent (`control`) goes, or no
/// command lane comes for 10 s. The session's connections come in over `control`, see [`Handover`].
pub fn run(control: Handover, config: ExecutorConfig) -> ExitCode {
    let Ok(waker) = control.try_clone() else { return ExitCode::FAILURE };
    if control.limit(Some(PROGRAM_TIMEOUT)).is_err() {
        return ExitCode::FAILURE;
    }
    let session = Session::new(config, waker);
    while let Ok(Some((lane, hello))) = control.receive() {
        if session.take(lane, hello) && control.limit(None).is_err() {
            break;
        }
    }
    session.end();
    session.join();
    ExitCode::SUCCESS
}

//! One session's use of this node's devices, in a process of its own: commands come in on the
//! session's lanes, go into the devices' streams, and events go back.
//!
//! ```text
//! command lane ── commands (one thread, which only puts them in) ───> streams of the devices
//!      ^                                                              │ copies read and write lanes
//!      └── events (written by whichever thread has the news) <────────┘ on the devices' own threads
//! ```

mod arrivals;
mod commands;
mod copies;
mod events;
mod images;
mod neighbors;
mod peers;
mod session;
mod slot;
mod waits;

use accord_device::Device;
use accord_device::image::Images;
use accord_fabric::{Key, ProgramSpec, pass};
use accord_types::{NodeId, Result, SessionId};
use session::Session;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long an executor waits for its program's command lane.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes what a worker wrote: the file descriptor (1 or 2) and the bytes.
pub type OutputSink = Arc<dyn Fn(u8, &[u8]) + Send + Sync>;

/// Makes this node's devices for one session.
pub trait DeviceFactory: Send + Sync {
    /// All ordinals of this node's devices are below it; some may be missing.
    fn count(&self) -> u32;

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
    /// Streams that it may use on each device for the program's queues, which share them beyond that; 0: no quota.
    pub stream_quota: u32,
    /// The cluster's key, to connect to other executors through their agents.
    pub key: Key,
    /// This node's devices.
    pub devices: Box<dyn DeviceFactory>,
}

/// Serves one session until its program's command lane or the agent (`control`) goes, or no
/// command lane comes for 10 s. The session's connections come in over `control`, see [`pass`].
pub fn run(control: UnixStream, config: ExecutorConfig) -> ExitCode {
    let Ok(waker) = control.try_clone() else { return ExitCode::FAILURE };
    if control.set_read_timeout(Some(PROGRAM_TIMEOUT)).is_err() {
        return ExitCode::FAILURE;
    }
    let session = Session::new(config, waker);
    while let Ok(Some((stream, hello))) = pass::receive(&control) {
        if session.take(stream, hello) && control.set_read_timeout(None).is_err() {
            break;
        }
    }
    session.end();
    session.join();
    ExitCode::SUCCESS
}

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

mod config;
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
mod threads;
mod waits;
pub mod window;

use accord_fabric::transport::Handover;
pub use config::{DeviceFactory, ExecutorConfig, OutputSink, Work};
pub use limits::Limits;
use session::Session;
use std::process::ExitCode;
use std::time::Duration;

/// How long an executor waits for its program's command lane.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one session until its program's command lane or the agent (`control`) goes, or no
/// command lane comes for 10 s. The session's connections come in over `control`, see [`Handover`].
pub fn run(control: Handover, config: ExecutorConfig) -> ExitCode {
    let Ok(waker) = control.try_clone() else { return ExitCode::FAILURE };
    if control.limit(Some(PROGRAM_TIMEOUT)).is_err() {
        return ExitCode::FAILURE;
    }
    let session = Session::new(config, waker);
    while let Ok(Some((lane, client))) = control.receive() {
        let commands = session.clone();
        if session.take(lane, client, move || driver::serve(&commands)) && control.limit(None).is_err() {
            break;
        }
    }
    session.end();
    session.join();
    ExitCode::SUCCESS
}

//! One session's use of a node's devices, in a process of its own or in its agent's. Commands arrive on the session's
//! lanes and are enqueued in the devices' streams; events go back.
//!
//! ```text
//! command lane ── commands (one thread, which only enqueues them) ──> streams of the devices
//!      ^                                                              │ copies read and write lanes
//!      └── events (written by the thread that has one) <──────────────┘ on the devices' own threads
//! ```
#![forbid(unsafe_code)]

pub mod admission;
pub mod incoming_transfers;
pub mod request_window;

mod config;
mod copies;
pub mod copy;
pub mod device_use;
mod driver;
mod events;
pub mod executor;
mod fenced_copies;
pub mod hosted;
mod images;
mod lane_source;
mod limits;
pub mod peer_table;
mod peers;
pub mod push;
pub mod queue_table;
mod requested_bytes;
pub mod same_host;
mod session;
mod suspend_memory;
mod suspend_orders;
mod turn_lane;
mod use_reports;
mod waits;
pub mod window;

use accord_fabric::transport::{Handover, HandoverMessage};
pub use config::{DeviceFactory, ExecutorConfig, OutputSink, UseSink, Work};
pub use lane_source::LaneChannel;
use lane_source::{LaneSource, Received};
pub use limits::Limits;
use session::Session;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
pub use turn_lane::{EndedTurns, TurnLane};

/// The longest wait for the program's command lane.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one session until its program's command lane or the agent (`control`) ends, or no command lane arrives within
/// 10 s. The session's connections arrive over `control`, see [`Handover`].
pub fn run(control: Handover, config: ExecutorConfig) -> ExitCode {
    serve(&LaneSource::Agent(control), config)
}

/// Runs as [`run`], in the agent's own process. The session's connections arrive by `lanes`; closing it ends the session.
pub fn run_here(lanes: &Arc<LaneChannel>, config: ExecutorConfig) -> ExitCode {
    serve(&LaneSource::Here(lanes.clone()), config)
}

fn serve(lanes: &LaneSource, config: ExecutorConfig) -> ExitCode {
    let Ok(waker) = lanes.try_clone() else { return ExitCode::FAILURE };
    let session = Session::new(config, waker);
    let mut limit = Some(PROGRAM_TIMEOUT);
    loop {
        let received = match limit {
            Some(limit) => lanes.receive(Some(limit)).map_or(Received::End, Received::Handed),
            None => lanes.receive_within(session.uses.pause()),
        };
        session.uses.sample(false);
        match received {
            Received::Handed(HandoverMessage::Lane(lane, client)) => {
                let commands = session.clone();
                if session.take(lane, client, move || driver::serve(&commands)) {
                    limit = None;
                }
            }
            Received::Handed(HandoverMessage::Ending(ending)) => {
                session.report_ending(&ending);
                break;
            }
            Received::Nothing => {}
            Received::End => break,
        }
    }
    session.end();
    session.join();
    session.uses.sample(true);
    ExitCode::SUCCESS
}

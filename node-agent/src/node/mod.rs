//! The rules of a node's agent: its registration, the sessions that it serves, their executors, and the admission of
//! lanes.
//!
//! Pure: events in, effects out, time as an argument, counted from the agent's start. No socket, no clock, no thread.
//! The agent and the simulation drive it in the same way:
//!
//! ```text
//! node.closed(now, session, why, &mut ends); // tell it what happens; have these executors end
//! node.begin(now, &mut lane, &mut ends);    // ask again after whatever has happened until there is an answer
//! let effects = node.poll(now, &mut ends);  // after whatever has happened, and by node.next()
//! ```

mod departing;
mod departure;
mod device_tests;
mod drivers;
mod driving;
mod effect;
mod executors;
mod grants;
mod invariants;
mod jobs;
mod lanes;
mod lifecycle;
mod loads;
mod measurements;
mod measuring;
mod membership;
mod quota;
mod reporting;
mod saved;
mod scripts;
mod state;
mod suspended_jobs;
mod suspensions;
mod testing;
mod uses;

pub use drivers::{DRIVERS_MAX, Driver, DriverId, ProcessId};
pub use driving::HEED_MAX;
pub use effect::{AgentEnding, AgentReport, Disconnect, Effect};
pub use executors::{EXECUTORS_MAX, ExecutorId};
pub use grants::GRANTS_MAX;
pub use lanes::{CommandLane, LanePath};
pub use quota::Quota;
pub use saved::SavedNode;
pub use state::Node;

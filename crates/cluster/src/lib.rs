//! The coordinator's core: nodes, sessions and jobs, and the decisions about them.
//!
//! Inputs go in, effects come out, and time is an argument: no socket, clock or thread. The service around the core and
//! the simulation drive it in the same way:
//!
//! ```text
//! cluster.handle(now, input, &mut effects);   // then carry the effects out
//! cluster.next_deadline()                     // and come back with Input::Tick by then
//! ```
#![forbid(unsafe_code)]

mod agents;
mod allocation_invariants;
mod allocations;
mod calendar;
mod class_times;
mod deferred_requests;
mod described;
mod device_loads;
mod device_uses;
mod earlier_jobs;
mod effect;
mod ended_sessions;
mod fault_table;
mod faults;
mod first_uses;
mod held;
mod held_devices;
mod held_uses;
mod idle_jobs;
mod in_effect;
mod input;
mod invariants;
mod job;
mod joiners;
mod joining;
mod keepers;
mod load_table;
mod measured_path;
mod new_reservation;
mod node;
mod node_table;
mod observed;
mod order;
mod path_table;
mod paths;
mod policies;
mod record;
mod recorder;
mod recording;
mod reservation_table;
mod reserving;
mod restore;
mod returns;
mod saved_job;
mod saved_nodes;
mod saved_uses;
mod scheduling;
mod scheduling_state;
mod session;
mod session_end;
mod session_table;
mod session_uses;
mod sessions;
mod shared_lease;
mod snapshot;
mod state;
mod steps;
mod suspensions;
mod time;
mod unclosed_claims;
mod use_table;
mod waiter_table;
mod waiters;
mod worlds;

pub use effect::{AgentOrder, ClientPush, Effect, PathOrder, Refusal};
pub use input::{ClientId, Input, Joiner, LinkId, Registration};
pub use measured_path::MeasuredPath;
pub use new_reservation::{NewReservation, ReservedTarget};
pub use node::{ContactTimes, Node, NodeState};
pub use observed::UseNow;
pub use order::{Viewer, number_devices};
pub use record::{Record, Records, Step};
pub use reserving::{ReservationView, ReserveError};
pub use restore::Restart;
pub use session::{LeaseTerms, Origin, Owner, Session};
pub use session_end::SessionEnd;
pub use shared_lease::LeaseDraft;
pub use snapshot::Snapshot;
pub use state::{Cluster, Limits};
pub use time::Millis;

//! A coordinator among agents and programs that join, leave, crash, fall silent and come back,
//! over links that are slow and break; the coordinator itself is killed and started again.
//!
//! The coordinator's core is the real one. Agents and programs are models of the real ones'
//! behaviour towards it. Checked are the core's own invariants after every step, and what is
//! visible from outside: nobody silent counts as alive for too long, no session gets a number
//! twice; and once the trouble is over, that everybody's view is the same: all living agents
//! are in, no dead one is, and no executor serves a program that has gone.

mod agent;
mod checks;
mod program;
mod programs;
mod trouble;
mod world;

use accord_types::SessionKey;

/// The key and the user of every session: nothing here depends on them.
const KEY: SessionKey = SessionKey([1; SessionKey::LEN]);
const USER: &str = "alice";

pub use trouble::Plan;
pub use world::run;

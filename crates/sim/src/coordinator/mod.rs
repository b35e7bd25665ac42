//! A coordinator among agents and programs that join, leave, crash, fall silent and come back,
//! over links that are slow and break; the coordinator itself is killed and started again.
//!
//! The coordinator's core and the agents' are the real ones (`coordinator/src/cluster`, `node-agent/src/node`). Programs are models of the real ones'
//! behaviour towards them.
//!
//! It goes in two phases. While there is trouble, anything may happen and nothing wrong comes of it: the rules' own
//! invariants hold after every step, no silent agent counts as alive for too long, no session gets a number twice, no
//! agent lets in what was not granted, begins a second executor beside the first, or ends one that was not asked to
//! end. Then troubles stop, and all that can comes right: all views are the same, all living agents are in, no dead one
//! is, no executor serves a program that has gone, and every program that asks for an executor has it.

mod agent;
mod agents;
mod checks;
mod job;
mod jobs;
mod joining;
mod program;
mod programs;
mod restarts;
mod times;
mod trouble;
mod world;

use accord_types::SessionKey;

/// The user of every session: nothing here depends on it.
const USER: &str = "alice";

/// The key of a program's session.
fn key_of(program: usize) -> SessionKey {
    let mut key = [1; SessionKey::LEN];
    key[..8].copy_from_slice(&program.to_le_bytes());
    SessionKey(key)
}

pub use trouble::Plan;
pub use world::run;

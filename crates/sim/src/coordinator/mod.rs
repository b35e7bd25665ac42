//! A coordinator, agents and programs that join, leave, crash, fall silent and reconnect. Links are slow and break, and
//! the coordinator itself is killed and restarted.
//!
//! The cores of the coordinator and the agents are the real ones (`crates/cluster/src`, `node-agent/src/node`).
//! Programs are models of real ones.
//!
//! A simulation has two phases. During the trouble any failure may happen, but none may break an invariant. The
//! invariants of the cores hold after every step, no silent agent counts as alive for too long, and no session number
//! is given twice. No agent accepts what was not granted, begins a second executor for a session, or ends an executor
//! without an order.
//!
//! Then the trouble stops, and the cluster must recover: all views agree, all living agents are registered and no dead
//! one. No executor serves a program that has ended, and every program that requests an executor gets it.

mod agent;
mod agents;
mod checks;
mod injected;
mod job;
mod jobs;
mod joining;
mod program;
mod programs;
mod restarts;
mod times;
mod world;

use accord_types::SessionKey;

/// The user of every session; no rule here depends on the user.
const USER: &str = "alice";

/// Returns the key of a program's session.
fn key_of(program: usize) -> SessionKey {
    let mut key = [1; SessionKey::LEN];
    key[..8].copy_from_slice(&program.to_le_bytes());
    SessionKey(key)
}

pub use injected::Plan;
pub use world::run;

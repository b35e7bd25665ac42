//! Placement: the node and devices of a task.
//!
//! [`Placer`] limits fragmentation. It learns the mix of tasks from arrivals, and places each task where the potential
//! of the node's free resources grows least (`docs/design/placement.md`). [`topology`] lays requests of several nodes
//! out over racks and switches. Both use integers and fixed orders, so that two coordinators with the same inputs
//! decide alike.

pub mod topology;

mod draw;
mod explain;
mod fragments;
mod memo;
mod mix;
mod placer;
mod pools;
mod potential;
mod random;
mod ranking;
mod reserve;
mod state;
mod states;

pub use placer::{Bounds, Candidate, Placement, Placer, Shortage};
pub use potential::Terms;
pub use random::Random;
pub use ranking::Score;
pub use state::{DEVICES_MAX, Models, NodeState, Task, WHOLE};

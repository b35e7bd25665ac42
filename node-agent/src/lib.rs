//! Node agent.

pub mod executor;

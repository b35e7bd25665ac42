//! Seeded simulation: one thread, virtual time, real cores.
//!
//! A run depends on its seed alone, so that a failure can be reproduced.
#![forbid(unsafe_code)]

pub mod connection;
pub mod coordinator;
pub mod gpu_streams;
pub mod queue;
pub mod random;
pub mod seeds;

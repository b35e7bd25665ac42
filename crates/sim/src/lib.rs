//! Seeded simulation: everything in one thread, in virtual time, with the real cores.
//!
//! Whatever happens follows from the seed, so that a failure can be run again.
#![forbid(unsafe_code)]

pub mod connection;
pub mod coordinator;
pub mod gpu_streams;
pub mod queue;
pub mod random;
pub mod seeds;

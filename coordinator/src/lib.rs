//! The coordinator registers agents, numbers devices, opens sessions, grants leases and watches health. It is never on
//! the path of a launch or a copy.
//!
//! [`accord_cluster`] decides without I/O, [`service`] speaks to the network, [`store`] keeps the state over restarts, and
//! [`Background`] runs a coordinator inside another program.
#![forbid(unsafe_code)]

mod background;
pub mod config;
pub mod metrics;
pub mod service;
pub mod store;

pub use background::Background;

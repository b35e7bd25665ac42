//! The coordinator: registers agents, numbers devices, opens sessions, gives leases, watches
//! health. Never on the launch or data path.
//!
//! [`cluster`] decides (pure), [`service`] puts it on the network.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod config;
pub mod metrics;
pub mod service;

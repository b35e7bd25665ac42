//! The coordinator: registers agents, numbers devices, opens sessions, gives leases, watches
//! health. Never on the launch or data path.
//!
//! [`cluster`] decides (pure), the service around it carries out.
#![forbid(unsafe_code)]

pub mod cluster;

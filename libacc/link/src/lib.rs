//! How the runtime's [`Cluster`] comes about: devices of this machine in-process, all others by
//! lanes to their executors.

mod cluster;
mod connect;

pub use cluster::LocalPort;
pub use connect::{Coordinator, LinkSettings, LocalFactory, Order, connect, connect_direct};

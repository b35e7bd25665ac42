//! How the runtime's [`Cluster`] comes about: devices of this machine in-process, all others by
//! lanes to their executors.

mod cluster;
mod connect;
mod cuda_port;
mod host_copy;
mod in_process;
mod local;
mod local_copy;
pub mod pages;
mod remote;
mod session;

pub use cluster::LocalPort;
pub use connect::{Coordinator, LinkSettings, LocalFactory, Order, connect, connect_direct};
pub use cuda_port::CudaPort;
pub use local::CpuPort;
pub use session::{LinkReport, Session};

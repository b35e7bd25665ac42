//! The runtime's [`Cluster`]: devices of this machine in-process, all others over lanes to their executors.

mod cluster;
mod connect;
pub mod connection;
mod coordinator_link;
mod driver_lane;
mod executor_ends;
mod host_copy;
mod in_process;
mod lost_nodes;
mod node_memory;
mod node_turns;
mod own_devices;
mod own_use;
pub mod pages;
mod remote;
mod session;
mod settings;
mod watchdog;

pub use cluster::{BeforeStart, LocalDeviceClient};
pub use connect::{connect, connect_direct};
pub use in_process::InProcess;
pub use session::{NodeReport, Session};
pub use settings::{
    Coordinator, LocalFactory, Order, SessionSettings, ShowWait, TimeLimits, UserMessages, WantedDevices,
};

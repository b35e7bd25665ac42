//! Devices of other nodes: one [`RemoteNode`] to the executor of each node, one [`RemoteDeviceClient`] for each device.
//!
//! ```text
//! calls ──> connection: a machine decides, frames are gathered ──> sending ──> command lane ──> executor
//!           copy_threads ────────────────────────────────────────────────────> bulk lanes ───> executor
//! waits <── reading: a waiter reads, and handles every waiter's events <──── command lane
//!           completion <───────────────────────────────────────────────────────── bulk lanes
//! ```

mod between;
mod completion;
mod connection;
mod copy_threads;
mod copy_wakeups;
mod device_client;
mod event_reader;
mod fixed_dims;
mod images;
mod node_spec;
mod opening;
mod peer_liveness;
mod reading;
mod remote_node;
mod reuse_policy;
mod same_host;
mod sending;
mod unsent;
mod watching;

pub(crate) use between::{End, local_to_remote, remote_to_local, remote_to_remote};
pub(crate) use device_client::RemoteDeviceClient;
pub(crate) use node_spec::{NodeSpec, SessionSpec};
pub(crate) use remote_node::RemoteNode;

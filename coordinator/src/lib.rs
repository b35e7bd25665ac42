//! The coordinator registers agents, numbers devices, opens sessions, grants leases and watches health. It is never on
//! the path of a launch or a copy.
//!
//! [`cluster`] decides (pure), [`service`] puts it on the network, [`Background`] runs it inside
//! another program. [`store`] keeps its state over restarts, in a file or in [`etcd`]. Of several
//! coordinators with one state [`leadership`] says which one leads.
#![forbid(unsafe_code)]

mod background;
pub mod config;
pub mod etcd;
pub mod leadership;
mod lookup;
pub mod metrics;
pub mod process;
pub mod service;
pub mod store;

pub use background::Background;

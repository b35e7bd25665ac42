//! Devices of other nodes: one [`Link`] to the executor of each node, one [`RemotePort`] for each device.
//!
//! ```text
//! calls ──> core: positions are counted, frames gathered ──> sender ──> command lane ──> executor
//!           bulk: transfers, in line ──────────────────────────────────> bulk lanes ───> executor
//! waits <── receiver: whoever waits reads, and handles what comes for all <── command lane
//!           landings <───────────────────────────────────────────────────── bulk lanes
//! ```
//!
//! Locks are taken in this order: bulk, core; receiver and landings are taken last and alone.

mod between;
mod bulk;
mod core;
mod events;
mod images;
mod landings;
mod line;
mod link;
mod live;
mod neighbors;
mod outs;
mod port;
mod receiver;
mod sender;
mod users;

pub(crate) use between::{End, local_to_remote, remote_to_local, remote_to_remote};
pub(crate) use link::{Link, LinkSpec};
pub(crate) use port::RemotePort;

//! The rules of a GPU's streams: which operation may start, what is complete and in what order, when a staging buffer may
//! be reused, and what an error does to operations in flight.
//!
//! Pure: a core takes what its driver has seen and returns what to do. `crates/gpu/src` drives it with threads and
//! the driver's calls, `crates/sim` by a seed.

mod completions;
mod core;
mod fence;
mod host_work;
mod list;
mod recent_kernels;
mod slots;
#[cfg(test)]
mod tests;

pub use self::core::{Access, Bounds, Dependence, Finish, Marks, Progress, Settle, StreamCore, WorkerStep};
pub use completions::{COMPLETIONS_MAX, HostWork, NextWork, Stage};
pub use fence::FenceCore;
pub use list::{Operation, PENDING_BYTES_MAX, PENDING_MAX};
pub use slots::{SlotCore, SlotStep};

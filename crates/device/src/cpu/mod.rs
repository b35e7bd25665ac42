//! CPU devices: worker processes with memory of their own.
//!
//! A worker is the program's own executable started again, with libacc serving launches instead of running `main`. So a
//! region is identified by (object, offset), wherever the loader has mapped the object. The owner (the program itself, or an
//! executor) shares one memory file with the worker:
//!
//! ```text
//! 0          header, then one block per stream: counters, ring of records, trace ring
//! GLOBALS    pages of the program's `declare` variables
//! ARENA      the device's memory; mapped in the worker at its device address
//! ```
//!
//! docs/design/data-path.md describes the two halves of a stream.

mod arena;
mod backend;
mod config;
mod control;
#[cfg(test)]
mod corruption_tests;
mod detach;
mod device;
mod float_control;
pub mod futex;
mod gate;
mod globals;
mod layout;
mod library_version;
mod output;
mod owner_queue;
mod process;
mod progress;
mod ring;
mod shared_capacity;
mod spans;
mod spawn;
mod stream;
mod stream_worker;
pub(crate) mod symbol;
mod watched;
mod worker;

pub use backend::BACKEND;
pub use config::{CpuConfig, WORKER_ENV, WORKER_FOLDER_ENV, inventory};
pub use control::answer_len;
pub use device::CpuDevice;
pub use float_control::float_control;
pub use library_version::{MARK, MARK_SECTION};
pub use process::collect_orphans;
pub use symbol::position as source_position;
pub use worker::{is_worker, main as worker_main};

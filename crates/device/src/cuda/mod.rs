//! NVIDIA GPUs, by the CUDA driver, in-process.
//!
//! See docs/design/cuda.md for how launches, copies and memory go, and for what they cost.

mod arrivals;
mod cache;
mod context;
mod device;
mod direct;
mod driver;
mod fills;
mod gangs;
mod ipc;
mod landing;
mod lane;
mod launch;
mod locks;
mod loss;
mod memory;
mod module;
mod movers;
mod near;
mod notify;
mod onward;
mod output;
mod page_lock;
mod past_caches;
mod peers;
mod pinned;
mod probe;
mod shared;
mod stream;
mod table;
mod trace;

pub use cache::cache_folder;
pub use device::{CudaConfig, CudaDevice};
pub use ipc::{Giver, Neighbors, Place, Reached, Taker};
pub use output::Printed;
pub use probe::{Probe, inventory};

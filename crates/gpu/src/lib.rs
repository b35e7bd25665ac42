//! NVIDIA GPUs, by the CUDA driver, in-process.
//!
//! docs/design/cuda.md describes launches, copies and memory, and their costs.

mod allocations;
mod block_upload;
mod cache;
mod completing;
mod completion;
mod context;
mod context_size;
mod copy_out;
pub mod current_context;
mod device;
mod device_stream;
mod direct;
mod driver;
mod egress;
mod fence;
mod fetching;
mod function;
mod gangs;
mod gate;
mod held_work;
mod holding;
mod imports;
mod in_flight;
mod kernel_launch;
mod launch;
mod launch_batch;
mod loss;
mod memory;
mod memory_uses;
mod module;
mod native;
mod notify;
mod numa;
pub mod nvml;
mod operations;
mod output;
mod page_registration;
mod peers;
mod pending;
mod probe;
mod registrations;
mod repeated;
mod rows;
mod scrubber;
mod shared;
mod staging;
mod stream;
mod stream_worker;
mod suspending;
mod table;
mod timer_slack;
mod trace;

pub use cache::cache_folder;
pub use context_size::measure_contexts;
pub use device::{CudaConfig, CudaDevice};
pub use output::Printed;
pub use probe::inventory;
pub use staging::copy_route;

use accord_device::Backend;
use accord_types::DeviceKind;

/// The driver's own variable: the GPUs visible to a process, by number or name, in its order.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The backend's entry in `accord_backends`.
pub static BACKEND: Backend = Backend {
    kind: DeviceKind::CUDA,
    name: "cuda",
    capabilities: &operations::CAPABILITIES,
    find: inventory,
    addresses_wanted: memory::addresses_wanted,
    context: |info| device::context_of(info).map(Some),
    start: |info, config| {
        let config = CudaConfig {
            cache: config.cache.clone(),
            images: config.images.clone(),
            place: config.place,
            ipc: config.ipc,
            scrub: config.scrub,
            allocate: config.allocate,
            company: config.company,
            turns: config.turns.clone(),
        };
        Ok(CudaDevice::start(info, config)?)
    },
};

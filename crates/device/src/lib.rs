//! Devices: memory, streams, functions, launches, copies.
//!
//! Every backend implements [`Device`], which names none of them; the crate `accord-backends` lists them. Here are the backends without a
//! driver ([`cpu`], and [`fake`] for tests), and the rules that backends share.
//! docs/design/adding-a-backend.md describes how to add one.

mod any_end;
mod backend;
mod capabilities;
mod copy_ends;
pub mod cpu;
pub mod descendants;
mod device;
pub mod failure;
pub mod fake;
pub mod file_limit;
mod host_memory;
pub mod in_flight;
pub mod ipc;
mod kept_memory;
pub mod machine;
pub mod mapped_file;
mod memory_account;
pub mod memory_handle;
pub mod object_identity;
pub mod out_of_memory;
pub mod own_cgroup;
mod program;
pub mod replaced_pages;
mod same_host;
pub mod stream;
mod turn;

pub use accord_image as image;
pub use accord_types::spin_policy::SpinPolicy;
pub use any_end::{CopySink, CopySource, MovesWhen};
pub use backend::{Backend, DriverContext, Found, StartConfig};
pub use capabilities::Capabilities;
pub use copy_ends::{FetchTo, NativeSink, NativeSource, PeerSink, PeerWay, Sink, Source};
pub use device::{Device, FunctionHandle, NativeHandles};
pub use host_memory::{HostMemory, program_bytes};
pub use ipc::MappedRange;
pub use kept_memory::{KeptFile, KeptMemory, KeptPart, provide_pages};
pub use memory_account::MemoryAccount;
pub use memory_handle::MemoryHandle;
pub use program::{OutputSink, ProgramSpec, SilenceLimit, WorkerStart};
pub use replaced_pages::replaced as replaced_pages;
pub use same_host::SameHostPeers;
pub use turn::{Activity, GatedDevice, TurnAgent, TurnKeeper, TurnWords, hold_anyway, resume, suspend};

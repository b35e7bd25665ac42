//! Devices at the level of CUDA's words: memory, streams, functions, launches, copies.

pub mod cpu;
pub mod cuda;
mod device;
mod failure;
pub mod fake;
pub mod image;
mod patience;
pub mod relay;

pub use device::{Device, FunctionHandle, HostOp, Sink, Source};
pub use patience::Patience;

//! Devices at the level of CUDA's words: memory, streams, functions, launches, copies.

pub mod cpu;
mod device;
pub mod image;
pub mod fake;
pub mod relay;

pub use device::{Device, FunctionHandle, HostOp, Sink, Source};

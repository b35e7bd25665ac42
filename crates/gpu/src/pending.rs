//! Operations of a stream that wait for work on the host.

use super::function::{Function, OwnedBlock};
use super::page_registration::Unregistration;
use super::shared::Shared;
use super::staging::fetched::Fetched;
use accord_device::stream::Operation;
use accord_device::{CopySink, CopySource};
use accord_types::{DevicePtr, LaunchDims};
use std::sync::Arc;

/// An operation that waits for its turn. `S` is the type of streams.
pub(crate) enum Op<S> {
    Store { dst: DevicePtr, bytes: Vec<u8> },
    CopyIn { dst: DevicePtr, len: u64, source: CopySource },
    CopyOut { src: DevicePtr, len: u64, sink: CopySink, fetched: Option<Fetched> },
    Copy { dst: DevicePtr, src: DevicePtr, len: u64 },
    Peer { dst: DevicePtr, to: Arc<Shared>, src: DevicePtr, len: u64 },
    Launch { function: Arc<Function>, index: u32, dims: LaunchDims, block: OwnedBlock },
    Wait { other: Arc<S>, seq: u64 },
    Unmap { start: DevicePtr, len: u64 },
    Unregister(Unregistration),
}

impl<S> Operation for Op<S> {
    fn is_fetched(&self) -> bool {
        matches!(self, Self::CopyOut { fetched: Some(_), .. })
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Store { bytes, .. } => bytes.len(),
            Self::Launch { block, .. } => block.get().bytes.len(),
            _ => 0,
        }
    }
}

//! The devices of this process's session.

use crate::settings;
use accord_runtime::ports::{Cluster, Port};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result};
use std::sync::Arc;

/// Opens the session: the cluster's devices, or this machine's.
///
/// # Errors
/// A coordinator that can't be reached or refuses.
pub(crate) fn connect() -> Result<Box<dyn Cluster>> {
    if settings::is_worker() {
        return Ok(Box::new(NoDevices));
    }
    Ok(Box::new(NoDevices))
}

/// What a worker sees: code that it runs for a program must not start devices of its own.
struct NoDevices;

impl Cluster for NoDevices {
    fn ports(&self) -> &[Arc<dyn Port>] {
        &[]
    }

    fn copy_between(
        &self,
        _queue: QueueId,
        source: usize,
        _src: DevicePtr,
        target: usize,
        _dst: DevicePtr,
        _len: u64,
    ) -> Result<()> {
        Err(Error::new(
            ErrorCode::DeviceUnavailable,
            format!("there is no device {source} and no device {target}"),
        ))
    }
}

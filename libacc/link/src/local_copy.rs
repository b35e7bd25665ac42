//! Copies between two devices of this machine.

use crate::cluster::LocalPort;
use crate::host_copy::HostMemory;
use accord_device::{Device, Sink};
use accord_types::{DevicePtr, HostRange, QueueId, Result, StreamId};
use std::sync::Arc;

/// Copies in the order of `queue` of `source`, after what was done synchronously to `target` before.
///
/// # Errors
/// A failure of either device.
pub(crate) fn copy(
    queue: QueueId,
    source: &dyn LocalPort,
    src: DevicePtr,
    target: &dyn LocalPort,
    dst: DevicePtr,
    len: u64,
) -> Result<()> {
    let device = target.device()?;
    let incoming = target.stream(QueueId::INCOMING)?;
    let before = target.last(QueueId::SYNC);
    if before.0 > 0 {
        let seq = device.wait_stream(incoming, target.stream(QueueId::SYNC)?, before)?;
        target.advance(QueueId::INCOMING, seq);
    }
    let sink = IntoDevice { device, stream: incoming, at: dst };
    let seq = source.device()?.copy_out(source.stream(queue)?, src, len, Box::new(sink))?;
    source.advance(queue, seq);
    Ok(())
}

/// Gives one device's bytes to another.
struct IntoDevice {
    device: Arc<dyn Device>,
    stream: StreamId,
    at: DevicePtr,
}

impl Sink for IntoDevice {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let len = piece.len();
        // The piece is memory of this process; `synchronize` keeps it here until it has been read.
        let range = HostRange { start: piece.as_ptr().expose_provenance(), len };
        let seq = self.device.copy_in(self.stream, self.at, len as u64, Box::new(HostMemory::new(range, true)))?;
        self.device.synchronize(self.stream, seq)?;
        self.at = self.at.offset(len as u64);
        Ok(())
    }
}

//! Copies between two devices of this machine.

use crate::cluster::LocalPort;
use crate::host_copy::HostMemory;
use accord_device::{Device, Sink};
use accord_types::{DevicePtr, HostRange, QueueId, Result, Seq, StreamId};
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
    let (from, device) = (source.device()?, target.device()?);
    let stream = source.stream(queue)?;
    let before = target.last(QueueId::SYNC);
    let after = if before.0 > 0 { Some((target.stream(QueueId::SYNC)?, before)) } else { None };
    let seq = match (from.as_cuda(), device.as_cuda()) {
        // Two GPUs reach each other without the host.
        (Some(from), Some(to)) => from.copy_to(stream, src, to, dst, len, after)?,
        _ => {
            let incoming = target.stream(QueueId::INCOMING)?;
            let sink = IntoDevice { device, stream: incoming, at: dst, after };
            from.copy_out(stream, src, len, Box::new(sink))?
        }
    };
    source.advance(queue, seq);
    Ok(())
}

/// Gives one device's bytes to another.
struct IntoDevice {
    device: Arc<dyn Device>,
    stream: StreamId,
    at: DevicePtr,
    /// What comes first on the target. Waited for here and not by the stream: that one takes copies from
    /// all sides, and one that waits would hold the others up, and the lanes on which they come.
    after: Option<(StreamId, Seq)>,
}

impl Sink for IntoDevice {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        if let Some((stream, seq)) = self.after.take() {
            self.device.synchronize(stream, seq)?;
        }
        let len = piece.len();
        // The piece is memory of this process; `synchronize` keeps it here until it has been read.
        let range = HostRange { start: piece.as_ptr().expose_provenance(), len };
        let seq = self.device.copy_in(self.stream, self.at, len as u64, Box::new(HostMemory::new(range, true)))?;
        self.device.synchronize(self.stream, seq)?;
        self.at = self.at.offset(len as u64);
        Ok(())
    }
}

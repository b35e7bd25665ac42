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
    let device = target.device()?;
    if let Some(seq) = between_gpus(queue, source, src, target, dst, len)? {
        source.advance(queue, seq);
        return Ok(());
    }
    let incoming = target.stream(QueueId::INCOMING)?;
    let before = target.last(QueueId::SYNC);
    let after = if before.0 > 0 { Some((target.stream(QueueId::SYNC)?, before)) } else { None };
    let sink = IntoDevice { device, stream: incoming, at: dst, after };
    let seq = source.device()?.copy_out(source.stream(queue)?, src, len, Box::new(sink))?;
    source.advance(queue, seq);
    Ok(())
}

/// Two GPUs reach each other without the host; `None` if one of them is something else.
fn between_gpus(
    queue: QueueId,
    source: &dyn LocalPort,
    src: DevicePtr,
    target: &dyn LocalPort,
    dst: DevicePtr,
    len: u64,
) -> Result<Option<Seq>> {
    let (from, to) = (source.device()?, target.device()?);
    let (Some(from), Some(to)) = (from.as_cuda(), to.as_cuda()) else { return Ok(None) };
    let before = target.last(QueueId::SYNC);
    let after = if before.0 > 0 { Some((target.stream(QueueId::SYNC)?, before)) } else { None };
    from.copy_to(source.stream(queue)?, src, to, dst, len, after).map(Some)
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

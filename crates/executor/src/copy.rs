//! Copies from one device to another of the same process.

use crate::hosted::Hosted;
use accord_device::{CopySink, CopySource, Device, Sink};
use accord_types::{DevicePtr, HostRange, Result, Seq, StreamId};
use std::sync::Arc;

/// One side of a copy.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// The device.
    pub hosted: &'a Hosted,
    /// The first byte.
    pub start: DevicePtr,
}

/// Copies `len` bytes in the order of `stream` of the source's device, and after `after` of the target's. Returns the position in the source's stream
/// that is reached when the bytes have landed.
///
/// # Errors
/// Returns the errors of the devices. A later failure of the target fails the source's stream.
pub fn copy_here(
    stream: StreamId,
    source: End<'_>,
    target: End<'_>,
    len: u64,
    after: Option<(StreamId, Seq)>,
) -> Result<Seq> {
    let (from, to) = (source.hosted.device(), target.hosted.device());
    // Two GPUs copy without the host.
    if let Some(seq) = from.copy_to(stream, source.start, &**to, target.start, len, after)? {
        return Ok(seq);
    }
    let incoming = target.hosted.incoming()?;
    let sink = IntoDevice { device: to.clone(), stream: incoming, at: target.start, after };
    from.copy_out(stream, source.start, len, CopySink::new(sink))
}

/// Writes the bytes of one device to another.
struct IntoDevice {
    device: Arc<dyn Device>,
    stream: StreamId,
    at: DevicePtr,
    /// The position on the target that precedes the copy. The sink waits for it, not the incoming stream, which takes copies from
    /// all sources: a wait there would delay the others, and the lanes that carry them.
    after: Option<(StreamId, Seq)>,
}

impl Sink for IntoDevice {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        if let Some((stream, seq)) = self.after.take() {
            self.device.synchronize(stream, seq)?;
        }
        let len = piece.len();
        // The piece is this process's memory; `synchronize` keeps it valid until the device has read it.
        let range = HostRange { start: piece.as_ptr().expose_provenance(), len };
        let seq = self.device.copy_in(self.stream, self.at, len as u64, CopySource::program(range, true))?;
        self.device.synchronize(self.stream, seq)?;
        self.at = self.at.offset(len as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_device::Source;
    use accord_device::fake::FakeDevice;
    use accord_types::{DeviceId, Error, ErrorCode, NodeId, QueueId};
    use std::sync::mpsc::sync_channel;

    const MIB: u64 = 1 << 20;
    const QUEUE: QueueId = QueueId(1);

    /// Bytes of a copy in, produced when its turn comes.
    struct With<F>(F);

    impl<F: FnMut(&mut [u8]) -> Result<()> + Send> Source for With<F> {
        fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
            (self.0)(piece)
        }
    }

    fn device(ordinal: u32) -> (Arc<FakeDevice>, Hosted, DevicePtr) {
        let fake = FakeDevice::new(DeviceId { node: NodeId(0), ordinal }, "h1", 64 * MIB);
        let start = fake.addresses().0;
        fake.map(start, 16 * MIB).unwrap();
        (fake.clone(), Hosted::new(fake, 0, Arc::default()), start)
    }

    #[test]
    fn bytes_arrive_after_what_stood_before_them_on_both_sides() {
        let ((from, source, src), (to, target, dst)) = (device(0), device(1));
        let stream = source.queue(QUEUE).unwrap().stream();
        let sync = target.queue(QueueId::SYNC).unwrap();
        let (go, gate) = sync_channel::<()>(0);
        let memory: Vec<u8> = (0..5 * MIB + 3).map(|i| (i % 253) as u8).collect();
        let mut bytes = memory.clone().into_iter();
        let first = With(move |piece: &mut [u8]| {
            piece.iter_mut().zip(&mut bytes).for_each(|(to, from)| *to = from);
            Ok(())
        });
        from.copy_in(stream, src, 5 * MIB + 3, CopySource::new(first)).unwrap();
        let gated = With(move |piece: &mut [u8]| {
            gate.recv().unwrap();
            piece.fill(9);
            Ok(())
        });
        let before = to.copy_in(sync.stream(), dst, 8, CopySource::new(gated));
        sync.advance(before.unwrap());
        let (one, other) = (End { hosted: &source, start: src }, End { hosted: &target, start: dst });
        let seq = copy_here(stream, one, other, 5 * MIB + 3, target.last_synchronous()).unwrap();
        assert!(!from.reached(stream, seq).unwrap());
        go.send(()).unwrap();
        from.synchronize(stream, seq).unwrap();
        let mut arrived = vec![0; memory.len()];
        to.memory().read(dst, &mut arrived).unwrap();
        assert!(arrived == memory);
        from.shutdown();
        to.shutdown();
    }

    #[test]
    fn a_failing_target_fails_the_source_and_a_failing_source_leaves_the_target() {
        let ((from, source, src), (to, target, dst)) = (device(0), device(1));
        let stream = source.queue(QUEUE).unwrap().stream();
        let (one, other) = (End { hosted: &source, start: src }, End { hosted: &target, start: dst });
        target.incoming().unwrap();
        to.fail(Error::new(ErrorCode::Execution, "crashed"));
        let seq = copy_here(stream, one, other, MIB, None).unwrap();
        assert_eq!(from.synchronize(stream, seq).unwrap_err().cause(), "crashed");

        let ((from, source, src), (to, target, dst)) = (device(0), device(1));
        let stream = source.queue(QUEUE).unwrap().stream();
        let (one, other) = (End { hosted: &source, start: src }, End { hosted: &target, start: dst });
        let failing = With(|_: &mut [u8]| Err(Error::new(ErrorCode::Execution, "no")));
        from.copy_in(stream, src, 8, CopySource::new(failing)).unwrap();
        let _ = copy_here(stream, one, other, MIB, None);
        let incoming = target.incoming().unwrap();
        let seq = to.store(incoming, dst, b"fine").unwrap();
        to.synchronize(incoming, seq).unwrap();
        from.shutdown();
        to.shutdown();
    }

    #[test]
    fn a_stream_for_copies_that_has_failed_is_followed_by_another() {
        let (_, target, _) = device(0);
        let first = target.incoming().unwrap();
        target.incoming_failed(StreamId(first.0 + 7));
        assert_eq!(target.incoming().unwrap(), first);
        target.incoming_failed(first);
        assert_ne!(target.incoming().unwrap(), first);
    }
}

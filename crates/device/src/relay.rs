//! Copies from one device to another in the same process.

use crate::{Device, Sink, Source};
use accord_types::{DevicePtr, Error, ErrorCode, Result, Seq, StreamId};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of one piece under way.
const PIECE: usize = 1 << 20;
/// Pieces under way at most.
const PIECES: usize = 4;

/// One end of a copy.
#[derive(Clone)]
pub struct RelayEnd {
    /// The device.
    pub device: Arc<dyn Device>,
    /// The source's queue, or the target's incoming stream.
    pub stream: StreamId,
    /// First byte.
    pub start: DevicePtr,
}

/// Copies `len` bytes from one device to another, in the order of the source's stream, and
/// after `seq` of the target's stream `after`. Returns the position in the source's stream:
/// it is reached when the bytes have landed.
///
/// # Errors
/// When the source's device has failed; the target's failure fails the source's stream.
pub fn relay(source: &RelayEnd, target: RelayEnd, len: u64, after: Option<(StreamId, Seq)>) -> Result<Seq> {
    let sink = RelaySink { target, len, after, started: None };
    source.device.copy_out(source.stream, source.start, len, Box::new(sink))
}

struct RelaySink {
    target: RelayEnd,
    len: u64,
    after: Option<(StreamId, Seq)>,
    started: Option<Started>,
}

struct Started {
    seq: Seq,
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl RelaySink {
    fn start(&self) -> Result<Started> {
        let device = &self.target.device;
        if let Some((stream, seq)) = self.after {
            device.synchronize(stream, seq)?;
        }
        let (full, pieces) = sync_channel(PIECES);
        let (back, empty) = sync_channel(PIECES);
        for _ in 0..PIECES {
            // The channel has room for all of them.
            let _ = back.try_send(Vec::new());
        }
        let failure = Arc::<Mutex<Option<Error>>>::default();
        let source = RelaySource { pieces, back, current: Vec::new(), taken: 0, failure: failure.clone() };
        let seq = device.copy_in(self.target.stream, self.target.start, self.len, Box::new(source))?;
        Ok(Started { seq, full, empty, failure })
    }
}

impl Sink for RelaySink {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let started = match self.started.take() {
            Some(started) => started,
            None => self.start()?,
        };
        let started = self.started.insert(started);
        for part in piece.chunks(PIECE) {
            let sent = started.empty.recv().ok().and_then(|mut buffer| {
                buffer.clear();
                buffer.extend_from_slice(part);
                started.full.send(buffer).ok()
            });
            if sent.is_none() {
                // The target has dropped the copy: its own error says why.
                self.target.device.synchronize(self.target.stream, started.seq)?;
                return Err(Error::new(ErrorCode::ImplementationDefined, "the target of a copy dropped it"));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some(started) = self.started.take() else { return Ok(()) };
        drop(started.full);
        self.target.device.synchronize(self.target.stream, started.seq)?;
        match started.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

struct RelaySource {
    pieces: Receiver<Vec<u8>>,
    back: SyncSender<Vec<u8>>,
    current: Vec<u8>,
    taken: usize,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Source for RelaySource {
    /// If the source of the copy fails the rest stays as it is: the stream that takes copies from all
    /// sides must not fail with one of them.
    fn fill(&mut self, mut piece: &mut [u8]) -> Result<()> {
        while !piece.is_empty() {
            if self.taken == self.current.len() {
                if self.current.capacity() > 0 {
                    // Nobody needs it any more if that fails.
                    let _ = self.back.try_send(std::mem::take(&mut self.current));
                }
                self.taken = 0;
                let Ok(next) = self.pieces.recv() else {
                    let error = Error::new(ErrorCode::Execution, "the source of a copy failed");
                    self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    return Ok(());
                };
                self.current = next;
            }
            let n = piece.len().min(self.current.len() - self.taken);
            let (now, later) = piece.split_at_mut(n);
            now.copy_from_slice(&self.current[self.taken..self.taken + n]);
            self.taken += n;
            piece = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeDevice;
    use accord_types::{DeviceId, NodeId, QueueId};

    const MIB: u64 = 1 << 20;

    fn device(ordinal: u32) -> (Arc<FakeDevice>, RelayEnd) {
        let fake = FakeDevice::new(DeviceId { node: NodeId(0), ordinal }, "h1", 64 * MIB);
        let start = fake.addresses().0;
        fake.map(start, 16 * MIB).unwrap();
        let stream = fake.create_stream(QueueId(1)).unwrap();
        let end = RelayEnd { device: fake.clone(), stream, start };
        (fake, end)
    }

    #[test]
    fn bytes_arrive_after_what_stood_before_them_on_both_sides() {
        let ((from, source), (to, target)) = (device(0), device(1));
        let sync = to.create_stream(QueueId::SYNC).unwrap();
        let (go, gate) = sync_channel::<()>(0);
        let memory: Vec<u8> = (0..5 * MIB + 3).map(|i| (i % 253) as u8).collect();
        let (device, start, bytes) = (from.clone(), source.start, memory.clone());
        from.host_op(source.stream, Box::new(move || device.memory().write(start, &bytes))).unwrap();
        let (device, start) = (to.clone(), target.start);
        let before = to
            .host_op(
                sync,
                Box::new(move || {
                    gate.recv().unwrap();
                    device.memory().write(start, &[9; 8])
                }),
            )
            .unwrap();
        let seq = relay(&source, target.clone(), 5 * MIB + 3, Some((sync, before))).unwrap();
        assert!(!from.reached(source.stream, seq).unwrap());
        go.send(()).unwrap();
        from.synchronize(source.stream, seq).unwrap();
        let mut arrived = vec![0; memory.len()];
        to.memory().read(target.start, &mut arrived).unwrap();
        assert!(arrived == memory);
        from.shutdown();
        to.shutdown();
    }

    #[test]
    fn a_failing_target_fails_the_source_and_a_failing_source_leaves_the_target() {
        let ((from, source), (to, target)) = (device(0), device(1));
        to.fail(Error::new(ErrorCode::Execution, "crashed"));
        let seq = relay(&source, target, MIB, None).unwrap();
        assert_eq!(from.synchronize(source.stream, seq).unwrap_err().cause(), "crashed");

        let ((from, source), (to, target)) = (device(0), device(1));
        from.host_op(source.stream, Box::new(|| Err(Error::new(ErrorCode::Execution, "no")))).unwrap();
        let _ = relay(&source, target.clone(), MIB, None);
        to.store(target.stream, target.start, b"fine").unwrap();
        let seq = to.store(target.stream, target.start, b"fine").unwrap();
        to.synchronize(target.stream, seq).unwrap();
        from.shutdown();
        to.shutdown();
    }
}

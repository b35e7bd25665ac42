//! Few bytes that are copied out before it is their sink's turn.

use super::{Test, add, device, double_slowly, doubles, read_doubles, write};
use crate::support::fake;
use accord_device::{CopySink, CopySource, Device, Sink, Source};
use accord_types::{Error, ErrorCode, QueueId, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

/// Takes its bytes once it is let, by the host's memory.
struct ByHost {
    open: Receiver<Result<()>>,
    got: Sender<Vec<u8>>,
}

impl Sink for ByHost {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        // Closed at the end of a test that has failed already.
        self.open.recv().unwrap_or(Ok(()))?;
        let _ = self.got.send(piece.to_vec());
        Ok(())
    }

    fn is_by_host(&self) -> bool {
        true
    }
}

fn sink() -> (CopySink, Sender<Result<()>>, Receiver<Vec<u8>>) {
    let ((let_go, open), (got, bytes)) = (channel(), channel());
    (CopySink::new(ByHost { open, got }), let_go, bytes)
}

/// They are what they were in the stream's order, and what comes next waits until somebody has them.
pub(crate) fn in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 1_000);
    write(&device, stream, at, doubles((0..n).map(|_| 1.0)))?;
    double_slowly(&device, stream, at, 1.0)?;
    add(&device, stream, at, n, 1.0)?;
    // The second one finds the first one ahead of it.
    let (first, go_first, of_first) = sink();
    let (second, go_second, of_second) = sink();
    let len = n as u64 * 8;
    device.copy_out(stream, at, len, first)?;
    add(&device, stream, at, n, 1.0)?;
    let seq = device.copy_out(stream, at, len, second)?;
    add(&device, stream, at, n, 1.0)?;
    assert!(!device.reached(stream, seq)?);
    go_second.send(Ok(()))?;
    assert_eq!(of_second.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    go_first.send(Ok(()))?;
    let (first, second) = (of_first.recv_timeout(SOON)?, of_second.recv_timeout(SOON)?);
    assert!(first[8..] == doubles((1..n).map(|_| 2.0)) && second[8..] == doubles((1..n).map(|_| 3.0)));
    assert_eq!(read_doubles(&device, stream, at, 4)?[1..], [4.0; 3]);
    device.shutdown();
    Ok(())
}

/// The driver has them before the sink's turn comes, as far as there are slots.
pub(crate) fn at_once() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    write(&device, stream, at, doubles([1.0]))?;
    // Slots are made once.
    for _ in 0..2 {
        let (sink, let_go, bytes) = sink();
        let seq = device.copy_out(stream, at, 8, sink)?;
        let_go.send(Ok(()))?;
        assert_eq!(bytes.recv_timeout(SOON)?, doubles([1.0]));
        device.synchronize(stream, seq)?;
    }
    fake::fail("cuMemcpyDtoHAsync_v2", 0, 2);
    let (sink, let_go, bytes) = sink();
    let failed = device.copy_out(stream, at, 8, sink).expect_err("the driver was not asked at the call");
    assert_eq!(failed.code(), ErrorCode::OutOfMemory, "{failed}");
    assert_eq!(bytes.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
    drop(let_go);
    device.shutdown();
    Ok(())
}

/// An interrupt takes longer than a short copy, of whichever thread is on that core.
pub(crate) fn without_interrupts() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    // Memory is cleared before it is used.
    write(&device, stream, at, doubles([1.0]))?;
    read_doubles(&device, stream, at, 1)?;
    let before = fake::interrupts();
    for len in [1, 1_000, 20_000, 1_200_000] {
        write(&device, stream, at, doubles(std::iter::repeat_n(2.0, len)))?;
        device.copy_in(stream, at, len as u64 * 8, CopySource::new(Zeros))?;
        let (sink, let_go, bytes) = sink();
        (0..8).try_for_each(|_| let_go.send(Ok(())))?;
        let seq = device.copy_out(stream, at, len as u64 * 8, sink)?;
        device.synchronize(stream, seq)?;
        assert_eq!(bytes.try_iter().map(|piece| piece.len()).sum::<usize>(), len * 8);
        assert_eq!(read_doubles(&device, stream, at, len as u64)?, vec![0.0; len]);
    }
    assert_eq!(fake::interrupts(), before);
    device.shutdown();
    Ok(())
}

/// Bytes that somebody hands over.
struct Zeros;

impl Source for Zeros {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.fill(0);
        Ok(())
    }
}

/// A stream that has failed takes no more of them, and ends.
pub(crate) fn refused() -> Test {
    let device = device()?;
    let streams = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let at = device.addresses().0;
    write(&device, streams[0], at, doubles([1.0]))?;
    let (sink_of_first, let_go, _bytes) = sink();
    let seq = device.copy_out(streams[0], at, 8, sink_of_first)?;
    let_go.send(Err(Error::new(ErrorCode::Execution, "nobody takes it")))?;
    let failed = device.synchronize(streams[0], seq).expect_err("it was refused");
    assert_eq!(failed.cause(), "nobody takes it");
    // The other one has the slots, and the device ends with a copy that nobody has taken.
    let (sink_of_second, go_second, bytes) = sink();
    let seq = device.copy_out(streams[1], at, 8, sink_of_second)?;
    go_second.send(Ok(()))?;
    assert_eq!(bytes.recv_timeout(SOON)?.len(), 8);
    device.synchronize(streams[1], seq)?;
    let (last, go_last, bytes) = sink();
    device.copy_out(streams[1], at, 8, last)?;
    let ending = std::thread::spawn(move || device.shutdown());
    let _ = go_last.send(Ok(()));
    ending.join().map_err(|_| "it does not end")?;
    assert_ne!(bytes.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
    Ok(())
}

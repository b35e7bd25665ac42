//! Copies out of few bytes, which are fetched before it is their sink's turn.

use super::{Test, add, device, double_slowly, doubles, read_doubles, write};
use crate::support::fake;
use accord_device::{CopySink, CopySource, Device, FetchTo, NativeSink, PeerSink, PeerWay, Sink, Source};
use accord_gpu::CudaDevice;
use accord_types::{DevicePtr, Error, ErrorCode, NativeRange, QueueId, Result, StreamId};
use libtest_mimic::Failed;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);
const OUT_OF_MEMORY: i32 = 2;

/// A sink that reads its bytes from the host's memory once it is released.
struct ByHost {
    open: Receiver<Result<()>>,
    got: Sender<Vec<u8>>,
}

impl Sink for ByHost {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        // Closed at the end of a failed test.
        self.open.recv().unwrap_or(Ok(()))?;
        let _ = self.got.send(piece.to_vec());
        Ok(())
    }
}

impl PeerSink for ByHost {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Host
    }

    fn follows(&self) -> bool {
        false
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        Ok(PeerWay::Host)
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

fn sink() -> (CopySink, Sender<Result<()>>, Receiver<Vec<u8>>) {
    let ((let_go, open), (got, bytes)) = (channel(), channel());
    (CopySink::peer(ByHost { open, got }), let_go, bytes)
}

/// The bytes are those in the stream's order, and later operations wait until they are read.
pub(crate) fn in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 1_000);
    write(&device, stream, at, doubles((0..n).map(|_| 1.0)))?;
    double_slowly(&device, stream, at, 1.0)?;
    add(&device, stream, at, n, 1.0)?;
    // The first one is ahead of the second.
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

/// The driver copies them before the sink's turn, as far as there are slots.
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

/// An interrupt takes longer than a short copy, at the expense of the thread on that core.
pub(crate) fn without_interrupts() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    // Memory is cleared before use.
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

/// A source of zeros.
struct Zeros;

impl Source for Zeros {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.fill(0);
        Ok(())
    }
}

/// A stream that has failed accepts no more of them, and ends.
pub(crate) fn refused() -> Test {
    let device = device()?;
    let streams = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let at = device.addresses().0;
    write(&device, streams[0], at, doubles([1.0]))?;
    let (sink_of_first, let_go, _bytes) = sink();
    let seq = device.copy_out(streams[0], at, 8, sink_of_first)?;
    let_go.send(Err(Error::new(ErrorCode::Execution, "it is not taken")))?;
    let failed = device.synchronize(streams[0], seq).expect_err("it was refused");
    assert_eq!(failed.cause(), "it is not taken");
    // The other copy has the slots, and the device ends with an unread copy.
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

/// A library that reads device memory in a stream of its own, which waits for no other, once it is released; or gets the bytes from the host.
struct ByLibrary {
    device: Arc<CudaDevice>,
    stream: StreamId,
    reaches: bool,
    open: Receiver<Result<()>>,
    got: Sender<Vec<f64>>,
    from: Sender<u64>,
}

impl Sink for ByLibrary {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let (values, _) = piece.as_chunks();
        let _ = self.got.send(values.iter().map(|value| f64::from_ne_bytes(*value)).collect());
        Ok(())
    }
}

impl PeerSink for ByLibrary {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Device
    }

    fn follows(&self) -> bool {
        false
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        self.open.recv().unwrap_or(Ok(()))?;
        Ok(if self.reaches { PeerWay::Library } else { PeerWay::Host })
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        Some(self)
    }
}

impl NativeSink for ByLibrary {
    fn is_concurrent(&self) -> bool {
        false
    }

    fn start(&mut self, bytes: NativeRange) -> Result<()> {
        let _ = self.from.send(bytes.address);
        let values = read_doubles(&self.device, self.stream, DevicePtr(bytes.address), bytes.len as u64 / 8)?;
        let _ = self.got.send(values);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes copies for a library, which can't access one of them. Returns how many of the others it read from a slot. Their bytes are those in the
/// stream's order.
fn by_library(count: usize, before: impl FnOnce()) -> core::result::Result<usize, Failed> {
    const N: i32 = 4_000;
    let device = device()?;
    let [stream, other] = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let at = device.addresses().0;
    let (from, addresses) = channel();
    let written = write(&device, stream, at, doubles((0..N).map(|_| 1.0)))?;
    // After incoming bytes no copy is fetched.
    device.synchronize(stream, written)?;
    add(&device, stream, at, N, 1.0)?;
    before();
    let mut copies = Vec::new();
    for turn in 0..count {
        let ((let_go, open), (got, values)) = (channel(), channel());
        let (device_of, from) = (device.clone(), from.clone());
        let sink = ByLibrary { device: device_of, stream: other, reaches: turn != 3, open, got, from };
        let seq = device.copy_out(stream, at, N as u64 * 8, CopySink::peer(sink))?;
        copies.push((seq, let_go, values));
    }
    add(&device, stream, at, N, 1.0)?;
    for (seq, let_go, values) in copies {
        assert!(!device.reached(stream, seq)?);
        let_go.send(Ok(()))?;
        assert_eq!(values.recv_timeout(SOON)?, vec![2.0; N as usize]);
    }
    assert_eq!(read_doubles(&device, stream, at, N as u64)?, vec![3.0; N as usize]);
    let of_device = at.0..at.0 + (64 << 20);
    let addresses: Vec<_> = addresses.try_iter().collect();
    assert_eq!(addresses.len(), count - 1);
    device.shutdown();
    Ok(addresses.iter().filter(|address| !of_device.contains(address)).count())
}

/// Consecutive copies are fetched without a wait for the library, as far as there are slots.
pub(crate) fn for_a_library() -> Test {
    let fetched = by_library(12, || {})?;
    assert!((7..11).contains(&fetched), "{fetched}");
    Ok(())
}

/// On a device without memory for slots, the library reads the bytes in place.
pub(crate) fn without_slots() -> Test {
    assert_eq!(by_library(12, || fake::fail("cuMemAlloc_v2", 0, OUT_OF_MEMORY))?, 0);
    Ok(())
}

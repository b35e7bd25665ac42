//! Operations after copies to other processes whose bytes have left but not landed.

use super::{Case, Test, add, device, doubles, read_doubles, write};
use accord_device::{CopySink, Device, FetchTo, NativeSink, PeerSink, PeerWay, Sink};
use accord_gpu::CudaDevice;
use accord_types::{DevicePtr, Error, ErrorCode, NativeRange, QueueId, Result, Seq, StreamId};
use libtest_mimic::Failed;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) const TESTS: [Case; 3] = [
    ("regions_go_on_while_copies_are_on_their_way", go_on),
    ("copies_behind_such_regions_wait", copies_wait),
    ("regions_behind_a_copy_that_does_not_land_fail", failed),
];

const SOON: Duration = Duration::from_secs(20);
/// Long enough for a wrong event to happen.
const WHILE: Duration = Duration::from_millis(20);
const N: i32 = 40_000;

/// Another node, which reports the landing of bytes that are fetched to the host or read by a library.
struct Node {
    by_library: bool,
    left: Sender<Vec<f64>>,
    land: Receiver<Result<()>>,
}

impl Node {
    fn landed(&self) -> Result<()> {
        // Closed at the end of a failed test.
        self.land.recv().unwrap_or(Ok(()))
    }
}

impl Sink for Node {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let (values, _) = piece.as_chunks();
        let _ = self.left.send(values.iter().map(|value| f64::from_ne_bytes(*value)).collect());
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.by_library { Ok(()) } else { self.landed() }
    }
}

impl PeerSink for Node {
    fn fetch_to(&self) -> FetchTo {
        if self.by_library { FetchTo::Device } else { FetchTo::Host }
    }

    fn follows(&self) -> bool {
        true
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        Ok(if self.by_library { PeerWay::Library } else { PeerWay::Host })
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        Some(self)
    }
}

impl NativeSink for Node {
    fn is_concurrent(&self) -> bool {
        true
    }

    fn start(&mut self, _: NativeRange) -> Result<()> {
        let _ = self.left.send(Vec::new());
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.landed()
    }
}

struct Push {
    seq: Seq,
    left: Receiver<Vec<f64>>,
    land: Sender<Result<()>>,
}

/// A device with a copy of its first `n` numbers, all 1, in flight, and a region after it.
struct Working {
    device: Arc<CudaDevice>,
    stream: StreamId,
    other: StreamId,
    at: DevicePtr,
    push: Push,
    region: Seq,
}

fn push(device: &CudaDevice, stream: StreamId, at: DevicePtr, n: i32, by_library: bool) -> Result<Push> {
    let ((left, has_left), (let_land, land)) = (channel(), channel());
    let seq = device.copy_out(stream, at, n as u64 * 8, CopySink::peer(Node { by_library, left, land }))?;
    Ok(Push { seq, left: has_left, land: let_land })
}

impl Working {
    fn begin(n: i32, by_library: bool) -> core::result::Result<Self, Failed> {
        let device = device()?;
        let [stream, other] = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
        let at = device.addresses().0;
        let written = write(&device, stream, at, doubles((0..N).map(|_| 1.0)))?;
        device.synchronize(stream, written)?;
        let push = push(&device, stream, at, n, by_library)?;
        let region = add(&device, stream, at, N, 1.0)?;
        Ok(Self { device, stream, other, at, push, region })
    }

    /// Whether the region has ended, as another stream observes.
    fn region_is_over(&self) -> core::result::Result<bool, Failed> {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            if read_doubles(&self.device, self.other, self.at, 1)? == [2.0] {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn go_on() -> Test {
    for (n, by_library) in [(100, false), (N, false), (100, true), (N, true)] {
        let Working { device, stream, other, push, region, .. } = &{
            let working = Working::begin(n, by_library)?;
            assert!(working.region_is_over()?, "{n} {by_library}: it waits until the bytes have landed");
            working
        };
        // The copy has read the values before the region, which is not done before the copy.
        let taken = push.left.recv_timeout(SOON)?;
        assert!(taken.iter().all(|value| *value == 1.0) && taken.is_empty() == by_library);
        assert!(!device.reached(*stream, push.seq)? && !device.reached(*stream, *region)?);
        let waited = device.wait_stream(*other, *stream, *region)?;
        let (notify, reported) = channel();
        let notify = move |outcome: Result<()>| drop(notify.send(outcome));
        device.notify(*stream, *region, Box::new(notify));
        assert_eq!(reported.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout));
        assert!(!device.reached(*other, waited)?, "a wait for it includes the copy");
        push.land.send(Ok(()))?;
        assert_eq!(reported.recv_timeout(SOON), Ok(Ok(())));
        device.synchronize(*other, waited)?;
        assert!(device.reached(*stream, push.seq)? && device.reached(*stream, *region)?);
        device.shutdown();
    }
    Ok(())
}

/// A copy would have to wait for the region, and each waiter of the first copy with it.
fn copies_wait() -> Test {
    for (n, by_library) in [(100, false), (N, true)] {
        let Working { device, stream, at, push: first, .. } = &Working::begin(n, by_library)?;
        let second = push(device, *stream, *at, n, by_library)?;
        let last = add(device, *stream, *at, N, 1.0)?;
        first.left.recv_timeout(SOON)?;
        assert_eq!(second.left.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout));
        first.land.send(Ok(()))?;
        device.synchronize(*stream, first.seq)?;
        let taken = second.left.recv_timeout(SOON)?;
        assert!(taken.iter().all(|value| *value == 2.0));
        second.land.send(Ok(()))?;
        device.synchronize(*stream, last)?;
        assert_eq!(read_doubles(device, *stream, *at, 2)?, [3.0; 2]);
        device.shutdown();
    }
    Ok(())
}

fn failed() -> Test {
    for by_library in [false, true] {
        let Working { device, stream, other, at, push, region } = &Working::begin(100, by_library)?;
        push.left.recv_timeout(SOON)?;
        push.land.send(Err(Error::new(ErrorCode::Execution, "it is not taken")))?;
        for seq in [push.seq, *region] {
            assert_eq!(device.synchronize(*stream, seq).expect_err("it has failed").cause(), "it is not taken");
        }
        assert!(device.wait_stream(*other, *stream, *region).is_err());
        let written = write(device, *other, *at, doubles([7.0]))?;
        device.synchronize(*other, written)?;
        device.shutdown();
    }
    Ok(())
}

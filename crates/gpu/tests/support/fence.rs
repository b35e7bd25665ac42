//! Operations that order all streams after them, without a wait.

use super::{Case, Test, add, device, device_with, double_slowly, doubles, read_doubles, write};
use crate::REGIONS;
use crate::support::fake::{self, SlowRegions};
use accord_device::{CopySink, CopySource, Device, FetchTo, NativeSink, PeerSink, PeerWay, Sink, Source};
use accord_gpu::{CudaDevice, inventory};
use accord_types::{DevicePtr, Error, ErrorCode, NodeId, QueueId, Result, Seq, StreamId};
use libtest_mimic::Failed;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

pub(crate) const TESTS: [Case; 5] = [
    ("all_streams_come_after_a_fence", for_all_streams),
    ("copies_that_follow_each_other_come_after_a_fence", in_a_row),
    ("other_devices_come_after_a_fence", for_other_devices),
    ("a_fence_may_be_refused", refused),
    ("memory_is_released_after_a_fenced_copy", released),
];

const SOON: Duration = Duration::from_secs(20);
/// Numbers of a copy that is too long for the driver to read at its call.
const N: i32 = 20_000;
const BYTES: u64 = N as u64 * 8;

/// How a program reads after it has enqueued an operation.
type Way = fn(&BusyDevice, StreamId) -> core::result::Result<Vec<f64>, Failed>;

/// A busy device: in the stream for incoming copies, a copy of fives to its first bytes is behind slow regions.
struct BusyDevice {
    device: Arc<CudaDevice>,
    at: DevicePtr,
    stream: StreamId,
    /// Keeps the device busy until [`BusyDevice::fence`] returns.
    at_work: Cell<Option<SlowRegions>>,
    /// The position of the copy that was fenced last.
    copied: Cell<Seq>,
}

impl BusyDevice {
    fn begin(device: &Arc<CudaDevice>) -> core::result::Result<Self, Failed> {
        let (stream, at) = (device.create_stream(QueueId::INCOMING)?, device.addresses().0);
        let written = write(device, stream, at, doubles((0..N).map(|_| 1.0)))?;
        device.synchronize(stream, written)?;
        let at_work = Cell::new(Some(SlowRegions::hold()));
        // Before a region, because its own work uses other memory.
        for _ in 0..4 {
            double_slowly(device, stream, at.offset(16 * BYTES), 1.0)?;
        }
        Ok(Self { device: device.clone(), at, stream, at_work, copied: Cell::new(written) })
    }

    /// Orders all streams after the copy, which is not done before the returned value is dropped.
    fn fence(&self) -> core::result::Result<Option<SlowRegions>, Failed> {
        let seq = write(&self.device, self.stream, self.at, doubles((0..N).map(|_| 5.0)))?;
        let end = Instant::now() + SOON;
        while !self.device.fence(self.stream, seq) {
            assert!(Instant::now() < end, "it is never in the driver's stream");
            std::thread::yield_now();
        }
        assert!(!self.device.reached(self.stream, seq)?, "nothing has to wait");
        self.copied.set(seq);
        Ok(self.at_work.take())
    }
}

/// The bytes that a sink of another process receives.
struct Elsewhere {
    open: Option<Receiver<()>>,
    got: Sender<f64>,
}

impl Sink for Elsewhere {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        if let Some(open) = self.open.take() {
            let _ = open.recv();
        }
        let (values, _) = piece.as_chunks();
        for value in values {
            let _ = self.got.send(f64::from_ne_bytes(*value));
        }
        Ok(())
    }
}

impl PeerSink for Elsewhere {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Host
    }

    fn follows(&self) -> bool {
        true
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        Ok(PeerWay::Host)
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

/// Every operation of a stream sees the bytes, or is not overwritten by them.
fn for_all_streams() -> Test {
    let ways: [(&str, Way, f64); 6] = [
        ("a region", region, 6.0),
        ("a copy within the device", within, 5.0),
        ("a copy out", |arriving, stream| Ok(read_doubles(&arriving.device, stream, arriving.at, N as u64)?), 5.0),
        ("a copy to another process", |arriving, stream| elsewhere(arriving, stream, 100), 5.0),
        ("a long one", |arriving, stream| elsewhere(arriving, stream, N as u64), 5.0),
        ("bytes of the program", store, 7.0),
    ];
    for (name, way, expected) in ways {
        let device = device()?;
        let stream = device.create_stream(QueueId(1))?;
        let arriving = BusyDevice::begin(&device)?;
        // The stream is ordered after earlier work.
        read_doubles(&device, stream, arriving.at, 1)?;
        arriving.fence()?;
        let values = way(&arriving, stream)?;
        assert!(!values.is_empty() && values.iter().all(|value| *value == expected), "{name}: {:?}", &values[..1]);
        device.shutdown();
    }
    Ok(())
}

fn region(arriving: &BusyDevice, stream: StreamId) -> core::result::Result<Vec<f64>, Failed> {
    add(&arriving.device, stream, arriving.at, N, 1.0)?;
    Ok(read_doubles(&arriving.device, stream, arriving.at, N as u64)?)
}

fn within(arriving: &BusyDevice, stream: StreamId) -> core::result::Result<Vec<f64>, Failed> {
    let there = arriving.at.offset(BYTES);
    arriving.device.copy(stream, there, arriving.at, BYTES)?;
    Ok(read_doubles(&arriving.device, stream, there, N as u64)?)
}

fn elsewhere(arriving: &BusyDevice, stream: StreamId, n: u64) -> core::result::Result<Vec<f64>, Failed> {
    let (got, values) = channel();
    arriving.device.copy_out(stream, arriving.at, n * 8, CopySink::peer(Elsewhere { open: None, got }))?;
    Ok(values.iter().collect())
}

fn store(arriving: &BusyDevice, stream: StreamId) -> core::result::Result<Vec<f64>, Failed> {
    let BusyDevice { device, at, stream: incoming, .. } = arriving;
    let stored = device.store(stream, *at, &doubles([7.0]))?;
    device.synchronize(stream, stored)?;
    let last = write(device, *incoming, at.offset(BYTES), doubles([0.0]))?;
    device.synchronize(*incoming, last)?;
    Ok(read_doubles(device, stream, *at, 1)?)
}

/// A copy that follows one that began before.
fn in_a_row() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let arriving = BusyDevice::begin(&device)?;
    let ((let_go, open), (got, values), (got_first, _first)) = (channel(), channel(), channel());
    let first = Elsewhere { open: Some(open), got: got_first };
    device.copy_out(stream, arriving.at.offset(2 * BYTES), BYTES, CopySink::peer(first))?;
    arriving.fence()?;
    device.copy_out(stream, arriving.at, BYTES, CopySink::peer(Elsewhere { open: None, got }))?;
    let_go.send(())?;
    assert!(values.iter().eq(std::iter::repeat_n(5.0, N as usize)));
    device.shutdown();
    Ok(())
}

/// Copies of another device to this one, and from it.
fn for_other_devices() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    let (device, other) = (device()?, device_with(1, REGIONS, None)?);
    let (stream, of_other) = (device.create_stream(QueueId(1))?, other.create_stream(QueueId(1))?);
    let there = other.addresses().0;
    let written = write(&other, of_other, there, doubles((0..N).map(|_| 9.0)))?;
    other.synchronize(of_other, written)?;
    let arriving = BusyDevice::begin(&device)?;
    let first = read_doubles(&device, stream, arriving.at, 1)?;
    assert_eq!(first, [1.0]);
    arriving.fence()?;
    let from = other.copy_to(of_other, there, &*device, arriving.at, BYTES / 2, None)?.ok_or("two GPUs")?;
    let half = N as u64 / 2;
    let to = device.copy_to(stream, arriving.at.offset(BYTES / 2), &*other, there.offset(BYTES), BYTES / 2, None)?;
    device.synchronize(stream, to.ok_or("two GPUs")?)?;
    other.synchronize(of_other, from)?;
    assert!(read_doubles(&other, of_other, there.offset(BYTES), half)?.iter().all(|value| *value == 5.0));
    assert!(read_doubles(&device, arriving.stream, arriving.at, half)?.iter().all(|value| *value == 9.0));
    [device, other].iter().for_each(|device| device.shutdown());
    Ok(())
}

/// Supplies its bytes once it is released.
struct Late(Receiver<Result<()>>);

impl Source for Late {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.fill(0);
        // Closed at the end of a failed test.
        self.0.recv().unwrap_or(Ok(()))
    }
}

/// No fence if the driver does not have the copy yet, if it has failed, or after two streams at once.
fn refused() -> Test {
    let device = device()?;
    let (at, late) = (device.addresses().0, device.create_stream(QueueId(1))?);
    let (let_go, open) = channel();
    let seq = device.copy_in(late, at.offset(BYTES), 8, CopySource::new(Late(open)))?;
    assert!(!device.fence(late, seq));
    let arriving = BusyDevice::begin(&device)?;
    arriving.fence()?;
    let_go.send(Ok(()))?;
    let end = Instant::now() + SOON;
    while !device.reached(late, seq)? {
        assert!(Instant::now() < end, "it does not come");
    }
    assert!(!device.fence(late, seq), "what was said first is not over");
    // The next query notices it.
    read_doubles(&device, arriving.stream, at, 1)?;
    read_doubles(&device, late, at, 1)?;
    assert!(device.fence(late, seq));
    let (let_go, open) = channel();
    let seq = device.copy_in(late, at, 8, CopySource::new(Late(open)))?;
    let_go.send(Err(Error::new(ErrorCode::System, "the other end went away")))?;
    assert!(device.synchronize(late, seq).is_err());
    assert!(!device.fence(late, seq));
    assert!(!device.fence(StreamId(9999), seq));
    device.shutdown();
    Ok(())
}

/// A stream that has nothing to do releases memory to which a fenced copy is in flight.
fn released() -> Test {
    const CHECKS_HELD: u32 = 50;
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let arriving = BusyDevice::begin(&device)?;
    read_doubles(&device, stream, arriving.at, 1)?;
    let mut at_work = arriving.fence()?;
    let freed = device.unmap(stream, arriving.at, BYTES)?;
    let end = Instant::now() + SOON;
    for look in 0.. {
        if look == CHECKS_HELD {
            at_work = None;
        }
        if device.reached(stream, freed)? {
            assert!(device.reached(arriving.stream, arriving.copied.get())?, "the device still writes there");
            break;
        }
        assert!(Instant::now() < end, "it is never released");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(at_work);
    device.shutdown();
    Ok(())
}

/// An operation that can't be ordered after the fence is not enqueued. It is ordered once the driver allows it again.
pub(crate) fn without_events() -> Test {
    const OUT_OF_MEMORY: i32 = 2;
    for call in ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"] {
        let device = device()?;
        let stream = device.create_stream(QueueId(1))?;
        let arriving = BusyDevice::begin(&device)?;
        read_doubles(&device, stream, arriving.at, 1)?;
        let at_work = arriving.fence()?;
        fake::fail(call, 0, OUT_OF_MEMORY);
        let failed = add(&device, stream, arriving.at, N, 1.0).expect_err(call);
        assert_eq!(failed.code(), ErrorCode::OutOfMemory, "{call}: {failed}");
        drop(at_work);
        assert!(region(&arriving, stream)?.iter().all(|value| *value == 6.0), "{call}");
        device.shutdown();
    }
    Ok(())
}

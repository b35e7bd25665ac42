//! Copies whose bytes a library reads from device memory, and writes there.

use super::{Test, add, device, double_slowly, doubles, read_doubles, write};
use accord_device::{CopySink, CopySource, Device, FetchTo, NativeHandles, NativeSink, NativeSource, Sink, Source};
use accord_gpu::{CudaConfig, CudaDevice, inventory};
use accord_types::{DevicePtr, ErrorCode, NativeRange, NodeId, QueueId, Result, Seq, StreamId};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Gives a sink a peer's bytes by the library alone. They are fetched to the second argument.
macro_rules! peer_by_library {
    ($sink:ty, $fetch_to:expr) => {
        impl accord_device::PeerSink for $sink {
            fn fetch_to(&self) -> accord_device::FetchTo {
                $fetch_to
            }

            fn follows(&self) -> bool {
                false
            }

            fn way(&mut self, _: bool) -> accord_types::Result<accord_device::PeerWay> {
                Ok(accord_device::PeerWay::Library)
            }

            fn native(&mut self) -> Option<&mut dyn accord_device::NativeSink> {
                Some(self)
            }
        }
    };
}

pub(crate) use peer_by_library;

/// A library that can access the device's memory, in a stream of its own that waits for no other.
#[derive(Clone)]
struct Library {
    device: Arc<CudaDevice>,
    stream: StreamId,
    taken: Arc<Mutex<Vec<f64>>>,
}

impl Sink for Library {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("the bytes are taken where they are")
    }
}

peer_by_library!(Library, FetchTo::Nowhere);

impl NativeSink for Library {
    fn is_concurrent(&self) -> bool {
        false
    }

    fn start(&mut self, bytes: NativeRange) -> Result<()> {
        assert!(bytes.context.enter(), "the context is alive");
        let values = read_doubles(&self.device, self.stream, DevicePtr(bytes.address), bytes.len as u64 / 8)?;
        self.taken.lock().expect("test lock").extend(values);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Writes all but some middle bytes to device memory.
struct PartialFill {
    library: Library,
    at: usize,
}

const PIECE: usize = 1 << 20;
const HOSTS: std::ops::Range<usize> = PIECE..PIECE + 4096;

impl Source for PartialFill {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        // The device requests more bytes than this way supplies: the rest arrives this way too.
        for byte in piece.chunks_mut(8) {
            byte.copy_from_slice(&2.5_f64.to_ne_bytes());
        }
        self.at += piece.len();
        Ok(())
    }
}

impl NativeSource for PartialFill {
    fn fill_native(&mut self, space: NativeRange) -> Result<usize> {
        if HOSTS.contains(&self.at) {
            return Ok(0);
        }
        let len = space.len.min(PIECE);
        let Library { device, stream, .. } = &self.library;
        let seq = write(device, *stream, DevicePtr(space.address), doubles(std::iter::repeat_n(1.5, len / 8)))?;
        device.synchronize(*stream, seq)?;
        self.at += len;
        Ok(len)
    }
}

fn library(device: &Arc<CudaDevice>) -> Result<Library> {
    Ok(Library { device: device.clone(), stream: device.create_stream(QueueId(9))?, taken: Arc::default() })
}

/// The library sees all earlier work of the stream done, and later work not begun.
pub(crate) fn taken_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 100_000);
    let library = library(&device)?;
    write(&device, stream, at, doubles((0..n).map(|_| 1.0)))?;
    add(&device, stream, at, n, 1.0)?;
    double_slowly(&device, stream, at, 1.0)?;
    let seq = device.copy_out(stream, at, n as u64 * 8, CopySink::peer(library.clone()))?;
    add(&device, stream, at, n, 10.0)?;
    device.synchronize(stream, seq)?;
    let first = read_doubles(&device, stream, at, 1)?[0] - 10.0;
    let taken = library.taken.lock().expect("test lock");
    assert_eq!(taken.len(), n as usize);
    assert!(taken[0] == first && first > 2.0 && taken[1..].iter().all(|value| *value == 2.0), "{first}");
    device.shutdown();
    Ok(())
}

/// Bytes through the host and bytes written directly are contiguous, and ordered after earlier operations.
pub(crate) fn given_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 4 * PIECE / 8);
    let library = library(&device)?;
    write(&device, stream, at, doubles(std::iter::repeat_n(7.0, n)))?;
    // The library writes once this is done.
    double_slowly(&device, stream, at, 1.0)?;
    let gives = PartialFill { library, at: 0 };
    device.copy_in(stream, at, n as u64 * 8, CopySource::native(gives))?;
    add(&device, stream, at, n as i32, 1.0)?;
    let all = read_doubles(&device, stream, at, n as u64)?;
    let of_host = all.iter().filter(|value| **value == 3.5).count();
    assert!(all[..PIECE / 8].iter().all(|value| *value == 2.5), "put there");
    assert!(all[PIECE / 8] == 3.5 && of_host >= HOSTS.len() / 8 && of_host < n, "by the host: {of_host}");
    assert!(all.iter().all(|value| *value == 2.5 || *value == 3.5));
    device.shutdown();
    Ok(())
}

/// A range is the device's address and its context.
pub(crate) fn ranges() -> Test {
    let device = device()?;
    let start = device.addresses().0;
    let range = device.range(start, 100);
    assert_eq!((range.address, range.len), (start.0, 100));
    assert!(range.context.enter());
    // A library may write to all of the memory, and nowhere else.
    let end = (1..).map(|mib| start.offset(mib << 20)).find(|end| device.space(*end, 1).is_none()).ok_or("an end")?;
    let len = usize::try_from(end.0 - start.0)?;
    assert_eq!(device.space(start, len).map(|space| (space.address, space.len)), Some((start.0, len)));
    let outside = [(start, len + 1), (DevicePtr(start.0 - 1), 2), (end, 1), (start, 0), (DevicePtr(u64::MAX), 2)];
    assert!(outside.iter().all(|(start, len)| device.space(*start, *len).is_none()));
    device.map(end, 4 << 20)?;
    assert!(device.space(start, len + 1).is_some() && device.space(end.offset(4 << 20), 1).is_none());
    device.shutdown();
    assert!(device.space(start, 1).is_none());
    Ok(())
}

/// Another process may have other numbers for the same GPUs.
pub(crate) fn found_by_uuid() -> Test {
    let here = inventory(NodeId(0), "here").devices;
    let last = here.last().ok_or("there is no device")?;
    let numbered = |ordinal| {
        let mut info = last.clone();
        info.id.ordinal = ordinal;
        info
    };
    for ordinal in [0, last.id.ordinal, 1000] {
        let device = CudaDevice::start(numbered(ordinal), CudaConfig::default())?;
        assert_eq!(device.device(), i32::try_from(last.id.ordinal)?);
        assert_eq!(device.info().id.ordinal, ordinal);
    }
    let hidden = accord_types::DeviceInfo { uuid: "GPU-elsewhere".into(), ..last.clone() };
    let error = CudaDevice::start(hidden, CudaConfig::default()).err().ok_or("it was found")?;
    assert_eq!(error.code(), ErrorCode::DeviceInit);
    assert!(error.cause().contains("GPU-elsewhere") && error.remedy_text().is_some(), "{error}");
    Ok(())
}

/// Accepts bytes as long as it is permitted.
struct Slow {
    begun: Sender<()>,
    ends: Receiver<()>,
}

impl Sink for Slow {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("the bytes are taken where they are")
    }
}

peer_by_library!(Slow, FetchTo::Nowhere);

impl NativeSink for Slow {
    fn is_concurrent(&self) -> bool {
        false
    }

    fn start(&mut self, _: NativeRange) -> Result<()> {
        self.begun.send(()).expect("the test waits");
        self.ends.recv().expect("the test says so");
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The memory stays while it is read, and later callers get the device's end.
pub(crate) fn shutdown_waits() -> Test {
    let device = device()?;
    let [stream, other] = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let at = device.addresses().0;
    let ((begun, begins), (end, ends)) = (channel(), channel());
    device.copy_out(stream, at, 1 << 20, CopySink::peer(Slow { begun, ends }))?;
    begins.recv().expect("its turn comes");
    let (over, is_over) = channel();
    let of_thread = device.clone();
    let ending = std::thread::spawn(move || {
        of_thread.shutdown();
        over.send(()).expect("the test waits");
    });
    while device.reached(other, Seq(0)).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(is_over.recv_timeout(Duration::from_millis(100)).is_err(), "the memory is still read");
    end.send(()).expect("it waits");
    is_over.recv().expect("then it ends");
    ending.join().expect("no panic");
    Ok(())
}

//! Copies whose bytes somebody takes out of the device's own memory, and puts there.

use super::{Test, add, device, double_slowly, doubles, read_doubles, write};
use accord_device::cuda::CudaDevice;
use accord_device::{CopySink, CopySource, Device, NativeHandles, Sink, Source};
use accord_types::{DevicePtr, NativeRange, QueueId, Result, StreamId};
use std::sync::{Arc, Mutex};

/// A library that reaches the device's memory: it uses a stream of its own, which waits for nothing.
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

    fn drains_native(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn drain_native(&mut self, bytes: NativeRange) -> Result<()> {
        assert!(bytes.context.enter(), "the context is alive");
        let values = read_doubles(&self.device, self.stream, DevicePtr(bytes.address), bytes.len as u64 / 8)?;
        self.taken.lock().expect("test lock").extend(values);
        Ok(())
    }
}

/// Gives all but some bytes in the middle into the device's memory.
struct Gives {
    library: Library,
    at: usize,
}

const PIECE: usize = 1 << 20;
const HOSTS: std::ops::Range<usize> = PIECE..PIECE + 4096;

impl Source for Gives {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        // The device asks for more than comes in this way: the rest comes in it, too.
        for byte in piece.chunks_mut(8) {
            byte.copy_from_slice(&2.5_f64.to_ne_bytes());
        }
        self.at += piece.len();
        Ok(())
    }

    fn fills_native(&self) -> bool {
        true
    }

    fn fill_native(&mut self, room: NativeRange) -> Result<usize> {
        if HOSTS.contains(&self.at) {
            return Ok(0);
        }
        let len = room.len.min(PIECE);
        let Library { device, stream, .. } = &self.library;
        let seq = write(device, *stream, DevicePtr(room.address), doubles(std::iter::repeat_n(1.5, len / 8)))?;
        device.synchronize(*stream, seq)?;
        self.at += len;
        Ok(len)
    }
}

fn library(device: &Arc<CudaDevice>) -> Result<Library> {
    Ok(Library { device: device.clone(), stream: device.create_stream(QueueId(9))?, taken: Arc::default() })
}

/// Whoever takes them finds what stood before in the stream done, and what comes after not begun.
pub(crate) fn taken_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 100_000);
    let library = library(&device)?;
    write(&device, stream, at, doubles((0..n).map(|_| 1.0)))?;
    add(&device, stream, at, n, 1.0)?;
    double_slowly(&device, stream, at, 1.0)?;
    let seq = device.copy_out(stream, at, n as u64 * 8, CopySink::new(library.clone()))?;
    add(&device, stream, at, n, 10.0)?;
    device.synchronize(stream, seq)?;
    let first = read_doubles(&device, stream, at, 1)?[0] - 10.0;
    let taken = library.taken.lock().expect("test lock");
    assert_eq!(taken.len(), n as usize);
    assert!(taken[0] == first && first > 2.0 && taken[1..].iter().all(|value| *value == 2.0), "{first}");
    device.shutdown();
    Ok(())
}

/// Bytes that come by the host and bytes that are put there lie one after the other, and after what stood before.
pub(crate) fn given_in_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let (at, n) = (device.addresses().0, 4 * PIECE / 8);
    let library = library(&device)?;
    write(&device, stream, at, doubles(std::iter::repeat_n(7.0, n)))?;
    // It writes there when it is done.
    double_slowly(&device, stream, at, 1.0)?;
    let gives = Gives { library, at: 0 };
    device.copy_in(stream, at, n as u64 * 8, CopySource::new(gives))?;
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
    device.shutdown();
    Ok(())
}

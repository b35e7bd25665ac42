//! Devices that are shut down while another thread is about to pass work to the driver.

use super::{Test, device, range};
use crate::ends::{Bytes, keep};
use crate::support::fake;
use crate::then::then;
use accord_device::{CopySink, CopySource, Device};
use accord_gpu::CudaDevice;
use accord_types::{DevicePtr, QueueId, Result, Seq, StreamId};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The time that the driver waits before it checks a copy's addresses, during which the device is shut down.
const DAWDLES: Duration = Duration::from_millis(40);
/// More than one slot, so that several threads share it.
const LONG: usize = 6 << 20;

type Put = fn(&CudaDevice, StreamId, DevicePtr, &'static [u8]) -> Result<Seq>;

/// Work that a worker is about to pass to the driver during a shutdown only uses memory that still exists.
pub(crate) fn before_memory_goes() -> Test {
    let ways: [(&str, Put); 7] = [
        ("few bytes in", |device, stream, at, _| device.store(stream, at, &[1; 8])),
        ("a copy within", |device, stream, at, _| device.copy(stream, at.offset(LONG as u64), at, 4096)),
        ("an array in", |device, stream, at, memory| {
            let source = CopySource::program(range(memory), false);
            device.copy_in(stream, at, LONG as u64, source)
        }),
        ("bytes from elsewhere", |device, stream, at, _| {
            device.copy_in(stream, at, 1 << 20, CopySource::new(Bytes(vec![1; 1 << 20], 0)))
        }),
        ("an array out", |device, stream, at, memory| {
            device.copy_out(stream, at, LONG as u64, CopySink::program(range(memory), false))
        }),
        ("bytes for elsewhere", |device, stream, at, _| {
            device.copy_out(stream, at, LONG as u64, keep(&Arc::default(), false))
        }),
        ("few bytes out", |device, stream, at, memory| {
            device.copy_out(stream, at, 64, CopySink::program(range(&memory[..64]), false))
        }),
    ];
    for (way, put) in ways {
        let device = device()?;
        let stream = device.create_stream(QueueId(1))?;
        let at = device.addresses().0;
        let memory: &'static [u8] = Vec::leak(vec![3; LONG]);
        // After the host's work, the worker performs all of it.
        let (let_go, open) = channel::<()>();
        then(&*device, stream, (at, 8), move || {
            let _ = open.recv();
            Ok(())
        })?;
        put(&device, stream, at, memory)?;
        fake::dawdle(DAWDLES.as_micros().try_into()?);
        let_go.send(())?;
        std::thread::sleep(DAWDLES / 4);
        device.shutdown();
        // The worker may notice later.
        std::thread::sleep(2 * DAWDLES);
        fake::dawdle(0);
        assert_eq!(fake::strays(), 0, "{way}");
    }
    Ok(())
}

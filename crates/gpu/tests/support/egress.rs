//! Copies out whose bytes a network accepts at its own pace.

use super::{Test, add, device, doubles, read_doubles, write};
use crate::support::fake;
use crate::then::then;
use accord_device::{CopySink, Device, MovesWhen, Sink};
use accord_types::{ErrorCode, QueueId, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Forwards its bytes once it is released.
struct Network {
    open: Receiver<()>,
    got: Sender<Vec<u8>>,
    bytes: Vec<u8>,
}

impl Sink for Network {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        if self.bytes.is_empty() {
            // Closed at the end of a failed test.
            let _ = self.open.recv();
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let _ = self.got.send(std::mem::take(&mut self.bytes));
        Ok(())
    }
}

pub(crate) fn goes_on() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let n = 600_000u64;
    // Some after other work of the host, some not.
    for count in [1000, n, n] {
        let len = count * 8;
        write(&device, stream, at, doubles((0..count).map(|_| 1.0)))?;
        let (open, waits) = channel();
        let (got, bytes) = channel();
        device.copy_out(
            stream,
            at,
            len,
            CopySink::when(MovesWhen::Detached, Network { open: waits, got, bytes: Vec::new() }),
        )?;
        add(&device, stream, at, count as i32, 1.0)?;
        // The network has accepted no bytes yet.
        assert_eq!(read_doubles(&device, stream, at, 4)?, [2.0; 4], "{len} bytes");
        assert!(bytes.try_recv().is_err());
        open.send(()).map_err(|_| "the bytes are not taken")?;
        let bytes = bytes.recv().map_err(|_| "the bytes were dropped")?;
        assert!(bytes == doubles((0..count).map(|_| 1.0)), "{len} bytes");
    }
    // A device does not wait for such a network at its end.
    let (open, waits) = channel();
    let (got, _) = channel();
    device.copy_out(
        stream,
        at,
        n,
        CopySink::when(MovesWhen::Detached, Network { open: waits, got, bytes: Vec::new() }),
    )?;
    device.shutdown();
    drop(open);
    Ok(())
}

/// A network holds a lane, which other copies need, until its copy is over.
pub(crate) fn given_up() -> Test {
    for (call, after) in [("cuMemHostAlloc", 1), ("cuMemcpyDtoHAsync_v2", 2)] {
        for busy in [true, false] {
            let device = device()?;
            let stream = device.create_stream(QueueId(1))?;
            let (go, wait) = channel::<()>();
            if busy {
                let held = move || {
                    let _ = wait.recv();
                    Ok(())
                };
                then(&*device, stream, (device.addresses().0, 1), held)?;
            }
            let (open, waits) = channel();
            let (got, bytes) = channel();
            fake::fail(call, after, 2);
            let sink = CopySink::when(MovesWhen::Detached, Network { open: waits, got, bytes: Vec::new() });
            let put = device.copy_out(stream, device.addresses().0, 24 << 20, sink);
            drop((go, open));
            let failed = put.and_then(|seq| device.synchronize(stream, seq)).expect_err("it did not work");
            assert_eq!(failed.code(), ErrorCode::OutOfMemory, "{call}, busy: {busy}: {failed}");
            let end = bytes.recv_timeout(Duration::from_secs(10));
            assert_eq!(end, Err(RecvTimeoutError::Disconnected), "{call}, busy: {busy}");
        }
    }
    Ok(())
}

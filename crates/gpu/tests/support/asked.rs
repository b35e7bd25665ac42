//! Counts how often waiters query the driver.

use super::{Test, device};
use crate::ends::Spans;
use crate::support::fake;
use accord_device::{CopySink, CopySource, Device, FetchTo, NativeSink, NativeSource, PeerSink, PeerWay, Sink, Source};
use accord_types::{NativeRange, QueueId, Result, SpanKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);
/// An error that ends no context.
const NOT_PERMITTED: i32 = 800;

/// Blocks in its turn until it is released, and again before it ends.
struct Waits {
    begun: Sender<()>,
    open: Receiver<()>,
}

impl Waits {
    fn wait(&self) {
        // Closed at the end of a failed test.
        let _ = self.begun.send(());
        let _ = self.open.recv();
    }
}

impl Sink for Waits {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.wait();
        Ok(())
    }
}

impl PeerSink for Waits {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Nowhere
    }

    fn follows(&self) -> bool {
        false
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        self.wait();
        Ok(PeerWay::Host)
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

/// A thread that performs an operation needs the driver, which admits one at a time.
pub(crate) fn no_cached_state() -> Test {
    const TIMES: u32 = 1_000;
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let end = Instant::now() + SOON;
    let waits = || {
        let (begun, begins) = channel();
        let (let_go, open) = channel();
        (begins, let_go, CopySink::peer(Waits { begun, open }))
    };
    let (begins, let_go, sink) = waits();
    let seq = device.copy_out(stream, at, 8, sink)?;
    let later = device.copy(stream, at.offset(8), at, 8)?;
    begins.recv_timeout(SOON).map_err(|_| "its turn has not come")?;
    let before = fake::calls();
    for _ in 0..TIMES {
        assert!(!device.reached(stream, seq)? && !device.reached(stream, later)?);
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what the host works on");
    let_go.send(())?;
    let_go.send(())?;
    while !device.reached(stream, later)? {
        assert!(Instant::now() < end, "it does not end");
    }
    assert!(fake::calls() > before);
    // Once the position is known to be reached, the driver is not queried again.
    let before = fake::calls();
    for _ in 0..TIMES {
        assert!(device.reached(stream, seq)? && device.reached(stream, later)?);
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what is done");
    // The last bytes of a copy out were waited for, so that no query is needed.
    let (begins, let_go, sink) = waits();
    let seq = device.copy_out(stream, at, 8, sink)?;
    let_go.send(())?;
    for _ in 0..2 {
        begins.recv_timeout(SOON).map_err(|_| "it does not end")?;
    }
    let before = fake::calls();
    let_go.send(())?;
    while !device.reached(stream, seq)? {
        assert!(Instant::now() < end, "it does not end");
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what its event had told");
    // The driver also does not know of bytes that another party has written.
    let (begun, begins) = channel();
    let (let_go, open) = channel();
    let seq = device.copy_in(stream, at, 8, CopySource::native(Puts(Waits { begun, open })))?;
    begins.recv_timeout(SOON).map_err(|_| "its turn has not come")?;
    let before = fake::calls();
    let_go.send(())?;
    while !device.reached(stream, seq)? {
        assert!(Instant::now() < end, "it does not end");
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what it had no part in");
    Ok(())
}

/// Reports that all bytes are in device memory, once it is released.
struct Puts(Waits);

impl Source for Puts {
    fn fill(&mut self, _: &mut [u8]) -> Result<()> {
        unreachable!("nothing is left")
    }
}

impl NativeSource for Puts {
    fn fill_native(&mut self, space: NativeRange) -> Result<usize> {
        self.0.wait();
        Ok(space.len)
    }
}

/// A span is reported at the next wait for the stream, even if the host itself knows the copy's end.
pub(crate) fn traced_copies_are_reported() -> Test {
    let device = device()?;
    let spans = Arc::new(Spans::default());
    device.trace(spans.clone());
    let stream = device.create_stream(QueueId(1))?;
    let (begun, _begins) = channel();
    let (let_go, open) = channel();
    let seq = device.copy_out(stream, device.addresses().0, 8, CopySink::peer(Waits { begun, open }))?;
    let_go.send(())?;
    let_go.send(())?;
    device.synchronize(stream, seq)?;
    let spans = spans.0.lock().expect("test lock");
    let seen: Vec<_> = spans.iter().map(|span| (span.kind, span.bytes)).collect();
    assert_eq!(seen, [(SpanKind::CopyOut, 8)]);
    Ok(())
}

/// A source of another process, which delivers late.
struct Late {
    waits: Waits,
    over: Sender<()>,
}

impl Source for Late {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.waits.wait();
        bytes.fill(1);
        Ok(())
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        let _ = self.over.send(());
    }
}

/// Bytes of other processes that arrive after the device's end are not passed to the driver, because its memory may have been reused.
pub(crate) fn nothing_after_shutdown() -> Test {
    for len in [8, 1 << 20] {
        let device = device()?;
        let stream = device.create_stream(QueueId(1))?;
        let ((begun, begins), (let_go, open), (over, is_over)) = (channel(), channel(), channel());
        let late = Late { waits: Waits { begun, open }, over };
        device.copy_in(stream, device.addresses().0, len, CopySource::new(late))?;
        begins.recv_timeout(SOON).map_err(|_| "its turn has not come")?;
        // No thread waits for bytes that may never arrive.
        device.shutdown();
        // For the next such copy.
        fake::fail("cuMemcpyHtoDAsync_v2", 0, NOT_PERMITTED);
        let_go.send(())?;
        is_over.recv_timeout(SOON).map_err(|_| "it goes on")?;
        let device = super::device()?;
        let stored = device.store(device.create_stream(QueueId(1))?, device.addresses().0, &[1; 8]);
        assert!(stored.is_err() || !fake::is_loaded(), "the driver was given {len} bytes");
    }
    Ok(())
}

//! How often the driver is asked by who waits.

use super::{Test, device};
use crate::support::fake;
use accord_device::{CopySink, Device, MappedRange, Sink};
use accord_types::{QueueId, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// Stays in its turn until it is let go.
struct Waits {
    begun: Sender<()>,
    open: Receiver<()>,
}

impl Sink for Waits {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn mapped_range(&mut self) -> Result<Option<MappedRange>> {
        // Closed at the end of a test that has failed already.
        let _ = self.begun.send(());
        let _ = self.open.recv();
        Ok(None)
    }
}

/// Who works on an operation needs the driver, which lets one in at a time.
pub(crate) fn nothing_of_what_is_known() -> Test {
    const TIMES: u32 = 1_000;
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let (begun, begins) = channel();
    let (let_go, open) = channel();
    let seq = device.copy_out(stream, at, 8, CopySink::new(Waits { begun, open }))?;
    let later = device.copy(stream, at.offset(8), at, 8)?;
    begins.recv_timeout(SOON).map_err(|_| "its turn has not come")?;
    let before = fake::calls();
    for _ in 0..TIMES {
        assert!(!device.reached(stream, seq)? && !device.reached(stream, later)?);
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what the host works on");
    let_go.send(())?;
    let end = Instant::now() + SOON;
    while !device.reached(stream, later)? {
        assert!(Instant::now() < end, "it does not end");
    }
    assert!(fake::calls() > before);
    // Once it is known the driver is not asked again.
    let before = fake::calls();
    for _ in 0..TIMES {
        assert!(device.reached(stream, seq)? && device.reached(stream, later)?);
    }
    assert_eq!(fake::calls(), before, "the driver was asked about what is done");
    Ok(())
}

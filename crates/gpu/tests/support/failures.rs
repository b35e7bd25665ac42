//! The time at which a stream's failure is reported.

use super::{Test, device, double_slowly, doubles, read_doubles, write};
use accord_device::{CopySource, Device, Source};
use accord_types::{Error, ErrorCode, QueueId, Result};
use std::sync::mpsc::channel;
use std::time::Duration;

struct Gone;

impl Source for Gone {
    fn fill(&mut self, _: &mut [u8]) -> Result<()> {
        Err(Error::new(ErrorCode::DeviceUnavailable, "the other end went away"))
    }
}

/// Earlier operations are done by then, so that none writes to memory that is reused.
pub(crate) fn in_their_turn() -> Test {
    let device = device()?;
    let (bad, good) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    // Waited for in turn, and notified.
    for (reported, waits) in [(1.0, true), (2.0, false)] {
        let stream = if waits { bad } else { device.create_stream(QueueId(3))? };
        let seq = write(&device, good, at, doubles([reported]))?;
        device.synchronize(good, seq)?;
        double_slowly(&device, stream, at, 0.5)?;
        let seq = device.copy_in(stream, at.offset(64), 8, CopySource::new(Gone))?;
        if waits {
            device.synchronize(stream, seq).expect_err("it has failed");
        } else {
            let (notify, received) = channel();
            let telling = move |outcome: Result<()>| {
                // A failed test no longer receives it.
                let _ = notify.send(outcome.is_err());
            };
            device.notify(stream, seq, Box::new(telling));
            assert!(received.recv_timeout(Duration::from_secs(20))?, "it has failed");
        }
        assert_eq!(read_doubles(&device, good, at, 1)?, [2.0 * reported + 0.5]);
    }
    device.shutdown();
    Ok(())
}

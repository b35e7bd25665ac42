//! What the host does in a stream's order.

use accord_device::{CopySink, Device, Sink};
use accord_types::{DevicePtr, Result, Seq, StreamId};

/// What the host does when a copy out has come.
type Act = Box<dyn FnOnce() -> Result<()> + Send>;

struct Then(Option<Act>);

impl Sink for Then {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), |act| act())
    }
}

/// Has the host do something in the stream's order, when `len` bytes at `at` have come.
pub(crate) fn then(
    device: &dyn Device,
    stream: StreamId,
    at: (DevicePtr, u64),
    act: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<Seq> {
    device.copy_out(stream, at.0, at.1, CopySink::new(Then(Some(Box::new(act)))))
}

//! What the host does in a stream's order.

use accord_device::{CopySink, Device, Sink};
use accord_types::{DevicePtr, Result, Seq, StreamId};

/// What the host does when a copy out has come.
type Act = Box<dyn FnOnce() -> Result<()> + Send>;

struct Then {
    left: u64,
    act: Option<Act>,
}

impl Sink for Then {
    /// What comes next in the stream waits for this, and not for the end.
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.left -= piece.len() as u64;
        let act = self.act.take_if(|_| self.left == 0);
        act.map_or(Ok(()), |act| act())
    }
}

/// Has the host do something in the stream's order, when `len` bytes at `at` have come.
pub(crate) fn then(
    device: &dyn Device,
    stream: StreamId,
    at: (DevicePtr, u64),
    act: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<Seq> {
    device.copy_out(stream, at.0, at.1, CopySink::new(Then { left: at.1, act: Some(Box::new(act)) }))
}

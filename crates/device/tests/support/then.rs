//! Work of the host in a stream's order.

use accord_device::{CopySink, Device, Sink};
use accord_types::{DevicePtr, Result, Seq, StreamId};

/// The host's work after the bytes of a copy out have arrived.
type Act = Box<dyn FnOnce() -> Result<()> + Send>;

struct Then {
    left: u64,
    act: Option<Act>,
}

impl Sink for Then {
    /// The stream's next operation waits for this call, not for the end.
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.left -= piece.len() as u64;
        let act = self.act.take_if(|_| self.left == 0);
        act.map_or(Ok(()), |act| act())
    }
}

/// Lets the host run `act` in the stream's order, once `len` bytes at `at` have arrived.
pub(crate) fn then(
    device: &dyn Device,
    stream: StreamId,
    at: (DevicePtr, u64),
    act: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<Seq> {
    device.copy_out(stream, at.0, at.1, CopySink::new(Then { left: at.1, act: Some(Box::new(act)) }))
}

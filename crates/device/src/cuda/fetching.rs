//! Few bytes that leave the process by the host: their copy out of the device begins when they are asked for, and is under way while the stream's
//! worker is told of it. That takes as long as a third of the copy.

use super::driver::DriverError;
use super::staging::fetched::Fetched;
use super::stream::{Op, Stream, StreamProgress};
use super::stream_worker::fill_slot;
use crate::CopySink;
use accord_types::{DevicePtr, Result, Seq, SpanKind};
use std::sync::Arc;

impl Stream {
    /// Puts a copy out of few bytes into the list, for a sink that takes them from the host's memory. They are fetched at once if nothing is
    /// ahead there and a slot is free. The device's context is current.
    pub(crate) fn put_fetched(self: &Arc<Self>, src: DevicePtr, len: u64, sink: CopySink) -> Result<Seq> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        let fetched = if state.is_idle() { self.fetch(&mut state, src, len) } else { Ok(None) };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                drop(state);
                return Err(self.shared.driver_failed(error, Some(self.queue)));
            }
        };
        self.push(state, Op::CopyOut { src, len, sink, fetched })
    }

    fn fetch(&self, state: &mut StreamProgress, src: DevicePtr, len: u64) -> Result<Option<Fetched>, DriverError> {
        self.await_clear(state)?;
        let Some(slot) = self.shared.small.try_take()? else { return Ok(None) };
        let span = self.shared.tracer.begin(self.raw);
        // The device may write there, whatever the driver says of it.
        let fetched = Fetched::new(slot);
        fetched.filled_by(|slot| fill_slot(self, slot, src.0, len as usize))?;
        self.shared.tracer.end(span, (self.raw, self.queue), SpanKind::CopyOut, len, String::new);
        Ok(Some(fetched))
    }
}

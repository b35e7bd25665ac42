//! Sources and sinks of copies, and a sink of spans, for all tests of devices.

use accord_device::{CopySink, Device, MovesWhen, Sink, Source};
use accord_types::{DevicePtr, Result, Span, SpanSink, StreamId};
use std::sync::{Arc, Mutex};

/// A source of these bytes, with the number of those read.
pub(crate) struct Bytes(pub(crate) Vec<u8>, pub(crate) usize);

impl Source for Bytes {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.copy_from_slice(&self.0[self.1..][..piece.len()]);
        self.1 += piece.len();
        Ok(())
    }
}

/// A sink that keeps the bytes.
struct Collect(Arc<Mutex<Vec<u8>>>);

/// Returns a sink that appends the bytes to `kept`.
pub(crate) fn keep(kept: &Arc<Mutex<Vec<u8>>>, immediate: bool) -> CopySink {
    let when = if immediate { MovesWhen::AtOnce } else { MovesWhen::InTurn };
    CopySink::when(when, Collect(Arc::clone(kept)))
}

impl Sink for Collect {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.0.lock().expect("test lock").extend_from_slice(piece);
        Ok(())
    }
}

/// Reads bytes at a device address, in both possible ways.
pub(crate) fn read(device: &dyn Device, stream: StreamId, at: DevicePtr, len: u64) -> Result<Vec<u8>> {
    let bytes = Arc::default();
    let seq = device.copy_out(stream, at, len, keep(&bytes, len.is_multiple_of(16)))?;
    device.synchronize(stream, seq)?;
    let bytes = bytes.lock().expect("test lock").clone();
    Ok(bytes)
}

/// Keeps the spans of a device.
#[derive(Default)]
pub(crate) struct Spans(pub(crate) Mutex<Vec<Span>>);

impl SpanSink for Spans {
    fn span(&self, span: Span) {
        self.0.lock().expect("test lock").push(span);
    }
}

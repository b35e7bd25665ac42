//! Reports the times of operations, if tracing is on, by the driver's events around each operation.

use super::context::Context;
use super::driver::DriverError;
use accord_types::turn_lock::TurnLock;
use accord_types::{DeviceId, QueueId, Span, SpanKind, SpanSink};
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

pub(crate) struct Tracer {
    device: DeviceId,
    context: Arc<Context>,
    on: OnceLock<On>,
    under_way: TurnLock<Vec<OpenSpan>>,
}

struct On {
    sink: Arc<dyn SpanSink>,
    /// A moment by the device's clock, and by the host's in nanoseconds.
    base: CUevent,
    base_ns: u64,
}

struct OpenSpan {
    queue: QueueId,
    kind: SpanKind,
    name: String,
    bytes: u64,
    start: CUevent,
    end: CUevent,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for On {}
// SAFETY: as above.
unsafe impl Sync for On {}
// SAFETY: as above.
unsafe impl Send for OpenSpan {}

/// The start of an operation; `None` if tracing is off.
pub(crate) struct Start(Option<CUevent>);

impl Tracer {
    pub(crate) fn new(device: DeviceId, context: Arc<Context>) -> Self {
        Self { device, context, on: OnceLock::new(), under_way: TurnLock::default() }
    }

    /// Reports to `sink` from now on. The first sink stays. The context is current.
    pub(crate) fn start(&self, sink: Arc<dyn SpanSink>) -> Result<(), DriverError> {
        let base = self.record(null_mut())?;
        // SAFETY: the event was just recorded.
        unsafe { self.context.driver.cuEventSynchronize(base) }?;
        let _ = self.on.set(On { sink, base, base_ns: now_ns() });
        Ok(())
    }

    /// Whether tracing is on.
    pub(crate) fn is_on(&self) -> bool {
        self.on.get().is_some()
    }

    /// Records that an operation enters a stream.
    #[inline]
    pub(crate) fn begin(&self, stream: CUstream) -> Start {
        // A trace without this operation is better than no operation.
        Start(self.on.get().and_then(|_| self.record(stream).ok()))
    }

    /// Records the end of an operation that is in the stream.
    #[inline]
    pub(crate) fn end(
        &self,
        start: Start,
        (stream, queue): (CUstream, QueueId),
        kind: SpanKind,
        bytes: u64,
        name: impl FnOnce() -> String,
    ) {
        let Start(Some(start)) = start else { return };
        let Ok(end) = self.record(stream) else { return };
        self.keep(OpenSpan { queue, kind, name: name(), bytes, start, end });
    }

    #[cold]
    fn keep(&self, span: OpenSpan) {
        self.under_way.take().push(span);
    }

    /// Reports the operations that have ended since the last call.
    pub(crate) fn drain(&self) {
        let Some(on) = self.on.get() else { return };
        let mut under_way = self.under_way.take();
        under_way.retain(|span| {
            let (Some(start_ns), Some(end_ns)) = (self.time(on, span.start), self.time(on, span.end)) else {
                return true;
            };
            on.sink.span(Span {
                device: self.device,
                queue: span.queue,
                kind: span.kind,
                name: span.name.clone(),
                bytes: span.bytes,
                start_ns,
                end_ns,
            });
            // SAFETY: the events have no other owner.
            unsafe {
                let _ = self.context.driver.cuEventDestroy_v2(span.start);
                let _ = self.context.driver.cuEventDestroy_v2(span.end);
            }
            false
        });
    }

    /// Returns the time of an event, or `None` if it has not happened.
    fn time(&self, on: &On, event: CUevent) -> Option<u64> {
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive and support timing. An event that has not happened is an error.
        unsafe { self.context.driver.cuEventElapsedTime(&raw mut milliseconds, on.base, event) }.ok()?;
        Some(on.base_ns + (f64::from(milliseconds).max(0.0) * 1e6) as u64)
    }

    fn record(&self, stream: CUstream) -> Result<CUevent, DriverError> {
        let mut event = null_mut();
        // SAFETY: `event` is valid for writing; the stream is alive.
        unsafe {
            self.context.driver.cuEventCreate(&raw mut event, 0)?;
            self.context.driver.cuEventRecord(event, stream)?;
        }
        Ok(event)
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

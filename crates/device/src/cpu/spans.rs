//! Reports the times of operations, if tracing is on.

use super::layout::{Control, STREAMS_MAX, TRACE_ENTRIES, TraceEntry, now_ns};
use super::progress::Progress;
use super::ring::{self, Corrupt};
use accord_types::short_lock::ShortLock;
use accord_types::turn_lock::TurnLock;
use accord_types::{DeviceId, QueueId, Span, SpanKind, SpanSink};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

pub(crate) struct Tracer {
    device: DeviceId,
    sink: OnceLock<Arc<dyn SpanSink>>,
    /// Region names by address in the worker.
    names: ShortLock<HashMap<u64, String>>,
    /// Number of spans read, by stream.
    draining: TurnLock<[u64; STREAMS_MAX as usize]>,
}

impl Tracer {
    pub(crate) fn new(device: DeviceId) -> Self {
        Self {
            device,
            sink: OnceLock::new(),
            names: ShortLock::default(),
            draining: TurnLock::new([0; STREAMS_MAX as usize]),
        }
    }

    pub(crate) fn start(&self, sink: Arc<dyn SpanSink>) {
        // The first sink stays, because a device has one owner.
        let _ = self.sink.set(sink);
    }

    pub(crate) fn on(&self) -> bool {
        self.sink.get().is_some()
    }

    pub(crate) fn name_function(&self, address: u64, name: &str) {
        self.names.lock().insert(address, name.to_owned());
    }

    /// Returns the present time if tracing is on, or else 0.
    pub(crate) fn begin(&self) -> u64 {
        if self.on() { now_ns() } else { 0 }
    }

    pub(crate) fn end(&self, queue: QueueId, kind: SpanKind, bytes: u64, start_ns: u64) {
        if let Some(sink) = self.sink.get() {
            let end_ns = now_ns();
            sink.span(Span { device: self.device, queue, kind, name: String::new(), bytes, start_ns, end_ns });
        }
    }

    /// Reports the spans that the worker has added to the stream `index`, that of `queue`, since the last call.
    ///
    /// # Errors
    /// Returns an error if the worker reports an impossible number of spans.
    pub(crate) fn drain(
        &self,
        control: &Control,
        index: u32,
        queue: QueueId,
        progress: &Progress,
    ) -> Result<(), Corrupt> {
        let Some(sink) = self.sink.get() else { return Ok(()) };
        let mut taken = self.draining.take();
        let tail = &mut taken[index as usize];
        let head = control.stream(index).trace_head.load(Ordering::Acquire);
        // There is at most one span per operation.
        if head < *tail || head > progress.worker_may() {
            return Err(Corrupt("the number of spans"));
        }
        // The worker overwrites the oldest entries if they are not read in time; these are lost, not wrong.
        for n in (*tail).max(head.saturating_sub(TRACE_ENTRIES as u64 / 2))..head {
            // SAFETY: the slot is in the ring and read once, and any bytes are valid numbers.
            let TraceEntry { start_ns, end_ns, what, kind, .. } = unsafe { control.trace(index, n).read_volatile() };
            let end_ns = end_ns.max(start_ns);
            let (kind, name, bytes) = match kind {
                ring::LAUNCH => {
                    let names = self.names.lock();
                    (SpanKind::Launch, names.get(&what).cloned().unwrap_or_default(), 0)
                }
                ring::STORE => (SpanKind::CopyIn, String::new(), what),
                _ => (SpanKind::Copy, String::new(), what),
            };
            sink.span(Span { device: self.device, queue, kind, name, bytes, start_ns, end_ns });
        }
        *tail = head;
        Ok(())
    }
}

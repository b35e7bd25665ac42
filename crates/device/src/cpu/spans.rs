//! Reports what ran when, if somebody asked.

use super::layout::{Control, TRACE_ENTRIES, TraceEntry, now_ns};
use super::ring;
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
    draining: TurnLock<()>,
}

impl Tracer {
    pub(crate) fn new(device: DeviceId) -> Self {
        Self { device, sink: OnceLock::new(), names: ShortLock::default(), draining: TurnLock::default() }
    }

    pub(crate) fn start(&self, sink: Arc<dyn SpanSink>) {
        // The first sink stays: a device has one owner.
        let _ = self.sink.set(sink);
    }

    pub(crate) fn on(&self) -> bool {
        self.sink.get().is_some()
    }

    pub(crate) fn name_function(&self, address: u64, name: &str) {
        self.names.lock().insert(address, name.to_owned());
    }

    /// Time now, if anybody wants to know.
    pub(crate) fn begin(&self) -> u64 {
        if self.on() { now_ns() } else { 0 }
    }

    pub(crate) fn end(&self, queue: QueueId, kind: SpanKind, bytes: u64, start_ns: u64) {
        if let Some(sink) = self.sink.get() {
            let end_ns = now_ns();
            sink.span(Span { device: self.device, queue, kind, name: String::new(), bytes, start_ns, end_ns });
        }
    }

    /// Takes what the worker has traced on the stream `index`, that of `queue`, since the last time.
    pub(crate) fn drain(&self, control: &Control, index: u32, queue: QueueId) {
        let Some(sink) = self.sink.get() else { return };
        let _one_at_a_time = self.draining.take();
        let block = control.stream(index);
        let head = block.trace_head.load(Ordering::Acquire);
        let tail = block.trace_tail.load(Ordering::Relaxed);
        // The worker overwrites the oldest when nobody drains; those are lost, not wrong.
        for n in tail.max(head.saturating_sub(TRACE_ENTRIES as u64 / 2))..head {
            // SAFETY: entries before head were written before it was published.
            let TraceEntry { start_ns, end_ns, what, kind, .. } = unsafe { control.trace(index, n).read() };
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
        block.trace_tail.store(head, Ordering::Relaxed);
    }
}

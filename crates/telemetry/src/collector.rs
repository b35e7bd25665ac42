//! Collects spans while a program runs.

use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Span, SpanSink};

/// Most spans that a collector keeps: about 100 MiB.
pub const SPANS_MAX: usize = 1 << 20;

/// Keeps up to [`SPANS_MAX`] spans of a program's devices, and counts the others.
#[derive(Default)]
pub struct Collector {
    kept: ShortLock<CollectedSpans>,
}

#[derive(Default)]
struct CollectedSpans {
    spans: Vec<Span>,
    lost: u64,
}

impl Collector {
    /// Returns the spans so far and the number of lost ones, and empties the collector.
    pub fn take(&self) -> (Vec<Span>, u64) {
        let mut kept = self.lock();
        let CollectedSpans { spans, lost } = std::mem::take(&mut *kept);
        (spans, lost)
    }

    fn lock(&self) -> ShortGuard<'_, CollectedSpans> {
        // A thread that panicked with the lock held left only whole spans.
        self.kept.lock()
    }
}

impl SpanSink for Collector {
    fn span(&self, span: Span) {
        let mut kept = self.lock();
        if kept.spans.len() < SPANS_MAX {
            kept.spans.push(span);
        } else {
            kept.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, NodeId, QueueId, SpanKind};

    #[test]
    fn spans_beyond_the_bound_are_counted() {
        let span = Span {
            device: DeviceId { node: NodeId(0), ordinal: 0 },
            queue: QueueId(1),
            kind: SpanKind::Copy,
            name: String::new(),
            bytes: 1,
            start_ns: 0,
            end_ns: 1,
        };
        let collector = Collector::default();
        for _ in 0..SPANS_MAX + 3 {
            collector.span(span.clone());
        }
        let (spans, lost) = collector.take();
        assert_eq!((spans.len(), lost), (SPANS_MAX, 3));
        assert_eq!(collector.take(), (Vec::new(), 0));
    }
}

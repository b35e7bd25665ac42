//! The devices and queues of a timeline, in order, and numbers about them.

use crate::Trace;
use crate::chrome::queue_label;
use accord_types::{DeviceId, QueueId, Span, SpanKind};
use std::collections::BTreeMap;

/// The content of the picture, without positions.
pub(super) struct Layout<'a> {
    pub(super) program: String,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) launches: usize,
    pub(super) bytes: u64,
    pub(super) lost: u64,
    pub(super) devices: Vec<DeviceRows<'a>>,
}

/// One device.
pub(super) struct DeviceRows<'a> {
    /// `dev3 h2` or, where several ranks number it differently, `h2:1`.
    pub(super) label: String,
    /// Its product name.
    pub(super) name: String,
    /// Fractions of the whole time, from 0 to 1, in which the device worked, a region ran, or bytes moved.
    pub(super) busy: f64,
    pub(super) launching: f64,
    pub(super) copying: f64,
    pub(super) rows: Vec<Row<'a>>,
}

/// One queue of a device.
pub(super) struct Row<'a> {
    pub(super) label: String,
    /// Spans by start.
    pub(super) spans: Vec<&'a Span>,
}

impl<'a> Layout<'a> {
    pub(super) fn of(traces: &'a [Trace]) -> Self {
        let spans = || traces.iter().flat_map(|trace| &trace.spans);
        let start_ns = spans().map(|span| span.start_ns).min().unwrap_or(0);
        let end_ns = spans().map(|span| span.end_ns).max().unwrap_or(0).max(start_ns);
        let mut devices: BTreeMap<DeviceId, DeviceRows<'a>> = BTreeMap::new();
        for trace in traces {
            for device in &trace.devices {
                devices.entry(device.id).or_insert_with(|| DeviceRows {
                    label: if traces.len() == 1 {
                        format!("{} {}", device.num, device.node_name)
                    } else {
                        format!("{}:{}", device.node_name, device.id.ordinal)
                    },
                    ..DeviceRows::nameless(device.id, &device.name)
                });
            }
        }
        let mut queues: BTreeMap<(DeviceId, usize, u64, QueueId), Vec<&'a Span>> = BTreeMap::new();
        for (index, trace) in traces.iter().enumerate() {
            for span in &trace.spans {
                queues.entry((span.device, index, position(span.queue), span.queue)).or_default().push(span);
            }
        }
        for ((id, index, _, queue), mut spans) in queues {
            spans.sort_by(|a, b| order(a).cmp(&order(b)));
            let rank = traces.get(index).and_then(|trace| trace.rank).filter(|_| traces.len() > 1);
            let device = devices.entry(id).or_insert_with(|| DeviceRows::nameless(id, ""));
            device.rows.push(Row { label: queue_label(rank, queue), spans });
        }
        for device in devices.values_mut() {
            device.measure(end_ns - start_ns);
        }
        let mut programs: Vec<&str> = traces.iter().map(|trace| trace.program.as_str()).collect();
        programs.dedup();
        Self {
            program: programs.join(", "),
            start_ns,
            end_ns,
            launches: spans().filter(|span| span.kind == SpanKind::Launch).count(),
            // An arriving copy is counted at its source.
            bytes: spans().filter(|span| span.kind != SpanKind::Arrive).map(|span| span.bytes).sum(),
            lost: traces.iter().map(|trace| trace.lost).sum(),
            devices: devices.into_values().collect(),
        }
    }
}

impl DeviceRows<'_> {
    fn nameless(id: DeviceId, name: &str) -> Self {
        Self { label: id.to_string(), name: name.to_owned(), busy: 0.0, launching: 0.0, copying: 0.0, rows: Vec::new() }
    }

    fn measure(&mut self, length_ns: u64) {
        let part = |wanted: &dyn Fn(SpanKind) -> bool| {
            let times = self.rows.iter().flat_map(|row| &row.spans);
            let times = times.filter(|span| wanted(span.kind)).map(|span| (span.start_ns, span.end_ns)).collect();
            covered(times) as f64 / length_ns.max(1) as f64
        };
        let busy = part(&SpanKind::is_work);
        let launching = part(&|kind| kind == SpanKind::Launch);
        let copying = part(&|kind| kind.is_work() && kind != SpanKind::Launch);
        (self.busy, self.launching, self.copying) = (busy, launching, copying);
    }
}

/// Returns the sort key of a queue's row: Accord's own queues are around the program's.
fn position(queue: QueueId) -> u64 {
    match queue {
        QueueId::SYNC => 0,
        QueueId::INCOMING => u64::MAX,
        // Ranges are what the program does, above the device's work.
        queue if queue.range_row().is_some() => 0,
        QueueId(number) => 1 + u64::from(number),
    }
}

/// Returns the key of a total order, so that the picture does not depend on the order of the trace.
fn order(span: &Span) -> (u64, u64, &'static str, &str, u64) {
    (span.start_ns, span.end_ns, span.kind.name(), &span.name, span.bytes)
}

/// Returns the length of the union of intervals.
fn covered(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let mut reached = 0;
    let mut total = 0;
    for (start, end) in times {
        let start = start.max(reached);
        if end > start {
            total += end - start;
            reached = end;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::covered;

    #[test]
    fn overlapping_times_count_once() {
        assert_eq!(covered(vec![]), 0);
        assert_eq!(covered(vec![(10, 20), (0, 5), (15, 30), (16, 17), (40, 40)]), 25);
    }
}

//! Timelines: a picture with one row a queue of each device, launches and copies as bars.

mod draw;
mod layout;
mod scale;

use crate::Trace;

/// Draws the traces of a program, or of a job's ranks, as one SVG. The same traces give the
/// same picture.
pub fn svg(traces: &[Trace]) -> String {
    draw::picture(&layout::Layout::of(traces))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::TraceDevice;
    use accord_types::{DeviceId, DeviceNum, NodeId, QueueId, Span, SpanKind};

    /// Returns the traces of two ranks, each with both devices of its session on two nodes.
    pub(crate) fn two_ranks() -> Vec<Trace> {
        let id = |node| DeviceId { node: NodeId(node), ordinal: 0 };
        let device = |node: u32, num, name: &str| TraceDevice {
            route: if node == 0 { "in-process".to_owned() } else { "tls to h2:7700 (another machine)".to_owned() },
            id: id(node),
            num: DeviceNum(num),
            node_name: format!("h{}", node + 1),
            name: name.to_owned(),
        };
        let span = |node, queue, kind, name: &str, bytes, start_ns, end_ns| Span {
            device: id(node),
            queue,
            kind,
            name: name.to_owned(),
            bytes,
            start_ns,
            end_ns,
        };
        let devices = |first: u32| vec![device(0, first, "CPU"), device(1, 1 - first, "CPU \"B\"")];
        vec![
            Trace {
                program: "app".to_owned(),
                rank: Some(0),
                devices: devices(0),
                spans: vec![
                    span(0, QueueId::SYNC, SpanKind::CopyIn, "", 1 << 20, 1_000_000, 1_500_007),
                    span(0, QueueId(2), SpanKind::Launch, "main._omp_fn.0", 0, 1_500_007, 4_000_000),
                ],
                lost: 0,
            },
            Trace {
                program: "app".to_owned(),
                rank: Some(1),
                devices: devices(1),
                spans: vec![
                    span(1, QueueId(2), SpanKind::Launch, "a<b>&c", 0, 1_000_000, 2_000_000),
                    span(1, QueueId(2), SpanKind::Push, "", 4096, 2_000_000, 2_000_000),
                    span(0, QueueId::INCOMING, SpanKind::Arrive, "", 4096, 2_000_001, 2_100_000),
                ],
                lost: 5,
            },
        ]
    }

    #[test]
    fn a_picture_names_devices_queues_kinds_and_use() {
        let picture = svg(&two_ranks());
        for text in [
            "h1",
            "h2",
            "CPU &quot;B&quot;",
            "rank 0, queue 2",
            "rank 1, incoming",
            "launch",
            "copyin",
            "push",
            "arrive",
            "a&lt;b&gt;&amp;c",
            "1.0 MiB",
            "busy 100 %",
            "busy 33 %",
            "3.0 ms",
            "5 spans lost",
        ] {
            assert!(picture.contains(text), "{text} is missing:\n{picture}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn the_order_of_spans_does_not_matter() {
        let mut turned = two_ranks();
        for trace in &mut turned {
            trace.spans.reverse();
        }
        assert_eq!(svg(&two_ranks()), svg(&turned));
    }

    #[test]
    fn nothing_and_a_single_instant_can_be_drawn() {
        assert!(svg(&[]).contains("nothing ran"));
        let mut instant = two_ranks();
        instant.remove(0);
        instant[0].spans.truncate(1);
        instant[0].spans[0].end_ns = instant[0].spans[0].start_ns;
        let picture = svg(&instant);
        assert!(picture.contains("</svg>") && !picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn many_short_spans_become_few_bars() {
        let mut traces = two_ranks();
        traces.truncate(1);
        let template = traces[0].spans[1].clone();
        traces[0].spans =
            (0..100_000u64).map(|n| Span { start_ns: n * 1000, end_ns: n * 1000 + 900, ..template.clone() }).collect();
        let picture = svg(&traces);
        assert!(picture.len() < 300_000, "{} bytes", picture.len());
        assert!(picture.contains("100000 launches"), "{}", &picture[..2000]);
    }
}

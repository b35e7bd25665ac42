//! Trace files, and their rendering.

use crate::{Memory, Target};
use accord_telemetry::{Trace, TraceDevice, read, timeline, write};
use accord_types::{DeviceId, DeviceNum, NodeId, QueueId, Span, SpanKind};

/// Files for `accord trace`.
pub(super) const TRACES: Target = Target {
    name: "traces",
    run: traces,
    seeds,
    words: &[
        "\"ph\":\"X\"",
        "\"start_ns\":18446744073709551615",
        "\"end_ns\":0",
        "\"bytes\":1152921504606846976",
        "null",
        "[",
        "{",
        "]}",
        "\"spans\":[",
        "\"devices\":[]",
        "1e300",
        "-1",
    ],
    input_max: 8 << 10,
    // A JSON value takes 72 bytes of memory, and "0," is one.
    memory: Memory { fixed: 256 << 10, per_byte: 512 },
    inputs: 10_000,
};

fn traces(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(traces) = read(&text) else { return };
    let mut again = Vec::new();
    write(&traces, &mut again).unwrap();
    assert_eq!(read(std::str::from_utf8(&again).unwrap()), Ok(traces.clone()));
    let _ = timeline::svg(&traces);
}

fn seeds() -> Vec<Vec<u8>> {
    let id = |node| DeviceId { node: NodeId(node), ordinal: 0 };
    let device = |node| TraceDevice {
        id: id(node),
        num: DeviceNum(node),
        node_name: format!("h{node}"),
        name: "CPU".into(),
        route: "in-process".into(),
    };
    let span = |node, kind, start_ns, end_ns| Span {
        device: id(node),
        queue: QueueId(1),
        kind,
        name: String::new(),
        bytes: 4096,
        start_ns,
        end_ns,
    };
    let trace = |rank| Trace {
        program: "app".to_owned(),
        rank,
        devices: vec![device(0), device(1)],
        spans: vec![span(0, SpanKind::Launch, 5, 900), span(1, SpanKind::CopyIn, 1_000_000, 2_000_000)],
        lost: 1,
    };
    [vec![], vec![trace(None)], vec![trace(Some(0)), trace(Some(1))]]
        .iter()
        .map(|traces| {
            let mut bytes = Vec::new();
            write(traces, &mut bytes).unwrap();
            bytes
        })
        .collect()
}

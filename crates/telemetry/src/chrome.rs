//! Traces in Chrome's trace event format: one "process" a device, one "thread" a queue.
//!
//! The viewers' times are microseconds. Each event's arguments hold the exact nanoseconds and Accord's own names, so
//! that reading a trace restores what was written.

use crate::{Trace, TraceDevice};
use accord_types::{DeviceId, DeviceNum, NodeId, QueueId, Span, SpanKind};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the traces of a job's ranks as one file.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(traces: &[Trace], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    let rows = Rows::of(traces);
    let mut first = true;
    let mut event = |text: String| {
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        write!(out, "{comma}\n{text}")
    };
    for (device, (pid, label)) in &rows.devices {
        event(format!(
            r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":{}}}}}"#,
            quoted(&format!("{label} ({device})"))
        ))?;
    }
    for (pid, route) in rows.routes(traces) {
        let route = quoted(route);
        event(format!(r#"{{"ph":"M","name":"process_labels","pid":{pid},"args":{{"labels":{route}}}}}"#))?;
    }
    for ((trace, device, queue), tid) in &rows.queues {
        let rank = traces.get(*trace).and_then(|trace| trace.rank);
        event(format!(
            r#"{{"ph":"M","name":"thread_name","pid":{},"tid":{tid},"args":{{"name":{}}}}}"#,
            rows.pid(*device),
            quoted(&queue_label(rank, *queue))
        ))?;
    }
    for (index, trace) in traces.iter().enumerate() {
        for span in &trace.spans {
            let tid = rows.queues.get(&(index, span.device, span.queue)).copied().unwrap_or(0);
            event(span_event(index, rows.pid(span.device), tid, span))?;
        }
    }
    write!(out, "\n],\n\"accord\":[")?;
    for (index, trace) in traces.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", header(trace))?;
    }
    writeln!(out, "\n]}}")
}

/// Reads a file that [`write`] wrote.
///
/// # Errors
/// Returns the fault of the file in words.
pub fn read(text: &str) -> Result<Vec<Trace>, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("not a trace: {error}"))?;
    let headers = list(&file, "accord").ok_or("not a trace written by Accord")?;
    let mut traces = headers
        .iter()
        .map(|header| read_header(header).ok_or("a trace's header is damaged"))
        .collect::<Result<Vec<_>, _>>()?;
    for event in list(&file, "traceEvents").ok_or("a trace without events")? {
        if event.get("ph").and_then(Value::as_str) != Some("X") {
            continue;
        }
        let (index, span) = read_span(event).ok_or("an event of a trace is damaged")?;
        traces.get_mut(index).ok_or("an event of a trace that is not there")?.spans.push(span);
    }
    Ok(traces)
}

/// The viewers' process and thread numbers.
struct Rows {
    devices: BTreeMap<DeviceId, (usize, String)>,
    queues: BTreeMap<(usize, DeviceId, QueueId), usize>,
}

impl Rows {
    fn of(traces: &[Trace]) -> Self {
        let mut devices = BTreeMap::new();
        let mut queues = BTreeMap::new();
        for (index, trace) in traces.iter().enumerate() {
            for device in &trace.devices {
                let label = if traces.len() == 1 {
                    format!("{} {} {}", device.num, device.node_name, device.name)
                } else {
                    format!("{} {}", device.node_name, device.name)
                };
                devices.entry(device.id).or_insert((0, label));
            }
            for span in &trace.spans {
                devices.entry(span.device).or_insert((0, "device".to_owned()));
                queues.insert((index, span.device, span.queue), 0);
            }
        }
        for (number, (pid, _)) in devices.values_mut().enumerate() {
            *pid = number + 1;
        }
        for (number, tid) in queues.values_mut().enumerate() {
            *tid = number + 1;
        }
        Self { devices, queues }
    }

    /// Returns the devices' routes, if the file has a single trace: the routes of several programs differ.
    fn routes<'a>(&self, traces: &'a [Trace]) -> Vec<(usize, &'a str)> {
        let devices = if let [trace] = traces { &trace.devices[..] } else { &[] };
        let known = devices.iter().filter(|device| !device.route.is_empty());
        known.map(|device| (self.pid(device.id), &*device.route)).collect()
    }

    fn pid(&self, device: DeviceId) -> usize {
        self.devices.get(&device).map_or(0, |(pid, _)| *pid)
    }
}

/// Rows for the ranges of a thread.
const RANGE_DEPTHS: u32 = 64;

/// Returns the label of one queue's row.
pub(crate) fn queue_label(rank: Option<u32>, queue: QueueId) -> String {
    let queue = match queue {
        QueueId::SYNC => "sync".to_owned(),
        QueueId::INCOMING => "incoming".to_owned(),
        QueueId(number) => match queue.range_row().map(|row| (row / RANGE_DEPTHS, row % RANGE_DEPTHS)) {
            Some((0, 0)) => "ranges".to_owned(),
            Some((0, depth)) => format!("ranges, level {}", depth + 1),
            Some((thread, depth)) => format!("ranges of thread {}, level {}", thread + 1, depth + 1),
            None => format!("queue {number}"),
        },
    };
    match rank {
        Some(rank) => format!("rank {rank}, {queue}"),
        None => queue,
    }
}

fn span_event(trace: usize, pid: usize, tid: usize, span: &Span) -> String {
    let name = if span.name.is_empty() { span.kind.name() } else { &span.name };
    format!(
        r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{},"dur":{},"cat":"{kind}","name":{},"args":{{"trace":{trace},"node":{},"ordinal":{},"queue":{},"bytes":{},"start_ns":{},"end_ns":{}}}}}"#,
        micros(span.start_ns),
        micros(span.end_ns.saturating_sub(span.start_ns)),
        quoted(name),
        span.device.node.0,
        span.device.ordinal,
        span.queue.0,
        span.bytes,
        span.start_ns,
        span.end_ns,
        kind = span.kind.name(),
    )
}

fn read_span(event: &Value) -> Option<(usize, Span)> {
    let args = event.get("args")?;
    let kind = event.get("cat")?.as_str()?;
    let kind = SpanKind::ALL.into_iter().find(|known| known.name() == kind)?;
    let name = event.get("name")?.as_str()?;
    let span = Span {
        device: device(args)?,
        queue: QueueId(small(args, "queue")?),
        kind,
        name: if name == kind.name() { String::new() } else { name.to_owned() },
        bytes: number(args, "bytes")?,
        start_ns: number(args, "start_ns")?,
        end_ns: number(args, "end_ns")?,
    };
    Some((usize::try_from(number(args, "trace")?).ok()?, span))
}

fn header(trace: &Trace) -> String {
    let devices: Vec<_> = trace
        .devices
        .iter()
        .map(|device| {
            format!(
                r#"{{"node":{},"ordinal":{},"num":{},"node_name":{},"name":{},"route":{}}}"#,
                device.id.node.0,
                device.id.ordinal,
                device.num.0,
                quoted(&device.node_name),
                quoted(&device.name),
                quoted(&device.route)
            )
        })
        .collect();
    let rank = trace.rank.map_or_else(|| "null".to_owned(), |rank| rank.to_string());
    format!(
        r#"{{"program":{},"rank":{rank},"lost":{},"devices":[{}]}}"#,
        quoted(&trace.program),
        trace.lost,
        devices.join(",")
    )
}

fn read_header(header: &Value) -> Option<Trace> {
    let devices = list(header, "devices")?
        .iter()
        .map(|entry| {
            Some(TraceDevice {
                id: device(entry)?,
                num: DeviceNum(small(entry, "num")?),
                node_name: entry.get("node_name")?.as_str()?.to_owned(),
                name: entry.get("name")?.as_str()?.to_owned(),
                // Older files have no route.
                route: entry.get("route").and_then(Value::as_str).unwrap_or_default().to_owned(),
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let rank = match header.get("rank")? {
        Value::Null => None,
        _ => Some(small(header, "rank")?),
    };
    Some(Trace {
        program: header.get("program")?.as_str()?.to_owned(),
        rank,
        devices,
        spans: Vec::new(),
        lost: number(header, "lost")?,
    })
}

fn device(value: &Value) -> Option<DeviceId> {
    Some(DeviceId { node: NodeId(small(value, "node")?), ordinal: small(value, "ordinal")? })
}

fn list<'a>(value: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    value.get(key)?.as_array()
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

fn small(value: &Value, key: &str) -> Option<u32> {
    u32::try_from(number(value, key)?).ok()
}

/// Writes nanoseconds as microseconds with three decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::two_ranks;

    fn written(traces: &[Trace]) -> String {
        let mut bytes = Vec::new();
        write(traces, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn traces_survive_the_round_trip() {
        let traces = two_ranks();
        assert_eq!(read(&written(&traces)), Ok(traces));
        assert_eq!(read(&written(&[])), Ok(vec![]));
    }

    #[test]
    fn viewers_say_how_a_device_is_reached_and_older_files_do_not() {
        let trace = two_ranks().remove(0);
        let text = written(std::slice::from_ref(&trace));
        let file: Value = serde_json::from_str(&text).unwrap();
        let events = file["traceEvents"].as_array().unwrap().iter();
        let labels = events.filter(|event| event["name"] == "process_labels");
        let labels: Vec<_> = labels.map(|event| event["args"]["labels"].as_str().unwrap()).collect();
        assert_eq!(labels, ["in-process", "tls to h2:7700 (another machine)"]);
        let before = text.replace(r#","route":"in-process""#, "");
        assert_eq!(read(&before).unwrap()[0].devices[0].route, "");
    }

    #[test]
    fn viewers_find_a_process_a_device_and_a_thread_a_queue() {
        let file: Value = serde_json::from_str(&written(&two_ranks())).unwrap();
        let names = |kind: &str| -> Vec<String> {
            file["traceEvents"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|event| event["name"] == kind)
                .map(|event| event["args"]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("process_name"), ["h1 CPU (node0:0)", "h2 CPU \"B\" (node1:0)"]);
        assert!(names("thread_name").contains(&"rank 1, queue 2".to_owned()));
    }

    #[test]
    fn damage_is_named() {
        assert!(read("not json").unwrap_err().contains("not a trace"));
        assert!(read("{}").unwrap_err().contains("Accord"));
        let good = written(&two_ranks());
        assert!(read(&good.replace("\"queue\":2", "\"queue\":-2")).unwrap_err().contains("damaged"));
        assert!(read(&good.replace("\"trace\":1", "\"trace\":9")).unwrap_err().contains("not there"));
    }
}

//! `ACCORD_TRACE`: records the devices' operations, and writes them when the program ends.

use crate::{output, settings};
use accord_device::file_limit;
use accord_runtime::ports::DeviceClient;
use accord_telemetry::{Collector, Trace, TraceDevice, trace_path, write};
use accord_types::{DeviceId, DeviceNum, QueueId, Span, SpanKind, SpanSink, os_text, settings as names};
use std::ffi::CStr;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

/// The spans of a traced program.
pub(crate) struct Tracer {
    spans: Arc<Collector>,
    pattern: String,
}

impl Tracer {
    /// Creates the tracer. Returns `None` if the program is not traced.
    pub(crate) fn from_settings() -> Option<Self> {
        let pattern = settings::value(names::TRACE)?;
        Some(Self { spans: Arc::default(), pattern })
    }

    /// Returns the sink of devices' reports.
    pub(crate) fn sink(&self) -> Arc<dyn SpanSink> {
        self.spans.clone()
    }

    /// Records a range that the program named, for a device.
    pub(crate) fn range(&self, device: DeviceId, name: &CStr, times: Range<u64>, row: u32) {
        self.spans.span(Span {
            device,
            queue: QueueId::range(row),
            kind: SpanKind::Range,
            name: name.to_string_lossy().into_owned(),
            bytes: 0,
            start_ns: times.start,
            end_ns: times.end,
        });
    }

    /// Writes the file. Reports a failure, because the user requested the file.
    pub(crate) fn write<'a>(&self, clients: impl Iterator<Item = &'a dyn DeviceClient>) {
        let (spans, lost) = self.spans.take();
        let rank = settings::rank().map(|rank| rank.rank);
        let trace = Trace {
            program: program_name(),
            rank,
            devices: (0..).zip(clients).map(|(num, client)| device(num, client)).collect(),
            spans,
            lost,
        };
        let path = trace_path(&self.pattern, rank, std::process::id());
        let written = file_limit::as_error(|| {
            let mut out = BufWriter::new(File::create(&path)?);
            write(&[trace], &mut out)?;
            out.flush()
        });
        if let Err(error) = written {
            output::print(&format!(
                "accord: cannot write the trace {path}: {error}; set ACCORD_TRACE to a path that can be written\n"
            ));
        }
    }
}

/// Returns the program's name as invoked, for messages.
pub(crate) fn program_name() -> String {
    std::env::args_os().next().map(|name| os_text::displayed(&os_text::encode(&name))).unwrap_or_default()
}

fn device(num: u32, client: &dyn DeviceClient) -> TraceDevice {
    let info = client.info();
    TraceDevice {
        id: info.id,
        num: DeviceNum(num),
        node_name: info.node_name.clone(),
        name: info.name.clone(),
        route: client.route().unwrap_or_default(),
    }
}

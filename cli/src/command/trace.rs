//! `accord trace`: merges and draws traces.

use crate::args::{TraceArgs, TraceCommand};
use crate::failure::{Failure, Result};
use accord_telemetry::{Trace, timeline};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Runs `accord trace`.
pub(crate) fn trace(args: &TraceArgs) -> Result<u8> {
    match &args.command {
        TraceCommand::Timeline { traces, output } => {
            write_timeline(&read_all(traces)?, output)?;
        }
    }
    Ok(0)
}

/// Reads the traces of a job's ranks, in the order of the ranks.
pub(crate) fn read_all(files: &[PathBuf]) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::system(format!("can't read {}", file.display()), error))?;
        traces.extend(accord_telemetry::read(&text).map_err(|why| Failure::system(file.display(), why))?);
    }
    traces.sort_by_key(|trace| trace.rank);
    Ok(traces)
}

/// Draws traces into an SVG file.
pub(crate) fn write_timeline(traces: &[Trace], output: &Path) -> Result<()> {
    std::fs::write(output, timeline::svg(traces))
        .map_err(|error| Failure::system(format!("can't write {}", output.display()), error))
}

/// Writes traces into one file.
pub(crate) fn write_trace(traces: &[Trace], output: &Path) -> Result<()> {
    let failed = |error| Failure::system(format!("can't write {}", output.display()), error);
    let mut file = BufWriter::new(std::fs::File::create(output).map_err(failed)?);
    accord_telemetry::write(traces, &mut file).and_then(|()| file.flush()).map_err(failed)
}

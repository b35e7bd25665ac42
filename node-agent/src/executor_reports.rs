//! Reports of an executor on its use of devices. They arrive at the socket by which the agent hands it connections.

use accord_executor::UseSink;
use accord_fabric::transport::Handover;
use accord_fabric::use_report::UseReader;
use std::time::{Duration, Instant};

/// Most reads per batch.
const READS_MAX: usize = 16;
/// Shortest time between two batches. A region may make its executor report endlessly, which must not cost the agent
/// more than honest reports.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// The agent's end of the socket.
pub(crate) struct ExecutorReports {
    /// `None` once the executor has closed its end.
    control: Option<Handover>,
    reader: UseReader,
    sink: UseSink,
    /// The time of the last read.
    read: Option<Instant>,
}

impl ExecutorReports {
    pub(crate) fn new(control: Handover, sink: UseSink) -> Self {
        Self { control: Some(control), reader: UseReader::default(), sink, read: None }
    }

    /// Returns the socket, which is readable when a report has arrived.
    pub(crate) fn control(&self) -> Option<&Handover> {
        self.control.as_ref()
    }

    /// Returns the time until the next batch, unless that is now.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let left = READ_INTERVAL.saturating_sub(self.read?.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Passes on the reports that have arrived. Does not block.
    pub(crate) fn pass_on(&mut self) {
        self.read = Some(Instant::now());
        for _ in 0..READS_MAX {
            let Some(control) = &self.control else { return };
            match control.read_use(&mut self.reader) {
                Ok(uses) if uses.is_empty() => return,
                Ok(uses) => (self.sink)(&uses),
                Err(_) => self.control = None,
            }
        }
    }
}

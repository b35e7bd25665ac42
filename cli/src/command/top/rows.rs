//! The rows of a table, from the coordinator's replies.

use crate::client::WholeTable;
use accord_proto::bounds::WATCH_ROWS_MAX;
use accord_proto::v1::watch_row::Line;
use accord_proto::v1::{ClusterSummary, WatchReply, WatchTable};

/// Rows of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// The table; `None` before the first reply.
    pub(crate) table: Option<WatchTable>,
    /// The number of the request that they answer.
    request: u64,
    /// The coordinator's clock.
    pub(crate) unix_ms: u64,
    pub(crate) summary: ClusterSummary,
    /// Number of rows of the whole table, and of those before the first one here.
    pub(crate) total: u32,
    pub(crate) from: u32,
    pub(crate) lines: Vec<Option<Line>>,
}

impl Rows {
    /// Creates the rows of a whole table.
    pub(crate) fn whole(table: WatchTable, whole: WholeTable) -> Self {
        let lines: Vec<Option<Line>> = whole.rows.into_iter().map(|row| row.line).collect();
        let total = u32::try_from(lines.len()).unwrap_or(u32::MAX);
        Self { table: Some(table), unix_ms: whole.unix_ms, summary: whole.summary, total, lines, ..Self::default() }
    }

    /// Applies a reply to the last request, which was for `table`. Drops replies to earlier requests.
    pub(crate) fn take(&mut self, table: WatchTable, request: u64, reply: WatchReply) {
        if reply.request != request {
            return;
        }
        if self.request != request || self.table != Some(table) {
            (self.request, self.table) = (request, Some(table));
            self.lines.clear();
        }
        self.unix_ms = reply.unix_ms;
        self.summary = reply.summary.unwrap_or(self.summary);
        (self.total, self.from) = (reply.total, reply.from);
        self.lines.resize((reply.rows as usize).min(WATCH_ROWS_MAX), None);
        for row in reply.changed {
            if let Some(line) = self.lines.get_mut(row.at as usize) {
                *line = row.line;
            }
        }
    }
}

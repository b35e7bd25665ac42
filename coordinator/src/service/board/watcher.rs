//! The state of one watcher: it gets the requested rows, then the rows that have changed.

use super::super::viewer::Viewer;
use super::observe::CoreAccess;
use super::{Board, Visibility};
use accord_proto::v1;
use v1::watch_row::Line;

/// A watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    viewer: Viewer,
    request: v1::WatchRequest,
    sent: Option<LastReply>,
}

/// The contents of the last reply.
#[derive(Debug)]
struct LastReply {
    summary: v1::ClusterSummary,
    total: u32,
    from: u32,
    lines: Vec<Line>,
}

impl Watcher {
    pub(crate) fn new(viewer: Viewer, request: v1::WatchRequest) -> Self {
        Self { viewer, request, sent: None }
    }

    /// Replaces the request.
    pub(crate) fn ask(&mut self, request: v1::WatchRequest) {
        (self.request, self.sent) = (request, None);
    }

    /// Returns the full reply to a new request, or the changes since the last reply; `None` if there are none.
    pub(crate) fn reply(&mut self, core: &impl CoreAccess, board: &Board) -> Option<v1::WatchReply> {
        let (visibility, table) = (Visibility::of(board, &self.viewer), self.request.table());
        let window = board.window(&visibility, &self.request);
        let lines = window.rows.iter().filter_map(|row| board.line(core, &visibility, table, *row)).collect();
        let now = LastReply { summary: board.summary(&visibility), total: window.total, from: window.from, lines };
        let before = self.sent.take();
        let reply = now.changes(before.as_ref()).map(|reply| v1::WatchReply {
            request: self.request.number,
            unix_ms: board.unix_ms,
            ..reply
        });
        self.sent = Some(now);
        reply
    }
}

impl LastReply {
    /// Returns the differences from the last reply; `None` if there are none.
    fn changes(&self, before: Option<&Self>) -> Option<v1::WatchReply> {
        let summary = before.is_none_or(|before| before.summary != self.summary).then_some(self.summary);
        let is_same = |at: usize, line: &Line| before.is_some_and(|before| before.lines.get(at) == Some(line));
        let changed = (0..).zip(&self.lines).filter(|(at, line)| !is_same(*at as usize, line));
        let changed: Vec<v1::WatchRow> =
            changed.map(|(at, line)| v1::WatchRow { at, line: Some(line.clone()) }).collect();
        let is_moved = before.is_none_or(|before| {
            (before.total, before.from, before.lines.len()) != (self.total, self.from, self.lines.len())
        });
        (is_moved || summary.is_some() || !changed.is_empty()).then(|| v1::WatchReply {
            summary,
            total: self.total,
            from: self.from,
            rows: super::index(self.lines.len()),
            changed,
            ..v1::WatchReply::default()
        })
    }
}

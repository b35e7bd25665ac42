//! `accord top --json`.

use crate::client::WholeTable;
use accord_proto::json::row;
use accord_proto::v1::watch_row::Line;
use serde_json::{Value, json};

/// Returns all tables: nodes, devices, users and jobs.
pub(super) fn json(coordinator: &str, tables: &[WholeTable]) -> Value {
    let first = tables.first().map(|table| (table.summary, table.unix_ms)).unwrap_or_default();
    let (summary, unix_ms) = first;
    let mut all = json!({
        "coordinator": coordinator,
        "unix_ms": unix_ms,
        "started_unix_ms": summary.started_unix_ms,
        "paused": summary.paused,
        "sessions": summary.sessions,
        "others_running": summary.others_running,
        "others_waiting": summary.others_waiting,
        "nodes": [],
        "devices": [],
        "users": [],
        "jobs": [],
    });
    for line in tables.iter().flat_map(|table| &table.rows).filter_map(|row| row.line.as_ref()) {
        let list = match line {
            Line::Node(_) => "nodes",
            Line::Device(_) => "devices",
            Line::User(_) => "users",
            Line::Job(_) => "jobs",
        };
        all[list].as_array_mut().into_iter().for_each(|rows| rows.push(row(line)));
    }
    all
}

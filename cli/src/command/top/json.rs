//! `accord top --json`.

use crate::client::WholeTable;
use crate::cluster;
use crate::command::jobs::{devices_json, state_name};
use accord_proto::v1::watch_row::Line;
use accord_proto::v1::{DeviceCondition, DeviceLine, JobLine, JobState, NodeLine, UserLine};
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
        let (list, row) = match line {
            Line::Node(node) => ("nodes", node_json(node)),
            Line::Device(device) => ("devices", device_json(device)),
            Line::User(user) => ("users", user_json(user)),
            Line::Job(job) => ("jobs", job_json(job)),
        };
        all[list].as_array_mut().into_iter().for_each(|rows| rows.push(row.clone()));
    }
    all
}

fn node_json(node: &NodeLine) -> Value {
    json!({
        "name": node.name,
        "state": cluster::state_name(node.state()),
        "reason": (!node.reason.is_empty()).then_some(&node.reason),
        "heard_unix_ms": node.heard_unix_ms,
        "devices": node.devices,
        "busy": node.devices_busy,
        "unknown": node.devices_unknown,
        "held": node.devices_held,
        "idle": node.devices_idle,
        "memory": node.memory,
        "memory_used": node.memory_used,
        "sessions": node.sessions,
    })
}

fn device_json(device: &DeviceLine) -> Value {
    let condition = match device.condition() {
        DeviceCondition::Unspecified => "unknown",
        DeviceCondition::Free => "free",
        DeviceCondition::Used => "used",
        DeviceCondition::Held => "held",
        DeviceCondition::Drained => "drained",
        DeviceCondition::Quarantined => "quarantined",
        DeviceCondition::Lost => "lost",
    };
    json!({
        "node": device.node_name,
        "ordinal": device.ordinal,
        "name": device.name,
        "condition": condition,
        "reason": (!device.reason.is_empty()).then_some(&device.reason),
        "busy_percent": device.busy_percent,
        "memory": device.memory,
        "memory_used": device.memory_used,
        "users": device.users,
        "other_users": device.other_users,
        "jobs": device.jobs,
        "programs": device.programs,
        "other_sessions": device.other_sessions,
        "idle_since_unix_ms": device.idle_since_unix_ms,
        "quarantined_since_unix_ms": device.quarantined_since_unix_ms,
        "quarantine_charged": device.quarantined_since_unix_ms.map(|_| device.quarantine_charged),
    })
}

/// Users that the caller does not see are one row without a name.
fn user_json(user: &UserLine) -> Value {
    json!({
        "user": (!user.user.is_empty()).then_some(&user.user),
        "users": user.users,
        "running": user.jobs_running,
        "waiting": user.jobs_waiting,
        "sessions": user.sessions,
        "devices": user.devices,
        "busy_percent": user.busy_percent,
        "unknown": user.devices_unknown,
        "idle": user.devices_idle,
        "memory_used": user.memory_used,
    })
}

fn job_json(line: &JobLine) -> Value {
    let job = line.job.clone().unwrap_or_default();
    let waits = matches!(job.state(), JobState::Waiting | JobState::OnHold);
    json!({
        "job": job.job,
        "user": job.user,
        "account": job.account,
        "program": job.program,
        "request": job.request,
        "state": state_name(job.state()),
        "asked_unix_ms": job.asked_unix_ms,
        "started_unix_ms": job.started_unix_ms,
        "ends_unix_ms": job.ends_unix_ms,
        "devices": devices_json(&job.devices),
        "why": waits.then_some(&job.why),
        "busy_percent": line.busy_percent,
        "memory_used": line.memory_used,
        "idle_since_unix_ms": line.idle_since_unix_ms,
    })
}

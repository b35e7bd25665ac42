//! Rows of Cluster.Watch as JSON, the same for `accord top --json` and for the coordinator's page.

use crate::v1;
use serde_json::{Value, json};
use v1::watch_row::Line;
use v1::{DeviceCondition, DeviceLine, JobDevices, JobLine, JobState, NodeLine, NodeState, UserLine};

/// Returns a row.
pub fn row(line: &Line) -> Value {
    match line {
        Line::Node(node) => node_row(node),
        Line::Device(device) => device_row(device),
        Line::User(user) => user_row(user),
        Line::Job(job) => job_row(job),
    }
}

/// Returns the cluster in numbers.
pub fn summary(summary: &v1::ClusterSummary) -> Value {
    json!({
        "started_unix_ms": summary.started_unix_ms,
        "nodes_up": summary.nodes_up,
        "nodes_draining": summary.nodes_draining,
        "nodes_away": summary.nodes_away,
        "devices": summary.devices,
        "devices_busy": summary.devices_busy,
        "devices_unknown": summary.devices_unknown,
        "devices_idle": summary.devices_idle,
        "devices_out": summary.devices_out,
        "jobs_running": summary.jobs_running,
        "jobs_waiting": summary.jobs_waiting,
        "others_running": summary.others_running,
        "others_waiting": summary.others_waiting,
        "sessions": summary.sessions,
        "paused": summary.paused,
    })
}

/// Returns devices of a job.
pub fn devices(devices: &[JobDevices]) -> Value {
    let rows = devices.iter().map(|on| {
        json!({
            "node": on.node_name,
            "model": on.model,
            "ordinals": on.ordinals,
            "share_milli": on.share_milli,
            "memory": on.memory,
            "exclusive": on.exclusive,
        })
    });
    Value::from(rows.collect::<Vec<_>>())
}

/// Returns the word for a node's state.
pub fn node_state(state: NodeState) -> &'static str {
    match state {
        NodeState::Unspecified => "unknown",
        NodeState::Up => "up",
        NodeState::Draining => "draining",
        NodeState::Lost => "lost",
        NodeState::Gone => "gone",
    }
}

/// Returns the word for a job's state.
pub fn job_state(state: JobState) -> &'static str {
    match state {
        JobState::Waiting => "waiting",
        JobState::OnHold => "on hold",
        JobState::Running => "running",
        JobState::Releasing => "releasing",
        JobState::Suspending => "suspending",
        JobState::Suspended => "suspended",
        JobState::Resuming => "resuming",
        JobState::Unspecified => "unknown",
    }
}

fn condition(condition: DeviceCondition) -> &'static str {
    match condition {
        DeviceCondition::Unspecified => "unknown",
        DeviceCondition::Free => "free",
        DeviceCondition::Used => "used",
        DeviceCondition::Held => "held",
        DeviceCondition::Drained => "drained",
        DeviceCondition::Quarantined => "quarantined",
        DeviceCondition::Lost => "lost",
    }
}

fn node_row(node: &NodeLine) -> Value {
    json!({
        "name": node.name,
        "state": node_state(node.state()),
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

fn device_row(device: &DeviceLine) -> Value {
    json!({
        "node": device.node_name,
        "ordinal": device.ordinal,
        "name": device.name,
        "condition": condition(device.condition()),
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
        "used_by_others": device.used_by_others,
    })
}

/// Users that the caller does not see are one row without a name.
fn user_row(user: &UserLine) -> Value {
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

fn job_row(line: &JobLine) -> Value {
    let job = line.job.clone().unwrap_or_default();
    let waits = matches!(job.state(), JobState::Waiting | JobState::OnHold);
    json!({
        "job": job.job,
        "user": job.user,
        "account": job.account,
        "program": job.program,
        "request": job.request,
        "state": job_state(job.state()),
        "asked_unix_ms": job.asked_unix_ms,
        "started_unix_ms": job.started_unix_ms,
        "ends_unix_ms": job.ends_unix_ms,
        "devices": devices(&job.devices),
        "why": waits.then_some(&job.why),
        "busy_percent": line.busy_percent,
        "memory_used": line.memory_used,
        "idle_since_unix_ms": line.idle_since_unix_ms,
    })
}

//! The columns of tables, and rows as text.

use crate::command::jobs::{ago, devices};
use crate::output::{age, bytes};
use accord_proto::json::{job_state, node_state};
use accord_proto::v1::watch_row::Line;
use accord_proto::v1::{DeviceCondition, DeviceLine, JobLine, JobState, NodeLine, UserLine, WatchTable};

/// A column.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) is_number: bool,
    /// Most characters. The last column of a table gets the rest of the line.
    pub(super) max: usize,
}

const fn words(title: &'static str, max: usize) -> Column {
    Column { title, is_number: false, max }
}

const fn number(title: &'static str, max: usize) -> Column {
    Column { title, is_number: true, max }
}

const DEVICES: &[Column] = &[
    words("NODE", 14),
    number("DEV", 4),
    words("NAME", 14),
    number("USE", 7),
    number("MEMORY", 16),
    number("JOB", 6),
    words("USERS, PROGRAMS", 0),
];
const NODES: &[Column] = &[
    words("NODE", 20),
    words("STATE", 8),
    number("DEVICES", 7),
    number("BUSY", 4),
    number("HELD", 4),
    number("IDLE", 4),
    number("MEMORY", 16),
    number("SESSIONS", 8),
    words("WHY", 0),
];
const USERS: &[Column] = &[
    words("USER", 20),
    number("RUNNING", 7),
    number("WAITING", 7),
    number("SESSIONS", 8),
    number("DEVICES", 7),
    number("USE", 7),
    number("IDLE", 4),
    number("MEMORY", 10),
    words("", 0),
];
const JOBS: &[Column] = &[
    number("JOB", 6),
    words("USER", 10),
    words("PROGRAM", 10),
    words("REQUEST", 12),
    words("STATE", 9),
    words("SINCE", 10),
    number("USE", 7),
    words("DEVICES, OR WHY IT WAITS", 0),
];

/// Returns the columns of a table.
pub(super) fn columns(table: WatchTable) -> &'static [Column] {
    match table {
        WatchTable::Devices => DEVICES,
        WatchTable::Nodes => NODES,
        WatchTable::Users => USERS,
        WatchTable::Jobs => JOBS,
        WatchTable::Unspecified => &[],
    }
}

/// Returns the entries of a row.
pub(super) fn cells(line: &Line, unix_ms: u64) -> Vec<String> {
    match line {
        Line::Node(node) => node_cells(node, unix_ms),
        Line::Device(device) => device_cells(device, unix_ms),
        Line::User(user) => user_cells(user),
        Line::Job(job) => job_cells(job, unix_ms),
    }
}

fn percent(percent: Option<u32>) -> String {
    percent.map_or_else(|| "unknown".to_owned(), |percent| format!("{percent} %"))
}

/// Writes used and total memory, in the total's unit unless that is too large: `71.0/139 GiB`, `2.0 MiB/139 GiB`.
pub(super) fn part_of(used: u64, all: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len() - 1).find(|unit| all >> (10 * (unit + 1)) == 0).unwrap_or(UNITS.len() - 1);
    let in_unit = |bytes: u64| bytes as f64 / (1_u64 << (10 * unit)) as f64;
    let word = |value: f64| if value < 99.95 && value > 0.0 { format!("{value:.1}") } else { format!("{value:.0}") };
    let used = match in_unit(used) {
        part if used > 0 && part < 0.05 => bytes(used),
        part => word(part),
    };
    format!("{used}/{} {}", word(in_unit(all)), UNITS.get(unit).unwrap_or(&""))
}

fn device_cells(device: &DeviceLine, unix_ms: u64) -> Vec<String> {
    let condition = match device.condition() {
        DeviceCondition::Drained => "drained",
        DeviceCondition::Quarantined => "in quarantine",
        DeviceCondition::Lost => "lost",
        DeviceCondition::Unspecified | DeviceCondition::Free | DeviceCondition::Used | DeviceCondition::Held => "",
    };
    let mut notes = Vec::new();
    if !condition.is_empty() {
        let reason = if device.reason.is_empty() { String::new() } else { format!(": {}", device.reason) };
        let since = device.quarantined_since_unix_ms;
        let since = since.map_or_else(String::new, |since| format!(" for {}", age(unix_ms.saturating_sub(since))));
        let charged = if device.quarantine_charged { ", charged" } else { "" };
        notes.push(format!("{condition}{since}{charged}{reason}"));
    }
    let who = [device.users.join(" "), device.programs.join(" ")].join(" ");
    notes.extend(Some(who.trim().to_owned()).filter(|who| !who.is_empty()));
    notes.extend((device.other_users > 0).then(|| others(device.other_users)));
    // Programs outside of Accord.
    notes.extend(device.used_by_others.then(|| "others".to_owned()));
    notes.extend(device.idle_since_unix_ms.map(|since| format!("idle {}", age(unix_ms.saturating_sub(since)))));
    let job = match device.jobs[..] {
        [] => "-".to_owned(),
        [job] => job.to_string(),
        [job, ..] => format!("{job}+"),
    };
    let is_lost = device.condition() == DeviceCondition::Lost;
    vec![
        device.node_name.clone(),
        device.ordinal.to_string(),
        device.name.clone(),
        if is_lost { "-".to_owned() } else { percent(device.busy_percent) },
        part_of(device.memory_used, device.memory),
        job,
        notes.join(", "),
    ]
}

/// Writes a number of hidden users: `1 other user`
fn others(number: u32) -> String {
    if number == 1 { "1 other user".to_owned() } else { format!("{number} other users") }
}

fn node_cells(node: &NodeLine, unix_ms: u64) -> Vec<String> {
    let why = node.heard_unix_ms.map_or_else(|| node.reason.clone(), |at| format!("heard {}", ago(at, unix_ms)));
    let busy =
        if node.devices_unknown > 0 && node.devices_busy == 0 { "?".to_owned() } else { node.devices_busy.to_string() };
    vec![
        node.name.clone(),
        node_state(node.state()).to_owned(),
        node.devices.to_string(),
        busy,
        node.devices_held.to_string(),
        node.devices_idle.to_string(),
        part_of(node.memory_used, node.memory),
        node.sessions.to_string(),
        why,
    ]
}

fn user_cells(user: &UserLine) -> Vec<String> {
    let name = if user.user.is_empty() { format!("({})", others(user.users)) } else { user.user.clone() };
    vec![
        name,
        user.jobs_running.to_string(),
        user.jobs_waiting.to_string(),
        user.sessions.to_string(),
        user.devices.to_string(),
        if user.devices == 0 { "-".to_owned() } else { percent(user.busy_percent) },
        user.devices_idle.to_string(),
        bytes(user.memory_used),
        String::new(),
    ]
}

fn job_cells(line: &JobLine, unix_ms: u64) -> Vec<String> {
    let job = line.job.clone().unwrap_or_default();
    let waits = matches!(job.state(), JobState::Waiting | JobState::OnHold);
    let since = job.started_unix_ms.unwrap_or(job.asked_unix_ms);
    let idle = line.idle_since_unix_ms.map(|since| format!("idle {}", age(unix_ms.saturating_sub(since))));
    let what = if waits { job.why.clone() } else { devices(&job.devices) };
    vec![
        job.job.to_string(),
        job.user.clone(),
        job.program.clone(),
        job.request.clone(),
        job_state(job.state()).to_owned(),
        age(unix_ms.saturating_sub(since)),
        if waits { "-".to_owned() } else { percent(line.busy_percent) },
        idle.into_iter().chain([what]).collect::<Vec<_>>().join(", "),
    ]
}

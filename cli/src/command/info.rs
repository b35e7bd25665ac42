//! `accord info`: the cluster, its devices, and the settings in force.

use super::reservation;
use crate::args::InfoArgs;
use crate::client::{Coordinator, variable};
use crate::cluster::{Cluster, NodeRow, Quarantine};
use crate::failure::Result;
use crate::launch::MpiPart;
use crate::output::{Table, age, bytes, count, print, report_line, runs, show};
use crate::viewpoint;
use accord_proto::v1::SessionLimits;
use accord_types::settings::{self, SettingSource};
use accord_types::unknown_settings::unknown_settings;
use accord_types::{Count, DeviceKind, DeviceUse};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most nodes to name in a line; beyond that, the line has their number.
const NAMES_MAX: usize = 8;

/// Runs `accord info`.
pub(crate) fn info(args: &InfoArgs) -> Result<u8> {
    if args.settings {
        print(&settings_text(args.json));
        return Ok(0);
    }
    let cluster = viewpoint::cluster()?;
    let reservations = Coordinator::of_environment()?.map(|mut of| of.reservations()).transpose()?;
    let (reservations, unix_ms) = reservations.unwrap_or_default();
    let mpi = MpiPart::find();
    if args.json {
        let mut all = cluster.json();
        all["mpi"] = mpi.json();
        all["reservations"] = reservations.iter().map(reservation::row_json).collect();
        print(&format!("{all:#}\n"));
    } else {
        let reserved = reservation::lines(&reservations, unix_ms);
        show(&format!("{}{reserved}\n{}\n", tables(&cluster), mpi.text()));
    }
    Ok(0)
}

/// The line about lanes between machines.
const ENCRYPTED: &str = "between machines: through TLS";
const PLAIN: &str = "between machines: NOT encrypted (--insecure-plain-tcp)";

/// The line about what of requests is enforced.
const ASKED_FOR: &str = "of a job's request, its part of shared devices' memory is asked for, not enforced; sessions share \
                         devices' time by SHARE; cores and ram are enforced where ENFORCED has cores and memory";

/// Returns the limits of a session.
fn limits(limits: SessionLimits) -> String {
    let memory = match limits.memory_quota {
        0 => "no memory quota".to_owned(),
        quota => format!("{} of memory on each device of other nodes", bytes(quota)),
    };
    let time = match limits.session_ms {
        0 => "no time limit".to_owned(),
        ms => format!("at most {}", age(ms)),
    };
    let streams = count(limits.stream_quota.into(), "stream");
    format!("a session has: {memory}, {streams} on each device, {time}\n{ASKED_FOR}")
}

/// Returns the reasons why nodes' kernels do not enforce all limits of sessions, one per line.
fn asked_for(nodes: &[NodeRow]) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let why = node.kernel_limits.iter().map(|limits| &*limits.why_not).find(|why| !why.is_empty());
        why.into_iter().for_each(|why| by_reason.entry(why).or_default().push(&node.name));
    }
    let line = |(why, names): (&&str, &Vec<&str>)| {
        let names = if names.len() > NAMES_MAX { Count(names.len(), "node").to_string() } else { names.join(", ") };
        format!("limits beside those in ENFORCED are only asked for on {names}: {why}\n")
    };
    let mut text: String = by_reason.iter().map(line).collect();
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns the tables for display.
fn tables(cluster: &Cluster) -> String {
    let mut text = String::new();
    match &cluster.coordinator {
        Some(coordinator) => text.push_str(&format!(
            "coordinator {}, up {}, view {}, control protocol {}\n{}\n{}\n\n",
            coordinator.address,
            age(coordinator.uptime_ms),
            coordinator.view,
            accord_proto::VERSION,
            if coordinator.plain_tcp { PLAIN } else { ENCRYPTED },
            limits(coordinator.limits),
        )),
        None => text.push_str(&format!(
            "no coordinator ({} is not set): this machine's devices\n\n",
            settings::COORDINATOR.name
        )),
    }
    let mut nodes =
        Table::new(&["NODE", "STATE", ">CORES", ">DEVICES", "LINKS", "ROUTE", "HEARD", "ENFORCED", "LABELS", "NEAR"]);
    for node in &cluster.nodes {
        nodes.row([
            node.name.clone(),
            node.state.to_owned(),
            node.hardware.as_ref().map_or_else(|| "-".to_owned(), |hardware| hardware.cores.to_string()),
            node.devices.to_string(),
            node.links.join(" "),
            node.route.clone().unwrap_or_else(|| "-".to_owned()),
            node.heard_ms_ago.map_or_else(|| "-".to_owned(), |ms| format!("{} ago", age(ms))),
            node.enforced(),
            if node.labels.by_name().is_empty() { "-".to_owned() } else { node.labels.to_string() },
            node.near(),
        ]);
    }
    text.push_str(&format!("{nodes}\n"));
    text.push_str(&asked_for(&cluster.nodes));
    let mut devices =
        Table::new(&[">NUM", "TYPE", "NODE", "NAME", ">MEMORY", ">UNITS", "CC", "DRIVER", "NUMA", "CPUS"]);
    for device in &cluster.devices {
        let (units, driver, cpus) = match device.info.kind {
            DeviceKind::CPU if device.info.cpus.is_empty() => ("cores", "-".to_owned(), "any".to_owned()),
            DeviceKind::CPU => ("cores", "-".to_owned(), runs(&device.info.cpus)),
            _ => ("SMs", format!("CUDA {}", device.info.driver), "-".to_owned()),
        };
        devices.row([
            device.num.map_or_else(|| "-".to_owned(), |num| num.0.to_string()),
            device.device_type.name().to_owned(),
            device.info.node_name.clone(),
            device.info.name.clone(),
            bytes(device.info.memory),
            format!("{} {units}", device.info.units),
            device.info.compute_capability().unwrap_or_else(|| "-".to_owned()),
            driver,
            device.info.numa.map_or_else(|| "-".to_owned(), |numa| numa.to_string()),
            cpus,
        ]);
    }
    if devices.is_empty() {
        text.push_str("no devices\n");
    } else {
        text.push_str(&devices.to_string());
        if cluster.devices.iter().any(|device| device.info.kind == DeviceKind::CPU && device.info.units > 1) {
            text.push_str(
                "\na region on a CPU device runs on one of its cores (ACCORD_CPU_DEVICES, docs/design/cpu-cores.md)\n",
            );
        }
        text.push_str(&numbers(cluster.coordinator.is_some()));
        text.push_str(&quarantined(cluster));
    }
    if let Some(note) = &cluster.note {
        text.push_str(&format!("\n{note}\n"));
    }
    let mut sessions = Table::new(&[
        ">SESSION", "USER", "PROGRAM", "NODE", ">PID", ">RANK", ">DEVICES", ">SHARE", "AGE", ">BUSY", ">IN", ">OUT",
        ">HELD",
    ]);
    for session in &cluster.sessions {
        let used = session.all_uses();
        let of = |amount: fn(DeviceUse) -> u64| used.map_or_else(|| "-".to_owned(), |used| bytes(amount(used)));
        sessions.row([
            session.id.to_string(),
            session.user.clone(),
            session.program.clone(),
            session.node_name.clone(),
            session.pid.to_string(),
            session.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            session.devices.to_string(),
            session.share_milli.map_or_else(|| "-".to_owned(), |milli| format!("{} %", f64::from(milli) / 10.0)),
            age(session.age_ms),
            used.map_or_else(|| "-".to_owned(), |used| used.busy_ms.map_or_else(|| "unknown".to_owned(), age)),
            of(|used| used.bytes_in),
            of(|used| used.bytes_out),
            of(|used| used.held),
        ]);
    }
    if !sessions.is_empty() {
        text.push_str(&format!("\n{sessions}"));
    }
    if cluster.other_sessions > 0 {
        text.push_str(&format!("\n{} of other users\n", count(cluster.other_sessions.into(), "session")));
    }
    text
}

/// Returns the devices in quarantine, one per line.
fn quarantined(cluster: &Cluster) -> String {
    let lines = cluster.devices.iter().filter_map(|device| {
        let Quarantine { reason, age_ms, by_administrator, charged, .. } = device.quarantine.as_ref()?;
        let by = if *by_administrator { ", by an administrator" } else { "" };
        let charged = if *charged { ", and its jobs are charged until a test shows the fault" } else { "" };
        let named = format!("{}/{}", device.info.node_name, device.info.id.ordinal);
        Some(format!("{named} is in quarantine for {}{by}{charged}: {reason}\n", age(*age_ms)))
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn settings_text(as_json: bool) -> String {
    for unknown in unknown_settings(std::env::vars_os().map(|(name, _)| name)) {
        report_line(format_args!("{unknown}"));
    }
    let in_force = settings::ALL.iter().map(|setting| (setting, setting.in_force(variable)));
    if as_json {
        let rows: Vec<Value> = in_force
            .map(|(setting, (value, source))| {
                json!({
                    "name": setting.name,
                    "value": value,
                    "source": source_name(source),
                    "default": setting.default,
                    "unit": setting.unit,
                    "aliases": setting.aliases,
                    "help": setting.help,
                })
            })
            .collect();
        return format!("{:#}\n", Value::from(rows));
    }
    let mut table = Table::new(&["SETTING", "VALUE", "SOURCE", "FORM", "WHAT IT DOES"]);
    for (setting, (value, source)) in in_force {
        let value = if value.is_empty() { "-".to_owned() } else { value };
        table.row([
            setting.name.to_owned(),
            value,
            source_name(source).to_owned(),
            setting.unit.to_owned(),
            setting.help.to_owned(),
        ]);
    }
    table.to_string()
}

fn source_name(source: SettingSource) -> &'static str {
    match source {
        SettingSource::Default => "default",
        SettingSource::Environment(name) => name,
    }
}

/// Returns the note on device numbers.
fn numbers(in_cluster: bool) -> String {
    let value = settings::DEVICE_ORDER.find(variable).map_or_else(|| "auto".to_owned(), |(_, value)| value);
    let what = match value.as_str() {
        _ if !in_cluster => return String::new(),
        "auto" => {
            "the node's own devices first; in MPI jobs a first acc_set_device_num(rank % n) stands for the device that \
             local_rank % n would be, or if the node has fewer devices than ranks, for number rank % n of one order for all"
        }
        "local" => "the node's own devices first",
        "global" => "the same in every program",
        "node" => "the node's own devices; programs see no others",
        _ => "the rank's own share first",
    };
    format!("\nnumbers ({}={value}): {what}\n", settings::DEVICE_ORDER.name)
}

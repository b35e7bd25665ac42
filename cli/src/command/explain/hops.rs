//! The sequence of processes and lanes that an operation passes.

use crate::cluster::{Cluster, DeviceRow};
use crate::failure::{Failure, Result};
use crate::output::{Table, time};
use crate::viewpoint;
use crate::ways::{BetweenDevices, ToDevice};
use accord_fabric::copy_way::CopyWay;
use accord_types::Source;
use serde_json::{Value, json};
use std::time::Duration;

/// The cluster, and the program's place in it.
pub(super) struct Viewpoint {
    pub(super) cluster: Cluster,
    pub(super) own: String,
}

impl Viewpoint {
    /// Creates the viewpoint of a program that starts here, with the known paths to and between these devices.
    pub(super) fn of_this_process(devices: &[u32], wait: Duration) -> Result<Self> {
        Ok(Self { cluster: viewpoint::measured_cluster(devices, wait)?, own: viewpoint::node_name() })
    }

    /// Returns the note if requested figures are missing.
    pub(super) fn missing(&self) -> String {
        match self.cluster.measuring {
            0 => String::new(),
            measuring => format!("\n{measuring} measurements have not come yet: ask again, or with a longer --wait\n"),
        }
    }

    /// Returns the device with a number.
    pub(super) fn device(&self, number: u32) -> Result<&DeviceRow> {
        let device_type = self.cluster.default_type();
        let of_type = self.cluster.devices.iter().filter(|row| row.device_type == device_type && row.num.is_some());
        self.cluster.device(device_type, number).ok_or_else(|| {
            Failure::new(format!(
                "there is no device {number}: a program here has {} of {}, numbered from 0; accord info shows them",
                of_type.count(),
                device_type.name()
            ))
        })
    }
}

/// One step of a way.
pub(super) struct Hop {
    /// The process or the transport of the hop.
    pub(super) what: String,
    /// The action there.
    pub(super) does: String,
    /// Whether the hop is a transport rather than a process.
    pub(super) is_lane: bool,
    /// Time of the hop, if known separately.
    pub(super) takes: Option<(u64, Source)>,
}

impl Hop {
    fn new(what: impl Into<String>, does: impl Into<String>) -> Self {
        Self { what: what.into(), does: does.into(), is_lane: false, takes: None }
    }

    fn json(&self) -> Value {
        json!({
            "hop": self.what,
            "does": self.does,
            "us": self.takes.map(|(ns, _)| us(ns)),
            "source": self.takes.map(|(_, source)| source.name()),
        })
    }
}

/// Returns the table for display.
pub(super) fn table(hops: &[Hop]) -> Table {
    let mut table = Table::new(&[">#", "HOP", ">TAKES", "KNOWN BY", "WHAT IT DOES"]);
    for (number, hop) in (1..).zip(hops) {
        let takes = hop.takes.map_or_else(|| "-".to_owned(), |(ns, _)| time(us(ns)));
        let source = hop.takes.map_or_else(|| "-".to_owned(), |(_, source)| source.name().to_owned());
        table.row([number.to_string(), hop.what.clone(), takes, source, hop.does.clone()]);
    }
    table
}

/// Returns the hops as JSON.
pub(super) fn json(hops: &[Hop]) -> Vec<Value> {
    hops.iter().map(Hop::json).collect()
}

/// Converts nanoseconds to microseconds.
pub(super) fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Returns a device's name by its number and node.
pub(super) fn named(device: &DeviceRow) -> String {
    let number = device.num.map_or_else(|| "?".to_owned(), |num| num.0.to_string());
    format!("device {number} ({} of {})", device.info.name, device.info.node_name)
}

/// Returns the hops from the program to the device.
pub(super) fn to_device(own: &str, device: &DeviceRow, way: &ToDevice) -> Vec<Hop> {
    let driven = |by: &str| Hop::new(named(device), format!("runs the region; driven by {by}"));
    match way {
        ToDevice::InProcess => {
            vec![Hop::new(format!("program on {own}"), "puts the launch into its queue"), driven("the program itself")]
        }
        ToDevice::Executor { node, lane } => {
            let mut hops = vec![Hop::new(format!("program on {own}"), "encodes the launch, and waits for its event")];
            hops.extend(lane_between(End::Program(own), End::Executor(node), lane));
            hops.extend([
                Hop::new(format!("executor on {node}"), "puts the launch into its stream"),
                driven("that executor"),
            ]);
            hops
        }
    }
}

/// Returns the hops from one device to the other.
pub(super) fn between(own: &str, from: &DeviceRow, to: &DeviceRow, between: &BetweenDevices, way: CopyWay) -> Vec<Hop> {
    let reads = Hop::new(named(from), "has the bytes");
    let gets = Hop::new(named(to), "gets the bytes");
    let middle = match between {
        BetweenDevices::InProcess => vec![Hop::new(End::Program(own).name(), "has its devices copy")],
        BetweenDevices::OneExecutor { node } => vec![Hop::new(End::Executor(node).name(), "has its devices copy")],
        BetweenDevices::Lane { node, lane } if from.info.node_name == *node => {
            pushed(End::Executor(node), lane, End::Program(own), way)
        }
        BetweenDevices::Lane { node, lane } => pushed(End::Program(own), lane, End::Executor(node), way),
        BetweenDevices::Executors { nodes: [a, b], lane } => pushed(End::Executor(a), lane, End::Executor(b), way),
    };
    std::iter::once(reads).chain(middle).chain([gets]).collect()
}

/// A process at one end of a lane, by its node.
#[derive(Clone, Copy)]
enum End<'a> {
    Program(&'a str),
    Executor(&'a str),
}

impl End<'_> {
    fn name(self) -> String {
        match self {
            Self::Program(node) => format!("program on {node}"),
            Self::Executor(node) => format!("executor on {node}"),
        }
    }

    /// Returns the agent's hop, in an MPI job.
    fn agent(self) -> Hop {
        match self {
            Self::Program(node) => Hop::new(format!("agent of {node}"), "passes bytes on between the program and MPI"),
            Self::Executor(node) => Hop::new(format!("agent of {node}"), "has the executor in its own process"),
        }
    }
}

fn pushed(first: End<'_>, lane: &str, last: End<'_>, way: CopyWay) -> Vec<Hop> {
    if way == CopyWay::Mapped {
        let does = format!("has its GPU write into memory of the {}, which it has mapped", last.name());
        return vec![Hop::new(first.name(), does)];
    }
    let mut hops = vec![Hop::new(first.name(), "pushes them, when the target is ready")];
    hops.extend(lane_between(first, last, lane));
    hops.push(Hop::new(last.name(), "puts them into the target's memory"));
    hops
}

/// Returns the hops of a lane. Agents hand lanes to executors and leave them, except those of MPI jobs.
fn lane_between(first: End<'_>, last: End<'_>, lane: &str) -> Vec<Hop> {
    if lane.starts_with("mpi ") {
        let lane = Hop { is_lane: true, ..Hop::new(lane, "carries messages between the agents") };
        return vec![first.agent(), lane, last.agent()];
    }
    vec![Hop { is_lane: true, ..Hop::new(lane, "carries them; the agent has only handed the lane over") }]
}

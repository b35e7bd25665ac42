//! What an agent measures: its node, in a process of its own that is a program with libacc.so, and paths to other agents. Rules for
//! when are in [`crate::node`].

mod child;
mod kept;
mod lines;
mod sampling;

pub use child::{ARGUMENT, main};

use crate::ask::LateTests;
use crate::ask::{self, NoAnswer};
use crate::process::Spawner;
use accord_device::cuda::VISIBLE;
use accord_device::registry;
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::measurement;
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms, Wanted};
use accord_fabric::transport::route;
use accord_proto::v1::MeasurePath;
use accord_types::{DeviceInfo, NodeFigures, NodeId, PathTimes, Result, SessionId, settings};
use kept::Kept;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long the process that measures may take: drivers of machines with many GPUs take seconds to start.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// Longest answer, in bytes: a line for each device and pair.
const ANSWER_MAX: u64 = 64 << 10;
/// How long connecting to another agent may take.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Memory of a CPU device while it is measured: what is copied, and a little more.
const CPU_MEMORY: &str = "64M";
/// What makes a program of something that is to be measured by itself.
const NOT_HANDED_ON: [&str; 6] =
    ["ACCORD_COORDINATOR", "ACCORD_TRACE", "ACCORD_TIME", "ACCORD_DEBUG", "ACC_DEVICE_TYPE", "ACC_PROFLIB"];

/// The measurements of an agent, and their means.
pub(crate) struct Measures {
    /// This program.
    pub(crate) program: PathBuf,
    /// Starts the process that measures, where the agent has executors in processes.
    pub(crate) spawner: Option<Spawner>,
    pub(crate) libacc: Option<PathBuf>,
    pub(crate) devices: Vec<DeviceInfo>,
    /// The GPUs that the process that measures sees, if not all that the agent sees.
    pub(crate) shown: Option<String>,
    /// The folder of kept figures; `None`: they are not kept.
    pub(crate) cache: Option<PathBuf>,
    /// The transport of lanes to other agents.
    pub(crate) wanted: Wanted,
    /// Whether they may go in clear.
    pub(crate) plain_tcp: bool,
    pub(crate) late_tests: LateTests,
}

impl Measures {
    /// Returns the times of the node's memory and devices: as they were kept from an earlier start on the same hardware
    /// and software, else measured.
    pub(crate) fn within_node(&self) -> NodeFigures {
        let kept =
            self.cache.as_deref().map(|folder| Kept::of(folder, &self.program, self.libacc.as_deref(), &self.devices));
        if let Some(figures) = kept.as_ref().and_then(Kept::read) {
            return NodeFigures { kept: true, ..figures };
        }
        match self.ask() {
            Ok(figures) => {
                if let Some(kept) = kept
                    && let Err(error) = kept.write(&figures)
                {
                    tracing::info!("figures of this node are not kept: {error}");
                }
                figures
            }
            Err(why) => {
                tracing::info!("this node could not be measured: {why}");
                NodeFigures { note: format!("it could not be measured: {why}"), ..NodeFigures::default() }
            }
        }
    }

    /// Has another process measure.
    fn ask(&self) -> std::result::Result<NodeFigures, String> {
        let libacc = self.libacc.as_ref().ok_or("the agent knows no libacc.so; name it with --libacc")?;
        let is_cpu = |info: &&DeviceInfo| registry::capabilities(info.kind).is_some_and(|able| able.fallback);
        let cpus = self.devices.iter().filter(is_cpu).count();
        let mut command = Command::new(&self.program);
        NOT_HANDED_ON.iter().for_each(|name| {
            command.env_remove(name);
        });
        if cpus == self.devices.len() {
            // As the agent was told: no GPUs.
            command.env(VISIBLE, "");
        } else if let Some(shown) = &self.shown {
            command.env(VISIBLE, shown);
        }
        // What it says fits into a pipe, or is waited for no longer than anything else.
        let (mut said, says) = std::io::pipe().map_err(|error| error.to_string())?;
        command
            .arg(ARGUMENT)
            .env("LD_PRELOAD", libacc)
            .env(settings::LIBACC.name, libacc)
            .env(settings::CPU_DEVICES.name, cpus.max(1).to_string())
            .env(settings::CPU_MEMORY.name, CPU_MEMORY)
            .stderr(says);
        // With the command its end of the pipe goes.
        let answer = ask::ask(command, self.spawner.as_ref(), WITHIN_MAX, ANSWER_MAX);
        let answer = answer.map_err(|why| match why {
            NoAnswer::Refused(error) => format!("the process that measures can't be started: {error}"),
            NoAnswer::Late(_) => format!("it took more than {} s", WITHIN_MAX.as_secs()),
            NoAnswer::Failed(status) => {
                let mut words = [0; 1024];
                let len = said.read(&mut words).unwrap_or(0);
                let words = String::from_utf8_lossy(&words[..len]).into_owned();
                format!("{status}: {}", words.lines().next().unwrap_or("it says nothing"))
            }
            NoAnswer::Unread(error) => error.to_string(),
        })?;
        let ordinals: Vec<u32> = self
            .devices
            .iter()
            .filter(|info| is_cpu(info) == (cpus == self.devices.len()))
            .map(|info| info.id.ordinal)
            .collect();
        lines::read(&String::from_utf8_lossy(&answer), &ordinals).ok_or_else(|| "its answer makes no sense".to_owned())
    }

    /// Measures the path to another agent, over a lane as sessions have them.
    ///
    /// # Errors
    /// Returns an error if there is no such lane.
    pub(crate) fn path(&self, order: MeasurePath) -> Result<(PathTimes, String)> {
        let to = Endpoint::new(NodeId(order.to), order.address);
        let route = route(&to, LaneTerms { wanted: self.wanted, plain_tcp: self.plain_tcp });
        let hello = Hello::new(Purpose::Measure, SessionId(order.measurement), 0, PeerId::PROGRAM);
        let lane = handshake::connect_by(&route, &hello, &Key::new(order.key)?, CONNECT_MAX)?;
        Ok((measurement::measure(&*lane)?, route.transport.to_string()))
    }
}

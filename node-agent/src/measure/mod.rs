//! The measurements of an agent: of its node, by a child process with libacc.so, and of paths to other agents.
//! [`crate::node`] decides when.

mod child;
mod lines;
mod measurement_cache;
mod sampling;

pub use child::{ARGUMENT, main};

use crate::ask::LateTests;
use crate::ask::{self, NoAnswer};
use crate::own_program::again;
use crate::process::Spawner;
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::measurement;
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms, TransportChoice};
use accord_fabric::transport::route;
use accord_gpu::VISIBLE;
use accord_proto::v1::MeasurePath;
use accord_types::{DeviceInfo, NodeFigures, NodeId, PathTimes, Result, SessionId, settings};
use measurement_cache::MeasurementCache;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// The time limit of the measuring process: drivers of machines with many GPUs take seconds to start.
const WITHIN_MAX: Duration = Duration::from_secs(30);
/// Most bytes of an answer: a line for each device and pair.
const ANSWER_MAX: u64 = 64 << 10;
/// The time limit of connecting to another agent.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Memory of a CPU device while it is measured: slightly more than the copies need.
const CPU_MEMORY: &str = "64M";
/// Variables that the measuring process must not inherit, because they would change what it measures.
const NOT_HANDED_ON: [&str; 6] =
    ["ACCORD_COORDINATOR", "ACCORD_TRACE", "ACCORD_TIME", "ACCORD_DEBUG", "ACC_DEVICE_TYPE", "ACC_PROFLIB"];

/// The measurements of an agent, and their means.
pub(crate) struct Measures {
    /// This program.
    pub(crate) program: PathBuf,
    /// Starts the measuring process, where executors are processes.
    pub(crate) spawner: Option<Spawner>,
    pub(crate) libacc: Option<PathBuf>,
    pub(crate) devices: Vec<DeviceInfo>,
    /// The GPUs that are visible to the measuring process, if not all that the agent sees.
    pub(crate) visible: Option<String>,
    /// The folder of kept figures; `None` if they are not kept.
    pub(crate) cache: Option<PathBuf>,
    /// The transport of lanes to other agents.
    pub(crate) wanted: TransportChoice,
    /// Whether lanes may be unencrypted.
    pub(crate) plain_tcp: bool,
    pub(crate) late_tests: LateTests,
}

impl Measures {
    /// Returns the times of the node's memory and devices: kept from an earlier start on the same hardware and
    /// software, or measured now.
    pub(crate) fn within_node(&self) -> NodeFigures {
        let kept = self
            .cache
            .as_deref()
            .map(|folder| MeasurementCache::of(folder, &self.program, self.libacc.as_deref(), &self.devices));
        if let Some(figures) = kept.as_ref().and_then(MeasurementCache::read) {
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

    /// Measures by a child process.
    fn ask(&self) -> std::result::Result<NodeFigures, String> {
        let libacc = self.libacc.as_ref().ok_or("the agent knows no libacc.so; name it with --libacc")?;
        let is_cpu = |info: &&DeviceInfo| accord_backends::capabilities(info.kind).is_some_and(|able| able.fallback);
        let cpus = self.devices.iter().filter(is_cpu).count();
        let mut command = again(&self.program);
        NOT_HANDED_ON.iter().for_each(|name| {
            command.env_remove(name);
        });
        if cpus == self.devices.len() {
            // The agent offers no GPUs.
            command.env(VISIBLE, "");
        } else if let Some(visible) = &self.visible {
            command.env(VISIBLE, visible);
        }
        // A full pipe blocks the child at most until the time limit.
        let (mut printed, says) = std::io::pipe().map_err(|error| error.to_string())?;
        command
            .arg(ARGUMENT)
            .env("LD_PRELOAD", libacc)
            .env(settings::LIBACC.name, libacc)
            .env(settings::CPU_DEVICES.name, cpus.max(1).to_string())
            .env(settings::CPU_MEMORY.name, CPU_MEMORY)
            .stderr(says);
        // Dropping the command closes this process's copy of the write end.
        let answer = ask::ask(command, self.spawner.as_ref(), WITHIN_MAX, ANSWER_MAX);
        let answer = answer.map_err(|why| match why {
            NoAnswer::Refused(error) => format!("the process that measures can't be started: {error}"),
            NoAnswer::Late(_) => format!("it took more than {} s", WITHIN_MAX.as_secs()),
            NoAnswer::Failed(status) => {
                let mut words = [0; 1024];
                let len = printed.read(&mut words).unwrap_or(0);
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

    /// Measures the path to another agent, over the same kind of lane as a session's.
    ///
    /// # Errors
    /// Returns an error if the lane can't be opened or measured.
    pub(crate) fn path(&self, order: MeasurePath) -> Result<(PathTimes, String)> {
        let to = Endpoint::new(NodeId(order.to), order.address);
        let route = route(&to, LaneTerms { wanted: self.wanted, plain_tcp: self.plain_tcp });
        let hello = Hello::new(Purpose::Measure, SessionId(order.measurement), 0, PeerId::PROGRAM);
        let lane = handshake::connect_by(&route, &hello, &Key::new(order.key)?, CONNECT_MAX)?;
        Ok((measurement::measure(&*lane)?, route.transport.to_string()))
    }
}

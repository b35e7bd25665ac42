//! The cluster as commands print it: a coordinator's view, or this machine alone.

use crate::failure::{Failure, Result};
use accord_device::{cpu, machine};
use accord_fabric::route::{Endpoint, LaneTerms, TransportChoice};
use accord_fabric::transport;
use accord_proto::convert::node_labels;
use accord_proto::json::node_state;
use accord_proto::v1;
use accord_types::node_labels::NodeLabels;
use accord_types::{
    Cost, DeviceId, DeviceInfo, DeviceKind, DeviceNum, DeviceType, DeviceUse, Hardware, KernelLimit, KernelLimits,
    NodeFigures, NodeId, Source, natural_order, settings,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Nodes, devices and sessions.
pub(crate) struct Cluster {
    pub(crate) coordinator: Option<CoordinatorRow>,
    pub(crate) nodes: Vec<NodeRow>,
    /// Devices by number; devices that the process would not get are last.
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) sessions: Vec<SessionRow>,
    /// Number of other users' sessions that are hidden from the caller.
    pub(crate) other_sessions: u32,
    /// Requested and known times of paths between nodes.
    pub(crate) paths: Vec<PathRow>,
    /// Number of requested measurements that are pending.
    pub(crate) measuring: u32,
    /// The reason why GPUs of this machine are missing, if there are or should be some.
    pub(crate) note: Option<String>,
}

pub(crate) struct CoordinatorRow {
    pub(crate) address: String,
    pub(crate) uptime_ms: u64,
    /// Version of the coordinator's view.
    pub(crate) view: u64,
    /// Whether traffic between machines is unencrypted.
    pub(crate) plain_tcp: bool,
    /// The limits of one session.
    pub(crate) limits: v1::SessionLimits,
}

pub(crate) struct NodeRow {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) devices: usize,
    /// Addresses of its links: `tcp 10.0.0.1:7000`
    pub(crate) links: Vec<String>,
    /// The endpoint of its agent.
    pub(crate) endpoint: Option<Endpoint>,
    /// The route to its devices from a program that starts here: `shm (same machine)`
    pub(crate) route: Option<String>,
    pub(crate) heard_ms_ago: Option<u64>,
    pub(crate) hardware: Option<Hardware>,
    /// The limits of sessions that its kernel enforces; only of other machines' agents.
    pub(crate) kernel_limits: Option<KernelLimits>,
    pub(crate) labels: NodeLabels,
    /// The node's measurements of itself.
    pub(crate) figures: Option<NodeFigures>,
}

pub(crate) struct DeviceRow {
    /// Its number in a program that is started like this process.
    pub(crate) num: Option<DeviceNum>,
    /// Its type in that program.
    pub(crate) device_type: DeviceType,
    pub(crate) info: DeviceInfo,
    /// Its quarantine, if it is in quarantine.
    pub(crate) quarantine: Option<Quarantine>,
}

/// The reason why a device is assigned to no job.
pub(crate) struct Quarantine {
    pub(crate) reason: String,
    pub(crate) since_unix_ms: u64,
    pub(crate) age_ms: u64,
    pub(crate) by_administrator: bool,
    /// Whether jobs that hold the device are charged for it.
    pub(crate) charged: bool,
}

/// The known path between two nodes.
#[derive(Clone, Debug)]
pub(crate) struct PathRow {
    pub(crate) ends: (NodeId, NodeId),
    pub(crate) cost: Cost,
    /// The transport.
    pub(crate) transport: String,
}

pub(crate) struct SessionRow {
    pub(crate) id: u64,
    pub(crate) user: String,
    pub(crate) program: String,
    pub(crate) node_name: String,
    pub(crate) pid: u32,
    pub(crate) rank: Option<u32>,
    pub(crate) devices: usize,
    /// Whether its program is connected to the coordinator.
    pub(crate) attached: bool,
    pub(crate) age_ms: u64,
    /// Its use of devices, as reported.
    pub(crate) uses: Vec<v1::SessionUse>,
    /// Thousandths of the time of devices that its job shares with others.
    pub(crate) share_milli: Option<u32>,
}

impl SessionRow {
    /// Returns its use of all devices together; `None` if nothing was reported.
    pub(crate) fn all_uses(&self) -> Option<DeviceUse> {
        let uses = self.uses.iter().map(|used| DeviceUse {
            busy_ms: used.busy_ms,
            bytes_in: used.bytes_in,
            bytes_out: used.bytes_out,
            held: used.held,
            fault: None,
        });
        uses.reduce(|sum, used| DeviceUse { held: sum.held.saturating_add(used.held), ..used.after(sum) })
    }
}

impl Cluster {
    /// Creates the cluster that a coordinator describes.
    pub(crate) fn of_view(address: &str, view: v1::ClusterView) -> Result<Self> {
        let malformed = |what| Failure::new(format!("the coordinator at {address} sent nonsense: {what}"));
        let mut infos: BTreeMap<DeviceId, DeviceInfo> = BTreeMap::new();
        let (mut nodes, mut quarantined) = (Vec::new(), BTreeMap::new());
        for mut node in view.nodes {
            quarantined.extend(std::mem::take(&mut node.quarantined).into_iter().map(|of| {
                let v1::Quarantined { ordinal, reason, since_unix_ms, by_administrator, charged } = of;
                let age_ms = view.unix_ms.saturating_sub(since_unix_ms);
                let quarantine = Quarantine { reason, since_unix_ms, age_ms, by_administrator, charged };
                (DeviceId { node: NodeId(node.id), ordinal }, quarantine)
            }));
            nodes.push(NodeRow {
                id: NodeId(node.id),
                state: node_state(node.state()),
                devices: node.devices.len(),
                links: node.links.iter().map(link_name).collect(),
                endpoint: node.links.first().map(|link| Endpoint::new(NodeId(node.id), &link.address)),
                route: None,
                heard_ms_ago: Some(node.heard_ms_ago),
                hardware: node.hardware.map(Into::into),
                kernel_limits: node.kernel_limits.map(Into::into),
                labels: node_labels(node.labels).map_err(malformed)?,
                figures: node.figures.map(Into::into),
                name: node.name,
            });
            for device in node.devices {
                let info = DeviceInfo::try_from(device).map_err(malformed)?;
                infos.insert(info.id, info);
            }
        }
        let numbered = view.numbering.into_iter().filter_map(|id| infos.remove(&id.into())).collect();
        let mut devices = number(numbered);
        let numbered_devices = devices.len();
        devices.extend(infos.into_values().map(|info| DeviceRow {
            num: None,
            device_type: type_of(info.kind),
            info,
            quarantine: None,
        }));
        for device in &mut devices {
            device.quarantine = quarantined.remove(&device.info.id);
        }
        // Sorted like device numbers, because the order of registration differs between starts of the cluster.
        nodes.sort_by(|a, b| natural_order(&a.name, &b.name));
        devices[numbered_devices..].sort_by(|a, b| {
            natural_order(&a.info.node_name, &b.info.node_name).then(a.info.id.ordinal.cmp(&b.info.id.ordinal))
        });
        let sessions = view
            .sessions
            .into_iter()
            .map(|session| SessionRow {
                id: session.id,
                user: session.user,
                program: session.program,
                node_name: session.node_name,
                pid: session.pid,
                rank: session.rank.map(|rank| rank.rank),
                devices: usize::try_from(session.device_count).unwrap_or(usize::MAX),
                attached: session.attached,
                age_ms: session.age_ms,
                uses: session.uses,
                share_milli: Some(session.share_milli).filter(|milli| *milli > 0),
            })
            .collect();
        let coordinator = CoordinatorRow {
            address: address.to_owned(),
            uptime_ms: view.uptime_ms,
            view: view.version,
            plain_tcp: view.plain_tcp,
            limits: view.limits.unwrap_or_default(),
        };
        let paths = view.paths.into_iter().filter_map(path).collect();
        let (measuring, other_sessions) = (view.measuring, view.other_sessions);
        let coordinator = Some(coordinator);
        Ok(Self { coordinator, nodes, devices, sessions, other_sessions, paths, measuring, note: None })
    }

    /// Sets the routes by which a program that starts on the node called `own` would reach the others.
    pub(crate) fn find_routes(&mut self, own: &str, wanted: TransportChoice) {
        let plain_tcp = self.coordinator.as_ref().is_some_and(|coordinator| coordinator.plain_tcp);
        let terms = LaneTerms { wanted, plain_tcp };
        for node in &mut self.nodes {
            node.route = if node.name == own {
                Some("in-process".to_owned())
            } else {
                node.endpoint.as_ref().map(|endpoint| transport::route_now(endpoint, terms).way())
            };
        }
    }

    /// Creates the cluster of a program without a coordinator.
    pub(crate) fn of_this_machine(node_name: &str) -> Result<Self> {
        let lookup = |name: &str| std::env::var(name).ok();
        let config = cpu::CpuConfig {
            devices: parsed(settings::CPU_DEVICES.find(lookup), |text| text.parse().ok())?,
            memory: parsed(settings::CPU_MEMORY.find(lookup), settings::parse_bytes)?,
        };
        let hardware = machine::hardware();
        let cpu_type = settings::ACC_DEVICE_TYPE
            .find(lookup)
            .is_some_and(|(_, name)| name.to_ascii_lowercase().trim_start_matches("acc_device_") == "cpu");
        // As in a program: CPU devices if there is no GPU, or if settings ask for them.
        let found = accord_backends::find(NodeId(0), node_name);
        // A machine without GPUs needs no note.
        let note = found.note.filter(|_| found.failed || !found.devices.is_empty());
        let mut infos = found.devices;
        if infos.is_empty() || config.devices.is_some() || cpu_type {
            let first = infos.iter().map(|gpu| gpu.id.ordinal + 1).max().unwrap_or(0);
            infos.extend(cpu::inventory(NodeId(0), node_name, &config).into_iter().map(|mut info| {
                info.id.ordinal += first;
                info
            }));
        }
        for info in &mut infos {
            info.numa = info.numa.or_else(|| machine::numa_of(&hardware, &info.cpus));
        }
        let node = NodeRow {
            id: NodeId(0),
            name: node_name.to_owned(),
            state: "here",
            devices: infos.len(),
            links: vec!["in-process".to_owned()],
            endpoint: None,
            route: Some("in-process".to_owned()),
            heard_ms_ago: None,
            hardware: Some(hardware),
            kernel_limits: None,
            labels: NodeLabels::default(),
            figures: None,
        };
        let devices = number(infos);
        let (sessions, paths) = (Vec::new(), Vec::new());
        let nodes = vec![node];
        Ok(Self { coordinator: None, nodes, devices, sessions, other_sessions: 0, paths, measuring: 0, note })
    }

    /// Returns everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let devices = self.devices.iter().map(|device| (device.info.id, device)).collect();
        json!({
            "coordinator": self.coordinator.as_ref().map(|coordinator| json!({
                "address": coordinator.address,
                "uptime_ms": coordinator.uptime_ms,
                "view": coordinator.view,
                "control_protocol": accord_proto::VERSIONS.own(),
                "plain_tcp": coordinator.plain_tcp,
                "limits": {
                    "memory_quota": coordinator.limits.memory_quota,
                    "stream_quota": coordinator.limits.stream_quota,
                    "session_ms": coordinator.limits.session_ms,
                },
            })),
            "note": self.note,
            "nodes": self.nodes.iter().map(NodeRow::json).collect::<Vec<_>>(),
            "devices": self.devices.iter().map(DeviceRow::json).collect::<Vec<_>>(),
            "other_sessions": self.other_sessions,
            "sessions": self.sessions.iter().map(|session| json!({
                "id": session.id,
                "user": session.user,
                "program": session.program,
                "node": session.node_name,
                "pid": session.pid,
                "rank": session.rank,
                "devices": session.devices,
                "attached": session.attached,
                "age_ms": session.age_ms,
                "uses": session.uses.iter().map(|used| use_json(&devices, used)).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    }
}

impl NodeRow {
    /// Returns GPUs and network interfaces with their NUMA nodes: `eth0@0 gpu 0000:3b:00.0@1`.
    pub(crate) fn near(&self) -> String {
        let devices = self.hardware.iter().flat_map(|hardware| &hardware.devices);
        let words: Vec<String> = devices
            .map(|device| {
                let name = if device.name.is_empty() {
                    format!("{} {}", device.kind.name(), device.pci)
                } else {
                    device.name.clone()
                };
                device.numa.map_or_else(|| name.clone(), |numa| format!("{name}@{numa}"))
            })
            .collect();
        if words.is_empty() { "-".to_owned() } else { words.join(" ") }
    }

    /// Returns the limits of sessions that its kernel enforces: `memory processes cores device_files`.
    pub(crate) fn enforced(&self) -> String {
        let Some(limits) = &self.kernel_limits else { return "-".to_owned() };
        let names: Vec<&str> = limits.enforced.iter().map(|limit| limit.name()).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id.0,
            "name": self.name,
            "state": self.state,
            "devices": self.devices,
            "links": self.links,
            "route": self.route,
            "heard_ms_ago": self.heard_ms_ago,
            "kernel_limits": self.kernel_limits.as_ref().map(kernel_limits),
            "labels": self.labels.by_name(),
            "hardware": self.hardware.as_ref().map(|hardware| json!({
                "cores": hardware.cores,
                "processors": hardware.processors,
                "numa": hardware.numa.iter().map(|numa| json!({
                    "index": numa.index, "cpus": numa.cpus, "memory": numa.memory,
                })).collect::<Vec<_>>(),
                "near": hardware.devices.iter().map(|near| json!({
                    "kind": near.kind.name(), "name": near.name, "pci": near.pci, "numa": near.numa,
                })).collect::<Vec<_>>(),
            })),
        })
    }
}

/// Returns whether a node's kernel enforces each limit, and why not.
fn kernel_limits(limits: &KernelLimits) -> Value {
    let enforced = KernelLimit::ALL.map(|limit| (limit.name().to_owned(), limits.enforced.contains(&limit).into()));
    let why_not = ("why_not".to_owned(), limits.why_not.as_str().into());
    Value::Object(enforced.into_iter().chain([why_not]).collect())
}

impl DeviceRow {
    fn json(&self) -> Value {
        let info = &self.info;
        let gpu = info.kind == DeviceKind::CUDA;
        json!({
            "num": self.num.map(|num| num.0),
            "type": self.device_type.name(),
            "kind": accord_backends::backend(info.kind).map_or("unknown", |backend| backend.name),
            "node": info.node_name,
            "node_id": info.id.node.0,
            "ordinal": info.id.ordinal,
            "name": info.name,
            "vendor": info.vendor,
            "driver": info.driver,
            "uuid": gpu.then_some(&info.uuid),
            "memory": info.memory,
            "context": gpu.then_some(info.context),
            "cores": (!gpu).then_some(info.units),
            "multiprocessors": gpu.then_some(info.units),
            "compute": info.compute_capability(),
            "numa": info.numa,
            "cpus": info.cpus,
            "quarantine": self.quarantine.as_ref().map(|of| json!({
                "reason": of.reason, "since_unix_ms": of.since_unix_ms, "by_administrator": of.by_administrator,
                "charged": of.charged,
            })),
        })
    }
}

fn path(path: v1::Path) -> Option<PathRow> {
    let source = match path.source() {
        v1::FigureSource::Measured => Source::Measured,
        v1::FigureSource::Estimated => Source::Estimated,
        v1::FigureSource::Unspecified => return None,
    };
    let cost = Cost { times: path.times?.into(), source };
    Some(PathRow { ends: (NodeId(path.from), NodeId(path.to)), cost, transport: path.transport })
}

/// Numbers devices within their types, in the order given.
fn number(infos: Vec<DeviceInfo>) -> Vec<DeviceRow> {
    let mut next: HashMap<DeviceType, u32> = HashMap::new();
    infos
        .into_iter()
        .map(|info| {
            let device_type = type_of(info.kind);
            let next = next.entry(device_type).or_default();
            let num = DeviceNum(*next);
            *next += 1;
            DeviceRow { num: Some(num), device_type, info, quarantine: None }
        })
        .collect()
}

/// Returns the type under which programs see devices of a kind.
pub(crate) fn type_of(kind: DeviceKind) -> DeviceType {
    let emulated = std::env::var(settings::EMULATE.name).is_ok_and(|value| value == "nvidia");
    match accord_backends::capabilities(kind) {
        Some(able) if !(emulated && able.fallback) => able.device_type,
        Some(_) => DeviceType::Nvidia,
        // A node of another version may have an unknown kind.
        None => DeviceType::NotHost,
    }
}

fn link_name(link: &v1::Link) -> String {
    match link.kind() {
        v1::LinkKind::Unspecified => link.address.clone(),
        v1::LinkKind::Tcp => format!("tcp {}", link.address),
    }
}

fn parsed<T>(found: Option<(&str, String)>, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
    let Some((name, text)) = found else {
        return Ok(None);
    };
    parse(text.trim()).map(Some).ok_or_else(|| Failure::new(format!("{name}={text}: that makes no sense")))
}
/// Returns the use of a device by a session; `null` means unknown.
fn use_json(devices: &HashMap<DeviceId, &DeviceRow>, used: &v1::SessionUse) -> Value {
    let device = devices.get(&DeviceId { node: NodeId(used.node), ordinal: used.ordinal });
    json!({
        "node": device.map(|device| &device.info.node_name),
        "ordinal": used.ordinal,
        "num": device.and_then(|device| device.num).map(|num| num.0),
        "busy_ms": used.busy_ms,
        "bytes_in": used.bytes_in,
        "bytes_out": used.bytes_out,
        "held": used.held,
    })
}

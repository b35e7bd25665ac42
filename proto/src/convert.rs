//! Conversions between messages and domain types. No other module reads or fills raw messages.

use crate::{VERSIONS, v1};
use accord_types::node_labels::NodeLabels;
use accord_types::protocol_version::UPGRADE;
use accord_types::texts::{NAME_MAX, WORDS_MAX, cut};
use accord_types::{
    DeviceFigures, DeviceId, DeviceInfo, DeviceKind, DevicePair, GpuAware, Hardware, HeldDevice, JobGrant, JobToken,
    KernelLimit, KernelLimits, NearDevice, NearKind, NodeFigures, NodeId, NumaNode, OrderPolicy, PathTimes, Rank,
    SessionGrant, SessionId, SessionKey,
};
use std::fmt;

/// A malformed message, with the name of the field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> Self {
        Self::invalid_argument(malformed.to_string())
    }
}

/// Refuses peers that speak the version of no neighbouring release.
///
/// # Errors
/// Returns `FAILED_PRECONDITION` with both versions and the remedy.
pub fn check_version(theirs: u32) -> Result<(), tonic::Status> {
    if VERSIONS.serves(theirs) {
        return Ok(());
    }
    let own = VERSIONS.own();
    Err(tonic::Status::failed_precondition(format!(
        "the peer speaks version {theirs} of the control protocol, this side version {own}; {UPGRADE}"
    )))
}

impl From<DeviceId> for v1::DeviceRef {
    fn from(id: DeviceId) -> Self {
        Self { node: id.node.0, ordinal: id.ordinal }
    }
}

impl From<v1::DeviceRef> for DeviceId {
    fn from(id: v1::DeviceRef) -> Self {
        Self { node: NodeId(id.node), ordinal: id.ordinal }
    }
}

/// Returns the number of a kind in the protocol, where 0 is "unspecified".
pub fn device_kind_number(kind: DeviceKind) -> i32 {
    i32::from(kind.number()) + 1
}

/// Returns the kind with this number; `None` for "unspecified". A kind without a name in this version is accepted.
///
/// # Errors
/// Returns [`Malformed`] for a number that no kind can have.
pub fn device_kind(raw: i32) -> Result<Option<DeviceKind>, Malformed> {
    match raw.checked_sub(1) {
        Some(-1) => Ok(None),
        Some(number) => u8::try_from(number)
            .map(|number| Some(DeviceKind::from_number(number)))
            .map_err(|_| Malformed("impossible device kind")),
        None => Err(Malformed("impossible device kind")),
    }
}

impl From<OrderPolicy> for v1::OrderPolicy {
    fn from(order: OrderPolicy) -> Self {
        match order {
            OrderPolicy::Local => Self::Local,
            OrderPolicy::Global => Self::Global,
            OrderPolicy::Rank => Self::Rank,
        }
    }
}

/// Returns the policy with this number; "unspecified" is the default.
///
/// # Errors
/// Returns [`Malformed`] for a number that is unknown to this version.
pub fn order_policy(raw: i32) -> Result<OrderPolicy, Malformed> {
    match v1::OrderPolicy::try_from(raw) {
        Ok(v1::OrderPolicy::Unspecified) => Ok(OrderPolicy::default()),
        Ok(v1::OrderPolicy::Local) => Ok(OrderPolicy::Local),
        Ok(v1::OrderPolicy::Global) => Ok(OrderPolicy::Global),
        Ok(v1::OrderPolicy::Rank) => Ok(OrderPolicy::Rank),
        Err(_) => Err(Malformed("unknown order policy")),
    }
}

impl From<DeviceInfo> for v1::Device {
    fn from(info: DeviceInfo) -> Self {
        Self {
            id: Some(info.id.into()),
            node_name: info.node_name,
            kind: device_kind_number(info.kind),
            name: cut(&info.name, NAME_MAX).to_owned(),
            vendor: cut(&info.vendor, NAME_MAX).to_owned(),
            driver: cut(&info.driver, NAME_MAX).to_owned(),
            uuid: info.uuid,
            memory: info.memory,
            units: info.units,
            compute_major: info.compute.0.into(),
            compute_minor: info.compute.1.into(),
            context: info.context,
            attributes: info
                .attributes
                .into_iter()
                .map(|(number, value)| v1::DeviceAttribute { number: number.into(), value })
                .collect(),
            numa: info.numa,
            cpus: info.cpus,
        }
    }
}

fn capability(part: u32) -> Result<u16, Malformed> {
    u16::try_from(part).map_err(|_| Malformed("impossible compute capability"))
}

fn attribute(attribute: v1::DeviceAttribute) -> Result<(u16, i32), Malformed> {
    let number = u16::try_from(attribute.number).map_err(|_| Malformed("impossible attribute of a device"))?;
    Ok((number, attribute.value))
}

/// Returns labels as messages.
pub fn labels(labels: &NodeLabels) -> Vec<v1::Label> {
    let label = |(name, value): (&String, &String)| v1::Label { name: name.clone(), value: value.clone() };
    labels.by_name().iter().map(label).collect()
}

/// Returns the labels in a message.
///
/// # Errors
/// Returns [`Malformed`] if the labels are invalid for a node.
pub fn node_labels(labels: Vec<v1::Label>) -> Result<NodeLabels, Malformed> {
    NodeLabels::new(labels.into_iter().map(|label| (label.name, label.value)))
        .map_err(|_| Malformed("impossible labels"))
}

impl TryFrom<v1::Device> for DeviceInfo {
    type Error = Malformed;

    fn try_from(device: v1::Device) -> Result<Self, Malformed> {
        Ok(Self {
            id: device.id.ok_or(Malformed("device without id"))?.into(),
            node_name: device.node_name,
            kind: device_kind(device.kind)?.ok_or(Malformed("device without kind"))?,
            name: device.name,
            vendor: device.vendor,
            driver: device.driver,
            uuid: device.uuid,
            memory: device.memory,
            units: device.units,
            compute: (capability(device.compute_major)?, capability(device.compute_minor)?),
            context: device.context,
            attributes: device.attributes.into_iter().map(attribute).collect::<Result<_, _>>()?,
            numa: device.numa,
            cpus: device.cpus,
        })
    }
}

impl From<Rank> for v1::Rank {
    fn from(rank: Rank) -> Self {
        Self {
            rank: rank.rank,
            size: rank.size,
            local_rank: rank.local_rank,
            local_size: rank.local_size,
            job: rank.job,
        }
    }
}

impl From<v1::Rank> for Rank {
    fn from(rank: v1::Rank) -> Self {
        Self {
            rank: rank.rank,
            size: rank.size,
            local_rank: rank.local_rank,
            local_size: rank.local_size,
            job: rank.job,
        }
    }
}

impl From<SessionGrant> for v1::SessionGrant {
    fn from(grant: SessionGrant) -> Self {
        Self {
            session: grant.session.0,
            program: grant.program,
            node_name: grant.node_name,
            pid: grant.pid,
            rank: grant.rank.map(Into::into),
            ordinals: grant.ordinals,
            memory_quota: grant.memory_quota,
            stream_quota: grant.stream_quota,
            opened_unix_ms: grant.opened_unix_ms,
            key: grant.key.0.to_vec(),
            user: grant.user,
            ends_in_ms: grant.ends_in_ms,
            plain_tcp: grant.plain_tcp,
            job: grant.job.map(|key| key.0.to_vec()),
        }
    }
}

impl TryFrom<v1::SessionGrant> for SessionGrant {
    type Error = Malformed;

    fn try_from(grant: v1::SessionGrant) -> Result<Self, Malformed> {
        Ok(Self {
            session: SessionId(grant.session),
            key: key_of(&grant.key)?,
            user: grant.user,
            ends_in_ms: grant.ends_in_ms,
            program: grant.program,
            node_name: grant.node_name,
            pid: grant.pid,
            rank: grant.rank.map(Into::into),
            ordinals: grant.ordinals,
            memory_quota: grant.memory_quota,
            stream_quota: grant.stream_quota,
            plain_tcp: grant.plain_tcp,
            opened_unix_ms: grant.opened_unix_ms,
            job: grant.job.map(|key| key_of(&key)).transpose()?,
        })
    }
}

fn key_of(bytes: &[u8]) -> Result<SessionKey, Malformed> {
    SessionKey::from_bytes(bytes).ok_or(Malformed("a key of another length, or one that was not drawn by chance"))
}

impl From<JobGrant> for v1::JobGrant {
    fn from(grant: JobGrant) -> Self {
        let devices = grant.devices.into_iter().map(|held| v1::HeldDevice {
            ordinal: held.ordinal,
            milli: held.milli,
            memory: held.memory,
            exclusive: held.exclusive,
            milli_cores: held.milli_cores,
            host_memory: held.host_memory,
        });
        Self {
            job: grant.token.job,
            key: grant.token.key.0.to_vec(),
            user: grant.user,
            account: grant.account,
            ends_in_ms: grant.ends_in_ms,
            devices: devices.collect(),
            suspended: grant.is_suspended,
            sessions: grant.sessions.into_iter().map(|session| session.0).collect(),
        }
    }
}

impl TryFrom<v1::JobGrant> for JobGrant {
    type Error = Malformed;

    fn try_from(grant: v1::JobGrant) -> Result<Self, Malformed> {
        let devices = grant.devices.into_iter().map(|held| HeldDevice {
            ordinal: held.ordinal,
            milli: held.milli,
            memory: held.memory,
            exclusive: held.exclusive,
            milli_cores: held.milli_cores,
            host_memory: held.host_memory,
        });
        Ok(Self {
            token: JobToken { job: grant.job, key: key_of(&grant.key)? },
            user: grant.user,
            account: grant.account,
            ends_in_ms: grant.ends_in_ms,
            devices: devices.collect(),
            sessions: grant.sessions.into_iter().map(SessionId).collect(),
            is_suspended: grant.suspended,
        })
    }
}

impl From<KernelLimits> for v1::KernelLimits {
    fn from(limits: KernelLimits) -> Self {
        let enforced = limits.enforced.into_iter().map(|limit| match limit {
            KernelLimit::Memory => v1::KernelLimit::Memory,
            KernelLimit::Processes => v1::KernelLimit::Processes,
            KernelLimit::Cores => v1::KernelLimit::Cores,
            KernelLimit::DeviceFiles => v1::KernelLimit::DeviceFiles,
        });
        Self { enforced: enforced.map(Into::into).collect(), why_not: limits.why_not }
    }
}

impl From<v1::KernelLimits> for KernelLimits {
    /// Ignores limits that this version does not know.
    fn from(limits: v1::KernelLimits) -> Self {
        let enforced = limits.enforced().filter_map(|limit| match limit {
            v1::KernelLimit::Unspecified => None,
            v1::KernelLimit::Memory => Some(KernelLimit::Memory),
            v1::KernelLimit::Processes => Some(KernelLimit::Processes),
            v1::KernelLimit::Cores => Some(KernelLimit::Cores),
            v1::KernelLimit::DeviceFiles => Some(KernelLimit::DeviceFiles),
        });
        Self { enforced: enforced.collect(), why_not: limits.why_not }
    }
}

impl From<Hardware> for v1::Hardware {
    fn from(hardware: Hardware) -> Self {
        Self {
            cores: hardware.cores,
            processors: hardware.processors,
            numa: hardware
                .numa
                .into_iter()
                .map(|node| v1::NumaNode { index: node.index, cpus: node.cpus, memory: node.memory })
                .collect(),
            devices: hardware
                .devices
                .into_iter()
                .map(|near| v1::NearDevice {
                    kind: near.kind.name().to_owned(),
                    name: near.name,
                    pci: near.pci,
                    numa: near.numa,
                })
                .collect(),
        }
    }
}

impl From<v1::Hardware> for Hardware {
    /// Omits devices of kinds that are unknown to this version.
    fn from(hardware: v1::Hardware) -> Self {
        Self {
            cores: hardware.cores,
            processors: hardware.processors,
            numa: hardware
                .numa
                .into_iter()
                .map(|node| NumaNode { index: node.index, cpus: node.cpus, memory: node.memory })
                .collect(),
            devices: hardware
                .devices
                .into_iter()
                .filter_map(|near| {
                    let kind = NearKind::from_name(&near.kind)?;
                    Some(NearDevice { kind, name: near.name, pci: near.pci, numa: near.numa })
                })
                .collect(),
        }
    }
}

impl From<PathTimes> for v1::PathTimes {
    fn from(times: PathTimes) -> Self {
        Self { small_ns: times.small_ns, medium_ns: times.medium_ns, stream_bytes_per_s: times.stream_bytes_per_s }
    }
}

impl From<v1::PathTimes> for PathTimes {
    fn from(times: v1::PathTimes) -> Self {
        Self::new(times.small_ns, times.medium_ns, times.stream_bytes_per_s)
    }
}

impl From<NodeFigures> for v1::NodeFigures {
    fn from(figures: NodeFigures) -> Self {
        let device = |device: DeviceFigures| v1::DeviceFigures {
            ordinal: device.ordinal,
            to_device: Some(device.to_device.into()),
            from_device: Some(device.from_device.into()),
            launch_ns: device.launch_ns,
        };
        let pair = |pair: DevicePair| v1::DevicePair { from: pair.from, to: pair.to, times: Some(pair.times.into()) };
        Self {
            host_copy: figures.host_copy.map(Into::into),
            devices: figures.devices.into_iter().map(device).collect(),
            pairs: figures.pairs.into_iter().map(pair).collect(),
            note: cut(&figures.note, WORDS_MAX).to_owned(),
            kept: figures.kept,
            lane_here: figures.lane_here.map(Into::into),
            agent_version: figures.agent_version,
            gpu_aware: figures.gpu_aware.map(Into::into),
        }
    }
}

impl From<GpuAware> for v1::GpuAware {
    fn from(aware: GpuAware) -> Self {
        match aware {
            GpuAware::Yes => Self { yes: true, why_not: String::new() },
            GpuAware::No(why_not) => Self { yes: false, why_not: cut(&why_not, WORDS_MAX).to_owned() },
            GpuAware::Untried => Self { yes: false, why_not: String::new() },
        }
    }
}

impl From<v1::GpuAware> for GpuAware {
    fn from(aware: v1::GpuAware) -> Self {
        match aware.yes {
            true => Self::Yes,
            false if aware.why_not.is_empty() => Self::Untried,
            false => Self::No(aware.why_not),
        }
    }
}

impl From<v1::NodeFigures> for NodeFigures {
    /// Omits devices and pairs with a missing figure.
    fn from(figures: v1::NodeFigures) -> Self {
        let device = |device: v1::DeviceFigures| {
            Some(DeviceFigures {
                ordinal: device.ordinal,
                to_device: device.to_device?.into(),
                from_device: device.from_device?.into(),
                launch_ns: device.launch_ns,
            })
        };
        let pair = |pair: v1::DevicePair| Some(DevicePair { from: pair.from, to: pair.to, times: pair.times?.into() });
        Self {
            host_copy: figures.host_copy.map(Into::into),
            devices: figures.devices.into_iter().filter_map(device).collect(),
            pairs: figures.pairs.into_iter().filter_map(pair).collect(),
            note: figures.note,
            kept: figures.kept,
            lane_here: figures.lane_here.map(Into::into),
            agent_version: figures.agent_version,
            gpu_aware: figures.gpu_aware.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(3), ordinal: 1 },
            node_name: "h3".into(),
            kind: DeviceKind::CPU,
            name: "CPU".into(),
            vendor: "AMD".into(),
            driver: "0.1.0".into(),
            uuid: "GPU-0".into(),
            memory: 1 << 30,
            units: 4,
            compute: (9, 0),
            context: 512 << 20,
            attributes: vec![(16, 132), (75, 9)],
            numa: Some(0),
            cpus: vec![0, 1, 2, 3],
        }
    }

    #[test]
    fn devices_survive_the_round_trip() {
        assert_eq!(DeviceInfo::try_from(v1::Device::from(info())), Ok(info()));
    }

    #[test]
    fn figures_survive_the_round_trip() {
        let times = PathTimes::new(1, 2, 3);
        let figures = NodeFigures {
            host_copy: Some(times),
            devices: vec![DeviceFigures { ordinal: 2, to_device: times, from_device: times, launch_ns: 4 }],
            pairs: vec![DevicePair { from: 0, to: 1, times }],
            note: "no GPU".into(),
            kept: true,
            lane_here: Some(times),
            agent_version: "0.1.0".into(),
            gpu_aware: Some(GpuAware::No("it is not".into())),
        };
        let mut sent = v1::NodeFigures::from(figures.clone());
        assert_eq!(NodeFigures::from(sent.clone()), figures);
        sent.devices[0].to_device = None;
        assert!(NodeFigures::from(sent).devices.is_empty());
    }

    #[test]
    fn devices_without_id_or_kind_are_refused_and_those_of_unknown_kind_passed_on() {
        let device = v1::Device { id: None, ..info().into() };
        assert_eq!(DeviceInfo::try_from(device), Err(Malformed("device without id")));
        let device = v1::Device { kind: 77, ..info().into() };
        assert_eq!(v1::Device::from(DeviceInfo::try_from(device).unwrap()).kind, 77);
        let device = v1::Device { kind: 1 << 20, ..info().into() };
        assert_eq!(DeviceInfo::try_from(device), Err(Malformed("impossible device kind")));
        let device = v1::Device { kind: 0, ..info().into() };
        assert_eq!(DeviceInfo::try_from(device), Err(Malformed("device without kind")));
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let own = VERSIONS.own();
        assert!(check_version(own).is_ok() && check_version(own + 1).is_ok());
        let status = check_version(own + 2).unwrap_err();
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        for words in [&format!("version {}", own + 2), &format!("version {own};"), UPGRADE] {
            assert!(status.message().contains(words), "{status}");
        }
    }
}

//! Bounds of every list and text of every message. The functions destructure each message, so that a new field can't be
//! forgotten. `tests/bounds.rs` tries every list and text of the `.proto` files.

mod admin;
mod cluster;
mod jobs;
mod reservations;

pub use cluster::{LOG_LINES_MAX, LOG_REPLY_BYTES_MAX, PAGE_URL_MAX, WATCH_NAMES_MAX, WATCH_ROWS_MAX};
pub use jobs::{
    EXPLANATION_LINES_MAX, JOB_EVENTS_MAX, JOB_TEXT_MAX, POLICY_CHANGES_MAX, POLICY_FINDINGS_MAX, POLICY_REQUEST_MAX,
    POLICY_TEXT_MAX, WHAT_IF_TEXT_MAX,
};
pub use reservations::{MEMBERS_MAX, TARGETS_MAX};

use crate::convert::Malformed;
use crate::v1;
use accord_types::ATTRIBUTES_MAX;
use accord_types::node_labels::{LABEL_MAX, LABELS_MAX};
use accord_types::texts::{ADDRESS_MAX, NAME_MAX, PATH_MAX, WORDS_MAX};
use prost::Message;
use v1::{agent_message, coordinator_message};

/// Longest message to or from an agent, in bytes.
pub const AGENT_MESSAGE_MAX: usize = 4 << 20;
/// Longest request of a tool, in bytes.
pub const REQUEST_MAX: usize = 16 << 10;
/// Most devices of a node.
pub const NODE_DEVICES_MAX: usize = 256;
/// Most pairs of a node's devices with measured copies.
pub const DEVICE_PAIRS_MAX: usize = NODE_DEVICES_MAX * NODE_DEVICES_MAX;
/// Most sessions of a node that have an executor there, or a program that drives the node's devices itself.
pub const NODE_SESSIONS_MAX: usize = 2_048;
/// Most sessions that an agent knows, with or without an executor.
pub const NODE_GRANTS_MAX: usize = 65_536;
/// Most uses of devices by sessions in a report.
pub const USES_MAX: usize = 1_024;
/// Most jobs with devices of a node in a message.
pub const NODE_JOBS_MAX: usize = 1_024;
/// Most kinds of limits that a node's kernel enforces.
pub const KERNEL_LIMITS_MAX: usize = 16;
/// Longest name of an account with its user, in bytes.
pub const ACCOUNT_MAX: usize = 2 * NAME_MAX;
/// Most processors, NUMA nodes and relevant PCI devices of a machine.
pub const PROCESSORS_MAX: usize = 8_192;
/// Most addresses of a node.
pub const LINKS_MAX: usize = 8;
/// Most nodes in a query for all paths between them.
pub const PATHS_OF_MAX: usize = 64;
/// Most nodes, sessions, devices or paths in a message to a tool.
pub const PAGE_ITEMS_MAX: usize = 1 << 16;
/// Length of every key, in bytes.
pub const KEY_MAX: usize = accord_types::SessionKey::LEN;

/// A message with bounds on its fields.
pub trait Bounded {
    /// Checks that all lists and texts are within their bounds.
    ///
    /// # Errors
    /// Returns [`Malformed`] with the first field that exceeds its bound.
    fn check(&self) -> Result<(), Malformed>;
}

/// Decodes a message that was not received by gRPC.
///
/// # Errors
/// Returns the reason in words if the bytes are not such a message, or a field exceeds its bound.
pub fn read<M: Message + Bounded + Default>(bytes: &[u8]) -> Result<M, String> {
    let message = M::decode(bytes).map_err(|error| error.to_string())?;
    message.check().map_err(|malformed| malformed.to_string())?;
    Ok(message)
}

/// Refuses a length above the bound, and names the field.
fn within(len: usize, max: usize, field: &'static str) -> Result<(), Malformed> {
    if len <= max { Ok(()) } else { Err(Malformed(field)) }
}

/// Checks a list's length and each of its messages.
fn all<T: Bounded>(list: &[T], max: usize, field: &'static str) -> Result<(), Malformed> {
    within(list.len(), max, field)?;
    list.iter().try_for_each(Bounded::check)
}

/// Implements [`Bounded`] for messages without lists or texts, by naming each field.
macro_rules! without_lists {
    ($($message:ident { $($field:ident),* })*) => {$(
        impl Bounded for v1::$message {
            fn check(&self) -> Result<(), Malformed> {
                let Self { $($field: _),* } = self;
                Ok(())
            }
        }
    )*};
}

without_lists! {
    ChangeJobRequest { version, job, limit_ms, first }
    CloseSessionReply {}
    CloseSessionRequest { version, session }
    DeleteReservationReply {}
    DeviceAttribute { number, value }
    DeviceFigures { ordinal, to_device, from_device, launch_ns }
    DeviceLoad { ordinal, busy_percent, memory_used }
    DevicePair { from, to, times }
    DeviceRef { node, ordinal }
    DeviceUse { session, ordinal, busy_ms, bytes_in, bytes_out, held, fault }
    Drain { draining }
    Goodbye {}
    HeldDevice { ordinal, milli, memory, exclusive, milli_cores, host_memory }
    HistoryRequest { version, before }
    JobRequest { version, job }
    Leaving {}
    MeasureNode {}
    OpenPageRequest { version }
    PageStart { list, from }
    PauseReply { waiting, running }
    PauseRequest { version, pause }
    QueueRequest { version, from, view }
    SendSessionLog { question, session }
    SessionLimits { memory_quota, stream_quota, session_ms }
    SessionLogsRequest { version, session }
    SessionUse { node, ordinal, busy_ms, bytes_in, bytes_out, held }
    PathTimes { small_ns, medium_ns, stream_bytes_per_s }
    Rank { rank, size, local_rank, local_size, job }
    ShutdownReply {}
    ShutdownRequest { version, agents }
    Stop {}
    TestDevice { ordinal, number }
    UsageRequest { version, by, from }
}

impl<T: Bounded> Bounded for Option<T> {
    fn check(&self) -> Result<(), Malformed> {
        self.as_ref().map_or(Ok(()), Bounded::check)
    }
}

impl Bounded for v1::Device {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            id: _,
            node_name,
            kind: _,
            name,
            vendor,
            driver,
            memory: _,
            units: _,
            numa: _,
            cpus,
            uuid,
            compute_major: _,
            compute_minor: _,
            context: _,
            attributes,
        } = self;
        within(node_name.len(), NAME_MAX, "Device.node_name is too long")?;
        within(name.len(), NAME_MAX, "Device.name is too long")?;
        within(vendor.len(), NAME_MAX, "Device.vendor is too long")?;
        within(driver.len(), NAME_MAX, "Device.driver is too long")?;
        within(cpus.len(), PROCESSORS_MAX, "Device.cpus is too long")?;
        within(attributes.len(), ATTRIBUTES_MAX, "Device.attributes is too long")?;
        within(uuid.len(), NAME_MAX, "Device.uuid is too long")
    }
}

impl Bounded for v1::Hardware {
    fn check(&self) -> Result<(), Malformed> {
        let Self { cores: _, processors: _, numa, devices } = self;
        all(numa, PROCESSORS_MAX, "Hardware.numa is too long")?;
        all(devices, PROCESSORS_MAX, "Hardware.devices is too long")
    }
}

impl Bounded for v1::NumaNode {
    fn check(&self) -> Result<(), Malformed> {
        let Self { index: _, cpus, memory: _ } = self;
        within(cpus.len(), PROCESSORS_MAX, "NumaNode.cpus is too long")
    }
}

impl Bounded for v1::NearDevice {
    fn check(&self) -> Result<(), Malformed> {
        let Self { kind, name, pci, numa: _ } = self;
        within(kind.len(), NAME_MAX, "NearDevice.kind is too long")?;
        within(name.len(), NAME_MAX, "NearDevice.name is too long")?;
        within(pci.len(), NAME_MAX, "NearDevice.pci is too long")
    }
}

impl Bounded for v1::SessionGrant {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            session: _,
            program,
            node_name,
            pid: _,
            rank: _,
            ordinals,
            memory_quota: _,
            stream_quota: _,
            opened_unix_ms: _,
            key,
            user,
            ends_in_ms: _,
            plain_tcp: _,
            job,
        } = self;
        within(job.as_ref().map_or(0, Vec::len), KEY_MAX, "SessionGrant.job is too long")?;
        within(program.len(), NAME_MAX, "SessionGrant.program is too long")?;
        within(node_name.len(), NAME_MAX, "SessionGrant.node_name is too long")?;
        within(ordinals.len(), NODE_DEVICES_MAX, "SessionGrant.ordinals is too long")?;
        within(key.len(), KEY_MAX, "SessionGrant.key is too long")?;
        within(user.len(), NAME_MAX, "SessionGrant.user is too long")
    }
}

impl Bounded for v1::JobGrant {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job: _, key, user, account, ends_in_ms: _, devices, sessions, suspended: _ } = self;
        within(key.len(), KEY_MAX, "JobGrant.key is too long")?;
        within(user.len(), NAME_MAX, "JobGrant.user is too long")?;
        within(account.len(), ACCOUNT_MAX, "JobGrant.account is too long")?;
        within(devices.len(), NODE_DEVICES_MAX, "JobGrant.devices is too long")?;
        within(sessions.len(), NODE_SESSIONS_MAX, "JobGrant.sessions is too long")
    }
}

impl Bounded for v1::JobReleased {
    fn check(&self) -> Result<(), Malformed> {
        within(self.job.len(), KEY_MAX, "JobReleased.job is too long")
    }
}

impl Bounded for v1::ScriptFailed {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job, why, script: _ } = self;
        within(job.len(), KEY_MAX, "ScriptFailed.job is too long")?;
        within(why.len(), WORDS_MAX, "ScriptFailed.why is too long")
    }
}

impl Bounded for v1::JobSuspended {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job, suspend: _, why } = self;
        within(job.len(), KEY_MAX, "JobSuspended.job is too long")?;
        within(why.len(), WORDS_MAX, "JobSuspended.why is too long")
    }
}

impl Bounded for v1::SuspendJob {
    fn check(&self) -> Result<(), Malformed> {
        let Self { job, suspend: _ } = self;
        within(job.len(), KEY_MAX, "SuspendJob.job is too long")
    }
}

impl Bounded for v1::DeviceTested {
    fn check(&self) -> Result<(), Malformed> {
        let Self { ordinal: _, verdict: _, why, number: _ } = self;
        within(why.len(), WORDS_MAX, "DeviceTested.why is too long")
    }
}

impl Bounded for v1::ReleaseJob {
    fn check(&self) -> Result<(), Malformed> {
        within(self.job.len(), KEY_MAX, "ReleaseJob.job is too long")
    }
}

impl Bounded for v1::NodeFigures {
    fn check(&self) -> Result<(), Malformed> {
        let Self { host_copy: _, devices, pairs, note, kept: _, lane_here: _, agent_version, gpu_aware } = self;
        all(devices, NODE_DEVICES_MAX, "NodeFigures.devices is too long")?;
        all(pairs, DEVICE_PAIRS_MAX, "NodeFigures.pairs is too long")?;
        within(note.len(), WORDS_MAX, "NodeFigures.note is too long")?;
        within(agent_version.len(), NAME_MAX, "NodeFigures.agent_version is too long")?;
        gpu_aware.check()
    }
}

impl Bounded for v1::GpuAware {
    fn check(&self) -> Result<(), Malformed> {
        let Self { yes: _, why_not } = self;
        within(why_not.len(), WORDS_MAX, "GpuAware.why_not is too long")
    }
}

impl Bounded for v1::AgentMessage {
    fn check(&self) -> Result<(), Malformed> {
        use agent_message::Body;
        match &self.body {
            Some(Body::Register(message)) => message.check(),
            Some(Body::Heartbeat(message)) => message.check(),
            Some(Body::UseReport(message)) => message.check(),
            Some(Body::UseEnded(message)) => message.check(),
            Some(Body::SessionStarted(message)) => message.check(),
            Some(Body::SessionEnded(message)) => message.check(),
            Some(Body::JobReleased(message)) => message.check(),
            Some(Body::ScriptFailed(message)) => message.check(),
            Some(Body::JobSuspended(message)) => message.check(),
            Some(Body::LoadReport(message)) => message.check(),
            Some(Body::DeviceTested(message)) => message.check(),
            Some(Body::Leaving(message)) => message.check(),
            Some(Body::SessionLog(message)) => message.check(),
            Some(Body::Goodbye(message)) => message.check(),
            Some(Body::NodeFigures(message)) => message.check(),
            Some(Body::PathMeasured(message)) => message.check(),
            Some(Body::JoinWorld(message)) => message.check(),
            None => Ok(()),
        }
    }
}

impl Bounded for v1::Register {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            version: _,
            node_name,
            incarnation: _,
            address,
            devices,
            hardware,
            previous_node: _,
            sessions,
            world,
            draining: _,
            jobs,
            kernel_limits,
            coordinator_epoch: _,
            labels,
            granted,
        } = self;
        within(node_name.len(), NAME_MAX, "Register.node_name is too long")?;
        within(address.len(), ADDRESS_MAX, "Register.address is too long")?;
        all(devices, NODE_DEVICES_MAX, "Register.devices is too long")?;
        hardware.check()?;
        all(sessions, NODE_SESSIONS_MAX, "Register.sessions is too long")?;
        all(jobs, NODE_JOBS_MAX, "Register.jobs is too long")?;
        within(granted.len(), NODE_GRANTS_MAX, "Register.granted is too long")?;
        within(world.len(), NAME_MAX, "Register.world is too long")?;
        all(labels, LABELS_MAX, "Register.labels is too long")?;
        kernel_limits.check()
    }
}

impl Bounded for v1::Label {
    fn check(&self) -> Result<(), Malformed> {
        let Self { name, value } = self;
        within(name.len(), LABEL_MAX, "Label.name is too long")?;
        within(value.len(), LABEL_MAX, "Label.value is too long")
    }
}

impl Bounded for v1::KernelLimits {
    fn check(&self) -> Result<(), Malformed> {
        let Self { why_not, enforced } = self;
        within(enforced.len(), KERNEL_LIMITS_MAX, "KernelLimits.enforced is too long")?;
        within(why_not.len(), WORDS_MAX, "KernelLimits.why_not is too long")
    }
}

impl Bounded for v1::JoinWorld {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, node_name, world, run: _ } = self;
        within(node_name.len(), NAME_MAX, "JoinWorld.node_name is too long")?;
        within(world.len(), NAME_MAX, "JoinWorld.world is too long")
    }
}

impl Bounded for v1::UseReport {
    fn check(&self) -> Result<(), Malformed> {
        let Self { uses } = self;
        all(uses, USES_MAX, "UseReport.uses is too long")
    }
}

impl Bounded for v1::LoadReport {
    fn check(&self) -> Result<(), Malformed> {
        let Self { loads } = self;
        all(loads, NODE_DEVICES_MAX, "LoadReport.loads is too long")
    }
}

impl Bounded for v1::UseEnded {
    fn check(&self) -> Result<(), Malformed> {
        let Self { sessions } = self;
        within(sessions.len(), USES_MAX, "UseEnded.sessions is too long")
    }
}

impl Bounded for v1::Heartbeat {
    fn check(&self) -> Result<(), Malformed> {
        let Self { sessions } = self;
        within(sessions.len(), NODE_SESSIONS_MAX, "Heartbeat.sessions is too long")
    }
}

impl Bounded for v1::SessionStarted {
    fn check(&self) -> Result<(), Malformed> {
        let Self { grant } = self;
        grant.check()
    }
}

impl Bounded for v1::SessionClosed {
    fn check(&self) -> Result<(), Malformed> {
        let Self { session: _, reason, key } = self;
        within(reason.len(), WORDS_MAX, "SessionClosed.reason is too long")?;
        within(key.len(), KEY_MAX, "SessionClosed.key is too long")
    }
}

impl Bounded for v1::SessionEnded {
    fn check(&self) -> Result<(), Malformed> {
        let Self { session: _, reason } = self;
        within(reason.len(), WORDS_MAX, "SessionEnded.reason is too long")
    }
}

impl Bounded for v1::PathMeasured {
    fn check(&self) -> Result<(), Malformed> {
        let Self { measurement: _, times: _, transport, why } = self;
        within(transport.len(), NAME_MAX, "PathMeasured.transport is too long")?;
        within(why.len(), WORDS_MAX, "PathMeasured.why is too long")
    }
}

impl Bounded for v1::CoordinatorMessage {
    fn check(&self) -> Result<(), Malformed> {
        use coordinator_message::Body;
        match &self.body {
            Some(Body::Registered(message)) => message.check(),
            Some(Body::SessionOpened(message)) => message.check(),
            Some(Body::SessionClosed(message)) => message.check(),
            Some(Body::JobStarted(message)) => message.check(),
            Some(Body::ReleaseJob(message)) => message.check(),
            Some(Body::NodeLost(message)) => message.check(),
            Some(Body::Drain(message)) => message.check(),
            Some(Body::Stop(message)) => message.check(),
            Some(Body::MeasureNode(message)) => message.check(),
            Some(Body::MeasurePath(message)) => message.check(),
            Some(Body::ExpectMeasurement(message)) => message.check(),
            Some(Body::RankLost(message)) => message.check(),
            Some(Body::TestDevice(message)) => message.check(),
            Some(Body::SendSessionLog(message)) => message.check(),
            Some(Body::SuspendJob(message)) => message.check(),
            None => Ok(()),
        }
    }
}

impl Bounded for v1::Registered {
    fn check(&self) -> Result<(), Malformed> {
        let Self { version: _, node: _, heartbeat_ms: _, lost_after_ms: _, address, plain_tcp: _, epoch: _ } = self;
        within(address.len(), ADDRESS_MAX, "Registered.address is too long")
    }
}

impl Bounded for v1::SessionOpened {
    fn check(&self) -> Result<(), Malformed> {
        let Self { grant } = self;
        grant.check()
    }
}

impl Bounded for v1::NodeLost {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node: _, node_name } = self;
        within(node_name.len(), NAME_MAX, "NodeLost.node_name is too long")
    }
}

impl Bounded for v1::RankLost {
    fn check(&self) -> Result<(), Malformed> {
        let Self { node_name } = self;
        within(node_name.len(), NAME_MAX, "RankLost.node_name is too long")
    }
}

impl Bounded for v1::MeasurePath {
    fn check(&self) -> Result<(), Malformed> {
        let Self { measurement: _, to: _, address, key } = self;
        within(address.len(), ADDRESS_MAX, "MeasurePath.address is too long")?;
        within(key.len(), KEY_MAX, "MeasurePath.key is too long")
    }
}

impl Bounded for v1::ExpectMeasurement {
    fn check(&self) -> Result<(), Malformed> {
        let Self { measurement: _, key } = self;
        within(key.len(), KEY_MAX, "ExpectMeasurement.key is too long")
    }
}

impl Bounded for v1::Link {
    fn check(&self) -> Result<(), Malformed> {
        let Self { kind: _, address } = self;
        within(address.len(), ADDRESS_MAX, "Link.address is too long")
    }
}

impl Bounded for v1::Node {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            id: _,
            name,
            state: _,
            incarnation: _,
            links,
            devices,
            hardware,
            heard_ms_ago: _,
            figures,
            kernel_limits,
            labels,
            quarantined,
        } = self;
        all(quarantined, NODE_DEVICES_MAX, "Node.quarantined is too long")?;
        within(name.len(), NAME_MAX, "Node.name is too long")?;
        all(labels, LABELS_MAX, "Node.labels is too long")?;
        all(links, LINKS_MAX, "Node.links is too long")?;
        all(devices, NODE_DEVICES_MAX, "Node.devices is too long")?;
        hardware.check()?;
        figures.check()?;
        kernel_limits.check()
    }
}

impl Bounded for v1::ExecutorStart {
    fn check(&self) -> Result<(), Malformed> {
        let Self {
            node: _,
            node_name,
            session: _,
            devices,
            key,
            libacc,
            keeper_pid: _,
            cache,
            ipc: _,
            stream_quota: _,
            memory_quota: _,
            plain_tcp: _,
            mapped: _,
            lane: _,
            turns: _,
        } = self;
        within(node_name.len(), NAME_MAX, "ExecutorStart.node_name is too long")?;
        all(devices, NODE_DEVICES_MAX, "ExecutorStart.devices is too long")?;
        within(key.len(), KEY_MAX, "ExecutorStart.key is too long")?;
        within(libacc.len(), PATH_MAX, "ExecutorStart.libacc is too long")?;
        within(cache.len(), PATH_MAX, "ExecutorStart.cache is too long")
    }
}

impl Bounded for v1::Gpus {
    fn check(&self) -> Result<(), Malformed> {
        let Self { devices, note, failed: _ } = self;
        all(devices, NODE_DEVICES_MAX, "Gpus.devices is too long")?;
        within(note.len(), WORDS_MAX, "Gpus.note is too long")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_registration_fits_a_message() {
        let text = || "x".repeat(NAME_MAX);
        let device = |ordinal| v1::Device {
            id: Some(v1::DeviceRef { node: 0, ordinal }),
            node_name: text(),
            name: text(),
            vendor: text(),
            driver: text(),
            uuid: text(),
            // Processors are of one device each.
            cpus: vec![u32::from(u16::MAX); PROCESSORS_MAX / NODE_DEVICES_MAX],
            attributes: vec![v1::DeviceAttribute { number: u32::from(u16::MAX), value: i32::MIN }; ATTRIBUTES_MAX],
            ..v1::Device::default()
        };
        let grant = v1::SessionGrant {
            session: u64::MAX,
            program: text(),
            node_name: text(),
            user: text(),
            ordinals: (0..NODE_DEVICES_MAX as u32).collect(),
            key: vec![1; KEY_MAX],
            ..v1::SessionGrant::default()
        };
        let register = v1::Register {
            node_name: text(),
            devices: (0..NODE_DEVICES_MAX as u32).map(device).collect(),
            sessions: vec![grant; NODE_SESSIONS_MAX],
            granted: vec![u64::MAX; NODE_GRANTS_MAX],
            ..v1::Register::default()
        };
        assert_eq!(register.check(), Ok(()));
        assert!(register.encoded_len() < AGENT_MESSAGE_MAX, "{}", register.encoded_len());
    }
}

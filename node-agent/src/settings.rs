//! The settings that an agent passes to executors.

use crate::node::Quota;
use crate::session_limits::SiteLimits;
use crate::suspend_memory::SuspendMemory;
use accord_fabric::copy_way::{CopyWay, CopyWays};
use accord_proto::v1;
use accord_trust::users::UserRules;
use accord_types::{DeviceInfo, NodeFigures, NodeId, SessionGrant, Source};
use std::path::PathBuf;

/// The options of the agent that concern sessions.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) node_name: String,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) libacc: Option<PathBuf>,
    /// Folder for compiled GPU code; `None` means the default folder of the executor's user.
    pub(crate) cache: Option<PathBuf>,
    /// Whether GPUs of different processes of this machine copy to each other directly.
    pub(crate) ipc: bool,
    /// Rules for the served users.
    pub(crate) users: UserRules,
    /// Whether lanes from other machines may be unencrypted, if their session's grant permits it, too.
    pub(crate) plain_tcp: bool,
    /// Whether the agent measures the node and paths to others.
    pub(crate) measures: bool,
    /// The division of executors among users.
    pub(crate) quota: Quota,
    /// The site's limits of sessions.
    pub(crate) limits: SiteLimits,
    /// Most host memory for the devices' memory of suspended jobs; `None`: half of what is free.
    pub(crate) suspend_memory: Option<SuspendMemory>,
    /// Whether the site has a prolog or an epilog.
    pub(crate) has_scripts: bool,
}

impl Settings {
    /// Returns the parameters of an executor's start, which contain nothing of the node beyond the lease.
    pub(crate) fn start(&self, grant: &SessionGrant, node: NodeId, figures: Option<&NodeFigures>) -> v1::ExecutorStart {
        let ways = figures.map(CopyWays::of_one_machine).unwrap_or_default();
        let known = |way| ways.cost(way).filter(|cost| cost.source != Source::Default).map(|cost| cost.times.into());
        let leased = self.devices.iter().filter(|device| grant.ordinals.contains(&device.id.ordinal));
        let text = |path: &PathBuf| path.display().to_string();
        v1::ExecutorStart {
            node: node.0,
            node_name: self.node_name.clone(),
            session: grant.session.0,
            stream_quota: grant.stream_quota,
            memory_quota: grant.memory_quota,
            devices: leased.cloned().map(Into::into).collect(),
            key: grant.key.0.to_vec(),
            libacc: self.libacc.as_ref().map(text).unwrap_or_default(),
            // Known once the keeper has been started.
            keeper_pid: 0,
            cache: self.cache.as_ref().map(text).unwrap_or_default(),
            ipc: self.ipc,
            plain_tcp: grant.plain_tcp,
            mapped: known(CopyWay::Mapped),
            lane: known(CopyWay::Lane),
            // Known once the lane for them exists.
            turns: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, SessionId, SessionKey};

    fn device(ordinal: u32) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h1".to_owned(),
            kind: DeviceKind::CPU,
            name: "cpu".to_owned(),
            vendor: "GNU".to_owned(),
            driver: "0".to_owned(),
            uuid: String::new(),
            memory: 1 << 30,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn an_executor_is_told_what_its_lease_names_and_no_more() {
        let settings = Settings {
            node_name: "h1".to_owned(),
            devices: (0..4).map(device).collect(),
            libacc: None,
            cache: None,
            ipc: false,
            users: UserRules::default(),
            plain_tcp: false,
            measures: false,
            quota: Quota::default(),
            limits: SiteLimits::default(),
            has_scripts: false,
            suspend_memory: None,
        };
        let grant = SessionGrant {
            session: SessionId(7),
            key: SessionKey([3; SessionKey::LEN]),
            user: "alice".to_owned(),
            ends_in_ms: None,
            program: "app".to_owned(),
            node_name: "h0".to_owned(),
            pid: 1,
            rank: None,
            ordinals: vec![1, 3, 9],
            memory_quota: 1 << 20,
            stream_quota: 4,
            plain_tcp: true,
            opened_unix_ms: 0,
            job: None,
        };
        let start = settings.start(&grant, NodeId(5), None);
        let ordinals: Vec<u32> =
            start.devices.into_iter().map(|device| DeviceInfo::try_from(device).unwrap().id.ordinal).collect();
        assert_eq!(ordinals, [1, 3]);
        assert_eq!((start.memory_quota, start.stream_quota), (1 << 20, 4));
        assert!(start.plain_tcp);
        assert_eq!((start.mapped, start.lane), (None, None));
        assert_eq!(start.key, [3; SessionKey::LEN]);
    }
}

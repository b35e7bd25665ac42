//! A job: a request for devices and, once it is granted, the allocation in which its programs open their sessions.

use super::input::ClientId;
use super::session::Owner;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{JobId, LeasedDevice, Request};
use accord_types::{DeviceId, HeldDevice, JobGrant, JobToken, NodeId, Rank, SessionId, SessionRequest};
use std::collections::{BTreeMap, BTreeSet};

/// A program that opens a session in a job once the job has started.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) client: ClientId,
    pub(super) request: SessionRequest,
    pub(super) owner: Owner,
}

/// A request that is answered a little later.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) opener: Opener,
    /// Whether it asks for a job, not for a session.
    pub(super) is_command: bool,
}

impl Held {
    pub(super) fn program(opener: Opener) -> Self {
        Self { opener, is_command: false }
    }

    pub(super) fn command(opener: Opener) -> Self {
        Self { opener, is_command: true }
    }

    /// The number of its job under an earlier coordinator, in whose order requests are asked again; others come last.
    pub(super) fn place(&self) -> u64 {
        self.opener.request.job.map_or(u64::MAX, |token| token.job)
    }
}

/// The stage of a job.
#[derive(Debug)]
pub(super) enum Stage {
    /// The scheduler has not granted its devices yet.
    Waiting,
    /// It holds these devices.
    Running(Vec<LeasedDevice>),
    /// It has ended. Agents have yet to confirm that its devices are free.
    Ended,
}

/// The keeper of a job, beside its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeper {
    /// The command that asked for it, which has this connection; none: the connection broke, and the command is to come back.
    Command(Option<ClientId>),
    /// Its sessions.
    Sessions,
}

/// The ranks of one MPI program, for which the first one that opens a session asks: their user, what the launcher calls the program's job, and how many
/// they are.
pub(super) type Gang = (String, u64, u32);

/// One job, as the coordinator keeps it beside the scheduler.
#[derive(Debug)]
pub(super) struct Job {
    /// Its number for people, and its secret.
    pub(super) token: JobToken,
    /// Its user, as attested.
    pub(super) user: String,
    /// Its account, the user's leaf of the policy's tree.
    pub(super) account: String,
    pub(super) stage: Stage,
    pub(super) keeper: Keeper,
    /// The ranks that it is for, if one of them has asked.
    pub(super) gang: Option<Gang>,
    /// Its request, as it was asked for.
    pub(super) text: String,
    /// The devices that it holds, or held when it ended, by their nodes.
    by_node: BTreeMap<NodeId, Vec<LeasedDevice>>,
    /// Each of so many ranks has a part of the devices; none: all have all of them.
    pub(super) ranks: Option<u32>,
    /// Which part is whose; none before a rank needs its own.
    parts: Option<RankParts>,
    /// Its sessions, by the word of agents that know it from an earlier coordinator.
    pub(super) named_sessions: BTreeSet<SessionId>,
    /// An earlier coordinator has started it.
    pub(super) is_earlier: bool,
    /// Time at which it got its devices; zero if only agents name it, as they don't say when.
    pub(super) started: Millis,
    /// The last time at which its devices were busy.
    pub(super) active: Millis,
    /// Whether its program was warned since then that its devices are idle.
    pub(super) is_warned: bool,
    /// Time of its end for want of a keeper.
    pub(super) idle_until: Option<Millis>,
    /// Programs that wait for its start.
    pub(super) openers: BTreeMap<ClientId, Opener>,
    /// Its open sessions.
    pub(super) sessions: BTreeSet<SessionId>,
    /// Nodes that were lost while it ran: its devices there are lost to it.
    pub(super) lost: BTreeSet<NodeId>,
}

impl Job {
    /// A job without devices, sessions and programs that wait for it.
    pub(super) fn new(token: JobToken, user: String, account: String, stage: Stage, keeper: Keeper) -> Self {
        Self {
            token,
            user,
            account,
            stage,
            keeper,
            gang: None,
            text: String::new(),
            by_node: BTreeMap::new(),
            ranks: None,
            parts: None,
            named_sessions: BTreeSet::new(),
            is_earlier: false,
            started: Millis(0),
            active: Millis(0),
            is_warned: false,
            idle_until: None,
            openers: BTreeMap::new(),
            sessions: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// A job that waits for its devices. Without a keeper's command it is the asking program that waits for it.
    pub(super) fn asked(
        id: JobId,
        account: String,
        text: String,
        wanted: &Request,
        keeper: Keeper,
        asker: Opener,
    ) -> Self {
        let rank = asker.request.rank.filter(|rank| keeper == Keeper::Sessions && rank.size > 1);
        let (token, user) = (JobToken { job: id.0, key: asker.owner.key }, asker.owner.user.clone());
        Self {
            gang: rank.map(|rank| (user.clone(), rank.job, rank.size)),
            text,
            ranks: wanted.per_rank.then_some(wanted.ranks),
            openers: if keeper == Keeper::Sessions { [(asker.client, asker)].into() } else { BTreeMap::new() },
            ..Self::new(token, user, account, Stage::Waiting, keeper)
        }
    }

    /// A job that an earlier coordinator has started, as one agent knows it.
    pub(super) fn earlier(grant: &JobGrant) -> Self {
        let stage = Stage::Running(Vec::new());
        let (user, account) = (grant.user.clone(), grant.account.clone());
        Self { is_earlier: true, ..Self::new(grant.token, user, account, stage, Keeper::Sessions) }
    }

    /// Records that it runs, with these devices.
    pub(super) fn start(&mut self, devices: Vec<LeasedDevice>) {
        self.list(&devices);
        self.stage = Stage::Running(devices);
    }

    /// Adds devices that it holds.
    pub(super) fn add_devices(&mut self, more: &[LeasedDevice]) {
        if let Stage::Running(devices) = &mut self.stage {
            devices.extend(more);
            self.list(more);
        }
    }

    /// Notes devices by their nodes.
    pub(super) fn list(&mut self, devices: &[LeasedDevice]) {
        for leased in counted(devices.iter()) {
            self.by_node.entry(leased.device.node).or_default().push(*leased);
        }
    }

    /// Whether its command is connected, or programs use it or wait for it.
    pub(super) fn is_kept(&self) -> bool {
        match self.keeper {
            Keeper::Command(client) => client.is_some(),
            Keeper::Sessions => !self.sessions.is_empty() || !self.openers.is_empty(),
        }
    }

    /// The devices that a program's session gets: those of its rank, if each rank has its own. A rank has the same ones each time. `own` is its node.
    pub(super) fn part_of(&mut self, rank: Option<Rank>, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        match (self.ranks, rank.map(|rank| rank.rank)) {
            (Some(ranks), Some(rank)) => {
                let Stage::Running(devices) = &self.stage else { return BTreeSet::new() };
                self.parts.get_or_insert_with(|| RankParts::of(devices, ranks)).of_rank(rank, own)
            }
            _ => counted(self.devices().iter()).map(|leased| leased.device).collect(),
        }
    }

    /// Records its end. Returns the ranks that had a part of its devices.
    pub(super) fn end(&mut self) -> Vec<u32> {
        self.stage = Stage::Ended;
        counted(self.parts.take().into_iter().flat_map(|parts| parts.by_rank.into_keys())).collect()
    }

    /// The number of the part that a rank has.
    pub(super) fn part_number(&self, rank: u32) -> Option<u32> {
        self.parts.as_ref()?.by_rank.get(&rank).copied()
    }

    /// The ranks that have a part, and its number.
    pub(super) fn part_numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        let by_rank = self.parts.iter().flat_map(|parts| &parts.by_rank);
        counted(by_rank.map(|(rank, part)| (*rank, *part)))
    }

    /// Gives a rank of a running job the part that it had.
    pub(super) fn restore_part(&mut self, rank: u32, part: u32) {
        let (Some(ranks), Stage::Running(devices)) = (self.ranks, &self.stage) else { return };
        self.parts.get_or_insert_with(|| RankParts::of(devices, ranks)).take(rank, part);
    }

    /// Its devices, or those that it held when it ended.
    pub(super) fn held_devices(&self) -> Vec<LeasedDevice> {
        match &self.stage {
            Stage::Running(devices) => counted(devices.iter()).copied().collect(),
            Stage::Waiting | Stage::Ended => counted(self.by_node.values().flatten()).copied().collect(),
        }
    }

    /// Its devices; none unless it runs.
    pub(super) fn devices(&self) -> &[LeasedDevice] {
        match &self.stage {
            Stage::Running(devices) => devices,
            Stage::Waiting | Stage::Ended => &[],
        }
    }

    /// Nodes that its devices are of, or were when it ended.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        counted(self.by_node.keys().copied())
    }

    /// Whether it runs with devices of a node.
    pub(super) fn has_node(&self, node: NodeId) -> bool {
        matches!(self.stage, Stage::Running(_)) && self.by_node.contains_key(&node)
    }

    /// Returns the grant for the agent of `node`.
    pub(super) fn grant(&self, node: NodeId, ends_in_ms: Option<u64>) -> JobGrant {
        let devices = self.by_node.get(&node).into_iter().flatten().map(|leased| HeldDevice {
            ordinal: leased.device.ordinal,
            milli: leased.amount.milli,
            memory: leased.amount.memory,
            exclusive: leased.exclusive,
        });
        JobGrant {
            token: self.token,
            user: self.user.clone(),
            account: self.account.clone(),
            ends_in_ms,
            devices: devices.collect(),
            sessions: Vec::new(),
        }
    }

    /// Whether it uses its devices of a node.
    pub(super) fn uses(&self, node: NodeId) -> bool {
        matches!(self.stage, Stage::Running(_)) && !self.lost.contains(&node)
    }
}

/// The devices of each rank of a job.
#[derive(Debug)]
struct RankParts {
    parts: BTreeMap<u32, BTreeSet<DeviceId>>,
    /// Which part is whose, by rank.
    by_rank: BTreeMap<u32, u32>,
    /// Parts that no rank has.
    free: BTreeSet<u32>,
    /// Those of them whose devices are all of one node, by that node.
    free_by_node: BTreeSet<(NodeId, u32)>,
}

impl RankParts {
    fn of(devices: &[LeasedDevice], ranks: u32) -> Self {
        let parts = parts_of(counted(devices.iter()), ranks);
        let node = |part| Some((node_of(parts.get(part)?)?, *part));
        let free_by_node = parts.keys().filter_map(node).collect();
        Self { by_rank: BTreeMap::new(), free: parts.keys().copied().collect(), free_by_node, parts }
    }

    /// The devices of a rank, of its own node if there is such a part.
    fn of_rank(&mut self, rank: u32, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        let on_own = |node| self.free_by_node.range((node, 0)..=(node, u32::MAX)).next().map(|(_, part)| *part);
        let free = || own.and_then(on_own).or_else(|| self.free.first().copied());
        let Some(part) = self.by_rank.get(&rank).copied().or_else(free) else { return BTreeSet::new() };
        self.take(rank, part)
    }

    /// A rank has a part from now on. Returns its devices.
    fn take(&mut self, rank: u32, part: u32) -> BTreeSet<DeviceId> {
        self.by_rank.insert(rank, part);
        self.free.remove(&part);
        let devices = self.parts.get(&part).cloned().unwrap_or_default();
        if let Some(node) = node_of(&devices) {
            self.free_by_node.remove(&(node, part));
        }
        devices
    }
}

/// The one node of some devices.
fn node_of(devices: &BTreeSet<DeviceId>) -> Option<NodeId> {
    let (first, last) = (devices.first()?.node, devices.last()?.node);
    (first == last).then_some(first)
}

/// Divides a job's devices among ranks: of each part of the request, which takes equal amounts of devices, each rank has equally many. A rank's
/// devices are of one node, as those of a node come one after the other.
fn parts_of<'a>(devices: impl Iterator<Item = &'a LeasedDevice>, ranks: u32) -> BTreeMap<u32, BTreeSet<DeviceId>> {
    let mut alike: BTreeMap<_, BTreeSet<DeviceId>> = BTreeMap::new();
    for leased in devices {
        alike.entry((leased.exclusive, leased.amount)).or_default().insert(leased.device);
    }
    let mut parts: BTreeMap<u32, BTreeSet<DeviceId>> = (0..ranks).map(|part| (part, BTreeSet::new())).collect();
    for group in alike.values() {
        let each = group.len().div_ceil(usize::try_from(ranks.max(1)).unwrap_or(usize::MAX)).max(1);
        for (at, device) in group.iter().enumerate() {
            let part = u32::try_from(at / each).unwrap_or(u32::MAX);
            parts.entry(part.min(ranks.saturating_sub(1))).or_default().insert(*device);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_scheduler::amount::Amount;

    #[test]
    fn each_rank_has_equally_many_devices_of_one_node() {
        let leased = |node, ordinal, exclusive| LeasedDevice {
            device: DeviceId { node: NodeId(node), ordinal },
            amount: Amount { milli: if exclusive { 1_000 } else { 500 }, memory: 0 },
            exclusive,
        };
        let devices = [
            leased(1, 0, true),
            leased(0, 1, true),
            leased(0, 0, true),
            leased(1, 1, true),
            leased(0, 7, false),
            leased(1, 7, false),
        ];
        let parts = parts_of(devices.iter(), 2);
        let ids = |part: u32| parts[&part].iter().map(|id| (id.node.0, id.ordinal)).collect::<Vec<_>>();
        assert_eq!(ids(0), [(0, 0), (0, 1), (0, 7)]);
        assert_eq!(ids(1), [(1, 0), (1, 1), (1, 7)]);
    }
}

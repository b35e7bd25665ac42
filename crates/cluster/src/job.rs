//! A job: a request for devices and, once granted, the allocation in which programs open sessions.

use super::input::ClientId;
use super::session::Owner;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{HostResources, JobId, LeasedDevice, Request};
use accord_types::{DeviceId, HeldDevice, JobGrant, JobToken, NodeId, Rank, SessionId, SessionRequest};
use std::collections::{BTreeMap, BTreeSet};

/// A program that opens a session in a job once the job has started.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) client: ClientId,
    pub(super) request: SessionRequest,
    pub(super) owner: Owner,
}

/// A request whose answer is delayed.
#[derive(Debug)]
pub(super) struct DeferredRequest {
    pub(super) opener: Opener,
    /// Whether it requests a job without a session, for a command.
    pub(super) is_command: bool,
}

impl DeferredRequest {
    pub(super) fn program(opener: Opener) -> Self {
        Self { opener, is_command: false }
    }

    pub(super) fn command(opener: Opener) -> Self {
        Self { opener, is_command: true }
    }

    /// Returns the job's number under an earlier coordinator. Requests are repeated in that order; new ones come last.
    pub(super) fn place(&self) -> u64 {
        self.opener.request.job.map_or(u64::MAX, |token| token.job)
    }
}

/// The stage of a job.
#[derive(Debug)]
pub(super) enum Stage {
    /// The scheduler has not granted devices yet.
    Waiting,
    /// The job holds these devices.
    Running(Vec<LeasedDevice>),
    /// The job has ended, and agents have yet to confirm that its devices are free.
    Ended,
}

/// Keeps a job alive, within its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeper {
    /// The command that requested the job, with its connection; `None` if the connection is lost and the command should
    /// reconnect.
    Command(Option<ClientId>),
    /// The job's sessions.
    Sessions,
}

/// The ranks of an MPI program, which share the first one's request: the user, the launcher's number of the job, and
/// the number of ranks.
pub(super) type Gang = (String, u64, u32);

/// The coordinator's own state of a job; the scheduler has the rest.
#[derive(Debug)]
pub(super) struct Job {
    /// The job's number and secret key.
    pub(super) token: JobToken,
    /// The attested user.
    pub(super) user: String,
    /// The account, a leaf of the policy's tree.
    pub(super) account: String,
    pub(super) stage: Stage,
    pub(super) keeper: Keeper,
    /// The ranks that the job is for, if a rank requested it.
    pub(super) gang: Option<Gang>,
    /// The text of the request.
    pub(super) text: String,
    /// The devices that the job holds, or held at its end, by node.
    by_node: BTreeMap<NodeId, Vec<LeasedDevice>>,
    /// Number of ranks, each of which has a part of the devices; `None` if all programs have all devices.
    pub(super) ranks: Option<u32>,
    /// Which rank has which part; `None` before a rank needs one.
    parts: Option<RankParts>,
    /// Sessions that agents assign to the job of an earlier coordinator.
    pub(super) named_sessions: BTreeSet<SessionId>,
    /// Whether an earlier coordinator has started the job.
    pub(super) is_earlier: bool,
    /// Time at which it got its devices; zero if only agents name it, as they don't say when.
    pub(super) started: Millis,
    /// Last time at which its devices were busy.
    pub(super) active: Millis,
    /// Whether its program has been warned since then that its devices are idle.
    pub(super) is_warned: bool,
    /// Last sign of life of a job whose command, or whose sessions without a command, have not returned since this
    /// coordinator's start. `None` once they have, and for a job that this coordinator started.
    pub(super) seen: Option<Millis>,
    /// Time at which the job ends unless it gets a keeper.
    pub(super) idle_until: Option<Millis>,
    /// Programs that wait for the start.
    pub(super) openers: BTreeMap<ClientId, Opener>,
    /// Open sessions.
    pub(super) sessions: BTreeSet<SessionId>,
    /// Nodes that were lost during the job. It has lost its devices there for good.
    pub(super) lost: BTreeSet<NodeId>,
}

impl Job {
    /// Creates a job without devices, sessions and waiting programs.
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
            seen: None,
            idle_until: None,
            openers: BTreeMap::new(),
            sessions: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Creates a job that waits for devices. Without a command as keeper, the requesting program waits for it.
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

    /// Creates a job of an earlier coordinator from one agent's report.
    pub(super) fn earlier(grant: &JobGrant, account: String) -> Self {
        let stage = Stage::Running(Vec::new());
        Self { is_earlier: true, ..Self::new(grant.token, grant.user.clone(), account, stage, Keeper::Sessions) }
    }

    /// Notes the start with these devices.
    pub(super) fn start(&mut self, devices: Vec<LeasedDevice>) {
        self.list(&devices);
        self.stage = Stage::Running(devices);
    }

    /// Adds devices to a running job.
    pub(super) fn add_devices(&mut self, more: &[LeasedDevice]) {
        if let Stage::Running(devices) = &mut self.stage {
            devices.extend(more);
            self.list(more);
        }
    }

    /// Adds devices to the index by node.
    pub(super) fn list(&mut self, devices: &[LeasedDevice]) {
        for leased in counted(devices.iter()) {
            self.by_node.entry(leased.device.node).or_default().push(*leased);
        }
    }

    /// Whether its command is connected, or programs have sessions or wait for its start.
    pub(super) fn is_kept(&self) -> bool {
        match self.keeper {
            Keeper::Command(client) => client.is_some() || !self.sessions.is_empty(),
            Keeper::Sessions => !self.sessions.is_empty() || !self.openers.is_empty(),
        }
    }

    /// Notes a sign of life of a job whose command has not returned since this coordinator's start.
    pub(super) fn seen(&mut self, now: Millis) {
        self.seen = self.seen.map(|_| now);
    }

    /// Returns the devices of a program's session: those of its rank, if ranks have parts. A rank gets the same part
    /// each time. `own` is its node.
    pub(super) fn part_of(&mut self, rank: Option<Rank>, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        match (self.ranks, rank.map(|rank| rank.rank)) {
            (Some(ranks), Some(rank)) => {
                let Stage::Running(devices) = &self.stage else { return BTreeSet::new() };
                self.parts.get_or_insert_with(|| RankParts::of(devices, ranks)).of_rank(rank, own)
            }
            _ => counted(self.devices().iter()).map(|leased| leased.device).collect(),
        }
    }

    /// Notes the end. Returns the ranks that had a part.
    pub(super) fn end(&mut self) -> Vec<u32> {
        self.stage = Stage::Ended;
        counted(self.parts.take().into_iter().flat_map(|parts| parts.by_rank.into_keys())).collect()
    }

    /// Returns the number of a rank's part.
    pub(super) fn part_number(&self, rank: u32) -> Option<u32> {
        self.parts.as_ref()?.by_rank.get(&rank).copied()
    }

    /// Returns the ranks with a part, and the part's number.
    pub(super) fn part_numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        let by_rank = self.parts.iter().flat_map(|parts| &parts.by_rank);
        counted(by_rank.map(|(rank, part)| (*rank, *part)))
    }

    /// Restores a rank's part of a running job.
    pub(super) fn restore_part(&mut self, rank: u32, part: u32) {
        let (Some(ranks), Stage::Running(devices)) = (self.ranks, &self.stage) else { return };
        self.parts.get_or_insert_with(|| RankParts::of(devices, ranks)).take(rank, part);
    }

    /// Returns the job's devices, or those that it held at its end.
    pub(super) fn held_devices(&self) -> Vec<LeasedDevice> {
        match &self.stage {
            Stage::Running(devices) => counted(devices.iter()).copied().collect(),
            Stage::Waiting | Stage::Ended => counted(self.by_node.values().flatten()).copied().collect(),
        }
    }

    /// Returns the devices of a running job, else none.
    pub(super) fn devices(&self) -> &[LeasedDevice] {
        match &self.stage {
            Stage::Running(devices) => devices,
            Stage::Waiting | Stage::Ended => &[],
        }
    }

    /// Whether the job holds a device that other jobs may use, too.
    pub(super) fn shares(&self, device: DeviceId) -> bool {
        let mut of_node = counted(self.by_node.get(&device.node).into_iter().flatten());
        of_node.any(|leased| leased.device == device && !leased.exclusive)
    }

    /// Returns the nodes of the job's devices, or of those that it held at its end.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        counted(self.by_node.keys().copied())
    }

    /// Whether the job runs with devices of a node.
    pub(super) fn has_node(&self, node: NodeId) -> bool {
        matches!(self.stage, Stage::Running(_)) && self.by_node.contains_key(&node)
    }

    /// Returns the grant for the agent of `node`. `host_resources` names what the job has beside its devices.
    pub(super) fn grant(
        &self,
        node: NodeId,
        ends_in_ms: Option<u64>,
        host_resources: &BTreeMap<DeviceId, HostResources>,
    ) -> JobGrant {
        let devices = self.by_node.get(&node).into_iter().flatten().map(|leased| {
            let HostResources { cores, memory } = host_resources.get(&leased.device).copied().unwrap_or_default();
            HeldDevice {
                ordinal: leased.device.ordinal,
                milli: leased.amount.milli,
                memory: leased.amount.memory,
                exclusive: leased.exclusive,
                milli_cores: cores,
                host_memory: memory,
            }
        });
        JobGrant {
            token: self.token,
            user: self.user.clone(),
            account: self.account.clone(),
            ends_in_ms,
            devices: devices.collect(),
            sessions: Vec::new(),
            is_suspended: false,
        }
    }

    /// Whether the job runs and has not lost its devices of a node.
    pub(super) fn uses(&self, node: NodeId) -> bool {
        matches!(self.stage, Stage::Running(_)) && !self.lost.contains(&node)
    }
}

/// The devices of each rank of a job.
#[derive(Debug)]
struct RankParts {
    parts: BTreeMap<u32, BTreeSet<DeviceId>>,
    /// The part of each rank.
    by_rank: BTreeMap<u32, u32>,
    /// Parts without a rank.
    free: BTreeSet<u32>,
    /// Free parts whose devices are all on one node, by that node.
    free_by_node: BTreeSet<(NodeId, u32)>,
}

impl RankParts {
    fn of(devices: &[LeasedDevice], ranks: u32) -> Self {
        let parts = parts_of(counted(devices.iter()), ranks);
        let node = |part| Some((node_of(parts.get(part)?)?, *part));
        let free_by_node = parts.keys().filter_map(node).collect();
        Self { by_rank: BTreeMap::new(), free: parts.keys().copied().collect(), free_by_node, parts }
    }

    /// Returns the devices of a rank, on its own node if such a part is free.
    fn of_rank(&mut self, rank: u32, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        let on_own = |node| self.free_by_node.range((node, 0)..=(node, u32::MAX)).next().map(|(_, part)| *part);
        let free = || own.and_then(on_own).or_else(|| self.free.first().copied());
        let Some(part) = self.by_rank.get(&rank).copied().or_else(free) else { return BTreeSet::new() };
        self.take(rank, part)
    }

    /// Assigns a part to a rank. Returns its devices.
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

/// Returns the node of the devices, if they are all on one.
fn node_of(devices: &BTreeSet<DeviceId>) -> Option<NodeId> {
    let (first, last) = (devices.first()?.node, devices.last()?.node);
    (first == last).then_some(first)
}

/// Divides a job's devices among ranks. Each rank gets equally many devices of every part of the request, whose devices
/// have equal amounts. Devices are dealt out in the order of nodes, so that those of a rank are on one node.
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

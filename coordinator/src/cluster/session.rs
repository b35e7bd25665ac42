//! One program's use of the cluster.

use super::input::ClientId;
use super::time::Millis;
use accord_types::{
    DeviceId, DeviceKind, NodeId, OrderPolicy, Rank, SessionGrant, SessionId, SessionKey, SessionRequest,
};
use std::collections::{BTreeMap, BTreeSet};

/// The terms of a lease. Devices are shared: several leases may name one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// The devices in the order of their device numbers. The shared lease names none: they are all that are offered.
    pub devices: Vec<DeviceId>,
    /// Bytes per device; 0 means no limit.
    pub memory_quota: u64,
    /// Streams per device.
    pub stream_quota: u32,
    /// Lanes may leave a machine in clear.
    pub plain_tcp: bool,
}

/// The common properties of the ranks of one MPI program: its name, the number of ranks, and the launcher's number of
/// their job.
pub(super) type Ranks = (String, u32, u64);

/// The owner of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The key that its processes prove to each other.
    pub key: SessionKey,
    /// The user, as attested.
    pub user: String,
}

/// Time by which an agent ends a session later than the coordinator, so that the program hears from the coordinator why before its lanes
/// end. Without a coordinator the agent does it alone.
pub(super) const AGENT_GRACE_MS: u64 = 500;

/// The source from which a session is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This coordinator, which has opened it.
    Own,
    /// An agent: an earlier coordinator has opened it.
    Agent,
    /// Its program alone, so far. An agent is believed more.
    Program,
}

/// One session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The source from which it is known.
    pub origin: Origin,
    /// Its owner.
    pub owner: Owner,
    /// Time of its end.
    pub ends: Option<Millis>,
    /// The program's connection; absent if an earlier coordinator opened the session and the program has not come back yet.
    pub client: Option<ClientId>,
    /// The program's name.
    pub program: String,
    /// The program's machine.
    pub node_name: String,
    /// The program's process.
    pub pid: u32,
    /// The program's rank.
    pub rank: Option<Rank>,
    /// The order of its devices' numbers.
    pub order: OrderPolicy,
    /// Kind of the devices that its program asked for; `None`: all.
    pub kind: Option<DeviceKind>,
    /// Whether its program has asked for devices, or is of a job.
    pub(super) asked: bool,
    /// Its right to devices.
    pub lease: LeaseTerms,
    /// Number of devices that its program has.
    pub device_count: usize,
    /// Nodes whose agents are told of it, and the ordinals of their devices that it may use.
    pub nodes: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes with an executor of it.
    pub executors: BTreeSet<NodeId>,
    /// Nodes of the lease that were lost since.
    pub lost: BTreeSet<NodeId>,
    /// The program's own node, if its agent was stopped or replaced since. Programs drive devices there without the agent, so that it is not lost.
    pub left: BTreeSet<NodeId>,
    /// Time of its opening, or when this coordinator learned of it.
    pub since: Millis,
    /// Time of its opening, by the coordinator's clock.
    pub opened_unix_ms: u64,
    /// The device that its program uses first.
    pub uses: Option<DeviceId>,
    /// Devices that its program uses without having asked for them.
    pub used: BTreeSet<DeviceId>,
    /// Devices that its program used so until their node's agent ended, and with it the executor.
    pub(super) freed: BTreeSet<DeviceId>,
    /// The key of its job; none: its program has asked for nothing.
    pub job: Option<SessionKey>,
}

impl Session {
    /// The MPI program that it is a rank of, if it is one.
    pub(super) fn ranks(&self) -> Option<Ranks> {
        let rank = self.rank?;
        Some((self.program.clone(), rank.size, rank.job))
    }

    /// Returns its name for messages: names of programs are their users' to choose.
    pub(super) fn called(&self) -> String {
        let Self { id, owner, program, pid, node_name, .. } = self;
        format!("session {id} of user {:?}, program {program:?} (process {pid} on {node_name:?})", owner.user)
    }

    pub(super) fn open(
        id: SessionId,
        client: ClientId,
        request: SessionRequest,
        owner: Owner,
        lease: LeaseTerms,
        since: Millis,
        opened_unix_ms: u64,
    ) -> Self {
        let mut nodes = BTreeMap::<NodeId, Vec<u32>>::new();
        for device in &lease.devices {
            nodes.entry(device.node).or_default().push(device.ordinal);
        }
        Self {
            id,
            origin: Origin::Own,
            owner,
            ends: None,
            client: Some(client),
            program: request.program,
            node_name: request.node_name,
            pid: request.pid,
            rank: request.rank,
            order: request.order,
            kind: request.kind,
            asked: request.devices.is_some() || request.job.is_some(),
            device_count: lease.devices.len(),
            lease,
            nodes,
            executors: BTreeSet::new(),
            lost: BTreeSet::new(),
            left: BTreeSet::new(),
            since,
            opened_unix_ms,
            uses: None,
            used: BTreeSet::new(),
            freed: BTreeSet::new(),
            job: None,
        }
    }

    /// A session that an earlier coordinator opened, as one agent knows it. Its numbering is
    /// not known here; only the program needs it, and has it.
    pub(super) fn adopt(grant: &SessionGrant, since: Millis) -> Self {
        Self {
            id: grant.session,
            origin: Origin::Agent,
            owner: Owner { key: grant.key, user: grant.user.clone() },
            ends: grant.ends_in_ms.map(|left| since.plus(left.saturating_sub(AGENT_GRACE_MS))),
            client: None,
            program: grant.program.clone(),
            node_name: grant.node_name.clone(),
            pid: grant.pid,
            rank: grant.rank,
            order: OrderPolicy::default(),
            kind: None,
            asked: false,
            device_count: 0,
            lease: LeaseTerms {
                devices: Vec::new(),
                memory_quota: grant.memory_quota,
                stream_quota: grant.stream_quota,
                plain_tcp: grant.plain_tcp,
            },
            nodes: BTreeMap::new(),
            executors: BTreeSet::new(),
            lost: BTreeSet::new(),
            left: BTreeSet::new(),
            since,
            opened_unix_ms: grant.opened_unix_ms,
            uses: None,
            used: BTreeSet::new(),
            freed: BTreeSet::new(),
            job: grant.job,
        }
    }

    /// A session that an earlier coordinator opened, as its program knows it. Where it may be is for agents to say. `lease` names no devices.
    pub(super) fn claimed(
        id: SessionId,
        client: ClientId,
        request: SessionRequest,
        owner: Owner,
        lease: LeaseTerms,
        since: Millis,
        opened_unix_ms: u64,
    ) -> Self {
        let claimed = Self::open(id, client, request, owner, lease, since, opened_unix_ms);
        Self { origin: Origin::Program, ..claimed }
    }

    /// Adds what one agent, whose devices have these ordinals, knows of an adopted session.
    pub(super) fn join(&mut self, node: NodeId, ordinals: &[u32], grant: &SessionGrant) {
        if self.origin == Origin::Own || self.nodes.contains_key(&node) {
            return;
        }
        let exists = |ordinal: &u32| ordinals.contains(ordinal);
        let named: BTreeSet<u32> = grant.ordinals.iter().copied().filter(exists).collect();
        self.lease.devices.extend(named.iter().map(|&ordinal| DeviceId { node, ordinal }));
        self.lease.devices.sort_unstable();
        self.device_count = self.lease.devices.len();
        self.nodes.insert(node, named.into_iter().collect());
    }

    /// Returns the grant for the agent of `node`.
    pub(super) fn grant(&self, now: Millis, node: NodeId) -> SessionGrant {
        SessionGrant {
            session: self.id,
            key: self.owner.key,
            user: self.owner.user.clone(),
            ends_in_ms: self.ends.map(|end| end.since(now) + AGENT_GRACE_MS),
            program: self.program.clone(),
            node_name: self.node_name.clone(),
            pid: self.pid,
            rank: self.rank,
            ordinals: self.nodes.get(&node).cloned().unwrap_or_default(),
            memory_quota: self.lease.memory_quota,
            stream_quota: self.lease.stream_quota,
            plain_tcp: self.lease.plain_tcp,
            opened_unix_ms: self.opened_unix_ms,
            job: self.job,
        }
    }
}

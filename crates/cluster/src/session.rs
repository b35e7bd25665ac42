//! A session: one program's use of the cluster.

use super::input::ClientId;
use super::time::Millis;
use accord_types::{
    DeviceId, DeviceKind, NodeId, OrderPolicy, Rank, SessionGrant, SessionId, SessionKey, SessionRequest,
};
use std::collections::{BTreeMap, BTreeSet};

/// The terms of a lease. Leases share devices: several may include the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// The devices in the order of their device numbers. Empty for the shared lease, which includes all offered
    /// devices.
    pub devices: Vec<DeviceId>,
    /// Bytes per device; 0 for no limit.
    pub memory_quota: u64,
    /// Streams per device.
    pub stream_quota: u32,
    /// Whether lanes may leave a machine unencrypted.
    pub plain_tcp: bool,
}

/// The common properties of the ranks of an MPI program: its name, the number of ranks, and the launcher's number of
/// the job.
pub(super) type Ranks = (String, u32, u64);

/// The owner of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The key by which the session's processes authenticate each other.
    pub key: SessionKey,
    /// The attested user.
    pub user: String,
}

/// Delay of an agent's end of a session after the coordinator's, so that the program first learns the reason from the
/// coordinator. Without a coordinator the agent ends the session alone.
pub(super) const AGENT_GRACE_MS: u64 = 500;

/// The source from which the coordinator knows a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The coordinator itself has opened it.
    Own,
    /// An agent has reported it; an earlier coordinator has opened it.
    Agent,
    /// Only its program has named it so far. An agent is trusted more.
    Program,
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The source from which the session is known.
    pub origin: Origin,
    /// Its owner.
    pub owner: Owner,
    /// The end of its time; `None` without one, and while its job is suspended.
    pub ends: Option<Millis>,
    /// The time that it has left after its job's suspension, in milliseconds.
    pub left_ms: Option<u64>,
    /// The program's connection; `None` if an earlier coordinator opened the session and the program has not
    /// reconnected.
    pub client: Option<ClientId>,
    /// The program's name.
    pub program: String,
    /// The program's machine.
    pub node_name: String,
    /// The process id of the program.
    pub pid: u32,
    /// The rank of the program.
    pub rank: Option<Rank>,
    /// The order of the device numbers.
    pub order: OrderPolicy,
    /// The kind of devices that its program uses; `None` for all.
    pub kind: Option<DeviceKind>,
    /// Whether its program has a request or is part of a job.
    pub(super) asked: bool,
    /// The terms of its lease.
    pub lease: LeaseTerms,
    /// Number of devices that its program has.
    pub device_count: usize,
    /// Nodes whose agents know the session, with the ordinals of the devices that it may use.
    pub nodes: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes with an executor of the session.
    pub executors: BTreeSet<NodeId>,
    /// Nodes of the lease that have been lost.
    pub lost: BTreeSet<NodeId>,
    /// The program's own node, if its agent was stopped or replaced. The node is not lost, because programs drive
    /// devices there without the agent.
    pub left: BTreeSet<NodeId>,
    /// Time of its opening, or at which this coordinator learned of it.
    pub since: Millis,
    /// Time of its opening, by the coordinator's clock.
    pub opened_unix_ms: u64,
    /// The device that its program used first.
    pub uses: Option<DeviceId>,
    /// Devices that its program uses without a request.
    pub used: BTreeSet<DeviceId>,
    /// Devices that its program used so until their node's agent ended, and with it the executor.
    pub(super) freed: BTreeSet<DeviceId>,
    /// The key of its job; none: its program has asked for nothing.
    pub job: Option<SessionKey>,
}

impl Session {
    /// Returns the MPI program of which the session is a rank.
    pub(super) fn ranks(&self) -> Option<Ranks> {
        let rank = self.rank?;
        Some((self.program.clone(), rank.size, rank.job))
    }

    /// Returns the session's name for messages, with the program's name quoted, because users choose it.
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
            left_ms: None,
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

    /// Creates a session of an earlier coordinator from one agent's report. The order of its devices is unknown; only
    /// the program needs it.
    pub(super) fn adopt(grant: &SessionGrant, since: Millis) -> Self {
        Self {
            id: grant.session,
            origin: Origin::Agent,
            owner: Owner { key: grant.key, user: grant.user.clone() },
            ends: grant.ends_in_ms.map(|left| since.plus(left.saturating_sub(AGENT_GRACE_MS))),
            left_ms: None,
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

    /// Creates a session of an earlier coordinator that its program has named. Agents have yet to confirm its nodes.
    /// `lease` has no devices.
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

    /// Adds the devices that an agent reports for an adopted session; `ordinals` are the agent's devices.
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

//! The state of the core, its one entry point, and its queries.

use super::allocations::Allocations;
use super::class_times::ClassTimes;
use super::deferred_requests::DeferredRequests;
use super::effect::Effect;
use super::ended_sessions::EndedSessions;
use super::fault_table::FaultTable;
use super::held_uses::HeldUses;
use super::input::{ClientId, Input, LinkId};
use super::job::Opener;
use super::joiners::Joiners;
use super::load_table::DeviceLoads;
use super::node::Node;
use super::node_table::NodeTable;
use super::path_table::Paths;
use super::recorder::Recorder;
use super::session::{Owner, Ranks, Session};
use super::session_end::SessionEnds;
use super::session_table::SessionTable;
use super::time::Millis;
use super::unclosed_claims::UnclosedClaims;
use super::use_table::DeviceUses;
use super::waiter_table::Waiters;
use accord_types::{DeviceId, DeviceKind, NodeId, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// Factor of the silence limit while most nodes are silent, because the coordinator itself may be disconnected.
pub(super) const DOUBT: u64 = 6;

/// All bounds and periods of the core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The interval of agents' heartbeats.
    pub heartbeat_ms: u64,
    /// Silence after which a node is lost.
    pub lost_after_ms: u64,
    /// Most known nodes, including lost ones.
    pub nodes_max: usize,
    /// Most devices of one node.
    pub devices_per_node_max: usize,
    /// Most devices of all nodes.
    pub devices_max: usize,
    /// Most sessions.
    pub sessions_max: usize,
    /// Most sessions of one user.
    pub session_quota: usize,
    /// Most ended sessions of earlier coordinators that are remembered, and most remembered reasons.
    pub ended_max: usize,
    /// Bytes per device in a lease; 0 for no limit.
    pub memory_quota: u64,
    /// Streams per device in a lease.
    pub stream_quota: u32,
    /// Longest time of a session, in milliseconds; 0 for no limit.
    pub session_ms: u64,
    /// Whether lanes of sessions may leave a machine unencrypted.
    pub plain_tcp: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heartbeat_ms: 500,
            lost_after_ms: 10_000,
            nodes_max: 16_384,
            devices_per_node_max: 256,
            devices_max: 131_072,
            sessions_max: 65_536,
            session_quota: 4_096,
            ended_max: 65_536,
            memory_quota: 0,
            stream_quota: 32,
            session_ms: 0,
            plain_tcp: false,
        }
    }
}

/// The cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(super) limits: Limits,
    /// The limits at the start, for settings that the policy leaves open.
    pub(super) flags: Limits,
    /// Milliseconds from 1970 to [`Millis`] 0.
    pub(super) started_unix_ms: u64,
    /// Upper half of the session numbers of this coordinator.
    pub(super) epoch: u64,
    /// Number of coordinators that have used the state file, or more; 0 without a file.
    pub(super) file_epoch: u64,
    pub(super) sessions_opened: u64,
    pub(super) version: u64,
    /// Time of the last tick.
    pub(super) ticked: Millis,
    /// Whether most nodes are silent, which has been logged.
    pub(super) doubts: bool,
    pub(super) nodes: NodeTable,
    pub(super) links: BTreeMap<LinkId, NodeId>,
    /// Ranks that wait until all ranks of their MPI world have registered.
    pub(super) joining: Joiners,
    pub(super) sessions: SessionTable,
    pub(super) clients: BTreeMap<ClientId, SessionId>,
    /// Devices in use, by the records, by programs from before this coordinator's start. They are held until the
    /// programs should have reconnected, even if a client without an agent's confirmation claims otherwise.
    pub(super) earlier_used: BTreeMap<SessionId, BTreeSet<DeviceId>>,
    /// Queries about devices of nodes whose agents may be about to reconnect.
    pub(super) held_uses: HeldUses,
    /// Devices in use whose nodes' agents have not registered and do not know the sessions yet.
    pub(super) unmet_uses: BTreeSet<(DeviceId, SessionId)>,
    /// Nodes at which a device of a kind, or of any kind, was last found for a program without a request.
    pub(super) offering: BTreeMap<Option<DeviceKind>, NodeId>,
    /// Versions of nodes and of the scheduler's state for which no such device was found.
    pub(super) exhausted: BTreeMap<Option<DeviceKind>, (u64, u64)>,
    /// Waiting requests in the order of their arrival.
    pub(super) held: DeferredRequests,
    /// Sessions with an executor, by node: the reverse of [`Session::executors`].
    pub(super) executing: BTreeMap<NodeId, BTreeSet<SessionId>>,
    /// Times at which sessions with a limit end, the next one first.
    pub(super) ends: BTreeSet<(Millis, SessionId)>,
    /// Ended sessions of earlier coordinators.
    pub(super) ended: EndedSessions,
    /// Reasons for the ends of sessions that their programs did not end.
    pub(super) session_ends: SessionEnds,
    /// Ended sessions that only their programs had named, of which agents that are away have to hear.
    pub(super) unclosed: UnclosedClaims,
    /// MPI programs that were warned that too many ranks use one device.
    pub(super) warned: BTreeSet<Ranks>,
    /// Figures of nodes and paths.
    pub(super) paths: Paths,
    /// Measured paths by their class, for the scheduler.
    pub(super) class_times: ClassTimes,
    /// The use of devices by sessions.
    pub(super) device_uses: DeviceUses,
    /// The load of devices by all programs.
    pub(super) device_loads: DeviceLoads,
    /// Devices with reported faults.
    pub(super) faults: FaultTable,
    /// The last reports to the waiters of the first jobs.
    pub(super) waiters: Waiters,
    /// The scheduler, and its jobs.
    pub(super) allocations: Allocations,
    /// Time of this coordinator's start.
    pub(super) began: Millis,
    /// Records changes for the state file; `None` without one.
    pub(super) recorder: Option<Recorder>,
}

impl Cluster {
    /// Bits of a session's number that count within a coordinator's life. The bits above hold a number that differs
    /// between lives.
    pub(super) const SESSION_BITS: u32 = 32;
    pub(super) const EPOCH_MASK: u64 = 0xf_ffff;

    /// Creates an empty cluster at [`Millis`] 0.
    pub fn new(limits: Limits, started_unix_ms: u64) -> Self {
        let mut allocations = Allocations::default();
        allocations.set_clock(Millis(0), started_unix_ms);
        Self {
            limits,
            flags: limits,
            started_unix_ms,
            epoch: (started_unix_ms & Self::EPOCH_MASK) << Self::SESSION_BITS,
            file_epoch: 0,
            sessions_opened: 0,
            version: 0,
            ticked: Millis(0),
            doubts: false,
            nodes: NodeTable::default(),
            links: BTreeMap::new(),
            joining: Joiners::default(),
            sessions: SessionTable::default(),
            clients: BTreeMap::new(),
            earlier_used: BTreeMap::new(),
            held_uses: HeldUses::default(),
            unmet_uses: BTreeSet::new(),
            offering: BTreeMap::new(),
            exhausted: BTreeMap::new(),
            held: DeferredRequests::default(),
            executing: BTreeMap::new(),
            ends: BTreeSet::new(),
            ended: EndedSessions::default(),
            session_ends: SessionEnds::default(),
            unclosed: UnclosedClaims::default(),
            warned: BTreeSet::new(),
            paths: Paths::default(),
            class_times: ClassTimes::default(),
            device_uses: DeviceUses::default(),
            device_loads: DeviceLoads::default(),
            faults: FaultTable::default(),
            waiters: Waiters::default(),
            allocations,
            began: Millis(0),
            recorder: None,
        }
    }

    /// Processes an input, and appends the effects to `out`.
    pub fn handle(&mut self, now: Millis, input: Input, out: &mut Vec<Effect>) {
        self.allocations.now = now;
        self.allocations.check_reservations();
        match input {
            Input::Join { link, joiner } => self.join(link, joiner, out),
            Input::Register { link, registration } => self.register(now, link, registration, out),
            Input::Heartbeat { link, sessions } => self.heartbeat(now, link, &sessions, out),
            Input::ExecutorStarted { link, grant } => self.executor_started(now, link, &grant, out),
            Input::ExecutorEnded { link, session, why } => self.executor_ended(now, link, session, &why, out),
            Input::JobReleased { link, job } => self.job_released(now, link, job, out),
            Input::JobSuspended { link, job, suspend, outcome } => {
                self.job_suspended(now, link, job, (suspend, outcome), out);
            }
            Input::ScriptFailed { link, job, script, why } => self.script_failed(now, link, (job, script, &why), out),
            Input::Leaving { link } => self.leaving(link, out),
            Input::Goodbye { link } => self.goodbye(now, link, out),
            Input::LinkLost { link } => self.link_lost(now, link, out),
            Input::Open { client, request, key, user } => self.open(now, client, request, Owner { key, user }, out),
            Input::Attach { client, session, request, key, user } => {
                self.attach(now, client, session, request, Owner { key, user }, out);
            }
            Input::Hold { client, request, key, user } => {
                let owner = Owner { key, user };
                self.hold(now, Opener { client, request, owner }, out);
            }
            Input::MayUse { client, device } => self.may_use(now, client, device, out),
            Input::InUse { client, devices } => self.in_use(now, client, &devices, out),
            Input::ProgramUsed { client, uses } => self.program_used(now, client, &uses),
            Input::AgentUsed { link, uses } => self.agent_used(now, link, &uses, out),
            Input::AgentLoads { link, loads } => self.agent_loads(now, link, &loads, out),
            Input::UseEnded { link, sessions } => self.use_ended(now, link, &sessions, out),
            Input::DeviceTested { link, ordinal, number, verdict } => {
                self.device_tested(now, (link, ordinal), (number, verdict), out);
            }
            Input::ClientGone { client } => self.client_gone(client, false, out),
            Input::ClientLost { client } => self.client_gone(client, true, out),
            Input::Drain { node_name, drain } => self.drain(&node_name, drain, out),
            Input::Close { session } => self.close(session, out),
            Input::NodeMeasured { link, figures } => self.node_measured(now, link, figures, out),
            Input::PathMeasured { link, measurement, path } => self.path_measured(now, link, measurement, path, out),
            Input::MeasureSoon => self.measure_soon(now, out),
            Input::Schedule(input) => self.allocations.push(input),
            Input::ApplyPolicy { policy, by } => self.apply_policy(*policy, by),
            Input::StartPolicy { policy, by } => self.start_with_policy(*policy, by),
            Input::Reserve(reservation) => self.reserve(*reservation),
            Input::Unreserve { name, by } => self.unreserve(&name, &by),
            Input::Groups { user, groups } => self.allocations.set_groups(user, groups),
            Input::Tick => {
                self.declare_lost(now, out);
                self.notify_ranks(now, out);
                self.end_overdue(now, out);
                self.let_in(now, out);
                self.check_measured_paths(now, out);
                self.check_idle_jobs(now, out);
                self.end_unnamed_uses(now);
                self.order_tests(now, out);
                self.allocations.tick();
                self.schedule(now, out);
                self.check_waiters(now, out);
            }
        }
        self.schedule(now, out);
        self.record();
    }

    /// Returns when [`Input::Tick`] is next needed, as for the loss of a node or the end of a session's time.
    pub fn next_deadline(&self) -> Option<Millis> {
        let lost_after = self.limits.lost_after_ms;
        let lost = self.nodes.last_contact().next().map(|(at, _)| at.plus(lost_after));
        // Silent nodes that are still up have the longer limit, because most nodes are silent.
        let doubted = self.nodes.silent().next().map(|(at, _)| at.plus(lost_after.saturating_mul(DOUBT)));
        let left = self.nodes.leaving().next().map(|(at, _)| at);
        let ends = self.ends.first().map(|(end, _)| *end);
        let tests = self.faults.next_test();
        let deadlines = [lost, doubted, left, ends, tests, self.held_until(), self.allocations.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Increases with every start of a coordinator with this state file; 0 without one.
    pub fn file_epoch(&self) -> u64 {
        self.file_epoch
    }

    /// Returns a number that increases with every change of nodes and devices.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of nodes that are up.
    pub fn nodes_up(&self) -> usize {
        self.nodes.up()
    }

    /// Returns the number of devices of a kind on nodes that are up.
    pub fn devices_up(&self, kind: DeviceKind) -> usize {
        self.nodes.devices_of(kind)
    }

    /// Returns all known nodes, including lost ones.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Returns all known nodes from this number on.
    pub fn nodes_from(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        self.nodes.from(id)
    }

    /// Returns all open sessions from this number on.
    pub fn sessions_from(&self, id: SessionId) -> impl Iterator<Item = &Session> {
        self.sessions.from(id)
    }

    /// Returns all open sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    /// Returns the number of open sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of a user's open sessions.
    pub fn sessions_of(&self, user: &str) -> usize {
        self.sessions.of_user(user)
    }

    /// Returns the node with this name.
    pub fn node_named(&self, name: &str) -> Option<&Node> {
        self.nodes.get(&self.nodes.named(name)?)
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Returns the node whose agent has this connection.
    pub fn node_of(&self, link: LinkId) -> Option<&Node> {
        self.nodes.get(self.links.get(&link)?)
    }

    /// Returns a session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn mint_session(&mut self) -> SessionId {
        self.sessions_opened += 1;
        SessionId(self.epoch | self.sessions_opened)
    }

    /// Whether a session that is not open has ended, so that its executors must stop. Other unknown sessions are an
    /// earlier coordinator's, and are adopted.
    pub(super) fn has_ended(&self, id: SessionId) -> bool {
        id.0 >> Self::SESSION_BITS == self.epoch >> Self::SESSION_BITS || self.ended.contains(id)
    }

    pub(super) fn changed(&mut self, out: &mut Vec<Effect>) {
        self.version += 1;
        out.push(Effect::Changed);
    }
}

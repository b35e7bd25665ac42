//! A node's agent: the real rules, in a simulated environment.

use accord_cluster::{AgentOrder, LinkId, Registration};
use accord_node_agent::node::{CommandLane, Disconnect, ExecutorId, Node};
use accord_types::incarnation::incarnation;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, JobGrant, Machine, NodeId, SessionGrant, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) devices: u32,
    /// The MPI job of which the agent is a rank.
    pub(super) job: Option<usize>,
    /// The rules of its process, while that runs.
    pub(super) rules: Option<Node>,
    /// The start of the process.
    pub(super) started: u64,
    /// The incarnation of the process: boot of its machine, and start.
    pub(super) incarnation: u64,
    /// Whether the agent is cut off the network.
    pub(super) cut: bool,
    /// Its process is stopped until this time, and messages wait in `inbox`; executors run on.
    pub(super) silent_until: u64,
    pub(super) inbox: VecDeque<AgentEvent>,
    /// The time at which the agent next checks for due actions.
    pub(super) wakes: u64,
    /// The connection that the agent has or tries to make.
    pub(super) link: Option<LinkId>,
    /// The connection by which the agent waits for its job to begin.
    pub(super) joining: Option<LinkId>,
    /// The last such connection, also after its end.
    pub(super) joined_by: Option<LinkId>,
    /// Whether the agent waits in `MPI_Init`.
    pub(super) waits: bool,
    /// Whether the agent has left `MPI_Init`, or is no rank of a job.
    pub(super) has_begun: bool,
    /// The time at which a coordinator that knew of the waiting agent learned of another rank's death.
    pub(super) notify_since: Option<u64>,
    /// Lanes that no executor has taken yet.
    pub(super) lanes: Vec<Lane>,
    /// Executors that are starting.
    pub(super) starting: BTreeMap<ExecutorId, Executor>,
    /// Executors that run.
    pub(super) executors: BTreeMap<ExecutorId, Executor>,
    /// Sessions that the coordinator has announced to this process.
    pub(super) opened: BTreeSet<SessionId>,
    /// Keys of the sessions' jobs.
    pub(super) grants: BTreeMap<SessionId, Option<SessionKey>>,
    /// Sessions that this process must end by order of the coordinator.
    pub(super) closed: BTreeSet<SessionId>,
    /// The same of sessions that only their programs had named to the coordinator. They may be announced again.
    pub(super) claims_closed: BTreeSet<SessionId>,
    /// Sessions of `claims_closed` with an executor at the notification: the life of the coordinator, and whether the program was connected.
    pub(super) cut_short: BTreeMap<SessionId, (u64, bool)>,
}

/// An executor's process.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) session: SessionId,
    /// The program whose command lane began it.
    pub(super) program: usize,
    /// Whether the executor was ordered to end.
    pub(super) ends: bool,
    /// Whether the executor does not take lanes.
    pub(super) stuck: bool,
}

/// A program's command lane on its way to an executor.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) program: usize,
    pub(super) session: SessionId,
    /// The node that the lane is for.
    pub(super) to: Option<NodeId>,
    pub(super) since: Duration,
    /// Set once the key is proved and the lane waits for its executor.
    pub(super) proven: Option<CommandLane>,
}

/// An event at an agent.
#[derive(Debug)]
pub(super) enum AgentEvent {
    /// Wakes the agent to do what is due.
    Wake,
    /// The agent begins to wait for its job.
    Joins,
    /// The agent waits in `MPI_Init`.
    Waits,
    /// An order of the coordinator.
    Order(LinkId, AgentOrder),
    /// The connection is lost, or could not be made.
    LinkGone(LinkId, Disconnect),
    /// No answer to the registration.
    Unanswered(LinkId),
    /// A command lane arrives.
    Lane(Lane),
    /// An executor has started, or failed to.
    Started(ExecutorId, bool),
    /// An executor has ended.
    Over(ExecutorId),
    /// An executor does not take a lane.
    Stuck(ExecutorId),
}

impl Agent {
    pub(super) fn new(index: usize, devices: u32, job: Option<usize>) -> Self {
        Self {
            name: format!("h{index}"),
            devices,
            job,
            rules: None,
            started: 0,
            incarnation: 0,
            cut: false,
            silent_until: 0,
            inbox: VecDeque::new(),
            wakes: u64::MAX,
            link: None,
            joining: None,
            joined_by: None,
            waits: false,
            has_begun: false,
            notify_since: None,
            lanes: Vec::new(),
            starting: BTreeMap::new(),
            executors: BTreeMap::new(),
            opened: BTreeSet::new(),
            grants: BTreeMap::new(),
            closed: BTreeSet::new(),
            claims_closed: BTreeSet::new(),
            cut_short: BTreeMap::new(),
        }
    }

    /// Starts a new process, which has no state of the previous one.
    pub(super) fn start(&mut self, now: u64, boot: Option<u64>) {
        self.die();
        self.rules = Some(Node::new(self.name.clone(), false, true));
        self.started = now;
        self.joined_by = None;
        self.has_begun = self.job.is_none();
        self.incarnation = match boot {
            // Names of different boots have no order.
            Some(boot) => incarnation(&boot.to_string(), 1),
            None => self.incarnation + 1,
        };
    }

    /// Ends the process and its executors.
    pub(super) fn die(&mut self) {
        self.rules = None;
        self.link = None;
        self.joining = None;
        (self.waits, self.has_begun, self.notify_since) = (false, false, None);
        self.inbox.clear();
        self.wakes = u64::MAX;
        self.lanes.clear();
        self.starting.clear();
        self.executors.clear();
        self.opened.clear();
        self.grants.clear();
        self.closed.clear();
        self.claims_closed.clear();
    }

    pub(super) fn is_alive(&self) -> bool {
        self.rules.is_some()
    }

    /// Returns the number that the agent considers its own.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.rules.as_ref()?.endpoint().map(|endpoint| endpoint.node)
    }

    /// Returns the time of the agent's own clock.
    pub(super) fn now(&self, now: u64) -> Duration {
        Duration::from_millis(now - self.started)
    }

    /// Returns the sessions of executors that were not ordered to end.
    pub(super) fn running(&self) -> impl Iterator<Item = SessionId> {
        self.executors.values().filter(|executor| !executor.ends).map(|executor| executor.session)
    }

    pub(super) fn registration(
        &self,
        previous: Option<NodeId>,
        sessions: Vec<SessionGrant>,
        granted: Vec<SessionId>,
        jobs: Vec<JobGrant>,
    ) -> Registration {
        let device = |ordinal| DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: String::new(),
            kind: DeviceKind::CPU,
            name: String::new(),
            vendor: String::new(),
            driver: String::new(),
            uuid: String::new(),
            memory: 1,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        };
        Registration {
            node_name: self.name.clone(),
            incarnation: self.incarnation,
            address: "a:1".into(),
            devices: (0..self.devices).map(device).collect(),
            machine: Machine::default(),
            previous,
            coordinator_epoch: 0,
            sessions,
            granted,
            jobs,
            // Runs of a job may share a name.
            world: self.job.map(|job| format!("job-{job}")).unwrap_or_default(),
            draining: false,
        }
    }
}

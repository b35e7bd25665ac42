//! A node's agent: its real rules, and what is around them.

use accord_coordinator::cluster::{AgentOrder, KernelLimits, LinkId, Registration};
use accord_node_agent::node::{CommandLane, Disconnect, ExecutorId, Node};
use accord_types::incarnation::incarnation;
use accord_types::node_labels::NodeLabels;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, Hardware, JobGrant, NodeId, SessionGrant, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) devices: u32,
    /// The MPI job that it is a rank of.
    pub(super) job: Option<usize>,
    /// Its process, while it runs.
    pub(super) rules: Option<Node>,
    /// When that was started.
    pub(super) started: u64,
    /// Which start of its process, in the boots of its machine.
    pub(super) incarnation: u64,
    /// Its network is cut: nothing gets through until it is healed.
    pub(super) cut: bool,
    /// Its process is stopped until then, its executors are not: what comes waits for it.
    pub(super) silent_until: u64,
    pub(super) inbox: VecDeque<AgentEvent>,
    /// It is asked then what is due.
    pub(super) wakes: u64,
    /// Its connection, as far as it knows, or the one that it tries to make.
    pub(super) link: Option<LinkId>,
    /// The one by which it joins its job, while that begins.
    pub(super) joining: Option<LinkId>,
    /// Which that was, also once it is over.
    pub(super) joined_by: Option<LinkId>,
    /// It waits in MPI's start.
    pub(super) waits: bool,
    /// It is past that, if it is a rank of a job.
    pub(super) has_begun: bool,
    /// When the coordinator, which knew that it joins, heard that another rank of its job has died.
    pub(super) to_be_told: Option<u64>,
    /// Lanes that are not with an executor yet.
    pub(super) lanes: Vec<Lane>,
    /// What is just being started.
    pub(super) starting: BTreeMap<ExecutorId, Executor>,
    /// What runs.
    pub(super) executors: BTreeMap<ExecutorId, Executor>,
    /// The coordinator has announced these to this process.
    pub(super) opened: BTreeSet<SessionId>,
    /// Their jobs.
    pub(super) grants: BTreeMap<SessionId, Option<SessionKey>>,
    /// The coordinator has told this process to end these.
    pub(super) closed: BTreeSet<SessionId>,
    /// The same of sessions that only their programs had named to the coordinator. They may be announced again.
    pub(super) claims_closed: BTreeSet<SessionId>,
    /// Of these it had an executor when the coordinator of that life told it so, and whether their program was there to be told too.
    pub(super) cut_short: BTreeMap<SessionId, (u64, bool)>,
}

/// An executor's process.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) session: SessionId,
    /// Whose command lane began it.
    pub(super) program: usize,
    /// It was told to end.
    pub(super) ends: bool,
    /// It does not take lanes.
    pub(super) stuck: bool,
}

/// A command lane of a program, on its way.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) program: usize,
    pub(super) session: SessionId,
    /// Which node it is for.
    pub(super) to: Option<NodeId>,
    pub(super) since: Duration,
    /// Its key is proven, and it waits for its executor.
    pub(super) proven: Option<CommandLane>,
}

/// Something happens at an agent.
#[derive(Debug)]
pub(super) enum AgentEvent {
    /// Time has passed.
    Wake,
    /// It joins its job.
    Joins,
    /// It is in MPI's start.
    Waits,
    /// The coordinator says something.
    Order(LinkId, AgentOrder),
    /// The connection is gone, or could not be made.
    LinkGone(LinkId, Disconnect),
    /// The registration was not answered.
    Unanswered(LinkId),
    /// A lane comes.
    Lane(Lane),
    /// An executor is there, or can't be.
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
            to_be_told: None,
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

    /// A new process knows nothing of the one before.
    pub(super) fn start(&mut self, now: u64, boot: Option<u64>) {
        self.die();
        self.rules = Some(Node::new(self.name.clone(), false, true));
        self.started = now;
        self.joined_by = None;
        self.has_begun = self.job.is_none();
        self.incarnation = match boot {
            // A new boot's names are in no order.
            Some(boot) => incarnation(&boot.to_string(), 1),
            None => self.incarnation + 1,
        };
    }

    /// Its executors die with it.
    pub(super) fn die(&mut self) {
        self.rules = None;
        self.link = None;
        self.joining = None;
        (self.waits, self.has_begun, self.to_be_told) = (false, false, None);
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

    /// The number that it takes for its own.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.rules.as_ref()?.endpoint().map(|endpoint| endpoint.node)
    }

    /// Its own time.
    pub(super) fn now(&self, now: u64) -> Duration {
        Duration::from_millis(now - self.started)
    }

    /// Sessions with an executor that was not told to end.
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
            numa: None,
            cpus: Vec::new(),
        };
        Registration {
            node_name: self.name.clone(),
            incarnation: self.incarnation,
            address: "a:1".into(),
            devices: (0..self.devices).map(device).collect(),
            hardware: Hardware::default(),
            labels: NodeLabels::default(),
            kernel_limits: KernelLimits::default(),
            previous,
            coordinator_epoch: 0,
            sessions,
            granted,
            jobs,
            // The next run of a job may have the name of the one before.
            world: self.job.map(|job| format!("job-{job}")).unwrap_or_default(),
            draining: false,
        }
    }
}

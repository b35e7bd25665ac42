//! The scheduler, and what the coordinator keeps of its jobs.

use super::books::Books;
use super::in_effect::PolicyInEffect;
use super::input::ClientId;
use super::job::{Job, Opener, Stage};
use super::node::Node;
use super::time::Millis;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::model::model_of;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{DrainTarget, Effect, Input, JobId, LeasedDevice, Policy, Request, Scheduler};
use accord_types::{DeviceId, Error, ErrorCode, NodeId, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Users that have asked for devices: each is a leaf of the policy's tree.
pub(super) const USERS_MAX: usize = 16_384;

/// See the module.
#[derive(Debug)]
pub(super) struct Allocations {
    books: Books,
    pub(super) in_effect: PolicyInEffect,
    /// Accounts and users that have asked.
    pub(super) users: BTreeSet<(String, String)>,
    /// Unix groups of users.
    pub(super) groups: BTreeMap<String, Vec<String>>,
    /// Inputs that the scheduler has not had yet.
    inputs: VecDeque<Input>,
    jobs: BTreeMap<JobId, Job>,
    /// Programs that wait for a job's start.
    waiting: BTreeMap<ClientId, JobId>,
    /// Open sessions of jobs.
    sessions: BTreeMap<SessionId, JobId>,
    /// Devices that a job has to itself, until they are free again.
    exclusive: BTreeMap<DeviceId, JobId>,
    /// Jobs whose end a node's agent has to confirm: until then their devices there are not free.
    releasing: BTreeMap<NodeId, BTreeSet<JobId>>,
    /// Jobs by their secrets.
    keys: BTreeMap<SessionKey, JobId>,
}

impl Default for Allocations {
    fn default() -> Self {
        let in_effect = PolicyInEffect::default();
        Self {
            books: Books::new(in_effect.policy.core.clone()),
            in_effect,
            groups: BTreeMap::new(),
            users: BTreeSet::new(),
            inputs: VecDeque::new(),
            jobs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sessions: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            releasing: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }
}

impl Allocations {
    /// The scheduler, for questions.
    pub(super) fn scheduler(&self) -> &Scheduler {
        self.books.scheduler()
    }

    /// The scheduler and its ledger.
    pub(super) fn books(&self) -> &Books {
        &self.books
    }

    /// The same, for questions that bring it up to date.
    pub(super) fn books_mut(&mut self) -> &mut Books {
        &mut self.books
    }

    /// Says what the wall clock shows. Monthly budgets begin with a month.
    pub(super) fn set_clock(&mut self, now: Millis, unix_ms: u64) {
        if self.books.set_clock(now, unix_ms) {
            self.push(Input::MonthBegan);
        }
    }

    /// The policy's tree of accounts, with the users who have asked.
    pub(super) fn tree(&self) -> Policy {
        let users = self.users.iter().map(|(account, user)| (account.as_str(), user.as_str()));
        self.in_effect.policy.tree(users)
    }

    /// The same with one more user.
    pub(super) fn tree_with(&self, account: &str, user: &str) -> Policy {
        let users = self.users.iter().map(|(account, user)| (account.as_str(), user.as_str()));
        self.in_effect.policy.tree(users.chain([(account, user)]))
    }

    /// Something for the scheduler.
    pub(super) fn push(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    /// When the scheduler next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.books.scheduler().next_deadline().map(|at| Millis(at.0))
    }

    /// One job.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The job that a session is of.
    pub(super) fn job_of(&self, session: SessionId) -> Option<JobId> {
        self.sessions.get(&session).copied()
    }

    /// Whether a program that asks for nothing may have the device.
    pub(super) fn is_shared(&self, device: DeviceId) -> bool {
        !self.exclusive.contains_key(&device)
    }

    /// Whether a program waits for a job's start.
    pub(super) fn waits(&self, client: ClientId) -> bool {
        self.waiting.contains_key(&client)
    }

    /// The job with this secret.
    pub(super) fn job_by_key(&self, key: SessionKey) -> Option<JobId> {
        self.keys.get(&key).copied()
    }

    /// Secrets of the jobs whose end the agent of a node has to confirm.
    pub(super) fn releasing_on(&self, node: NodeId) -> impl Iterator<Item = SessionKey> {
        let jobs = self.releasing.get(&node).into_iter().flatten();
        jobs.filter_map(|id| Some(self.jobs.get(id)?.token.key))
    }

    /// Running jobs that use devices of a node.
    pub(super) fn jobs_on(&self, node: NodeId) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |job| job.uses(node) && job.nodes().contains(&node))
    }

    /// A node has registered.
    pub(super) fn node_joined(&mut self, node: &Node) {
        self.inputs.push_back(Input::NodeJoined(description(node)));
        if node.draining {
            self.node_drained(node.id, true);
        }
    }

    /// Another start of a node's agent: it serves no session of the one before.
    pub(super) fn agent_replaced(&mut self, node: NodeId) {
        self.releasing.remove(&node);
        self.exclusive.retain(|device, _| device.node != node);
    }

    /// A node's agent was not heard for too long: what it serves may go on there.
    pub(super) fn node_lost(&mut self, node: NodeId) {
        self.inputs.push_back(Input::NodeLost(node));
    }

    /// A node's agent has ended, and all that it served.
    pub(super) fn node_left(&mut self, node: NodeId) {
        self.agent_replaced(node);
        self.inputs.push_back(Input::NodeLeft(node));
    }

    /// A node takes part in no new session, or does again.
    pub(super) fn node_drained(&mut self, node: NodeId, drained: bool) {
        let (target, by) = (DrainTarget::Node(node), "an administrator".to_owned());
        self.inputs.push_back(match drained {
            true => {
                let by_time = accord_scheduler::Millis(0);
                Input::Drain { target, by_time, end: false, reason: "accord drain".to_owned(), by }
            }
            false => Input::Undrain { target, by },
        });
    }

    /// Time has passed.
    pub(super) fn tick(&mut self) {
        self.inputs.push_back(Input::Tick);
    }

    /// Gives the scheduler its next input. Returns false if there is none.
    pub(super) fn advance(&mut self, now: Millis, decided: &mut Vec<Effect>) -> bool {
        let Some(input) = self.inputs.pop_front() else { return false };
        let changed = match &input {
            Input::Released { job, .. } => Some(BTreeSet::from([*job])),
            Input::NodeJoined(_) | Input::NodeLeft(_) => {
                let ended = self.jobs.iter().filter(|(_, job)| matches!(job.stage, Stage::Ended));
                Some(ended.map(|(id, _)| *id).collect())
            }
            _ => None,
        };
        self.books.apply(now, input, decided);
        for id in changed.into_iter().flatten() {
            self.forget_if_free(id);
        }
        true
    }

    /// Forgets an ended job once the scheduler has.
    fn forget_if_free(&mut self, id: JobId) {
        if self.scheduler().job(id).is_none()
            && let Some(job) = self.jobs.remove(&id)
        {
            self.keys.remove(&job.token.key);
        }
    }

    /// A program asks for devices. Returns the job's number, which is followed by what the scheduler decides.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the policy refuses the request.
    pub(super) fn ask(
        &mut self,
        now: Millis,
        opener: Opener,
        origin: Option<NodeId>,
        mut request: Request,
        decided: &mut Vec<Effect>,
    ) -> Result<JobId, Error> {
        let refused = |why: String| Error::new(ErrorCode::DeviceUnavailable, why);
        let user = opener.owner.user.clone();
        let account = match self.account_of(&user, request.account.as_deref()) {
            Ok(account) => account,
            Err(why) => return Err(refused(why.to_string())),
        };
        let leaf = SitePolicy::leaf(&account, &user);
        request.limit_ms = request.limit_ms.or_else(|| self.in_effect.policy.default_limit_ms(&account));
        if !self.users.contains(&(account.clone(), user.clone())) {
            if self.users.len() >= USERS_MAX {
                let error = refused(format!("{USERS_MAX} users have asked for devices, the most that there may be"));
                return Err(error.remedy("ask an administrator to start the coordinator again"));
            }
            self.users.insert((account, user.clone()));
            let policy = Box::new(self.tree());
            let from = decided.len();
            self.books.apply(now, Input::PolicyApplied { policy, by: String::new() }, decided);
            // No administrator's act.
            let rest = decided.split_off(from);
            decided.extend(rest.into_iter().filter(|effect| !matches!(effect, Effect::Audit(_))));
        }
        let mut answer = Vec::new();
        let program = opener.request.program.clone();
        self.books.apply(now, Input::Ask { user, account: leaf.clone(), origin, request }, &mut answer);
        let number = answer.iter().find_map(|effect| match effect {
            Effect::Queued { job } => Some(Ok(*job)),
            Effect::Refused(why) => Some(Err(refused(why.to_string()))),
            _ => None,
        });
        decided.append(&mut answer);
        let job = number.unwrap_or_else(|| Err(refused("the scheduler has not answered".to_owned())))?;
        self.books.ledger_mut().name_program(job, &program);
        self.waiting.insert(opener.client, job);
        self.keys.insert(opener.owner.key, job);
        self.jobs.insert(job, Job::asked_by(opener, job, leaf));
        Ok(job)
    }

    /// A job has its devices. Returns the programs that wait for them.
    pub(super) fn started(&mut self, id: JobId, devices: Vec<LeasedDevice>) -> Vec<Opener> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        self.exclusive.extend(devices.iter().filter(|leased| leased.exclusive).map(|leased| (leased.device, id)));
        job.stage = Stage::Running(devices);
        let openers = std::mem::take(&mut job.openers);
        for opener in &openers {
            self.waiting.remove(&opener.client);
        }
        openers
    }

    /// Devices of a job are lost because nodes are.
    pub(super) fn lost(&mut self, id: JobId, devices: &[DeviceId]) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.lost.extend(devices.iter().map(|device| device.node));
        }
    }

    /// A session of a running job has opened.
    pub(super) fn session_opened(&mut self, id: JobId, session: SessionId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.sessions.insert(session);
            self.sessions.insert(session, id);
            self.inputs.push_back(Input::SessionOpened { job: id, session });
        }
    }

    /// A session has ended.
    pub(super) fn session_ended(&mut self, session: SessionId) {
        let Some(id) = self.sessions.remove(&session) else { return };
        self.inputs.push_back(Input::SessionClosed { job: id, session });
        if let Some(job) = self.jobs.get_mut(&id) {
            job.sessions.remove(&session);
            if job.sessions.is_empty() && matches!(job.stage, Stage::Running(_)) {
                self.inputs.push_back(Input::Ended { job: id });
            }
        }
    }

    /// The agent of a node is to end what a job has there, and to confirm that. Returns the job's secret.
    pub(super) fn release(&mut self, id: JobId, node: NodeId) -> Option<SessionKey> {
        let Some(job) = self.jobs.get_mut(&id) else {
            self.inputs.push_back(Input::Released { job: id, node });
            return None;
        };
        job.lost.insert(node);
        self.releasing.entry(node).or_default().insert(id);
        Some(job.token.key)
    }

    /// The agent of a node confirms that nothing of a job is left there.
    pub(super) fn released(&mut self, node: NodeId, key: SessionKey) {
        let Some(id) = self.job_by_key(key) else { return };
        let Some(jobs) = self.releasing.get_mut(&node) else { return };
        if !jobs.remove(&id) {
            return;
        }
        if jobs.is_empty() {
            self.releasing.remove(&node);
        }
        self.exclusive.retain(|device, owner| device.node != node || *owner != id);
        self.inputs.push_back(Input::Released { job: id, node });
    }

    /// A program is gone while it waits for a job's start.
    pub(super) fn client_gone(&mut self, client: ClientId) {
        let Some(id) = self.waiting.remove(&client) else { return };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.openers.retain(|opener| opener.client != client);
        if job.openers.is_empty() {
            let by = job.user.clone();
            self.inputs.push_back(Input::Cancel { job: id, by });
        }
    }

    /// A job is over. Returns the programs that waited for its start, and its open sessions.
    pub(super) fn ended(&mut self, id: JobId) -> (Vec<Opener>, Vec<SessionId>) {
        let Some(job) = self.jobs.get_mut(&id) else { return (Vec::new(), Vec::new()) };
        let (openers, sessions) = (std::mem::take(&mut job.openers), job.sessions.iter().copied().collect());
        for opener in &openers {
            self.waiting.remove(&opener.client);
        }
        job.stage = Stage::Ended;
        self.forget_if_free(id);
        (openers, sessions)
    }
}

impl Allocations {
    /// See [`super::Cluster::check_invariants`].
    pub(super) fn check(&self) -> Result<(), String> {
        self.scheduler().check_invariants()?;
        if !self.inputs.is_empty() {
            return Err(format!("the scheduler has not had {:?}", self.inputs));
        }
        for (id, job) in &self.jobs {
            if self.keys.get(&job.token.key) != Some(id) {
                return Err(format!("job {id} is not found by its key"));
            }
            if self.scheduler().job(*id).is_none() {
                return Err(format!("the scheduler has forgotten job {id}"));
            }
            if !job.openers.iter().all(|opener| self.waiting.get(&opener.client) == Some(id)) {
                return Err(format!("programs wait for job {id} that are not known to"));
            }
            if !job.sessions.iter().all(|session| self.sessions.get(session) == Some(id)) {
                return Err(format!("sessions of job {id} are not known as such"));
            }
            if job.sessions.is_empty() == matches!(job.stage, Stage::Running(_)) {
                return Err(format!("job {id} is {:?} and has sessions {:?}", job.stage, job.sessions));
            }
            let held = job.devices().iter().filter(|leased| leased.exclusive && job.uses(leased.device.node));
            if let Some(lost) = held.into_iter().find(|leased| self.exclusive.get(&leased.device) != Some(id)) {
                return Err(format!("{} is not kept for job {id}", lost.device));
            }
        }
        let openers: usize = self.jobs.values().map(|job| job.openers.len()).sum();
        let sessions: usize = self.jobs.values().map(|job| job.sessions.len()).sum();
        let counts = (self.waiting.len(), self.sessions.len(), self.keys.len());
        if counts != (openers, sessions, self.jobs.len()) {
            return Err(format!("{counts:?} of {openers} openers, {sessions} sessions and {} jobs", self.jobs.len()));
        }
        Ok(())
    }
}

/// A node as the scheduler sees it.
fn description(node: &Node) -> NodeDescription {
    let devices = node.devices.iter().map(|info| {
        let (kind, model) = (info.kind.device_type(), model_of(&info.name));
        let class = DeviceClass { kind, model, memory: info.memory, compute: (0, 0) };
        DeviceDescription { ordinal: info.id.ordinal, class }
    });
    NodeDescription {
        id: node.id,
        name: node.name.clone(),
        incarnation: node.incarnation,
        devices: devices.collect(),
        cores: u64::from(node.hardware.processors) * 1_000,
        host_memory: node.hardware.numa.iter().map(|numa| numa.memory).sum(),
        labels: BTreeMap::new(),
    }
}

//! The scheduler, and what the coordinator keeps of its jobs.

use super::books::Books;
use super::described::description;
use super::in_effect::PolicyInEffect;
use super::input::ClientId;
use super::job::{Gang, Job, Keeper, Opener, Stage};
use super::node::Node;
use super::session::AGENT_GRACE_MS;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{
    DrainTarget, EarlierJob, Effect, Input, JobId, LeasedDevice, NotingMap, Policy, Request, Scheduler,
};
use accord_types::{DeviceId, Error, ErrorCode, JobGrant, NodeId, Rank, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Users that have asked for devices: each is a leaf of the policy's tree.
pub(super) const USERS_MAX: usize = 16_384;

/// Jobs that are known at one time, of those that earlier coordinators have started.
pub(super) const JOBS_MAX: usize = 1 << 20;
/// The time for which a command's job goes on without the command's connection: as long as a waiting request keeps its
/// place.
pub(super) const KEPT_MS: u64 = 300_000;

/// The jobs and sessions of the cluster, as the scheduler has them.
#[derive(Debug)]
pub(super) struct Allocations {
    /// The time of the coordinator's input in hand.
    pub(super) now: Millis,
    books: Books,
    pub(super) in_effect: PolicyInEffect,
    /// Accounts and users that have asked.
    pub(super) users: BTreeSet<(String, String)>,
    /// New accounts and users of the input in hand.
    pub(super) new_users: Vec<(String, String)>,
    /// Ranks that got their part of a job's devices by the input in hand, or whose job has ended.
    pub(super) new_ranks: BTreeSet<(JobId, u32)>,
    /// Unix groups of users.
    pub(super) groups: BTreeMap<String, Vec<String>>,
    /// Inputs that the scheduler has not had yet.
    pub(super) inputs: VecDeque<Input>,
    pub(super) jobs: NotingMap<JobId, Job>,
    /// Programs that wait for a job's start.
    pub(super) waiting: BTreeMap<ClientId, JobId>,
    /// Commands that hold a job, or wait for it.
    pub(super) commands: BTreeMap<ClientId, JobId>,
    /// Jobs that ranks of MPI programs have asked for.
    pub(super) gangs: BTreeMap<Gang, JobId>,
    /// Times at which jobs without a keeper end, the next one first.
    pub(super) idle: BTreeSet<(Millis, JobId)>,
    /// Open sessions of jobs.
    pub(super) sessions: BTreeMap<SessionId, JobId>,
    /// Sessions that agents have named as those of an earlier coordinator's jobs.
    pub(super) earlier_sessions: BTreeMap<SessionId, JobId>,
    /// Devices that a job has to itself, until they are free again.
    pub(super) exclusive: BTreeMap<DeviceId, JobId>,
    /// Number of programs without a request that use a device.
    pub(super) used: BTreeMap<DeviceId, usize>,
    /// Jobs whose end a node's agent has to confirm: until then their devices there are not free.
    pub(super) releasing: BTreeMap<NodeId, BTreeSet<JobId>>,
    /// Jobs that hold devices of a node, or held some when they ended.
    pub(super) by_node: BTreeMap<NodeId, BTreeSet<JobId>>,
    /// Jobs by their secrets.
    pub(super) keys: BTreeMap<SessionKey, JobId>,
}

impl Default for Allocations {
    fn default() -> Self {
        let in_effect = PolicyInEffect::default();
        Self {
            now: Millis(0),
            books: Books::new(in_effect.policy.core.clone()),
            in_effect,
            groups: BTreeMap::new(),
            users: BTreeSet::new(),
            new_users: Vec::new(),
            new_ranks: BTreeSet::new(),
            inputs: VecDeque::new(),
            jobs: NotingMap::default(),
            waiting: BTreeMap::new(),
            commands: BTreeMap::new(),
            gangs: BTreeMap::new(),
            idle: BTreeSet::new(),
            sessions: BTreeMap::new(),
            earlier_sessions: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            used: BTreeMap::new(),
            releasing: BTreeMap::new(),
            by_node: BTreeMap::new(),
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

    /// Goes on with the books of an earlier coordinator.
    pub(super) fn restore_books(&mut self, books: Books) {
        self.books = books;
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

    /// Gives an input to the scheduler.
    pub(super) fn push(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    /// Returns when the scheduler next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let planned = self.books.scheduler().next_deadline().map(|at| Millis(at.0));
        planned.into_iter().chain(self.idle.first().map(|(at, _)| *at)).min()
    }

    /// Returns how long a job that a rank of an MPI program has asked for goes on without a session, and one that has
    /// started while its program had no connection.
    pub(super) fn linger_ms(&self) -> u64 {
        self.in_effect.policy.linger_ms
    }

    /// Returns how long agents may let a job go on: a little longer than its limit, at which the coordinator ends it. `None` for a lease that is
    /// renewed by quantum, as no agent knows whether it is renewed.
    pub(super) fn left_of(&self, id: JobId, now: Millis) -> Option<u64> {
        self.scheduler().limit_ms(id)?;
        Some(self.scheduler().job(id)?.ends?.0.saturating_sub(now.0) + AGENT_GRACE_MS)
    }

    /// One job.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The devices of a session in a job.
    pub(super) fn part_of(&mut self, id: JobId, rank: Option<Rank>, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return BTreeSet::new() };
        if let Some(rank) = rank.map(|rank| rank.rank).filter(|rank| job.part_number(*rank).is_none()) {
            self.new_ranks.insert((id, rank));
        }
        job.part_of(rank, own)
    }

    /// The job that a session is of.
    pub(super) fn job_of(&self, session: SessionId) -> Option<JobId> {
        self.sessions.get(&session).copied()
    }

    /// Whether a program that asks for nothing may have the device.
    pub(super) fn is_shared(&self, device: DeviceId) -> bool {
        !self.exclusive.contains_key(&device)
    }

    /// Whether a connection waits for a job's start, or holds a job.
    pub(super) fn has_client(&self, client: ClientId) -> bool {
        self.waiting.contains_key(&client) || self.commands.contains_key(&client)
    }

    /// The command that holds a job, or waits for it.
    pub(super) fn holder_of(&self, id: JobId) -> Option<ClientId> {
        match self.jobs.get(&id)?.keeper {
            Keeper::Command(client) => client,
            Keeper::Sessions => None,
        }
    }

    /// The job that a rank of an MPI program has asked for.
    pub(super) fn job_of_gang(&self, gang: &Gang) -> Option<JobId> {
        self.gangs.get(gang).copied()
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
        self.known_on(node).filter_map(|id| self.jobs.get(&id)).filter(move |job| job.uses(node))
    }

    /// Ended jobs that held devices of a node. A job that ends by an input itself is not among them: its sessions are still to be ended.
    fn ended_on(&self, node: NodeId) -> impl Iterator<Item = JobId> {
        self.known_on(node).filter(|id| self.jobs.get(id).is_some_and(|job| matches!(job.stage, Stage::Ended)))
    }

    /// Jobs that hold devices of a node, or held some when they ended.
    fn known_on(&self, node: NodeId) -> impl Iterator<Item = JobId> {
        counted(self.by_node.get(&node).into_iter().flatten().copied())
    }

    /// A node has registered, and its agent names jobs that hold devices there.
    pub(super) fn node_joined(&mut self, node: &Node, grants: &[JobGrant]) {
        let earlier: Vec<EarlierJob> = grants.iter().filter_map(|grant| self.adopt(node, grant)).collect();
        self.inputs.push_back(match earlier.is_empty() {
            true => Input::NodeJoined(description(node)),
            false => Input::NodeReturned(description(node), earlier),
        });
        if node.draining {
            self.node_drained(node.id, true);
        }
    }

    /// Frees a node's devices, because its machine was booted again.
    pub(super) fn machine_restarted(&mut self, node: NodeId) {
        self.releasing.remove(&node);
        self.free_devices(node, |_| true);
        self.inputs.push_back(Input::NodeLeft(node));
    }

    /// No job has these devices of a node to itself any more: those of some owners.
    fn free_devices(&mut self, node: NodeId, is_of: impl Fn(JobId) -> bool) {
        let of_node = DeviceId { node, ordinal: 0 }..=DeviceId { node, ordinal: u32::MAX };
        let owned = counted(self.exclusive.range(of_node)).filter(|(_, owner)| is_of(**owner));
        for device in owned.map(|(device, _)| *device).collect::<Vec<_>>() {
            self.exclusive.remove(&device);
        }
    }

    /// Records that a node's agent was stopped, or not heard for too long. Programs may go on there.
    pub(super) fn node_lost(&mut self, node: NodeId) {
        self.inputs.push_back(Input::NodeLost(node));
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
        while let Some(&(at, id)) = self.idle.first().filter(|(at, _)| *at <= self.now) {
            self.idle.remove(&(at, id));
            if let Some(job) = self.jobs.get_mut_unnoted(&id) {
                job.idle_until = None;
            }
            self.inputs.push_back(Input::Ended { job: id });
        }
        self.inputs.push_back(Input::Tick);
    }

    /// Gives the scheduler its next input. Returns false if there is none.
    pub(super) fn advance(&mut self, decided: &mut Vec<Effect>) -> bool {
        let Some(input) = self.inputs.pop_front() else { return false };
        let changed: Vec<JobId> = match &input {
            Input::Released { job, .. } => vec![*job],
            Input::NodeJoined(node) | Input::NodeReturned(node, _) => self.ended_on(node.id).collect(),
            Input::NodeLeft(node) => self.ended_on(*node).collect(),
            _ => Vec::new(),
        };
        self.books.apply(self.now, input, decided);
        for id in changed {
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
            for session in &job.named_sessions {
                if self.earlier_sessions.get(session) == Some(&id) {
                    self.earlier_sessions.remove(session);
                }
            }
            for node in job.nodes() {
                if let Some(jobs) = self.by_node.get_mut(&node) {
                    jobs.remove(&id);
                    if jobs.is_empty() {
                        self.by_node.remove(&node);
                    }
                }
            }
        }
    }

    /// A program or a command asks for devices. Returns the job's number, which is followed by what the scheduler decides.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the policy refuses the request.
    pub(super) fn ask(
        &mut self,
        asker: Opener,
        keeper: Keeper,
        origin: Option<NodeId>,
        mut request: Request,
        decided: &mut Vec<Effect>,
    ) -> Result<JobId, Error> {
        let refused = |why: String| Error::new(ErrorCode::DeviceUnavailable, why);
        let user = asker.owner.user.clone();
        let account = match self.account_of(&user, request.account.as_deref()) {
            Ok(account) => account,
            Err(why) => return Err(refused(why.to_string())),
        };
        let leaf = SitePolicy::leaf(&account, &user);
        request.limit_ms = request.limit_ms.or_else(|| self.in_effect.policy.default_limit_ms(&account));
        let now = self.now;
        if !self.users.contains(&(account.clone(), user.clone())) {
            if self.users.len() >= USERS_MAX {
                let error = refused(format!("{USERS_MAX} users have asked for devices, the most that there may be"));
                return Err(error.remedy("ask an administrator to start the coordinator again"));
            }
            if let Some(leaf) = self.in_effect.policy.user_account(&account, &user) {
                self.books.apply(now, Input::AccountAdded(Box::new(leaf)), decided);
            }
            self.new_users.push((account.clone(), user.clone()));
            self.users.insert((account, user.clone()));
        }
        let mut answer = Vec::new();
        let program = asker.request.program.clone();
        let ask = Input::Ask { user, account: leaf.clone(), origin, request: request.clone() };
        self.books.apply(now, ask, &mut answer);
        let number = answer.iter().find_map(|effect| match effect {
            Effect::Queued { job } => Some(Ok(*job)),
            Effect::Refused(why) => Some(Err(refused(why.to_string()))),
            _ => None,
        });
        decided.append(&mut answer);
        let job = number.unwrap_or_else(|| Err(refused("the scheduler has not answered".to_owned())))?;
        self.books.ledger_mut().name_program(job, &program);
        match keeper {
            Keeper::Command(_) => self.commands.insert(asker.client, job),
            Keeper::Sessions => self.waiting.insert(asker.client, job),
        };
        self.keys.insert(asker.owner.key, job);
        let text = asker.request.devices.clone().unwrap_or_default();
        let asked = Job::asked(job, leaf, text, &request, keeper, asker);
        if let Some(gang) = asked.gang.clone() {
            self.gangs.insert(gang, job);
        }
        self.jobs.insert(job, asked);
        Ok(job)
    }

    /// A job has its devices. Returns the programs that wait for them.
    pub(super) fn started(&mut self, id: JobId, devices: Vec<LeasedDevice>) -> BTreeMap<ClientId, Opener> {
        let Some(job) = self.jobs.get_mut(&id) else { return BTreeMap::new() };
        self.exclusive.extend(devices.iter().filter(|leased| leased.exclusive).map(|leased| (leased.device, id)));
        job.start(devices);
        for node in job.nodes() {
            self.by_node.entry(node).or_default().insert(id);
        }
        let openers = std::mem::take(&mut job.openers);
        for client in counted(openers.keys()) {
            self.waiting.remove(client);
        }
        openers
    }

    /// Devices of a job are lost because nodes are.
    pub(super) fn lost(&mut self, id: JobId, devices: &[DeviceId]) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.lost.extend(devices.iter().map(|device| device.node));
        }
    }

    /// The job that has a device to itself.
    pub(super) fn owner_of(&self, device: DeviceId) -> Option<JobId> {
        self.exclusive.get(&device).copied()
    }

    /// A program that has asked for nothing uses a device that no job has to itself.
    pub(super) fn used(&mut self, device: DeviceId) {
        let users = self.used.entry(device).or_default();
        *users += 1;
        if *users == 1 {
            self.inputs.push_back(Input::InUse { device, in_use: true });
        }
    }

    /// One of these programs has ended.
    pub(super) fn unused(&mut self, device: DeviceId) {
        let Some(users) = self.used.get_mut(&device) else { return };
        *users -= 1;
        if *users == 0 {
            self.used.remove(&device);
            self.inputs.push_back(Input::InUse { device, in_use: false });
        }
    }

    /// A session of a running job has opened.
    pub(super) fn session_opened(&mut self, id: JobId, session: SessionId) {
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.sessions.insert(session);
            self.sessions.insert(session, id);
            self.inputs.push_back(Input::SessionOpened { job: id, session });
        }
    }

    /// A session has ended.
    pub(super) fn session_ended(&mut self, session: SessionId) {
        let Some(id) = self.sessions.remove(&session) else { return };
        self.inputs.push_back(Input::SessionClosed { job: id, session });
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.sessions.remove(&session);
            // The command of an earlier coordinator's job may be about to come back.
            let lingers = job.gang.is_some() || job.is_earlier;
            self.look_at_keeper(id, if lingers { self.linger_ms() } else { 0 });
        }
    }

    /// Lets a running job without a keeper end after a time.
    pub(super) fn look_at_keeper(&mut self, id: JobId, idle_ms: u64) {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        let is_idle = matches!(job.stage, Stage::Running(_)) && !job.is_kept();
        if is_idle == job.idle_until.is_some() {
            return;
        }
        if let Some(before) = job.idle_until.take() {
            self.idle.remove(&(before, id));
        } else if idle_ms == 0 {
            self.inputs.push_back(Input::Ended { job: id });
        } else {
            let until = self.now.plus(idle_ms);
            job.idle_until = Some(until);
            self.idle.insert((until, id));
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
        self.free_devices(node, |owner| owner == id);
        self.inputs.push_back(Input::Released { job: id, node });
    }

    /// A program waits for a job's start, or takes its place again.
    pub(super) fn wait_for(&mut self, id: JobId, opener: Opener) {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        self.waiting.insert(opener.client, id);
        job.openers.insert(opener.client, opener);
        self.inputs.push_back(Input::Connected { job: id, connected: true });
    }

    /// A command comes back to its job. Returns the connection that it had before.
    pub(super) fn come_back(&mut self, id: JobId, client: ClientId) -> Option<ClientId> {
        let job = self.jobs.get_mut(&id)?;
        if job.is_earlier && job.keeper == Keeper::Sessions {
            job.keeper = Keeper::Command(None);
        }
        let Keeper::Command(before) = &mut job.keeper else { return None };
        let before = before.replace(client);
        before.map(|before| self.commands.remove(&before));
        self.commands.insert(client, id);
        self.inputs.push_back(Input::Connected { job: id, connected: true });
        self.look_at_keeper(id, 0);
        before
    }

    /// A connection is gone that waits for a job, or holds one. It `is_lost` if its process may live: then the job is kept for a while.
    pub(super) fn client_gone(&mut self, client: ClientId, is_lost: bool) {
        let waits = self.waiting.remove(&client);
        let Some(id) = waits.or_else(|| self.commands.remove(&client)) else { return };
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        job.openers.remove(&client);
        if let Keeper::Command(holder) = &mut job.keeper {
            *holder = None;
        }
        if job.is_kept() {
            return;
        }
        match (&job.stage, is_lost) {
            (Stage::Waiting, true) => self.inputs.push_back(Input::Connected { job: id, connected: false }),
            (Stage::Waiting, false) => self.inputs.push_back(Input::Cancel { job: id, by: job.user.clone() }),
            (Stage::Running(_), true) => self.look_at_keeper(id, KEPT_MS),
            (Stage::Running(_), false) => self.inputs.push_back(Input::Ended { job: id }),
            (Stage::Ended, _) => {}
        }
    }

    /// A job is over. Returns the programs that waited for its start, and its open sessions.
    pub(super) fn ended(&mut self, id: JobId) -> (BTreeMap<ClientId, Opener>, Vec<SessionId>) {
        let Some(job) = self.jobs.get_mut(&id) else { return (BTreeMap::new(), Vec::new()) };
        let (openers, sessions) = (std::mem::take(&mut job.openers), job.sessions.iter().copied().collect());
        if let Some(until) = job.idle_until.take() {
            self.idle.remove(&(until, id));
        }
        if let Some(gang) = job.gang.as_ref().filter(|gang| self.gangs.get(*gang) == Some(&id)) {
            self.gangs.remove(gang);
        }
        for client in counted(openers.keys()) {
            self.waiting.remove(client);
        }
        if let Keeper::Command(holder) = &mut job.keeper {
            holder.take().map(|client| self.commands.remove(&client));
        }
        // Its ranks need their parts no longer.
        self.new_ranks.extend(job.end().into_iter().map(|rank| (id, rank)));
        self.forget_if_free(id);
        (openers, sessions)
    }
}

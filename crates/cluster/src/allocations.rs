//! The scheduler, and the coordinator's own state of its jobs.

use super::in_effect::PolicyInEffect;
use super::input::ClientId;
use super::job::{Gang, Job, Keeper, Opener};
use super::reservation_table::ReservationTable;
use super::scheduling_state::SchedulingState;
use super::session::AGENT_GRACE_MS;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{Effect, Input, JobId, LeasedDevice, NotingMap, Policy, Request, Scheduler};
use accord_types::{DeviceId, Error, ErrorCode, NodeId, Rank, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most users that have requested devices; each is a leaf of the policy's tree.
pub(super) const USERS_MAX: usize = 16_384;

/// Most jobs at one time that were started by earlier coordinators.
pub(super) const JOBS_MAX: usize = 1 << 20;

/// The cluster's jobs and their sessions.
#[derive(Debug)]
pub(super) struct Allocations {
    /// Time of the current input.
    pub(super) now: Millis,
    books: SchedulingState,
    pub(super) in_effect: PolicyInEffect,
    /// Accounts and users that have requested devices.
    pub(super) users: BTreeSet<(String, String)>,
    /// Accounts and users that the current input has added.
    pub(super) new_users: Vec<(String, String)>,
    /// Ranks that have got a part of a job's devices by the current input, or whose job has ended.
    pub(super) new_ranks: BTreeSet<(JobId, u32)>,
    /// Unix groups of users.
    pub(super) groups: BTreeMap<String, Vec<String>>,
    /// Inputs that the scheduler has not processed yet.
    pub(super) inputs: VecDeque<Input>,
    pub(super) jobs: NotingMap<JobId, Job>,
    /// Programs that wait for a job's start.
    pub(super) waiting: BTreeMap<ClientId, JobId>,
    /// Commands that hold a job or wait for one.
    pub(super) commands: BTreeMap<ClientId, JobId>,
    /// Jobs that were requested by ranks of MPI programs.
    pub(super) gangs: BTreeMap<Gang, JobId>,
    /// Deadlines of jobs without a keeper, the next one first.
    pub(super) idle: BTreeSet<(Millis, JobId)>,
    /// Times at which jobs with exclusive devices are next checked for idleness, in order.
    pub(super) unused: BTreeSet<(Millis, JobId)>,
    /// Open sessions of jobs.
    pub(super) sessions: BTreeMap<SessionId, JobId>,
    /// Sessions that agents have assigned to jobs of an earlier coordinator.
    pub(super) earlier_sessions: BTreeMap<SessionId, JobId>,
    /// Devices that a job holds exclusively, until they are free again.
    pub(super) exclusive: BTreeMap<DeviceId, JobId>,
    /// Number of scheduler inputs that may have freed a device for programs without a request.
    pub(super) freed: u64,
    /// Number of programs without a request that use a device.
    pub(super) used: BTreeMap<DeviceId, usize>,
    /// Ended jobs whose devices on a node stay taken until the node's agent has confirmed the end.
    pub(super) releasing: BTreeMap<NodeId, BTreeSet<JobId>>,
    /// Jobs that hold devices of a node, or held some at their end.
    pub(super) by_node: BTreeMap<NodeId, BTreeSet<JobId>>,
    /// Jobs by their secret keys.
    pub(super) keys: BTreeMap<SessionKey, JobId>,
    /// Reservations, and their times in the scheduler.
    pub(super) reservations: ReservationTable,
}

impl Default for Allocations {
    fn default() -> Self {
        let in_effect = PolicyInEffect::default();
        Self {
            now: Millis(0),
            books: SchedulingState::new(in_effect.policy.core.clone()),
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
            unused: BTreeSet::new(),
            sessions: BTreeMap::new(),
            earlier_sessions: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            freed: 0,
            used: BTreeMap::new(),
            releasing: BTreeMap::new(),
            by_node: BTreeMap::new(),
            keys: BTreeMap::new(),
            reservations: ReservationTable::default(),
        }
    }
}

impl Allocations {
    /// Returns the scheduler, for queries.
    pub(super) fn scheduler(&self) -> &Scheduler {
        self.books.scheduler()
    }

    /// Returns the scheduler and its ledger.
    pub(super) fn books(&self) -> &SchedulingState {
        &self.books
    }

    /// Returns the scheduler and its ledger, for queries that bring the ledger up to date.
    pub(super) fn books_mut(&mut self) -> &mut SchedulingState {
        &mut self.books
    }

    /// Takes over the books of an earlier coordinator.
    pub(super) fn restore_books(&mut self, books: SchedulingState) {
        self.books = books;
    }

    /// Sets the wall clock. Monthly budgets begin with a month.
    pub(super) fn set_clock(&mut self, now: Millis, unix_ms: u64) {
        self.reservations.set_clock(now, unix_ms);
        if self.books.set_clock(now, unix_ms) {
            self.push(Input::MonthBegan);
        }
    }

    /// Returns the policy's tree of accounts, with the users that have requested devices.
    pub(super) fn tree(&self) -> Policy {
        let users = self.users.iter().map(|(account, user)| (account.as_str(), user.as_str()));
        self.in_effect.policy.tree(users)
    }

    /// Queues an input for the scheduler.
    pub(super) fn push(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    /// Returns when the scheduler next has something to do.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let planned = self.books.scheduler().next_deadline().map(|at| Millis(at.0));
        let planned = planned.into_iter().chain(self.reservations.due());
        planned.chain(self.idle.first().into_iter().chain(self.unused.first()).map(|(at, _)| *at)).min()
    }

    /// Returns how long a job without a session is kept. It applies if a rank of an MPI program requested the job, or
    /// if its program was disconnected at the start.
    pub(super) fn linger_ms(&self) -> u64 {
        self.in_effect.policy.linger_ms
    }

    /// Returns how long agents may let a job run: until shortly after its limit, at which the coordinator ends it.
    /// `None` for a lease that is renewed by quantum, because agents do not learn of renewals.
    pub(super) fn left_of(&self, id: JobId, now: Millis) -> Option<u64> {
        self.scheduler().limit_ms(id)?;
        Some(self.scheduler().job(id)?.ends?.0.saturating_sub(now.0) + AGENT_GRACE_MS)
    }

    /// Returns a job.
    pub(super) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Returns the devices of a session in a job.
    pub(super) fn part_of(&mut self, id: JobId, rank: Option<Rank>, own: Option<NodeId>) -> BTreeSet<DeviceId> {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return BTreeSet::new() };
        if let Some(rank) = rank.map(|rank| rank.rank).filter(|rank| job.part_number(*rank).is_none()) {
            self.new_ranks.insert((id, rank));
        }
        job.part_of(rank, own)
    }

    /// Returns the job that a rank of an MPI program has requested.
    pub(super) fn job_of_gang(&self, gang: &Gang) -> Option<JobId> {
        self.gangs.get(gang).copied()
    }

    /// Returns the job with this secret key.
    pub(super) fn job_by_key(&self, key: SessionKey) -> Option<JobId> {
        self.keys.get(&key).copied()
    }

    /// Processes the passage of time.
    pub(super) fn tick(&mut self) {
        while let Some(&(at, id)) = self.idle.first().filter(|(at, _)| *at <= self.now) {
            self.idle.remove(&(at, id));
            if let Some(job) = self.jobs.get_mut_unnoted(&id) {
                job.idle_until = None;
            }
            self.end_unkept(id);
        }
        self.inputs.push_back(Input::Tick);
    }

    /// Passes the next input to the scheduler. Returns `false` if there is none.
    pub(super) fn advance(&mut self, decided: &mut Vec<Effect>) -> bool {
        let Some(input) = self.inputs.pop_front() else { return false };
        let is_of_use = matches!(input, Input::InUse { .. } | Input::Used { .. });
        if !is_of_use && !matches!(input, Input::SessionOpened { .. } | Input::SessionClosed { .. }) {
            self.freed += 1;
        }
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

    /// Removes an ended job once the scheduler has removed it.
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

    /// Adds a user to an account. Returns the name of the user's leaf; `None` if there are too many users.
    pub(super) fn know_user(&mut self, account: &str, user: &str) -> Option<String> {
        let key = (account.to_owned(), user.to_owned());
        if !self.users.contains(&key) {
            if self.users.len() >= USERS_MAX {
                return None;
            }
            let leaf = self.in_effect.policy.user_account(account, user);
            self.inputs.extend(leaf.map(|leaf| Input::AccountAdded(Box::new(leaf))));
            self.new_users.push(key.clone());
            self.users.insert(key);
        }
        Some(SitePolicy::leaf(account, user))
    }

    /// Requests devices for a program or a command. Returns the job's number; the scheduler's decisions follow.
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
            Err(why) => {
                decided.push(Effect::Audit(format!("request of user {user:?} is refused: {why}")));
                return Err(refused(why.to_string()));
            }
        };
        let leaf = SitePolicy::leaf(&account, &user);
        request.limit_ms = request.limit_ms.or_else(|| self.in_effect.policy.default_limit_ms(&account));
        let now = self.now;
        if self.know_user(&account, &user).is_none() {
            let error = refused(format!("{USERS_MAX} users have used devices, the most that there may be"));
            return Err(error.remedy("ask an administrator to start the coordinator again"));
        }
        while self.advance(decided) {}
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

    /// Notes that a job has got its devices. Returns the programs that waited for them.
    pub(super) fn started(&mut self, id: JobId, devices: Vec<LeasedDevice>) -> BTreeMap<ClientId, Opener> {
        let Some(job) = self.jobs.get_mut(&id) else { return BTreeMap::new() };
        self.exclusive.extend(devices.iter().filter(|leased| leased.exclusive).map(|leased| (leased.device, id)));
        job.start(devices);
        job.started = self.now;
        for node in job.nodes() {
            self.by_node.entry(node).or_default().insert(id);
        }
        let openers = self.take_openers(id);
        self.use_begins(id);
        openers
    }

    /// Returns the programs that wait for a job, which wait no more.
    pub(super) fn take_openers(&mut self, id: JobId) -> BTreeMap<ClientId, Opener> {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return BTreeMap::new() };
        let openers = std::mem::take(&mut job.openers);
        for client in counted(openers.keys()) {
            self.waiting.remove(client);
        }
        openers
    }

    /// Notes that a job has ended. Returns the programs that waited for its start, and its open sessions.
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
        // Ranks of an ended job have no parts.
        self.new_ranks.extend(job.end().into_iter().map(|rank| (id, rank)));
        self.forget_if_free(id);
        (openers, sessions)
    }
}

//! Runs the node's rules ([`crate::node`]) under a lock, starts and ends executors, and lets lanes wait.

use crate::accounts::{AccountUse, Accounts};
use crate::device_memory::DeviceMemory;
use crate::drivers;
use crate::hosting::{Host, HostEnd, Hosting, SessionShares};
use crate::memory_service::serve_program;
use crate::metrics;
use crate::node::{CommandLane, DriverId, Effect, ExecutorId, LanePath, Node, ProcessId};
use crate::process::END_GRACE;
use crate::raised_limits::RaisedLimits;
use crate::saved_grants::SavedGrants;
use crate::session_limits::SessionLimits;
use crate::session_logs::SessionLogs;
use crate::settings::Settings;
use crate::turns::{SuspendRoom, TurnService, Weights, weights};
use crate::users::RunsAs;
use accord_executor::UseSink;
use accord_fabric::Key;
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::handshake::{Hello, Introduced, Purpose};
use accord_fabric::measurement;
use accord_fabric::route::Endpoint;
use accord_fabric::transport::{
    Handover, Lane, LaneProperties, LocalClient, RequiredProof, SharedLane, Transport, Waker,
};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result, SessionGrant, SessionId, SessionKey, scarce, threads};
use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often a connection that waits for its session's announcement checks whether it was evicted.
const ANNOUNCEMENT_POLL: Duration = Duration::from_millis(100);

/// Starts, feeds and ends executors. All methods are thread-safe.
pub(crate) struct Supervisor {
    settings: Settings,
    hosting: Hosting,
    accounts: Arc<Accounts>,
    memory: Arc<DeviceMemory>,
    turns: Arc<TurnService>,
    kept: Option<SavedGrants>,
    logs: Arc<SessionLogs>,
    limits_raised: RaisedLimits,
    state: ShortLock<ExecutorTable>,
    began: Instant,
    changes: ChangeSignals,
}

/// Signals after each change of the state.
#[derive(Default)]
struct ChangeSignals {
    /// Notified for threads that wait with the state's lock.
    threads: Condvar,
    /// Notified for the task that talks to the coordinator.
    coordinator: Notify,
    /// Woken for listeners, where connections wait for their sessions.
    listeners: ShortLock<Vec<Arc<Waker>>>,
}

struct ExecutorTable {
    node: Node,
    /// The started executors.
    hosts: HashMap<ExecutorId, Host>,
    /// Number of changes so far.
    changes: u64,
}

impl Supervisor {
    /// Returns a supervisor without executors, which takes over the grants of an earlier agent.
    pub(crate) fn new(settings: Settings, hosting: Hosting, kept: Option<SavedGrants>) -> Arc<Self> {
        let mut node =
            Node::new(settings.node_name.clone(), settings.plain_tcp, settings.measures).with_quota(settings.quota);
        if settings.has_scripts {
            node = node.with_scripts();
        }
        if let Some(kept) = &kept {
            node.resume(Duration::ZERO, kept.read(since_boot()));
        }
        let suspended: Vec<_> = node.suspended_jobs().collect();
        let state = ShortLock::new(ExecutorTable { node, hosts: HashMap::new(), changes: 0 });
        let (accounts, memory, logs) = (Arc::default(), DeviceMemory::of(&settings.devices), Arc::default());
        let turns = Arc::new(TurnService::new(SuspendRoom::of(settings.suspend_memory)));
        turns.were_suspended(suspended);
        let this = Arc::new(Self {
            settings,
            hosting,
            accounts,
            memory,
            turns,
            kept,
            logs,
            limits_raised: RaisedLimits::default(),
            state,
            began: Instant::now(),
            changes: ChangeSignals::default(),
        });
        this.watch_left();
        this
    }

    /// Watches the programs of an earlier agent that still drive devices, until they end.
    fn watch_left(self: &Arc<Self>) {
        for (driver, process) in self.inspect(|node, _| node.unwatched_drivers()) {
            let supervisor = self.clone();
            if let Err(error) = drivers::watch(process, move || supervisor.driver_gone(driver)) {
                tracing::warn!("devices of process {} stay taken: cannot start a thread: {error}", process.pid);
            }
        }
    }

    /// Ends a program that has not stopped devices of an ended session.
    pub(crate) fn end_driver(&self, driver: DriverId, process: ProcessId) {
        if !drivers::end(process) {
            // The process has ended, but another process, such as its child, holds the lane.
            self.driver_gone(driver);
        }
    }

    /// Returns the turns on the node's devices.
    pub(crate) fn turns(&self) -> &TurnService {
        &self.turns
    }

    /// Returns the memory limits that are raised for suspended jobs.
    pub(crate) fn limits_raised(&self) -> &RaisedLimits {
        &self.limits_raised
    }

    /// Returns the processes of a job's executors.
    pub(crate) fn executor_processes(&self, job: SessionKey) -> Vec<u32> {
        let state = self.lock();
        let hosts = state.node.executors_of(job).into_iter().filter_map(|executor| state.hosts.get(&executor));
        hosts.filter_map(Host::process_id).collect()
    }

    /// Returns the way in which executors run.
    pub(crate) fn hosting(&self) -> &Hosting {
        &self.hosting
    }

    /// Returns what was written about sessions.
    pub(crate) fn logs(&self) -> &SessionLogs {
        &self.logs
    }

    /// Writes the state that outlives the agent, if it has changed.
    pub(crate) fn keep(&self) {
        if let Some(kept) = &self.kept {
            let change = self.inspect(|node, _| node.kept_changes());
            kept.write(change, || self.inspect(|node, now| node.kept(now)), since_boot());
        }
    }

    /// Applies an event to the rules.
    pub(crate) fn apply<R>(&self, what: impl FnOnce(&mut Node, Duration, &mut Vec<ExecutorId>) -> R) -> R {
        self.change(|state, now, ends| what(&mut state.node, now, ends))
    }

    /// Applies an event, and notifies all waiters.
    fn change<R>(&self, what: impl FnOnce(&mut ExecutorTable, Duration, &mut Vec<ExecutorId>) -> R) -> R {
        let answer = self.ask(|state, now, ends| {
            state.changes += 1;
            what(state, now, ends)
        });
        self.changes.coordinator.notify_one();
        self.changes.listeners.lock().iter().for_each(|waker| waker.wake());
        answer
    }

    /// Registers a waker, which is woken after each event.
    pub(crate) fn wake_on_update(&self, waker: Arc<Waker>) {
        self.changes.listeners.lock().push(waker);
    }

    /// Queries the rules, and ends the executors that they name.
    fn ask<R>(&self, what: impl FnOnce(&mut ExecutorTable, Duration, &mut Vec<ExecutorId>) -> R) -> R {
        let (mut state, mut ends) = (self.lock(), Vec::new());
        let answer = what(&mut state, self.now(), &mut ends);
        let host_of =
            |executor: &ExecutorId| Some((state.hosts.get(executor)?.clone(), state.node.ending(*executor).cloned()));
        let ends: Vec<(Host, Option<ExecutorEnding>)> = ends.iter().filter_map(host_of).collect();
        drop(state);
        self.changes.threads.notify_all();
        ends.into_iter().for_each(|(host, ending)| host.end(ending));
        answer
    }

    /// Returns the effects that are due now, and the latest time of the next poll.
    pub(crate) fn poll(&self) -> (Vec<Effect>, Option<Instant>) {
        self.ask(|state, now, ends| {
            let effects = state.node.poll(now, ends);
            (effects, state.node.next().and_then(|next| self.began.checked_add(next)))
        })
    }

    /// Completes once there was an event since the last call.
    pub(crate) async fn news(&self) {
        self.changes.coordinator.notified().await;
    }

    /// Reads the state of the rules.
    pub(crate) fn inspect<R>(&self, what: impl FnOnce(&Node, Duration) -> R) -> R {
        what(&self.lock().node, self.now())
    }

    /// Blocks until the node has its number and address; `None` if the agent stops before.
    pub(crate) fn await_node(&self) -> Option<Endpoint> {
        let unknown = |state: &mut ExecutorTable| state.node.endpoint().is_none() && !state.node.is_stopping();
        ShortGuard::wait_while(self.lock(), &self.changes.threads, unknown).node.endpoint().cloned()
    }

    /// Returns the key that a connection with this hello must prove, or until when it may wait for the coordinator's
    /// announcement. The connection arrived at `since`.
    ///
    /// # Errors
    /// Returns the errors of [`Node::key_of`].
    pub(crate) fn key_or_wait(&self, hello: &Hello, since: Instant) -> Result<RequiredProof> {
        let since = since.saturating_duration_since(self.began);
        let key = self.inspect(|node, now| node.key_of(now, hello.purpose, hello.session, since))?;
        Ok(key.map_or(RequiredProof::Later(self.began + Node::key_within(since)), |key| RequiredProof::Key(key.into())))
    }

    /// Returns the key as [`Supervisor::key_or_wait`], but blocks until it is known.
    ///
    /// # Errors
    /// Returns the errors of [`Node::key_of`], or soon an error if `has_to_go`.
    pub(crate) fn key_of(&self, hello: &Hello, has_to_go: &dyn Fn() -> bool) -> Result<Key> {
        let since = self.now();
        let inspect = |node: &Node, now| node.key_of(now, hello.purpose, hello.session, since);
        loop {
            if let Some(key) = self.inspect(inspect)? {
                return Ok(key.into());
            }
            if has_to_go() {
                return Err(Error::new(ErrorCode::DeviceUnavailable, "too many connections wait for their sessions"));
            }
            let left = Node::key_within(since).saturating_sub(self.now()).min(ANNOUNCEMENT_POLL);
            let waits = |state: &mut ExecutorTable| matches!(inspect(&state.node, self.now()), Ok(None));
            drop(ShortGuard::wait_timeout_while(self.lock(), &self.changes.threads, left, waits));
        }
    }

    /// Admits a connection with this hello, and returns its executor. A command lane gets a new executor, all others
    /// need an existing one.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub(crate) fn admit(self: &Arc<Self>, hello: &Hello, lane: &dyn Lane) -> Result<ExecutorId> {
        let session = hello.session;
        let grant = self.granted(hello, lane)?;
        match hello.purpose {
            Purpose::Command => self.begin(grant),
            Purpose::Bulk
            | Purpose::Peer
            | Purpose::Session
            | Purpose::Control
            | Purpose::Measure
            | Purpose::Memory
            | Purpose::Driver
            | Purpose::Turns => self.inspect(|node, now| node.executor_of(now, session)),
        }
    }

    /// Returns this node's grant for the session of a lane with this hello.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub(crate) fn granted(&self, hello: &Hello, lane: &dyn Lane) -> Result<SessionGrant> {
        let way = way_of(lane);
        let grant = self.inspect(|node, now| node.admit(now, hello, way))?;
        if let Some(LocalClient { user, .. }) = lane.properties().client {
            self.check_user(&grant, user)?;
        }
        Ok(grant)
    }

    /// Counts the device memory of a program that drives the node's devices itself, on a thread of its own, until its
    /// session or this lane ends.
    ///
    /// # Errors
    /// Returns an error if the session has too many such lanes, or no thread can be started.
    pub(crate) fn count_memory(self: &Arc<Self>, lane: SharedLane, client: Introduced) -> Result<()> {
        let session = client.hello.session;
        let grant = move |node: &Node, now| node.grant(now, session);
        let account = self.memory.open(&self.inspect(grant)?)?;
        let (lane, client) = Handover::within_process(lane, client)?;
        let supervisor = self.clone();
        let serve = move || {
            let served = client.secure(lane).map(|lane| {
                let goes_on = || supervisor.inspect(grant).is_ok();
                serve_program(lane, &account, goes_on)
            });
            if let Err(error) = served {
                tracing::info!("device memory of session {session} is not counted: {error}");
            }
        };
        let started = threads::spawn("accord-memory", serve).map(drop);
        started.map_err(|error| Error::new(ErrorCode::System, format!("cannot start a thread: {error}")))
    }

    /// Gives turns to a program that drives the node's devices itself, on a thread of its own, until its session or this lane
    /// ends.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub(crate) fn give_turns(self: &Arc<Self>, lane: SharedLane, client: Introduced) -> Result<()> {
        let session = client.hello.session;
        let (lane, client) = Handover::within_process(lane, client)?;
        let supervisor = self.clone();
        let serve = move || {
            let goes_on = || supervisor.inspect(|node, now| node.grant(now, session)).is_ok();
            let served = client.secure(lane).and_then(|lane| {
                let grant = supervisor.inspect(|node, now| node.grant(now, session))?;
                // The program is in no control group of the session.
                let weights = supervisor.weights(&grant, false);
                supervisor.turns.serve_program(session, grant.job, lane, weights, goes_on)
            });
            if let Err(error) = served {
                tracing::info!("a program of session {session} takes no turns: {error}");
            }
        };
        let started = threads::spawn("accord-turns", serve).map(drop);
        started.map_err(|error| Error::new(ErrorCode::System, format!("cannot start a thread: {error}")))
    }

    /// Returns the weights of a session on the devices that it shares by turns.
    fn weights(&self, grant: &SessionGrant, kernel_divides: bool) -> Weights {
        let held = self.inspect(|node, _| node.held_by(grant.job));
        let leased = self.settings.devices.iter().filter(|device| grant.ordinals.contains(&device.id.ordinal));
        weights(&leased.cloned().collect::<Vec<_>>(), grant.job, &held, kernel_divides)
    }

    /// Admits a program that drives the node's devices itself. It is written to the file of grants before its welcome.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the session has ended, or there are too many such programs.
    pub(crate) fn admit_driver(&self, hello: &Hello, lane: &dyn Lane) -> Result<DriverId> {
        self.granted(hello, lane)?;
        let process = lane.properties().client.and_then(|client| drivers::process_of(client.process));
        let driver = self.apply(|node, now, _| node.drives(now, hello.session, process))?;
        let pid = process.map_or_else(|| "?".to_owned(), |process| process.pid.to_string());
        tracing::debug!("process {pid} drives devices of session {} itself", hello.session);
        self.keep();
        Ok(driver)
    }

    /// Reads a driver's lane to its end, on a thread of its own.
    ///
    /// # Errors
    /// Returns `acc_error_system` if no thread can be started.
    pub(crate) fn watch_driver(self: &Arc<Self>, lane: SharedLane, client: Introduced, driver: DriverId) -> Result<()> {
        let supervisor = self.clone();
        let watch = move || {
            let lane = Handover::within_process(lane, client).and_then(|(lane, client)| client.secure(lane));
            if let Ok(lane) = lane {
                // The lane carries no data.
                while lane.read(&mut [0]).is_ok_and(|read| read > 0) {}
            }
            supervisor.driver_gone(driver);
        };
        threads::spawn("accord-driver", watch).map(drop).map_err(|error| {
            self.driver_gone(driver);
            Error::new(ErrorCode::System, format!("cannot start a thread: {error}")).remedy(scarce::THREADS)
        })
    }

    /// Records that a program drives no device any more.
    pub(crate) fn driver_gone(&self, driver: DriverId) {
        self.apply(|node, _, _| node.drives_no_longer(driver));
    }

    /// Answers another agent's measurement, over a lane that has proven its key.
    ///
    /// # Errors
    /// Returns an error if the lane fails.
    pub(crate) fn answer_measurement(lane: SharedLane, client: Introduced) -> Result<()> {
        let (lane, client) = Handover::within_process(lane, client)?;
        measurement::answer(&*client.secure(lane)?)
    }

    /// Admits the lane of a measurement.
    ///
    /// # Errors
    /// Returns an error with the reason for the client.
    pub(crate) fn admit_measurement(&self, hello: &Hello, lane: &dyn Lane) -> Result<()> {
        let way = way_of(lane);
        self.apply(|node, now, _| node.admit_measurement(now, hello, way))
    }

    /// Checks that a process of this machine, whose user the system attests, belongs to the session's user.
    fn check_user(&self, grant: &SessionGrant, attested: u32) -> Result<()> {
        let SessionGrant { session, user, .. } = grant;
        let may_be = self.accounts.may_be(&self.settings.users, user, attested);
        if may_be.inspect_err(|error| refused(*session, error))? {
            return Ok(());
        }
        let why = format!("session {session} is user {user}'s, and a process of user {attested} came with its key");
        tracing::warn!("{why}");
        Err(Error::new(ErrorCode::DeviceUnavailable, why))
    }

    /// Hands an admitted connection to its executor.
    ///
    /// # Errors
    /// Returns an error if the executor has ended.
    pub(crate) fn deliver(&self, executor: ExecutorId, lane: SharedLane, client: Introduced) -> Result<()> {
        let session = client.hello.session;
        let host = self.lock().hosts.get(&executor).cloned().ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, format!("the executor of session {session} has just ended"))
        })?;
        let give_up = |_: &Error| {
            self.apply(|node, _, ends| node.unreachable(session, executor, ends));
        };
        host.send(lane, client).inspect_err(give_up)
    }

    /// Ends all executors, and waits until they have ended or their grace period is over.
    pub(crate) fn stop(&self) {
        self.apply(|node, _, ends| node.stop(ends));
        let running = |state: &mut ExecutorTable| !state.node.is_idle();
        drop(ShortGuard::wait_timeout_while(self.lock(), &self.changes.threads, 2 * END_GRACE, running));
        self.hosting.close();
    }

    /// Starts a session's executor, once the previous one has ended.
    fn begin(self: &Arc<Self>, grant: SessionGrant) -> Result<ExecutorId> {
        let session = grant.session;
        self.logs.begin(session, &grant.user);
        self.begin_with_log(&grant).inspect_err(|error| {
            self.logs.note(session, &format!("no executor: {}", error.cause()));
            self.logs.end(session);
        })
    }

    fn begin_with_log(self: &Arc<Self>, grant: &SessionGrant) -> Result<ExecutorId> {
        let session = grant.session;
        let taken = self.accounts.take(&self.settings.users, &grant.user);
        let (account, mut account_use) = taken.inspect_err(|error| refused(session, error))?;
        let executor = self.await_turn(session)?;
        let (hand_over, end) = sync_channel::<HostEnd>(1);
        let (supervisor, user) = (self.clone(), grant.user.clone());
        let reaper = move || {
            let Ok(end) = end.recv() else { return };
            let (why, remains) = end.wait();
            let Some(remains) = remains else {
                // No process of the session is left, so that another user may get the account.
                drop(account_use);
                return supervisor.ended(session, executor, &why, None);
            };
            account_use.iter_mut().for_each(AccountUse::keep_back);
            supervisor.ended(session, executor, &why, Some(&user));
            remains.await_end();
            drop(account_use);
            supervisor.apply(|node, _, _| node.remains_gone(&user));
        };
        // Only this thread reports the executor's end.
        let reaper = threads::spawn("accord-reap", reaper);
        let started = reaper
            .map_err(|error| {
                Error::new(ErrorCode::System, format!("cannot start a thread: {error}")).remedy(scarce::THREADS)
            })
            .and_then(|_| self.start(grant, executor, account));
        match started {
            Ok(end) => {
                // The thread waits for this.
                let _ = hand_over.send(end);
                Ok(executor)
            }
            Err(error) => {
                self.apply(|node, _, _| node.not_started(session, executor));
                Err(error)
            }
        }
    }

    /// Waits until the session's next executor may begin.
    fn await_turn(&self, session: SessionId) -> Result<ExecutorId> {
        let mut lane = CommandLane::new(self.now(), session);
        loop {
            let (answer, seen) = self.ask(|state, now, ends| (state.node.begin(now, &mut lane, ends), state.changes));
            if let Some(executor) = answer? {
                return Ok(executor);
            }
            let left = Node::begun_within(&lane).saturating_sub(self.now());
            let is_same = |state: &mut ExecutorTable| state.changes == seen;
            drop(ShortGuard::wait_timeout_while(self.lock(), &self.changes.threads, left, is_same));
        }
    }

    /// Starts an executor without the lock, which heartbeats need: a start takes a while on a busy machine.
    fn start(self: &Arc<Self>, grant: &SessionGrant, executor: ExecutorId, account: RunsAs) -> Result<HostEnd> {
        let whom = match &account {
            RunsAs::Agent => String::new(),
            RunsAs::Other(account) => format!(", which runs as {}", account.name),
        };
        let (node, figures, held) = self.inspect(|node, _| {
            let own = node.endpoint().map(|endpoint| endpoint.node).unwrap_or_default();
            (own, node.figures().cloned(), node.held_by(grant.job))
        });
        let memory = self.memory.counts(grant).then(|| self.memory.open(grant)).transpose()?;
        let start = self.settings.start(grant, node, figures.as_ref());
        let turns = match &self.hosting {
            Hosting::Processes(_) => {
                self.turns.open(grant.session, grant.job, self.weights(grant, self.hosting.divides_cores()))?
            }
            // The executors of this process are of one job.
            Hosting::Here(_) => None,
        };
        let (supervisor, session) = (self.clone(), grant.session);
        let report: UseSink = Arc::new(move |uses| supervisor.ask(|state, _, _| state.node.used(session, uses)));
        let limits = SessionLimits::of(&start, &held, self.settings.limits);
        let (host, end) =
            self.hosting.start((start, limits), account, SessionShares { memory, turns }, report, &self.logs)?;
        tracing::info!("session {} of user {} has {}{whom}", grant.session, grant.user, host.describe());
        self.logs.note(grant.session, &format!("user {} has {}{whom}", grant.user, host.describe()));
        self.change(|state, now, ends| {
            state.hosts.insert(executor, host);
            state.node.started(now, grant.session, executor, ends);
            metrics::executors(state.hosts.len());
        });
        Ok(end)
    }

    /// Records that an executor has ended. `remains_of` names the session's user if some of its processes are left.
    fn ended(&self, session: SessionId, executor: ExecutorId, why: &str, remains_of: Option<&str>) {
        let is_expected = self.change(|state, _, _| {
            remains_of.iter().for_each(|user| state.node.remains(user));
            state.hosts.remove(&executor);
            metrics::executors(state.hosts.len());
            state.node.ended(session, executor, why)
        });
        let outcome = if why.is_empty() { String::new() } else { format!(": {why}") };
        self.logs.note(session, &format!("the executor has ended{outcome}"));
        self.logs.end(session);
        match (why, is_expected) {
            ("", _) => {}
            (_, true) => tracing::info!("the executor of session {session} ended: {why}"),
            (_, false) => tracing::warn!("the executor of session {session} ended: {why}"),
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> ShortGuard<'_, ExecutorTable> {
        self.state.lock()
    }
}

/// Returns the time since the machine's start, including sleep.
pub(crate) fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Returns the path by which a lane arrived.
fn way_of(lane: &dyn Lane) -> LanePath {
    let LaneProperties { transport, leaves_machine, .. } = lane.properties();
    LanePath { leaves_machine, is_of_world: transport == Transport::Mpi }
}

/// Logs a refused session.
fn refused(session: SessionId, error: &Error) {
    tracing::warn!("session {session} is refused: {}", error.cause());
}

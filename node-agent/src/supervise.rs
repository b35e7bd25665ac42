//! One executor process per session: started by the session's command lane, ended with the session. A second command
//! lane gets a second executor, in place of the first: a program that lost its executor, or gave it up, begins anew.

use crate::grants::Grants;
use crate::hosting::{Host, HostEnd, Hosting};
use crate::metrics;
use crate::process::END_GRACE;
use crate::users::{RunsAs, UserRules};
use accord_fabric::Key;
use accord_fabric::handshake::{Hello, Introduced, Purpose, check_secure};
use accord_fabric::route::Endpoint;
use accord_fabric::transport::{Lane, SharedLane, Transport};
use accord_proto::v1;
use accord_types::{DeviceInfo, Error, ErrorCode, NodeId, Result, SessionGrant, SessionId};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Executors at one time.
const EXECUTORS_MAX: usize = 1_024;
/// How long a connection waits for the node's registration, and for the announcement of its session.
const ANNOUNCEMENT_WAIT: Duration = Duration::from_secs(3);
/// How often such a connection looks whether it has to make room for another one.
const ANNOUNCEMENT_LOOK: Duration = Duration::from_millis(100);
/// How long a new executor waits for the end of the one before: the driver may take seconds to take a GPU's context down. Less
/// than a program waits for such a lane.
const REPLACE_MAX: Duration = Duration::from_secs(8);

/// What executors are told.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) node_name: String,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) libacc: Option<PathBuf>,
    /// Folder for compiled GPU code; none: the executor's user's own.
    pub(crate) cache: Option<PathBuf>,
    /// GPUs of other processes of the machine are copied to directly.
    pub(crate) ipc: bool,
    /// Who is served, and as whom.
    pub(crate) users: UserRules,
    /// Lanes from other machines may be in clear, where their session's grant says so too.
    pub(crate) plain_tcp: bool,
}

/// What the coordinator is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// An executor was started.
    Started(SessionGrant),
    /// An executor ended. The reason is empty if that was to be expected.
    Ended(SessionId, String),
}

/// Starts, feeds and ends executors. Its methods may be called from any thread.
pub(crate) struct Supervisor {
    settings: Settings,
    hosting: Hosting,
    events: tokio::sync::mpsc::Sender<Event>,
    state: Mutex<ExecutorTable>,
    /// The node has registered, or an executor has ended.
    changed: Condvar,
}

#[derive(Default)]
struct ExecutorTable {
    node: Option<Endpoint>,
    executors: HashMap<SessionId, Executor>,
    /// Whose executors are about to be there.
    starting: HashSet<SessionId>,
    grants: Grants,
    started: u64,
    stopping: bool,
}

#[derive(Clone)]
struct Executor {
    /// Tells an executor from a later one of the same session.
    number: u64,
    host: Host,
    ending: bool,
    /// Another one is about to take its place.
    replaced: bool,
}

impl Supervisor {
    /// A supervisor without executors.
    pub(crate) fn new(settings: Settings, hosting: Hosting, events: tokio::sync::mpsc::Sender<Event>) -> Arc<Self> {
        Arc::new(Self { settings, hosting, events, state: Mutex::default(), changed: Condvar::new() })
    }

    /// The coordinator has taken the node in. What it has to say about sessions follows.
    pub(crate) fn registered(&self, node: NodeId, address: &str) {
        let mut state = self.lock();
        // What an earlier coordinator granted stays: its sessions outlive it.
        state.node = Some(Endpoint::new(node, address));
        self.changed.notify_all();
    }

    /// Waits for the node's number and address; none if the agent stops before.
    pub(crate) fn await_node(&self) -> Option<Endpoint> {
        let unknown = |state: &mut ExecutorTable| state.node.is_none() && !state.stopping;
        self.changed.wait_while(self.lock(), unknown).unwrap_or_else(PoisonError::into_inner).node.clone()
    }

    /// The node's number, once a coordinator has given one.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.lock().node.as_ref().map(|node| node.node)
    }

    /// A lease names this node's devices.
    pub(crate) fn opened(&self, grant: SessionGrant) {
        self.lock().grants.announce(Instant::now(), grant);
        self.changed.notify_all();
    }

    /// A session has ended: so does its executor, by itself or not.
    pub(crate) fn close(&self, session: SessionId) {
        let mut state = self.lock();
        state.grants.withdraw(session);
        // Who waits for it waits no longer.
        self.changed.notify_all();
        if let Some(executor) = state.executors.get_mut(&session) {
            executor.end();
        }
    }

    /// Ends sessions whose time is over, whether their coordinator is there or not. Returns when the agent stops.
    pub(crate) fn watch_ends(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let now = Instant::now();
            state = match state.grants.next_end() {
                Some((end, session)) if end <= now => {
                    drop(state);
                    tracing::warn!("session {session} has lasted as long as it was allowed to");
                    self.close(session);
                    self.lock()
                }
                Some((end, _)) => {
                    let (state, _) =
                        self.changed.wait_timeout(state, end - now).unwrap_or_else(PoisonError::into_inner);
                    state
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Sessions with an executor that is not about to end, or to be followed by another one.
    pub(crate) fn running(&self) -> Vec<SessionGrant> {
        let state = self.lock();
        let running = state.executors.iter().filter(|(_, executor)| !executor.ending || executor.replaced);
        let now = Instant::now();
        // Of one that was closed since the end is on its way.
        running.filter_map(|(session, _)| state.grants.find(now, *session)).collect()
    }

    /// What a connection of `session` has to prove. It may come before the coordinator's word does, and waits for it then.
    ///
    /// # Errors
    /// If the session was not announced to this agent, or has ended; soon if it `has_to_go`. Anybody may ask, so that the text tells
    /// nothing of others.
    pub(crate) fn key_of(&self, session: SessionId, has_to_go: &dyn Fn() -> bool) -> Result<Key> {
        let unknown = |state: &mut ExecutorTable| {
            let known = state.grants.find(Instant::now(), session).is_some() || state.grants.has_ended(session);
            !state.stopping && (state.node.is_none() || !known)
        };
        let end = Instant::now() + ANNOUNCEMENT_WAIT;
        let state = loop {
            let left = end.saturating_duration_since(Instant::now()).min(ANNOUNCEMENT_LOOK);
            let (state, waited) =
                self.changed.wait_timeout_while(self.lock(), left, unknown).unwrap_or_else(PoisonError::into_inner);
            if !waited.timed_out() || Instant::now() >= end {
                break state;
            }
            drop(state);
            if has_to_go() {
                return Err(Error::new(ErrorCode::DeviceUnavailable, "too many connections wait for their sessions"));
            }
        };
        self.check(&state, session)?;
        Ok(self.grant(&state, session)?.key.into())
    }

    /// Lets a connection with this hello in: a command lane gets a new executor, all others have to find one.
    ///
    /// # Errors
    /// With the reason for the client.
    pub(crate) fn admit(self: &Arc<Self>, hello: &Hello, lane: &dyn Lane) -> Result<()> {
        if let Some(user) = lane.peer_user() {
            self.check_user(hello.session, user)?;
        }
        self.check_lane(hello, lane)?;
        match hello.purpose {
            Purpose::Command => self.begin(hello.session),
            Purpose::Bulk | Purpose::Peer | Purpose::Session | Purpose::Control => {
                self.executor(hello.session).map(drop)
            }
        }
    }

    /// On this machine the system says whose process it is: it has to be the session's user's.
    fn check_user(&self, session: SessionId, attested: u32) -> Result<()> {
        let grant = self.grant(&self.lock(), session)?;
        let may_be = self.settings.users.may_be(&grant.user, attested);
        if may_be.inspect_err(|error| refused(session, error))? {
            return Ok(());
        }
        let why =
            format!("session {session} is user {}'s, and a process of user {attested} came with its key", grant.user);
        tracing::warn!("{why}");
        Err(Error::new(ErrorCode::DeviceUnavailable, why))
    }

    /// Whether the lane is for this node, and nothing of it goes in clear where that may not be.
    fn check_lane(&self, hello: &Hello, lane: &dyn Lane) -> Result<()> {
        let name = &self.settings.node_name;
        let state = self.lock();
        // The agent was told to be of an MPI job, whose messages are MPI's.
        let is_of_job = lane.transport() == Transport::Mpi;
        let may_be_plain = is_of_job || self.settings.plain_tcp && self.grant(&state, hello.session)?.plain_tcp;
        let own = state.node.as_ref().map(|node| node.node);
        drop(state);
        if hello.to.is_some() && hello.to != own {
            return Err(Error::new(
                ErrorCode::DeviceUnavailable,
                format!("this is node {name}, and another one is meant"),
            ));
        }
        check_secure(hello, lane.leaves_machine(), may_be_plain).inspect_err(|error| refused(hello.session, error))
    }

    fn check(&self, state: &ExecutorTable, session: SessionId) -> Result<()> {
        let name = &self.settings.node_name;
        let refused = |why: String| Err(Error::new(ErrorCode::DeviceUnavailable, why));
        if state.stopping {
            return refused(format!("node {name} is stopping"));
        }
        if state.node.is_none() {
            return refused(format!("node {name} has not registered yet"));
        }
        if state.grants.has_ended(session) {
            return refused(format!("session {session} has ended"));
        }
        if state.executors.len() >= EXECUTORS_MAX && !state.executors.contains_key(&session) {
            return Err(full(name, session));
        }
        Ok(())
    }

    /// Hands a connection that was admitted to its session's executor.
    ///
    /// # Errors
    /// If that is gone.
    pub(crate) fn deliver(&self, lane: SharedLane, client: Introduced) -> Result<()> {
        let session = client.hello.session;
        let executor = self.executor(session)?;
        executor.host.send(lane, client).inspect_err(|_| self.discard(session, executor.number))
    }

    /// Ends all executors; returns when they have, or have had time enough.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        self.changed.notify_all();
        for executor in state.executors.values_mut() {
            executor.end();
        }
        let running = |state: &mut ExecutorTable| !state.executors.is_empty();
        drop(self.changed.wait_timeout_while(state, 2 * END_GRACE, running));
    }

    /// The session's executor.
    fn executor(&self, session: SessionId) -> Result<Executor> {
        let state = self.lock();
        self.check(&state, session)?;
        state.executors.get(&session).cloned().ok_or_else(|| {
            let name = &self.settings.node_name;
            Error::new(
                ErrorCode::DeviceUnavailable,
                format!("session {session} has no executor on node {name} any more"),
            )
        })
    }

    /// What the session's lease lets it have here.
    fn grant(&self, state: &ExecutorTable, session: SessionId) -> Result<SessionGrant> {
        state.grants.find(Instant::now(), session).ok_or_else(|| {
            let name = &self.settings.node_name;
            Error::new(
                ErrorCode::DeviceUnavailable,
                format!("the coordinator has not told node {name} of session {session}"),
            )
            .remedy("check that the coordinator runs, and start the program again")
        })
    }

    /// Starts a session's executor, when the one before has ended: its devices are free then.
    fn begin(self: &Arc<Self>, session: SessionId) -> Result<()> {
        let mut state = self.lock();
        self.check(&state, session)?;
        let grant = self.grant(&state, session)?;
        if let Some(before) = state.executors.get_mut(&session) {
            before.replaced = true;
            // One that has crashed is no orderly end.
            if !before.host.has_ended() {
                before.end();
            }
            let is_there = |state: &mut ExecutorTable| state.executors.contains_key(&session);
            let (now, waited) =
                self.changed.wait_timeout_while(state, REPLACE_MAX, is_there).unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                let why = format!("the executor of session {session} does not end");
                return Err(Error::new(ErrorCode::DeviceUnavailable, why).remedy("try again"));
            }
            state = now;
            self.check(&state, session)?;
        }
        let account = self.settings.users.runs_as(&grant.user).inspect_err(|error| refused(session, error))?;
        let node = state.node.as_ref().map(|node| node.node).unwrap_or_default();
        let start = self.settings.start(&grant, node);
        let whom = match &account {
            RunsAs::Agent => String::new(),
            RunsAs::Other(account) => format!(", which runs as {}", account.name),
        };
        if !state.starting.insert(session) {
            let why = format!("session {session} has a command lane that is just being opened");
            return Err(Error::new(ErrorCode::DeviceUnavailable, why));
        }
        drop(state);
        // Without the lock, which heartbeats need: a start takes a while on a machine that is busy with others.
        let started = self.hosting.start(start, account);
        let mut state = self.lock();
        state.starting.remove(&session);
        let (host, end) = started?;
        state.started += 1;
        let mut executor = Executor { number: state.started, host, ending: false, replaced: false };
        if self.check(&state, session).and_then(|()| self.grant(&state, session)).is_err() {
            // It has ended meanwhile, or the agent does.
            executor.end();
        }
        state.executors.insert(session, executor.clone());
        metrics::executors(state.executors.len());
        drop(state);

        tracing::info!("session {session} of user {} has {}{whom}", grant.user, executor.host.describe());
        self.report(Event::Started(grant));
        let (supervisor, number) = (self.clone(), executor.number);
        let reaper = move || supervisor.reap(session, number, end);
        if let Err(error) = std::thread::Builder::new().name("accord-reap".into()).spawn(reaper) {
            self.discard(session, executor.number);
            return Err(Error::new(ErrorCode::System, format!("cannot start a thread: {error}")));
        }
        Ok(())
    }

    /// Waits for an executor's end.
    fn reap(&self, session: SessionId, number: u64, end: HostEnd) {
        let mut reason = end.wait();
        let mut state = self.lock();
        let (expected, replaced) = match state.executors.get(&session) {
            Some(executor) if executor.number == number => (executor.ending, executor.replaced),
            // Discarded: another one may have its place.
            _ => return,
        };
        state.executors.remove(&session);
        metrics::executors(state.executors.len());
        self.changed.notify_all();
        drop(state);
        if expected {
            reason.clear();
        }
        if !reason.is_empty() {
            tracing::warn!("the executor of session {session} ended: {reason}");
        }
        // Of a session that goes on here nothing has ended.
        if !replaced {
            self.report(Event::Ended(session, reason));
        }
    }

    /// Gives an executor up that can't be reached.
    fn discard(&self, session: SessionId, number: u64) {
        let mut state = self.lock();
        if state.executors.get(&session).is_some_and(|executor| executor.number == number)
            && let Some(mut executor) = state.executors.remove(&session)
        {
            executor.end();
        }
    }

    fn report(&self, event: Event) {
        // If the coordinator is far behind, the next heartbeat tells it the same.
        let _ = self.events.try_send(event);
    }

    fn lock(&self) -> MutexGuard<'_, ExecutorTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor {
    fn end(&mut self) {
        if !self.ending {
            self.ending = true;
            self.host.end();
        }
    }
}

impl Settings {
    /// What the executor is told: it knows no more of the node than its lease names.
    fn start(&self, grant: &SessionGrant, node: NodeId) -> v1::ExecutorStart {
        let leased = self.devices.iter().filter(|device| grant.ordinals.contains(&device.id.ordinal));
        let text = |path: &PathBuf| path.display().to_string();
        v1::ExecutorStart {
            node: node.0,
            node_name: self.node_name.clone(),
            session: grant.session.0,
            stream_quota: grant.stream_quota,
            memory_quota: grant.memory_quota,
            devices: leased.cloned().map(Into::into).collect(),
            key: grant.key.0.to_vec(),
            libacc: self.libacc.as_ref().map(text).unwrap_or_default(),
            agent_pid: std::process::id(),
            cache: self.cache.as_ref().map(text).unwrap_or_default(),
            ipc: self.ipc,
            plain_tcp: grant.plain_tcp,
        }
    }
}

/// Says whom this agent does not serve.
fn refused(session: SessionId, error: &Error) {
    tracing::warn!("session {session} is refused: {}", error.cause());
}

/// Why a node takes no session more.
fn full(node: &str, session: SessionId) -> Error {
    let cause = format!("node {node} can't take session {session}: it has {EXECUTORS_MAX} sessions, its agent's limit");
    let remedy = "wait until programs that use the node have ended (accord info lists them), or use other nodes";
    Error::new(ErrorCode::DeviceUnavailable, cause).node(node).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, SessionKey};

    fn device(ordinal: u32) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h1".to_owned(),
            kind: DeviceKind::CPU,
            name: "cpu".to_owned(),
            vendor: "GNU".to_owned(),
            driver: "0".to_owned(),
            uuid: String::new(),
            memory: 1 << 30,
            units: 1,
            numa: None,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn an_executor_is_told_what_its_lease_names_and_no_more() {
        let settings = Settings {
            node_name: "h1".to_owned(),
            devices: (0..4).map(device).collect(),
            libacc: None,
            cache: None,
            ipc: false,
            users: UserRules::default(),
            plain_tcp: false,
        };
        let grant = SessionGrant {
            session: SessionId(7),
            key: SessionKey([3; SessionKey::LEN]),
            user: "alice".to_owned(),
            ends_in_ms: None,
            program: "app".to_owned(),
            node_name: "h0".to_owned(),
            pid: 1,
            rank: None,
            ordinals: vec![1, 3, 9],
            memory_quota: 1 << 20,
            stream_quota: 4,
            plain_tcp: true,
            opened_unix_ms: 0,
        };
        let start = settings.start(&grant, NodeId(5));
        let ordinals: Vec<u32> =
            start.devices.into_iter().map(|device| DeviceInfo::try_from(device).unwrap().id.ordinal).collect();
        assert_eq!(ordinals, [1, 3]);
        assert_eq!((start.memory_quota, start.stream_quota), (1 << 20, 4));
        assert!(start.plain_tcp);
        assert_eq!(start.key, [3; SessionKey::LEN]);
    }
}

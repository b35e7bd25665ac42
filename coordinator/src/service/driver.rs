//! Feeds inputs to the core and carries out its effects. The core's lock is never held across an operation that may
//! block.

use super::journal::Journal;
use super::log_questions::LogQuestions;
use super::outbound;
use super::to_program::ToProgram;
use crate::metrics::Metrics;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, PathOrder, Snapshot,
};
use accord_fabric::frame::session::Message;
use accord_fabric::new_session_key;
use accord_proto::v1;
use accord_scheduler::ledger::{JobUse, UsageView};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{JobId, Usage};
use accord_types::SessionId;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tonic::Status;

/// Most messages in flight to one agent. An agent with more must register again.
pub(super) const AGENT_OUTBOX_MAX: usize = 4_096;
/// Most messages in flight to one program. Further messages are dropped, because the program does not read.
pub(super) const CLIENT_OUTBOX_MAX: usize = 64;
/// Longest sleep between two ticks.
const TICK_MAX: Duration = Duration::from_millis(250);
/// Delay of a tick beyond which it is skipped. This process was then suspended, and heartbeats of agents are still
/// unread.
const TICK_LATE_MAX: Duration = Duration::from_millis(500);

/// Delay of the order to end executors after the message to their program, so that the program learns the reason from
/// the coordinator first.
const REPORTED_BEFORE: Duration = Duration::from_millis(200);

/// The outcome of sending a message to an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendOutcome {
    Queued,
    /// The outbox is full.
    Full,
    /// The connection no longer exists.
    Gone,
}

/// The sender of messages to one agent.
pub type AgentSender = mpsc::Sender<Result<v1::CoordinatorMessage, Status>>;

/// The parameters of a driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverSettings {
    /// The core's limits.
    pub limits: Limits,
    /// Flags that set what a policy may set as well.
    pub flags: QuotaFlags,
    /// Whether devices are counted for metrics.
    pub counts_devices: bool,
}

/// Flags that a policy may set as well; a value in both places is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuotaFlags {
    /// `--memory-quota`.
    pub memory: bool,
    /// `--stream-quota`.
    pub stream: bool,
    /// `--session-time`.
    pub session_time: bool,
}

impl QuotaFlags {
    /// Refuses a policy that sets a value which a flag sets.
    ///
    /// # Errors
    /// Returns an error that names these flags.
    pub fn check(self, policy: &SitePolicy) -> Result<(), String> {
        let twice = policy.set_twice(self.memory, self.stream, self.session_time);
        if twice.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = twice.iter().map(|flag| flag.trim_start_matches('-')).collect();
        let (flags, keys) = (twice.join(", "), keys.join(", "));
        Err(format!("the coordinator has {flags}, and the policy sets {keys}, too: leave one of the two out"))
    }
}

/// The core, its clock, and the outboxes of its peers.
pub struct Driver {
    started: Instant,
    /// The core's time at the start. It continues the time of earlier coordinators with the same state file.
    began: Millis,
    flags: QuotaFlags,
    counts_devices: bool,
    lost_after: Duration,
    state: ShortLock<ClusterAndPeers>,
    /// The version of the view, and the stamp of jobs and devices.
    uses: watch::Sender<(u64, u64)>,
    stopping: watch::Sender<bool>,
    /// The number of durable decisions; sent again when writing fails.
    durable: watch::Sender<u64>,
}

struct ClusterAndPeers {
    cluster: Cluster,
    agents: HashMap<LinkId, AgentSender>,
    clients: HashMap<ClientId, mpsc::Sender<ToProgram>>,
    connections: u64,
    log_questions: LogQuestions,
    /// Effects that wait for no decision to be durable.
    effects: Vec<Effect>,
    /// Whether gauges of nodes and sessions may have changed.
    changed: bool,
    metrics: Metrics,
    /// Decisions that are not durable yet; `None` without a state file.
    journal: Option<Journal>,
    /// The runtime for delayed messages.
    runtime: Option<Handle>,
}

impl Driver {
    /// Creates a driver of an empty cluster.
    pub fn new(settings: DriverSettings) -> Self {
        Self::of(settings, Cluster::new(settings.limits, unix_ms()), Millis(0), None)
    }

    /// Creates a driver of a cluster whose current time is `began`.
    pub(super) fn of(settings: DriverSettings, cluster: Cluster, began: Millis, journal: Option<Journal>) -> Self {
        Self {
            started: Instant::now(),
            began,
            flags: settings.flags,
            counts_devices: settings.counts_devices,
            lost_after: Duration::from_millis(settings.limits.lost_after_ms),
            state: ShortLock::new(ClusterAndPeers {
                cluster,
                agents: HashMap::new(),
                clients: HashMap::new(),
                connections: 0,
                log_questions: LogQuestions::default(),
                effects: Vec::new(),
                changed: false,
                metrics: Metrics::default(),
                journal,
                runtime: Handle::try_current().ok(),
            }),
            uses: watch::Sender::new((0, 0)),
            stopping: watch::Sender::new(false),
            durable: watch::Sender::new(0),
        }
    }

    pub(super) fn now(&self) -> Millis {
        self.began.plus(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Registers a new connection of an agent.
    pub fn add_agent(&self, outbox: AgentSender) -> LinkId {
        let mut state = self.lock();
        state.connections += 1;
        let link = LinkId(state.connections);
        state.agents.insert(link, outbox);
        link
    }

    /// Whether the core knows the connection.
    pub(super) fn has_agent(&self, link: LinkId) -> bool {
        self.lock().agents.contains_key(&link)
    }

    /// Removes an agent's connection, which has ended.
    pub(super) fn remove_agent(&self, link: LinkId) {
        self.lock().agents.remove(&link);
        self.input(Input::LinkLost { link });
    }

    /// Registers a new connection of a program.
    pub fn add_client(&self, outbox: mpsc::Sender<ToProgram>) -> ClientId {
        let mut state = self.lock();
        state.connections += 1;
        let client = ClientId(state.connections);
        state.clients.insert(client, outbox);
        client
    }

    /// Removes a program's connection, which has ended. If `is_lost`, its process may still be alive.
    pub fn remove_client(&self, client: ClientId, is_lost: bool) {
        self.lock().clients.remove(&client);
        self.input(match is_lost {
            true => Input::ClientLost { client },
            false => Input::ClientGone { client },
        });
    }

    /// Passes an input to the core and carries out its effects.
    pub fn input(&self, input: Input) {
        let now = self.now();
        let mut state = self.lock();
        state.cluster.set_wall_clock(now, unix_ms());
        state.step(now, input);
        self.finish(state, now);
    }

    /// Passes the input that `decide` derives from the core's state, under one lock.
    ///
    /// # Errors
    /// Returns the error of `decide`.
    pub(super) fn decide<E>(&self, decide: impl FnOnce(&Cluster) -> Result<Input, E>) -> Result<(), E> {
        let now = self.now();
        let mut state = self.lock();
        state.cluster.set_wall_clock(now, unix_ms());
        let input = decide(&state.cluster)?;
        state.step(now, input);
        self.finish(state, now);
        Ok(())
    }

    /// Carries out the effects of decisions that have become durable.
    pub(super) fn carry_out_durable(&self) {
        let now = self.now();
        loop {
            let mut state = self.lock();
            let Some(effects) = state.journal.as_mut().and_then(Journal::next_durable) else { break };
            let stuck = state.carry_out(effects);
            state.lose(now, stuck);
            self.finish(state, now);
        }
        self.state_changed();
    }

    /// Carries out the effects that need not wait, and updates gauges and watchers.
    fn finish(&self, mut state: ShortGuard<'_, ClusterAndPeers>, now: Millis) {
        loop {
            let effects = std::mem::take(&mut state.effects);
            if effects.is_empty() {
                break;
            }
            let stuck = state.carry_out(effects);
            state.lose(now, stuck);
        }
        let changed = std::mem::take(&mut state.changed);
        let uses = (state.cluster.version(), state.cluster.stamp());
        let ClusterAndPeers { metrics, cluster, .. } = &mut *state;
        metrics.jobs(cluster);
        if changed {
            metrics.gauges(cluster);
        }
        drop(state);
        self.uses.send_if_modified(|known| std::mem::replace(known, uses) != uses);
    }

    /// Calls `look` with the journal; returns the default without one.
    pub(super) fn with_journal<T: Default>(&self, look: impl FnOnce(&mut Journal) -> T) -> T {
        self.lock().journal.as_mut().map(look).unwrap_or_default()
    }

    /// Announces the number of durable decisions to the tasks that wait for it.
    pub(super) fn state_changed(&self) {
        let durable = self.with_journal(|journal| journal.durable);
        self.durable.send_replace(durable);
    }

    /// Returns why the state file can't be written now, if it can't.
    pub(super) fn state_failure(&self) -> Option<String> {
        self.with_journal(|journal| journal.failure.clone())
    }

    /// Waits until all decisions so far are durable.
    ///
    /// # Errors
    /// Returns `unavailable` if decisions can't be made durable now.
    pub(super) async fn durable(&self) -> Result<(), Status> {
        let mut durable = self.durable.subscribe();
        let wanted = self.with_journal(|journal| journal.taken);
        loop {
            let reached = *durable.borrow_and_update();
            if reached >= wanted || self.with_journal(|journal| journal.durable) >= wanted {
                return Ok(());
            }
            if let Some(why) = self.state_failure() {
                return Err(Status::unavailable(format!("{why}; the change takes effect once that is done")));
            }
            if durable.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Calls `look` with the cluster, under the lock.
    pub(super) fn with_cluster<T>(&self, look: impl FnOnce(&Cluster) -> T) -> T {
        look(&self.lock().cluster)
    }

    /// Returns the present jobs and devices for a query. See [`Cluster::snapshot`].
    pub(super) fn snapshot(&self, has_copy: bool) -> Snapshot {
        let now = self.now();
        self.lock().cluster.snapshot(now, has_copy)
    }

    /// Returns the usage until now.
    pub(super) fn usage(&self) -> UsageView {
        let now = self.now();
        self.lock().cluster.usage(now)
    }

    /// Returns the device time that a job holds and its use of devices until now.
    pub(super) fn job_use(&self, job: JobId) -> Option<(Usage, JobUse)> {
        let now = self.now();
        self.lock().cluster.job_use(now, job)
    }

    /// Returns the flags that a policy may set as well.
    pub(super) fn flags(&self) -> QuotaFlags {
        self.flags
    }

    /// Whether devices are counted for metrics.
    pub(super) fn counts_devices(&self) -> bool {
        self.counts_devices
    }

    /// Returns the time for which an agent may be silent.
    pub(super) fn lost_after(&self) -> Duration {
        self.lost_after
    }

    /// Puts the policy of the coordinator's start into effect.
    ///
    /// # Errors
    /// Returns an error that names the flags which the policy also sets.
    pub fn begin_with(&self, policy: SitePolicy) -> Result<(), String> {
        self.flags.check(&policy)?;
        self.input(Input::StartPolicy { policy: Box::new(policy), by: "the coordinator's --policy".to_owned() });
        Ok(())
    }

    /// Returns a receiver that is notified of changes of the view, of jobs and of their devices.
    pub(super) fn watch_uses(&self) -> watch::Receiver<(u64, u64)> {
        self.uses.subscribe()
    }

    /// Orders all agents to stop.
    pub(super) fn stop_agents(&self) {
        for outbox in self.lock().agents.values() {
            let _ = outbox.try_send(Ok(outbound::stop()));
        }
    }

    /// Lets questions for logs be added, answered or removed.
    pub(super) fn with_log_questions<T>(&self, change: impl FnOnce(&mut LogQuestions) -> T) -> T {
        change(&mut self.lock().log_questions)
    }

    /// Returns the connections and names of the nodes that may have a log of a session: those with its devices, or all if it is unknown here or has ended.
    pub(super) fn agents_of(&self, session: SessionId) -> Vec<(LinkId, String)> {
        let state = self.lock();
        let known = state.cluster.session(session).map(|session| &session.nodes);
        let nodes = state.agents.keys().filter_map(|link| Some((*link, state.cluster.node_of(*link)?)));
        let may_have = nodes.filter(|(_, node)| known.is_none_or(|nodes| nodes.contains_key(&node.id)));
        may_have.map(|(link, node)| (link, node.name.clone())).collect()
    }

    /// Asks an agent for a session's log. Returns whether there was room for that.
    pub(super) fn ask_for_log(&self, link: LinkId, question: u64, session: SessionId) -> bool {
        let state = self.lock();
        let message = outbound::send_session_log(question, session);
        state.agents.get(&link).is_some_and(|outbox| outbox.try_send(Ok(message)).is_ok())
    }

    /// Agents that are connected.
    pub(super) fn agent_count(&self) -> usize {
        self.lock().agents.len()
    }

    /// Makes [`Driver::stopped`] return.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub(super) async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    /// Sends ticks to the core, by which it declares nodes lost. Never returns.
    pub(super) async fn keep_time(&self) -> ! {
        loop {
            let due = self.lock().cluster.next_deadline();
            let wait = due
                .map_or(TICK_MAX, |due| Duration::from_millis(due.since(self.now())))
                .clamp(Duration::from_millis(1), TICK_MAX);
            let before = Instant::now();
            tokio::time::sleep(wait).await;
            if before.elapsed() <= wait + TICK_LATE_MAX {
                self.input(Input::Tick);
            }
        }
    }

    fn lock(&self) -> ShortGuard<'_, ClusterAndPeers> {
        // Only the core's own code can panic under this lock. Its state is then still the best that there is.
        self.state.lock()
    }
}

/// The wall clock, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl ClusterAndPeers {
    fn step(&mut self, now: Millis, input: Input) {
        Metrics::input(&input);
        let is_report = matches!(input, Input::ProgramUsed { .. } | Input::AgentUsed { .. });
        let begun = Instant::now();
        let mut effects = Vec::new();
        self.cluster.handle(now, input, &mut effects);
        Metrics::decided(begun.elapsed());
        if is_report {
            Metrics::device_use(self.cluster.done_on_devices());
        }
        self.effects.extend(match &mut self.journal {
            Some(journal) => journal.take(self.cluster.take_step(), effects),
            None => effects,
        });
    }

    /// Reports connections with a full outbox to the core as lost.
    fn lose(&mut self, now: Millis, stuck: Vec<LinkId>) {
        for link in stuck {
            self.step(now, Input::LinkLost { link });
        }
    }

    /// Carries effects out. Returns the connections of agents whose outbox is full.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Vec<LinkId> {
        let mut stuck = Vec::new();
        let ends = effects.iter().any(|effect| matches!(effect, Effect::ToClient(_, ClientPush::Ended(_))));
        for effect in effects {
            Metrics::effect(&effect);
            match effect {
                Effect::ToAgent(
                    link,
                    order @ (AgentOrder::SessionClosed(..) | AgentOrder::ClaimClosed(..) | AgentOrder::ReleaseJob(_)),
                ) if ends => {
                    self.send_later(link, order);
                }
                Effect::ToAgent(link, order) => {
                    let node = self.cluster.node_of(link).map_or_else(String::new, |node| node.name.clone());
                    match self.send_to_agent(link, order) {
                        SendOutcome::Queued => {}
                        // The end of the connection is an input of its own, with the reason.
                        SendOutcome::Gone => {}
                        SendOutcome::Full => {
                            self.agents.remove(&link);
                            tracing::warn!(
                                "the agent of node {node:?} does not keep up: {AGENT_OUTBOX_MAX} messages to it wait; it has to register again"
                            );
                            stuck.push(link);
                        }
                    }
                }
                Effect::RefuseAgent(link, refusal) => {
                    tracing::warn!("an agent was refused: {refusal}");
                    if let Some(outbox) = self.agents.remove(&link) {
                        let _ = outbox.try_send(Err(outbound::refusal(&refusal)));
                    }
                }
                Effect::DropLink(link) => {
                    self.agents.remove(&link);
                }
                Effect::ToClient(client, push) => self.send_to_client(client, push),
                Effect::CloseClient(client) => {
                    self.clients.remove(&client);
                }
                Effect::MeasurePath(order) => self.measure(order),
                Effect::Changed => self.changed = true,
            }
        }
        stuck
    }

    /// Orders the measurement of a path. Without an order the core lets the measurement time out.
    fn measure(&self, order: PathOrder) {
        let PathOrder { measurement, from, to, to_node, address } = order;
        let Ok(key) = new_session_key() else { return };
        if self.send_to_agent(to, AgentOrder::ExpectMeasurement { measurement, key }) == SendOutcome::Queued {
            self.send_to_agent(from, AgentOrder::MeasurePath { measurement, to: to_node, address, key });
        }
    }

    fn send_to_agent(&self, link: LinkId, order: AgentOrder) -> SendOutcome {
        let message = outbound::to_agent(order, &self.cluster);
        let Some(outbox) = self.agents.get(&link) else { return SendOutcome::Gone };
        match outbox.try_send(Ok(message)) {
            Ok(()) => SendOutcome::Queued,
            Err(mpsc::error::TrySendError::Full(_)) => SendOutcome::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => SendOutcome::Gone,
        }
    }

    /// Sends an order after a delay. An order that is lost does no harm: an agent that reconnects names its sessions.
    fn send_later(&self, link: LinkId, order: AgentOrder) {
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok());
        let (Some(outbox), Some(runtime)) = (self.agents.get(&link).cloned(), runtime) else {
            self.send_to_agent(link, order);
            return;
        };
        let message = outbound::to_agent(order, &self.cluster);
        runtime.spawn(async move {
            tokio::time::sleep(REPORTED_BEFORE).await;
            let _ = outbox.try_send(Ok(message));
        });
    }

    fn send_to_client(&self, client: ClientId, push: ClientPush) {
        let Some(outbox) = self.clients.get(&client) else { return };
        let message = match push {
            ClientPush::Granted(session) => {
                let Some(draft) = self.cluster.lease_draft(session) else { return };
                let warning = draft.warning();
                if outbox.try_send(ToProgram::Granted(draft)).is_err() {
                    return;
                }
                match warning {
                    Some(warning) => Message::Warning(warning),
                    None => return,
                }
            }
            ClientPush::Queued(job) => Message::Queued(job),
            ClientPush::Held(job) => Message::Held(job),
            ClientPush::Attached => Message::Attached,
            ClientPush::Refused(error) => Message::Refused(error),
            ClientPush::NodeLost(node, name) => Message::NodeLost { node, name },
            ClientPush::NodeLeft(node, name) => Message::NodeLeft { node, name },
            ClientPush::ExecutorEnded(node, why) => Message::ExecutorEnded { node, why },
            ClientPush::UseAnswered(device, error) => Message::UseAnswered { device, error },
            ClientPush::Warning(text) => Message::Warning(text),
            ClientPush::Ended(text) => Message::Ended(text),
        };
        // A program whose connection has just ended needs no message.
        if let Err(mpsc::error::TrySendError::Full(_)) = outbox.try_send(ToProgram::Message(message)) {
            tracing::warn!("the program of {client:?} does not read its messages; one was dropped");
        }
    }
}

#[cfg(test)]
mod tests;

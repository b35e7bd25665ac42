//! One connection to the coordinator.

use super::epoch::CoordinatorEpoch;
use crate::measure::Measures;
use crate::metrics::Registered;
use crate::node::{AgentEnding, AgentReport, DRIVERS_MAX, Disconnect, EXECUTORS_MAX, GRANTS_MAX};
use crate::session_logs::SessionLog;
use crate::site_scripts::SiteScripts;
use crate::supervise::Supervisor;
use accord_fabric::new_session_key;
use accord_fabric::route::{self, TransportChoice};
use accord_fabric::transport::mpi::MpiFabric;
use accord_proto::bounds::{AGENT_MESSAGE_MAX, NODE_GRANTS_MAX, NODE_SESSIONS_MAX};
use accord_proto::channel::Coordinator;
use accord_proto::convert::{check_version, labels};
use accord_proto::{VERSIONS, v1};
use accord_types::texts::{WORDS_MAX, cut};
use accord_types::threads;
use accord_types::{
    DeviceFault, DeviceInfo, DeviceLoad, DeviceUse, DeviceVerdict, GpuAware, JobGrant, Machine, NodeFigures, NodeId,
    PathTimes, SessionGrant, SessionId, SessionKey, SiteScript,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use v1::registry_client::RegistryClient;
use v1::{agent_message, coordinator_message};

/// The time limit of connecting, and then of the answer to the registration.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Silence after which the connection is probed, and the time limit of the answer.
const PROBE: Duration = Duration::from_secs(1);
/// Most queued messages to the coordinator. More mean that it is unresponsive.
const OUTBOX_MAX: usize = 256;
/// One message names all sessions and grants.
const _: () = assert!(EXECUTORS_MAX + DRIVERS_MAX <= NODE_SESSIONS_MAX && GRANTS_MAX <= NODE_GRANTS_MAX);
/// The time limit of the goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// The agent's identity at the coordinator, and the state that outlives a connection.
pub(crate) struct Identity {
    /// The coordinator to reach.
    pub(crate) coordinator: Coordinator,
    pub(crate) node_name: String,
    /// Higher for every start of this agent.
    pub(crate) incarnation: u64,
    /// `host:port` for programs and executors.
    pub(crate) address: String,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) machine: Machine,
    /// The MPI world that this agent is a rank of.
    pub(crate) world: WorldIdentity,
    /// Whether unencrypted lanes from other machines are accepted.
    pub(crate) plain_tcp: bool,
    /// The measurements, and the means to make them.
    pub(crate) measures: Arc<Measures>,
    /// The site's prolog and epilog, if it has any.
    pub(crate) scripts: Option<Arc<SiteScripts>>,
    /// The state that outlives a connection.
    pub(crate) standing: Standing,
}

/// The MPI world of an agent.
#[derive(Default)]
pub(crate) struct WorldIdentity {
    /// The world's name; empty outside of worlds.
    pub(crate) name: String,
    /// The world's fabric.
    pub(crate) mpi: Option<Arc<MpiFabric>>,
    /// Whether the world's MPI is GPU-aware; `None` outside of worlds and without GPUs.
    pub(crate) gpu_aware: Option<GpuAware>,
}

/// An agent's state at its coordinators.
#[derive(Default)]
pub(crate) struct Standing {
    /// Registration state for monitoring.
    pub(crate) registered: Registered,
    /// Whether the coordinator drains the node: it gets no new sessions. The next coordinator is informed.
    pub(crate) draining: AtomicBool,
    /// The highest epoch of a coordinator that has accepted this agent.
    pub(crate) coordinator_epoch: CoordinatorEpoch,
}

/// An open stream of messages to and from the coordinator.
pub(super) struct Attendance {
    outbox: mpsc::Sender<v1::AgentMessage>,
    inbound: Streaming<v1::CoordinatorMessage>,
}

impl Attendance {
    /// Opens the stream with a first message.
    pub(super) async fn begin(channel: Channel, first: agent_message::Body) -> Result<Self, Status> {
        let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
        let first = v1::AgentMessage { body: Some(first) };
        outbox.try_send(first).map_err(|_| Status::internal("an empty outbox is full"))?;
        let mut client = RegistryClient::new(channel).max_decoding_message_size(AGENT_MESSAGE_MAX);
        let inbound = client.attend(ReceiverStream::new(messages)).await?.into_inner();
        Ok(Self { outbox, inbound })
    }

    /// Enqueues a message. Returns whether there was room for it.
    pub(super) fn send(&self, body: agent_message::Body) -> bool {
        self.outbox.try_send(v1::AgentMessage { body: Some(body) }).is_ok()
    }

    /// Returns the coordinator's next message. Cancel safe.
    pub(super) async fn message(&mut self) -> Result<v1::CoordinatorMessage, Disconnect> {
        let closed = || Disconnect::Unreachable("it closed the connection".to_owned());
        self.inbound.message().await.map_err(disconnect)?.ok_or_else(closed)
    }

    /// Sends the goodbye, and returns once the coordinator has received it or the time limit passes.
    pub(super) async fn say_goodbye(mut self) {
        let body = Some(agent_message::Body::Goodbye(v1::Goodbye {}));
        let received = async {
            if self.outbox.send(v1::AgentMessage { body }).await.is_ok() {
                drop(self.outbox);
                // The coordinator answers by closing the stream.
                while let Ok(Some(_)) = self.inbound.message().await {}
            }
        };
        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, received).await;
    }
}

/// Connects and registers. Returns the open connection.
pub(super) async fn register(
    identity: &Identity,
    supervisor: &Supervisor,
    registration: v1::Register,
) -> Result<Attendance, Disconnect> {
    let (connection, registered) = attend(identity, registration).await.map_err(disconnect)?;
    identity.standing.coordinator_epoch.take_over(registered.epoch).map_err(Disconnect::Refused)?;
    identity.report(&registered);
    let endpoint = route::Endpoint::new(NodeId(registered.node), registered.address);
    let heartbeat = Duration::from_millis(registered.heartbeat_ms.into());
    supervisor.apply(|node, now, _| node.registered(now, endpoint, heartbeat));
    Ok(connection)
}

/// Makes a connection detect by probes that the peer is gone.
pub(super) fn probed(endpoint: Endpoint) -> Endpoint {
    endpoint.http2_keep_alive_interval(PROBE).keep_alive_timeout(PROBE).keep_alive_while_idle(true)
}

/// Registers at the coordinator that leads the cluster. The others are unavailable, and one that has led is refused by its epoch.
async fn attend(identity: &Identity, registration: v1::Register) -> Result<(Attendance, v1::Registered), Status> {
    let mut refusal = Status::invalid_argument("there is no coordinator's address");
    for coordinator in identity.coordinator.each() {
        match attend_one(&coordinator, registration.clone()).await {
            Err(status) if matches!(status.code(), Code::Unavailable | Code::FailedPrecondition) => refusal = status,
            other => return other,
        }
    }
    Err(refusal)
}

async fn attend_one(
    coordinator: &Coordinator,
    registration: v1::Register,
) -> Result<(Attendance, v1::Registered), Status> {
    let channel = coordinator.connect(probed).await?;
    let answer = async {
        let mut connection = Attendance::begin(channel, agent_message::Body::Register(registration)).await?;
        let first = connection.inbound.message().await?;
        Ok::<_, Status>((connection, first))
    };
    let (connection, first) = tokio::time::timeout(CONNECT_TIMEOUT, answer)
        .await
        .map_err(|_| Status::unavailable("it did not answer the registration in time"))??;
    let Some(coordinator_message::Body::Registered(registered)) = first.and_then(|first| first.body) else {
        return Err(Status::unavailable("it did not answer the registration"));
    };
    check_version(registered.version)?;
    Ok((connection, registered))
}

/// Answers a query of the coordinator, or applies its message to the node's rules.
pub(super) fn answer(
    identity: &Identity,
    supervisor: &Arc<Supervisor>,
    message: v1::CoordinatorMessage,
) -> Option<agent_message::Body> {
    let Some(coordinator_message::Body::SendSessionLog(v1::SendSessionLog { question, session })) = message.body else {
        obey(identity, supervisor, message);
        return None;
    };
    let log = supervisor.logs().read(SessionId(session));
    Some(agent_message::Body::SessionLog(match log {
        Some(SessionLog { user, lines, dropped }) => v1::SessionLog { question, user, lines, dropped },
        None => v1::SessionLog { question, ..v1::SessionLog::default() },
    }))
}

/// Tells the rules what the coordinator says.
fn obey(identity: &Identity, supervisor: &Arc<Supervisor>, message: v1::CoordinatorMessage) {
    use coordinator_message::Body;
    match message.body {
        Some(Body::SessionOpened(v1::SessionOpened { grant: Some(grant) })) => match grant.try_into() {
            Ok(grant) => supervisor.apply(|node, now, _| node.opened(now, grant)),
            Err(error) => tracing::warn!("the coordinator announces a session that can't be served: {error}"),
        },
        Some(Body::SessionClosed(v1::SessionClosed { session, reason, key })) => {
            let session = SessionId(session);
            if !reason.is_empty() {
                supervisor.logs().note(session, &format!("the coordinator ends the session: {reason}"));
            }
            match SessionKey::from_bytes(&key) {
                Some(key) => supervisor.apply(|node, now, ends| node.claim_closed(now, (session, key), &reason, ends)),
                None if key.is_empty() => supervisor.apply(|node, now, ends| node.closed(now, session, &reason, ends)),
                None => tracing::warn!("the coordinator closes a session by a key that is none"),
            }
        }
        Some(Body::JobStarted(grant)) => match grant.try_into() {
            Ok(grant) => supervisor.apply(|node, now, _| node.job_started(now, grant)),
            Err(error) => tracing::warn!("the coordinator announces a job that can't be kept: {error}"),
        },
        Some(Body::ReleaseJob(release)) => match SessionKey::from_bytes(&release.job) {
            Some(job) => supervisor.apply(|node, _, ends| node.release(job, ends)),
            None => tracing::warn!("the coordinator releases a job without a key"),
        },
        Some(Body::SuspendJob(v1::SuspendJob { job, suspend })) => match SessionKey::from_bytes(&job) {
            Some(job) => supervisor.apply(|node, _, _| node.order_suspension(job, suspend)),
            None => tracing::warn!("the coordinator suspends a job without a key"),
        },
        Some(Body::NodeLost(lost)) => {
            tracing::info!("node {} is lost", lost.node_name);
            let is_rank = |world: &Arc<MpiFabric>| world.rank_of(NodeId(lost.node), Duration::ZERO).is_some();
            let is_of_world = identity.world.mpi.as_ref().is_some_and(is_rank);
            supervisor.apply(|node, _, _| node.node_lost(&lost.node_name, is_of_world));
        }
        Some(Body::Drain(drain)) => {
            tracing::info!("draining: {}", drain.draining);
            if supervisor.apply(|node, _, _| node.drained(drain.draining)) {
                identity.standing.draining.store(drain.draining, Ordering::Relaxed);
            }
        }
        Some(Body::TestDevice(v1::TestDevice { ordinal, number })) => {
            supervisor.apply(|node, _, _| node.test_soon(ordinal, number));
        }
        Some(Body::MeasureNode(_)) => supervisor.apply(|node, _, _| node.measure_soon()),
        Some(Body::ExpectMeasurement(v1::ExpectMeasurement { measurement, key })) => match SessionKey::from_bytes(&key)
        {
            Some(key) => supervisor.apply(|node, now, _| node.expect(now, measurement, key)),
            None => tracing::warn!("the coordinator sends no key for a measurement"),
        },
        Some(Body::MeasurePath(order)) => identity.measure_path(supervisor, order),
        Some(Body::Stop(_)) => supervisor.apply(|node, _, _| node.leave(AgentEnding::StoppedByCoordinator)),
        // A rank that joins has a connection for that.
        Some(Body::SendSessionLog(_) | Body::Registered(_) | Body::SessionOpened(_) | Body::RankLost(_)) | None => {}
    }
}

/// Converts a [`AgentReport`] to a message for the coordinator.
pub(super) fn words(word: AgentReport) -> agent_message::Body {
    match word {
        AgentReport::Heartbeat(sessions) => {
            let sessions = sessions.into_iter().map(|session| session.0).collect();
            agent_message::Body::Heartbeat(v1::Heartbeat { sessions })
        }
        AgentReport::Used(uses) => {
            let uses = uses.into_iter().map(|(session, ordinal, used)| {
                let DeviceUse { busy_ms, bytes_in, bytes_out, held, fault } = used;
                let fault = fault.map_or(0, DeviceFault::to_wire);
                v1::DeviceUse { session: session.0, ordinal, busy_ms, bytes_in, bytes_out, held, fault }
            });
            agent_message::Body::UseReport(v1::UseReport { uses: uses.collect() })
        }
        AgentReport::Loads(loads) => {
            let loads = loads.into_iter().map(|(ordinal, load)| {
                let DeviceLoad { busy_percent, memory_used } = load;
                v1::DeviceLoad { ordinal, busy_percent, memory_used }
            });
            agent_message::Body::LoadReport(v1::LoadReport { loads: loads.collect() })
        }
        AgentReport::UseEnded(sessions) => {
            let sessions = sessions.into_iter().map(|session| session.0).collect();
            agent_message::Body::UseEnded(v1::UseEnded { sessions })
        }
        AgentReport::Started(grant) => {
            agent_message::Body::SessionStarted(v1::SessionStarted { grant: Some(grant.into()) })
        }
        AgentReport::Leaving => agent_message::Body::Leaving(v1::Leaving {}),
        AgentReport::JobReleased(job) => agent_message::Body::JobReleased(v1::JobReleased { job: job.0.to_vec() }),
        AgentReport::JobSuspended(job, suspend, outcome) => {
            let why = outcome.err().map_or_else(String::new, |why| cut(&why, WORDS_MAX).to_owned());
            agent_message::Body::JobSuspended(v1::JobSuspended { job: job.0.to_vec(), suspend, why })
        }
        AgentReport::ScriptFailed(job, script, why) => {
            let script = match script {
                SiteScript::Prolog => v1::SiteScript::Prolog,
                SiteScript::Epilog => v1::SiteScript::Epilog,
            };
            let (job, script) = (job.0.to_vec(), script.into());
            agent_message::Body::ScriptFailed(v1::ScriptFailed { job, why, script })
        }
        AgentReport::Tested(ordinal, number, verdict) => {
            let (verdict, why) = match verdict {
                DeviceVerdict::Works => (v1::DeviceVerdict::Works, String::new()),
                DeviceVerdict::Faulty(why) => (v1::DeviceVerdict::Faulty, why),
                DeviceVerdict::Unknown(why) => (v1::DeviceVerdict::Unknown, why),
            };
            let why = cut(&why, WORDS_MAX).to_owned();
            agent_message::Body::DeviceTested(v1::DeviceTested { ordinal, verdict: verdict.into(), why, number })
        }
        AgentReport::Measured(figures) => agent_message::Body::NodeFigures(figures.into()),
        AgentReport::PathMeasured { measurement, path } => {
            let (times, transport, why) = match path {
                Ok((times, transport)) => (Some(times.into()), transport, String::new()),
                Err(why) => (None, String::new(), cut(&why, WORDS_MAX).to_owned()),
            };
            agent_message::Body::PathMeasured(v1::PathMeasured { measurement, times, transport, why })
        }
        AgentReport::Ended(session, reason) => {
            let reason = cut(&reason, WORDS_MAX).to_owned();
            agent_message::Body::SessionEnded(v1::SessionEnded { session: session.0, reason })
        }
    }
}

/// Measures a lane to this agent itself, as an executor has to another one on this machine. Ranks of an MPI world have
/// no such lanes.
fn own_lane(measures: &Measures, supervisor: &Supervisor) -> Option<PathTimes> {
    /// A number that the coordinator never assigns.
    const MEASUREMENT: u64 = u64::MAX;
    if matches!(measures.wanted, TransportChoice::Mpi(_)) {
        return None;
    }
    let (own, key) = (supervisor.inspect(|node, _| node.endpoint().cloned())?, new_session_key().ok()?);
    supervisor.apply(|node, now, _| node.expect(now, MEASUREMENT, key));
    let (to, address, key) = (own.node.0, own.as_str().to_owned(), key.0.to_vec());
    let path = measures.path(v1::MeasurePath { measurement: MEASUREMENT, to, address, key });
    path.inspect_err(|error| tracing::info!("a lane of this machine could not be measured: {error}"))
        .ok()
        .map(|(times, _)| times)
}

/// Runs `work` on a thread. Without one the work is skipped; the coordinator's wait has a time limit.
fn in_background(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = threads::spawn("accord-measure", work) {
        tracing::warn!("cannot start a thread to measure: {error}");
    }
}

/// Converts a refusal to its meaning for the agent.
fn disconnect(status: Status) -> Disconnect {
    let why = status.message().to_owned();
    match status.code() {
        Code::AlreadyExists => Disconnect::Replaced(why),
        Code::Unauthenticated | Code::PermissionDenied | Code::FailedPrecondition | Code::InvalidArgument => {
            Disconnect::Refused(why)
        }
        _ => Disconnect::Unreachable(why),
    }
}

impl Identity {
    /// Returns the agent's registration.
    pub(super) fn registration(
        &self,
        previous: Option<NodeId>,
        sessions: Vec<SessionGrant>,
        granted: &[SessionId],
        jobs: Vec<JobGrant>,
    ) -> v1::Register {
        v1::Register {
            version: VERSIONS.own(),
            node_name: self.node_name.clone(),
            incarnation: self.incarnation,
            address: self.address.clone(),
            devices: self.devices.iter().cloned().map(Into::into).collect(),
            hardware: Some(self.machine.hardware.clone().into()),
            labels: labels(&self.machine.labels),
            kernel_limits: Some(self.machine.kernel_limits.clone().into()),
            previous_node: previous.map(|node| node.0),
            sessions: sessions.into_iter().map(Into::into).collect(),
            world: self.world.name.clone(),
            draining: self.standing.draining.load(Ordering::Relaxed),
            jobs: jobs.into_iter().map(Into::into).collect(),
            coordinator_epoch: self.standing.coordinator_epoch.known(),
            granted: granted.iter().map(|session| session.0).collect(),
        }
    }

    /// Measures the node in the background.
    pub(super) fn measure(&self, supervisor: &Arc<Supervisor>) {
        let (measures, supervisor, gpu_aware) =
            (self.measures.clone(), supervisor.clone(), self.world.gpu_aware.clone());
        in_background(move || {
            let lane_here = own_lane(&measures, &supervisor);
            let figures = NodeFigures { lane_here, gpu_aware, ..measures.within_node() };
            supervisor.apply(|node, _, _| node.measured(figures));
        });
    }

    /// Tests a device in the background.
    pub(super) fn test(&self, supervisor: &Arc<Supervisor>, ordinal: u32, number: u64) {
        let (measures, of_thread) = (self.measures.clone(), supervisor.clone());
        let test = move || {
            let verdict = measures.test(ordinal);
            of_thread.apply(|node, _, _| node.tested(ordinal, number, verdict));
        };
        if let Err(error) = threads::spawn("accord-test", test) {
            let why = DeviceVerdict::Unknown(format!("cannot start a thread: {error}"));
            supervisor.apply(|node, _, _| node.tested(ordinal, number, why));
        }
    }

    /// Runs the site's script for a job in the background.
    pub(super) fn run_script(&self, supervisor: &Arc<Supervisor>, script: SiteScript, job: JobGrant) {
        let (scripts, of_thread, key) = (self.scripts.clone(), supervisor.clone(), job.token.key);
        let run = move || {
            let outcome = scripts.map_or(Ok(()), |scripts| scripts.run(script, &job));
            of_thread.apply(|node, _, _| node.script_ended(script, key, outcome));
        };
        if let Err(error) = threads::spawn("accord-script", run) {
            let why = format!("cannot start a thread: {error}");
            supervisor.apply(|node, _, _| node.script_ended(script, key, Err(why)));
        }
    }

    /// Suspends a job in the background, or resumes it.
    pub(super) fn suspend(supervisor: &Arc<Supervisor>, job: SessionKey, suspend: bool) {
        let of_thread = supervisor.clone();
        let work = move || {
            let outcome = of_thread.suspend_job(job, suspend);
            of_thread.apply(|node, now, _| node.suspension_ended(now, job, outcome));
        };
        if let Err(error) = threads::spawn("accord-suspend", work) {
            let why = format!("cannot start a thread: {error}");
            supervisor.apply(|node, now, _| node.suspension_ended(now, job, Err(why)));
        }
    }

    /// Measures a path in the background.
    fn measure_path(&self, supervisor: &Arc<Supervisor>, order: v1::MeasurePath) {
        let measurement = order.measurement;
        if !supervisor.apply(|node, _, _| node.begin_path(measurement)) {
            return;
        }
        let (measures, supervisor) = (self.measures.clone(), supervisor.clone());
        in_background(move || {
            let path = measures.path(order).map_err(|error| error.to_string());
            supervisor.apply(|node, _, _| node.path_measured(measurement, path));
        });
    }

    /// Logs the registration.
    fn report(&self, registered: &v1::Registered) {
        tracing::info!("registered at {} as node {}", self.coordinator.address(), registered.node);
        if registered.plain_tcp && !self.plain_tcp {
            tracing::warn!(
                "the coordinator has lanes leave machines in clear, which this agent does not take: programs elsewhere can't use this \
                 node; start both with --insecure-plain-tcp, or neither"
            );
        }
    }
}

//! One connection to the coordinator, from its beginning to its end.

use crate::metrics::Registered;
use crate::supervise::{Event, Supervisor};
use accord_fabric::transport::mpi::MpiFabric;
use accord_proto::channel::Coordinator;
use accord_proto::convert::check_version;
use accord_proto::{VERSION, v1};
use accord_types::{DeviceInfo, Hardware, NodeId, SessionId};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use v1::registry_client::RegistryClient;
use v1::{agent_message, coordinator_message};

/// How long connecting, and then the answer to the registration, may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Silence after which the connection is probed, and how long the answer may take.
const PROBE: Duration = Duration::from_secs(1);
/// Shortest period of heartbeats that a coordinator may ask for.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// Messages on their way to the coordinator. It has gone if more pile up.
const OUTBOX_MAX: usize = 256;
/// How long the goodbye may take to get out.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(500);

/// Who registers.
pub(crate) struct Identity {
    /// How to reach it.
    pub(crate) coordinator: Coordinator,
    pub(crate) node_name: String,
    /// Higher for every start of this agent.
    pub(crate) incarnation: u64,
    /// `host:port` for programs and executors.
    pub(crate) address: String,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) hardware: Hardware,
    /// The MPI job that this agent is a rank of; empty: none.
    pub(crate) job: String,
    /// The world of that job.
    pub(crate) world: Option<Arc<MpiFabric>>,
    /// It takes lanes of other machines in clear.
    pub(crate) plain_tcp: bool,
    /// Kept up to date for whoever watches the agent.
    pub(crate) registered: Registered,
}

/// Why a connection, or the agent's whole work, ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The agent itself was told to stop.
    Stopped,
    /// The coordinator told it to.
    StoppedByCoordinator,
    /// A node of this agent's MPI job is gone.
    JobLost(String),
    /// Another agent that was started later has this node's name.
    Replaced(String),
    /// No connection, or no more. Try again.
    Disconnected { was_registered: bool, why: String },
    /// Refused: another key, another version, senseless registration.
    Refused { was_registered: bool, why: String },
}

/// Connects, registers, and stays until something ends it.
pub(super) async fn attend(
    identity: &Identity,
    supervisor: &Arc<Supervisor>,
    events: &mut mpsc::Receiver<Event>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Ending {
    let was_registered = supervisor.node().is_some();
    let registered = tokio::select! {
        registered = register(identity, supervisor) => registered,
        () = stop.as_mut() => return Ending::Stopped,
    };
    let (mut connection, heartbeat) = match registered {
        Ok(registered) => registered,
        Err(status) => return ending(status, was_registered),
    };
    let mut beat = tokio::time::interval(heartbeat);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = connection.inbound.message() => match message {
                Ok(Some(message)) => {
                    if let Some(ending) = obey(identity, supervisor, message) {
                        connection.say_goodbye().await;
                        return ending;
                    }
                    continue;
                }
                Ok(None) => return ending(Status::unavailable("it closed the connection"), true),
                Err(status) => return ending(status, true),
            },
            Some(event) = events.recv() => match event {
                Event::Started(grant) => {
                    agent_message::Body::SessionStarted(v1::SessionStarted { grant: Some(grant.into()) })
                }
                Event::Ended(session, reason) => {
                    agent_message::Body::SessionEnded(v1::SessionEnded { session: session.0, reason })
                }
            },
            _ = beat.tick() => {
                let sessions = supervisor.running().into_iter().map(|grant| grant.session.0).collect();
                agent_message::Body::Heartbeat(v1::Heartbeat { sessions })
            }
            () = stop.as_mut() => {
                connection.say_goodbye().await;
                return Ending::Stopped;
            }
        };
        if connection.outbox.try_send(v1::AgentMessage { body: Some(message) }).is_err() {
            return ending(Status::unavailable("it takes no more messages"), true);
        }
    }
}

struct Registration {
    outbox: mpsc::Sender<v1::AgentMessage>,
    inbound: Streaming<v1::CoordinatorMessage>,
}

impl Registration {
    /// Returns when the coordinator has heard it, or after a while.
    async fn say_goodbye(mut self) {
        let body = Some(agent_message::Body::Goodbye(v1::Goodbye {}));
        let heard = async {
            if self.outbox.send(v1::AgentMessage { body }).await.is_ok() {
                drop(self.outbox);
                // The coordinator answers by closing the stream.
                while let Ok(Some(_)) = self.inbound.message().await {}
            }
        };
        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, heard).await;
    }
}

/// Connects and registers; what comes back is open, with the period of heartbeats.
async fn register(identity: &Identity, supervisor: &Supervisor) -> Result<(Registration, Duration), Status> {
    let tune = |endpoint: Endpoint| {
        endpoint.http2_keep_alive_interval(PROBE).keep_alive_timeout(PROBE).keep_alive_while_idle(true)
    };
    let mut client = RegistryClient::new(identity.coordinator.connect(tune).await?);

    let (outbox, messages) = mpsc::channel(OUTBOX_MAX);
    let body = agent_message::Body::Register(identity.registration(supervisor));
    let first = v1::AgentMessage { body: Some(body) };
    outbox.try_send(first).map_err(|_| Status::internal("an empty outbox is full"))?;
    let answer = async {
        let mut inbound = client.attend(ReceiverStream::new(messages)).await?.into_inner();
        let first = inbound.message().await?;
        Ok::<_, Status>((inbound, first))
    };
    let (inbound, first) = tokio::time::timeout(CONNECT_TIMEOUT, answer)
        .await
        .map_err(|_| Status::unavailable("it did not answer the registration in time"))??;
    let Some(coordinator_message::Body::Registered(registered)) = first.and_then(|first| first.body) else {
        return Err(Status::unavailable("it did not answer the registration"));
    };
    check_version(registered.version)?;
    supervisor.registered(NodeId(registered.node), &registered.address);
    identity.registered.set(true);
    tracing::info!("registered at {} as node {}", identity.coordinator.address(), registered.node);
    if registered.plain_tcp && !identity.plain_tcp {
        tracing::warn!(
            "the coordinator has lanes leave machines in clear, which this agent does not take: programs elsewhere can't use this \
             node; start both with --insecure-plain-tcp, or neither"
        );
    }
    let heartbeat = Duration::from_millis(registered.heartbeat_ms.into()).max(HEARTBEAT_MIN);
    Ok((Registration { outbox, inbound }, heartbeat))
}

/// Does what the coordinator says. Some things end the agent.
fn obey(identity: &Identity, supervisor: &Supervisor, message: v1::CoordinatorMessage) -> Option<Ending> {
    use coordinator_message::Body;
    match message.body {
        Some(Body::SessionOpened(v1::SessionOpened { grant: Some(grant) })) => match grant.try_into() {
            Ok(grant) => supervisor.opened(grant),
            Err(error) => tracing::warn!("the coordinator announces a session that can't be served: {error}"),
        },
        Some(Body::SessionClosed(closed)) => supervisor.close(SessionId(closed.session)),
        Some(Body::NodeLost(lost)) => {
            tracing::info!("node {} is lost", lost.node_name);
            let is_rank = |world: &Arc<MpiFabric>| world.rank_of(NodeId(lost.node), Duration::ZERO).is_some();
            if identity.world.as_ref().is_some_and(is_rank) {
                return Some(Ending::JobLost(lost.node_name));
            }
        }
        Some(Body::Drain(drain)) => tracing::info!("draining: {}", drain.draining),
        Some(Body::Stop(_)) => return Some(Ending::StoppedByCoordinator),
        Some(Body::Registered(_) | Body::SessionOpened(_)) | None => {}
    }
    None
}

/// What a refusal means for the agent.
fn ending(status: Status, was_registered: bool) -> Ending {
    let why = status.message().to_owned();
    match status.code() {
        Code::AlreadyExists => Ending::Replaced(why),
        Code::Unauthenticated | Code::PermissionDenied | Code::FailedPrecondition | Code::InvalidArgument => {
            Ending::Refused { was_registered, why }
        }
        _ => Ending::Disconnected { was_registered, why },
    }
}

impl Identity {
    fn registration(&self, supervisor: &Supervisor) -> v1::Register {
        v1::Register {
            version: VERSION,
            node_name: self.node_name.clone(),
            incarnation: self.incarnation,
            address: self.address.clone(),
            devices: self.devices.iter().cloned().map(Into::into).collect(),
            hardware: Some(self.hardware.clone().into()),
            previous_node: supervisor.node().map(|node| node.0),
            sessions: supervisor.running().into_iter().map(Into::into).collect(),
            job: self.job.clone(),
        }
    }
}

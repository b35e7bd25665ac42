//! An agent that joins an MPI job. Its ranks wait in MPI's start for each other, and not every launcher ends the others when one has ended: so each has
//! a connection to the coordinator before it begins, and the coordinator tells the others when one breaks.

use super::connection::{CONNECT_TIMEOUT, probed};
use accord_proto::channel::Coordinator;
use accord_proto::{RANK_LOST, VERSION, v1};
use accord_types::threads;
use std::io::{self, Write as _};
use std::sync::mpsc;
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use v1::registry_client::RegistryClient;
use v1::{agent_message, coordinator_message};

/// The coordinator knows that this agent joins its job. Dropped when all ranks have registered.
pub(crate) struct Joining {
    /// Never sent: its end is the word.
    _all_are_in: oneshot::Sender<()>,
}

impl Joining {
    /// Tells the coordinator, and ends this process once that says that another rank has died. Returns when it is told. None if that can't be
    /// reached: then a rank that dies early is missed when time is up.
    pub(crate) fn begin(coordinator: Coordinator, node_name: String, job: String) -> Option<Self> {
        let join = v1::JoinJob { version: VERSION, node_name, job };
        let (all_are_in, ended) = oneshot::channel();
        let (told, is_told) = mpsc::channel();
        let attend = async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connect(&coordinator, join)).await {
                Ok(Ok((outbox, inbound))) => {
                    // Whoever asked waits for it.
                    let _ = told.send(());
                    listen(outbox, inbound, ended).await;
                }
                Ok(Err(status)) => tracing::warn!("{NOT_TOLD}: {}", status.message()),
                Err(_) => tracing::warn!("{NOT_TOLD}: no answer in time"),
            }
        };
        let work = move || match accord_proto::runtime::one_threaded() {
            Ok(runtime) => runtime.block_on(attend),
            Err(error) => tracing::warn!("{NOT_TOLD}: {error}"),
        };
        if let Err(error) = threads::spawn("accord-join", work) {
            tracing::warn!("{NOT_TOLD}: cannot start a thread: {error}");
            return None;
        }
        is_told.recv().ok().map(|()| Self { _all_are_in: all_are_in })
    }
}

const NOT_TOLD: &str = "the coordinator is not told that this agent joins its job";

async fn connect(
    coordinator: &Coordinator,
    join: v1::JoinJob,
) -> Result<(tokio::sync::mpsc::Sender<v1::AgentMessage>, Streaming<v1::CoordinatorMessage>), Status> {
    /// This message, and the goodbye.
    const OUTBOX_MAX: usize = 2;
    let mut client = RegistryClient::new(coordinator.connect(probed).await?);
    let (outbox, messages) = tokio::sync::mpsc::channel(OUTBOX_MAX);
    let body = Some(agent_message::Body::JoinJob(join));
    outbox.try_send(v1::AgentMessage { body }).map_err(|_| Status::internal("an empty outbox is full"))?;
    let inbound = client.attend(ReceiverStream::new(messages)).await?.into_inner();
    Ok((outbox, inbound))
}

async fn listen(
    outbox: tokio::sync::mpsc::Sender<v1::AgentMessage>,
    mut inbound: Streaming<v1::CoordinatorMessage>,
    ended: oneshot::Receiver<()>,
) {
    let watch = async {
        loop {
            match inbound.message().await {
                Ok(Some(v1::CoordinatorMessage { body: Some(coordinator_message::Body::RankLost(lost)) })) => {
                    give_up(&lost.node_name);
                }
                Ok(Some(_)) => {}
                // It has been stopped, or can't be reached: the job may go on.
                Ok(None) => return "it has closed the connection".to_owned(),
                Err(status) => return status.message().to_owned(),
            }
        }
    };
    tokio::select! {
        why = watch => tracing::info!("the coordinator does not say any more whether a rank dies while the job begins: {why}"),
        _ = ended => {
            let body = Some(agent_message::Body::Goodbye(v1::Goodbye {}));
            if outbox.try_send(v1::AgentMessage { body }).is_ok() {
                drop(outbox);
                // The coordinator answers by closing the stream.
                let _ = tokio::time::timeout(CONNECT_TIMEOUT, async { while let Ok(Some(_)) = inbound.message().await {} }).await;
            }
        }
    }
}

/// MPI's start waits for a rank that does not come, and can't be called off.
fn give_up(node_name: &str) -> ! {
    let why = "and such a job is of all its nodes; its own messages say why";
    let line = format!("accord-node-agent: the agent of node {node_name} {RANK_LOST}, {why}\n");
    // In one piece: the others say it too.
    let _ = io::stderr().write_all(line.as_bytes());
    std::process::exit(1)
}

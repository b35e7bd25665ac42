//! An agent that joins an MPI world. Its ranks wait in MPI's start for each other, and not every launcher ends the others when one has ended: so each has
//! a connection to the coordinator before it begins, and the coordinator tells the others when one breaks.

use super::connection::{Attendance, CONNECT_TIMEOUT, probed};
use crate::node::Disconnect;
use accord_proto::channel::Coordinator;
use accord_proto::{VERSION, v1};
use accord_types::{Rank, threads};
use std::io::{self, Write as _};
use std::sync::mpsc;
use tokio::sync::oneshot;
use tonic::{Code, Status};
use v1::{agent_message, coordinator_message};

/// An agent that the coordinator knows as one that joins its world. Dropped without [`Joining::complete`], it counts as a rank that is lost.
pub(crate) struct Joining {
    complete: oneshot::Sender<()>,
}

impl Joining {
    /// Tells the coordinator, and ends this process once that says that another rank has died. Returns when it is told. None if that can't be
    /// reached: then a rank that dies early is missed when time is up.
    pub(crate) fn begin(coordinator: Coordinator, node_name: String, world: String) -> Option<Self> {
        let join = v1::JoinWorld { version: VERSION, node_name, world, run: run() };
        let (complete, completed) = oneshot::channel();
        let (told, is_told) = mpsc::channel();
        let attend = async move {
            let connect = async {
                let mut attended = Err(Status::invalid_argument("there is no coordinator's address"));
                // Those that do not lead the cluster are unavailable.
                for one in coordinator.each() {
                    attended = match one.connect(probed).await {
                        Ok(channel) => Attendance::begin(channel, agent_message::Body::JoinWorld(join.clone())).await,
                        Err(status) => Err(status),
                    };
                    if attended.as_ref().err().is_none_or(|status| status.code() != Code::Unavailable) {
                        break;
                    }
                }
                attended
            };
            match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
                Ok(Ok(connection)) => {
                    // The caller waits for it.
                    let _ = told.send(());
                    listen(connection, completed).await;
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
        is_told.recv().ok().map(|()| Self { complete })
    }

    /// Tells the coordinator that all ranks have registered.
    pub(crate) fn complete(self) {
        // The receiver is gone where the coordinator can't be reached any more.
        let _ = self.complete.send(());
    }
}

/// Which run of the world this is, as the launcher tells all ranks; 0 if it does not.
fn run() -> u64 {
    Rank::of_environment(|name| std::env::var(name).ok()).map_or(0, |rank| rank.job)
}

const NOT_TOLD: &str = "the coordinator is not told that this agent joins its world";

async fn listen(mut connection: Attendance, completed: oneshot::Receiver<()>) {
    let watch = async {
        loop {
            match connection.message().await {
                Ok(v1::CoordinatorMessage { body: Some(coordinator_message::Body::RankLost(lost)) }) => {
                    give_up(&lost.node_name);
                }
                Ok(_) => {}
                // It has been stopped, or can't be reached: the world may go on.
                Err(Disconnect::Unreachable(why) | Disconnect::Refused(why) | Disconnect::Replaced(why)) => return why,
            }
        }
    };
    tokio::select! {
        why = watch => tracing::info!("the coordinator does not say any more whether a rank dies while the world begins: {why}"),
        // The connection ends without a goodbye if this agent fails before: so the other ranks learn of it.
        completed = completed => if completed.is_ok() {
            connection.say_goodbye().await;
        },
    }
}

/// MPI's start waits for a rank that does not come, and can't be called off.
fn give_up(node_name: &str) -> ! {
    let why = "has ended while the MPI world began, which is of all its nodes; its own messages say why";
    // In one piece: the others say it too.
    let _ = io::stderr().write_all(format!("accord-node-agent: the agent of node {node_name} {why}\n").as_bytes());
    std::process::exit(1)
}

//! Joining an MPI world. Ranks wait for each other when MPI starts, and not every launcher ends the others when one
//! dies. So each first connects to the coordinator, which informs the others when a connection breaks.

use super::connection::{Attendance, CONNECT_TIMEOUT, probed};
use crate::node::Disconnect;
use accord_proto::channel::Coordinator;
use accord_proto::{VERSIONS, v1};
use accord_types::{Rank, printable, threads};
use std::io::{self, Write as _};
use std::sync::mpsc;
use tokio::sync::oneshot;
use tonic::{Code, Status};
use v1::{agent_message, coordinator_message};

/// The connection of a joining rank. Dropped without [`Joining::complete`], the rank counts as lost.
pub(crate) struct Joining {
    complete: oneshot::Sender<()>,
}

impl Joining {
    /// Announces the rank to the coordinator, and returns once it is announced. If the coordinator reports a lost rank,
    /// this process ends. Returns `None` without a coordinator: an early death is then noticed only by a timeout.
    pub(crate) fn begin(coordinator: Coordinator, node_name: String, world: String) -> Option<Self> {
        let join = v1::JoinWorld { version: VERSIONS.own(), node_name, world, run: run() };
        let (complete, completed) = oneshot::channel();
        let (reported, is_reported) = mpsc::channel();
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
                    // The caller waits for this.
                    let _ = reported.send(());
                    listen(connection, completed).await;
                }
                Ok(Err(status)) => tracing::warn!("{NOT_REPORTED}: {}", status.message()),
                Err(_) => tracing::warn!("{NOT_REPORTED}: no answer in time"),
            }
        };
        let work = move || match accord_proto::runtime::one_threaded() {
            Ok(runtime) => runtime.block_on(attend),
            Err(error) => tracing::warn!("{NOT_REPORTED}: {error}"),
        };
        if let Err(error) = threads::spawn("accord-join", work) {
            tracing::warn!("{NOT_REPORTED}: cannot start a thread: {error}");
            return None;
        }
        is_reported.recv().ok().map(|()| Self { complete })
    }

    /// Reports that all ranks have registered.
    pub(crate) fn complete(self) {
        // The receiver is gone if the coordinator is unreachable.
        let _ = self.complete.send(());
    }
}

/// Returns the launcher's identifier of this run, equal in all ranks; 0 if there is none.
fn run() -> u64 {
    Rank::of_environment(|name| std::env::var(name).ok()).map_or(0, |rank| rank.job)
}

const NOT_REPORTED: &str = "the coordinator is not told that this agent joins its world";

async fn listen(mut connection: Attendance, completed: oneshot::Receiver<()>) {
    let watch = async {
        loop {
            match connection.message().await {
                Ok(v1::CoordinatorMessage { body: Some(coordinator_message::Body::RankLost(lost)) }) => {
                    give_up(&lost.node_name);
                }
                Ok(_) => {}
                // The coordinator was stopped or is unreachable: the world goes on.
                Err(Disconnect::Unreachable(why) | Disconnect::Refused(why) | Disconnect::Replaced(why)) => return why,
            }
        }
    };
    tokio::select! {
        why = watch => tracing::info!("the coordinator does not say any more whether a rank dies while the world begins: {why}"),
        // If this agent fails, the connection ends without a goodbye, and so the other ranks learn of it.
        completed = completed => if completed.is_ok() {
            connection.say_goodbye().await;
        },
    }
}

/// Ends the process, because MPI's start waits for the lost rank and can't be cancelled.
fn give_up(node_name: &str) -> ! {
    let why = "has ended while the MPI world began, which is of all its nodes; its own messages say why";
    // In one piece, because the other ranks write the same.
    let node_name = printable(node_name);
    let _ = io::stderr().write_all(format!("accord-node-agent: the agent of node {node_name} {why}\n").as_bytes());
    std::process::exit(1)
}

//! An agent that joins an MPI world, as the world's other ranks see it.

mod support;

use accord_proto::v1::{agent_message, coordinator_message, registry_client::RegistryClient};
use accord_proto::{VERSION, v1};
use accord_trust::Role;
use accord_types::Rank;
use std::time::Duration;
use support::{Cluster, SOON};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const WORLD: &str = "world";
/// The variables of Open MPI's mpirun; the last two identify the run.
const OF_LAUNCHER: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "0"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
    ("PMIX_NAMESPACE", "prterun-h1-77@1"),
    ("OMPI_MCA_ess_base_jobid", "1234"),
];
/// Nothing may be received within this time.
const QUIET: Duration = Duration::from_millis(300);

/// Another joining rank of a run.
struct OtherRank {
    /// Kept open, because its end would count as a loss.
    _outbox: mpsc::Sender<v1::AgentMessage>,
    inbound: Streaming<v1::CoordinatorMessage>,
}

impl OtherRank {
    async fn join(cluster: &Cluster, node: &str, run: u64) -> Self {
        let channel = cluster.reach_as(Role::Agent(node.to_owned())).connect(|endpoint| endpoint).await.unwrap();
        let (outbox, messages) = mpsc::channel(4);
        let join = v1::JoinWorld { version: VERSION, node_name: node.to_owned(), world: WORLD.to_owned(), run };
        let body = Some(agent_message::Body::JoinWorld(join));
        outbox.send(v1::AgentMessage { body }).await.unwrap();
        let inbound = RegistryClient::new(channel).attend(ReceiverStream::new(messages)).await.unwrap().into_inner();
        Self { _outbox: outbox, inbound }
    }

    /// Returns the node whose rank is reported as lost, if one is within `limit`.
    async fn hears_of(&mut self, limit: Duration) -> Option<String> {
        let lost = async {
            loop {
                let message = self.inbound.message().await.unwrap().expect("the coordinator goes on");
                if let Some(coordinator_message::Body::RankLost(lost)) = message.body {
                    return lost.node_name;
                }
            }
        };
        tokio::time::timeout(limit, lost).await.ok()
    }
}

#[test]
fn an_agent_that_ends_while_it_joins_is_told_to_the_ranks_of_its_launchers_run() {
    let lookup =
        |name: &str| OF_LAUNCHER.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let run = Rank::of_environment(lookup).expect("a rank").job;
    assert_ne!(run, 0);
    let cluster = Cluster::new();
    // The agent joins before it finds that there is no MPI.
    let mut command = cluster.command("h1");
    command.args(["--fabric", "mpi", "--world", WORLD, "--mpi", "/nonexistent/libaccord_mpi.so"]).envs(OF_LAUNCHER);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ended, [same, other]) = runtime.block_on(async {
        let mut same = OtherRank::join(&cluster, "h2", run).await;
        let mut other = OtherRank::join(&cluster, "h3", run ^ 1).await;
        let agent = std::thread::spawn(move || command.output().unwrap());
        (agent, [same.hears_of(SOON).await, other.hears_of(QUIET).await])
    });
    let ended = ended.join().unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{printed}");
    assert!(printed.contains("/nonexistent/libaccord_mpi.so"), "{printed}");
    assert_eq!(same.as_deref(), Some("h1"), "{printed}");
    assert_eq!(other, None, "it is of another run");
}

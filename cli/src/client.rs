//! Questions to a coordinator.

use crate::failure::{Failure, Result};
use accord_proto::channel;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::{ClusterView, DescribeRequest, Viewer};
use accord_trust::Trust;
use accord_types::settings;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A coordinator, as this process reaches it. The connection is made at the first question.
pub(crate) struct Coordinator {
    address: String,
    runtime: Runtime,
    client: ClusterClient<Channel>,
}

impl Coordinator {
    /// The coordinator at `address` (`host:port`), to whom this process is known by its certificates.
    pub(crate) fn new(address: &str, trust: Trust) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::system("can't start", error))?;
        let coordinator = channel::Coordinator::new(address, Arc::new(trust), PATIENCE);
        let channel = {
            let _inside = runtime.enter();
            coordinator.connect_lazy()
        };
        let channel =
            channel.map_err(|_| Failure::new(format!("{address:?} is no coordinator's address; give host:port")))?;
        let client = ClusterClient::new(channel);
        Ok(Self { address: address.to_owned(), runtime, client })
    }

    /// The cluster as it is, and with `viewer` how that process would number its devices.
    pub(crate) fn describe(&mut self, viewer: Option<Viewer>) -> Result<ClusterView> {
        self.ask(viewer).map_err(|status| self.explain(&status))
    }

    /// As [`Coordinator::describe`], but nobody listening yet is `None`.
    pub(crate) fn describe_if_up(&mut self) -> Result<Option<ClusterView>> {
        match self.ask(None) {
            Ok(view) => Ok(Some(view)),
            Err(status) if status.code() == Code::Unavailable => Ok(None),
            Err(status) => Err(self.explain(&status)),
        }
    }

    fn ask(&mut self, viewer: Option<Viewer>) -> Result<ClusterView, Status> {
        let request = DescribeRequest { version: accord_proto::VERSION, viewer };
        // The timer has to be made inside the runtime.
        let answer = async { tokio::time::timeout(PATIENCE, self.client.describe(request)).await };
        match self.runtime.block_on(answer) {
            Ok(answer) => {
                answer.map(tonic::Response::into_inner).map_err(|status| channel::reason(&status).unwrap_or(status))
            }
            Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    fn explain(&self, status: &Status) -> Failure {
        let address = &self.address;
        Failure::new(match status.code() {
            Code::Unavailable => format!(
                "no coordinator answers at {address} ({}); start accord-coordinator there, or correct {}",
                innermost(status),
                settings::COORDINATOR.name
            ),
            Code::Unauthenticated | Code::PermissionDenied => {
                format!("the coordinator at {address} refuses: {}", status.message())
            }
            _ => format!("the coordinator at {address} says: {}", status.message()),
        })
    }
}

/// The cause that says most: what the system said.
fn innermost(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

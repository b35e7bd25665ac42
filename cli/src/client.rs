//! Questions to a coordinator.

use crate::failure::{Failure, Result};
use accord_fabric::Key;
use accord_proto::auth::Token;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::v1::{ClusterView, DescribeRequest, Viewer};
use accord_types::settings;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A coordinator, as this process reaches it. The connection is made at the first question.
pub(crate) struct Coordinator {
    address: String,
    runtime: Runtime,
    client: ClusterClient<InterceptedService<Channel, Token>>,
}

impl Coordinator {
    /// The coordinator at `address` (`host:port`) of the cluster with this key.
    pub(crate) fn new(address: &str, key: &Key) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::system("can't start", error))?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| Failure::new(format!("{address:?} is no coordinator's address; give host:port")))?
            .connect_timeout(PATIENCE)
            .tcp_nodelay(true);
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_lazy()
        };
        let client = ClusterClient::with_interceptor(channel, Token::new(key.bytes()));
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
            Ok(answer) => answer.map(tonic::Response::into_inner),
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
            Code::Unauthenticated => format!("the coordinator at {address} refuses: {}", status.message()),
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

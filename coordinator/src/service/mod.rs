//! The core on the network: the same ports for agents and tools (gRPC) and for programs (the session endpoint).

mod admin;
mod caller;
mod describe;
mod driver;
mod entrance;
mod listener;
mod local_listener;
mod outbound;
mod protocol;
mod registry;
mod session_endpoint;
mod witness;

pub use driver::{Driver, DriverSettings};
pub use listener::{Listeners, PROGRAM_LOST_AFTER};
pub use local_listener::listen_here;
pub use witness::Attestation;

use session_endpoint::SessionEndpoint;

use accord_proto::v1::{admin_server::AdminServer, cluster_server::ClusterServer, registry_server::RegistryServer};
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;

/// Silence after which an HTTP/2 connection is probed, and how long the answer may take.
const HTTP2_PROBE: Duration = Duration::from_secs(5);
/// Connections that have been told apart and wait to be taken by gRPC.
const GRPC_WAITING_MAX: usize = 64;

/// Serves until `stop` is done or an administrator stops the coordinator. Connections are
/// dropped then: agents and programs go on without a coordinator.
///
/// # Errors
/// When a port fails.
pub async fn serve(
    listeners: Listeners,
    attestation: Attestation,
    driver: Arc<Driver>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let (grpc, waiting) = tokio::sync::mpsc::channel(GRPC_WAITING_MAX);
    let server = Server::builder()
        .http2_keepalive_interval(Some(HTTP2_PROBE))
        .http2_keepalive_timeout(Some(HTTP2_PROBE))
        .add_service(RegistryServer::new(registry::Registry::new(driver.clone())))
        .add_service(ClusterServer::new(describe::Describer::new(driver.clone())))
        .add_service(AdminServer::new(admin::Administrator::new(driver.clone())))
        .serve_with_incoming(ReceiverStream::new(waiting));
    tokio::select! {
        result = server => result,
        () = listener::accept(listeners, witness::Witnesses::new(attestation), SessionEndpoint::new(driver.clone()), grpc) => Ok(()),
        () = driver.keep_time() => Ok(()),
        () = driver.stopped() => Ok(()),
        () = stop => Ok(()),
    }
}

//! The core on the network: one port for agents and tools (gRPC) and for programs (the session endpoint).

mod admin;
mod describe;
mod driver;
mod outbound;
mod port;
mod registry;
mod session_endpoint;

pub use driver::{Driver, DriverSettings};

use session_endpoint::SessionEndpoint;

use accord_fabric::Key;
use accord_proto::auth::Token;
use accord_proto::v1::{admin_server::AdminServer, cluster_server::ClusterServer, registry_server::RegistryServer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;

/// Silence after which an HTTP/2 connection is probed, and how long the answer may take.
const HTTP2_PROBE: Duration = Duration::from_secs(5);
/// Connections that have been told apart and wait to be taken by gRPC.
const GRPC_WAITING_MAX: usize = 64;

/// Serves until `stop` is done or an administrator stops the coordinator. Connections are
/// dropped then: agents and programs go on without a coordinator. Who proves `key` is `user`.
///
/// # Errors
/// When the port fails.
pub async fn serve(
    listener: TcpListener,
    key: Key,
    user: String,
    driver: Arc<Driver>,
    stop: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let checker = Token::checker(key.bytes());
    let (grpc, waiting) = tokio::sync::mpsc::channel(GRPC_WAITING_MAX);
    let server = Server::builder()
        .http2_keepalive_interval(Some(HTTP2_PROBE))
        .http2_keepalive_timeout(Some(HTTP2_PROBE))
        .add_service(RegistryServer::with_interceptor(registry::Registry::new(driver.clone()), checker.clone()))
        .add_service(ClusterServer::with_interceptor(describe::Describer::new(driver.clone()), checker.clone()))
        .add_service(AdminServer::with_interceptor(admin::Administrator::new(driver.clone()), checker))
        .serve_with_incoming(ReceiverStream::new(waiting));
    tokio::select! {
        result = server => result,
        () = port::accept(listener, SessionEndpoint::new(key, user, driver.clone()), grpc) => Ok(()),
        () = driver.keep_time() => Ok(()),
        () = driver.stopped() => Ok(()),
        () = stop => Ok(()),
    }
}

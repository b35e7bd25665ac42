//! gRPC through TLS: how agents and tools reach the coordinator.

use accord_trust::{Trust, explain};
use accord_types::Error;
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// What gRPC is called in a handshake.
pub const PROTOCOL: &[u8] = b"h2";

/// How the coordinator is reached, and as whom.
#[derive(Clone)]
pub struct Coordinator {
    address: String,
    trust: Arc<Trust>,
    timeout: Duration,
}

impl Coordinator {
    /// The one at `host:port`. A connection and its handshake may take `timeout`.
    pub fn new(address: &str, trust: Arc<Trust>, timeout: Duration) -> Self {
        Self { address: address.to_owned(), trust, timeout }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects, with what `tune` makes of the connection.
    ///
    /// # Errors
    /// `unauthenticated` if one side does not believe the other, `unavailable` if nobody answers, `invalid_argument` if the address is none.
    pub async fn connect(&self, tune: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Status> {
        let this = self.clone();
        let endpoint = tune(self.endpoint()?);
        let connected = endpoint.connect_with_connector(service_fn(move |_: Uri| this.clone().secure()));
        connected.await.map_err(|error| reason(&error).unwrap_or_else(|| Status::unavailable(error.to_string())))
    }

    /// Connects at the first call. Has to be called within a runtime.
    ///
    /// # Errors
    /// `invalid_argument` if the address is none.
    pub fn connect_lazy(&self) -> Result<Channel, Status> {
        let this = self.clone();
        Ok(self.endpoint()?.connect_with_connector_lazy(service_fn(move |_: Uri| this.clone().secure())))
    }

    fn endpoint(&self) -> Result<Endpoint, Status> {
        // The connector makes it secure.
        Endpoint::from_shared(format!("http://{}", self.address))
            .map_err(|error| Status::invalid_argument(format!("{:?} is no host:port: {error}", self.address)))
    }

    async fn secure(self) -> Result<TokioIo<TlsStream<TcpStream>>, Status> {
        let made = tokio::time::timeout(self.timeout, self.handshake());
        made.await.map_err(|_| Status::unavailable("no answer in time"))?.map(TokioIo::new)
    }

    async fn handshake(&self) -> Result<TlsStream<TcpStream>, Status> {
        let unavailable = |error: io::Error| Status::unavailable(error.to_string());
        let stream = TcpStream::connect(&self.address).await.map_err(unavailable)?;
        stream.set_nodelay(true).map_err(unavailable)?;
        // What can't be used now may be the next time: it is tried with what was there before.
        let identity = self.trust.current(|_| ());
        let config = identity.to_coordinator(PROTOCOL).map_err(|error| Status::unauthenticated(words(&error)))?;
        let name = rustls::pki_types::ServerName::try_from("accord.invalid")
            .map_err(|error| Status::internal(error.to_string()))?;
        let refused = |error: io::Error| match explain::in_chain(&error, "the coordinator") {
            Some(error) => Status::unauthenticated(words(&error)),
            None => Status::unavailable(error.to_string()),
        };
        let mut stream = TlsConnector::from(config).connect(name, stream).await.map_err(refused)?;
        // The server speaks first, once it believes this side.
        match stream.fill_buf().await.map_err(refused)? {
            [] => Err(Status::unavailable("it closed the connection")),
            _ => Ok(stream),
        }
    }
}

/// Why there is no connection, in the words of [`Coordinator`]: tonic wraps them. None if it is about something else.
pub fn reason(error: &(dyn StdError + 'static)) -> Option<Status> {
    let (mut next, mut found) = (Some(error), None);
    while let Some(error) = next {
        if let Some(status) = error.downcast_ref::<Status>() {
            found = Some(Status::new(status.code(), status.message()));
        }
        next = error.source();
    }
    found
}

fn words(error: &Error) -> String {
    match error.remedy_text() {
        Some(remedy) => format!("{}; {remedy}", error.cause()),
        None => error.cause().to_owned(),
    }
}

//! The channel of agents and tools to the coordinator: gRPC over TLS, or over a UNIX socket on the same machine.

use crate::Stream;
use crate::threads::on_thread;
use accord_trust::attest::{self, NONCE_LEN, TAKEN};
use accord_trust::{Trust, explain, local};
use accord_types::Error;
use hyper_util::rt::TokioIo;
use std::error::Error as StdError;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// Most concurrent look-ups of coordinators' names in a process.
const LOOKUPS_MAX: usize = 4;
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);
/// Most concurrent requests for credentials.
const QUESTIONS_MAX: usize = 4;
static QUESTIONS: Semaphore = Semaphore::const_new(QUESTIONS_MAX);

/// The ALPN name of gRPC.
pub const PROTOCOL: &[u8] = b"h2";

/// Timeout and number of the first connection attempts. A later attempt has no timeout of its own, because the peer may
/// be far away.
const SOON: Duration = Duration::from_millis(300);
const SOON_TRIES: u32 = 4;

/// A client's view of the coordinator: its address and the client's identity.
#[derive(Clone)]
pub struct Coordinator {
    address: String,
    trust: Arc<Trust>,
    timeout: Duration,
    /// Called with the error of new certificates that can't be used.
    notify: fn(&Error),
}

impl Coordinator {
    /// The one at `host:port` or `unix:/path`, or several as [`Coordinator::each`] takes them apart. A connection and its handshake may take `timeout`.
    pub fn new(address: &str, trust: Arc<Trust>, timeout: Duration) -> Self {
        Self { address: address.to_owned(), trust, timeout, notify: |_| () }
    }

    /// Sets a function that is called once if new certificates can't be used. Connections then use the previous ones.
    #[must_use]
    pub fn telling(self, notify: fn(&Error)) -> Self {
        Self { notify, ..self }
    }

    /// Returns the coordinators of a list of addresses, one each. Only those are connected to.
    pub fn each(&self) -> impl Iterator<Item = Self> + '_ {
        local::addresses(&self.address).map(|address| Self { address: address.to_owned(), ..self.clone() })
    }

    /// `host:port`, or several with commas between them, or `unix:/path`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects, after `tune` has configured the endpoint.
    ///
    /// # Errors
    /// Returns `unauthenticated` if one side rejects the other, `unavailable` if no server answers, and
    /// `invalid_argument` if the address is malformed.
    pub async fn connect(&self, tune: impl FnOnce(Endpoint) -> Endpoint) -> Result<Channel, Status> {
        let this = self.clone();
        let endpoint = tune(self.endpoint()?);
        let connected = endpoint.connect_with_connector(service_fn(move |_: Uri| this.clone().secure()));
        connected.await.map_err(|error| reason(&error).unwrap_or_else(|| Status::unavailable(error.to_string())))
    }

    /// Returns a channel that connects at the first call. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns `invalid_argument` if the address is malformed.
    pub fn connect_lazy(&self) -> Result<Channel, Status> {
        let this = self.clone();
        Ok(self.endpoint()?.connect_with_connector_lazy(service_fn(move |_: Uri| this.clone().secure())))
    }

    fn endpoint(&self) -> Result<Endpoint, Status> {
        // The connector adds TLS and resolves the address itself, so tonic only sees a plain URI.
        let displayed = if local::path_of(&self.address).is_some() { "localhost" } else { self.address.as_str() };
        Endpoint::from_shared(format!("http://{displayed}"))
            .map_err(|error| Status::invalid_argument(format!("{:?} is no host:port: {error}", self.address)))
    }

    async fn secure(self) -> Result<TokioIo<Stream>, Status> {
        let made = tokio::time::timeout(self.timeout, self.reach());
        made.await.map_err(|_| Status::unavailable("no answer in time"))?.map(TokioIo::new)
    }

    async fn reach(&self) -> Result<Stream, Status> {
        match local::path_of(&self.address) {
            Some(path) => reach_here(path).await,
            None => self.handshake().await,
        }
    }

    /// Resolves the address.
    async fn resolve(&self) -> Result<Vec<SocketAddr>, Status> {
        if let Ok(address) = self.address.parse() {
            return Ok(vec![address]);
        }
        let (place, address) = (place(&LOOKUPS).await?, self.address.clone());
        let look_up = move || address.to_socket_addrs().map(Vec::from_iter);
        let found =
            on_thread("accord-lookup", place, look_up).await.map_err(|error| Status::unavailable(words(&error)))?;
        found.map_err(unavailable)
    }

    async fn handshake(&self) -> Result<Stream, Status> {
        let stream = connect(&self.resolve().await?).await.map_err(unavailable)?;
        stream.set_nodelay(true).map_err(unavailable)?;
        // If new certificates can't be used, the previous ones are, until the files change again.
        let identity = self.trust.current(self.notify);
        let config = identity.to_coordinator(PROTOCOL).map_err(|error| Status::unauthenticated(words(&error)))?;
        let name = rustls::pki_types::ServerName::try_from("accord.invalid")
            .map_err(|error| Status::internal(error.to_string()))?;
        let refused = |error: io::Error| match explain::in_chain(&error, "the coordinator") {
            Some(error) => Status::unauthenticated(words(&error)),
            None => Status::unavailable(error.to_string()),
        };
        let mut stream = TlsConnector::from(config).connect(name, stream).await.map_err(refused)?;
        if let Some(attester) = identity.attester().cloned() {
            let mut nonce = [0; NONCE_LEN];
            stream.read_exact(&mut nonce).await.map_err(refused)?;
            let place = place(&QUESTIONS).await?;
            let asked = on_thread("accord-attester", place, move || attester.credential(&nonce)).await;
            let credential = asked.map_err(|error| Status::unavailable(words(&error)))?;
            let credential = credential.map_err(|error| Status::unauthenticated(words(&error)))?;
            stream.write_all(&attest::encode_credential(&credential)).await.map_err(refused)?;
            stream.flush().await.map_err(refused)?;
            let mut stream = Stream::Tls(Box::new(stream.into()));
            await_answer(&mut stream).await?;
            return Ok(stream);
        }
        // The server sends first, once it has accepted this side's certificate.
        match stream.fill_buf().await.map_err(refused)? {
            [] => Err(Status::unavailable("it closed the connection")),
            _ => Ok(Stream::Tls(Box::new(stream.into()))),
        }
    }
}

async fn place(of: &'static Semaphore) -> Result<SemaphorePermit<'static>, Status> {
    of.acquire().await.map_err(|error| Status::internal(error.to_string()))
}

/// Connects with short timeouts at first, because the kernel retransmits a lost SYN only after a second.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    for _ in 0..SOON_TRIES {
        if let Ok(connected) = tokio::time::timeout(SOON, TcpStream::connect(addresses)).await {
            return connected;
        }
    }
    TcpStream::connect(addresses).await
}

/// Connects to the coordinator on this machine, unless another user could have replaced its socket.
async fn reach_here(path: &Path) -> Result<Stream, Status> {
    let strange = |error: Error| Status::unauthenticated(words(&error));
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(Status::unavailable("no coordinator listens there"));
    }
    let owner = local::check_folder(path).map_err(strange)?;
    let stream = UnixStream::connect(path).await.map_err(unavailable)?;
    let server = stream.peer_cred().map_err(unavailable)?.uid();
    local::check_server(path, owner, server).map_err(strange)?;
    let mut stream = Stream::Local(stream);
    let len = u8::try_from(PROTOCOL.len()).unwrap_or(u8::MAX);
    stream.write_all(&[&[len], PROTOCOL].concat()).await.map_err(unavailable)?;
    await_answer(&mut stream).await?;
    Ok(stream)
}

/// Reads whether the coordinator accepts this side.
async fn await_answer(stream: &mut Stream) -> Result<(), Status> {
    if stream.read_u8().await.map_err(unavailable)? == TAKEN {
        return Ok(());
    }
    let len = stream.read_u16_le().await.map_err(unavailable)?.to_le_bytes();
    let mut printed = vec![0; attest::words_len(len)];
    stream.read_exact(&mut printed).await.map_err(unavailable)?;
    Err(Status::unauthenticated(attest::words(&printed)))
}

fn unavailable(error: io::Error) -> Status {
    Status::unavailable(error.to_string())
}

/// Returns the status of [`Coordinator`] inside a failed connection's error, which tonic wraps; `None` if the error has
/// another cause.
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

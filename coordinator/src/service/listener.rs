//! The coordinator's listeners. By TCP each peer presents a certificate, or a credential of MUNGE or Kubernetes. By a
//! UNIX socket the system identifies the user. The protocol's name separates gRPC from programs.

use super::caller::{Caller, ConnectionLifetime, Secured};
use super::page::PageListener;
use super::programs::Programs;
use super::protocol::{Protocol, name_len};
use super::server_configs::ServerConfigs;
use super::tenants::Tenants;
use super::unauthenticated::{ConnectionSlot, UnauthenticatedConnections, descriptors};
use super::witness::Witnesses;
use accord_fabric::session_endpoint;
use accord_fabric::transport::{find_dead_host, find_dead_host_soon};
use accord_proto::{Stream, channel};
use accord_trust::{Clients, Trust, explain};
use accord_types::connection_slots::place_of;
use accord_types::{Error, ErrorCode, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Backlog of connections that are not accepted yet.
const BACKLOG: i32 = 4_096;
/// Timeout of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed `accept`, most likely for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Returns the protocols that a client may name.
fn protocols() -> Vec<Vec<u8>> {
    let of_programs = session_endpoint::protocols().map(String::into_bytes);
    [channel::PROTOCOL.to_vec()].into_iter().chain(of_programs).collect()
}

/// Default of [`Listeners::program_lost_after`].
pub const PROGRAM_LOST_AFTER: Duration = Duration::from_secs(30);

/// The listening sockets.
pub struct Listeners {
    /// The TCP listener, and the identity that it presents.
    pub tcp: Option<(TcpListener, Arc<Trust>)>,
    /// The UNIX socket for processes of this machine.
    pub local: Option<UnixListener>,
    /// The listener for browsers.
    pub page: Option<PageListener>,
    /// The longest silence of the machine of a program that has come by TCP, before its session ends.
    pub program_lost_after: Duration,
}

/// Accepts connections. Returns when gRPC has stopped.
pub(super) async fn accept(
    listeners: &Listeners,
    witnesses: Arc<Witnesses>,
    tenants: Arc<Tenants>,
    programs: Programs,
    grpc: mpsc::Sender<std::io::Result<Secured>>,
) {
    let acceptor = Arc::new(Acceptor {
        entrance: UnauthenticatedConnections::new(descriptors()),
        tenants,
        programs,
        grpc,
        witnesses: witnesses.clone(),
    });
    let by_tcp = async {
        let Some((listener, trust)) = &listeners.tcp else { return std::future::pending().await };
        let program_lost_after = listeners.program_lost_after;
        let clients = if witnesses.takes_credentials() { Clients::All } else { Clients::Certified };
        let configs = ServerConfigs::new(trust.clone(), clients, protocols());
        let greeter = Arc::new(HandshakeServer { configs, witnesses, program_lost_after });
        accept_tcp(&acceptor, listener, greeter).await;
    };
    let here = async {
        let Some(listener) = &listeners.local else { return std::future::pending().await };
        accept_local(&acceptor, listener).await;
    };
    tokio::select! {
        () = by_tcp => {}
        () = here => {}
    }
}

async fn accept_tcp(acceptor: &Arc<Acceptor>, listener: &TcpListener, greeter: Arc<HandshakeServer>) {
    lengthen(listener);
    while !acceptor.grpc.is_closed() {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                acceptor.scarce(&error).await;
                continue;
            }
        };
        let turn = acceptor.entrance.enter(&place_of(peer.ip()));
        let greeter = greeter.clone();
        let shake = async move {
            let (protocol, stream, caller) = greeter.shake_hands(stream).await?;
            Ok((protocol, stream, Caller { address: Some(peer), ..caller }))
        };
        acceptor.clone().admit(turn, peer.to_string(), shake);
    }
}

async fn accept_local(acceptor: &Arc<Acceptor>, listener: &UnixListener) {
    lengthen(listener);
    while !acceptor.grpc.is_closed() {
        let accepted = listener.accept().await;
        let (stream, uid) = match accepted.and_then(|(stream, _)| stream.peer_cred().map(|cred| (stream, cred.uid()))) {
            Ok(accepted) => accepted,
            Err(error) => {
                acceptor.scarce(&error).await;
                continue;
            }
        };
        let place = format!("user {uid}");
        let turn = acceptor.entrance.enter(&place);
        let witnesses = acceptor.witnesses.clone();
        let shake = async move {
            let mut stream = Stream::Local(stream);
            let protocol = read_protocol(&mut stream).await?;
            let caller = witnesses.by_system(&mut stream, uid).await?;
            Ok((protocol, stream, caller))
        };
        acceptor.clone().admit(turn, place, shake);
    }
}

/// Lengthens the backlog: with the usual one a burst of connections waits for a second. A failure is tolerated.
fn lengthen(listener: &impl AsFd) {
    let _ = rustix::net::listen(listener, BACKLOG);
}

/// Authenticates connections and passes them on.
struct Acceptor {
    entrance: Arc<UnauthenticatedConnections>,
    tenants: Arc<Tenants>,
    programs: Programs,
    grpc: mpsc::Sender<std::io::Result<Secured>>,
    witnesses: Arc<Witnesses>,
}

impl Acceptor {
    /// Serves a connection once `shake` has identified the caller. Closes it if that takes too long or its slot is
    /// needed.
    fn admit(
        self: Arc<Self>,
        mut turn: ConnectionSlot,
        from: String,
        shake: impl Future<Output = Result<(Protocol, Stream, Caller)>> + Send + 'static,
    ) {
        tokio::spawn(async move {
            let shaken = tokio::select! {
                shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake) => shaken,
                () = turn.over() => return crate::metrics::refused(crate::metrics::RefusalReason::Full),
            };
            match shaken {
                Ok(Ok((protocol, stream, caller))) => self.place(turn, protocol, stream, caller).await,
                Ok(Err(error)) => {
                    crate::metrics::refused(crate::metrics::RefusalReason::Tls);
                    tracing::info!("a connection of {from} was refused: {}", error.cause());
                }
                Err(_) => crate::metrics::refused(crate::metrics::RefusalReason::Silent),
            }
        });
    }

    /// Serves an identified caller, or refuses the caller if its quota is exhausted.
    async fn place(&self, mut turn: ConnectionSlot, protocol: Protocol, stream: Stream, caller: Caller) {
        match (protocol, self.tenants.connect(caller.user_name(), protocol)) {
            (Protocol::Grpc, Ok(slot)) => {
                drop(turn);
                let stay = ConnectionLifetime::Placed { _slot: slot };
                let _ = self.grpc.send(Ok(Secured { stream, caller, stay })).await;
            }
            (Protocol::Session, Ok(_slot)) => {
                drop(turn);
                self.programs.enter(stream, &caller).await;
            }
            (protocol, Err(error)) => {
                tracing::warn!("refused: {}", error.cause());
                crate::metrics::refused(crate::metrics::RefusalReason::Quota);
                if protocol == Protocol::Grpc {
                    let (caller, stay) = (Caller { refused: Some(error), ..caller }, ConnectionLifetime::leaves(turn));
                    let _ = self.grpc.send(Ok(Secured { stream, caller, stay })).await;
                } else {
                    tokio::select! {
                        () = self.programs.refuse(stream, error) => {}
                        () = turn.over() => {}
                    }
                }
            }
        }
    }

    /// Handles a failed `accept` by closing an unauthenticated connection. Its task frees the descriptor once it runs.
    async fn scarce(&self, error: &std::io::Error) {
        if self.entrance.make_space() {
            tokio::task::yield_now().await;
        } else {
            tracing::warn!("cannot take a connection: {error}; raise the limit on open files (ulimit -n, LimitNOFILE)");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Reads the first message on a UNIX socket: the length of the protocol's name in a byte, and the name.
async fn read_protocol(stream: &mut Stream) -> Result<Protocol> {
    let broken = |error: std::io::Error| refused(format!("it broke the handshake off: {error}"));
    let mut name = vec![0; name_len(stream.read_u8().await.map_err(broken)?)];
    stream.read_exact(&mut name).await.map_err(broken)?;
    Protocol::named(&name)
}

/// How this side begins a handshake.
struct HandshakeServer {
    configs: ServerConfigs,
    witnesses: Arc<Witnesses>,
    program_lost_after: Duration,
}

impl HandshakeServer {
    async fn shake_hands(&self, stream: TcpStream) -> Result<(Protocol, Stream, Caller)> {
        // If an option can't be set, the next read fails.
        let _ = stream.set_nodelay(true);
        // A silent peer costs no TLS state.
        let _ = stream.peek(&mut [0]).await;
        let stream = TlsAcceptor::from(self.configs.current()?).accept(stream).await;
        let stream = stream.map_err(|error| explain::broken(&error, "the peer"))?;
        let tls = stream.get_ref().1;
        let protocol = Protocol::named(tls.alpn_protocol().unwrap_or_default())?;
        // Without keep-alive the loss of an agent's machine is noticed late, and that of a program's never.
        let _ = match protocol {
            Protocol::Grpc => find_dead_host_soon(stream.get_ref().0),
            Protocol::Session => find_dead_host(stream.get_ref().0, self.program_lost_after),
        };
        let certified = tls.peer_certificates().is_some().then(|| Caller::certified(tls)).transpose()?;
        let mut stream = Stream::Tls(Box::new(stream.into()));
        let caller = match certified {
            Some(caller) => caller,
            None => self.witnesses.by_credential(&mut stream).await?,
        };
        Ok((protocol, stream, caller))
    }
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

//! Where the coordinator is reached: by TCP, where each peer shows a certificate, or a credential of MUNGE or Kubernetes, and on its own machine by a UNIX socket,
//! where the system says who it is. The protocol that a client names tells gRPC from programs.

use super::caller::{Caller, Secured, Stay};
use super::entrance::{Entrance, Turn, descriptors};
use super::programs::Programs;
use super::protocol::{Protocol, name_len};
use super::tenants::Tenants;
use super::witness::Witnesses;
use accord_fabric::session_endpoint;
use accord_fabric::transport::{find_dead_host, find_dead_host_soon};
use accord_proto::{Stream, channel};
use accord_trust::{Clients, Identity, Trust, explain};
use accord_types::short_lock::ShortLock;
use accord_types::waiting_room::place_of;
use accord_types::{Error, ErrorCode, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 4_096;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// [`Listeners::program_lost_after`] where nothing else is said.
pub const PROGRAM_LOST_AFTER: Duration = Duration::from_secs(30);

/// The listening sockets.
pub struct Listeners {
    /// The listener for all machines, and the identity towards their certificates.
    pub tcp: Option<(TcpListener, Arc<Trust>)>,
    /// The listener for processes of this machine.
    pub local: Option<UnixListener>,
    /// The longest silence of the machine of a program that has come by TCP, before its session ends.
    pub program_lost_after: Duration,
}

/// Takes connections. Returns when gRPC has stopped.
pub(super) async fn accept(
    listeners: &Listeners,
    witnesses: Arc<Witnesses>,
    tenants: Arc<Tenants>,
    programs: Programs,
    grpc: mpsc::Sender<std::io::Result<Secured>>,
) {
    let acceptor = Arc::new(Acceptor {
        entrance: Entrance::new(descriptors()),
        tenants,
        programs,
        grpc,
        witnesses: witnesses.clone(),
    });
    let by_tcp = async {
        let Some((listener, trust)) = &listeners.tcp else { return std::future::pending().await };
        let program_lost_after = listeners.program_lost_after;
        let greeter =
            Arc::new(Greeter { trust: trust.clone(), witnesses, program_lost_after, made: ShortLock::default() });
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

async fn accept_tcp(acceptor: &Arc<Acceptor>, listener: &TcpListener, greeter: Arc<Greeter>) {
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
            let protocol = said_protocol(&mut stream).await?;
            let caller = witnesses.by_system(&mut stream, uid).await?;
            Ok((protocol, stream, caller))
        };
        acceptor.clone().admit(turn, place, shake);
    }
}

/// The usual backlog makes who comes in a burst wait for a second. Without a longer one it works too.
fn lengthen(listener: &impl AsFd) {
    let _ = rustix::net::listen(listener, BACKLOG);
}

/// Where those go who are known.
struct Acceptor {
    entrance: Arc<Entrance>,
    tenants: Arc<Tenants>,
    programs: Programs,
    grpc: mpsc::Sender<std::io::Result<Secured>>,
    witnesses: Arc<Witnesses>,
}

impl Acceptor {
    /// Lets a connection in once `shake` knows who it is, unless that takes too long or others need its place.
    fn admit(
        self: Arc<Self>,
        mut turn: Turn,
        from: String,
        shake: impl Future<Output = Result<(Protocol, Stream, Caller)>> + Send + 'static,
    ) {
        tokio::spawn(async move {
            let shaken = tokio::select! {
                shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake) => shaken,
                () = turn.over() => return crate::metrics::refused(crate::metrics::Why::Full),
            };
            match shaken {
                Ok(Ok((protocol, stream, caller))) => self.place(turn, protocol, stream, caller).await,
                Ok(Err(error)) => {
                    crate::metrics::refused(crate::metrics::Why::Tls);
                    tracing::info!("a connection of {from} was refused: {}", error.cause());
                }
                Err(_) => crate::metrics::refused(crate::metrics::Why::Silent),
            }
        });
    }

    /// Serves a connection whose caller is known, or tells it that the caller has as many as they may have.
    async fn place(&self, mut turn: Turn, protocol: Protocol, stream: Stream, caller: Caller) {
        match (protocol, self.tenants.connect(caller.who(), protocol)) {
            (Protocol::Grpc, Ok(slot)) => {
                drop(turn);
                let stay = Stay::Placed { _slot: slot };
                let _ = self.grpc.send(Ok(Secured { stream, caller, stay })).await;
            }
            (Protocol::Session, Ok(_slot)) => {
                drop(turn);
                self.programs.enter(stream, &caller).await;
            }
            (protocol, Err(error)) => {
                tracing::warn!("refused: {}", error.cause());
                crate::metrics::refused(crate::metrics::Why::Quota);
                if protocol == Protocol::Grpc {
                    let (caller, stay) = (Caller { refused: Some(error), ..caller }, Stay::leaves(turn));
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

    /// The system could not give a connection. Of those that have not said who they are one gives its descriptor back, as soon as its task has
    /// seen that.
    async fn scarce(&self, error: &std::io::Error) {
        if self.entrance.make_room() {
            tokio::task::yield_now().await;
        } else {
            tracing::warn!("cannot take a connection: {error}; raise the limit on open files (ulimit -n, LimitNOFILE)");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// The first word on a UNIX socket: its length in a byte, and the protocol's name.
async fn said_protocol(stream: &mut Stream) -> Result<Protocol> {
    let broken = |error: std::io::Error| refused(format!("it broke the handshake off: {error}"));
    let mut name = vec![0; name_len(stream.read_u8().await.map_err(broken)?)];
    stream.read_exact(&mut name).await.map_err(broken)?;
    Protocol::named(&name)
}

/// How this side begins a handshake. Made anew when its certificates change: that takes a millisecond.
struct Greeter {
    trust: Arc<Trust>,
    witnesses: Arc<Witnesses>,
    program_lost_after: Duration,
    made: ShortLock<Option<(Arc<Identity>, Arc<ServerConfig>)>>,
}

impl Greeter {
    async fn shake_hands(&self, stream: TcpStream) -> Result<(Protocol, Stream, Caller)> {
        // A socket that can't be set is about to fail anyway.
        let _ = stream.set_nodelay(true);
        // Who says nothing costs nothing.
        let _ = stream.peek(&mut [0]).await;
        let stream = TlsAcceptor::from(self.config()?).accept(stream).await;
        let stream = stream.map_err(|error| explain::broken(&error, "the peer"))?;
        let tls = stream.get_ref().1;
        let protocol = Protocol::named(tls.alpn_protocol().unwrap_or_default())?;
        // Without these the end of an agent's machine shows later, and that of a program's never.
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

    fn config(&self) -> Result<Arc<ServerConfig>> {
        let identity = self.trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
        let mut made = self.made.lock();
        if let Some((of, config)) = &*made
            && Arc::ptr_eq(of, &identity)
        {
            return Ok(config.clone());
        }
        let clients = if self.witnesses.takes_credentials() { Clients::All } else { Clients::Certified };
        let config = identity.server_for(clients, &[channel::PROTOCOL, session_endpoint::PROTOCOL.as_bytes()])?;
        *made = Some((identity, config.clone()));
        Ok(config)
    }
}

fn refused(cause: impl Into<String>) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

//! The one port: everybody shows a certificate; then the handshake's protocol tells gRPC from programs.

use super::caller::{Caller, Secured};
use super::entrance::Entrance;
use super::session_endpoint::SessionEndpoint;
use accord_fabric::session_endpoint;
use accord_proto::channel;
use accord_trust::{Identity, Trust, explain};
use accord_types::{Error, ErrorCode, Result};
use rustix::process::{Resource, getrlimit};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 4_096;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes connections. Returns when gRPC has stopped.
pub(super) async fn accept(
    listener: TcpListener,
    trust: Arc<Trust>,
    endpoint: SessionEndpoint,
    grpc: mpsc::Sender<std::io::Result<Secured>>,
) {
    // The usual backlog makes who comes in a burst wait for a second. Without a longer one it works too.
    let _ = rustix::net::listen(&listener, BACKLOG);
    let entrance = Entrance::new(getrlimit(Resource::Nofile).current);
    let endpoint = Arc::new(endpoint);
    let greeter = Arc::new(Greeter { trust, made: Mutex::default() });
    while !grpc.is_closed() {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Of those that have not said who they are one gives its descriptor back, as soon as its task has seen that.
                if entrance.make_room() {
                    tokio::task::yield_now().await;
                } else {
                    tracing::warn!(
                        "cannot take a connection: {error}; raise the limit on open files (ulimit -n, LimitNOFILE)"
                    );
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let mut turn = entrance.enter(peer.ip());
        let (grpc, endpoint, greeter) = (grpc.clone(), endpoint.clone(), greeter.clone());
        tokio::spawn(async move {
            let shaken = tokio::select! {
                shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, &greeter)) => shaken,
                () = turn.over() => return crate::metrics::refused(crate::metrics::Why::Full),
            };
            drop(turn);
            match shaken {
                Ok(Ok((stream, caller))) if stream.get_ref().1.alpn_protocol() == Some(channel::PROTOCOL) => {
                    let _ = grpc.send(Ok(Secured { stream, caller })).await;
                }
                Ok(Ok((stream, caller))) => endpoint.enter(stream, &caller).await,
                Ok(Err(error)) => {
                    crate::metrics::refused(crate::metrics::Why::Tls);
                    tracing::info!("a connection of {peer} was refused: {}", error.cause());
                }
                Err(_) => crate::metrics::refused(crate::metrics::Why::Silent),
            }
        });
    }
}

async fn shake_hands(stream: TcpStream, greeter: &Greeter) -> Result<(TlsStream<TcpStream>, Caller)> {
    // A socket that can't be set is about to fail anyway.
    let _ = stream.set_nodelay(true);
    // Who says nothing costs nothing.
    let _ = stream.peek(&mut [0]).await;
    let stream = TlsAcceptor::from(greeter.config()?).accept(stream).await;
    let stream = stream.map_err(|error| explain::broken(&error, "the peer"))?;
    if stream.get_ref().1.alpn_protocol().is_none() {
        return Err(Error::new(ErrorCode::DeviceUnavailable, "it does not say which protocol it speaks"));
    }
    let caller = Caller::of(&stream)?;
    Ok((stream, caller))
}

/// How this side begins a handshake. Made anew when its certificates change: that takes a millisecond.
struct Greeter {
    trust: Arc<Trust>,
    made: Mutex<Option<(Arc<Identity>, Arc<ServerConfig>)>>,
}

impl Greeter {
    fn config(&self) -> Result<Arc<ServerConfig>> {
        let identity = self.trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, config)) = &*made
            && Arc::ptr_eq(of, &identity)
        {
            return Ok(config.clone());
        }
        let config = identity.server(&[channel::PROTOCOL, session_endpoint::PROTOCOL.as_bytes()])?;
        *made = Some((identity, config.clone()));
        Ok(config)
    }
}

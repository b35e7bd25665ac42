//! The one port: everybody shows a certificate; then the handshake's protocol tells gRPC from programs.

use super::caller::{Caller, Secured};
use super::session_endpoint::SessionEndpoint;
use accord_fabric::session_endpoint;
use accord_proto::channel;
use accord_trust::{Trust, explain};
use accord_types::{Error, ErrorCode, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections of which nothing is known yet. More are closed at once.
const UNKNOWN_MAX: usize = 1_024;
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
    let unknown = Arc::new(Semaphore::new(UNKNOWN_MAX));
    let endpoint = Arc::new(endpoint);
    while !grpc.is_closed() {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = unknown.clone().try_acquire_owned() else {
            crate::metrics::refused(crate::metrics::Why::Full);
            continue;
        };
        let (grpc, endpoint, trust) = (grpc.clone(), endpoint.clone(), trust.clone());
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(stream, &trust)).await;
            drop(permit);
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

async fn shake_hands(stream: TcpStream, trust: &Trust) -> Result<(TlsStream<TcpStream>, Caller)> {
    // A socket that can't be set is about to fail anyway.
    let _ = stream.set_nodelay(true);
    let identity = trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
    let config = identity.server(&[channel::PROTOCOL, session_endpoint::PROTOCOL.as_bytes()])?;
    let stream = TlsAcceptor::from(config).accept(stream).await;
    let stream = stream.map_err(|error| explain::broken(&error, "the peer"))?;
    if stream.get_ref().1.alpn_protocol().is_none() {
        return Err(Error::new(ErrorCode::DeviceUnavailable, "it does not say which protocol it speaks"));
    }
    let caller = Caller::of(&stream)?;
    Ok((stream, caller))
}

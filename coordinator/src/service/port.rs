//! The one port: tells gRPC from programs by a connection's first bytes.

use super::session_endpoint::SessionEndpoint;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

/// Connections of which nothing is known yet. More are closed at once.
const UNKNOWN_MAX: usize = 1_024;
/// How long a connection may say nothing at first.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How HTTP/2 connections begin.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Takes connections. Returns when gRPC has stopped.
pub(super) async fn accept(
    listener: TcpListener,
    endpoint: SessionEndpoint,
    grpc: mpsc::Sender<std::io::Result<TcpStream>>,
) {
    let unknown = Arc::new(Semaphore::new(UNKNOWN_MAX));
    let endpoint = Arc::new(endpoint);
    while !grpc.is_closed() {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = unknown.clone().try_acquire_owned() else {
            metrics::counter!(crate::metrics::REFUSED, "why" => "full").increment(1);
            continue;
        };
        let (grpc, endpoint) = (grpc.clone(), endpoint.clone());
        tokio::spawn(async move {
            let first = tokio::time::timeout(FIRST_BYTES_TIMEOUT, is_http2(&stream)).await;
            drop(permit);
            match first {
                Ok(Ok(true)) => {
                    // A socket that can't be set is about to fail anyway.
                    let _ = stream.set_nodelay(true);
                    let _ = grpc.send(Ok(stream)).await;
                }
                Ok(Ok(false)) => endpoint.enter(stream).await,
                Ok(Err(_)) | Err(_) => {
                    metrics::counter!(crate::metrics::REFUSED, "why" => "silent").increment(1);
                }
            }
        });
    }
}

/// Whether the first bytes are HTTP/2's. One is enough: neither side's begins like the other's.
async fn is_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut bytes = [0; HTTP2_PREFACE.len()];
    match stream.peek(&mut bytes).await? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        count => Ok(HTTP2_PREFACE.starts_with(&bytes[..count])),
    }
}

//! Who calls: what the handshake has found out goes with every call of a connection.

use accord_trust::access::{self, Act};
use accord_trust::identity::name_of_peer;
use accord_trust::{PeerName, Role};
use accord_types::{Error, Result};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tonic::{Request, Status};

/// A peer whose certificate was verified.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) name: PeerName,
    pub(super) address: Option<SocketAddr>,
}

impl Caller {
    pub(super) fn of(stream: &TlsStream<TcpStream>) -> Result<Self> {
        let (tcp, tls) = stream.get_ref();
        Ok(Self { name: name_of_peer(tls.peer_certificates())?, address: tcp.peer_addr().ok() })
    }

    /// Whoever makes this call, if they may.
    pub(super) fn check<T>(request: &Request<T>, act: Act) -> Result<&Self, Status> {
        let caller = request.extensions().get::<Self>();
        let caller = caller.ok_or_else(|| Status::unauthenticated("nobody knows who calls"))?;
        access::check(&caller.name, act).map_err(|error| refusal(&error))?;
        Ok(caller)
    }

    /// Whether it is the agent of this node.
    pub(super) fn check_node(&self, node: &str) -> Result<(), Status> {
        access::check_node(&self.name, node).map_err(|error| refusal(&error))
    }

    /// Whose programs these are.
    pub(super) fn user(&self) -> Result<String> {
        access::check(&self.name, Act::OpenSession)?;
        match &self.name.role {
            Role::Tenant(user) => Ok(user.clone()),
            role => Ok(role.to_string()),
        }
    }
}

fn refusal(error: &Error) -> Status {
    tracing::warn!("refused: {}", error.cause());
    crate::metrics::refused(crate::metrics::Why::Role);
    Status::permission_denied(format!("{}; {}", error.cause(), error.remedy_text().unwrap_or_default()))
}

/// A connection of gRPC's.
pub(super) struct Secured {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) caller: Caller,
}

impl Connected for Secured {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, to)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

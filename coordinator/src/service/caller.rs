//! The caller of a connection, found in the handshake and attached to each call.

use super::tenants::{CountedUser, TenantSlot};
use super::unauthenticated::ConnectionSlot;
use accord_proto::Stream;
use accord_telemetry::log::AUDIT;
use accord_trust::Role;
use accord_trust::access::{self, Act};
use accord_trust::identity::name_of_peer;
use accord_types::{Error, Result};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::CommonState;
use tonic::transport::server::Connected;
use tonic::{Request, Status};

/// Timeout for sending the reason to a refused connection.
const REPORTED_WITHIN: Duration = Duration::from_secs(5);

/// An identified peer.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The caller's roles; messages use the first.
    pub(super) roles: Vec<Role>,
    /// The peer's address; `None` on this machine.
    pub(super) address: Option<SocketAddr>,
    /// Refuses every call with this error, if set.
    pub(super) refused: Option<Error>,
}

impl Caller {
    /// Creates the caller from the certificate of the handshake.
    pub(super) fn certified(tls: &CommonState) -> Result<Self> {
        Ok(Self { roles: vec![name_of_peer(tls.peer_certificates())?.role], address: None, refused: None })
    }

    /// Returns the caller's name.
    pub(super) fn called(&self) -> String {
        self.roles.first().map_or_else(String::new, Role::to_string)
    }

    /// Returns the identity under which connections and calls are counted.
    pub(super) fn user_name(&self) -> CountedUser {
        let is_trusted = self.roles.iter().any(|role| matches!(role, Role::Agent(_) | Role::Admin(_)));
        CountedUser { user: self.called(), is_trusted }
    }

    /// Returns the address at which other nodes reach the caller.
    pub(super) fn ip(&self) -> IpAddr {
        self.address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
    }

    /// Returns the caller of a request if one of its roles may perform `act`.
    pub(super) fn check<T>(request: &Request<T>, act: Act) -> Result<&Self, Status> {
        let caller = request.extensions().get::<Self>();
        let caller = caller.ok_or_else(|| Status::unauthenticated("the caller is unknown"))?;
        if let Some(error) = &caller.refused {
            return Err(over_quota(error));
        }
        access::check_roles(&caller.roles, act).map_err(|error| refusal(&error))?;
        Ok(caller)
    }

    /// Refuses a caller that is not the agent of this node.
    pub(super) fn check_node(&self, node: &str) -> Result<(), Status> {
        access::check_node(&self.roles, node).map_err(|error| refusal(&error))
    }

    /// Returns the user of the caller's sessions.
    pub(super) fn user(&self) -> Result<String> {
        match access::check_roles(&self.roles, Act::OpenSession)? {
            Role::Tenant(user) => Ok(user.clone()),
            role => Ok(role.to_string()),
        }
    }
}

fn refusal(error: &Error) -> Status {
    tracing::warn!(target: AUDIT, "refused: {}", error.cause());
    crate::metrics::refused(crate::metrics::RefusalReason::Role);
    Status::permission_denied(in_words(error))
}

/// Returns the status for a call that exceeds a quota.
pub(super) fn over_quota(error: &Error) -> Status {
    Status::resource_exhausted(in_words(error))
}

fn in_words(error: &Error) -> String {
    format!("{}; {}", error.cause(), error.remedy_text().unwrap_or_default())
}

/// A connection for gRPC.
pub(super) struct Secured {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    pub(super) stay: ConnectionLifetime,
}

/// The lifetime of a connection.
pub(super) enum ConnectionLifetime {
    /// Without limit.
    Placed { _slot: TenantSlot },
    /// Until the peer has received the reason, or its slot among the unauthenticated connections is needed.
    Leaves(Pin<Box<dyn Future<Output = ()> + Send>>),
}

impl ConnectionLifetime {
    /// Creates the stay of a connection whose calls are all refused.
    pub(super) fn leaves(mut turn: ConnectionSlot) -> Self {
        Self::Leaves(Box::pin(async move {
            let _ = tokio::time::timeout(REPORTED_WITHIN, turn.over()).await;
        }))
    }
}

impl Connected for Secured {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let ConnectionLifetime::Leaves(over) = &mut self.stay
            && over.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
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

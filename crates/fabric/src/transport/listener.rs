//! Accepts connections.

use super::address::{ListenAddress, PeerAddress};
use super::lane::{Lane as _, SharedLane, Transport};
use super::local_socket::{self, LocalName};
use super::socket::adopt;
use crate::route::Endpoint;
use accord_types::connection_slots::place_of;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 4_096;

/// An accepted connection.
#[derive(Debug)]
pub struct IncomingLane {
    /// The lane to the client.
    pub lane: SharedLane,
    /// The client's name, for messages.
    pub name: String,
    /// The client's origin, for bounds: an IP address or a user of this machine.
    pub address: String,
}

impl IncomingLane {
    /// Whether the connection uses TCP, not a local socket.
    pub(super) fn is_tcp(&self) -> bool {
        self.lane.transport() == Transport::Tcp
    }
}

/// Accepts connections. Dropping it refuses further ones.
#[derive(Debug)]
pub struct Listener(From);

#[derive(Debug)]
enum From {
    Everywhere(TcpListener),
    ThisMachine(OwnedFd),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            From::Everywhere(tcp) => tcp.as_fd(),
            From::ThisMachine(socket) => socket.as_fd(),
        }
    }
}

impl Listener {
    /// Listens on a local address.
    ///
    /// # Errors
    /// Returns the system's error if the address is in use or does not belong to this machine.
    pub fn bind(address: ListenAddress) -> io::Result<Self> {
        let tcp = TcpListener::bind(address.0)?;
        // With the default backlog a burst of connections is delayed by a second.
        rustix::net::listen(&tcp, BACKLOG)?;
        Ok(Self(From::Everywhere(tcp)))
    }

    /// Accepts connections from local processes of this user that want to share memory with the agent `peer`.
    ///
    /// # Errors
    /// Returns the system's error if another process has bound the agent's name.
    pub fn bind_local(peer: &Endpoint) -> io::Result<Self> {
        Ok(Self(From::ThisMachine(LocalName::new(peer)?.listen()?)))
    }

    /// Returns the address that the listener is bound to, with the port that the system has chosen.
    ///
    /// # Errors
    /// Returns `AddrNotAvailable` for a listener of [`Listener::bind_local`], and any error of the system.
    pub fn address(&self) -> io::Result<PeerAddress> {
        match &self.0 {
            From::Everywhere(tcp) => Ok(PeerAddress::new(tcp.local_addr()?)),
            From::ThisMachine(_) => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Makes [`Listener::try_accept`] non-blocking.
    pub(super) fn take_without_waiting(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self.as_fd(), true)?)
    }

    /// Accepts the next connection, without reading its introduction.
    pub(super) fn try_accept(&self) -> io::Result<IncomingLane> {
        match &self.0 {
            From::Everywhere(tcp) => {
                let (stream, from) = tcp.accept()?;
                Ok(IncomingLane { lane: adopt(stream.into())?, name: from.to_string(), address: place_of(from.ip()) })
            }
            From::ThisMachine(socket) => {
                let lane = local_socket::accept(socket)?;
                let user = lane.properties().client.map_or(0, |client| client.user);
                Ok(IncomingLane {
                    lane: Arc::new(lane),
                    name: "a process of this machine".to_owned(),
                    address: format!("user {user}"),
                })
            }
        }
    }

    /// Blocks until the next connection, and returns it with its name for messages. Does not read its introduction.
    ///
    /// # Errors
    /// Returns the system's error if the connection can't be accepted; the listener remains usable.
    pub fn accept(&self) -> io::Result<(SharedLane, String)> {
        match &self.0 {
            From::Everywhere(tcp) => {
                let (stream, from) = tcp.accept()?;
                Ok((adopt(stream.into())?, from.to_string()))
            }
            From::ThisMachine(socket) => {
                Ok((Arc::new(local_socket::accept(socket)?), "a process of this machine".to_owned()))
            }
        }
    }
}

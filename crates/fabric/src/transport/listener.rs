//! Where a process takes connections.

use super::address::{ListenAddress, PeerAddress};
use super::lane::{Lane as _, SharedLane, Transport};
use super::local_socket::{self, LocalName};
use super::socket::adopt;
use crate::route::Endpoint;
use accord_types::waiting_room::place_of;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Connections that the system keeps until they are taken.
const BACKLOG: i32 = 4_096;

/// Who has connected.
#[derive(Debug)]
pub struct IncomingLane {
    /// What there is with them.
    pub lane: SharedLane,
    /// For messages.
    pub name: String,
    /// What all of them have in common that come from one place: an address, or a user of this machine.
    pub address: String,
}

impl IncomingLane {
    /// Of the machine's network, not by a socket of this machine.
    pub(super) fn is_tcp(&self) -> bool {
        self.lane.transport() == Transport::Tcp
    }
}

/// Takes connections. Dropping it refuses further ones.
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
    /// Listens on an address of this machine.
    ///
    /// # Errors
    /// If that is in use, or none of this machine's.
    pub fn bind(address: ListenAddress) -> io::Result<Self> {
        let tcp = TcpListener::bind(address.0)?;
        // The usual backlog makes who comes in a burst wait for a second.
        rustix::net::listen(&tcp, BACKLOG)?;
        Ok(Self(From::Everywhere(tcp)))
    }

    /// Takes connections of processes of this machine and user that want to share memory with the agent that is `peer`.
    ///
    /// # Errors
    /// If somebody else has its name.
    pub fn bind_local(peer: &Endpoint) -> io::Result<Self> {
        Ok(Self(From::ThisMachine(LocalName::new(peer)?.listen()?)))
    }

    /// Where it listens; the port is the one that it has got.
    ///
    /// # Errors
    /// If the system refuses, and for a listener of [`Listener::bind_local`], which has no address.
    pub fn address(&self) -> io::Result<PeerAddress> {
        match &self.0 {
            From::Everywhere(tcp) => Ok(PeerAddress::new(tcp.local_addr()?)),
            From::ThisMachine(_) => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Has [`Listener::try_accept`] not wait.
    pub(super) fn take_without_waiting(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self.as_fd(), true)?)
    }

    /// The next connection, which has not introduced itself yet.
    pub(super) fn try_accept(&self) -> io::Result<IncomingLane> {
        match &self.0 {
            From::Everywhere(tcp) => {
                let (stream, from) = tcp.accept()?;
                Ok(IncomingLane { lane: adopt(stream.into())?, name: from.to_string(), address: place_of(from.ip()) })
            }
            From::ThisMachine(socket) => {
                let lane = local_socket::accept(socket)?;
                let user = lane.peer_user().unwrap_or_default();
                Ok(IncomingLane {
                    lane: Arc::new(lane),
                    name: "a process of this machine".to_owned(),
                    address: format!("user {user}"),
                })
            }
        }
    }

    /// Waits for the next connection, which has not introduced itself yet; and who it is, for messages.
    ///
    /// # Errors
    /// If the system can't give it; the listener remains of use.
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

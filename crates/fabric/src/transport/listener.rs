//! Where a process takes connections.

use super::address::{ListenAddress, PeerAddress};
use super::lane::SharedLane;
use super::local_socket::{self, LocalName};
use super::socket::adopt;
use crate::route::Endpoint;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::OwnedFd;

/// Takes connections. Dropping it refuses further ones.
#[derive(Debug)]
pub struct Listener(From);

#[derive(Debug)]
enum From {
    Everywhere(TcpListener),
    ThisMachine(OwnedFd),
}

impl Listener {
    /// Listens on an address of this machine.
    ///
    /// # Errors
    /// If that is in use, or none of this machine's.
    pub fn bind(address: ListenAddress) -> io::Result<Self> {
        Ok(Self(From::Everywhere(TcpListener::bind(address.0)?)))
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
            From::ThisMachine(socket) => Ok((local_socket::accept(socket)?, "a process of this machine".to_owned())),
        }
    }
}

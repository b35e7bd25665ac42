//! Addresses of peers, opaque to all code but the drivers.

use accord_trust::local;
use accord_types::{Error, ErrorCode, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

/// The address at which a peer accepts connections, as the cluster names it (`host:port`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(String);

impl PeerAddress {
    /// Wraps the text of a lease or a setting, which is checked when it is resolved.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    /// Returns the text of [`PeerAddress::new`].
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the addresses of a list `host:port,host:port`: all coordinators of a cluster.
    pub fn each(&self) -> impl Iterator<Item = Self> + '_ {
        local::addresses(&self.0).map(Self::new)
    }

    /// Returns the port, if the text has a valid one.
    pub fn port(&self) -> Option<u16> {
        self.0.rsplit_once(':')?.1.parse().ok()
    }

    /// Whether all addresses that the name resolves to are loopback addresses.
    pub(super) fn is_loopback(&self) -> bool {
        let is_here = |found: Vec<SocketAddr>| !found.is_empty() && found.iter().all(|at| is_loopback(at.ip()));
        self.0.to_socket_addrs().is_ok_and(|found| is_here(found.collect()))
    }

    /// Checks that the name resolves to an address. `server` names the peer in messages.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable`, with `remedy`, if the name resolves to no address.
    pub fn check(&self, server: &str, remedy: &'static str) -> Result<()> {
        self.resolve(server, remedy).map(drop)
    }

    /// Resolves the name to its addresses.
    pub(super) fn resolve(&self, server: &str, remedy: &'static str) -> Result<Vec<SocketAddr>> {
        let unavailable = |cause: String| Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy);
        let found = self
            .0
            .to_socket_addrs()
            .map_err(|error| unavailable(format!("the {server}'s address {self} is none: {error}")))?;
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(unavailable(format!("the {server}'s address {self} stands for no host")));
        }
        Ok(found)
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the address belongs to this host's loopback.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The local address and port at which a listener accepts connections; port 0 lets the system choose one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenAddress(pub(super) SocketAddr);

impl ListenAddress {
    /// Returns the local address from which `peer` is reached, with port 0. It is a loopback address only if the peer
    /// is on this machine.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if no local address has a route to the peer, or the peer's name resolves to no
    /// address.
    pub fn towards(peer: &PeerAddress, server: &str, remedy: &'static str) -> Result<Self> {
        let mut last = None;
        for address in peer.resolve(server, remedy)? {
            // Connecting a UDP socket sends no packet: the system only looks up the route.
            let unspecified: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let own = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
                socket.connect(address)?;
                socket.local_addr()
            });
            match own {
                Ok(own) => return Ok(Self(SocketAddr::new(own.ip(), 0))),
                Err(error) => last = Some(error),
            }
        }
        let why = last.map_or_else(String::new, |error| format!(": {error}"));
        let cause = format!("no address of this machine leads to the {server} at {peer}{why}");
        Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy))
    }

    /// Whether only this machine can connect to the address.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.0.ip())
    }

    /// Returns the loopback address with port 0.
    pub fn of_this_machine() -> Self {
        Self(SocketAddr::new([127, 0, 0, 1].into(), 0))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        text.parse().map(Self).map_err(|_| "an address and a port such as 0.0.0.0:7700 are needed".to_owned())
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! Where peers are. Opaque to all but the drivers.

use accord_types::{Error, ErrorCode, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

/// Where a peer takes connections, as the cluster names it (`host:port`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress(String);

impl PeerAddress {
    /// As it stands in leases and settings. Whether it is one shows when it is used.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(text.to_string())
    }

    /// The text of [`PeerAddress::new`].
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The port in it.
    pub fn port(&self) -> Option<u16> {
        self.0.rsplit_once(':')?.1.parse().ok()
    }

    /// Whether all that the name stands for is this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let is_here = |found: Vec<SocketAddr>| !found.is_empty() && found.iter().all(|at| is_loopback(at.ip()));
        self.0.to_socket_addrs().is_ok_and(|found| is_here(found.collect()))
    }

    /// Whether it stands for anything. `server` is who should be there, for messages.
    ///
    /// # Errors
    /// `acc_error_device_unavailable`, with `remedy`, if it does not.
    pub fn check(&self, server: &str, remedy: &'static str) -> Result<()> {
        self.resolve(server, remedy).map(drop)
    }

    /// All that the name stands for.
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

/// Whether what is sent there stays on this machine.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Where a listener takes connections: an address of this machine and a port; port 0 takes a free one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenAddress(pub(super) SocketAddr);

impl ListenAddress {
    /// The address of this machine from which `peer` is reached, and any port: the loopback's only if the peer is on this machine.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` if no address of this machine leads there, or the name stands for no host.
    pub fn towards(peer: &PeerAddress, server: &str, remedy: &'static str) -> Result<Self> {
        let mut last = None;
        for address in peer.resolve(server, remedy)? {
            // Sends nothing: the system looks for the way.
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

    /// Whether only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.0.ip())
    }

    /// This machine only, and any port.
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

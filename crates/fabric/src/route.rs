//! How to reach a peer: a choice, made once for each connection, with its reason. Pure; what it is told was found out before.

use crate::transport::{PeerAddress, Transport};
use accord_types::NodeId;
use std::fmt;
use std::str::FromStr;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wanted {
    /// The quickest way that there is.
    #[default]
    Auto,
    /// TCP, also on one machine.
    Tcp,
    /// Shared memory and nothing else.
    Shm,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "tcp" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            _ => Err("use auto, tcp or shm".to_owned()),
        }
    }
}

/// What is known of a peer's agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nearness {
    /// It takes connections of this machine's processes, and runs as the same user, or as root.
    SameMachine,
    /// It does, but it is another user's.
    OtherUser,
    /// Nobody on this machine is it.
    Elsewhere,
}

/// Where a peer takes connections: its node's agent, which passes them on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Its node.
    pub node: NodeId,
    /// Where it takes connections from everywhere.
    pub address: PeerAddress,
}

impl Endpoint {
    /// As the cluster names it, in leases and commands (`host:port`).
    pub fn new(node: NodeId, address: impl fmt::Display) -> Self {
        Self { node, address: PeerAddress::new(address) }
    }

    /// The text of [`Endpoint::new`].
    pub fn as_str(&self) -> &str {
        self.address.as_str()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// How to reach it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where.
    pub endpoint: Endpoint,
    /// What carries the lanes.
    pub transport: Transport,
    /// Why.
    pub why: &'static str,
}

impl Route {
    /// To somebody who takes TCP connections only, as coordinators do.
    pub fn tcp(address: PeerAddress) -> Self {
        let endpoint = Endpoint { node: NodeId(0), address };
        Self { endpoint, transport: Transport::Tcp, why: "it is reached by TCP only" }
    }

    /// Decides.
    pub fn choose(endpoint: Endpoint, wanted: Wanted, nearness: Nearness) -> Self {
        let (transport, why) = match (wanted, nearness) {
            (Wanted::Tcp, _) => (Transport::Tcp, "ACCORD_TRANSPORT=tcp"),
            (Wanted::Shm, _) => (Transport::Shm, "ACCORD_TRANSPORT=shm"),
            (Wanted::Auto, Nearness::SameMachine) => (Transport::Shm, "same machine"),
            (Wanted::Auto, Nearness::OtherUser) => (Transport::Tcp, "same machine, but another user's agent"),
            (Wanted::Auto, Nearness::Elsewhere) => (Transport::Tcp, "another machine"),
        };
        Self { endpoint, transport, why }
    }
}

impl Route {
    /// What carries the lanes, and why, without the address.
    pub fn way(&self) -> String {
        format!("{} ({})", self.transport, self.why)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} ({})", self.transport, self.endpoint, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(wanted: &str, nearness: Nearness) -> String {
        let endpoint = Endpoint { node: NodeId(3), address: PeerAddress::new("h3:7700") };
        Route::choose(endpoint, wanted.parse().unwrap(), nearness).to_string()
    }

    #[test]
    fn memory_is_shared_with_the_own_user_on_the_own_machine() {
        assert_eq!(choose("auto", Nearness::SameMachine), "shm to h3:7700 (same machine)");
        assert_eq!(choose("auto", Nearness::OtherUser), "tcp to h3:7700 (same machine, but another user's agent)");
        assert_eq!(choose("auto", Nearness::Elsewhere), "tcp to h3:7700 (another machine)");
    }

    #[test]
    fn what_was_asked_for_is_done() {
        assert_eq!(choose("tcp", Nearness::SameMachine), "tcp to h3:7700 (ACCORD_TRANSPORT=tcp)");
        assert_eq!(choose("shm", Nearness::Elsewhere), "shm to h3:7700 (ACCORD_TRANSPORT=shm)");
        assert!("TCP".parse::<Wanted>().is_err());
    }
}

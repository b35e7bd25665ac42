//! The choice of a transport to a peer, made once per connection, with its reason. A pure function of the caller's
//! findings.

use crate::transport::{PeerAddress, Transport};
use accord_types::NodeId;
use std::fmt;
use std::str::FromStr;

/// The transport that the user asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportChoice {
    /// The fastest one available.
    #[default]
    Auto,
    /// TCP, also on one machine.
    Tcp,
    /// Shared memory only.
    Shm,
    /// TLS, also on one machine.
    Tls,
    /// The gateway of a job's agent on this machine, and from there MPI.
    Mpi(GatewayName),
}

impl FromStr for TransportChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "tcp" => Ok(Self::Tcp),
            "shm" => Ok(Self::Shm),
            "tls" => Ok(Self::Tls),
            _ => match text.strip_prefix("mpi:") {
                Some(name) => name.parse().map(Self::Mpi),
                None => Err("use auto, tcp, shm, tls, or mpi: and a gateway's name".to_owned()),
            },
        }
    }
}

/// The transports that a session's lanes may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneTerms {
    /// The transport that the user asked for.
    pub wanted: TransportChoice,
    /// Whether the session's grant lets lanes leave a machine in clear.
    pub plain_tcp: bool,
}

impl From<TransportChoice> for LaneTerms {
    /// Keeps lanes in clear on this machine.
    fn from(wanted: TransportChoice) -> Self {
        Self { wanted, plain_tcp: false }
    }
}

/// The name at which a job's agent accepts lanes to other nodes from processes of its own machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayName {
    text: [u8; Self::LEN_MAX],
    len: usize,
}

impl GatewayName {
    /// Longest name.
    const LEN_MAX: usize = 48;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        // The bytes are UTF-8, as they were copied from a `str`.
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }
}

impl FromStr for GatewayName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        let mut text = [0; Self::LEN_MAX];
        match text.get_mut(..name.len()) {
            Some(place) if !name.is_empty() && name.bytes().all(is_fit) => {
                place.copy_from_slice(name.as_bytes());
                Ok(Self { text, len: name.len() })
            }
            _ => Err(format!("a gateway's name has 1 to {} letters, digits, points and dashes", Self::LEN_MAX)),
        }
    }
}

impl fmt::Display for GatewayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The location of a peer's agent, as far as this process can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nearness {
    /// On this machine, as the same user or root.
    SameMachine,
    /// On this machine, as another user.
    OtherUser,
    /// On this machine, but this process can't share memory with the agent, for this reason.
    Unshared(&'static str),
    /// No agent on this machine has the peer's name.
    Elsewhere,
}

/// The findings about a peer from which its route is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The location of the peer's agent.
    pub nearness: Nearness,
    /// Whether the peer's address is a loopback address. That does not prove that the agent is on this machine.
    pub loopback: bool,
}

/// The address at which a peer accepts connections: that of its node's agent, which hands them over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The peer's node.
    pub node: NodeId,
    /// The address for connections from any machine.
    pub address: PeerAddress,
}

impl Endpoint {
    /// Creates the endpoint at an address from a lease or a command (`host:port`).
    pub fn new(node: NodeId, address: impl fmt::Display) -> Self {
        Self { node, address: PeerAddress::new(address) }
    }

    /// Returns the text of [`Endpoint::new`].
    pub fn as_str(&self) -> &str {
        self.address.as_str()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// The name of one executor in a command to another ([`crate::frame::Command::Push`]). Other code treats it as opaque.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directions<'a> {
    address: &'a str,
    /// The other executor's node, by its name.
    pub node_name: &'a str,
}

impl<'a> Directions<'a> {
    /// Returns the parts of the command's payload for an endpoint on a node of that name.
    pub fn payload(endpoint: &'a Endpoint, node_name: &'a str) -> [&'a [u8]; 3] {
        [endpoint.as_str().as_bytes(), b" ", node_name.as_bytes()]
    }

    /// Decodes a payload; `None` if it is malformed.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let (address, node_name) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
        (!address.is_empty() && !node_name.is_empty()).then_some(Self { address, node_name })
    }

    /// Returns the address at which the other executor accepts connections.
    pub fn endpoint(&self, node: NodeId) -> Endpoint {
        Endpoint::new(node, self.address)
    }
}

/// The chosen way to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// The peer's endpoint.
    pub endpoint: Endpoint,
    /// The transport of the lanes.
    pub transport: Transport,
    /// Whether bytes may leave the machine in clear.
    pub exposed: bool,
    /// The reason for the transport.
    pub why: &'static str,
    /// The relay, if not the peer's agent.
    pub gateway: Option<GatewayName>,
}

impl Route {
    /// Returns the route to a local address by TCP. Connecting fails if the address belongs to another machine, so that no
    /// byte leaves this one.
    pub fn tcp(address: PeerAddress) -> Self {
        let endpoint = Endpoint { node: NodeId(0), address };
        Self { endpoint, transport: Transport::Tcp, exposed: false, why: "it is on this machine", gateway: None }
    }

    /// Chooses the route. Bytes that leave the machine, or might, are encrypted by TLS: a relay may listen on a loopback
    /// address. An agent counts as local only if its socket in this network namespace accepts the connection, as a process of
    /// this user or root. Exceptions are a session whose grant allows plain TCP, and a job that uses MPI, whose own messages
    /// are plain too.
    pub fn choose(endpoint: Endpoint, terms: LaneTerms, found: Found) -> Self {
        let LaneTerms { wanted, plain_tcp } = terms;
        let Found { nearness, loopback } = found;
        let (transport, exposed, why) = match (wanted, nearness) {
            (TransportChoice::Shm, _) => (Transport::Shm, false, "ACCORD_TRANSPORT=shm"),
            (TransportChoice::Auto, Nearness::SameMachine) => (Transport::Shm, false, "same machine"),
            (TransportChoice::Tls, _) => (Transport::Tls, false, "ACCORD_TRANSPORT=tls"),
            // The job's own messages use MPI in clear too.
            (TransportChoice::Mpi(_), _) => (Transport::Mpi, true, "ACCORD_TRANSPORT=mpi"),
            (TransportChoice::Tcp, Nearness::SameMachine | Nearness::Unshared(_)) if loopback => {
                (Transport::Tcp, false, "ACCORD_TRANSPORT=tcp")
            }
            (TransportChoice::Auto, Nearness::Unshared(why)) if loopback => (Transport::Tcp, false, why),
            _ if plain_tcp => (Transport::Tcp, true, "not encrypted: --insecure-plain-tcp"),
            (_, Nearness::OtherUser) => (Transport::Tls, false, OTHER_USER),
            (_, Nearness::Unshared(why)) => (Transport::Tls, false, why),
            _ if loopback => (Transport::Tls, false, UNPROVEN),
            _ => (Transport::Tls, false, "another machine"),
        };
        let gateway = if let TransportChoice::Mpi(name) = wanted { Some(name) } else { None };
        Self { endpoint, transport, exposed, why, gateway }
    }
}

const OTHER_USER: &str = "same machine, but another user's agent";
const UNPROVEN: &str = "an address of this machine, but no agent of this user or root has proven to be here";

impl Route {
    /// Returns the transport and the reason, without the address.
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

    fn choose(wanted: &str, nearness: Nearness, loopback: bool, plain_tcp: bool) -> String {
        let endpoint = Endpoint { node: NodeId(3), address: PeerAddress::new("h3:7700") };
        let terms = LaneTerms { wanted: wanted.parse().unwrap(), plain_tcp };
        let route = Route::choose(endpoint, terms, Found { nearness, loopback });
        assert!(!route.exposed || plain_tcp && route.transport == Transport::Tcp || wanted.starts_with("mpi:"));
        route.to_string()
    }

    #[test]
    fn directions_survive_encoding_and_malformed_ones_are_refused() {
        let endpoint = Endpoint::new(NodeId(3), "h3.site:7700");
        let payload = Directions::payload(&endpoint, "h3").concat();
        let read = Directions::read(&payload).unwrap();
        assert_eq!((read.endpoint(NodeId(3)), read.node_name), (endpoint, "h3"));
        for wrong in [&b""[..], b"h3:7700", b" h3", b"h3:7700 ", b"h3:\xff7700 h3"] {
            assert_eq!(Directions::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn memory_is_shared_with_this_user_on_this_machine() {
        let choose = |nearness, loopback| choose("auto", nearness, loopback, false);
        assert_eq!(choose(Nearness::SameMachine, false), "shm to h3:7700 (same machine)");
        assert_eq!(choose(Nearness::SameMachine, true), "shm to h3:7700 (same machine)");
    }

    /// A relay may listen there, reached by a resolver that lies.
    #[test]
    fn a_loopback_address_does_not_prove_a_local_agent() {
        let unproven = format!("tls to h3:7700 ({UNPROVEN})");
        let other = "tls to h3:7700 (same machine, but another user's agent)";
        for wanted in ["auto", "tcp"] {
            assert_eq!(choose(wanted, Nearness::Elsewhere, true, false), unproven);
            assert_eq!(choose(wanted, Nearness::OtherUser, true, false), other);
        }
    }

    #[test]
    fn without_shared_memory_the_next_transport_is_taken() {
        let choose = |wanted, loopback| choose(wanted, Nearness::Unshared("ulimit -f"), loopback, false);
        assert_eq!(choose("auto", true), "tcp to h3:7700 (ulimit -f)");
        assert_eq!(choose("auto", false), "tls to h3:7700 (ulimit -f)");
        assert_eq!(choose("tcp", true), "tcp to h3:7700 (ACCORD_TRANSPORT=tcp)");
        assert_eq!(choose("shm", true), "shm to h3:7700 (ACCORD_TRANSPORT=shm)");
    }

    #[test]
    fn lanes_that_leave_the_machine_are_encrypted_unless_granted() {
        assert_eq!(choose("auto", Nearness::Elsewhere, false, false), "tls to h3:7700 (another machine)");
        assert_eq!(choose("tcp", Nearness::Elsewhere, false, false), "tls to h3:7700 (another machine)");
        let other = "tls to h3:7700 (same machine, but another user's agent)";
        assert_eq!(choose("auto", Nearness::OtherUser, false, false), other);
        let plain = "tcp to h3:7700 (not encrypted: --insecure-plain-tcp)";
        assert_eq!(choose("auto", Nearness::Elsewhere, false, true), plain);
        assert_eq!(choose("tcp", Nearness::Elsewhere, false, true), plain);
    }

    #[test]
    fn the_requested_transport_is_taken() {
        let near = |wanted| choose(wanted, Nearness::SameMachine, true, false);
        assert_eq!(near("tcp"), "tcp to h3:7700 (ACCORD_TRANSPORT=tcp)");
        assert_eq!(near("tls"), "tls to h3:7700 (ACCORD_TRANSPORT=tls)");
        let elsewhere = |wanted| choose(wanted, Nearness::Elsewhere, false, true);
        assert_eq!(elsewhere("shm"), "shm to h3:7700 (ACCORD_TRANSPORT=shm)");
        assert_eq!(elsewhere("tls"), "tls to h3:7700 (ACCORD_TRANSPORT=tls)");
        assert!("TCP".parse::<TransportChoice>().is_err());
        assert_eq!(near("mpi:job-7.0"), "mpi to h3:7700 (ACCORD_TRANSPORT=mpi)");
        for wrong in ["mpi", "mpi:", "mpi:a/b", &format!("mpi:{}", "x".repeat(49))] {
            assert!(wrong.parse::<TransportChoice>().is_err(), "{wrong}");
        }
    }
}

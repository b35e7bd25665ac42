//! Chooses the transport to a peer, and connects.

use super::gateway;
use super::lane::{Lane, SharedLane, Transport};
use super::local_socket::{self, LocalName};
use super::socket;
use crate::route::{Endpoint, Found, LaneTerms, Nearness, Route, TransportChoice};
use accord_types::{Error, ErrorCode, Result, scarce};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Returns whether a peer's agent is on this machine, and can share memory.
fn nearness(peer: &Endpoint) -> Nearness {
    match LocalName::new(peer).and_then(|name| name.connect()) {
        Ok(_) => local_socket::refusal().map_or(Nearness::SameMachine, Nearness::Unshared),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Nearness::OtherUser,
        Err(_) => Nearness::Elsewhere,
    }
}

/// Chooses the transport to a peer's agent.
pub fn route(peer: &Endpoint, terms: LaneTerms) -> Route {
    choose(peer, terms, await_same_machine)
}

/// Returns the route as [`route`], without waiting for a local agent that may still be starting.
pub fn route_now(peer: &Endpoint, terms: LaneTerms) -> Route {
    choose(peer, terms, nearness)
}

/// Chooses the route. `patiently` finds the agent where a local one is expected.
fn choose(peer: &Endpoint, terms: LaneTerms, patiently: fn(&Endpoint) -> Nearness) -> Route {
    // Resolving a name may take long, so that it is resolved only where the result matters.
    let loopback = || peer.address.is_loopback();
    let (nearness, loopback) = match terms.wanted {
        // The choice does not depend on the agent's machine.
        TransportChoice::Tls | TransportChoice::Mpi(_) => (Nearness::Elsewhere, false),
        TransportChoice::Shm => (patiently(peer), false),
        // An agent that does not listen yet is reached by TLS.
        TransportChoice::Tcp if loopback() => (nearness(peer), true),
        TransportChoice::Tcp => (Nearness::Elsewhere, false),
        TransportChoice::Auto => match nearness(peer) {
            Nearness::SameMachine => (Nearness::SameMachine, false),
            nearness => (nearness, loopback()),
        },
    };
    Route::choose(peer.clone(), terms, Found { nearness, loopback })
}

/// Tries for up to a second to find the agent: an agent that has just registered with its coordinator listens a moment later.
fn await_same_machine(peer: &Endpoint) -> Nearness {
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let attempt = |_| match nearness(peer) {
        Nearness::Elsewhere => {
            std::thread::sleep(PAUSE);
            None
        }
        nearness => Some(nearness),
    };
    (0..ATTEMPTS).find_map(attempt).unwrap_or(Nearness::Elsewhere)
}

/// Connects by the transport of `route`, runs the handshake `introduce`, and returns the lane. `server` names the peer
/// in messages.
pub(crate) fn connect(
    route: &Route,
    server: &str,
    remedy: &'static str,
    timeout: Duration,
    introduce: impl FnOnce(&dyn Lane) -> Result<()>,
) -> Result<SharedLane> {
    let address = &route.endpoint.address;
    let failed = |error: io::Error| {
        let cause = format!("cannot connect to the {server} at {address}: {error}");
        Error::new(ErrorCode::DeviceUnavailable, cause).remedy(scarce::remedy(&error).unwrap_or(socket::UNREACHED))
    };
    if let Some(gateway) = &route.gateway {
        let lane = gateway::connect(gateway, route.endpoint.node, timeout).map_err(|error| {
            let cause = format!("cannot connect to the {server} of node {} by MPI: {error}", route.endpoint.node.0);
            let remedy = match error.kind() {
                // The connection broke during the handshake.
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => {
                    "see the agents' messages"
                }
                _ => "start the program again: the job's agents are gone",
            };
            Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy)
        })?;
        introduce(&*lane)?;
        return Ok(lane);
    }
    if route.transport != Transport::Shm {
        let lane = socket::connect(address, server, remedy, timeout)?;
        // The name may resolve to another address than when the route was chosen.
        if route.transport == Transport::Tcp && !route.exposed && lane.properties().leaves_machine {
            let cause = format!("the {server} at {address} is not on this machine, and its lane would be in clear");
            return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("try again"));
        }
        introduce(&*lane)?;
        return Ok(lane);
    }
    let absent = |error: io::Error| {
        let cause = format!("the {server} at {address} does not take shared memory from here: {error}");
        Error::new(ErrorCode::DeviceUnavailable, cause).remedy("set ACCORD_TRANSPORT to auto")
    };
    let name = LocalName::new(&route.endpoint).map_err(absent)?;
    let socket = local_socket::begin(name.connect().map_err(absent)?);
    introduce(&socket)?;
    local_socket::offer(socket).map_err(failed)
}

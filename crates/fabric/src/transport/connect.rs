//! Chooses the way to a peer, and goes it.

use super::lane::{Lane, SharedLane, Transport};
use super::local_socket::{self, LocalName};
use super::socket;
use crate::route::{Endpoint, Nearness, Route, Wanted};
use accord_types::{Error, ErrorCode, Result};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Looks whether a peer's agent is on this machine.
fn nearness(peer: &Endpoint) -> Nearness {
    match LocalName::new(peer).and_then(|name| name.connect()) {
        Ok(_) => Nearness::SameMachine,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Nearness::OtherUser,
        Err(_) => Nearness::Elsewhere,
    }
}

/// Chooses the way to a peer's agent.
pub fn route(peer: &Endpoint, wanted: Wanted) -> Route {
    let nearness = match wanted {
        // Nobody asks.
        Wanted::Tcp => Nearness::Elsewhere,
        Wanted::Auto => nearness(peer),
        Wanted::Shm => await_same_machine(peer),
    };
    Route::choose(peer.clone(), wanted, nearness)
}

/// As [`route`], as things are now: waits for no agent that may only be starting.
pub fn route_now(peer: &Endpoint, wanted: Wanted) -> Route {
    let nearness = if wanted == Wanted::Tcp { Nearness::Elsewhere } else { nearness(peer) };
    Route::choose(peer.clone(), wanted, nearness)
}

/// An agent that has just been taken in by its coordinator listens a moment later.
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

/// Connects as `route` says, has `introduce` do the handshake, and returns the lane. `server` is who should be there, for messages.
pub(crate) fn connect(
    route: &Route,
    server: &str,
    remedy: &'static str,
    timeout: Duration,
    introduce: impl FnOnce(&dyn Lane) -> Result<()>,
) -> Result<SharedLane> {
    let address = &route.endpoint.address;
    let failed = |error: io::Error| {
        Error::new(ErrorCode::DeviceUnavailable, format!("cannot connect to the {server} at {address}: {error}"))
    };
    if route.transport != Transport::Shm {
        let lane = socket::connect(address, server, remedy, timeout)?;
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

//! A job of two ranks, and a process that connects through the first one's gateway to the second.

use super::worlds::two_ranks;
use super::{SOON, pattern};
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, TransportChoice};
use accord_fabric::transport::gateway::Gateway;
use accord_fabric::transport::mpi::MpiFabric;
use accord_fabric::transport::{SharedLane, route};
use accord_types::{NodeId, SessionId};
use std::io::ErrorKind;
use std::sync::Arc;

/// The node of the second rank.
pub(crate) const NODE: NodeId = NodeId(7);

/// Returns two ranks, the second of which is [`NODE`], and the route through the first one's gateway.
pub(crate) fn job(name: &str) -> (Arc<MpiFabric>, MpiFabric, TransportChoice) {
    let [here, there] = two_ranks();
    let (name, here) = (format!("test-{}-{name}", std::process::id()), Arc::new(here));
    there.announce(NODE);
    assert!(here.await_rank(1, SOON));
    let (gateway, fabric) = (Gateway::bind(&name.parse().unwrap()).unwrap(), here.clone());
    let again = Gateway::bind(&name.parse().unwrap()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    std::thread::spawn(move || gateway.serve(&fabric, |_| ()));
    (here, there, format!("mpi:{name}").parse().unwrap())
}

/// Returns the process's hello.
pub(crate) fn hello() -> Hello {
    Hello::new(Purpose::Bulk, SessionId(3), 0, PeerId::PROGRAM)
}

/// Returns both ranks, and both ends of a lane through the gateway: the process's and the second rank's.
pub(crate) fn lanes(name: &str) -> ([Arc<MpiFabric>; 2], SharedLane, SharedLane) {
    let (here, there, wanted) = job(name);
    let (key, there) = (Key::new(pattern(32, 5)).unwrap(), Arc::new(there));
    let (of_server, server) = (key.clone(), there.clone());
    let far = std::thread::spawn(move || {
        let (lane, _) = server.accept().unwrap();
        handshake::accept(&*lane, &of_server, SOON).unwrap();
        lane
    });
    let near =
        handshake::connect_by(&route(&Endpoint::new(NODE, "nowhere:1"), wanted.into()), &hello(), &key, SOON).unwrap();
    ([here, there], near, far.join().unwrap())
}

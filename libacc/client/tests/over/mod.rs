//! All tests over the transport that `common::wanted` reads from the executable's name.
#![allow(clippy::duplicate_mod)]

#[path = "../between.rs"]
mod between;
#[path = "../copies.rs"]
mod copies;
#[path = "../faults.rs"]
mod faults;
#[path = "../remote.rs"]
mod remote;
#[path = "../replaced.rs"]
mod replaced;

/// Asserts that a program's link uses this transport.
pub(crate) fn check(transport: accord_fabric::transport::Transport) {
    let world = remote::common::world(1, 1, Vec::new());
    world.client(0);
    let report = world.session.report().unwrap();
    assert_eq!(report[0].route.transport, transport, "{}", report[0].route);
}

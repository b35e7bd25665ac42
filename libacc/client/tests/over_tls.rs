//! What the other tests do over shared memory, through TLS.
#![allow(clippy::duplicate_mod)]

#[path = "between.rs"]
mod between;
#[path = "copies.rs"]
mod copies;
#[path = "faults.rs"]
mod faults;
#[path = "remote.rs"]
mod remote;
#[path = "replaced.rs"]
mod replaced;

#[test]
fn these_are_over_tls() {
    use accord_fabric::transport::Transport;
    let world = remote::common::world(1, 1, Vec::new());
    world.client(0);
    let report = world.session.report().unwrap();
    assert_eq!(report[0].route.transport, Transport::Tls, "{}", report[0].route);
}

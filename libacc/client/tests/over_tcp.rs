//! The other tests' content over TCP instead of shared memory.

mod over;

#[test]
fn device_client_over_tcp() {
    over::check(accord_fabric::transport::Transport::Tcp);
}

//! The other tests' content over TLS instead of shared memory.

mod over;

#[test]
fn device_client_over_tls() {
    over::check(accord_fabric::transport::Transport::Tls);
}

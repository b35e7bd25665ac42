//! The other tests' content over TLS instead of shared memory.

mod over;

#[test]
fn these_are_over_tls() {
    over::check(accord_fabric::transport::Transport::Tls);
}

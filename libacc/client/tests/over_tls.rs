//! What the other tests do over shared memory, through TLS.

mod over;

#[test]
fn these_are_over_tls() {
    over::check(accord_fabric::transport::Transport::Tls);
}

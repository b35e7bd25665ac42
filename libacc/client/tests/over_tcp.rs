//! What the other tests do over shared memory, over TCP.

mod over;

#[test]
fn these_are_over_tcp() {
    over::check(accord_fabric::transport::Transport::Tcp);
}

//! What launches through TLS take from the heap, counted: a record for what goes out at once, and no more.

#[path = "../../libacc/client/tests/common/mod.rs"]
mod common;
mod counting;

use accord_fabric::transport::Transport;
use common::*;

const LAUNCHES: u64 = 2_000;

#[test]
fn a_launch_over_tls_takes_a_record_at_most() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    assert_eq!(world.session.report().unwrap()[0].route.transport, Transport::Tls);
    // This thread sends at most one record for a launch, and one for a wait. In all there are the executor's records, and what the fake device takes.
    let cases = [("async launches", false, 1, 5), ("launches that are waited for", true, 2, 12)];
    for (what, waits, here_max, everywhere_max) in cases {
        let run = |count: u64| {
            for _ in 0..count {
                launch(&*client, Q1, EMPTY, &[]).unwrap();
                if waits {
                    client.wait(&[Q1]).unwrap();
                }
            }
            client.wait(&[Q1]).unwrap();
        };
        run(LAUNCHES);
        let (here, everywhere) = (counting::here(), counting::everywhere());
        run(LAUNCHES);
        let (here, everywhere) = (counting::here() - here, counting::everywhere() - everywhere);
        println!("{LAUNCHES} {what}: {here} by this thread, {everywhere} by all of program and executor");
        assert!(here <= here_max * LAUNCHES, "{here} for {LAUNCHES} {what}");
        assert!(everywhere <= everywhere_max * LAUNCHES, "{everywhere} in all for {LAUNCHES} {what}");
    }
}

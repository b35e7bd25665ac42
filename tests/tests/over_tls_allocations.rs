//! Heap allocations of launches through TLS, counted: one record per send, and no more.

#[path = "../../libacc/client/tests/common/mod.rs"]
mod common;
mod counting;

use accord_fabric::transport::Transport;
use common::*;
use std::time::{Duration, Instant};

const LAUNCHES: u64 = 2_000;
/// A thread that waits for longer makes the watchdog check whether the executor lives.
const LONG_WAIT: Duration = Duration::from_millis(20);

#[test]
fn a_launch_over_tls_takes_a_record_at_most() {
    let world = world(1, 1, regions(&Gate::default()));
    let client = world.client(0);
    assert_eq!(world.session.report().unwrap()[0].route.transport, Transport::Tls);
    // This thread sends at most one record for a launch, and one for a wait. The total adds the executor's records, and
    // the fake device's allocations.
    let cases = [("async launches", false, 1, 5), ("launches that are waited for", true, 2, 12)];
    for (what, waits, here_max, everywhere_max) in cases {
        // This thread's allocations, and the number of rounds. A round with a long wait does not count, because it may
        // have started the watchdog's thread.
        let run = || {
            let (mut here, mut rounds) = (0, 0);
            for _ in 0..LAUNCHES {
                let (before, began) = (counting::here(), Instant::now());
                launch(&*client, Q1, EMPTY, &[]).unwrap();
                if waits {
                    client.wait(&[Q1]).unwrap();
                }
                if began.elapsed() < LONG_WAIT {
                    (here, rounds) = (here + counting::here() - before, rounds + 1);
                }
            }
            client.wait(&[Q1]).unwrap();
            (here, rounds)
        };
        run();
        let everywhere = counting::everywhere();
        let (here, rounds) = run();
        let everywhere = counting::everywhere() - everywhere;
        println!(
            "{LAUNCHES} {what}: {here} by this thread in {rounds}, {everywhere} by all of program and executor in all"
        );
        assert!(rounds > 0 && here <= here_max * rounds, "{here} for {rounds} {what}");
        assert!(everywhere <= everywhere_max * LAUNCHES, "{everywhere} in all for {LAUNCHES} {what}");
    }
}

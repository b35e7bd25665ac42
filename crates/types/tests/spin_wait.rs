//! A wait spins where recent waits were short, and blocks otherwise.

use accord_types::signal::SharedSpinPolicy;
use accord_types::spin_policy::{POLLS_PER_YIELD, SpinPolicy};
use std::time::{Duration, Instant};

/// Returns the policy of a thread whose waits took 5 us.
fn of_short_waits() -> SpinPolicy {
    let mut spin = SpinPolicy::new(4);
    (0..40).for_each(|_| spin.waited(Duration::from_micros(5)));
    spin
}

#[test]
fn a_wait_blocks_only_if_spinning_finds_nothing() {
    let mut blocked = 0;
    SpinPolicy::new(4).wait(|| true, || blocked += 1);
    assert_eq!(blocked, 1, "no wait is known yet, so that it does not spin");
    let mut spin = of_short_waits();
    spin.wait(|| true, || blocked += 1);
    assert_eq!(blocked, 1);
    spin.wait(|| false, || blocked += 1);
    assert_eq!(blocked, 2);
    let shared = SharedSpinPolicy::from(of_short_waits());
    shared.wait(|| true, || blocked += 1);
    assert_eq!(blocked, 2);
    shared.wait(|| false, || blocked += 1);
    assert_eq!(blocked, 3);
}

#[test]
fn a_wait_is_recorded() {
    let mut spin = of_short_waits();
    // Single long waits do not end spinning, but several do.
    for _ in 0..20 {
        spin.wait(|| false, || std::thread::sleep(Duration::from_millis(1)));
    }
    assert_eq!(spin.limit(), Duration::ZERO);
    assert_eq!(spin.spin(Instant::now(), POLLS_PER_YIELD, || Some(1)), None);
}

#[test]
fn spinning_returns_the_value_found() {
    let mut polls = 0..;
    let found = of_short_waits().spin(Instant::now(), POLLS_PER_YIELD, || polls.next().filter(|&poll| poll == 3));
    assert_eq!(found, Some(3));
}

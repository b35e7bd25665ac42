//! Thousands of unauthenticated connections cost the coordinator little, and do not delay honest programs.

use crate::crowd::{CROWD, assert_idle, gather, has_space, measured};
use crate::watched::{ANSWERED_WITHIN, Coordinator};
use std::time::{Duration, Instant};

const MEMORY_MAX_KIB: u64 = 64 << 10;
/// Most descriptors of the coordinator: 1,024 unauthenticated connections and a few others.
const DESCRIPTORS_MAX: usize = 1_100;
/// Most additional threads: those that the runtime starts on demand, and none per connection.
const THREADS_MORE_MAX: u64 = 16;
fn honest_programs_are_answered_under(coordinator: &Coordinator, whom: &str, many: u64, addresses: u64, words: &[u8]) {
    if !has_space() {
        return;
    }
    coordinator.ask();
    let before = coordinator.cost();
    let crowd = gather(coordinator.address, many, addresses, words);
    let (mut longest, mut longest_waits, mut threads) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..20 {
        let (waited, begin) = (coordinator.waited(), Instant::now());
        coordinator.ask();
        let (took, waited) = (begin.elapsed(), coordinator.waited().since(&waited));
        threads = threads.max(coordinator.cost().threads);
        longest_waits = longest_waits.max(took);
        longest = longest.max(took.saturating_sub(waited));
    }
    let after = coordinator.cost();
    let grown = after.memory_kib.saturating_sub(before.memory_kib);
    let each = (after.processor() - before.processor()) / u32::try_from(crowd.len()).unwrap();
    println!(
        "under {} connections: answered within {longest_waits:?}, {longest:?} without what others had the processors, {grown} KiB more, at most {threads} threads of {}, {each:?} of a processor for each",
        crowd.len(),
        before.threads,
    );
    let figures = [
        ("us of a processor for each", each.as_secs_f64() * 1e6),
        ("threads", threads as f64),
        ("MiB more", grown as f64 / 1024.0),
        ("ms to an honest answer, at most", longest_waits.as_secs_f64() * 1e3),
    ];
    measured("coordinator", whom, &figures);
    assert!(longest < ANSWERED_WITHIN, "an honest program waited {longest:?}");
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
    assert!(after.descriptors < DESCRIPTORS_MAX, "{} descriptors", after.descriptors);
    assert!(threads <= before.threads + THREADS_MORE_MAX, "{threads} threads, {} before", before.threads);
}

#[test]
fn honest_programs_are_answered_while_thousands_say_nothing() {
    honest_programs_are_answered_under(&Coordinator::start(None), "10,000 silent connections", CROWD, 50, b"");
}

#[test]
fn honest_programs_are_answered_while_thousands_stop_in_the_middle_of_a_handshake() {
    // Announces a TLS record of 512 bytes.
    let whom = "10,000 that stop in the middle of a handshake";
    honest_programs_are_answered_under(&Coordinator::start(None), whom, CROWD, 5_000, &[0x16, 3, 1, 2, 0, 1, 0, 1]);
}

#[test]
fn honest_programs_are_answered_though_there_are_few_descriptors() {
    let whom = "2,000 silent ones, with 256 descriptors";
    honest_programs_are_answered_under(&Coordinator::start(Some(256)), whom, 2_000, 50, b"");
}

#[test]
fn silent_connections_do_not_wake_the_coordinator() {
    const SILENT: u64 = 400;
    let coordinator = Coordinator::start(None);
    coordinator.ask();
    let _crowd = gather(coordinator.address, SILENT, 50, b"");
    assert_idle(coordinator.child.id(), "coordinator", SILENT);
}

//! Thousands of connections that prove nothing: they cost the agent little, and honest sessions do not wait for them.

#[path = "../../coordinator/tests/crowd/mod.rs"]
#[allow(dead_code)]
mod crowd;
mod support;

use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_types::SessionId;
use crowd::{CROWD, Cost, Waited, assert_idle, gather, has_room, measured};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::{Cluster, command_lane};

/// Addresses that the crowd comes from.
const ADDRESSES: u64 = 50;
/// A few that the agent has without a crowd, and its 512 of handshakes.
const THREADS_MAX: u64 = 550;
const MEMORY_MAX_KIB: u64 = 64 << 10;
/// What an honest session may take to open.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

fn honest_sessions_open_under(whom: &str, many: u64, words: &[u8]) {
    if !has_room() {
        return;
    }
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let process = agent.child.id();
    let address: SocketAddr = agent.address.as_str().parse().unwrap();
    let before = Cost::of(process);
    let crowd = gather(address, many, ADDRESSES, words);
    let (mut longest, mut longest_waits, mut threads) = (Duration::ZERO, Duration::ZERO, 0);
    for _ in 0..20 {
        let (lease, _door) = cluster.open("elsewhere");
        let (waited, begin) = (Waited::until_now(process), Instant::now());
        let _lane = command_lane(&lease).unwrap();
        let took = begin.elapsed();
        longest_waits = longest_waits.max(took);
        longest = longest.max(took.saturating_sub(Waited::until_now(process).since(&waited)));
        threads = threads.max(Cost::of(process).threads);
    }
    let after = Cost::of(process);
    let grown = after.memory_kib.saturating_sub(before.memory_kib);
    let each = (after.processor() - before.processor()) / u32::try_from(crowd.len()).unwrap();
    println!(
        "under {} connections: opened within {longest_waits:?}, {longest:?} without what others had the processors, {threads} threads, {grown} KiB more",
        crowd.len()
    );
    let figures = [
        ("us of a processor for each", each.as_secs_f64() * 1e6),
        ("threads", threads as f64),
        ("MiB more", grown as f64 / 1024.0),
        ("ms to an honest session, at most", longest_waits.as_secs_f64() * 1e3),
    ];
    measured("agent", whom, &figures);
    assert!(longest < OPENS_WITHIN, "an honest session took {longest:?} to open");
    assert!(threads < THREADS_MAX, "{threads} threads");
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
}

#[test]
fn whoever_says_nothing_does_not_wake_an_agent() {
    const SILENT: u64 = 400;
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let _crowd = gather(agent.address.as_str().parse().unwrap(), SILENT, ADDRESSES, b"");
    assert_idle(agent.child.id(), "agent", SILENT);
}

#[test]
fn honest_sessions_open_while_thousands_say_nothing() {
    honest_sessions_open_under("10,000 silent connections", CROWD, b"");
}

#[test]
fn honest_sessions_open_while_thousands_stop_in_the_middle_of_their_introduction() {
    honest_sessions_open_under("10,000 that stop in the middle of their hello", CROWD, b"ACCORD\r\n");
}

#[test]
fn honest_sessions_open_while_thousands_name_sessions_that_are_not_there() {
    let hello = Hello::new(Purpose::Bulk, SessionId(0xdead), 0, PeerId::PROGRAM);
    honest_sessions_open_under("10,000 that name no session", CROWD, &hello.encode(&[9; 32]));
}

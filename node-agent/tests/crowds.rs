//! Thousands of unauthenticated connections: they cost the agent little, and do not delay honest sessions.

#[path = "../../coordinator/tests/crowd/mod.rs"]
#[allow(dead_code)]
mod crowd;
mod support;

use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_types::{Lease, SessionId};
use crowd::{CROWD, Cost, Waited, assert_idle, gather, has_space, measured};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use support::{Cluster, SOON, command_lane};

/// Number of addresses of the crowd.
const ADDRESSES: u64 = 50;
/// Most threads of honest sessions, whose ends take a moment. No connection of a crowd has a thread.
const MORE_THREADS_MAX: u64 = 12;
/// Fewest connections of the crowd that must wait while an honest session opens: half of the agent's places for them.
const WAITING_MIN: usize = 256;
const MEMORY_MAX_KIB: u64 = 64 << 10;
/// The time limit for opening an honest session.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

/// Opens honest sessions while a crowd of connections sends `words` for an existing session. `waits` says whether these
/// wait until a timeout or an eviction.
fn honest_sessions_open_under(whom: &str, waits: bool, words: impl FnOnce(&Lease) -> Vec<u8>) {
    if !has_space() {
        return;
    }
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let process = agent.child.id();
    let address: SocketAddr = agent.address.as_str().parse().unwrap();
    let (wanted, _wanted_door) = cluster.open("elsewhere");
    let _wanted_lane = command_lane(&wanted).unwrap();
    let before = Cost::of(process);
    let words = words(&wanted);
    let crowd = gather(address, CROWD, ADDRESSES, &words);
    let (mut longest, mut longest_waits, mut threads) = (Duration::ZERO, Duration::ZERO, 0);
    let waiting = || Cost::of(process).descriptors.saturating_sub(before.descriptors);
    let (mut others, mut count) = (Vec::new(), crowd.len());
    for _ in 0..20 {
        // On a busy machine, earlier connections may have timed out.
        let begin = Instant::now();
        while waits && waiting() < WAITING_MIN {
            assert!(begin.elapsed() < SOON, "only {} of the crowd wait", waiting());
            others = gather(address, 2 * WAITING_MIN as u64, ADDRESSES, &words);
            count += others.len();
        }
        let (lease, _door) = cluster.open("elsewhere");
        let (waited, begin) = (Waited::until_now(process), Instant::now());
        let _lane = command_lane(&lease).unwrap();
        let took = begin.elapsed();
        longest_waits = longest_waits.max(took);
        longest = longest.max(took.saturating_sub(Waited::until_now(process).since(&waited)));
        threads = threads.max(Cost::of(process).threads);
    }
    drop(others);
    let after = Cost::of(process);
    let grown = after.memory_kib.saturating_sub(before.memory_kib);
    let each = (after.processor() - before.processor()) / u32::try_from(count).unwrap();
    println!(
        "under {count} connections: opened within {longest_waits:?}, {longest:?} without what others had the processors, {threads} threads after {}, {grown} KiB more",
        before.threads
    );
    drop(crowd);
    let figures = [
        ("us of a processor for each", each.as_secs_f64() * 1e6),
        ("threads", threads as f64),
        ("MiB more", grown as f64 / 1024.0),
        ("ms to an honest session, at most", longest_waits.as_secs_f64() * 1e3),
    ];
    measured("agent", whom, &figures);
    assert!(longest < OPENS_WITHIN, "an honest session took {longest:?} to open");
    assert!(threads <= before.threads + MORE_THREADS_MAX, "{threads} threads, {} without the crowd", before.threads);
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
}

/// Returns a bulk lane's hello.
fn hello(session: SessionId) -> Vec<u8> {
    Hello::new(Purpose::Bulk, session, 0, PeerId::PROGRAM).encode(&[9; 32]).to_vec()
}

#[test]
fn silent_connections_do_not_wake_an_agent() {
    const SILENT: u64 = 400;
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let _crowd = gather(agent.address.as_str().parse().unwrap(), SILENT, ADDRESSES, b"");
    assert_idle(agent.child.id(), "agent", SILENT);
}

#[test]
fn honest_sessions_open_while_thousands_say_nothing() {
    honest_sessions_open_under("10,000 silent connections", true, |_| Vec::new());
}

#[test]
fn honest_sessions_open_while_thousands_stop_in_the_middle_of_their_introduction() {
    honest_sessions_open_under("10,000 that stop in the middle of their hello", true, |_| b"ACCORD\r\n".to_vec());
}

#[test]
fn honest_sessions_open_while_thousands_name_sessions_that_are_not_there() {
    honest_sessions_open_under("10,000 that name no session", true, |_| hello(SessionId(0xdead)));
}

#[test]
fn honest_sessions_open_while_thousands_name_a_session_and_do_not_prove_its_key() {
    honest_sessions_open_under("10,000 that name a session and prove nothing", true, |wanted| hello(wanted.session));
}

#[test]
fn honest_sessions_open_while_thousands_have_other_keys() {
    let wrong = |wanted: &Lease| [hello(wanted.session), vec![7; 32]].concat();
    honest_sessions_open_under("10,000 that name a session and have another key", false, wrong);
}

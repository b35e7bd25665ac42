//! Thousands of connections that prove nothing: they cost the agent little, and honest sessions do not wait for them.

mod support;

use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_types::SessionId;
use rustix::net::{AddressFamily, SocketType, bind, connect, send, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use support::{Cluster, command_lane};

const CROWD: u64 = 10_000;
/// A smaller one, of which each costs a thread for a moment.
const SPEAKING_CROWD: u64 = 2_000;
/// Addresses that the crowd comes from.
const ADDRESSES: u32 = 50;
/// A few that the agent has without a crowd, and its 512 of handshakes.
const THREADS_MAX: u64 = 550;
const MEMORY_MAX_KIB: u64 = 64 << 10;
/// What an honest session may take to open.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

/// Room for a crowd, if the system gives it.
fn raise_descriptors() -> bool {
    let wanted = CROWD + 1_000;
    let before = getrlimit(Resource::Nofile);
    let maximum = before.maximum.map(|maximum| maximum.max(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }));
    raised.is_ok() && getrlimit(Resource::Nofile).current.is_none_or(|current| current >= wanted)
}

/// A connection from a loopback address of its own that says `words`.
fn stranger(to: SocketAddr, number: u64, words: &[u8]) -> Option<OwnedFd> {
    let from = Ipv4Addr::from(0x7f00_0100 + (number as u32 % ADDRESSES));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddrV4::new(from, 0)).ok()?;
    connect(&socket, &to).ok()?;
    if !words.is_empty() {
        let _ = send(&socket, words, rustix::net::SendFlags::NOSIGNAL);
    }
    Some(socket)
}

/// A number out of the agent's status.
fn status(process: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

fn honest_sessions_open_under(many: u64, words: &[u8]) {
    if !raise_descriptors() {
        println!("skipped: {CROWD} connections need a higher limit on open files");
        return;
    }
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let process = agent.child.id();
    let address: SocketAddr = agent.address.as_str().parse().unwrap();
    let before = status(process, "VmRSS");
    let crowd: Vec<OwnedFd> = (0..many).filter_map(|number| stranger(address, number, words)).collect();
    assert!(crowd.len() as u64 > many * 9 / 10, "only {} of {many} have connected", crowd.len());
    let (mut longest, mut threads) = (Duration::ZERO, 0);
    for _ in 0..20 {
        let (lease, _door) = cluster.open("elsewhere");
        let begin = Instant::now();
        let _lane = command_lane(&lease).unwrap();
        longest = longest.max(begin.elapsed());
        threads = threads.max(status(process, "Threads"));
    }
    let grown = status(process, "VmRSS").saturating_sub(before);
    println!("under {} connections: opened within {longest:?}, {threads} threads, {grown} KiB more", crowd.len());
    assert!(longest < OPENS_WITHIN, "an honest session took {longest:?} to open");
    assert!(threads < THREADS_MAX, "{threads} threads");
    assert!(grown < MEMORY_MAX_KIB, "{grown} KiB more");
}

#[test]
fn honest_sessions_open_while_thousands_say_nothing() {
    honest_sessions_open_under(CROWD, b"");
}

#[test]
fn honest_sessions_open_while_thousands_stop_in_the_middle_of_their_introduction() {
    honest_sessions_open_under(SPEAKING_CROWD, b"ACCORD\r\n");
}

#[test]
fn honest_sessions_open_while_thousands_name_sessions_that_are_not_there() {
    let hello = Hello::new(Purpose::Bulk, SessionId(0xdead), 0, PeerId::PROGRAM);
    honest_sessions_open_under(SPEAKING_CROWD, &hello.encode(&[9; 32]));
}

//! Many connections to one process, and what they cost it.

use rustix::net::{AddressFamily, SendFlags, SocketType, bind, connect, send, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// Connections of a crowd that says nothing.
pub(crate) const CROWD: u64 = 10_000;

/// Room for [`CROWD`], if the system gives it; says so if not.
pub(crate) fn has_room() -> bool {
    let wanted = CROWD + 1_000;
    let before = getrlimit(Resource::Nofile);
    let maximum = before.maximum.map(|maximum| maximum.max(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }));
    let enough = raised.is_ok() && getrlimit(Resource::Nofile).current.is_none_or(|current| current >= wanted);
    if !enough {
        println!("skipped: {CROWD} connections need a higher limit on open files");
    }
    enough
}

/// So many connections, from so many loopback addresses, that say `words`. Most are there.
pub(crate) fn gather(to: SocketAddr, many: u64, addresses: u64, words: &[u8]) -> Vec<OwnedFd> {
    let crowd: Vec<_> = (0..many).filter_map(|number| stranger(to, number % addresses, words)).collect();
    assert!(crowd.len() as u64 > many * 9 / 10, "only {} of {many} have connected", crowd.len());
    crowd
}

fn stranger(to: SocketAddr, from: u64, words: &[u8]) -> Option<OwnedFd> {
    let from = Ipv4Addr::from(0x7f00_0100 + from as u32);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddrV4::new(from, 0)).ok()?;
    connect(&socket, &to).ok()?;
    if !words.is_empty() {
        let _ = send(&socket, words, SendFlags::NOSIGNAL);
    }
    Some(socket)
}

/// A number out of a process's status.
pub(crate) fn status(process: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

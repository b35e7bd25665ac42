//! Files of hosts, which sites and their launchers write.

use crate::{Memory, Target};

/// The command line is a program and no library: this is its module.
#[path = "../../../cli/src/launch/host_list.rs"]
mod code;

use code::parse_hosts;

/// Hosts, one a line.
pub(super) const HOSTS: Target = Target {
    name: "hosts",
    run: hosts,
    seeds,
    words: &["\n", "#", ":", " slots=", "max_slots=", "\r\n", "\u{2003}", "[::1]"],
    input_max: 512,
    // A line of one letter is a text of its own, and is looked up.
    memory: Memory { fixed: 8 << 10, per_byte: 96 },
    inputs: 20_000,
};

fn hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let hosts = parse_hosts(&text);
    for (at, host) in hosts.iter().enumerate() {
        assert!(!host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "#:".contains(c)), "{host:?}");
        assert!(text.contains(host.as_str()) && !hosts[..at].contains(host));
    }
    // Once more, as it is written for mpirun.
    let again: String = hosts.iter().map(|host| format!("{host} slots=1\n")).collect();
    assert_eq!(parse_hosts(&again), hosts);
}

fn seeds() -> Vec<Vec<u8>> {
    vec![b"n1\n".to_vec()]
}

//! Host files, which sites and launchers write.

use crate::{Memory, Target};

/// The command line is a program without a library, so this includes its module.
#[path = "../../../cli/src/launch/host_list.rs"]
mod code;

use code::HostFile;

/// Hosts, one per line.
pub(super) const HOSTS: Target = Target {
    name: "hosts",
    run: hosts,
    seeds,
    words: &["\n", "#", ":", "@", " slots=", "user=", "max_slots=", "\r\n", "\u{2003}", "[::1]"],
    input_max: 512,
    // A line of one letter is a host of its own and is looked up; the result is parsed again.
    memory: Memory { fixed: 8 << 10, per_byte: 1 << 10 },
    inputs: 20_000,
};

fn hosts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let file = HostFile::parse(&text);
    let hosts = file.names();
    for (at, host) in hosts.iter().enumerate() {
        assert!(!host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "#@".contains(c)), "{host:?}");
        assert!(text.contains(host.as_str()) && !hosts[..at].contains(host));
    }
    // The same list, as written for mpirun.
    let again: String = hosts.iter().map(|host| format!("{host} slots=1\n")).collect();
    assert_eq!(HostFile::parse(&again).names(), hosts);
    // Both kinds of mpirun get the same hosts, and their files parse to the same list.
    let forms = [file.for_hydra(), file.for_open_mpi().map(Option::unwrap_or_default)];
    for own in forms.into_iter().flatten().filter(|own| !own.is_empty()) {
        let read = HostFile::parse(&own);
        assert_eq!(read.names(), hosts, "{own}");
        assert_eq!(read.for_hydra(), file.for_hydra(), "{own}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![b"n1\n".to_vec()]
}

//! Opens many connections to a process, and measures their cost.

use rustix::net::{AddressFamily, SendFlags, SocketType, bind, connect, send, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Number of connections of a crowd.
pub(crate) const CROWD: u64 = 10_000;

/// Whether the limit on descriptors permits [`CROWD`] connections, after raising it.
pub(crate) fn has_space() -> bool {
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

/// Opens `many` connections from `addresses` loopback addresses that send `words`. Nearly all must succeed.
pub(crate) fn gather(to: SocketAddr, many: u64, addresses: u64, words: &[u8]) -> Vec<OwnedFd> {
    let crowd: Vec<_> = (0..many).filter_map(|number| unauthenticated(to, number % addresses, words)).collect();
    assert!(crowd.len() as u64 > many * 9 / 10, "only {} of {many} have connected", crowd.len());
    crowd
}

/// Opens a connection from one of these addresses that sends `words`.
pub(crate) fn unauthenticated(to: SocketAddr, from: u64, words: &[u8]) -> Option<OwnedFd> {
    let from = Ipv4Addr::from(0x7f00_0100 + from as u32);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddrV4::new(from, 0)).ok()?;
    connect(&socket, &to).ok()?;
    if !words.is_empty() {
        let _ = send(&socket, words, SendFlags::NOSIGNAL);
    }
    Some(socket)
}

/// Returns a number from a process's status.
pub(crate) fn status(process: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// The time for which each thread of this process, of another one and of that one's children was runnable but did not
/// run. Tests subtract it, so that other load on the machine does not make them fail.
pub(crate) struct Waited(HashMap<String, Duration>);

impl Waited {
    pub(crate) fn until_now(process: u32) -> Self {
        let mut all = HashMap::new();
        add(&mut all, Path::new("/proc/self/task"));
        let own = format!("/proc/{process}/task");
        add(&mut all, own.as_ref());
        for thread in std::fs::read_dir(own).unwrap().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            children.split_whitespace().for_each(|child| add(&mut all, format!("/proc/{child}/task").as_ref()));
        }
        Self(all)
    }

    /// Returns the sum over all threads that still exist.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let grown = |(thread, time): (&String, &Duration)| match before.0.get(thread) {
            Some(before) => time.saturating_sub(*before),
            None => *time,
        };
        self.0.iter().map(grown).sum()
    }
}

fn add(all: &mut HashMap<String, Duration>, threads: &Path) {
    // Processes and threads may end in between.
    for thread in std::fs::read_dir(threads).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        // The second number is the time on a run queue, in nanoseconds.
        let waited = text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
        all.insert(thread.file_name().to_string_lossy().into_owned(), Duration::from_nanos(waited));
    }
}

/// The resources that a process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Processor time of all threads, in hundredths of a second.
    pub(crate) ticks: u64,
    /// Number of voluntary context switches of the threads that still exist.
    pub(crate) waits: u64,
    pub(crate) memory_kib: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: usize,
}

impl Cost {
    pub(crate) fn of(process: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let waits = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            // The fields utime and stime.
            ticks: fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum(),
            waits: std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().map(waits).sum(),
            memory_kib: status(process, "VmRSS"),
            threads: status(process, "Threads"),
            descriptors: std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count(),
        }
    }

    pub(crate) fn processor(&self) -> Duration {
        Duration::from_millis(10 * self.ticks)
    }
}

/// Prints figures in the format that scripts/attacks reads.
pub(crate) fn measured(attacked: &str, by: &str, figures: &[(&str, f64)]) {
    let figures: Vec<String> = figures.iter().map(|(what, value)| format!("{what:?}: {value:.6}")).collect();
    println!("measured {{\"attacked\": {attacked:?}, \"by\": {by:?}, \"figures\": {{{}}}}}", figures.join(", "));
}

/// Asserts that a process with `silent` silent peers uses at most a fifth of a processor for 3 s, and waits fewer than
/// `silent` times.
pub(crate) fn assert_idle(process: u32, attacked: &str, silent: u64) {
    const WATCHED: Duration = Duration::from_secs(3);
    /// A fifth of one processor.
    const TICKS_MAX: u64 = 60;
    std::thread::sleep(Duration::from_millis(500));
    let before = Cost::of(process);
    std::thread::sleep(WATCHED);
    let after = Cost::of(process);
    let (ticks, waits) = (after.ticks - before.ticks, after.waits.saturating_sub(before.waits));
    println!(
        "under {silent} silent connections, in {WATCHED:?}: {} ms of a processor, {waits} waits, {after:?}",
        10 * ticks
    );
    let figures =
        [("ms of a processor", 10.0 * ticks as f64), ("waits", waits as f64), ("threads", after.threads as f64)];
    measured(attacked, &format!("{silent} silent connections, for 3 s"), &figures);
    assert!(ticks < TICKS_MAX, "{ticks} ticks in {WATCHED:?}: {before:?}, then {after:?}");
    assert!(waits < silent, "{waits} waits in {WATCHED:?}: {before:?}, then {after:?}");
}

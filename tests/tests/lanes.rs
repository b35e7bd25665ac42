//! Traffic between programs and executors of different hosts: intercepted and modified.

use accord_tests::{Cluster, Finished, Job, Running, Tool, libacc, test_program, tool};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, setsockopt, socket};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// The bytes that `marked.c` copies repeatedly, and the argument of its launches.
const DATA: &[u8] = b"these bytes are the program's ow";
const WORDS: &str = "and this is an argument of it";
/// The time in which the program must get the error of a disturbed lane.
const REPORT_LIMIT: Duration = Duration::from_secs(6);

fn count(haystack: &[u8], needle: &[u8]) -> usize {
    let (mut found, mut rest) = (0, haystack);
    while let Some(at) = rest.iter().position(|byte| *byte == needle[0]) {
        if rest[at..].starts_with(needle) {
            found += 1;
        }
        rest = &rest[at + 1..];
    }
    found
}

// ---- read on its way: hosts in network namespaces ------------------------------------------

/// Returns the traffic on one host's network until `stop`.
fn capture(namespace: &Path, ready: &mpsc::Sender<()>, stop: &AtomicBool) -> Vec<u8> {
    /// More than the program sends in one run.
    const KEPT_MAX: usize = 256 << 20;
    /// Size of the kernel's buffer while this thread has no core: more than the program sends, too.
    const WAITING_MAX: usize = 256 << 20;
    setns(File::open(namespace).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    let all = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap();
    setsockopt(&all, RcvBufForce, &WAITING_MAX).unwrap();
    ready.send(()).unwrap();
    let (mut seen, mut packet) = (Vec::new(), vec![0; 128 << 10]);
    loop {
        match recv(all.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
            Ok(n) if seen.len() < KEPT_MAX => seen.extend_from_slice(&packet[..n]),
            Ok(_) => {}
            Err(_) if stop.load(Ordering::Relaxed) => return seen,
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Returns the network namespaces of this machine's agents that are visible here.
fn agents() -> BTreeSet<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    for process in std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path())) {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let namespace = process.join("ns/net");
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        if program.ends_with(b"accord-node-agent")
            && let Ok(of) = std::fs::read_link(&namespace)
            && seen.insert(of)
        {
            found.insert(namespace);
        }
    }
    found
}

/// Runs in the program's place: starts it, and captures the traffic of all hosts.
#[test]
#[ignore = "is started by traffic_between_hosts_is_unreadable"]
fn reader_of_networks() {
    let Some(program) = std::env::var_os("ACCORD_TEST_PROGRAM") else { return };
    let namespaces = agents();
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let (ready, is_ready) = mpsc::channel();
        let readers: Vec<_> = namespaces
            .iter()
            .map(|namespace| {
                let (ready, stop) = (ready.clone(), &stop);
                scope.spawn(move || capture(namespace, &ready, stop))
            })
            .collect();
        for _ in &readers {
            is_ready.recv().unwrap();
        }
        let status = std::process::Command::new(program).arg(WORDS).status().unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(status.success(), "{status}");
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<u8>>()
    });
    let (data, words) = (count(&seen, DATA), count(&seen, WORDS.as_bytes()));
    println!("hosts={} bytes={} data={data} words={words}", namespaces.len(), seen.len());
}

fn field(finished: &Finished, name: &str) -> usize {
    let found = finished.stdout.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name}: {}", finished.report()))
}

#[test]
fn traffic_between_hosts_is_unreadable() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: hosts are no network namespaces here");
        return;
    }
    let program = test_program("cluster/marked.c").unwrap();
    for plain in [false, true] {
        let finished = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "256M")
            .env("ACCORD_TEST_PROGRAM", &program)
            .args(["run", "--local-cluster", "3x1"])
            .args(plain.then_some("--insecure-plain-tcp"))
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "reader_of_networks", "--ignored", "--nocapture"])
            .run()
            .unwrap()
            .success()
            .unwrap();
        if finished.stdout.contains("hosts=0 ") || finished.stdout.contains("hosts=1 ") {
            println!("skipped: hosts are no network namespaces here: {}", finished.report());
            return;
        }
        // The capture contains the copies: to a device, to the next one and back, each at both hosts.
        assert!(field(&finished, "bytes") > 6 * (8 << 20), "{}", finished.report());
        let (data, words) = (field(&finished, "data"), field(&finished, "words"));
        if plain {
            assert!(data > 1000 && words > 0, "{}", finished.report());
            assert!(finished.stderr.contains("in clear: --insecure-plain-tcp"), "{}", finished.report());
        } else {
            assert_eq!((data, words), (0, 0), "{}", finished.report());
        }
    }
}

// ---- changed on its way: an attacker between a program and an agent ------------------------

/// The relay's attack.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Attack {
    None,
    /// Changes a byte from the program.
    ChangeUp,
    /// Changes a byte from the executor.
    ChangeDown,
    /// Sends bytes that look like the program's.
    Inject,
    /// Drops everything.
    Swallow,
}

/// A man in the middle, between programs and an agent.
struct Relay {
    address: String,
    target: Arc<Mutex<String>>,
    harm: Arc<Mutex<Attack>>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    fn new() -> Self {
        Self::behind(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn behind(listener: TcpListener) -> Self {
        let relay = Self {
            address: listener.local_addr().unwrap().to_string(),
            target: Arc::default(),
            harm: Arc::new(Mutex::new(Attack::None)),
            seen: Arc::default(),
        };
        let (target, harm, seen) = (relay.target.clone(), relay.harm.clone(), relay.seen.clone());
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(&*target.lock().unwrap()) else { continue };
                let both = [(&client, &server, true), (&server, &client, false)];
                for (from, to, up) in both {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (harm, seen) = (harm.clone(), seen.clone());
                    std::thread::spawn(move || pass_on(from, to, up, &harm, &seen));
                }
            }
        });
        relay
    }

    /// Starts a cluster of two hosts, with the second one's agent behind the relay, and all lanes by `transport`.
    fn cluster(&self, transport: &str) -> Cluster {
        let builder = Cluster::builder().hosts(2).devices(1).memory("256M").env("ACCORD_TRANSPORT", transport);
        let cluster = builder.advertise(1, &self.address).start().unwrap();
        cluster.agent_address(1).unwrap().clone_into(&mut self.target.lock().unwrap());
        cluster
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, up: bool, harm: &Mutex<Attack>, seen: &Mutex<Vec<u8>>) {
    const SEEN_MAX: usize = 64 << 20;
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut piece = buffer[..n].to_vec();
        let mut all = seen.lock().unwrap();
        if all.len() < SEEN_MAX {
            all.extend_from_slice(&piece);
        }
        drop(all);
        let harm = *harm.lock().unwrap();
        match harm {
            Attack::ChangeUp if up => piece[n / 2] ^= 1,
            Attack::ChangeDown if !up => piece[n / 2] ^= 1,
            // A TLS record with arbitrary content.
            Attack::Inject if up => drop(piece.splice(..0, [23, 3, 3, 0, 64].into_iter().chain([7; 64]))),
            Attack::Swallow if up => piece.clear(),
            _ => {}
        }
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    // The other direction may go on.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

fn endless(cluster: &Cluster, work: &str) -> Running {
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap();
    let running = job.args([work, "1"]).timeout(Duration::from_secs(60)).start().unwrap();
    running.await_output("ready").unwrap();
    running
}

#[test]
fn tampered_or_injected_bytes_end_the_session_with_a_reason() {
    for harm in [Attack::ChangeUp, Attack::ChangeDown, Attack::Inject] {
        for work in ["launch", "copy"] {
            let relay = Relay::new();
            let cluster = relay.cluster("tls");
            let running = endless(&cluster, work);
            let begin = Instant::now();
            *relay.harm.lock().unwrap() = harm;
            let finished = running.finish().unwrap();
            let took = begin.elapsed();
            assert!(!finished.timed_out && took < REPORT_LIMIT, "{harm:?} of {work}: {took:?}: {}", finished.report());
            assert_eq!(finished.code(), 1, "{harm:?} of {work}: {}", finished.report());
            assert!(finished.left_behind.is_empty(), "{}", finished.report());
            let words = ["changed on its way", "acc_error_device_unavailable", "node h1"];
            for word in words {
                assert!(finished.stderr.contains(word), "{harm:?} of {work}: no {word:?}: {}", finished.report());
            }
            let left = cluster.processes_besides_parts(REPORT_LIMIT);
            assert!(left.is_empty(), "{harm:?} of {work}: {left:?}");
        }
    }
}

/// An unreachable host, or an attacker that drops everything: the outcome is the same as without TLS.
#[test]
fn dropped_traffic_is_detected_by_the_timeout() {
    let relay = Relay::new();
    let cluster = relay.cluster("tls");
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap().env("ACCORD_TIMEOUT", "3s");
    let running = job.args(["launch", "1"]).timeout(Duration::from_secs(60)).start().unwrap();
    running.await_output("ready").unwrap();
    *relay.harm.lock().unwrap() = Attack::Swallow;
    let finished = running.finish().unwrap();
    assert_eq!((finished.timed_out, finished.code()), (false, 1), "{}", finished.report());
    assert!(finished.stderr.contains("acc_error_device_unavailable"), "{}", finished.report());
}

/// The relay can read unencrypted traffic on this machine's loopback.
#[test]
fn relay_reads_traffic_only_without_tls() {
    for (transport, readable) in [("tcp", true), ("tls", false)] {
        let relay = Relay::new();
        let cluster = relay.cluster(transport);
        let job = cluster.job(0, &test_program("cluster/marked.c").unwrap()).unwrap();
        job.arg(WORDS).run().unwrap().success().unwrap();
        let seen = relay.seen.lock().unwrap();
        assert!(seen.len() > 1 << 20, "{transport}: {}", seen.len());
        assert_eq!((count(&seen, DATA) > 0, count(&seen, WORDS.as_bytes()) > 0), (readable, readable), "{transport}");
    }
}

/// A network namespace with a loopback, held by a process.
struct Namespace(std::process::Child);

impl Namespace {
    /// Returns `None`, and prints so, if namespaces are impossible.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: only root makes network namespaces here");
            return None;
        }
        let mut command = std::process::Command::new("unshare");
        command.args(["-n", "sh", "-c", "ip link set lo up && echo up && exec sleep 1000"]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        if child.stdout.as_mut().unwrap().read_exact(&mut up).is_err() {
            println!("skipped: no network namespace can be made here");
            let _ = child.wait();
            return None;
        }
        Some(Self(child))
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.0.id()))
    }

    /// Returns a listener in the namespace.
    fn listen(&self, address: &str) -> TcpListener {
        let (path, address) = (self.path(), address.to_owned());
        let bind = move || {
            setns(File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            TcpListener::bind(address).unwrap()
        };
        std::thread::spawn(bind).join().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A name that a resolver maps to a loopback address, where a relay listens for the agent: the agent is not on the
/// program's machine, as far as the program can see.
#[test]
fn a_relay_on_the_loopback_of_the_programs_machine_sees_nothing_in_clear() {
    let Some(machine) = Namespace::new() else { return };
    for transport in ["tcp", "auto"] {
        let relay = Relay::behind(machine.listen("127.0.0.1:0"));
        let cluster = relay.cluster(transport);
        let coordinator = Relay::behind(machine.listen(cluster.address()));
        cluster.address().clone_into(&mut coordinator.target.lock().unwrap());
        let job = cluster.job(0, Path::new("/usr/bin/nsenter")).unwrap();
        let job = job.arg(format!("--net={}", machine.path().display())).arg(test_program("cluster/marked.c").unwrap());
        job.arg(WORDS).run().unwrap().success().unwrap();
        let seen = relay.seen.lock().unwrap();
        assert!(seen.len() > 1 << 20, "{transport}: {}", seen.len());
        assert_eq!((count(&seen, DATA), count(&seen, WORDS.as_bytes())), (0, 0), "{transport}");
    }
}

/// Neither side falls back to the other's transport.
#[test]
fn a_lane_in_clear_is_refused_where_tls_is_due() {
    let Some(own) = own_address() else {
        println!("skipped: this machine has no address but loopback");
        return;
    };
    let mut lines = Vec::new();
    for (insecure, works) in
        [([false, false], true), ([true, true], true), ([true, false], false), ([false, true], true)]
    {
        let [coordinator, agents] = insecure;
        let builder = Cluster::builder().hosts(2).devices(1).memory("256M").env("ACCORD_TRANSPORT", "tcp");
        let cluster = builder.listen(&own).insecure(coordinator, agents).start().unwrap();
        let trace = tempfile::NamedTempFile::new().unwrap();
        let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
        let finished = job.env("ACCORD_TRACE", trace.path()).run().unwrap();
        if coordinator || agents {
            cluster.await_messages(|messages| messages.contains("--insecure-plain-tcp")).unwrap();
        } else {
            let messages = cluster.messages();
            assert!(!messages.contains("--insecure-plain-tcp"), "{messages}");
        }
        assert_eq!(finished.code() == 0, works, "{insecure:?}: {}", finished.report());
        let info = cluster.info().unwrap();
        assert_eq!(info["coordinator"]["plain_tcp"], coordinator);
        lines.push(info["nodes"][1]["route"].as_str().unwrap().to_owned());
        if works {
            let trace = std::fs::read_to_string(trace.path()).unwrap();
            let way = if coordinator { "(not encrypted: --insecure-plain-tcp)" } else { "tls to " };
            assert!(trace.contains(way), "{insecure:?}: {trace}");
        } else {
            let words = ["in clear", "--insecure-plain-tcp", "acc_error_device_unavailable"];
            assert!(words.iter().all(|word| finished.stderr.contains(word)), "{}", finished.report());
            cluster.await_messages(|messages| messages.contains("which this agent does not take")).unwrap();
        }
    }
    let (tls, plain) = ("tls (another machine)", "tcp (not encrypted: --insecure-plain-tcp)");
    assert_eq!(lines, [tls, plain, plain, tls]);
}

/// Returns an address of this machine other than loopback.
fn own_address() -> Option<String> {
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing.
    probe.connect("192.0.2.1:9").ok()?;
    let own = probe.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then(|| own.to_string())
}

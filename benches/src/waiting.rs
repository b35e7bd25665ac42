//! The cost of 10,000 requests that wait for devices: wake-ups, processor time and bytes, compared with the same
//! cluster without waiting requests.
//!
//! A coordinator with a state file and an agent run as processes in a network namespace of their own, so that all bytes
//! on its loopback interface are theirs. This needs root. One job has the only device. Requests come from 20 users,
//! each over a TLS connection of its own, opened like that of `accord run` by threads of one process. In addition,
//! whole programs wait: commands of `accord run`, and programs that request devices themselves.

use crate::report::{Report, build_folder, compile, text};
use crate::requests::session_request;
use crate::services::{Services, release};
use accord_fabric::session_endpoint::{OpenRetries, SessionConnection, hold_with_retries};
use accord_fabric::transport::PeerAddress;
use accord_trust::Identity;
use accord_trust::name::Role;
use accord_types::SessionRequest;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The argument that makes `accord-bench` the cluster and its clients, inside a network namespace.
pub(crate) const IN_NAMESPACE: &str = "__waiting";
const WAITING_MAX: usize = 10_000;
const USERS: usize = 20;
/// Number of whole programs of each kind.
const PROGRAMS: usize = 8;
/// Users together may use one in this many of the coordinator's descriptors.
const PART_OF_DESCRIPTORS: usize = 2;
/// Connections besides those of requests from threads.
const OTHERS: usize = 50;
const STACK: usize = 128 << 10;
/// Most requests that are opened and not known to wait yet.
const OPENING_MAX: usize = 400;
/// Duration of a period, in which both ends probe each connection once.
const PERIOD: Duration = Duration::from_secs(180);
/// Pause after the last request, and before a period.
const SETTLE: Duration = Duration::from_secs(15);
const ADDRESS: &str = "127.0.0.1:7447";
/// The whole cluster, within the limits of this bench.
const DEVICES: &str = "1:cpu limit=1d";
const START_MAX: Duration = Duration::from_secs(60);
/// Bounds per waiting request and minute. A polling program wakes at least once a second.
const BYTES_MAX: f64 = 100.0;
const WAKE_UPS_MAX: f64 = 1.0;
/// Highest ratio of the coordinator's wake-ups with waiting requests to those without.
const COORDINATOR_MAX: f64 = 1.1;

pub(crate) fn run() -> Result<Report, String> {
    let own = std::env::current_exe().map_err(text)?;
    let program = build_folder()?.join("open");
    compile(&crate::root().join("benches/programs/open.c"), &program)?;
    let output = Command::new("unshare")
        .args(["--net", "setpriv", "--pdeathsig", "TERM", "sh", "-c", "ulimit -n $(ulimit -Hn) && exec \"$0\" \"$@\""])
        .arg(own)
        .arg(IN_NAMESPACE)
        .arg(program)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("the cluster ended with {}; a network namespace takes root\n{lines}", output.status));
    }
    let mut report = Report::of("accord-bench waiting");
    report.take_lines("", &lines)?;
    let value = |report: &Report, name: &str| report.median(name);
    let waiting = value(&report, "requests")?;
    let bytes = (value(&report, "waiting/bytes")? - value(&report, "none/bytes")?) / waiting;
    report.at_most("bytes for each waiting request, a minute", bytes, "B", BYTES_MAX);
    for (who, many) in [("requests", waiting), ("accord_run", PROGRAMS as f64), ("programs", PROGRAMS as f64)] {
        let wake_ups = value(&report, &format!("waiting/{who}/wake_ups"))? / many;
        report.at_most(&format!("wake-ups of each, a minute: {who}"), wake_ups, "", WAKE_UPS_MAX);
    }
    for part in ["coordinator", "agent"] {
        let of = |when: &str| value(&report, &format!("{when}/{part}/wake_ups"));
        let ratio = of("waiting")? / of("none")?;
        report.at_most(&format!("wake-ups of the {part}: {waiting} waiting / none"), ratio, "x", COORDINATOR_MAX);
    }
    Ok(report)
}

/// Runs the cluster and its clients. Prints their use per minute.
pub(crate) fn in_namespace(line: &[String]) -> Result<(), String> {
    let [program] = line else { return Err("a program is needed".to_owned()) };
    run_to_end(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let mut parts = Parts { services: Services::new("waiting")?, messages: Vec::new() };
    parts.services.issue("user", Role::Tenant("programs".to_owned()))?;
    let state = parts.services.file("state").to_string_lossy().into_owned();
    let coordinator = Command::new(release("accord-coordinator"));
    let arguments = ["--listen", ADDRESS, "--state", &state];
    let coordinator = parts.services.start(coordinator, "coordinator", &arguments)?.process;
    let arguments =
        ["--coordinator", ADDRESS, "--listen", "127.0.0.1:0", "--node", "h0", "--cpu-devices", "1", "--gpus", "off"];
    let agent = parts.services.start(Command::new(release("accord-node-agent")), "agent", &arguments)?.process;
    let identity = |name: String| parts.services.identity(Role::Tenant(name)).map(Arc::new);
    let holder = identity("holder".to_owned())?;
    let _job = hold_all(&holder)?;
    let mut seen = BTreeMap::from([("coordinator", vec![coordinator]), ("agent", vec![agent])]);
    std::thread::sleep(SETTLE);
    measure("none", &seen)?;

    let users = (0..USERS).map(|user| identity(format!("user{user}"))).collect::<Result<Vec<_>, _>>()?;
    let own = std::process::id();
    seen.insert("accord_run", (0..PROGRAMS).map(|_| parts.wait_by_command()).collect::<Result<_, _>>()?);
    seen.insert("programs", (0..PROGRAMS).map(|_| parts.wait_by_itself(program)).collect::<Result<_, _>>()?);
    let waiting = WAITING_MAX.min(descriptors()? / PART_OF_DESCRIPTORS - OTHERS);
    wait_by_threads(&users, waiting)?;
    println!("{}", json!({ "name": "requests", "unit": "", "samples": [waiting] }));
    seen.insert("requests", vec![own]);
    std::thread::sleep(SETTLE);
    measure("waiting", &seen)
}

/// Takes the cluster's only device, once the agent has registered.
fn hold_all(identity: &Identity) -> Result<SessionConnection, String> {
    let begun = Instant::now();
    loop {
        let retries = OpenRetries { time: START_MAX, notify: &|line| eprintln!("{line}"), waits: &|_| () };
        match hold_with_retries(&address(), identity, START_MAX, &retries, &request(DEVICES)) {
            Ok((_, connection)) => return Ok(connection),
            Err(error) if begun.elapsed() > START_MAX => return Err(text(error)),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Starts a waiting thread for each request. Returns once all requests wait.
fn wait_by_threads(users: &[Arc<Identity>], count: usize) -> Result<(), String> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let (failed, failures) = mpsc::channel();
    for at in 0..count {
        let (identity, known, failed) = (users[at % users.len()].clone(), waiting.clone(), failed.clone());
        let wait = move || {
            let is_known = Cell::new(false);
            let waits = |line: Option<&str>| {
                // A line is printed once a request has waited for 2 s.
                if line.is_some() && !is_known.replace(true) {
                    known.fetch_add(1, Ordering::Relaxed);
                }
            };
            let retries = OpenRetries { time: START_MAX, notify: &|line| eprintln!("{line}"), waits: &waits };
            let outcome = hold_with_retries(&address(), &identity, START_MAX, &retries, &request(DEVICES));
            let _ = failed.send(outcome.map_or_else(text, |_| "it got the device".to_owned()));
        };
        // The threads last as long as this process.
        std::thread::Builder::new().stack_size(STACK).spawn(wait).map_err(text)?;
        let begun = Instant::now();
        while waiting.load(Ordering::Relaxed) + OPENING_MAX < at
            || (at + 1 == count && waiting.load(Ordering::Relaxed) <= at)
        {
            if let Ok(why) = failures.try_recv() {
                return Err(format!("a request does not wait: {why}"));
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("{} of {} requests wait", waiting.load(Ordering::Relaxed), at + 1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Returns the limit of descriptors of this process, which the coordinator inherits.
fn descriptors() -> Result<usize, String> {
    let limits = fs::read_to_string("/proc/self/limits").map_err(text)?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    Ok(soft.and_then(|soft| soft.parse().ok()).unwrap_or(usize::MAX))
}

fn address() -> PeerAddress {
    PeerAddress::new(ADDRESS)
}

fn request(devices: &str) -> SessionRequest {
    session_request("h0", devices)
}

/// The use of some processes so far.
#[derive(Clone, Copy, Default)]
struct ProcessUse {
    wake_ups: f64,
    processor_us: f64,
}

/// Prints the use of network and processes in a period, per minute.
fn measure(when: &str, seen: &BTreeMap<&str, Vec<u32>>) -> Result<(), String> {
    let look = || seen.values().map(|processes| taken(processes)).collect::<Vec<_>>();
    let (begun, bytes, before) = (Instant::now(), sent()?, look());
    std::thread::sleep(PERIOD);
    let (bytes, after) = (sent()? - bytes, look());
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let show = |name: String, unit: &str, value: f64| {
        println!("{}", json!({ "name": format!("{when}/{name}"), "unit": unit, "samples": [value / minutes] }));
    };
    show("bytes".to_owned(), "B a minute", bytes);
    for ((who, before), after) in seen.keys().zip(before).zip(after) {
        show(format!("{who}/wake_ups"), "a minute", after.wake_ups - before.wake_ups);
        show(format!("{who}/processor"), "us a minute", after.processor_us - before.processor_us);
    }
    Ok(())
}

/// Returns the bytes sent over this namespace's loopback interface.
fn sent() -> Result<f64, String> {
    const SENT: usize = 8;
    let table = fs::read_to_string("/proc/net/dev").map_err(text)?;
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    let sent = line.and_then(|line| line.split_whitespace().nth(SENT)?.parse().ok());
    sent.ok_or_else(|| "no loopback interface in /proc/net/dev".to_owned())
}

/// Returns the use of all threads of these processes.
fn taken(processes: &[u32]) -> ProcessUse {
    let mut all = ProcessUse::default();
    let threads = processes.iter().filter_map(|process| fs::read_dir(format!("/proc/{process}/task")).ok());
    for thread in threads.flatten().flatten() {
        let number = |file: &str, find: fn(&str) -> Option<&str>| {
            let found = fs::read_to_string(thread.path().join(file)).ok();
            found.and_then(|found| find(&found)?.trim().parse::<f64>().ok()).unwrap_or_default()
        };
        all.wake_ups +=
            number("status", |text| text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")));
        all.processor_us += number("schedstat", |text| text.split_whitespace().next()) / 1e3;
    }
    all
}

/// The cluster's services, and programs that wait.
struct Parts {
    services: Services,
    /// Kept open, because a program may write more.
    messages: Vec<BufReader<ChildStderr>>,
}

impl Parts {
    /// Starts a waiting command of `accord run`.
    fn wait_by_command(&mut self) -> Result<u32, String> {
        let mut command = Command::new(release("accord"));
        self.wait(command.args(["run", "--devices", "1:cpu", "--limit", "1d", "--", "true"]))
    }

    /// Starts a waiting program.
    fn wait_by_itself(&mut self, program: &str) -> Result<u32, String> {
        // One round of the program, as the program starts it itself.
        let mut command = Command::new(program);
        command.args(["one", "round"]).env("LD_PRELOAD", release("libacc.so")).env("ACCORD_DEVICES", DEVICES);
        self.wait(&mut command)
    }

    fn wait(&mut self, command: &mut Command) -> Result<u32, String> {
        command.env("ACCORD_COORDINATOR", ADDRESS).env("ACCORD_TLS", self.services.file("user"));
        let mut child =
            command.env("ACCORD_NODE", "h0").stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(text)?;
        let stderr = child.stderr.take().ok_or("no standard error")?;
        let id = child.id();
        self.services.keep(child);
        let mut printed = String::new();
        let mut lines = BufReader::new(stderr);
        while !printed.contains(" waits: ") {
            if lines.read_line(&mut printed).map_err(text)? == 0 {
                return Err(format!("a program does not wait: {printed}"));
            }
        }
        self.messages.push(lines);
        Ok(id)
    }
}

fn run_to_end(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{command:?} ended with {status}"))
}

//! The cost of agents' streams: a coordinator as a process with a state file, and up to 2,000 agents of a load generator in
//! this process, each with a TLS connection of its own and a heartbeat each 500 ms.
//!
//! Jobs are held meanwhile as by `accord run`. Two commands pass one device to each other: the time from the agent's
//! message that the device is free until the next command has it is that of a message that the coordinator handles
//! among all heartbeats.

use crate::fake_agents::Agents;
use crate::process_use::{processor_ms, resident_bytes};
use crate::report::{Report, quantile};
use crate::requests::session_request;
use crate::services::{Services, release};
use accord_fabric::session_endpoint::{OpenRetries, SessionConnection, hold_with_retries};
use accord_fabric::transport::PeerAddress;
use accord_trust::Identity;
use accord_trust::name::Role;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Numbers of agents, fewest first.
const SIZES: [u32; 4] = [250, 500, 1_000, 2_000];
/// Duration of the period with heartbeats only, and of that with jobs.
const PERIOD: Duration = Duration::from_secs(20);
/// Pause after the last registration.
const SETTLE: Duration = Duration::from_secs(5);
const OPEN_MAX: Duration = Duration::from_secs(60);
/// Jobs that are opened in a second.
const OPENS: u32 = 20;
/// Time for which a command keeps the device that it passes on.
const KEPT: Duration = Duration::from_millis(20);
/// The node whose only device is passed on.
const PASSED_ON: &str = "1:cpu on=n0 limit=1h";
/// Processor time of the coordinator for each agent and second.
const PROCESSOR_MAX_MS: f64 = 0.2;
/// Highest ratio of the cost for each agent with the most agents to that with the fewest.
const LINEAR_MAX: f64 = 1.1;
const MESSAGE_MAX_MS: f64 = 100.0;
const OPEN_P99_MAX_MS: f64 = 20.0;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench agents");
    for agents in SIZES {
        eprintln!("agents: {agents}");
        measure(agents, &mut report)?;
    }
    let [fewest, .., most] = SIZES;
    let cost = |agents: u32| report.median(&format!("{agents}/processor"));
    let (least, own) = (cost(fewest)?, cost(most)?);
    report.at_most(&format!("processor time for each of {most} agents, a second"), own, "ms", PROCESSOR_MAX_MS);
    report.at_most(&format!("processor time of an agent: among {most} / {fewest}"), own / least, "x", LINEAR_MAX);
    for (what, name, bar) in
        [("an agent's message until its effect", "message", MESSAGE_MAX_MS), ("opening a job", "open", OPEN_P99_MAX_MS)]
    {
        let samples = report.samples(&format!("{most}/{name}"))?.to_vec();
        report.at_most(&format!("{what}, p99, {most} agents"), quantile(samples, 0.99), "ms", bar);
    }
    Ok(report)
}

fn measure(count: u32, report: &mut Report) -> Result<(), String> {
    let mut services = Services::new("agents")?;
    let state = services.file("state").to_string_lossy().into_owned();
    let command = Command::new(release("accord-coordinator"));
    let coordinator = services.start(command, "coordinator", &["--listen", "127.0.0.1:0", "--state", &state])?;
    let identities = (0..count).map(|at| services.identity(Role::Agent(format!("n{at}"))));
    let begun = Instant::now();
    let agents = Agents::join(&coordinator.address, identities.collect::<Result<_, _>>()?)?;
    report.put(&format!("{count}/join"), "s", vec![begun.elapsed().as_secs_f64()]);
    std::thread::sleep(SETTLE);

    let process = coordinator.process;
    let (begun, before) = (Instant::now(), processor_ms(process)?);
    std::thread::sleep(PERIOD);
    let used = (processor_ms(process)? - before) / begun.elapsed().as_secs_f64() / f64::from(count);
    report.put(&format!("{count}/processor"), "ms for an agent and second", vec![used]);
    report.put(&format!("{count}/resident"), "B", vec![resident_bytes(process)?]);

    let user = services.identity(Role::Tenant("eva".to_owned()))?;
    let address = PeerAddress::new(&*coordinator.address);
    let goes_on = AtomicBool::new(true);
    let (opened, passed) = std::thread::scope(|scope| {
        let pass = || scope.spawn(|| pass_on(&address, &user, &agents, &goes_on));
        let passing = [pass(), pass()];
        let opened = open_at_a_rate(&address, &user);
        goes_on.store(false, Ordering::Relaxed);
        let joined = passing.map(|thread| thread.join().unwrap_or_else(|_| Err("a thread has panicked".to_owned())));
        let passed: Result<Vec<Vec<f64>>, String> = joined.into_iter().collect();
        Ok::<_, String>((opened?, passed?.concat()))
    })?;
    report.put(&format!("{count}/open"), "ms", opened);
    report.put(&format!("{count}/message"), "ms", passed);
    agents.check()
}

/// Opens and ends jobs, and returns the times until each had its device.
fn open_at_a_rate(address: &PeerAddress, user: &Identity) -> Result<Vec<f64>, String> {
    let (begun, mut took) = (Instant::now(), Vec::new());
    while begun.elapsed() < PERIOD {
        let due = begun + Duration::from_secs(1) * u32::try_from(took.len()).unwrap_or(u32::MAX) / OPENS;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let since = Instant::now();
        drop(hold(address, user, "1:cpu avoid=n0 limit=1h")?);
        took.push(since.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}

/// Takes the device of the first node again and again. Returns the times since its agent has said that it is free.
fn pass_on(address: &PeerAddress, user: &Identity, agents: &Agents, goes_on: &AtomicBool) -> Result<Vec<f64>, String> {
    let mut took = Vec::new();
    while goes_on.load(Ordering::Relaxed) {
        let _held = hold(address, user, PASSED_ON)?;
        took.extend(agents.since_released().map(|since| since.as_secs_f64() * 1e3));
        std::thread::sleep(KEPT);
    }
    Ok(took)
}

fn hold(address: &PeerAddress, user: &Identity, devices: &str) -> Result<SessionConnection, String> {
    let request = session_request("login", devices);
    let retries = OpenRetries { time: OPEN_MAX, notify: &|line| eprintln!("{line}"), waits: &|_| () };
    let held = hold_with_retries(address, user, OPEN_MAX, &retries, &request);
    held.map(|(_, connection)| connection).map_err(|error| error.to_string())
}

//! The use of devices, as programs and executors report it, and as `accord info`, `queue`, `history` and `usage` print
//! it.
#![forbid(unsafe_code)]

use accord_fabric::session_endpoint::{self, SessionConnection};
use accord_fabric::transport::PeerAddress;
use accord_tests::{Cluster, Job, Running, Tool, test_program, tool};
use accord_trust::Identity;
use accord_types::{DeviceId, DeviceUse, Lease, OrderPolicy, SessionRequest};
use serde_json::Value;
use std::io::PipeWriter;
use std::time::{Duration, Instant};

/// A user other than that of the tests.
const OTHER: u32 = 12_345;
/// Bytes that the program copies to its device, holds there, and copies back.
const BYTES: u64 = 1 << 20;
/// Busy time that tests wait for: more than one sample.
const BUSY_MS: u64 = 500;

fn cluster() -> Cluster {
    Cluster::builder().hosts(1).devices(2).memory("64M").other_tenants(&[OTHER]).start().unwrap()
}

fn json(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Value {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied()).args(["--json"]);
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name));
    let finished = job.env("ACCORD_NODE", cluster.host(0)).run().unwrap();
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.report()))
}

/// Waits until a command's output satisfies a condition.
fn await_answer(cluster: &Cluster, command: &[&str], what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = json(cluster, "admin", command);
        if is(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain for {what}: {answer:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Starts a program on a node that keeps its device busy. Dropping the pipe ends it.
fn works(cluster: &Cluster, node: &str, request: Option<&str>) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/uses_device.c").unwrap()).unwrap();
    let job = job.env("ACCORD_NODE", node).stdin(input);
    let job = request.into_iter().fold(job, |job, request| job.env("ACCORD_DEVICES", request));
    let running = job.start().unwrap();
    running.await_output("has ").unwrap();
    (running, ends)
}

fn sum(rows: &Value, of: &str) -> u64 {
    rows.as_array().unwrap().iter().filter_map(|row| row[of].as_u64()).sum()
}

/// Waits until a session's use is reported, with a busy time of at least [`BUSY_MS`].
fn await_use(cluster: &Cluster) -> Value {
    let info = await_answer(cluster, &["info"], "the use of a device", |info| {
        info["sessions"].as_array().unwrap().iter().any(|session| sum(&session["uses"], "busy_ms") >= BUSY_MS)
    });
    let sessions = info["sessions"].as_array().unwrap();
    sessions.iter().find(|session| sum(&session["uses"], "busy_ms") >= BUSY_MS).unwrap().clone()
}

fn a_job_s_use_is_shown(cluster: &Cluster, node: &str) {
    let (program, ends) = works(cluster, node, Some("1:cpu limit=1h"));
    let session = await_use(cluster);
    let uses = session["uses"].as_array().unwrap();
    let [used] = &uses[..] else { panic!("{session:#}") };
    assert_eq!((&used["node"], used["bytes_out"].as_u64()), (&cluster.host(0).into(), Some(0)), "{session:#}");
    assert!(used["bytes_in"].as_u64() >= Some(BYTES) && used["held"].as_u64() >= Some(BYTES), "{session:#}");
    let table = cluster.accord_as("admin").unwrap().args(["info"]).run().unwrap().success().unwrap();
    assert!(table.stdout.contains("BUSY") && table.stdout.contains(" MiB"), "{}", table.report());

    let queue = await_answer(cluster, &["queue"], "a running job", |queue| sum(&queue["jobs"], "busy_ms") >= BUSY_MS);
    let job = &queue["jobs"][0];
    assert!(job["busy_ms"].as_u64() <= job["held_ms"].as_u64().map(|held| held + 2_000), "{job:#}");
    assert!(job["bytes_in"].as_u64() >= Some(BYTES), "{job:#}");
    drop(ends);
    program.finish().unwrap().success().unwrap();

    // The last report precedes the end of the session.
    let number = job["job"].as_u64().unwrap();
    let ended = |history: &Value| -> Option<Value> {
        history["jobs"].as_array().unwrap().iter().find(|job| job["job"] == number).cloned()
    };
    let history = await_answer(cluster, &["history"], "the job's last report", |history| {
        ended(history).is_some_and(|job| job["bytes_out"].as_u64() >= Some(BYTES))
    });
    let job = ended(&history).unwrap();
    assert!(job["busy_ms"].as_u64() >= Some(BUSY_MS), "{job:#}");
    let usage = json(cluster, "program", &["usage"]);
    assert_eq!(
        (sum(&usage["rows"], "busy_ms"), sum(&usage["rows"], "unknown_ms")),
        (job["busy_ms"].as_u64().unwrap(), 0)
    );
    assert_eq!(sum(&usage["rows"], "bytes_out"), job["bytes_out"].as_u64().unwrap(), "{usage:#}");
}

#[test]
fn the_use_of_devices_in_the_program_s_process_is_shown() {
    let cluster = cluster();
    a_job_s_use_is_shown(&cluster, &cluster.host(0));
}

#[test]
fn the_use_of_devices_of_another_node_is_shown() {
    a_job_s_use_is_shown(&cluster(), "elsewhere");
}

#[test]
fn a_program_that_asks_for_nothing_is_charged_for_its_busy_time() {
    let cluster = cluster();
    let (program, ends) = works(&cluster, "elsewhere", None);
    await_use(&cluster);
    let usage = await_answer(&cluster, &["usage"], "a charge", |usage| sum(&usage["rows"], "busy_ms") >= BUSY_MS);
    assert_eq!(sum(&usage["rows"], "device_ms"), sum(&usage["rows"], "busy_ms"), "{usage:#}");
    assert_eq!(sum(&usage["rows"], "jobs"), 0, "{usage:#}");
    drop(ends);
    program.finish().unwrap().success().unwrap();
}

#[test]
fn use_goes_on_being_reported_after_a_coordinator_s_restart() {
    let mut cluster = cluster();
    let own_node = cluster.host(0);
    let programs: Vec<_> = [own_node.as_str(), "elsewhere"].map(|node| works(&cluster, node, None)).into();
    await_use(&cluster);
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    await_answer(&cluster, &["info"], "the use of both devices", |info| {
        let sessions = info["sessions"].as_array().unwrap();
        sessions.iter().filter(|session| sum(&session["uses"], "busy_ms") >= BUSY_MS).count() == 2
    });
    for (program, ends) in programs {
        drop(ends);
        program.finish().unwrap().success().unwrap();
    }
}

#[test]
fn a_job_s_use_outlasts_a_coordinator_with_a_state_file() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut cluster = Cluster::builder().hosts(1).devices(1).env("ACCORD_STATE", state.as_os_str()).start().unwrap();
    let node = cluster.host(0);
    let (program, ends) = works(&cluster, &node, Some("1:cpu"));
    let before = sum(&await_use(&cluster)["uses"], "busy_ms");
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    let queue =
        await_answer(&cluster, &["queue"], "further use", |queue| sum(&queue["jobs"], "busy_ms") > before + BUSY_MS);
    assert_eq!((&queue["jobs"][0]["job"], &queue["jobs"][0]["state"]), (&1.into(), &"running".into()), "{queue:#}");
    drop(ends);
    program.finish().unwrap().success().unwrap();
    let history = await_answer(&cluster, &["history"], "the job's last report", |history| {
        history["jobs"].as_array().unwrap().iter().any(|job| job["bytes_out"].as_u64() >= Some(BYTES))
    });
    let job = &history["jobs"][0];
    assert!(job["busy_ms"].as_u64() <= job["device_ms"].as_u64().map(|held| held + 2_000), "{job:#}");
    let usage = json(&cluster, "admin", &["usage"]);
    for of in ["busy_ms", "bytes_in", "bytes_out"] {
        assert_eq!(sum(&usage["rows"], of), job[of].as_u64().unwrap(), "{of}: {usage:#} {job:#}");
    }
}

/// Applies a policy.
fn apply_policy(cluster: &Cluster, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, text).unwrap();
    cluster
        .accord_as("admin")
        .unwrap()
        .args(["policy", "apply", file.to_str().unwrap()])
        .run()
        .unwrap()
        .success()
        .unwrap();
}

#[test]
fn a_job_with_idle_devices_is_warned_and_ended_and_a_busy_one_is_not() {
    let cluster = cluster();
    apply_policy(&cluster, "idle = \"6s\"\ngrace = \"3s\"\n[account.physics]\nusers = [\"*\"]\n");
    let (busy, ends) = works(&cluster, &cluster.host(0), Some("1:cpu limit=1h"));
    let (input, _ends_idle) = std::io::pipe().unwrap();
    let holds = cluster.job(0, &test_program("cluster/holds_devices.c").unwrap()).unwrap();
    let idle =
        holds.env("ACCORD_NODE", "elsewhere").env("ACCORD_DEVICES", "1:cpu limit=1h").stdin(input).start().unwrap();
    idle.await_errors("job 2 has done nothing with its devices for ").unwrap();
    let history = await_answer(&cluster, &["history"], "the end of the idle job", |history| {
        !history["jobs"].as_array().unwrap().is_empty()
    });
    let job = &history["jobs"][0];
    let why = job["why"].as_str().unwrap();
    assert!(job["job"] == 2 && why.contains("did nothing with its devices"), "{history:#}");
    let events = job["events"].as_array().unwrap();
    assert!(events.len() == 1 && events[0]["text"].as_str().unwrap().contains("has done nothing"), "{history:#}");
    // The other job kept its device busy for longer than that.
    let queue = json(&cluster, "admin", &["queue"]);
    assert_eq!((&queue["jobs"][0]["job"], &queue["jobs"][0]["state"]), (&1.into(), &"running".into()), "{queue:#}");
    drop(ends);
    busy.finish().unwrap().success().unwrap();
}

/// Opens a session of the other user without a program.
fn hostile(cluster: &Cluster) -> (Lease, SessionConnection) {
    let own = Identity::read(&cluster.tls_of(&format!("program-{OTHER}"))).unwrap();
    let request = SessionRequest {
        node_name: cluster.host(0),
        pid: 1,
        program: "hostile".into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: None,
        job: None,
    };
    session_endpoint::open(&PeerAddress::new(cluster.address()), &own, Duration::from_secs(10), &request).unwrap()
}

#[test]
fn hostile_reports_are_bounded_and_leave_the_use_by_others_alone() {
    let cluster = cluster();
    let (program, ends) = works(&cluster, "elsewhere", Some("1:cpu limit=1h"));
    await_use(&cluster);
    let (lease, connection) = hostile(&cluster);
    let huge =
        DeviceUse { busy_ms: Some(u64::MAX), bytes_in: u64::MAX, bytes_out: u64::MAX, held: u64::MAX, fault: None };
    let own: Vec<DeviceId> = lease.devices.iter().map(|device| device.info.id).collect();
    assert_eq!(own.len(), 1, "the other device is a job's alone");
    connection.ask_use(own[0]);
    let anywhere =
        (0..16).flat_map(|node| (0..16).map(move |ordinal| DeviceId { node: accord_types::NodeId(node), ordinal }));
    let everything: Vec<(DeviceId, DeviceUse)> = own.into_iter().chain(anywhere).map(|device| (device, huge)).collect();
    // A flood is queued in the connection, and ends its session.
    let flood = std::thread::spawn(move || {
        for _ in 0..40 {
            connection.report_used(&everything);
        }
        connection
    });
    let user = |name: &str, usage: &Value| -> Value {
        usage["rows"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    };
    let mallory = format!("{OTHER}");
    let is_charged = |usage: &Value| usage["rows"].as_array().unwrap().len() == 2;
    let usage = await_answer(&cluster, &["usage"], "a charge of the hostile user", is_charged);
    let names: Vec<&str> = usage["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    let hostile = names.iter().find(|name| name.contains(&mallory)).unwrap_or_else(|| panic!("{names:?}"));
    let row = user(hostile, &usage);
    assert!(row["bytes_in"].as_u64() < Some(1 << 52), "{usage:#}");
    // The other session has its own use, and other clients are served meanwhile.
    let info = json(&cluster, "admin", &["info"]);
    for session in info["sessions"].as_array().unwrap() {
        let uses = session["uses"].as_array().unwrap();
        assert_eq!(uses.len(), 1, "{session:#}");
        assert!(uses[0]["held"].as_u64() <= Some(64 << 20), "{session:#}");
        let age_ms = session["age_ms"].as_u64().unwrap();
        assert!(uses[0]["busy_ms"].as_u64() <= Some(age_ms + 2_000), "{session:#}");
        assert!(session["program"] == "hostile" || uses[0]["bytes_in"].as_u64() < Some(2 * BYTES), "{session:#}");
    }
    let others: Vec<&&str> = names.iter().filter(|name| *name != hostile).collect();
    assert!(user(others[0], &usage)["bytes_in"].as_u64() < Some(2 * BYTES), "{usage:#}");
    drop(ends);
    program.finish().unwrap().success().unwrap();
    flood.join().unwrap().close();
}

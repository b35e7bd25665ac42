//! Sessions that are ended while their programs work: by the time limit, an administrator, or the end of an agent. The
//! program gets the reason, and so does the coordinator's log.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, ClusterBuilder, Finished, Job, Tool, test_program, tool};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};

/// Timeout of a reason's way to an agent's log.
const REPORTED_MAX: Duration = Duration::from_secs(10);
/// The program's work meanwhile, as arguments of `cluster/endless.c`.
const WORKS: [&[&str]; 3] = [&["launch", "1"], &["copy", "1"], &["d2d", "1", "2"]];

fn builder() -> ClusterBuilder {
    Cluster::builder().hosts(3).devices(1).memory("64M").env("ACCORD_LOG", "info")
}

/// Asserts that the program reports `cause` and `remedy`, and nothing of connections.
#[track_caller]
fn assert_reports(finished: &Finished, cause: &str, remedy: &str) {
    assert_eq!(finished.code(), 1, "{}", finished.report());
    let reported = &finished.stderr;
    assert!(reported.contains(cause) && reported.contains(remedy), "{}", finished.report());
    assert!(!reported.contains("lost") && !reported.contains("connection"), "{}", finished.report());
}

/// Closes the cluster's session as an administrator, and returns its number.
#[track_caller]
fn close(cluster: &Cluster) -> String {
    let session = cluster.info().unwrap()["sessions"][0]["id"].to_string();
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["close", &session]);
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("admin"));
    let closed = job.run().unwrap();
    assert_eq!(closed.code(), 0, "{}", closed.report());
    session
}

/// Asserts that a line of the coordinator's log has all of these.
#[track_caller]
fn is_logged(cluster: &Cluster, words: &[&str]) {
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    let logged = cluster.await_messages(|messages| messages.lines().any(has_all));
    logged.unwrap_or_else(|why| panic!("{words:?}: {why}"));
}

#[test]
fn a_session_whose_time_is_over() {
    let cluster = builder().env("ACCORD_SESSION_TIME", "3s").start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        let finished = cluster.job(0, &program).unwrap().args(work.iter().copied()).run().unwrap();
        assert_reports(&finished, "has lasted as long as the cluster allows", "ask for more time");
    }
    is_logged(&cluster, &["warn", "session", "of user", "endless", "has ended: its time is over"]);
    is_logged(&cluster, &["info", "of user", "endless", "has opened, with 3 devices"]);
}

/// Agents know the reason, too.
#[test]
fn a_session_whose_time_is_over_while_the_coordinator_is_away() {
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        let mut cluster = builder().env("ACCORD_SESSION_TIME", "3s").start().unwrap();
        let running = cluster.job(0, &program).unwrap().args(work.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        cluster.kill_coordinator();
        assert_reports(&running.finish().unwrap(), "has lasted as long as the cluster allows", "ask for more time");
    }
}

#[test]
fn a_session_whose_agent_is_stopped_while_the_coordinator_is_away() {
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        let mut cluster = builder().start().unwrap();
        let running = cluster.job(0, &program).unwrap().args(work.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        cluster.kill_coordinator();
        cluster.terminate(Some(1)).unwrap();
        assert_reports(&running.finish().unwrap(), "the agent of node h1 was stopped", "when the agent is back");
    }
}

#[test]
fn a_session_that_an_administrator_closes() {
    let cluster = builder().start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        let running = cluster.job(0, &program).unwrap().args(work.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        let session = close(&cluster);
        assert_reports(&running.finish().unwrap(), "an administrator has closed session", "ask them why");
        is_logged(&cluster, &["warn", &session, "endless", "has ended: an administrator has closed it"]);
        is_logged(&cluster, &["audit", "admin", &format!("closes session s{session}")]);
    }
}

/// A program without a request asks before it uses another node. No coordinator answers for an ended session.
#[test]
fn a_closed_session_that_begins_on_another_node() {
    let cluster = builder().start().unwrap();
    let (input, mut lines) = std::io::pipe().unwrap();
    let program = test_program("cluster/on_request.c").unwrap();
    let running = cluster.job(0, &program).unwrap().stdin(input).start().unwrap();
    writeln!(lines, "use 1").unwrap();
    running.await_output("done 1\n").unwrap();
    close(&cluster);
    // The program gets the reason, loses the coordinator, and gets the reason again after reconnecting.
    std::thread::sleep(Duration::from_secs(1));
    writeln!(lines, "use 2").unwrap();
    assert_reports(&running.finish().unwrap(), "an administrator has closed session", "ask them why");
}

/// The stopped program has lost the coordinator that opened the session, and not found the next one.
#[test]
fn a_session_that_an_administrator_closes_while_its_program_has_no_coordinator() {
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        let mut cluster = builder().start().unwrap();
        let running = cluster.job(0, &program).unwrap().args(work.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        running.signal(Signal::SIGSTOP).unwrap();
        cluster.kill_coordinator();
        cluster.start_coordinator().unwrap();
        // Each node that it has used reports the session to the new coordinator.
        let devices = work.len() - 1;
        let is_back = |info: &Value| info["sessions"][0]["uses"].as_array().is_some_and(|uses| uses.len() == devices);
        cluster.await_info("the session", is_back).unwrap();
        close(&cluster);
        cluster.await_info("its end", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
        running.signal(Signal::SIGCONT).unwrap();
        assert_reports(&running.finish().unwrap(), "an administrator has closed session", "ask them why");
    }
}

#[test]
fn a_session_whose_agent_is_stopped() {
    let mut cluster = builder().start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    for work in WORKS {
        cluster.await_devices(3).unwrap();
        let running = cluster.job(0, &program).unwrap().args(work.iter().copied()).start().unwrap();
        running.await_output("ready").unwrap();
        cluster.terminate(Some(1)).unwrap();
        assert_reports(&running.finish().unwrap(), "the agent of node h1 was stopped", "when the agent is back");
        cluster.start_agent(1).unwrap();
    }
    is_logged(&cluster, &["info", "node h1", "has left: its agent was stopped"]);
}

/// Until the session ends it has the node, which no other one gets. The next agent's node takes part again.
#[test]
fn a_session_whose_agent_drains_its_node_before_it_stops() {
    let mut cluster = builder().env("ACCORD_DRAIN_TIME", "10m").start().unwrap();
    let (input, mut lines) = std::io::pipe().unwrap();
    let program = test_program("cluster/on_request.c").unwrap();
    let running = cluster.job(0, &program).unwrap().stdin(input).start().unwrap();
    writeln!(lines, "use 1").unwrap();
    running.await_output("done 1\n").unwrap();
    let agent = Pid::from_raw(cluster.agent_id(1).unwrap().try_into().unwrap());
    kill(agent, Signal::SIGTERM).unwrap();
    cluster.await_info("the drain", |info| info["nodes"][1]["state"] == "draining").unwrap();
    cluster.await_devices(2).unwrap();
    writeln!(lines, "use 1").unwrap();
    running.await_output("done 2\n").unwrap();
    drop(lines);
    let finished = running.finish().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    cluster.await_info("the agent's end", |info| info["nodes"][1]["state"] == "gone").unwrap();
    assert_eq!(cluster.terminate(Some(1)).unwrap(), 0);
    cluster.start_agent(1).unwrap();
    cluster.await_devices(3).unwrap();
}

#[test]
fn a_session_that_outlasts_the_drain_of_its_agent() {
    let mut cluster = builder().env("ACCORD_DRAIN_TIME", "1s").start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    let running = cluster.job(0, &program).unwrap().args(["launch", "1"]).start().unwrap();
    running.await_output("ready").unwrap();
    assert_eq!(cluster.terminate(Some(1)).unwrap(), 0);
    assert_reports(&running.finish().unwrap(), "the agent of node h1 was stopped", "when the agent is back");
}

/// A session's limits are in its user's `accord info`, and in the error of a program that wants more.
#[test]
fn a_quota_is_called_so() {
    let cluster = builder().env("ACCORD_MEMORY_QUOTA", "2M").env("ACCORD_SESSION_TIME", "1h").start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    // Two arrays of 4 MiB.
    let finished = cluster.job(0, &program).unwrap().args(["idle", "1"]).run().unwrap();
    assert_eq!(finished.code(), 1, "{}", finished.report());
    let reported = &finished.stderr;
    assert!(
        reported.contains("quota is 2097152 bytes") && reported.contains("ask the site for a larger quota"),
        "{}",
        finished.report()
    );
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["info"]);
    let info = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls()).run().unwrap();
    let limits =
        "a session has: 2.0 MiB of memory on each device of other nodes, 32 streams on each device, at most 60 min";
    assert!(info.stdout.contains(limits), "{}", info.report());
    let info = cluster.info().unwrap();
    assert_eq!(info["coordinator"]["limits"]["memory_quota"], 2 << 20, "{info}");
}

/// A command of `accord logs` of a part with certificates.
fn logs(cluster: &Cluster, user_name: &str, session: &str) -> Finished {
    cluster.accord_as(user_name).unwrap().args(["logs", session]).run().unwrap()
}

#[test]
fn logs_of_a_session_are_shown_to_its_user_and_to_administrators() {
    const OTHER: u32 = 4_711;
    let cluster = builder().other_tenants(&[OTHER]).start().unwrap();
    let program = test_program("cluster/endless.c").unwrap();
    let running = cluster.job(0, &program).unwrap().args(["launch", "1"]).start().unwrap();
    running.await_output("ready").unwrap();
    let session = cluster.info().unwrap()["sessions"][0]["id"].to_string();
    let running_log = logs(&cluster, "program", &session);
    assert_eq!(running_log.code(), 0, "{}", running_log.report());
    assert!(running_log.stdout.contains(" h1: user "), "{}", running_log.report());
    assert!(running_log.stdout.contains(" has executor process "), "{}", running_log.report());
    let others = logs(&cluster, &format!("program-{OTHER}"), &session);
    assert_eq!(others.code(), 125, "{}", others.report());
    assert!(others.stderr.contains("no node has a log of a session"), "{}", others.report());
    close(&cluster);
    running.finish().unwrap();
    cluster.await_info("its end", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
    for user_name in ["admin", "program"] {
        let reported = "h1: the coordinator ends the session: an administrator has closed session";
        // The agent hears of it later than the program, which may report the reason before its executor is killed.
        let begun = Instant::now();
        let ended = loop {
            let ended = logs(&cluster, user_name, &session);
            if ended.stdout.contains(reported) || begun.elapsed() > REPORTED_MAX {
                break ended;
            }
        };
        assert_eq!(ended.code(), 0, "{}", ended.report());
        assert!(ended.stdout.contains(reported), "{}", ended.report());
        let json = cluster.accord_as(user_name).unwrap().args(["logs", "--json", &session]).run().unwrap();
        let json: Value = serde_json::from_str(&json.stdout).unwrap();
        let of_h1 = json["nodes"].as_array().unwrap().iter().find(|node| node["node"] == "h1").unwrap();
        assert!(of_h1["lines"].as_array().unwrap().len() >= 2 && of_h1["dropped"] == 0, "{json:#}");
    }
    let unknown = logs(&cluster, "admin", "987654321");
    assert_eq!(unknown.code(), 125, "{}", unknown.report());
    assert!(unknown.stderr.contains("no node has a log of a session"), "{}", unknown.report());
}

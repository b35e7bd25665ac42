//! A coordinator that is killed while jobs run and wait, and restarted with its state file. Jobs keep numbers, devices
//! and places; usage, history and the policy are kept.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Running, Tool, test_program, tool};
use serde_json::Value;
use std::io::PipeWriter;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn cluster(state: &Path) -> Cluster {
    Cluster::builder().hosts(1).devices(2).memory("64M").env("ACCORD_STATE", state.as_os_str()).start().unwrap()
}

/// Runs `accord` with an administrator's certificates.
fn accord(cluster: &Cluster, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("admin"));
    job.env("ACCORD_NODE", cluster.host(0)).run().unwrap()
}

fn json(cluster: &Cluster, arguments: &[&str]) -> Value {
    let finished = accord(cluster, &[arguments, &["--json"]].concat());
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.report()))
}

/// Starts a program that requests devices. Dropping the pipe ends it.
fn asks(cluster: &Cluster, request: &str) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/holds_devices.c").unwrap()).unwrap();
    (job.env("ACCORD_DEVICES", request).stdin(input).timeout(LIMIT).start().unwrap(), ends)
}

/// Waits until jobs 1, 2 and so on have these states, and returns the queue.
fn await_states(cluster: &Cluster, states: &[&str]) -> Value {
    let begun = Instant::now();
    loop {
        let queue = json(cluster, &["queue"]);
        let jobs = queue["jobs"].as_array().unwrap();
        let state = |job: usize| jobs.iter().find(|known| known["job"] == job).and_then(|job| job["state"].as_str());
        if (1..).zip(states).all(|(job, wanted)| state(job).unwrap_or("over") == *wanted) {
            return queue;
        }
        assert!(begun.elapsed() < LIMIT, "{states:?} are awaited in vain: {queue:#}\n{}", cluster.messages());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn usage_ms(cluster: &Cluster) -> u64 {
    let usage = json(cluster, &["usage"]);
    let rows = usage["rows"].as_array().unwrap();
    rows.iter().map(|row| row["device_ms"].as_u64().unwrap()).sum()
}

#[test]
fn jobs_places_usage_and_policy_outlast_a_coordinator_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(&folder.path().join("state"));
    let text = "[account.all]\nusers = [\"*\"]\n";
    let policy = folder.path().join("p.toml");
    std::fs::write(&policy, text).unwrap();
    assert_eq!(accord(&cluster, &["policy", "apply", policy.to_str().unwrap()]).code(), 0);

    let (first, ends_first) = asks(&cluster, "1:cpu");
    first.await_output("has").unwrap();
    let (second, ends_second) = asks(&cluster, "1:cpu");
    second.await_output("has").unwrap();
    let (third, ends_third) = asks(&cluster, "1:cpu");
    third.await_errors("job 3 waits").unwrap();
    let (fourth, ends_fourth) = asks(&cluster, "2:cpu");
    fourth.await_errors("job 4 waits").unwrap();
    let asked =
        await_states(&cluster, &["running", "running", "waiting", "waiting"])["jobs"][2]["asked_unix_ms"].clone();

    let mut used = 0;
    for _ in 0..2 {
        used = used.max(usage_ms(&cluster));
        cluster.kill_coordinator();
        cluster.start_coordinator().unwrap();
        let queue = await_states(&cluster, &["running", "running", "waiting", "waiting"]);
        // The time of its request is kept.
        assert_eq!(queue["jobs"][2]["asked_unix_ms"], asked, "{queue:#}");
        assert!(usage_ms(&cluster) >= used, "{} ms were used, and now {}", used, usage_ms(&cluster));
    }

    // Held devices are not allocated again, and places are kept.
    drop(ends_first);
    first.finish().unwrap().success().unwrap();
    third.await_output("has").unwrap();
    await_states(&cluster, &["over", "running", "running", "waiting"]);
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    for (running, ends) in [(second, ends_second), (third, ends_third)] {
        drop(ends);
        running.finish().unwrap().success().unwrap();
    }
    fourth.await_output("has").unwrap();
    drop(ends_fourth);
    fourth.finish().unwrap().success().unwrap();
    await_states(&cluster, &["over", "over", "over", "over"]);
    let history = json(&cluster, &["history"]);
    let mut ended: Vec<u64> =
        history["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap()).collect();
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3, 4], "{history:#}");

    let (fifth, ends_fifth) = asks(&cluster, "2:cpu");
    fifth.await_output("has").unwrap();
    await_states(&cluster, &["over", "over", "over", "over", "running"]);
    drop(ends_fifth);
    fifth.finish().unwrap().success().unwrap();
    let applied = accord(&cluster, &["policy", "apply", policy.to_str().unwrap()]);
    assert!(applied.stdout.contains("policy version 2 is in effect"), "{}", applied.report());
}

/// `accord run` as the user of programs, with this command.
fn run(cluster: &Cluster, request: &str, command: &str) -> Job {
    let run = Job::new(tool(Tool::Accord).unwrap()).args(["run", "--devices", request, "--", "sh", "-c", command]);
    let run = run.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of("program"));
    run.env("ACCORD_NODE", cluster.host(0)).env("ACCORD_OPEN_TIMEOUT", "1s").timeout(LIMIT)
}

#[test]
fn commands_outlast_a_long_outage_and_a_command_that_ends_meanwhile_ends_its_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(&folder.path().join("state"));
    let (input, ends) = std::io::pipe().unwrap();
    let first = run(&cluster, "2:cpu", "read line; exit 7").stdin(input).start().unwrap();
    await_states(&cluster, &["running"]);
    let second = run(&cluster, "1:cpu", "exit 8").start().unwrap();
    second.await_errors("job 2 waits").unwrap();
    cluster.kill_coordinator();
    drop(ends);
    // Both go on after `ACCORD_OPEN_TIMEOUT`.
    first.await_errors("the program has ended, but no coordinator answers").unwrap();
    second.await_errors("trying on until it answers, as it keeps job 2").unwrap();
    cluster.start_coordinator().unwrap();
    assert_eq!([first, second].map(|command| command.finish().unwrap().code()), [7, 8]);
    await_states(&cluster, &["over", "over"]);
    let history = json(&cluster, &["history"]);
    let why: Vec<_> = history["jobs"].as_array().unwrap().iter().map(|job| job["why"].as_str().unwrap()).collect();
    assert_eq!(why, ["its command ended"; 2], "{history:#}");
}

#[test]
fn a_restored_backup_takes_in_the_jobs_that_began_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (state, backup) = (folder.path().join("state"), folder.path().join("backup"));
    let mut cluster = cluster(&state);
    let (first, ends_first) = asks(&cluster, "1:cpu");
    first.await_output("has").unwrap();
    cluster.kill_coordinator();
    std::fs::copy(&state, &backup).unwrap();
    cluster.start_coordinator().unwrap();
    let (second, ends_second) = asks(&cluster, "1:cpu");
    second.await_output("has").unwrap();
    cluster.kill_coordinator();
    // Epochs count seconds. Two restarts within one second would give the restored state the epoch of the coordinator
    // after the backup.
    std::thread::sleep(Duration::from_secs(2));
    std::fs::copy(&backup, &state).unwrap();
    cluster.start_coordinator().unwrap();
    await_states(&cluster, &["running", "running"]);
    // Both devices are held.
    let (third, ends_third) = asks(&cluster, "1:cpu");
    third.await_errors("job 3 waits").unwrap();
    drop(ends_second);
    second.finish().unwrap().success().unwrap();
    third.await_output("has").unwrap();
    for (running, ends) in [(first, ends_first), (third, ends_third)] {
        drop(ends);
        running.finish().unwrap().success().unwrap();
    }
    await_states(&cluster, &["over", "over", "over"]);
}

#[test]
fn a_state_that_can_not_be_used_is_refused_with_file_cause_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::write(&state, [7; 8_192]).unwrap();
    let job = Job::new(tool(Tool::Coordinator).unwrap()).args(["--listen", "127.0.0.1:0", "--socket"]);
    let finished = job.arg(folder.path().join("socket")).arg("--state").arg(&state).run().unwrap();
    let expected =
        format!("the state file {}: it is not the state of a coordinator; name another file", state.display());
    assert!(finished.code() != 0 && finished.stderr.contains(&expected), "{}", finished.report());
}

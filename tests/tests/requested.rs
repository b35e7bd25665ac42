//! Programs that request devices: a machine alone provides them, and requests that need a scheduler are refused with a
//! message.

use accord_tests::{Cluster, Finished, Job, Tool, libacc, test_program, tool};
use std::io::Write as _;
use std::path::Path;

/// A program that prints its number of devices.
const PROGRAM: &str = "cluster/device_count.c";

fn with_variable(program: &Path, request: &str) -> Finished {
    let job = Job::new(program).env("LD_PRELOAD", libacc().unwrap()).env("ACCORD_CPU_MEMORY", "64M");
    job.env("ACCORD_DEVICES", request).run().unwrap()
}

fn with_options(program: &Path, options: &[&str]) -> Finished {
    let job =
        Job::new(tool(Tool::Accord).unwrap()).args(["run"]).args(options.iter().copied()).args(["--"]).args([program]);
    job.env("ACCORD_CPU_MEMORY", "64M").run().unwrap()
}

fn failed(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), code, "{}", finished.report());
    assert!(finished.stdout.is_empty(), "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
}

#[test]
fn a_machine_alone_gives_type_count_and_memory_and_refuses_the_rest() {
    let program = test_program(PROGRAM).unwrap();
    for request in ["3:cpu", "3:nvidia else 3:cpu:32M local"] {
        let finished = with_variable(&program, request).success().unwrap();
        assert!(finished.stdout.starts_with("devices=3\n"), "{}", finished.report());
    }
    let finished = with_options(&program, &["--devices", "2:cpu", "--near"]).success().unwrap();
    assert!(finished.stdout.starts_with("devices=2\n"), "{}", finished.report());

    failed(&with_variable(&program, "1:radeon"), 1, &["ACCORD_DEVICES", "wrong at \"radeon\"", "no device type"]);
    failed(&with_variable(&program, "2:cpu:1G"), 1, &["ACCORD_DEVICES is \"2:cpu:1G\"", "too few such devices"]);
    failed(&with_variable(&program, "1:cpu limit=2h"), 1, &["limit takes a cluster's scheduler"]);
    failed(
        &with_options(&program, &["--devices", "1:cpu", "--limit", "2h"]),
        2,
        &["limit takes a cluster's scheduler"],
    );
    let marked = "did you mean cpu?\n  4:cpuu near\n    ^^^^";
    failed(&with_options(&program, &["--devices", "4:cpuu", "--near"]), 2, &[marked]);
}

/// A program that prints its number of devices, and holds them until its input ends.
const HOLDS: &str = "cluster/holds_devices.c";

#[test]
fn a_coordinator_gives_a_request_its_devices_and_lets_the_next_one_wait_for_them() {
    let (counts, holds) = (test_program(PROGRAM).unwrap(), test_program(HOLDS).unwrap());
    let cluster = Cluster::builder().hosts(2).devices(2).memory("64M").start().unwrap();
    let asks = |program, request: &str| cluster.job(0, program).unwrap().env("ACCORD_DEVICES", request);
    let (input, ends) = std::io::pipe().unwrap();
    let first = asks(&holds, "3:cpu").stdin(input).start().unwrap();
    first.await_output("has 3").unwrap();
    // A program without a request does not see devices that a job has exclusively.
    let other = cluster.job(1, &counts).unwrap().run().unwrap().success().unwrap();
    assert!(other.stdout.starts_with("devices=1\n"), "{}", other.report());
    let second = asks(&counts, "2:cpu").start().unwrap();
    second.await_errors("and 1 is free for as long as its limit; it is the next one").unwrap();
    drop(ends);
    first.finish().unwrap().success().unwrap();
    let second = second.finish().unwrap().success().unwrap();
    assert!(second.stdout.starts_with("devices=2\n"), "{}", second.report());
    let more = asks(&counts, "1:cpu/h200 wait=1s").run().unwrap();
    failed(&more, 1, &["job 3 waits no longer: it waited as long as its request allows"]);
    let wrong = asks(&counts, "2:cpu account=physics").run().unwrap();
    failed(&wrong, 1, &["the account \"physics\" is not for this user"]);
    let run = with_options(&counts, &["--local-cluster", "2x1", "--loopback", "--devices", "1:cpu"]);
    assert!(run.success().unwrap().stdout.starts_with("devices=1\n"));
}

#[test]
fn a_program_that_asked_for_nothing_is_refused_the_device_of_a_job_and_goes_on_with_others() {
    let (program, holds) = (test_program("cluster/refused_device.c").unwrap(), test_program(HOLDS).unwrap());
    let cluster = Cluster::builder().hosts(1).devices(2).memory("64M").start().unwrap();
    // The program drives devices of its own node itself, and others through an executor.
    for node in [cluster.host(0), "elsewhere".to_owned()] {
        // The previous job's devices are free once the agent has confirmed it.
        cluster.await_devices(2).unwrap();
        let (input, mut line) = std::io::pipe().unwrap();
        let earlier = cluster.job(0, &program).unwrap().env("ACCORD_NODE", node).stdin(input).start().unwrap();
        earlier.await_output("has 2").unwrap();
        let (input, ends) = std::io::pipe().unwrap();
        let job = cluster.job(0, &holds).unwrap().env("ACCORD_DEVICES", "1:cpu").stdin(input).start().unwrap();
        job.await_output("has 1").unwrap();
        line.write_all(b"\n").unwrap();
        let finished = earlier.finish().unwrap().success().unwrap();
        let refused = format!(" of node {} to itself [acc_error_device_unavailable]; use another", cluster.host(0));
        for words in [&refused, "error: parallel", "ran on 1 of 2\n"] {
            assert!(finished.stdout.contains(words), "no {words:?}: {}", finished.report());
        }
        drop(ends);
        job.finish().unwrap().success().unwrap();
    }
}

#[test]
fn a_request_that_is_withdrawn_gives_its_place_to_the_next_one() {
    let (counts, holds) = (test_program(PROGRAM).unwrap(), test_program(HOLDS).unwrap());
    let cluster = Cluster::builder().hosts(1).devices(2).memory("64M").start().unwrap();
    let asks = |program, request: &str| cluster.job(0, program).unwrap().env("ACCORD_DEVICES", request);
    let (input, ends) = std::io::pipe().unwrap();
    let first = asks(&holds, "1:cpu").stdin(input).start().unwrap();
    first.await_output("has 1").unwrap();
    let second = asks(&counts, "2:cpu").start().unwrap();
    second.await_errors("job 2 waits").unwrap();
    second.signal(nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(!second.finish().unwrap().timed_out);
    let third = asks(&counts, "1:cpu").run().unwrap().success().unwrap();
    assert!(third.stdout.starts_with("devices=1\n"), "{}", third.report());
    drop(ends);
    first.finish().unwrap().success().unwrap();
}

/// Returns `accord run` in a cluster.
fn run_in(cluster: &Cluster, options: &[&str], command: &[&str]) -> Job {
    let job = Job::new(tool(Tool::Accord).unwrap()).arg("run").args(options.iter().copied()).arg("--");
    let job = job.args(command.iter().copied()).env("ACCORD_COORDINATOR", cluster.address());
    job.env("ACCORD_TLS", cluster.tls()).env("ACCORD_NODE", cluster.host(0)).env("ACCORD_TEST_SEPARATE", "1")
}

#[test]
fn ctrl_c_ends_a_terminals_line_about_the_wait() {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        println!("skipped: no script command (package bsdutils)");
        return;
    }
    let cluster = Cluster::builder().hosts(1).devices(1).memory("64M").start().unwrap();
    let (input, ends) = std::io::pipe().unwrap();
    let first = cluster.job(0, &test_program(HOLDS).unwrap()).unwrap().env("ACCORD_DEVICES", "1:cpu").stdin(input);
    let first = first.start().unwrap();
    first.await_output("has 1").unwrap();
    let accord = tool(Tool::Accord).unwrap();
    let command = format!("exec {} run --devices 1:cpu -- true", accord.display());
    let (input, mut keys) = std::io::pipe().unwrap();
    let waits = Job::new("script").args(["-qec", &command, "/dev/null"]).env("ACCORD_COORDINATOR", cluster.address());
    let waits = waits.env("ACCORD_TLS", cluster.tls()).env("ACCORD_NODE", cluster.host(0)).stdin(input);
    let waits = waits.start().unwrap();
    waits.await_output("Ctrl-C withdraws it").unwrap();
    keys.write_all(b"\x03").unwrap();
    let finished = waits.finish().unwrap();
    let end = finished.stdout.rsplit("withdraws it").next().unwrap();
    assert!(end.contains("^C\r\naccord: interrupted"), "{}", finished.report());
    drop(ends);
    first.finish().unwrap().success().unwrap();
}

#[test]
fn a_command_holds_a_job_for_all_programs_below_it() {
    let counts = test_program(PROGRAM).unwrap().display().to_string();
    let cluster = Cluster::builder().hosts(2).devices(2).memory("64M").start().unwrap();
    let ten = format!("for i in 1 2 3 4 5; do {counts} || exit 9; done; for i in 1 2 3 4 5; do {counts} & done; wait");
    let finished = run_in(&cluster, &["--devices", "3:cpu", "--limit", "10m"], &["sh", "-c", &ten]).run().unwrap();
    let finished = finished.success().unwrap();
    assert_eq!(finished.stdout.matches("devices=3\n").count(), 10, "{}", finished.report());

    // The devices are free again, and the exit code is the command's.
    assert_eq!(run_in(&cluster, &["--devices", "4:cpu"], &["sh", "-c", "exit 7"]).run().unwrap().code(), 7);
    let refused = run_in(&cluster, &["--devices", "1:cpu", "--account", "physics"], &["true"]).run().unwrap();
    failed(&refused, 121, &["the account \"physics\" is not for this user"]);
    let late = run_in(&cluster, &["--devices", "1:cpu/h200", "--wait", "1s"], &["true"]).run().unwrap();
    failed(&late, 121, &["it waited as long as its request allows"]);
    let limited = run_in(&cluster, &["--devices", "1:cpu", "--limit", "1s"], &["sleep", "60"]).run().unwrap();
    failed(&limited, 122, &["has ended: its time limit"]);
    let both = run_in(&cluster, &["--devices", "1:cpu"], &["env", "ACCORD_DEVICES=1:cpu", &counts]).run().unwrap();
    failed(&both, 1, &["ACCORD_DEVICES is \"1:cpu\" in job", "unset ACCORD_DEVICES"]);
}

/// The kernel reports a parent's death for each of its threads: several runs include a launcher that gets two signals.
#[test]
fn a_killed_command_leaves_none_of_its_ranks() {
    if mpirun().is_none() {
        return;
    }
    let cluster = Cluster::builder().hosts(1).devices(2).memory("64M").start().unwrap();
    for _ in 0..4 {
        let options = ["-np", "2", "--devices-per-rank", "1:cpu"];
        let run = run_in(&cluster, &options, &["sh", "-c", "echo up; exec sleep 60"]).start().unwrap();
        run.await_output("up\nup").unwrap();
        run.signal(nix::sys::signal::Signal::SIGKILL).unwrap();
        let finished = run.finish().unwrap();
        assert!(finished.left_behind.is_empty(), "{}", finished.report());
    }
}

#[test]
fn a_coordinator_that_is_started_again_keeps_what_a_job_has_to_itself() {
    let (counts, holds) = (test_program(PROGRAM).unwrap(), test_program(HOLDS).unwrap());
    let mut cluster = Cluster::builder().hosts(1).devices(2).memory("64M").start().unwrap();
    let (input, ends) = std::io::pipe().unwrap();
    // Its devices are on its own node: it drives them itself, without an executor.
    let first = cluster.job(0, &holds).unwrap().env("ACCORD_DEVICES", "2:cpu").stdin(input).start().unwrap();
    first.await_output("has 2").unwrap();
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    let second = cluster.job(0, &counts).unwrap().env("ACCORD_DEVICES", "1:cpu").start().unwrap();
    second.await_errors(", and none is free").unwrap();
    drop(ends);
    first.finish().unwrap().success().unwrap();
    let second = second.finish().unwrap().success().unwrap();
    assert!(second.stdout.starts_with("devices=1\n"), "{}", second.report());
}

/// Returns this machine's MPI launcher; prints that the test is skipped if there is none.
fn mpirun() -> Option<&'static str> {
    let found = ["/usr/bin/mpirun", "/usr/local/bin/mpirun"].into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        println!("skipped: there is no mpirun");
    }
    found
}

#[test]
fn ranks_of_mpirun_share_the_job_that_the_first_of_them_asks_for() {
    let Some(mpirun) = mpirun() else { return };
    let counts = test_program(PROGRAM).unwrap().display().to_string();
    let cluster = Cluster::builder().hosts(1).devices(4).memory("64M").start().unwrap();
    let ranks = |request: &str| {
        let job = cluster.job(0, Path::new(mpirun)).unwrap();
        let job = job.args(["--allow-run-as-root", "--oversubscribe", "-np", "3"]).arg(&*counts);
        job.env("ACCORD_DEVICES", request).run().unwrap().success().unwrap().stdout
    };
    assert_eq!(ranks("3:cpu").matches("devices=3\n").count(), 3);
    // The job goes on for a while, so the next one gets other devices.
    assert_eq!(ranks("1:cpu").matches("devices=1\n").count(), 3);
}

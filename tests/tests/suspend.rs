//! Suspended jobs: their devices go to others, and they go on with the same memory.
#![forbid(unsafe_code)]

mod driver;

use accord_tests::{
    Cluster, ClusterBuilder, Finished, Language, Optimize, Program, Running, Variant, compile, compile_support,
    repository_file, test_program,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{PipeWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// A node without an agent: executors drive all devices.
const ELSEWHERE: &str = "elsewhere";
const PROGRAM: &str = "cluster/steps.c";

/// A program that computes a step for each line of its input.
struct Stepping {
    running: Running,
    input: PipeWriter,
}

impl Stepping {
    /// Starts the program as on this node. It waits for its job's start.
    fn start(cluster: &Cluster, program: &Path, node: &str, request: &str) -> Self {
        let (theirs, input) = std::io::pipe().unwrap();
        let job = cluster.job(0, program).unwrap().env("ACCORD_NODE", node).env("ACCORD_DEVICES", request);
        Self { running: job.stdin(theirs).timeout(LIMIT).start().unwrap(), input }
    }

    fn ask(&self) {
        (&self.input).write_all(b"\n").unwrap();
    }

    fn steps(&self) -> usize {
        self.running.output().lines().filter(|line| line.starts_with("step ")).count()
    }

    /// Waits for the end of this step.
    fn await_step(&self, step: usize) {
        self.running.await_output(&format!("step {step}\n")).unwrap();
    }

    /// Ends the input. The program then checks its values.
    fn finish(self, steps: usize) {
        drop(self.input);
        let finished = self.running.finish().unwrap().success().unwrap();
        assert!(finished.stdout.contains(&format!("{steps} steps are right")), "{}", finished.report());
    }
}

fn accord(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Finished {
    cluster.accord_as(user_name).unwrap().args(arguments.iter().copied()).run().unwrap()
}

/// Asserts that an administrator's command ended with `code`, and that its output contains all words.
fn assert_prints(cluster: &Cluster, arguments: &[&str], code: i32, words: &[&str]) {
    let finished = accord(cluster, "admin", arguments);
    assert_eq!(finished.code(), code, "{}\n{}", finished.report(), cluster.messages());
    for word in words {
        assert!(finished.stdout.contains(word) || finished.stderr.contains(word), "no {word:?}\n{}", finished.report());
    }
}

fn job(cluster: &Cluster, job: u64) -> Option<Value> {
    let finished = accord(cluster, "admin", &["queue", "--json"]);
    let queue: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.report()));
    queue["jobs"].as_array().unwrap().iter().find(|known| known["job"] == job).cloned()
}

fn await_state(cluster: &Cluster, number: u64, state: Option<&str>) {
    let begun = Instant::now();
    loop {
        let found = job(cluster, number);
        if found.as_ref().and_then(|job| job["state"].as_str()) == state {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "{state:?} is awaited in vain: {found:?}\n{}", cluster.messages());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn one_device() -> ClusterBuilder {
    Cluster::builder().hosts(1).devices(1).memory("64M")
}

/// Suspends a job that has its only device to itself, lets another one have it, and resumes it.
fn check_whole_way(cluster: &Cluster, program: &Path, node: &str, request: &str, first: u64) {
    let one = Stepping::start(cluster, program, node, request);
    one.ask();
    one.await_step(1);
    let (number, next) = (first.to_string(), (first + 1).to_string());
    assert_prints(cluster, &["suspend", &number, "--reason", "a drill"], 0, &["is suspended", "a drill"]);
    assert_prints(cluster, &["suspend", &number], 125, &["is suspended already"]);
    let suspended = job(cluster, first).unwrap();
    assert_eq!((&suspended["state"], &suspended["ends_unix_ms"]), (&"suspended".into(), &Value::Null));
    let held = |at: Option<Value>| at.unwrap()["held_ms"].as_u64().unwrap();
    let charged = held(job(cluster, first));
    one.ask();
    // The device is another job's meanwhile.
    let other = Stepping::start(cluster, program, node, request);
    for step in 1..=3 {
        other.ask();
        other.await_step(step);
    }
    assert_eq!(one.steps(), 1, "a suspended job computes");
    assert_eq!(held(job(cluster, first)), charged, "a suspended job is charged");
    assert_prints(cluster, &["resume", &number], 0, &["is suspended", "waits for its devices"]);
    let words = ["waits for its devices", "time limit stands still", &format!("job {next} has to end")];
    assert_prints(cluster, &["explain", "job", &number], 0, &words);
    other.finish(3);
    one.await_step(2);
    await_state(cluster, first, Some("running"));
    assert_prints(cluster, &["resume", &number], 125, &["is not suspended"]);
    one.finish(2);
    await_state(cluster, first, None);
    assert_prints(cluster, &["history", "--json"], 0, &["a drill", "is resumed"]);
}

#[test]
fn a_suspended_job_goes_on_after_another_one_has_had_its_device() {
    let (cluster, program) = (one_device().start().unwrap(), test_program(PROGRAM).unwrap());
    check_whole_way(&cluster, &program, ELSEWHERE, "1:cpu limit=1h", 1);
    // A program that drives the device itself.
    check_whole_way(&cluster, &program, &cluster.host(0), "1:cpu limit=1h", 3);
}

/// A cluster with one GPU of the tests' driver, and the program for it.
fn gpu_cluster(driver: &Path, set: &[(&str, &str)]) -> (Cluster, std::path::PathBuf) {
    compile_support("cluster_kernels", driver).unwrap();
    let source = repository_file("tests/programs").join(PROGRAM);
    let variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };
    let program = compile(&Program::read(source, Language::C).unwrap(), variant).unwrap().program;
    let cluster = Cluster::builder().hosts(1).devices(0).gpus(&[1]).env("LD_LIBRARY_PATH", driver);
    let cluster = cluster.env("FAKE_CUDA_KERNELS", driver.join("cluster_kernels.so")).env("ACCORD_CACHE", "off");
    // The tests' driver looks like a program's own use of CUDA.
    let cluster = cluster.env("ACCORD_ROWS", "on");
    let cluster = set.iter().fold(cluster, |cluster, (name, value)| cluster.env(name, *value));
    (cluster.start().unwrap(), program)
}

#[test]
fn memory_of_a_gpu_comes_back_to_its_addresses() {
    let driver = driver::driver();
    let (cluster, program) = gpu_cluster(driver.path(), &[]);
    check_whole_way(&cluster, &program, ELSEWHERE, "1:nvidia limit=1h", 1);
    check_whole_way(&cluster, &program, &cluster.host(0), "1:nvidia limit=1h", 3);
}

/// Returns the number of processes that have memory mapped which an agent keeps for suspended jobs.
fn with_kept_memory() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let maps = processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    maps.filter(|maps| maps.contains("memfd:accord-suspended")).count()
}

#[test]
fn a_suspension_takes_memory_that_the_agent_keeps() {
    let driver = driver::driver();
    let set = [("ACCORD_SUSPEND_MEMORY", "16M,kept"), ("ACCORD_LOG", "info")];
    let (cluster, program) = gpu_cluster(driver.path(), &set);
    cluster.await_messages(|messages| messages.contains("16 MiB of host memory are kept")).unwrap();
    for (number, node) in [("1", ELSEWHERE.to_owned()), ("2", cluster.host(0))] {
        let program = Stepping::start(&cluster, &program, &node, "1:nvidia limit=1h");
        program.ask();
        program.await_step(1);
        let before = with_kept_memory();
        assert_prints(&cluster, &["suspend", number], 0, &["is suspended"]);
        program.ask();
        assert_eq!(with_kept_memory(), before + 1, "{node}: no process has the agent's memory\n{}", cluster.messages());
        assert_prints(&cluster, &["resume", number], 0, &["runs"]);
        program.await_step(2);
        program.finish(2);
    }
}

#[test]
fn a_job_without_room_in_host_memory_is_left_alone() {
    let driver = driver::driver();
    let (cluster, program) = gpu_cluster(driver.path(), &[("ACCORD_SUSPEND_MEMORY", "1K")]);
    for (number, node) in [("1", ELSEWHERE.to_owned()), ("2", cluster.host(0))] {
        let program = Stepping::start(&cluster, &program, &node, "1:nvidia limit=1h");
        program.ask();
        program.await_step(1);
        assert_prints(&cluster, &["suspend", number], 125, &["can't be suspended", "node h0", "--suspend-memory"]);
        program.ask();
        program.await_step(2);
        await_state(&cluster, number.parse().unwrap(), Some("running"));
        assert_prints(&cluster, &["explain", "job", number], 0, &["the last order failed"]);
        program.finish(2);
    }
}

#[test]
fn orders_for_other_jobs_are_refused() {
    let (cluster, program) = (one_device().start().unwrap(), test_program(PROGRAM).unwrap());
    assert_prints(&cluster, &["suspend", "7"], 125, &["no waiting or running job 7"]);
    assert_prints(&cluster, &["resume", "7"], 125, &["no waiting or running job 7"]);
    let one = Stepping::start(&cluster, &program, ELSEWHERE, "1:cpu");
    one.running.await_output("ready").unwrap();
    let waiting = Stepping::start(&cluster, &program, ELSEWHERE, "1:cpu");
    waiting.running.await_errors("job 2 waits").unwrap();
    assert_prints(&cluster, &["suspend", "2"], 125, &["only running jobs are suspended"]);
    assert_prints(&cluster, &["resume", "1"], 125, &["is not suspended"]);
    one.finish(0);
    waiting.finish(0);
}

#[test]
fn a_suspended_job_ends_with_its_program_or_by_cancelling() {
    let (cluster, program) = (one_device().start().unwrap(), test_program(PROGRAM).unwrap());
    for (first, node) in [(1, ELSEWHERE.to_owned()), (3, cluster.host(0))] {
        let killed = Stepping::start(&cluster, &program, &node, "1:cpu limit=1h");
        killed.running.await_output("ready").unwrap();
        assert_prints(&cluster, &["suspend", &first.to_string()], 0, &["is suspended"]);
        killed.ask();
        killed.running.signal(Signal::SIGKILL).unwrap();
        await_state(&cluster, first, None);
        assert_eq!(cluster.processes_of(&program, LIMIT), Vec::<String>::new(), "stopped workers stay behind");
        let cancelled = Stepping::start(&cluster, &program, &node, "1:cpu limit=1h");
        cancelled.running.await_output("ready").unwrap();
        assert_prints(&cluster, &["suspend", &(first + 1).to_string()], 0, &["is suspended"]);
        cancelled.ask();
        assert_prints(&cluster, &["cancel", &(first + 1).to_string()], 0, &[]);
        let finished = cancelled.running.finish().unwrap();
        assert!(finished.code() != 0 && finished.stderr.contains("cancelled by"), "{}", finished.report());
        await_state(&cluster, first + 1, None);
    }
    let after = Stepping::start(&cluster, &program, ELSEWHERE, "1:cpu");
    after.ask();
    after.await_step(1);
    after.finish(1);
}

#[test]
fn a_suspended_job_outlasts_a_coordinator_with_and_without_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    for with_state in [true, false] {
        let builder = one_device();
        let builder = if with_state { builder.env("ACCORD_STATE", state.as_os_str()) } else { builder };
        let (mut cluster, program) = (builder.start().unwrap(), test_program(PROGRAM).unwrap());
        let one = Stepping::start(&cluster, &program, ELSEWHERE, "1:cpu limit=1h");
        one.ask();
        one.await_step(1);
        assert_prints(&cluster, &["suspend", "1"], 0, &["is suspended"]);
        cluster.kill_coordinator();
        cluster.start_coordinator().unwrap();
        cluster.await_devices(1).unwrap();
        await_state(&cluster, 1, Some("suspended"));
        one.ask();
        assert_prints(&cluster, &["resume", "1"], 0, &["runs"]);
        one.await_step(2);
        one.finish(2);
    }
}

#[test]
fn a_program_stays_suspended_when_its_agent_starts_anew() {
    let (mut cluster, program) = (one_device().start().unwrap(), test_program(PROGRAM).unwrap());
    let one = Stepping::start(&cluster, &program, &cluster.host(0), "1:cpu limit=1h");
    one.ask();
    one.await_step(1);
    assert_prints(&cluster, &["suspend", "1"], 0, &["is suspended"]);
    cluster.kill_agent(0);
    cluster.start_agent(0).unwrap();
    cluster.await_devices(1).unwrap();
    one.ask();
    await_state(&cluster, 1, Some("suspended"));
    assert_prints(&cluster, &["resume", "1"], 0, &["runs"]);
    one.await_step(2);
    one.finish(2);
}

#[test]
fn a_job_on_two_nodes_gives_way_to_a_higher_priority_and_goes_on_with_the_right_result() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let text = "preempt-mode = \"suspend\"\npreempt-exempt-time = \"0s\"\n[account.all]\npriorities = [0, 9]\nusers = [\"*\"]\n";
    std::fs::write(&policy, text).unwrap();
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").env("ACCORD_POLICY", &policy).start().unwrap();
    let program = test_program(PROGRAM).unwrap();
    for (first, node) in [(1, ELSEWHERE.to_owned()), (3, cluster.host(0))] {
        let low = Stepping::start(&cluster, &program, &node, "2:cpu nodes=2 limit=1h");
        low.ask();
        low.await_step(1);
        let high = Stepping::start(&cluster, &program, ELSEWHERE, "2:cpu nodes=2 limit=1h priority=5");
        high.ask();
        high.await_step(1);
        let (number, words) = (first.to_string(), format!("suspended by job {}", first + 1));
        assert_prints(&cluster, &["explain", "job", &number], 0, &[&words, "it goes on in", "its priority is 5"]);
        assert_prints(&cluster, &["queue"], 0, &["suspended", "goes on in"]);
        low.ask();
        high.ask();
        high.await_step(2);
        assert_eq!(low.steps(), 1, "a suspended job computes");
        let refused = accord(&cluster, "program", &["resume", &number]);
        assert!(refused.code() != 0 && refused.stderr.contains("goes on by itself"), "{}", refused.report());
        high.finish(2);
        low.await_step(2);
        await_state(&cluster, first, Some("running"));
        low.finish(2);
        await_state(&cluster, first, None);
        assert_prints(&cluster, &["history", "--json"], 0, &[&words, &format!("job {first} is resumed")]);
    }
}

#[test]
fn an_owner_suspends_a_job_and_resumes_it() {
    let (cluster, program) = (one_device().start().unwrap(), test_program(PROGRAM).unwrap());
    let one = Stepping::start(&cluster, &program, ELSEWHERE, "1:cpu limit=1h");
    one.ask();
    one.await_step(1);
    let own = |command: &str, code: i32, words: &str| {
        let finished = accord(&cluster, "program", &[command, "1"]);
        let has_words = finished.stdout.contains(words) || finished.stderr.contains(words);
        assert!(finished.code() == code && has_words, "no {words:?}\n{}", finished.report());
    };
    own("suspend", 0, "suspended by its owner");
    one.ask();
    own("resume", 0, "runs");
    one.await_step(2);
    own("suspend", 125, "suspend it again in");
    // What an administrator has suspended an owner does not resume.
    assert_prints(&cluster, &["suspend", "1"], 0, &["is suspended"]);
    own("resume", 125, "only an administrator resumes it");
    assert_prints(&cluster, &["resume", "1"], 0, &["runs"]);
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("policy.toml");
    std::fs::write(&text, "suspend-by = \"administrators\"\n").unwrap();
    assert_prints(&cluster, &["policy", "apply", text.to_str().unwrap()], 0, &["is in effect"]);
    own("suspend", 125, "only administrators suspend and resume jobs");
    one.finish(2);
}

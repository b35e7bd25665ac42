//! Sessions whose jobs share a device without control groups run regions in turns, by the weights of their shares.
#![forbid(unsafe_code)]

mod driver;

use accord_tests::{
    Cluster, Language, Optimize, Program, Running, Variant, compile, compile_support, repository_file, test_program,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{PipeWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time in which regions are counted.
const COUNTED: Duration = Duration::from_secs(4);
/// A node without an agent: executors drive all devices.
const ELSEWHERE: &str = "elsewhere";

/// A program that keeps its device busy.
struct Saturating {
    running: Running,
    input: PipeWriter,
}

impl Saturating {
    /// Starts the program as on this node.
    fn start(cluster: &Cluster, program: &Path, node: &str, request: &str) -> Self {
        let (theirs, input) = std::io::pipe().unwrap();
        let job = cluster.job(0, program).unwrap().env("ACCORD_NODE", node).env("ACCORD_DEVICES", request);
        let running = job.stdin(theirs).timeout(Duration::from_secs(120)).start().unwrap();
        let program = Self { running, input };
        program.ask();
        program.running.await_output("ended ").unwrap();
        program
    }

    fn ask(&self) {
        (&self.input).write_all(b"\n").unwrap();
    }

    fn counts(&self) -> Vec<i64> {
        self.running.output().lines().filter_map(|line| line.strip_prefix("ended ")?.parse().ok()).collect()
    }

    /// Returns the number of regions that have ended.
    fn ended(&self) -> i64 {
        let before = self.counts().len();
        self.ask();
        let begun = Instant::now();
        loop {
            if let Some(count) = self.counts().get(before) {
                return *count;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer: {}", self.running.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(self) {
        drop(self.input);
        self.running.finish().unwrap().success().unwrap();
    }
}

fn cluster() -> Cluster {
    Cluster::builder().hosts(1).devices(1).memory("64M").without_cgroups().start().unwrap()
}

/// Starts programs of one and three quarters of the device.
fn start_quarters(cluster: &Cluster, program: &Path, node: &str, kind: &str) -> [Saturating; 2] {
    ["25%", "75%"].map(|part| Saturating::start(cluster, program, node, &format!("1:{kind}:{part}")))
}

/// Returns the regions that both programs run in a while.
fn ran(programs: &[Saturating; 2]) -> [i64; 2] {
    let before = programs.each_ref().map(Saturating::ended);
    std::thread::sleep(COUNTED);
    let after = programs.each_ref().map(Saturating::ended);
    [after[0] - before[0], after[1] - before[1]]
}

/// Whether these are regions of one and three quarters of a device.
fn are_quarters([one, three]: [i64; 2]) -> bool {
    one > 0 && 2 * one < three && 2 * three < 9 * one
}

/// Counts regions of two sessions of one and three quarters of the device, which must divide it like that.
fn check_shares(cluster: &Cluster, program: &Path, node: &str, kind: &str) {
    let programs = start_quarters(cluster, program, node, kind);
    let ran = ran(&programs);
    println!("regions in {COUNTED:?} on {node}: {ran:?}");
    assert!(are_quarters(ran), "on {node}: {ran:?}");
    programs.into_iter().for_each(Saturating::finish);
}

#[test]
fn saturating_sessions_run_regions_in_proportion_to_their_shares() {
    let (cluster, program) = (cluster(), test_program("cluster/counts_regions.c").unwrap());
    check_shares(&cluster, &program, ELSEWHERE, "cpu");
    // Programs that drive the device themselves.
    check_shares(&cluster, &program, &cluster.host(0), "cpu");
}

#[test]
fn programs_take_turns_again_after_their_agents_restart() {
    let (mut cluster, program) = (cluster(), test_program("cluster/counts_regions.c").unwrap());
    let node = cluster.host(0);
    let programs = start_quarters(&cluster, &program, &node, "cpu");
    cluster.kill_agent(0);
    let without = ran(&programs);
    assert!(without.iter().all(|ran| *ran > 0), "without the agent: {without:?}");
    cluster.start_agent(0).unwrap();
    let begun = Instant::now();
    loop {
        let ran = ran(&programs);
        println!("regions in {COUNTED:?}: {without:?} without the agent, {ran:?} with the next one");
        if are_quarters(ran) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no turns from the next agent: {ran:?}");
    }
    programs.into_iter().for_each(Saturating::finish);
}

/// On a loaded machine a program may not have its next launch ready in time, and so loses its turn.
#[test]
#[ignore = "long"]
fn sessions_on_a_gpu_run_regions_in_proportion_to_their_shares() {
    let driver = driver::driver();
    compile_support("cluster_kernels", driver.path()).unwrap();
    let source = repository_file("tests/programs/cluster/counts_regions.c");
    let variant = Variant { optimize: Optimize::Yes, offload: true, linked: false };
    let program = compile(&Program::read(source, Language::C).unwrap(), variant).unwrap().program;
    let cluster = Cluster::builder().hosts(1).devices(0).gpus(&[1]).env("LD_LIBRARY_PATH", driver.path());
    let cluster = cluster.env("FAKE_CUDA_KERNELS", driver.path().join("cluster_kernels.so"));
    // Each operation takes a millisecond.
    let cluster = cluster.env("FAKE_CUDA_SLOW", "1000").env("ACCORD_CACHE", "off").start().unwrap();
    check_shares(&cluster, &program, ELSEWHERE, "nvidia");
    check_shares(&cluster, &program, &cluster.host(0), "nvidia");
}

#[test]
fn a_stopped_executor_loses_its_turn_and_takes_turns_again_afterwards() {
    let (cluster, program) = (cluster(), test_program("cluster/counts_regions.c").unwrap());
    let first = Saturating::start(&cluster, &program, ELSEWHERE, "1:cpu:50%");
    let of_first = cluster.executors(0);
    let second = Saturating::start(&cluster, &program, ELSEWHERE, "1:cpu:50%");
    assert_eq!(of_first.len(), 1, "{of_first:?}");
    let executor = Pid::from_raw(of_first[0].cast_signed());
    for _ in 0..3 {
        kill(executor, Signal::SIGSTOP).unwrap();
        // Two counts, since the first may include regions of the turn before.
        let counts = [second.ended(), second.ended()];
        let begun = Instant::now();
        while second.ended() <= counts[1] {
            assert!(begun.elapsed() < Duration::from_secs(60), "the second session waits for a stopped one");
        }
        kill(executor, Signal::SIGCONT).unwrap();
        let before = first.ended();
        while first.ended() <= before {
            assert!(begun.elapsed() < Duration::from_secs(60), "the first session gets no turns any more");
        }
    }
    first.finish();
    second.finish();
}

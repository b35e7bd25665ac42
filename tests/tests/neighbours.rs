//! Neighbouring releases work together: an upgrade of the coordinator, of agents and of programs, one after the other and
//! in any order, ends no job.
//!
//! Debug builds speak as a later release if `ACCORD_TEST_RELEASES_AHEAD` says so. Before the first release there is no
//! other difference between releases.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Running, Tool, test_program, tool};
use nix::sys::signal::Signal;
use std::io::{PipeWriter, Write};
use std::time::{Duration, Instant};

const AHEAD: &str = "ACCORD_TEST_RELEASES_AHEAD";
const LIMIT: Duration = Duration::from_secs(120);

/// A program that prints how many regions have ended, for each line of its input.
struct Counting {
    running: Running,
    input: PipeWriter,
}

impl Counting {
    /// Starts a program of a release on the first host, with a device of `node`.
    fn start(cluster: &Cluster, release: u32, node: &str) -> Self {
        let (theirs, input) = std::io::pipe().unwrap();
        let job = cluster.job(0, &test_program("cluster/counts_regions.c").unwrap()).unwrap();
        let job = job.env("ACCORD_DEVICES", format!("1:cpu on={node} limit=30m")).env(AHEAD, release.to_string());
        let program = Self { running: job.stdin(theirs).timeout(LIMIT).start().unwrap(), input };
        program.count();
        program
    }

    fn counts(&self) -> Vec<i64> {
        self.running.output().lines().filter_map(|line| line.strip_prefix("ended ")?.parse().ok()).collect()
    }

    fn count(&self) -> i64 {
        let (before, begun) = (self.counts().len(), Instant::now());
        (&self.input).write_all(b"\n").unwrap();
        loop {
            if let Some(count) = self.counts().get(before) {
                return *count;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer: {}", self.running.output());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn finish(self) {
        drop(self.input);
        self.running.finish().unwrap().success().unwrap();
    }
}

/// Runs `accord` of a release.
fn accord(cluster: &Cluster, release: u32, words: &[&str]) -> Finished {
    cluster.accord_as("admin").unwrap().args(words.iter().copied()).env(AHEAD, release.to_string()).run().unwrap()
}

/// Starts and ends programs of both releases, which drive their device themselves, or by an executor.
fn programs_of_both_releases_run(cluster: &Cluster) {
    for release in [0, 1] {
        for node in ["h0", "h1"] {
            Counting::start(cluster, release, node).finish();
        }
        accord(cluster, release, &["info"]).success().unwrap();
        accord(cluster, release, &["queue"]).success().unwrap();
    }
}

/// Changes the cluster from one release to the other while programs of both run on devices of their own node.
fn change(before: u32, after: u32) {
    let state = tempfile::tempdir().unwrap();
    let cluster = Cluster::builder().hosts(2).devices(3).memory("64M").env(AHEAD, before.to_string());
    let mut cluster = cluster.env("ACCORD_STATE", state.path().join("state")).start().unwrap();
    let jobs = [0, 1].map(|release| Counting::start(&cluster, release, "h0"));
    let go_on = |cluster: &Cluster, when: &str| {
        for job in &jobs {
            let before = job.count();
            let begun = Instant::now();
            while job.count() <= before {
                assert!(begun.elapsed() < Duration::from_secs(60), "{when}: a job stands\n{}", cluster.messages());
            }
        }
    };
    programs_of_both_releases_run(&cluster);
    cluster.set_environment(AHEAD, &after.to_string());
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    // Two of six devices are jobs'.
    cluster.await_devices(4).unwrap();
    go_on(&cluster, "after the coordinator");
    programs_of_both_releases_run(&cluster);
    for host in [0, 1] {
        cluster.kill_agent(host);
        cluster.start_agent(host).unwrap();
        cluster.await_devices(4).unwrap();
        go_on(&cluster, &format!("after the agent of h{host}"));
        programs_of_both_releases_run(&cluster);
    }
    jobs.into_iter().for_each(Counting::finish);
}

#[test]
fn an_upgrade_ends_no_job() {
    change(0, 1);
}

#[test]
fn the_way_back_ends_no_job() {
    change(1, 0);
}

#[test]
fn releases_that_are_no_neighbours_are_refused_by_number_with_the_remedy() {
    let cluster = Cluster::builder().hosts(1).devices(1).memory("64M").start().unwrap();
    let remedy = "only neighbouring releases work together";
    let refused = |finished: Finished, words: &[&str]| {
        assert_ne!(finished.code(), 0, "{}", finished.report());
        for word in words {
            assert!(finished.stderr.contains(word), "no {word:?}\n{}", finished.report());
        }
    };
    let own = accord(&cluster, 0, &["version", "--json"]).success().unwrap().stdout;
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    let control = own["protocols"]["control"].as_u64().unwrap();
    let versions = format!("speaks version {} of the control protocol, this side version {control}", control + 2);
    refused(accord(&cluster, 2, &["info"]), &[&versions, remedy]);
    let job = cluster.job(0, &test_program("cluster/uses_each.c").unwrap()).unwrap();
    refused(job.env(AHEAD, "2").env("ACCORD_OPEN_TIMEOUT", "5s").timeout(LIMIT).run().unwrap(), &["protocol", remedy]);
    // An agent tells its administrator.
    let agent = Job::new(tool(Tool::NodeAgent).unwrap()).env(AHEAD, "2").env("ACCORD_TLS", cluster.tls_of("h0"));
    let agent = agent.args(["--coordinator", cluster.address(), "--node", "h0", "--listen", "127.0.0.1:0"]);
    let running = agent.args(["--cpu-devices", "1", "--gpus", "off"]).timeout(LIMIT).start().unwrap();
    running.await_errors(&versions).unwrap();
    running.await_errors(remedy).unwrap();
    running.signal(Signal::SIGTERM).unwrap();
    running.finish().unwrap();
}

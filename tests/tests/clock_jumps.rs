//! Coordinator and agents whose wall clocks jump by an hour, back and ahead: jobs, sessions and leases go on.
#![forbid(unsafe_code)]

#[path = "chaos/clocks.rs"]
mod clocks;

use accord_tests::{Cluster, Running, test_program};
use clocks::Clocks;
use nix::unistd::Pid;
use std::io::{PipeWriter, Write};
use std::time::{Duration, Instant};

/// Time after each jump in which a lease by the wall clock would have ended: some heartbeats.
const AFTER: Duration = Duration::from_secs(4);

/// A program that prints how many regions have ended, for each line of its input.
struct Counting {
    running: Running,
    input: PipeWriter,
}

impl Counting {
    fn start(cluster: &Cluster, node: &str) -> Self {
        let (theirs, input) = std::io::pipe().unwrap();
        let job = cluster.job(0, &test_program("cluster/counts_regions.c").unwrap()).unwrap();
        let job = job.env("ACCORD_DEVICES", format!("1:cpu on={node} limit=30m")).stdin(theirs);
        let program = Self { running: job.timeout(Duration::from_secs(120)).start().unwrap(), input };
        program.count();
        program
    }

    fn count(&self) -> i64 {
        let counts = || -> Vec<i64> {
            let output = self.running.output();
            output.lines().filter_map(|line| line.strip_prefix("ended ")?.parse().ok()).collect()
        };
        let (before, begun) = (counts().len(), Instant::now());
        (&self.input).write_all(b"\n").unwrap();
        loop {
            if let Some(count) = counts().get(before) {
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

#[test]
fn jobs_go_on_while_the_clocks_of_coordinator_and_agents_jump() {
    let (clocks, folder) = (Clocks::new(), tempfile::tempdir().unwrap());
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").preload(clocks.object());
    let cluster = cluster.env("ACCORD_STATE", folder.path().join("state")).start().unwrap();
    // The first program drives its device itself, the other one by an executor.
    let programs = ["h0", "h1"].map(|node| Counting::start(&cluster, node));
    let ids = [cluster.coordinator_id(), cluster.agent_id(0), cluster.agent_id(1)];
    let parts = ids.map(|id| Pid::from_raw(id.unwrap().cast_signed()));
    let go_on = |when: &str| {
        let before = programs.each_ref().map(Counting::count);
        std::thread::sleep(AFTER);
        for (program, before) in programs.iter().zip(before) {
            assert!(program.count() > before, "{when}: no region has ended since\n{}", cluster.messages());
        }
    };
    // Each part alone, and all at once.
    for jumping in [&parts[..1], &parts[1..], &parts] {
        jumping.iter().for_each(|part| clocks.set_back(*part));
        go_on("an hour back");
        jumping.iter().for_each(|part| clocks.forget(*part));
        go_on("an hour ahead");
    }
    programs.into_iter().for_each(Counting::finish);
    // Devices become free, and others get them.
    ["h0", "h1"].map(|node| Counting::start(&cluster, node)).into_iter().for_each(Counting::finish);
}

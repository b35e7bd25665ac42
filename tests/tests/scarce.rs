//! Too few descriptors and too little memory: programs say what they lack, and whom the system has ended for it.

use accord_tests::{Cluster, Finished, Job, libacc, test_program};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn failed_with(finished: &Finished, words: &[&str]) {
    assert!(!finished.timed_out, "hangs: {}", finished.report());
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
}

/// A control group whose processes have so much memory, removed at the end; none where that can't be had.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(bytes: u64) -> Option<Self> {
        let roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.iter().find_map(|(root, limit)| {
            let group = Path::new(root).join(format!("accord-tests-{}", std::process::id()));
            std::fs::create_dir(&group).ok()?;
            let group = Self(group);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    fn take(&self, process: u32) {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn too_few_descriptors_are_said_to_be_too_few() {
    let cluster = Cluster::builder().hosts(2).devices(1).memory("256M").start().unwrap();
    let program = test_program("c/devices_each.c").unwrap();
    let mut told = 0;
    for limit in 4..16 {
        let line = format!("ulimit -n {limit}; exec {}", program.display());
        let job = cluster.job(0, Path::new("/bin/sh")).unwrap().args(["-c", &line]).timeout(Duration::from_secs(60));
        let finished = job.run().unwrap();
        assert!(!finished.timed_out, "hangs with {limit}: {}", finished.report());
        // Else it was enough, or the system's loader could not even begin.
        if let Some(line) = finished.stderr.lines().find(|line| line.contains("[acc_error_")) {
            assert!(line.contains("Too many open files") && line.contains("(ulimit -n)"), "with {limit}: {line}");
            told += 1;
        }
    }
    assert!(told > 3, "{told} times");
}

#[test]
fn a_worker_that_the_system_has_ended_for_memory_is_said_to_be() {
    let Some(group) = MemoryGroup::new(160 << 20) else {
        println!("skipped: there is no control group for memory");
        return;
    };
    let job = Job::new(test_program("cluster/fills_memory.c").unwrap()).arg("600").env("LD_PRELOAD", libacc().unwrap());
    let (input, mut output) = std::io::pipe().unwrap();
    let job = job.env("ACCORD_CPU_MEMORY", "1G").stdin(input).timeout(Duration::from_secs(60));
    let running = job.start().unwrap();
    running.await_output("ready").unwrap();
    group.take(running.id());
    output.write_all(b"go\n").unwrap();
    let finished = running.finish().unwrap();
    failed_with(&finished, &["was killed, most likely by the system's out-of-memory killer", "ACCORD_CPU_MEMORY"]);
    assert!(!finished.stderr.contains("data clauses"), "{}", finished.report());
}

/// The same of an executor on another node, which its agent knows of, and not the program.
#[test]
fn an_executor_that_the_system_has_ended_for_memory_is_said_to_be() {
    let Some(group) = MemoryGroup::new(160 << 20) else {
        println!("skipped: there is no control group for memory");
        return;
    };
    let cluster = Cluster::builder().hosts(2).devices(1).memory("1G").start().unwrap();
    let job = cluster.job(0, &test_program("cluster/copies_much.c").unwrap()).unwrap().arg("600");
    let (input, mut output) = std::io::pipe().unwrap();
    let running = job.env("ACC_DEVICE_NUM", "1").stdin(input).timeout(Duration::from_secs(60)).start().unwrap();
    running.await_output("ready").unwrap();
    let executors = cluster.processes_besides_parts(Duration::ZERO);
    let executor = executors.iter().find(|line| line.ends_with(" executor")).expect("an executor");
    group.take(executor.split(' ').next().unwrap().parse().unwrap());
    output.write_all(b"go\n").unwrap();
    let finished = running.finish().unwrap();
    let words = ["node h1", "SIGKILL", "most likely by the system's out-of-memory killer", "--cpu-memory"];
    failed_with(&finished, &words);
}

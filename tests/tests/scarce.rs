//! Too few descriptors and too little memory: programs report what they lack, and which process the system has ended
//! for it.

use accord_test_tier::{cases, pick};
use accord_tests::{Cluster, Finished, Job, ProcessGroup, Tool, compile_support, libacc, test_program, tool};
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

/// A control group whose processes have this much memory, removed on drop; `None` if it can't be created.
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
    let mut reported = 0;
    for limit in 4..16 {
        let line = format!("ulimit -n {limit}; exec {}", program.display());
        let job = cluster.job(0, Path::new("/bin/sh")).unwrap().args(["-c", &line]).timeout(Duration::from_secs(60));
        let finished = job.run().unwrap();
        assert!(!finished.timed_out, "hangs with {limit}: {}", finished.report());
        // Otherwise the limit sufficed, or the system's loader could not even start.
        if let Some(line) = finished.stderr.lines().find(|line| line.contains("[acc_error_")) {
            assert!(line.contains("Too many open files") && line.contains("(ulimit -n)"), "with {limit}: {line}");
            reported += 1;
        }
    }
    assert!(reported > 3, "{reported} times");
}

/// However far an executor gets, the program learns the cause. A program that waited for a silent executor instead
/// would name a timeout.
#[test]
fn executors_without_threads_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let few_threads = compile_support("few_threads", folder.path()).unwrap();
    let program = test_program("c/devices_each.c").unwrap();
    let (mut worked, mut reported) = (0, 0);
    let mut threads = cases(&[0, 1, 2, 3, 4, 6, 8], 2);
    threads.push(40);
    for transport in ["shm", "tls"] {
        for threads in threads.clone() {
            let builder = Cluster::builder().hosts(2).devices(1).memory("256M").preload(&few_threads);
            let builder = builder.env("EXECUTOR_THREADS", threads.to_string()).env("ACCORD_TRANSPORT", transport);
            let cluster = builder.start().unwrap();
            let finished = cluster.job(0, &program).unwrap().timeout(Duration::from_secs(60)).run().unwrap();
            let what = format!("{threads} threads, {transport}: {}", finished.report());
            println!("{what}");
            assert!(!finished.timed_out && finished.left_behind.is_empty(), "{what}");
            if finished.code() == 0 {
                worked += 1;
            } else {
                assert!(finished.stderr.contains("[acc_error_"), "{what}");
                reported += usize::from(finished.stderr.contains("cannot start a thread"));
            }
        }
    }
    assert_eq!((worked, reported), (2, 2 * (threads.len() - 1)));
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

/// An executor on another node was ended by the system, which its agent knows, and not the program.
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

/// Runs two ranks, each of which runs `limit` before the program. Returns whether that was too little, which must be
/// reported with this word of the remedy.
fn ranks_are_notified(limit: &str, remedy: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let program = test_program("c/devices_each.c").unwrap();
    let job = Job::new(tool(Tool::Accord).unwrap()).env("ACCORD_LIBACC", libacc().unwrap());
    let job = job.env("ACCORD_CPU_MEMORY", "64M").env("TMPDIR", folder.path()).timeout(Duration::from_secs(60));
    let line = format!("{limit}; exec {}", program.display());
    let job = job.args(["run", "--loopback", "--local-cluster", "2x1", "-np", "2", "--", "/bin/sh", "-c", &line]);
    let finished = job.run().unwrap();
    let report = format!("{limit}: {}", finished.report());
    assert!(!finished.timed_out && finished.left_behind.is_empty(), "{report}");
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("accord-")).collect();
    assert!(left.is_empty(), "{left:?}: {report}");
    // A worker that can't start has reported it in a line of its own, which its owner's message refers to.
    let printed = finished.stderr.contains("[acc_error_");
    if printed {
        assert!(finished.code() != 0 && finished.stderr.contains(remedy), "{report}");
    } else if finished.code() != 0 {
        // The loader, or the shell, could not even start.
        let cannot_begin = ["error while loading shared libraries", "Cannot fork", "Resource temporarily unavailable"];
        assert!(cannot_begin.iter().any(|words| finished.stderr.contains(words)), "{report}");
    }
    printed
}

#[test]
fn ranks_that_have_too_little_say_what_and_leave_nothing() {
    if std::process::Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: there is no mpirun");
        return;
    }
    let reported =
        |limits: &[String], remedy: &str| limits.iter().filter(|limit| ranks_are_notified(limit, remedy)).count();
    let each = |name: &str, amounts: &[u32]| -> Vec<String> {
        amounts.iter().map(|amount| format!("ulimit -{name} {amount}")).collect()
    };
    assert!(reported(&each("n", pick(&[8], &[4, 6, 8, 12])), "(ulimit -n)") > pick(0, 2));
    assert!(reported(&each("v", pick(&[200_000], &[40_000, 200_000])), "ulimit -v") > 0);
    assert!(reported(&each("f", pick(&[1_000], &[0, 1_000])), "(ulimit -f)") == pick(1, 2));
    if !nix::unistd::geteuid().is_root() {
        reported(&each("u", &[1, 2]), "ulimit -u");
        return;
    }
    // The limit on processes does not hold for root, but that of a control group does.
    let groups: Vec<_> = pick(&[6][..], &[2, 4, 6, 8]).iter().copied().map_while(ProcessGroup::new).collect();
    if groups.is_empty() {
        println!("skipped: there is no control group for processes");
        return;
    }
    let limits: Vec<_> = groups.iter().map(ProcessGroup::enter).collect();
    assert!(reported(&limits, "ulimit -u") > 0);
}

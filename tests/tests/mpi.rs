//! Agents that are the ranks of an MPI job: `accord run --fabric mpi`. What comes over it is right, and nothing is left when a
//! node dies. Skipped, with the reason, where there is no MPI or its part was not built (`make mpi`).

use accord_tests::{Finished, Job, Result, Tool, libacc, no_mpi, test_program, tool};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Within this a program knows that a node of its job is lost.
const LOST: Duration = Duration::from_secs(3);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);
/// How long an idle agent is watched.
const WATCHED: Duration = Duration::from_secs(5);

/// Whether there is no MPI; says so.
fn is_skipped() -> bool {
    let why = no_mpi();
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_some()
}

fn run(program: &Path) -> Job {
    Job::new(tool(Tool::Accord).unwrap())
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "256M")
        .timeout(Duration::from_secs(60))
        .args(["run", "--local-cluster", "3x1", "--loopback", "--fabric", "mpi", "--"])
        .arg(program)
}

/// The agent of a host in the run that `child` belongs to.
fn agent_of(supervisor: Pid, host: &str) -> Option<Pid> {
    descendants(supervisor).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.first().is_some_and(|program| program.ends_with("accord-node-agent"))
            && words.windows(2).any(|two| two[0] == "--node" && two[1] == host)
    })
}

fn descendants(of: Pid) -> Vec<Pid> {
    let (mut all, mut open) = (Vec::new(), vec![of]);
    while let Some(pid) = open.pop() {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        for task in std::fs::read_dir(tasks).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw);
            open.extend(children.inspect(|child| all.push(*child)));
        }
    }
    all
}

fn succeeded(finished: &Finished) {
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
}

#[test]
fn devices_of_all_nodes_work_and_copy_to_each_other() {
    if is_skipped() {
        return;
    }
    for program in ["c/devices_each.c", "c/d2d_all_pairs.c", "c/d2d_async_all_pairs.c"] {
        succeeded(&run(&test_program(program).unwrap()).run().unwrap());
    }
}

#[test]
fn routes_say_that_they_go_by_mpi() {
    if is_skipped() {
        return;
    }
    let finished = run(&tool(Tool::Accord).unwrap()).arg("info").run().unwrap();
    succeeded(&finished);
    assert_eq!(finished.stdout.matches("mpi (ACCORD_TRANSPORT=mpi)").count(), 2, "{}", finished.report());
    assert!(finished.stdout.contains("MPI (--fabric mpi): built for "), "{}", finished.report());
    assert!(finished.stdout.contains(", which is here"), "{}", finished.report());
}

/// A node dies while the program does something with another one: an error with a node's name, in time, and nothing is left.
#[test]
fn a_job_whose_node_dies_ends_in_time_and_leaves_nothing() {
    if is_skipped() {
        return;
    }
    for arguments in [&["launch", "1"][..], &["copy", "2"], &["d2d", "1", "2"]] {
        let job = run(&test_program("cluster/endless.c").unwrap()).args(arguments.iter().copied());
        let running = job.start().unwrap();
        running.await_output("ready").unwrap();
        let agent = agent_of(Pid::from_raw(running.id().cast_signed()), "h2").expect("the agent of h2");
        let died = Instant::now();
        kill(agent, Signal::SIGKILL).unwrap();
        let finished = running.finish().unwrap();
        assert!(died.elapsed() < LOST + SLACK, "{arguments:?}: it took {:?}", died.elapsed());
        assert!(!finished.timed_out && finished.code() == 1, "{arguments:?}: {}", finished.report());
        assert!(finished.stderr.contains("(node h"), "{arguments:?}: {}", finished.report());
        assert!(finished.stderr.contains("acc_error_device_unavailable"), "{arguments:?}: {}", finished.report());
        assert!(finished.left_behind.is_empty(), "{arguments:?}: {}", finished.report());
    }
}

/// A node's cores belong to the program.
#[test]
fn idle_agents_use_less_than_a_hundredth_of_a_core() -> Result<()> {
    if is_skipped() {
        return Ok(());
    }
    let running = run(&test_program("cluster/endless.c")?).args(["idle", "1"]).start()?;
    running.await_output("ready")?;
    let agents: Vec<_> = ["h1", "h2", "h3"]
        .iter()
        .filter_map(|host| agent_of(Pid::from_raw(running.id().cast_signed()), host))
        .collect();
    assert_eq!(agents.len(), 3);
    // Until they sleep for as long as they ever do.
    std::thread::sleep(Duration::from_millis(500));
    let before: Vec<_> = agents.iter().map(|agent| cpu_time(*agent)).collect();
    std::thread::sleep(WATCHED);
    for (agent, before) in agents.iter().zip(before) {
        let used = cpu_time(*agent) - before;
        println!("an idle agent used {used:?} in {WATCHED:?}");
        assert!(used < WATCHED / 100, "an idle agent used {used:?} in {WATCHED:?}");
    }
    running.signal(Signal::SIGTERM)?;
    let finished = running.finish()?;
    assert!(!finished.timed_out && finished.left_behind.is_empty(), "{}", finished.report());
    Ok(())
}

/// What all threads of a process have used.
fn cpu_time(process: Pid) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let used = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

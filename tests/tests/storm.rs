//! Many programs at once, and many in sequence. `ACCORD_TEST_AT_ONCE` and `ACCORD_TEST_IN_A_ROW` set the numbers; `make
//! storm` uses 200 and 1,000.

use accord_test_tier::pick;
use accord_tests::{Cluster, Running, test_program};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit of a storm.
const LIMIT: Duration = Duration::from_secs(500);
/// Number of sessions after which all lasting resources are allocated.
const WARM_UP: u32 = 20;

fn count(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn cluster() -> Cluster {
    Cluster::builder().hosts(3).devices(1).memory("64M").start().unwrap()
}

#[test]
fn programs_that_start_at_once_all_run() {
    let programs = count("ACCORD_TEST_AT_ONCE", pick(12, 24));
    let cluster = cluster();
    let program = test_program("c/devices_each.c").unwrap();
    let begun = Instant::now();
    let start = |nth: u32| -> Running {
        let job = cluster.job(nth as usize % 3, &program).unwrap();
        job.timeout(LIMIT).start().unwrap()
    };
    let running: Vec<Running> = (0..programs).map(start).collect();
    let failed: Vec<String> = running.into_iter().filter_map(|one| one.finish().unwrap().success().err()).collect();
    println!("{programs} programs at once: {} failed, all over after {:?}", failed.len(), begun.elapsed());
    assert!(
        failed.is_empty(),
        "{} of {programs} failed, such as:\n{}\n{}",
        failed.len(),
        failed[0],
        cluster.messages()
    );
    assert!(!cluster.messages().contains("is lost"), "{}", cluster.messages());
    let left = cluster.processes_besides_parts(Duration::from_secs(20));
    assert!(left.is_empty(), "{left:?}");
}

/// The resources of a process of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    memory_kib: u64,
    descriptors: usize,
    threads: u64,
}

fn held(process: u32) -> Held {
    let folder = Path::new("/proc").join(process.to_string());
    let status = std::fs::read_to_string(folder.join("status")).unwrap();
    let number = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
    };
    let descriptors = std::fs::read_dir(folder.join("fd")).unwrap().count();
    Held { memory_kib: number("VmRSS"), descriptors, threads: number("Threads") }
}

#[test]
fn resources_of_ended_sessions_are_released() {
    let sessions = count("ACCORD_TEST_IN_A_ROW", pick(30, 60));
    let cluster = cluster();
    let program = test_program("c/devices_each.c").unwrap();
    let run = |nth: u32| {
        cluster.job(nth as usize % 3, &program).unwrap().run().unwrap().success().unwrap();
    };
    let parts = || {
        // The last ended processes must be reaped.
        assert!(cluster.processes_besides_parts(Duration::from_secs(10)).is_empty());
        std::thread::sleep(Duration::from_millis(500));
        let agents = (0..3).filter_map(|host| cluster.agent_id(host));
        cluster.coordinator_id().into_iter().chain(agents).map(held).collect::<Vec<_>>()
    };
    (0..WARM_UP).for_each(run);
    let before = parts();
    (0..sessions).for_each(run);
    let after = parts();
    for (name, (before, after)) in ["coordinator", "h0", "h1", "h2"].iter().zip(before.iter().zip(&after)) {
        println!("{sessions} sessions in a row: {name}: {before:?}, then {after:?}");
        assert_eq!((before.descriptors, before.threads), (after.descriptors, after.threads), "{name}");
        let grown = after.memory_kib.saturating_sub(before.memory_kib);
        // A twentieth, and the allocator's reserve.
        assert!(grown <= before.memory_kib / 20 + 256, "{name}: {before:?}, then {after:?}");
    }
}

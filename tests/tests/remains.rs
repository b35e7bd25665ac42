//! What one session leaves in a device's memory, and what the next one finds there: nothing, on CPU devices and on GPUs whose driver clears
//! nothing.

mod driver;

use accord_tests::{Cluster, test_program};
use driver::driver;
use nix::sys::signal::Signal;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A session that ends well, one whose program is killed, and one whose executor is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Well,
    ProgramKilled,
    ExecutorKilled,
}

fn executors(cluster: &Cluster) -> Vec<i32> {
    let mut found = cluster.processes_besides_parts(Duration::ZERO);
    found.retain(|line| line.ends_with(" executor"));
    found.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

fn leave(cluster: &Cluster, end: End) {
    let (input, output) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/remains.c").unwrap()).unwrap();
    let running = job.arg("leave").stdin(input).timeout(LIMIT).start().unwrap();
    running.await_output("left\n").unwrap();
    match end {
        End::Well => {}
        End::ProgramKilled => running.signal(Signal::SIGKILL).unwrap(),
        End::ExecutorKilled => {
            let executors = executors(cluster);
            assert!(!executors.is_empty(), "nobody has the memory");
            for id in executors {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), Signal::SIGKILL).unwrap();
            }
        }
    }
    drop(output);
    let finished = running.finish().unwrap();
    assert!(!finished.timed_out, "{}", finished.report());
    let left = cluster.processes_besides_parts(Duration::from_secs(10));
    assert!(left.is_empty(), "{left:?}");
}

fn nobody_finds_it(cluster: &Cluster) {
    for end in [End::Well, End::ProgramKilled, End::ExecutorKilled] {
        leave(cluster, end);
        let job = cluster.job(0, &test_program("cluster/remains.c").unwrap()).unwrap();
        let finished = job.arg("look").timeout(LIMIT).run().unwrap().success().unwrap();
        assert_eq!(finished.stdout, "seen 0\n", "{end:?}: {}", finished.report());
    }
}

#[test]
fn nothing_of_a_session_is_left_in_a_cpu_devices_memory() {
    nobody_finds_it(&Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap());
}

#[test]
fn nothing_of_a_session_is_left_in_a_gpus_memory() {
    let (driver, memory) = (driver(), tempfile::tempdir().unwrap());
    let cluster = Cluster::builder()
        .hosts(2)
        .devices(0)
        .gpus(&[1, 1])
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_REMAINS", memory.path())
        .env("FAKE_CUDA_MEMORY", "134217728")
        .env("ACCORD_CACHE", "off")
        .start()
        .unwrap();
    nobody_finds_it(&cluster);
    // Its bytes are there still, in memory that nobody has: the driver that the tests bring along clears nothing.
    leave(&cluster, End::Well);
    let file = std::fs::read(memory.path().join("gpu-1-0")).unwrap();
    assert!(file.iter().filter(|byte| **byte == 0x5e).count() >= 24 << 20);
}

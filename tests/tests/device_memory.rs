//! All sessions share the memory of a CPU device, whether an executor or the program itself drives it.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Running, test_program};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const MEMORY: u64 = 64 << 20;
/// More than half of the memory.
const MIB: &str = "40";
/// The time in which the system ends a killed process.
const SOON: Duration = Duration::from_secs(30);

/// The host of a program, and the device's number there.
#[derive(Clone, Copy, Debug)]
struct DeviceSide(usize, &'static str);

/// The device's own node, where the program drives the device itself.
const OWN: DeviceSide = DeviceSide(1, "0");
const REMOTE: DeviceSide = DeviceSide(0, "1");

struct Site {
    cluster: Cluster,
    program: PathBuf,
}

impl Site {
    fn holder(&self, DeviceSide(host, device): DeviceSide) -> Running {
        let job = self.cluster.job(host, &self.program).unwrap().args([device, MIB]);
        let running = job.start().unwrap();
        running.await_output("holds").unwrap();
        running
    }

    /// Allocates as much for a moment.
    fn try_to_hold(&self, DeviceSide(host, device): DeviceSide) -> Result<(), Finished> {
        let finished = self.cluster.job(host, &self.program).unwrap().args([device, MIB, "once"]).run().unwrap();
        if finished.code() == 0 { Ok(()) } else { Err(finished) }
    }

    fn await_space(&self, place: DeviceSide) {
        let begin = Instant::now();
        while let Err(finished) = self.try_to_hold(place) {
            assert!(finished.stderr.contains("other sessions hold"), "{}", finished.report());
            assert!(begin.elapsed() < SOON, "{}", finished.report());
        }
    }
}

fn free_bytes(finished: &Finished) -> u64 {
    let printed = finished.stdout.lines().find_map(|line| line.strip_prefix("free "));
    printed.unwrap_or_else(|| panic!("{}", finished.report())).parse().unwrap()
}

#[test]
fn sessions_share_the_memory_of_a_device() {
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap();
    let program = test_program("cluster/holds_memory.c").unwrap();
    let site = Site { cluster, program };
    for (first, second) in [(REMOTE, REMOTE), (OWN, OWN), (OWN, REMOTE), (REMOTE, OWN)] {
        let holder = site.holder(first);
        let refused = site.try_to_hold(second).expect_err("there is no room");
        assert_eq!(refused.code(), 1, "{first:?} {second:?} {}", refused.report());
        let reported = &refused.stderr;
        let words = ["bytes asked for", "other sessions hold", "wait until other sessions have ended", "h1", "device"];
        assert!(words.iter().all(|word| reported.contains(word)), "{first:?} {second:?} {}", refused.report());
        assert!(free_bytes(&refused) <= MEMORY - (40 << 20), "{}", refused.report());
        // A killed program returns its memory, and so does one that ends.
        holder.signal(Signal::SIGKILL).unwrap();
        drop(holder.finish().unwrap());
        site.await_space(second);
        let holder = site.holder(first);
        holder.signal(Signal::SIGTERM).unwrap();
        assert_eq!(holder.finish().unwrap().code(), 0);
        site.await_space(second);
    }
}

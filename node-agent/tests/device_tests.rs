//! Tests of devices: one at a time, each verdict is sent once; and the process that runs them.

use accord_fabric::route::Endpoint;
use accord_node_agent::node::{AgentReport, Disconnect, Effect, Node};
use accord_types::{DeviceVerdict, NodeId};
use std::process::Command;
use std::time::Duration;

/// A device's ordinal, the number of its test, and the verdict.
type Verdict = (u32, u64, DeviceVerdict);

struct Bench {
    node: Node,
    now: Duration,
}

impl Bench {
    /// Returns an agent that has registered.
    fn new() -> Self {
        let mut bench = Self { node: Node::new("h1".into(), false, false), now: Duration::ZERO };
        bench.poll();
        bench.register();
        bench
    }

    fn register(&mut self) {
        self.node.registered(self.now, Endpoint::new(NodeId(3), "10.0.0.1:7"), Duration::from_millis(500));
    }

    /// Returns the tests that begin, and the verdicts for the coordinator.
    fn poll(&mut self) -> (Vec<(u32, u64)>, Vec<Verdict>) {
        let (mut tests, mut reported) = (Vec::new(), Vec::new());
        for effect in self.node.poll(self.now, &mut Vec::new()) {
            match effect {
                Effect::Test(ordinal, number) => tests.push((ordinal, number)),
                Effect::Send(AgentReport::Tested(ordinal, number, verdict)) => {
                    reported.push((ordinal, number, verdict));
                }
                _ => {}
            }
        }
        self.node.check_invariants(self.now).unwrap();
        (tests, reported)
    }
}

fn faulty() -> DeviceVerdict {
    DeviceVerdict::Faulty("a test shows an illegal address (CUDA error 700)".to_owned())
}

#[test]
fn one_device_is_tested_at_a_time_and_each_verdict_is_told_once() {
    let mut bench = Bench::new();
    for ordinal in [1, 0, 1, 1] {
        bench.node.test_soon(ordinal, 7);
    }
    assert_eq!(bench.poll(), (vec![(1, 7)], vec![]));
    // A second order for a running test is ignored.
    bench.node.test_soon(1, 7);
    assert_eq!(bench.poll(), (vec![], vec![]));
    bench.node.tested(1, 7, faulty());
    assert_eq!(bench.poll(), (vec![(0, 7)], vec![(1, 7, faulty())]));
    // A verdict on a device without a running test is ignored.
    bench.node.tested(1, 7, DeviceVerdict::Works);
    bench.node.tested(0, 7, DeviceVerdict::Works);
    assert_eq!(bench.poll(), (vec![], vec![(0, 7, DeviceVerdict::Works)]));
    bench.node.test_soon(1, 8);
    assert_eq!(bench.poll(), (vec![(1, 8)], vec![]));
}

#[test]
fn order_with_a_new_number_starts_its_own_device_test() {
    let mut bench = Bench::new();
    bench.node.test_soon(1, 7);
    assert_eq!(bench.poll(), (vec![(1, 7)], vec![]));
    // Of the waiting orders only the last one counts.
    bench.node.test_soon(1, 8);
    bench.node.test_soon(1, 9);
    bench.node.tested(1, 7, DeviceVerdict::Works);
    assert_eq!(bench.poll(), (vec![(1, 9)], vec![(1, 7, DeviceVerdict::Works)]));
    bench.node.tested(1, 9, faulty());
    assert_eq!(bench.poll(), (vec![], vec![(1, 9, faulty())]));
}

#[test]
fn a_verdict_waits_for_the_coordinator() {
    let mut bench = Bench::new();
    bench.node.test_soon(0, 7);
    assert_eq!(bench.poll(), (vec![(0, 7)], vec![]));
    bench.node.disconnected(bench.now, Disconnect::Unreachable("it is gone".into()));
    bench.node.tested(0, 7, faulty());
    assert_eq!(bench.poll(), (vec![], vec![]));
    bench.now += Duration::from_secs(2);
    bench.poll();
    bench.register();
    assert_eq!(bench.poll(), (vec![], vec![(0, 7, faulty())]));
}

#[test]
fn a_coordinator_that_names_devices_without_end_has_a_node_s_devices_tested_at_most() {
    let mut bench = Bench::new();
    for ordinal in 0..10_000 {
        bench.node.test_soon(ordinal, 7);
    }
    let mut tests = 0;
    loop {
        let (begun, _) = bench.poll();
        let Some((ordinal, number)) = begun.first() else { break };
        tests += 1;
        bench.node.tested(*ordinal, *number, DeviceVerdict::Works);
    }
    assert_eq!(tests, 256);
}

#[test]
fn the_process_that_tests_finds_a_cpu_device_that_works() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accord-node-agent"));
    let output = command.args(["test-device", "cpu"]).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((&*printed, output.status.success()), ("works \n", true), "{errors}");
}

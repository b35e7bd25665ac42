//! Programs that attack the executor of their own session: the cost for it, and for other sessions.

#[path = "../../coordinator/tests/crowd/mod.rs"]
#[allow(dead_code)]
mod crowd;
mod support;

use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::SharedLane;
use accord_types::{Lease, Result};
use crowd::{Cost, assert_idle, measured};
use std::time::{Duration, Instant};
use support::{Agent, Cluster, SOON, command_lane, ends_within, handle};

/// Bulk lanes of a program: as many as an executor accepts.
const BULK_LANES: u16 = 16;
/// Threads of an executor besides those of its lanes.
const OWN_THREADS: u64 = 8;

fn bulk_lane(agent: &Agent, lease: &Lease, index: u16) -> Result<SharedLane> {
    let hello = Hello::new(Purpose::Bulk, lease.session, index, PeerId::PROGRAM);
    handshake::connect(&agent.address, &hello, &lease.key.into(), SOON)
}

/// Returns the executor that was started after `before`.
fn new_executor(agent: &Agent, before: &[u32]) -> u32 {
    let begin = Instant::now();
    loop {
        if let Some(executor) = agent.executors().into_iter().find(|executor| !before.contains(executor)) {
            return executor;
        }
        assert!(begin.elapsed() < SOON, "there is no new executor");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn lanes_that_say_nothing_cost_their_executor_a_thread_each_and_no_processor() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let _command = command_lane(&lease).unwrap();
    let (executor, alive) = agent.executor();
    let lanes: Vec<SharedLane> = (0..BULK_LANES).map(|index| bulk_lane(&agent, &lease, index).unwrap()).collect();
    // Further ones are closed: with a number that is too large, or a number in use.
    let more = (0..64)
        .map(|index| bulk_lane(&agent, &lease, if index < 32 { BULK_LANES + index } else { index % BULK_LANES }));
    for lane in more.map(Result::unwrap) {
        lane.limit(Some(SOON)).unwrap();
        assert!(matches!(lane.read(&mut [0]), Ok(0) | Err(_)), "a lane too many is open");
    }
    let cost = Cost::of(executor);
    println!("with {} lanes: {cost:?}", lanes.len() + 1);
    assert!(cost.threads <= OWN_THREADS + u64::from(BULK_LANES) + 1, "{cost:?}");
    assert_idle(executor, "executor", u64::from(BULK_LANES) + 1);
    assert!(!ends_within(&alive, Duration::ZERO), "the executor has gone");
}

#[test]
fn garbage_ends_its_own_executor_and_costs_others_nothing() {
    const ROUNDS: u32 = 40;
    const MEMORY_MAX_KIB: u64 = 16 << 10;
    const THREADS_MAX: u64 = OWN_THREADS + 4;
    const TICKS_MAX: u64 = 20;
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (honest, _door) = cluster.open("elsewhere");
    let _command = command_lane(&honest).unwrap();
    let (beside, alive) = agent.executor();
    let (of_agent, of_other) = (Cost::of(agent.child.id()), Cost::of(beside));
    let (mut longest, mut most) = (Duration::ZERO, 0);
    for round in 0..ROUNDS {
        let (lease, _own_door) = cluster.open("elsewhere");
        let lane = command_lane(&lease).unwrap();
        let executor = new_executor(&agent, &[beside]);
        let hit = if round % 2 == 0 { lane.clone() } else { bulk_lane(&agent, &lease, 0).unwrap() };
        most = most.max(Cost::of(executor).threads);
        let process = handle(executor);
        let _ = hit.send(&vec![0xff; 4_096]);
        if let Some(process) = process {
            assert!(ends_within(&process, SOON), "an executor goes on after garbage");
        }
        let begin = Instant::now();
        let (other, _other_door) = cluster.open("elsewhere");
        drop(command_lane(&other).unwrap());
        longest = longest.max(begin.elapsed());
        let begin = Instant::now();
        while agent.executors() != [beside] {
            assert!(begin.elapsed() < SOON, "executors stay: {:?}", agent.executors());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let begin = Instant::now();
    let of_agent_now = || Cost::of(agent.child.id());
    while of_agent_now().threads > of_agent.threads + 2 || of_agent_now().descriptors > of_agent.descriptors + 8 {
        assert!(begin.elapsed() < SOON, "{of_agent:?}, then {:?}", of_agent_now());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (now, other) = (of_agent_now(), Cost::of(beside));
    println!(
        "{ROUNDS} executors were sent garbage, with {most} threads at most; honest sessions opened within {longest:?}; \
         the agent: {of_agent:?}, then {now:?}; the executor beside: {of_other:?}, then {other:?}"
    );
    let figures = [
        ("ms of a processor of the agent, for each", 10.0 * (now.ticks - of_agent.ticks) as f64 / f64::from(ROUNDS)),
        ("ms of a processor of one beside", 10.0 * (other.ticks - of_other.ticks) as f64),
        ("threads", most as f64),
        ("MiB more", now.memory_kib.saturating_sub(of_agent.memory_kib) as f64 / 1024.0),
        ("ms to an honest session, at most", longest.as_secs_f64() * 1e3),
    ];
    measured("executors", "garbage of their own program: 40", &figures);
    assert!(!ends_within(&alive, Duration::ZERO), "another session's executor has gone");
    assert!(most <= THREADS_MAX, "{most} threads");
    // The executor may have been starting at the first measurement.
    assert!(other.threads <= OWN_THREADS && other.descriptors <= of_other.descriptors + 8, "{other:?}");
    assert!(other.ticks < of_other.ticks + TICKS_MAX, "{of_other:?}, then {other:?}");
    assert!(now.memory_kib < of_agent.memory_kib + MEMORY_MAX_KIB, "{of_agent:?}, then {now:?}");
}

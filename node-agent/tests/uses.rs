//! The use of devices, as an agent reports it.

mod granted;

use accord_fabric::route::Endpoint;
use accord_node_agent::node::{AgentReport, CommandLane, Disconnect, Effect, ExecutorId, Node};
use accord_types::{DeviceUse, NodeId, SessionId};
use granted::grant;
use std::time::Duration;

const SESSION: SessionId = SessionId(1);

struct Bench {
    node: Node,
    now: Duration,
    ends: Vec<ExecutorId>,
}

impl Bench {
    fn register(&mut self) {
        self.node.registered(self.now, Endpoint::new(NodeId(3), "10.0.0.1:7"), Duration::from_millis(500));
    }

    /// Returns reports and ends in order.
    fn words(&mut self) -> Vec<AgentReport> {
        let effects = self.node.poll(self.now, &mut self.ends);
        let words = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send(word @ (AgentReport::Used(_) | AgentReport::UseEnded(_) | AgentReport::Ended(..))) => {
                Some(word)
            }
            _ => None,
        });
        words.collect()
    }

    fn pass(&mut self) {
        self.now += Duration::from_millis(500);
    }
}

fn used(busy_ms: u64) -> DeviceUse {
    DeviceUse { busy_ms: Some(busy_ms), bytes_in: busy_ms, bytes_out: 0, held: 0, fault: None }
}

fn reported(busy_ms: u64) -> AgentReport {
    AgentReport::Used(vec![(SESSION, 0, used(busy_ms))])
}

/// Returns a registered agent with an executor of its only session.
fn bench() -> (Bench, ExecutorId) {
    let mut bench = Bench { node: Node::new("h1".into(), false, false), now: Duration::ZERO, ends: Vec::new() };
    bench.words();
    bench.register();
    bench.node.opened(bench.now, grant(SESSION, None));
    let mut lane = CommandLane::new(bench.now, SESSION);
    let executor = bench.node.begin(bench.now, &mut lane, &mut bench.ends).unwrap().unwrap();
    bench.node.started(bench.now, SESSION, executor, &mut bench.ends);
    bench.words();
    (bench, executor)
}

#[test]
fn changes_are_reported_with_heartbeats_and_the_last_one_before_the_end_of_the_executor() {
    let (mut bench, executor) = bench();
    bench.node.used(SESSION, &[(0, used(100))]);
    bench.node.used(SESSION, &[(0, used(200))]);
    assert_eq!(bench.words(), [], "the next heartbeat is not due");
    bench.pass();
    assert_eq!(bench.words(), [reported(200)]);
    bench.pass();
    assert_eq!(bench.words(), [], "nothing has changed");
    bench.node.used(SESSION, &[(0, used(250))]);
    bench.node.ended(SESSION, executor, "");
    assert_eq!(
        bench.words(),
        [reported(250), AgentReport::Ended(SESSION, String::new()), AgentReport::UseEnded(vec![SESSION])]
    );
}

#[test]
fn the_last_report_of_a_closed_session_is_sent_when_its_executor_has_ended() {
    let (mut bench, executor) = bench();
    bench.node.used(SESSION, &[(0, used(100))]);
    bench.node.closed(bench.now, SESSION, "", &mut bench.ends);
    assert_eq!(bench.words(), [reported(100), AgentReport::Ended(SESSION, String::new())], "the session has ended");
    bench.node.used(SESSION, &[(0, used(250))]);
    assert_eq!(bench.words(), [], "its executor has not");
    bench.node.ended(SESSION, executor, "");
    assert_eq!(bench.words(), [reported(250), AgentReport::UseEnded(vec![SESSION])]);
    bench.pass();
    assert_eq!(bench.words(), []);
}

#[test]
fn everything_is_reported_again_after_a_registration() {
    let (mut bench, _) = bench();
    bench.node.used(SESSION, &[(0, used(100))]);
    bench.pass();
    assert_eq!(bench.words(), [reported(100)]);
    bench.node.disconnected(bench.now, Disconnect::Unreachable("it is down".to_owned()));
    bench.now = bench.node.next().unwrap();
    assert_eq!(bench.words(), []);
    bench.register();
    bench.pass();
    assert_eq!(bench.words(), [reported(100)]);
}

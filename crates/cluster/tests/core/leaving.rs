//! An agent that stops soon says so: its node takes part in nothing new until another agent of the node has registered.

use crate::bench::{ALICE, Bench, KEY, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, NodeState, Records, Registration,
    Restart,
};
use accord_scheduler::DrainTarget;
use accord_types::{NodeId, SessionId, SessionKey, SessionRequest};

const STAYS: LinkId = LinkId(1);
const LEAVES: LinkId = LinkId(2);
/// The node of `LEAVES`.
const LEAVING: DrainTarget = DrainTarget::Node(NodeId(1));

/// A coordinator with agents of two devices each on h1, which stays, and h2, which has said that it leaves.
fn leaving() -> Bench {
    let mut bench = Bench::new();
    // No agent is about to be back from before the coordinator's start.
    bench.now = 60_000;
    bench.give(Input::Tick);
    bench.give(Input::Register { link: STAYS, registration: registration("h1") });
    bench.give(Input::Register { link: LEAVES, registration: registration("h2") });
    leave(&mut bench, LEAVES);
    bench
}

#[track_caller]
fn leave(bench: &mut Bench, link: LinkId) {
    let effects = bench.give(Input::Leaving { link });
    assert!(effects.contains(&Effect::ToAgent(link, AgentOrder::Drain(true))), "{effects:?}");
}

/// The agent of h2 registers, as the start with this number.
fn register(bench: &mut Bench, link: u64, incarnation: u64) -> Vec<Effect> {
    let registration = Registration { incarnation, ..registration("h2") };
    bench.give(Input::Register { link: LinkId(link), registration })
}

fn ask(bench: &mut Bench, client: u64, devices: Option<&str>) -> Vec<Effect> {
    let request = SessionRequest { devices: devices.map(str::to_owned), ..request("h1") };
    let mut key: SessionKey = KEY;
    key.0[..8].copy_from_slice(&client.to_le_bytes());
    bench.give(Input::Open { client: ClientId(client), request, key, user: ALICE.into() })
}

fn granted(effects: &[Effect], client: u64) -> Option<SessionId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Granted(session)) if *to == ClientId(client) => Some(*session),
        _ => None,
    })
}

/// The nodes of a session's devices.
fn nodes(bench: &Bench, session: SessionId) -> Vec<String> {
    bench.cluster.lease(session).unwrap().devices.into_iter().map(|device| device.info.node_name).collect()
}

fn undrain(bench: &mut Bench) {
    let by = "admin root".to_owned();
    bench.give(Input::Schedule(accord_scheduler::Input::Undrain { target: LEAVING, by }));
    bench.give(Input::Drain { node_name: "h2".into(), drain: false });
}

#[test]
fn neither_sessions_nor_jobs_begin_on_a_node_whose_agent_leaves() {
    let mut bench = leaving();
    let plain = granted(&ask(&mut bench, 1, None), 1).unwrap();
    assert_eq!(nodes(&bench, plain), ["h1", "h1"]);
    let job = granted(&ask(&mut bench, 2, Some("2:cpu")), 2).unwrap();
    assert_eq!(nodes(&bench, job), ["h1", "h1"]);
    assert!(granted(&ask(&mut bench, 3, Some("1:cpu")), 3).is_none());
    // The same agent on another connection leaves as before, the next one takes part.
    bench.give(Input::LinkLost { link: LEAVES });
    assert!(granted(&register(&mut bench, 3, 10), 3).is_none());
    bench.give(Input::Goodbye { link: LinkId(3) });
    assert_eq!(bench.cluster.node_named("h2").unwrap().state, NodeState::Gone);
    let job = granted(&register(&mut bench, 4, 11), 3).unwrap();
    assert_eq!(nodes(&bench, job), ["h2"]);
    assert!(!bench.cluster.node_named("h2").unwrap().is_drained());
    assert!(!bench.cluster.scheduler().is_drained(LEAVING));
}

#[test]
fn a_leaving_agents_sessions_go_on() {
    let mut bench = Bench::new();
    bench.now = 60_000;
    bench.give(Input::Tick);
    register(&mut bench, 2, 10);
    let job = granted(&ask(&mut bench, 1, Some("1:cpu")), 1).unwrap();
    let before = bench.cluster.session(job).cloned();
    leave(&mut bench, LEAVES);
    assert_eq!(bench.cluster.session(job).cloned(), before);
    assert_eq!(bench.cluster.scheduler().running(), 1);
}

#[test]
fn an_administrators_drain_outlives_the_agent() {
    let mut bench = leaving();
    bench.give(Input::Schedule(accord_scheduler::Input::Drain {
        target: LEAVING,
        by_time: accord_scheduler::Millis(0),
        end: false,
        reason: "a new fan".into(),
        by: "admin root".into(),
    }));
    bench.give(Input::Drain { node_name: "h2".into(), drain: true });
    bench.give(Input::Goodbye { link: LEAVES });
    let effects = register(&mut bench, 3, 11);
    assert!(effects.contains(&Effect::ToAgent(LinkId(3), AgentOrder::Drain(true))), "{effects:?}");
    assert_eq!(bench.cluster.scheduler().drain_reason(LEAVING), Some("a new fan"));
    undrain(&mut bench);
    let (node, scheduler) = (bench.cluster.node_named("h2").unwrap(), bench.cluster.scheduler());
    assert!(!node.is_drained() && !scheduler.is_drained(LEAVING));
}

#[test]
fn an_administrator_does_not_keep_an_agent_that_leaves() {
    for drains_before in [false, true] {
        let mut bench = leaving();
        if drains_before {
            bench.give(Input::Drain { node_name: "h2".into(), drain: true });
        }
        undrain(&mut bench);
        granted(&ask(&mut bench, 1, Some("2:cpu")), 1).unwrap();
        assert!(granted(&ask(&mut bench, 2, Some("1:cpu")), 2).is_none(), "{drains_before}");
        bench.give(Input::Goodbye { link: LEAVES });
        assert!(granted(&register(&mut bench, 3, 11), 2).is_some(), "{drains_before}");
    }
}

/// The scheduler's drain is kept over a restart, and the node's departure is not.
#[test]
fn the_next_agent_takes_part_at_the_next_coordinator_too() {
    let restored = |records: &Records, epoch| {
        let restart = Restart { now: Millis(0), committed: Millis(0), unix_ms: 1_800_000_000_000, epoch };
        Cluster::restore(Limits::default(), records, restart).unwrap()
    };
    let (mut bench, mut records) = (Bench::of(restored(&Records::new(), 1)), Records::new());
    register(&mut bench, 2, 10);
    let target = DrainTarget::Node(bench.cluster.node_named("h2").unwrap().id);
    leave(&mut bench, LEAVES);
    for record in bench.cluster.take_step().records {
        record.apply(&mut records);
    }
    // The agent that leaves says so again, as its connection is another one.
    let mut bench = Bench::of(restored(&records, 2));
    assert!(bench.cluster.scheduler().is_drained(target));
    register(&mut bench, 3, 10);
    leave(&mut bench, LinkId(3));
    assert!(bench.cluster.scheduler().is_drained(target));
    let mut bench = Bench::of(restored(&records, 2));
    register(&mut bench, 3, 11);
    assert!(!bench.cluster.scheduler().is_drained(target));
}

#[test]
fn leaving_message_of_an_unknown_link_is_ignored() {
    let mut bench = leaving();
    let before = bench.cluster.node_named("h1").cloned();
    assert_eq!(bench.give(Input::Leaving { link: LinkId(9) }), []);
    assert_eq!(bench.cluster.node_named("h1").cloned(), before);
}

//! MPI worlds: ranks that were disconnected when another one died are informed later, and runs of worlds with the same
//! name are distinguished.

use crate::bench::{Bench, registration};
use accord_cluster::{AgentOrder, Cluster, Effect, Input, Joiner, Limits, LinkId, Registration};
use accord_types::NodeId;

/// Time until one tick after a rank counts as lost, and until one tick before disconnected ranks are informed.
const GONE: u64 = 1_000;
const NOT_YET: u64 = 9_750;

fn rank(bench: &mut Bench, link: u64, name: &str, incarnation: u64) {
    let registration = Registration { world: "world".into(), incarnation, ..registration(name) };
    bench.give(Input::Register { link: LinkId(link), registration });
}

fn lose(bench: &mut Bench, link: u64) {
    bench.give(Input::LinkLost { link: LinkId(link) });
}

/// Lets time pass while the agents of these links are alive. Returns which of them are informed of lost ranks.
fn pass(bench: &mut Bench, time: u64, links: &[u64]) -> Vec<(u64, NodeId)> {
    let until = bench.now + time;
    let mut reported = Vec::new();
    while bench.now < until {
        bench.now += 250;
        for link in links {
            bench.give(Input::Heartbeat { link: LinkId(*link), sessions: Vec::new() });
        }
        for effect in bench.give(Input::Tick) {
            if let Effect::ToAgent(link, AgentOrder::NodeLost(node, _)) = effect {
                reported.push((link.0, node));
            }
        }
    }
    reported
}

#[test]
fn reconnecting_rank_is_notified_of_a_death_during_its_absence() {
    let mut bench = Bench::new();
    for (link, name) in [(1, "h1"), (2, "h2"), (3, "h3")] {
        rank(&mut bench, link, name, 10);
    }
    lose(&mut bench, 3);
    bench.now += 500;
    lose(&mut bench, 2);
    bench.now += 200;
    rank(&mut bench, 4, "h3", 10);
    assert_eq!(pass(&mut bench, GONE, &[1, 4]), [(1, NodeId(1)), (4, NodeId(1))]);
    // h3 is disconnected when h2 is lost.
    let mut bench = Bench::new();
    for (link, name) in [(1, "h1"), (2, "h2"), (3, "h3")] {
        rank(&mut bench, link, name, 10);
    }
    lose(&mut bench, 2);
    bench.now += 750;
    lose(&mut bench, 3);
    assert_eq!(pass(&mut bench, 500, &[1]), [(1, NodeId(1))]);
    rank(&mut bench, 4, "h3", 10);
    assert_eq!(pass(&mut bench, NOT_YET, &[1, 4]), [(1, NodeId(1))], "h1 has not gone yet, and is told again");
    assert_eq!(pass(&mut bench, 1_000, &[1, 4]), [(4, NodeId(1))]);
    assert_eq!(pass(&mut bench, 60_000, &[1, 4]), [], "each is told once");
}

#[test]
fn rank_declared_dead_is_notified_when_it_reconnects() {
    let mut bench = Bench::new();
    rank(&mut bench, 1, "h1", 10);
    rank(&mut bench, 2, "h2", 10);
    lose(&mut bench, 2);
    assert_eq!(pass(&mut bench, GONE, &[1]), [(1, NodeId(1))]);
    bench.give(Input::Goodbye { link: LinkId(1) });
    rank(&mut bench, 3, "h2", 10);
    assert_eq!(pass(&mut bench, NOT_YET, &[3]), []);
    assert_eq!(pass(&mut bench, 1_000, &[3]), [(3, NodeId(0))]);
}

#[test]
fn unreachable_rank_gets_no_false_loss_report() {
    let mut bench = Bench::new();
    for link in 1..4 {
        rank(&mut bench, link, &format!("h{link}"), 10);
    }
    (1..4).for_each(|link| lose(&mut bench, link));
    assert_eq!(pass(&mut bench, 30_000, &[]), []);
    // The ranks reconnect one after the other.
    rank(&mut bench, 11, "h1", 10);
    assert_eq!(pass(&mut bench, 4_000, &[11]), []);
    rank(&mut bench, 12, "h2", 10);
    rank(&mut bench, 13, "h3", 10);
    assert_eq!(pass(&mut bench, 60_000, &[11, 12, 13]), []);
}

#[test]
fn next_mpi_run_gets_no_losses_of_the_previous_one() {
    let mut bench = Bench::new();
    rank(&mut bench, 1, "h1", 10);
    rank(&mut bench, 2, "h2", 10);
    lose(&mut bench, 1);
    lose(&mut bench, 2);
    bench.now += 500;
    rank(&mut bench, 3, "h1", 11);
    assert_eq!(pass(&mut bench, GONE, &[3]), []);
    rank(&mut bench, 4, "h2", 11);
    assert_eq!(pass(&mut bench, 60_000, &[3, 4]), []);
}

/// Returns which connections are informed that the agent of a node has ended.
fn reported(effects: Vec<Effect>) -> Vec<(u64, String)> {
    let reported = |effect| match effect {
        Effect::ToAgent(link, AgentOrder::RankLost(name)) => Some((link.0, name)),
        _ => None,
    };
    effects.into_iter().filter_map(reported).collect()
}

#[test]
fn joining_ranks_are_notified_of_ranks_lost_before_registration() {
    let mut bench = Bench::new();
    let lost = |bench: &mut Bench, link| reported(bench.give(Input::LinkLost { link: LinkId(link) }));
    for (link, name, world) in [(1, "h1", "world"), (2, "h2", "world"), (3, "h3", "world"), (4, "h4", "other")] {
        let joiner = Joiner { node_name: name.into(), world: world.into(), run: 0 };
        bench.give(Input::Join { link: LinkId(link), joiner });
    }
    // h1 has registered, and h2 dies in `MPI_Init`.
    rank(&mut bench, 11, "h1", 10);
    assert_eq!(lost(&mut bench, 2), [(1, "h2".into()), (3, "h2".into())]);
    // h1 is informed of h3 as well, but h3 of none, because it has ended.
    assert_eq!(lost(&mut bench, 3), [(1, "h3".into())]);
    // Once all ranks have registered, each sends goodbye, and later ends are those of nodes.
    assert_eq!(reported(bench.give(Input::Goodbye { link: LinkId(1) })), []);
    assert_eq!(lost(&mut bench, 1), []);
    assert_eq!(lost(&mut bench, 11), []);
    assert_eq!(lost(&mut bench, 4), []);
    bench.cluster.check_invariants().unwrap();
}

#[test]
fn joining_ranks_get_no_losses_of_another_run() {
    let mut bench = Bench::new();
    // The machine of the first run's h2 was turned off, which is noticed after the world has started again.
    for (link, name, run) in [(1, "h1", 7), (2, "h2", 7), (3, "h1", 8), (4, "h2", 8)] {
        let joiner = Joiner { node_name: name.into(), world: "world".into(), run };
        bench.give(Input::Join { link: LinkId(link), joiner });
    }
    assert_eq!(reported(bench.give(Input::LinkLost { link: LinkId(2) })), [(1, "h2".into())]);
    assert_eq!(reported(bench.give(Input::LinkLost { link: LinkId(4) })), [(3, "h2".into())]);
}

#[test]
fn joining_twice_or_no_job_or_beyond_its_size_is_refused() {
    let cluster = Cluster::new(Limits { nodes_max: 2, ..Limits::default() }, 1_000);
    let mut bench = Bench::of(cluster);
    let mut join = |link, name: &str, world: &str| {
        let joiner = Joiner { node_name: name.into(), world: world.into(), run: 0 };
        let effects = bench.give(Input::Join { link: LinkId(link), joiner });
        bench.cluster.check_invariants().unwrap();
        match &effects[..] {
            [] => None,
            [Effect::RefuseAgent(refused, why)] if refused.0 == link => Some(why.to_string()),
            effects => panic!("{effects:?}"),
        }
    };
    assert_eq!(join(1, "h1", "world"), None);
    assert!(join(1, "h1", "world").is_some_and(|why| why.contains("joins twice")));
    assert!(join(2, "h2", "").is_some_and(|why| why.contains("joins no world")));
    assert!(join(2, "", "world").is_some_and(|why| why.contains("name")));
    assert_eq!(join(2, "h2", "world"), None);
    assert!(join(3, "h3", "world").is_some_and(|why| why.contains("2 agents that join MPI worlds")));
}

//! Measurements of paths: which ones are ordered when, and the known times.

use crate::bench::{ALICE, Bench, KEY, registration};
use crate::requests::request;
use accord_cluster::{AgentOrder, ClientId, ClientPush, Effect, Input, LinkId, MeasuredPath, PathOrder, Registration};
use accord_types::{DeviceId, Machine, NodeFigures, NodeId, PathTimes, SessionKey, SessionRequest, Source};
use std::collections::BTreeSet;

const QUIET: u64 = 1_000;

fn come(bench: &mut Bench, links: std::ops::RangeInclusive<u64>) {
    for link in links {
        // Other nodes lie in between, in the order of names.
        let address = format!("10.0.0.{link}:7000");
        let registration = Registration { address, ..registration(&format!("n{link}")) };
        bench.give(Input::Register { link: LinkId(link), registration });
    }
}

fn orders(effects: Vec<Effect>) -> Vec<PathOrder> {
    let order = |effect| if let Effect::MeasurePath(order) = effect { Some(order) } else { None };
    effects.into_iter().filter_map(order).collect()
}

/// Lets time pass while all agents are alive.
fn tick(bench: &mut Bench, ms: u64) -> Vec<PathOrder> {
    let until = bench.now + ms;
    let mut found = Vec::new();
    loop {
        bench.now = until.min(bench.now + 250);
        let links: Vec<LinkId> = bench.cluster.nodes().filter_map(|node| node.link()).collect();
        for link in links {
            bench.give(Input::Heartbeat { link, sessions: Vec::new() });
        }
        found.extend(orders(bench.give(Input::Tick)));
        if bench.now == until {
            return found;
        }
    }
}

fn times(ns: u64) -> PathTimes {
    PathTimes::new(ns, ns * 2, 1 << 30)
}

fn done(bench: &mut Bench, order: &PathOrder, ns: u64) -> Vec<PathOrder> {
    let path = Ok(MeasuredPath { times: times(ns), transport: "tls".into() });
    orders(bench.give(Input::PathMeasured { link: order.from, measurement: order.measurement, path }))
}

/// Completes all wanted measurements. Returns their number.
fn settle(bench: &mut Bench) -> usize {
    let mut open = tick(bench, QUIET);
    let mut count = 0;
    while let Some(order) = open.pop() {
        count += 1;
        let ns = 100 + order.measurement % 1_000;
        open.extend(done(bench, &order, ns));
    }
    count
}

#[test]
fn paths_are_measured_once_it_is_quiet_one_at_a_time_for_each_node() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=4);
    assert_eq!(tick(&mut bench, QUIET - 1), [], "they have just come");
    let first = tick(&mut bench, 1);
    let busy: Vec<LinkId> = first.iter().flat_map(|order| [order.from, order.to]).collect();
    assert_eq!(busy.iter().collect::<BTreeSet<_>>().len(), 4, "each is in one: {first:?}");
    assert_eq!(tick(&mut bench, 250), []);
    assert_eq!(first[0].address, format!("10.0.0.{}:7000", first[0].to.0));
    let next = done(&mut bench, &first[0], 5);
    assert_eq!(next, [], "all others are busy still");
    assert!(!done(&mut bench, &first[1], 5).is_empty());
}

#[test]
fn each_node_is_measured_with_a_few_and_the_others_are_estimated() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=40);
    let count = settle(&mut bench);
    assert!((40..=4 * 40).contains(&count), "{count}");
    assert_eq!(bench.cluster.measured_paths().count(), count);
    assert_eq!(bench.cluster.measuring(), 40, "figures of the nodes themselves");
    let known = |a, b| bench.cluster.path(NodeId(a), NodeId(b)).map(|(path, source)| (path.transport, source));
    assert_eq!(known(0, 1), Some(("tls".into(), Source::Measured)));
    assert_eq!(known(1, 0), known(0, 1));
    assert_eq!(known(0, 20), Some(("tls".into(), Source::Estimated)));
    assert_eq!((known(3, 3), known(0, 99)), (None, None));
    assert_eq!(tick(&mut bench, 60_000), [], "nothing is measured twice");
}

#[test]
fn other_kinds_of_paths_are_no_estimate() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=2);
    settle(&mut bench);
    // Two nodes share an address.
    for (link, job) in [(11, "a"), (12, "a")] {
        let registration =
            Registration { world: job.into(), address: "10.9.9.9:1".into(), ..registration(&format!("m{link}")) };
        bench.give(Input::Register { link: LinkId(link), registration });
    }
    let ids: Vec<NodeId> =
        bench.cluster.nodes().filter(|node| node.name.starts_with('m')).map(|node| node.id).collect();
    assert_eq!(bench.cluster.path(ids[0], ids[1]), None);
    assert_eq!(bench.cluster.path(NodeId(0), ids[1]).unwrap().1, Source::Estimated);
}

/// Opens a program's session that uses a device of each node.
fn open_everywhere(bench: &mut Bench, client: ClientId, node_name: &str) {
    bench.give(Input::Open { client, request: request(node_name), key: KEY, user: ALICE.into() });
    let devices: Vec<DeviceId> = bench.cluster.nodes().filter_map(|node| Some(node.devices.first()?.id)).collect();
    for device in devices {
        bench.give(Input::MayUse { client, device });
    }
}

#[test]
fn nothing_is_measured_where_a_session_is_nor_right_after() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=2);
    open_everywhere(&mut bench, ClientId(9), "n1");
    assert_eq!(tick(&mut bench, 5_000), []);
    let asked = orders(bench.give(Input::MeasureSoon));
    assert_eq!(asked, [], "not even if a client waits");
    assert_eq!(bench.cluster.measuring(), 0, "and none is pending");
    tick(&mut bench, 6_000);
    bench.give(Input::ClientGone { client: ClientId(9) });
    assert_eq!(tick(&mut bench, QUIET - 1), []);
    assert_eq!(tick(&mut bench, 1).len(), 1);
}

#[test]
fn requested_measurement_starts_without_an_idle_period() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=2);
    let effects = bench.give(Input::MeasureSoon);
    let reported =
        effects.iter().filter(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::MeasureNode))).count();
    assert_eq!((reported, bench.cluster.measuring()), (2, 3));
    let order = orders(effects).pop().unwrap();
    let figures = NodeFigures { host_copy: Some(times(1)), ..NodeFigures::default() };
    for link in [1, 2] {
        bench.give(Input::NodeMeasured { link: LinkId(link), figures: figures.clone() });
    }
    done(&mut bench, &order, 7);
    assert_eq!(bench.cluster.measuring(), 0);
    assert_eq!(bench.cluster.figures(NodeId(0)), Some(&figures));
    assert_eq!(bench.cluster.path(NodeId(0), NodeId(1)).unwrap().0.times, times(7));
}

#[test]
fn measurements_of_a_node_are_removed_with_it() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=3);
    settle(&mut bench);
    bench.give(Input::NodeMeasured { link: LinkId(2), figures: NodeFigures::default() });
    bench.give(Input::Goodbye { link: LinkId(2) });
    assert_eq!(bench.cluster.figures(NodeId(1)), None);
    assert_eq!(bench.cluster.measured_paths().map(|(a, b, _)| (a.0, b.0)).collect::<Vec<_>>(), [(0, 2)]);
    // The node's next agent is measured anew.
    let registration = Registration { incarnation: u64::MAX, address: "10.0.0.2:1".into(), ..registration("n2") };
    bench.give(Input::Register { link: LinkId(22), registration });
    assert_eq!(settle(&mut bench), 2);
}

#[test]
fn a_measurement_that_fails_or_never_comes_is_tried_again_once() {
    let mut bench = Bench::new();
    come(&mut bench, 1..=2);
    let order = tick(&mut bench, QUIET).pop().unwrap();
    // The report of the other agent does not count.
    let path = Ok(MeasuredPath { times: times(1), transport: "tls".into() });
    bench.give(Input::PathMeasured { link: order.to, measurement: order.measurement, path });
    assert_eq!(bench.cluster.path(NodeId(0), NodeId(1)), None);
    let failed = Err("no agent there".to_owned());
    let again = bench.give(Input::PathMeasured { link: order.from, measurement: order.measurement, path: failed });
    let again = orders(again).pop().unwrap();
    assert_ne!(again.measurement, order.measurement);
    assert_eq!(tick(&mut bench, 9_999), []);
    assert_eq!(tick(&mut bench, 1), [], "it has failed twice");
    assert_eq!(done(&mut bench, &again, 1), []);
    assert_eq!(bench.cluster.path(NodeId(0), NodeId(1)), None, "that was too late");
}

/// For any sequence of events the table stays within its bounds and has no lost node ([`Bench::give`] checks this).
/// Equal sequences yield equal tables.
#[test]
fn random_events_keep_the_path_table_within_its_bounds() {
    let run = |seed: u64| {
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut bench, mut open, mut link): (Bench, Vec<PathOrder>, u64) = (Bench::new(), Vec::new(), 100);
        for _ in 0..400 {
            match random(12) {
                0 | 1 => {
                    link += 1;
                    let address = format!("10.0.0.{}:1", random(3));
                    let name = format!("n{}", random(12));
                    let job = if random(2) == 0 { String::new() } else { "job".to_owned() };
                    let registration =
                        Registration { incarnation: 10 + random(3), address, world: job, ..registration(&name) };
                    open.extend(orders(bench.give(Input::Register { link: LinkId(link), registration })));
                }
                2 => open.extend(orders(bench.give(Input::LinkLost { link: LinkId(101 + random(link - 99)) }))),
                3 => open.extend(orders(bench.give(Input::Goodbye { link: LinkId(101 + random(link - 99)) }))),
                4 => {
                    let client = ClientId(random(4));
                    bench.give(Input::ClientGone { client });
                    open_everywhere(&mut bench, client, &format!("n{}", random(12)));
                }
                5 => {
                    bench.give(Input::ClientGone { client: ClientId(random(4)) });
                }
                6 => open.extend(orders(bench.give(Input::MeasureSoon))),
                7 => {
                    let figures = NodeFigures::default();
                    bench.give(Input::NodeMeasured { link: LinkId(101 + random(link - 99)), figures });
                }
                8 | 9 if !open.is_empty() => {
                    let order = open.swap_remove(usize::try_from(random(open.len() as u64)).unwrap());
                    open.extend(done(&mut bench, &order, random(1_000)));
                }
                _ => open.extend(tick(&mut bench, random(3_000))),
            }
            assert!(bench.cluster.measured_paths().count() <= 4 * bench.cluster.nodes().count());
        }
        let table: Vec<_> = bench.cluster.measured_paths().map(|(a, b, path)| (a, b, path.clone())).collect();
        (table, open.len())
    };
    let mut measured = 0;
    let seeds = accord_test_tier::pick(30, 150);
    let begin = accord_test_tier::first_seed(seeds);
    for seed in begin..begin + seeds {
        let first = run(seed);
        assert_eq!(first, run(seed), "seed {seed}");
        measured += first.0.len();
    }
    assert!(measured as u64 > seeds, "{measured} paths at the ends of {seeds} runs");
}

#[test]
fn jobs_are_placed_by_the_measured_times_of_classes_of_paths() {
    for (ns_in_rack, ns_at_switch, nearest) in [(1_000, 1_000, 1), (1_000_000, 1_000, 2)] {
        let mut bench = Bench::new();
        for (link, labels) in [(1, "rack=r1,switch=s1"), (2, "rack=r1,switch=s2"), (3, "rack=r2,switch=s1")] {
            let machine = Machine { labels: labels.parse().unwrap(), ..Machine::default() };
            let address = format!("10.0.0.{link}:7000");
            let registration = Registration { address, machine, ..registration(&format!("n{link}")) };
            bench.give(Input::Register { link: LinkId(link), registration });
        }
        let mut open = tick(&mut bench, QUIET);
        while let Some(order) = open.pop() {
            let ns = match (order.from.0.min(order.to.0), order.from.0.max(order.to.0)) {
                (1, 2) => ns_in_rack,
                (1, 3) => ns_at_switch,
                _ => 1_000_000,
            };
            open.extend(done(&mut bench, &order, ns));
        }
        assert_eq!(bench.cluster.measured_paths().count(), 3);
        let mut ask = |client, devices: &str| {
            let request = SessionRequest { devices: Some(devices.to_owned()), ..request("n1") };
            let key = SessionKey([client; SessionKey::LEN]);
            let client = ClientId(client.into());
            let effects = bench.give(Input::Open { client, request, key, user: ALICE.into() });
            let granted = effects.iter().find_map(|effect| match effect {
                Effect::ToClient(_, ClientPush::Granted(session)) => Some(*session),
                _ => None,
            });
            let session = granted.unwrap_or_else(|| panic!("{effects:?}"));
            bench.cluster.session(session).unwrap().lease.devices.iter().map(|id| id.node.0).collect::<Vec<_>>()
        };
        assert_eq!(ask(1, "2:cpu"), [0, 0], "the program's own node");
        assert_eq!(ask(2, "1:cpu"), [nearest]);
    }
}

//! The cost of an input does not grow with the cluster: loops count their steps.

use accord_scheduler::amount::Amount;
use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::Account;
use accord_scheduler::request::{Locality, Part, Take};
use accord_scheduler::{
    DeviceState, DrainTarget, Effect, Forecast, Input, JobId, Members, Millis, Policy, Refusal, Request, Reservation,
    ReservationId, ReservedDevices, Scheduler, WaitReason,
};
use accord_types::{DeviceId, DeviceType, NodeId};
use std::collections::BTreeMap;

const SMALL: u32 = 100;
const LARGE: u32 = 10_000;

/// Most steps of an input in either of the two clusters.
const STEPS_MAX: u64 = 400;

fn node(at: u32) -> NodeDescription {
    let class = DeviceClass {
        kind: DeviceType::Nvidia,
        model: "h200".to_owned(),
        memory: 141 << 30,
        context: 0,
        compute: (9, 0),
    };
    NodeDescription {
        id: NodeId(at),
        name: format!("n{at}"),
        incarnation: 1,
        devices: (0..8).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
        cores: 64_000,
        host_memory: 1 << 40,
        labels: BTreeMap::new(),
    }
}

fn ask(count: u32, limit_ms: Option<u64>) -> Input {
    let request = Request { limit_ms, ..Request::of(Part::whole(count, ClassFilter::ALL)) };
    Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: Some(NodeId(3)), request }
}

/// A cluster whose devices are all in use by jobs of 8 devices.
struct Cluster {
    scheduler: Scheduler,
    now: Millis,
}

impl Cluster {
    fn full(nodes: u32) -> Self {
        let mut cluster = Self { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        for at in 0..nodes {
            cluster.apply(Input::NodeJoined(node(at)));
        }
        for at in 0..nodes {
            cluster.apply(ask(8, Some(3_600_000 + u64::from(at))));
        }
        cluster
    }

    /// Applies an input. Returns its steps and effects.
    fn apply(&mut self, input: Input) -> (u64, Vec<Effect>) {
        self.now = self.now.plus(1);
        let (before, mut effects) = (self.scheduler.steps(), Vec::new());
        self.scheduler.apply(self.now, input, &mut effects);
        (self.scheduler.steps() - before, effects)
    }
}

#[test]
fn no_input_costs_more_in_a_larger_cluster() {
    let by = || "root".to_owned();
    let device = DeviceId { node: NodeId(7), ordinal: 1 };
    let target = DrainTarget::Node(NodeId(9));
    let reservation = Reservation {
        id: ReservationId(1),
        name: "service".to_owned(),
        devices: ReservedDevices::Listed(vec![DrainTarget::Device(device)]),
        starts: Millis(100_000_000),
        ends: Millis(200_000_000),
        created: 0,
        members: Members::default(),
        end_jobs: true,
    };
    let job = JobId(5);
    let inputs = [
        ask(1, Some(60_000)),
        ask(16, None),
        Input::Tick,
        Input::Ended { job },
        Input::Abandoned { job: JobId(9), seen: Some(Millis(0)) },
        Input::Released { job, node: NodeId(4) },
        Input::Cancel { job: JobId(6), by: by() },
        Input::NodeLost(NodeId(7)),
        Input::NodeJoined(NodeDescription { incarnation: 2, ..node(7) }),
        Input::NodeLeft(NodeId(8)),
        Input::Drain { target, by_time: Millis(1_000_000), end: false, reason: "fan".to_owned(), by: by() },
        Input::Undrain { target, by: by() },
        Input::Quarantine { device, reason: "ECC".to_owned(), by: None, charged: false, uuid: String::new() },
        Input::Unquarantine { device, by: by() },
        Input::Reserve(Box::new(reservation)),
        Input::Unreserve(ReservationId(1)),
        Input::SetLimit { job: JobId(12), limit_ms: 5_000_000, by: by() },
        Input::Pause { paused: true, by: by() },
        Input::Pause { paused: false, by: by() },
    ];
    assert_equal_steps(Cluster::full, &inputs);
}

/// Asserts that each input of a sequence takes as many steps in a large cluster as in a small one.
fn assert_equal_steps(cluster: impl Fn(u32) -> Cluster, inputs: &[Input]) {
    let steps = |nodes: u32| -> Vec<u64> {
        let mut cluster = cluster(nodes);
        inputs.iter().map(|input| cluster.apply(input.clone()).0).collect()
    };
    for (input, (small, large)) in inputs.iter().zip(steps(SMALL).into_iter().zip(steps(LARGE))) {
        assert!(small <= STEPS_MAX && large <= STEPS_MAX, "{input:?}: {small} steps, {large} in the larger cluster");
        assert!(large <= small + small / 2 + 16, "{input:?}: {small} steps, {large} in the larger cluster");
    }
}

/// Returns a reservation of all devices.
fn of_all(id: u64, (starts, ends): (u64, u64), users: &[&str]) -> Input {
    Input::Reserve(Box::new(Reservation {
        id: ReservationId(id),
        name: "all".to_owned(),
        devices: ReservedDevices::All,
        starts: Millis(starts),
        ends: Millis(ends),
        created: 0,
        members: Members { accounts: Vec::new(), users: users.iter().map(|user| (*user).to_owned()).collect() },
        end_jobs: false,
    }))
}

/// Returns a cluster with half of the devices in use, and with later maintenance of all devices.
fn maintained(nodes: u32) -> Cluster {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    for at in 0..nodes {
        cluster.apply(Input::NodeJoined(node(at)));
    }
    for _ in 0..nodes / 2 {
        cluster.apply(ask(8, Some(3_600_000)));
    }
    cluster.apply(of_all(1, (50_000_000, 60_000_000), &[]));
    cluster
}

#[test]
fn an_explanation_does_not_cost_more_where_all_devices_of_a_larger_cluster_are_reserved() {
    let steps = |nodes: u32| {
        let mut cluster = maintained(nodes);
        // More devices than a node has. Devices that are reserved for later are free for the job.
        let nine = Part::whole(9, ClassFilter::ALL);
        let request = Request { nodes: Some(1), limit_ms: Some(60_000), ..Request::of(nine) };
        let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
        let (_, effects) = cluster.apply(input);
        let Some(&Effect::Queued { job }) = effects.first() else { panic!("{effects:?}") };
        let before = cluster.scheduler.steps();
        let reason = cluster.scheduler.reason(job);
        assert!(matches!(reason, Some(WaitReason::Devices { free, .. }) if free == 4 * u64::from(nodes)), "{reason:?}");
        cluster.scheduler.steps() - before
    };
    let (small, large) = (steps(SMALL), steps(LARGE));
    assert!(large <= small + small / 2 + 16, "{small} steps, {large} in the larger cluster");
}

#[test]
fn an_explanation_costs_no_more_where_many_wait_for_cores_of_a_larger_cluster() {
    let steps = |nodes: u32| {
        let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        for at in 0..nodes {
            cluster.apply(Input::NodeJoined(node(at)));
        }
        let accounts = nodes / 4;
        for at in 0..accounts {
            let leaf = Account::plain(&format!("a{at}"), Some(accord_scheduler::AccountId::SITE), 1);
            cluster.apply(Input::AccountAdded(Box::new(leaf)));
        }
        let with_cores = |at: u32, count: u32, cores: u64| {
            let part = Part { cores, ..Part::whole(count, ClassFilter::ALL) };
            let request = Request { limit_ms: Some(3_600_000), ..Request::of(part) };
            let account = format!("a{}", at % accounts);
            Input::Ask { user: "u".to_owned(), account, origin: None, request }
        };
        // Each node has three free devices, and no cores.
        for at in 0..nodes {
            assert!(starts(&cluster.apply(with_cores(at, 5, 12_800)).1));
        }
        for at in 0..nodes {
            assert!(!starts(&cluster.apply(with_cores(at, 1, 1_000)).1));
        }
        let (scheduler, job) = (&cluster.scheduler, JobId(2 * u64::from(nodes) - 7));
        let place = scheduler.order_of_waiting().iter().position(|waiting| *waiting == job).unwrap();
        let before = scheduler.steps();
        let explained = scheduler.explain(job).unwrap();
        let lacking = WaitReason::Cores { model: "h200".to_owned(), needed: 1_000, free: 0 };
        assert_eq!((explained.position, explained.reason), (Some(place), Some(lacking)));
        scheduler.steps() - before
    };
    let (small, large) = (steps(SMALL), steps(LARGE));
    assert!(large <= small + 64, "{small} steps, {large} in the larger cluster");
}

#[test]
fn jobs_of_several_parts_that_wait_for_cores_do_not_make_inputs_cost_more_in_a_larger_cluster() {
    let of = |request: &str| {
        let request = request.parse().unwrap();
        Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: Some(NodeId(3)), request }
    };
    // Each node has free devices of both classes, and cores for the first part of a waiting job but not for the second.
    let waiting = |nodes: u32| {
        let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        for at in 0..nodes {
            let mut description = node(at);
            let class = DeviceClass { kind: DeviceType::Cpu, ..description.devices[0].class.clone() };
            description.devices.push(DeviceDescription { ordinal: 8, class });
            cluster.apply(Input::NodeJoined(description));
        }
        for _ in 0..nodes {
            assert!(starts(&cluster.apply(of("5:nvidia:cores=12 limit=1h")).1));
        }
        for limit in 60..64 {
            let request = format!("1:cpu:cores=3 + 1:nvidia:cores=5 limit={limit}s");
            assert!(!starts(&cluster.apply(of(&request)).1));
        }
        cluster
    };
    let inputs = [Input::Tick, of("1:nvidia limit=1m"), of("1:cpu:cores=1 limit=1m"), Input::Ended { job: JobId(5) }];
    assert_equal_steps(waiting, &inputs);
}

#[test]
fn a_node_that_returns_does_not_cost_more_where_a_reservation_lists_more_devices() {
    let listed = |nodes: u32| {
        let mut cluster = Cluster::full(nodes);
        let devices = (0..nodes).rev().flat_map(|at| (0..8).map(move |ordinal| DeviceId { node: NodeId(at), ordinal }));
        cluster.apply(Input::Reserve(Box::new(Reservation {
            id: ReservationId(1),
            name: "listed".to_owned(),
            devices: ReservedDevices::Listed(devices.map(DrainTarget::Device).collect()),
            starts: Millis(50_000_000),
            ends: Millis(60_000_000),
            created: 0,
            members: Members::default(),
            end_jobs: false,
        })));
        cluster
    };
    let labels = BTreeMap::from([("rack".to_owned(), "r1".to_owned())]);
    let inputs = [
        Input::NodeLost(NodeId(7)),
        Input::NodeJoined(node(7)),
        Input::NodeJoined(NodeDescription { labels, ..node(7) }),
        Input::NodeJoined(NodeDescription { incarnation: 2, ..node(7) }),
    ];
    assert_equal_steps(listed, &inputs);
}

#[test]
fn a_reservation_of_all_devices_does_not_make_inputs_cost_more_in_a_larger_cluster() {
    let on_nodes = |nodes: u32| Request {
        nodes: Some(nodes),
        limit_ms: Some(60_000),
        ..Request::of(Part::whole(2 * nodes, ClassFilter::ALL))
    };
    let asked =
        |request: Request| Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
    let inputs = [
        ask(1, Some(60_000)),
        ask(8, None),
        ask(16, Some(60_000)),
        ask(1, Some(70_000_000)),
        asked(on_nodes(4)),
        asked(Request {
            locality: Locality::Pack,
            limit_ms: Some(60_000),
            ..Request::of(Part::whole(12, ClassFilter::ALL))
        }),
        Input::Ended { job: JobId(5) },
        Input::Released { job: JobId(5), node: NodeId(4) },
        Input::Tick,
    ];
    assert_equal_steps(maintained, &inputs);
}

#[test]
fn inputs_cost_no_more_where_all_nodes_are_of_one_rack_and_switch() {
    let near = |nodes: u32| {
        let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        for at in 0..nodes {
            let labels = ["rack", "switch"].map(|label| (label.to_owned(), "1".to_owned()));
            cluster.apply(Input::NodeJoined(NodeDescription { labels: labels.into(), ..node(at) }));
        }
        for _ in 0..nodes {
            cluster.apply(ask(5, Some(3_600_000)));
        }
        cluster
    };
    let of = |request: Request| Input::Ask {
        user: "u".to_owned(),
        account: "site".to_owned(),
        origin: Some(NodeId(3)),
        request,
    };
    let ranks = Request { ranks: 3, per_rank: true, ..Request::of(Part::whole(2, ClassFilter::ALL)) };
    let inputs = [ask(1, None), ask(4, None), ask(16, Some(60_000)), of(ranks), Input::Ended { job: JobId(9) }];
    assert_equal_steps(near, &inputs);
}

#[test]
fn a_plan_does_not_go_through_all_devices_for_each_week_of_a_reservation() {
    // A job takes all devices of the cluster for longer than the time between two weeks of a node's reservation. So it
    // starts after the last week.
    let all = Request { limit_ms: Some(60_000_000), ..Request::of(Part::whole(8 * SMALL, ClassFilter::ALL)) };
    let on_nodes = Request { nodes: Some(SMALL), ..all.clone() };
    let eight = Request::of(Part::whole(8, ClassFilter::ALL));
    let in_chunks = Request { limit_ms: all.limit_ms, ranks: SMALL, per_rank: true, ..eight };
    for request in [all, on_nodes, in_chunks] {
        let steps = |weeks: u64| {
            let mut cluster = Cluster::full(SMALL);
            for week in 0..weeks {
                let starts = Millis(50_000_000 + week * 10_000_000);
                cluster.apply(Input::Reserve(Box::new(Reservation {
                    id: ReservationId(week),
                    name: "cleaning".to_owned(),
                    devices: ReservedDevices::Listed(vec![DrainTarget::Node(NodeId(0))]),
                    starts,
                    ends: starts.plus(1_000_000),
                    created: 0,
                    members: Members::default(),
                    end_jobs: false,
                })));
            }
            let request = request.clone();
            let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
            let (steps, effects) = cluster.apply(input);
            let last = 50_000_000 + (weeks - 1) * 10_000_000 + 1_000_000;
            let is_reserved =
                |effect: &Effect| matches!(effect, Effect::Reserved { starts, .. } if *starts == Millis(last));
            assert!(effects.iter().any(is_reserved), "{effects:?}");
            steps
        };
        let (few, many) = (steps(1), steps(40));
        assert!(many <= few + few / 2 + 16, "{request:?}: {few} steps, {many} with more weeks");
    }
}

#[test]
fn a_search_does_not_go_through_all_drains_for_each_node() {
    let with_cores = |cores: u64| {
        let part = Part { cores, ..Part::whole(1, ClassFilter::ALL) };
        let request = Request { limit_ms: Some(60_000), ..Request::of(part) };
        Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request }
    };
    // Each node has free devices, but too few cores for the last job.
    let steps = |apart_ms: u64| {
        let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        for at in 0..SMALL {
            cluster.apply(Input::NodeJoined(node(at)));
            cluster.apply(Input::Drain {
                target: DrainTarget::Node(NodeId(at)),
                by_time: Millis(100_000_000 + apart_ms * u64::from(at)),
                end: false,
                reason: "fan".to_owned(),
                by: "root".to_owned(),
            });
        }
        for _ in 0..SMALL {
            assert!(starts(&cluster.apply(with_cores(60_000)).1));
        }
        let (steps, effects) = cluster.apply(with_cores(10_000));
        assert!(matches!(effects.last(), Some(Effect::Queued { .. })) && !starts(&effects), "{effects:?}");
        steps
    };
    let (together, apart) = (steps(0), steps(1_000));
    assert!(apart <= 2 * together, "{together} steps, {apart} with drains at different times");
}

#[test]
fn jobs_that_wait_for_devices_of_a_reservation_do_not_make_inputs_cost_more_in_a_larger_cluster() {
    let by = || "root".to_owned();
    // All devices are in use by others, or free for less time than the jobs of a member last.
    let waiting = |is_full: bool| {
        move |nodes: u32| {
            let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
            for at in 0..nodes {
                cluster.apply(Input::NodeJoined(node(at)));
            }
            for _ in 0..if is_full { nodes } else { 0 } {
                cluster.apply(ask(8, Some(3_600_000)));
            }
            cluster.apply(of_all(1, (0, 80_000_000), &["eva"]));
            cluster.apply(of_all(2, (50_000_000, 60_000_000), &[]));
            for count in 1..4 {
                cluster.apply(ask_of("eva", count, 70_000_000, None));
                cluster.apply(ask_of("eva", count, 70_000_000, Some("all")));
            }
            cluster
        }
    };
    let inputs = [
        Input::Tick,
        ask(1, Some(60_000)),
        ask_of("eva", 2, 70_000_000, None),
        ask_of("eva", 2, 60_000, Some("all")),
        Input::Ended { job: JobId(5) },
        Input::Released { job: JobId(5), node: NodeId(4) },
        Input::Quarantine {
            device: DeviceId { node: NodeId(7), ordinal: 1 },
            reason: "ECC".to_owned(),
            by: None,
            charged: false,
            uuid: String::new(),
        },
        Input::Drain {
            target: DrainTarget::Node(NodeId(9)),
            by_time: Millis(1_000_000),
            end: false,
            reason: "fan".to_owned(),
            by: by(),
        },
        Input::Undrain { target: DrainTarget::Node(NodeId(9)), by: by() },
        Input::NodeLost(NodeId(11)),
        Input::NodeJoined(NodeDescription { incarnation: 2, ..node(11) }),
    ];
    assert_equal_steps(waiting(true), &inputs);
    assert_equal_steps(waiting(false), &inputs);
}

#[test]
fn an_account_that_joins_costs_nothing_of_the_others_and_takes_no_promise_back() {
    let mut cluster = Cluster::full(SMALL);
    for job in 0..100 {
        cluster.apply(ask(8, Some(3_600_000 + job)));
    }
    let reserved = |cluster: &Cluster| -> Vec<_> {
        let waiting = cluster.scheduler.jobs(Some(JobId(u64::from(SMALL))));
        waiting.map(|view| cluster.scheduler.explain(view.job).and_then(|explained| explained.starts)).collect()
    };
    let before = reserved(&cluster);
    assert!(before.iter().flatten().count() > 10, "{before:?}");
    let leaf = Account::plain("other", Some(accord_scheduler::AccountId::SITE), 1);
    let (steps, effects) = cluster.apply(Input::AccountAdded(Box::new(leaf)));
    assert!(steps <= 8 && effects.is_empty(), "{steps} steps, {effects:?}");
    assert_eq!(reserved(&cluster), before);
}

#[test]
fn a_forecast_is_what_happens() {
    let mut cluster = Cluster::full(4);
    let starts = |forecast: Forecast| match forecast {
        Forecast::At { starts, .. } => starts,
        other => panic!("{other:?}"),
    };
    let request = Request { limit_ms: Some(1_000), ..Request::of(Part::whole(16, ClassFilter::ALL)) };
    let asked_before = starts(cluster.scheduler.clone().what_if("u", "site", None, request.clone()));
    let (_, effects) =
        cluster.apply(Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request });
    let [Effect::Queued { job }, Effect::Reserved { starts: reserved, .. }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(asked_before, reserved);
    assert_eq!(starts(cluster.scheduler.clone().forecast(job).unwrap()), reserved);
    let mut begun = None;
    while begun.is_none() {
        cluster.now = cluster.scheduler.next_deadline().unwrap();
        let (mut effects, now) = (Vec::new(), cluster.now);
        cluster.scheduler.apply(now, Input::Tick, &mut effects);
        let released: Vec<Input> = effects
            .iter()
            .filter_map(|effect| match *effect {
                Effect::Release { job, node } => Some(Input::Released { job, node }),
                _ => None,
            })
            .collect();
        for input in released {
            cluster.scheduler.apply(now, input, &mut effects);
        }
        begun = effects.iter().any(|effect| matches!(effect, Effect::Started { .. })).then_some(now);
    }
    assert_eq!(begun, Some(reserved));
}

#[test]
fn an_explanation_names_what_is_missing_and_freeing_it_starts_the_job() {
    let mut cluster = Cluster::full(2);
    cluster.apply(Input::Ended { job: JobId(1) });
    let (_, effects) = cluster.apply(ask(8, Some(1_000)));
    let Some(&Effect::Queued { job }) = effects.first() else { panic!("{effects:?}") };
    let reason = cluster.scheduler.explain(job).and_then(|explained| explained.reason);
    let missing = WaitReason::Devices { model: "h200".to_owned(), needed: 8, free: 0 };
    assert_eq!(reason, Some(missing));
    let (_, effects) = cluster.apply(Input::Released { job: JobId(1), node: NodeId(0) });
    assert!(matches!(&effects[..], [Effect::Started { job: started, .. }] if *started == job), "{effects:?}");
}

#[test]
fn near_devices_are_of_one_rack_although_fewer_nodes_of_several_would_do() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    for (at, rack) in [(0, "r0"), (1, "r0"), (2, "r1"), (3, "r1")] {
        let labels = BTreeMap::from([("rack".to_owned(), rack.to_owned())]);
        cluster.apply(Input::NodeJoined(NodeDescription { labels, ..node(at) }));
    }
    let started = |effects: Vec<Effect>| match &effects[..] {
        [Effect::Queued { .. }, Effect::Started { devices, .. }] => {
            devices.iter().map(|of| of.device.node.0).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let on = |count: u32, node: u32| Input::Ask {
        user: "u".to_owned(),
        account: "site".to_owned(),
        origin: Some(NodeId(node)),
        request: Request { limit_ms: None, ..Request::of(Part::whole(count, ClassFilter::ALL)) },
    };
    // One rack has 5 and 4 free devices, the other one 8 and 0.
    for (count, node) in [(3, 0), (4, 1), (8, 3)] {
        started(cluster.apply(on(count, node)).1);
    }
    let asked = |locality: Locality| {
        let mut cluster = Cluster { scheduler: cluster.scheduler.clone(), now: cluster.now };
        let request = Request { locality, ..Request::of(Part::whole(9, ClassFilter::ALL)) };
        let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
        started(cluster.apply(input).1)
    };
    assert_eq!(asked(Locality::Near), [0, 0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(asked(Locality::Pack), [2, 2, 2, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn near_holds_for_ranks_and_shares_and_for_a_number_of_nodes() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    for (at, rack) in [(0, "r0"), (1, "r0"), (2, "r1"), (3, "r1")] {
        let labels = BTreeMap::from([("rack".to_owned(), rack.to_owned())]);
        cluster.apply(Input::NodeJoined(NodeDescription { labels, ..node(at) }));
    }
    let asked = |cluster: &mut Cluster, request: Request, origin: Option<u32>| {
        let origin = origin.map(NodeId);
        let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin, request };
        let (_, effects) = cluster.apply(input);
        let [Effect::Queued { .. }, Effect::Started { devices, .. }] = &effects[..] else { panic!("{effects:?}") };
        let nodes = devices.iter().map(|of| of.device.node.0);
        nodes.fold(BTreeMap::new(), |mut counts, node| {
            *counts.entry(node).or_insert(0) += 1;
            counts
        })
    };
    // Free are 5 and 8 devices of the one rack, and 3 and 0 of the other.
    for (count, node) in [(3, 0), (5, 2), (8, 3)] {
        asked(&mut cluster, Request::of(Part::whole(count, ClassFilter::ALL)), Some(node));
    }
    let half = Take::Shared(Amount { milli: 500, memory: 0 });
    let whole = |count| Request::of(Part::whole(count, ClassFilter::ALL));
    let ranks = |ranks| Request { ranks, per_rank: true, ..whole(3) };
    let of_shares = Request::of(Part { take: half, ..Part::whole(10, ClassFilter::ALL) });
    let cases = [
        (Request { nodes: Some(2), ..whole(6) }, [(0, 3), (2, 3)].as_slice(), [(0, 3), (1, 3)].as_slice()),
        (ranks(2), &[(0, 3), (2, 3)], &[(1, 6)]),
        (ranks(3), &[(0, 3), (1, 3), (2, 3)], &[(0, 3), (1, 6)]),
        (of_shares, &[(0, 5), (1, 2), (2, 3)], &[(0, 2), (1, 8)]),
    ];
    for (request, anywhere, near) in cases {
        for (locality, nodes) in [(Locality::OwnFirst, anywhere), (Locality::Near, near)] {
            let mut cluster = Cluster { scheduler: cluster.scheduler.clone(), now: cluster.now };
            let request = Request { locality, ..request.clone() };
            let counts: BTreeMap<u32, i32> = nodes.iter().copied().collect();
            assert_eq!(asked(&mut cluster, request.clone(), None), counts, "{request:?}");
        }
    }
}

#[test]
fn any_device_is_of_the_class_whose_nodes_have_least_left() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    let mut small = node(1);
    small.devices.truncate(2);
    small.devices.iter_mut().for_each(|device| device.class.model = "t4".to_owned());
    for description in [node(0), small] {
        cluster.apply(Input::NodeJoined(description));
    }
    let request = Request::of(Part::whole(1, ClassFilter::ALL));
    let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
    let (_, effects) = cluster.apply(input);
    let Some(Effect::Started { devices, .. }) = effects.get(1) else { panic!("{effects:?}") };
    // Filled class by class, the node of eight would no longer be whole.
    assert_eq!(devices[0].device.node, NodeId(1));
}

#[test]
fn any_device_is_of_the_class_whose_nodes_have_fewer_cores_left() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    let mut busy = node(1);
    busy.devices.iter_mut().for_each(|device| device.class.model = "t4".to_owned());
    (busy.cores, busy.devices) = (16_000, busy.devices[..4].to_vec());
    let mut idle = node(0);
    (idle.cores, idle.devices) = (128_000, idle.devices[..4].to_vec());
    for description in [idle, busy] {
        cluster.apply(Input::NodeJoined(description));
    }
    let request = Request::of(Part::whole(1, ClassFilter::ALL));
    let input = Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
    let (_, effects) = cluster.apply(input);
    let Some(Effect::Started { devices, .. }) = effects.get(1) else { panic!("{effects:?}") };
    // By devices alone both nodes are equal, but a later job with cores would find none next to a free device.
    assert_eq!(devices[0].device.node, NodeId(1));
}

#[test]
fn a_tenth_of_a_class_is_in_quarantine_at_most() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    for at in 0..4 {
        cluster.apply(Input::NodeJoined(node(at)));
    }
    let fault = |ordinal| Input::Quarantine {
        device: DeviceId { node: NodeId(0), ordinal },
        reason: "uncorrectable ECC error".to_owned(),
        by: None,
        charged: false,
        uuid: String::new(),
    };
    for ordinal in 0..5 {
        cluster.apply(fault(ordinal));
    }
    // 3 of 32 devices are in quarantine.
    let all = Request::of(Part::whole(29, ClassFilter::ALL));
    let ask = |request: Request| Input::Ask { user: "u".to_owned(), account: "site".to_owned(), origin: None, request };
    let (_, effects) = cluster.apply(ask(all));
    assert!(matches!(&effects[..], [Effect::Queued { .. }, Effect::Started { .. }]), "{effects:?}");
    let (_, effects) = cluster.apply(fault(6));
    let [Effect::QuarantineRefused { why, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert!(why.contains("3 of 32 devices of its class are in it"), "{why}");
    // Those in quarantine that their node does not show any more make no room.
    let mut without = NodeDescription { incarnation: 2, ..node(0) };
    without.devices.retain(|device| device.ordinal > 2);
    cluster.apply(Input::NodeJoined(without));
    let (_, effects) = cluster.apply(fault(6));
    let refused =
        |effect: &Effect| matches!(effect, Effect::QuarantineRefused { why, .. } if why.contains("3 of 32 devices"));
    assert!(effects.iter().any(refused), "{effects:?}");
}

#[test]
fn devices_that_programs_use_are_counted_apart_from_those_in_quarantine() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    cluster.apply(Input::NodeJoined(node(0)));
    let device = |ordinal| DeviceId { node: NodeId(0), ordinal };
    let fault = |ordinal, by| Input::Quarantine {
        device: device(ordinal),
        reason: "ECC".to_owned(),
        by,
        charged: false,
        uuid: String::new(),
    };
    for input in [
        Input::InUse { device: device(0), in_use: true },
        Input::InUse { device: device(1), in_use: true },
        fault(1, None),
        fault(2, Some("root".to_owned())),
    ] {
        cluster.apply(input);
    }
    let states = cluster.scheduler.device_states();
    let count = |state| states.iter().filter_map(|(_, counts)| counts.get(&state)).sum::<u64>();
    let counted = [DeviceState::Used, DeviceState::Quarantined, DeviceState::Free].map(count);
    assert_eq!(counted, [1, 2, 5]);
}

#[test]
fn one_waiting_request_too_many_is_refused_by_name() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    for _ in 0..accord_scheduler::policy::WAITING_MAX {
        let (_, effects) = cluster.apply(ask(1, None));
        assert!(matches!(&effects[..], [Effect::Queued { .. }]), "{effects:?}");
    }
    let (_, effects) = cluster.apply(ask(1, None));
    let refusal = Effect::Refused(Refusal::Waiting { account: None, max: 65_536 });
    assert_eq!(effects.last(), Some(&refusal));
    cluster.apply(Input::Cancel { job: JobId(1), by: "u".to_owned() });
    let (_, effects) = cluster.apply(ask(1, None));
    assert!(matches!(&effects[..], [Effect::Queued { .. }]), "{effects:?}");
}

/// Adds a reservation of node 0 for a user and an account, which has begun.
fn course(cluster: &mut Cluster, users: &[&str], accounts: &[&str]) {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let reservation = Reservation {
        id: ReservationId(1),
        name: "course".to_owned(),
        devices: ReservedDevices::Listed(vec![DrainTarget::Node(NodeId(0))]),
        starts: Millis(0),
        ends: Millis(100_000_000),
        created: 0,
        members: Members { accounts: names(accounts), users: names(users) },
        end_jobs: false,
    };
    cluster.apply(Input::Reserve(Box::new(reservation)));
}

fn ask_of(user: &str, count: u32, limit_ms: u64, reservation: Option<&str>) -> Input {
    let reservation = reservation.map(str::to_owned);
    let request =
        Request { limit_ms: Some(limit_ms), reservation, ..Request::of(Part::whole(count, ClassFilter::ALL)) };
    Input::Ask { user: user.to_owned(), account: "site".to_owned(), origin: None, request }
}

fn starts(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Started { .. }))
}

#[test]
fn a_job_that_names_a_reservation_starts_although_many_of_its_account_wait_before_it() {
    let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
    cluster.apply(Input::NodeJoined(node(0)));
    course(&mut cluster, &["eva"], &["site"]);
    for at in 0..100 {
        // More devices than the cluster has.
        assert!(!starts(&cluster.apply(ask_of("tom", 16, 1_000 + at, None)).1));
        assert!(!starts(&cluster.apply(ask_of("eva", 16, 1_000 + at, Some("course"))).1));
    }
    assert!(starts(&cluster.apply(ask_of("eva", 1, 1_000, Some("course"))).1));
    assert!(starts(&cluster.apply(ask_of("tom", 1, 1_000, Some("course"))).1));
}

#[test]
fn equal_jobs_of_members_cost_no_more_than_one_at_the_devices_of_a_reservation() {
    let steps = |waiting: u64| {
        let mut cluster = Cluster { scheduler: Scheduler::new(Policy::default()), now: Millis(0) };
        cluster.apply(Input::NodeJoined(node(0)));
        course(&mut cluster, &["eva"], &[]);
        let maintenance = Reservation {
            id: ReservationId(2),
            name: "fan".to_owned(),
            devices: ReservedDevices::All,
            starts: Millis(50_000_000),
            ends: Millis(60_000_000),
            created: 0,
            members: Members::default(),
            end_jobs: false,
        };
        cluster.apply(Input::Reserve(Box::new(maintenance)));
        // The devices are free, but not for as long as the jobs may last.
        for _ in 0..waiting {
            assert!(!starts(&cluster.apply(ask_of("eva", 2, 70_000_000, Some("course"))).1));
        }
        cluster.apply(Input::Tick).0
    };
    let (few, many) = (steps(1), steps(1_000));
    // 64 of the jobs have a reserved start.
    assert!(few > 0 && many <= few + 2 * 64, "{few} steps, {many} with more waiting jobs");
}

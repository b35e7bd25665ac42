//! The cost of an input does not grow with the cluster.

use super::super::effect::{ClientPush, Effect, PathOrder};
use super::super::input::{ClientId, Input, Joiner, LinkId, Registration};
use super::super::measured_path::MeasuredPath;
use super::super::record::{Record, Records};
use super::super::restore::Restart;
use super::super::state::{Cluster, Limits};
use super::super::time::Millis;
use accord_scheduler::JobId;
use accord_types::{
    DeviceId, DeviceInfo, DeviceKind, DeviceLoad, DeviceUse, DeviceVerdict, JobToken, NodeFigures, NodeId, OrderPolicy,
    PathTimes, Rank, SessionGrant, SessionId, SessionKey, SessionRequest, SiteScript,
};
use std::cell::Cell;
use std::collections::BTreeSet;

const SMALL: u32 = 100;
const LARGE: u32 = 10_000;
/// Devices of a node.
const DEVICES: u32 = 2;
/// Most steps of an input that concerns few nodes, sessions and jobs.
const STEPS_MAX: u64 = 400;
/// Most further steps of an input that visits wanted paths: it visits 512, each of which is listed from both ends.
const CHECKS_MAX: u64 = 1_100;
/// Kinds of inputs.
const KINDS: usize = 31;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

pub(in super::super) fn step() {
    STEPS.set(STEPS.get() + 1);
}

/// Returns the number of an input's kind.
fn number(input: &Input) -> usize {
    match input {
        Input::Join { .. } => 0,
        Input::Register { .. } => 1,
        Input::Heartbeat { .. } => 2,
        Input::ExecutorStarted { .. } => 3,
        Input::ExecutorEnded { .. } => 4,
        Input::JobReleased { .. } => 5,
        Input::Goodbye { .. } => 6,
        Input::LinkLost { .. } => 7,
        Input::Open { .. } => 8,
        Input::Attach { .. } => 9,
        Input::Hold { .. } => 10,
        Input::InUse { .. } => 11,
        Input::ClientGone { .. } => 12,
        Input::ClientLost { .. } => 13,
        Input::Drain { .. } => 14,
        Input::Close { .. } => 15,
        Input::NodeMeasured { .. } => 16,
        Input::PathMeasured { .. } => 17,
        Input::MeasureSoon => 18,
        Input::Schedule(_) => 19,
        Input::Groups { .. } => 20,
        Input::Tick => 21,
        Input::MayUse { .. } => 22,
        Input::ProgramUsed { .. } => 23,
        Input::AgentUsed { .. } => 24,
        Input::UseEnded { .. } => 25,
        Input::DeviceTested { .. } => 26,
        Input::Leaving { .. } => 27,
        Input::ScriptFailed { .. } => 28,
        Input::JobSuspended { .. } => 29,
        Input::AgentLoads { .. } => 30,
        // A policy is compared with all users and jobs, and a reservation may have all devices.
        Input::ApplyPolicy { .. } | Input::StartPolicy { .. } | Input::Reserve(_) | Input::Unreserve { .. } => {
            usize::MAX
        }
    }
}

fn registration(name: &str, world: &str) -> Registration {
    let device = |ordinal| DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal },
        node_name: String::new(),
        kind: DeviceKind::CPU,
        name: "d".into(),
        vendor: "v".into(),
        driver: "1".into(),
        uuid: String::new(),
        memory: 1,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    };
    let devices = (0..DEVICES).map(device).collect();
    Registration { world: world.into(), ..Registration::new(name, format!("{name}:1"), 10, devices) }
}

fn request(node_name: &str, devices: Option<&str>) -> SessionRequest {
    SessionRequest {
        node_name: node_name.into(),
        pid: 1,
        program: "app".into(),
        rank: None,
        kind: None,
        order: OrderPolicy::Local,
        devices: devices.map(str::to_owned),
        job: None,
    }
}

fn key(number: u64) -> SessionKey {
    let mut key = SessionKey([0; SessionKey::LEN]);
    key.0[..8].copy_from_slice(&number.to_le_bytes());
    key
}

fn at(node: u32, ordinal: u32) -> DeviceId {
    DeviceId { node: NodeId(node), ordinal }
}

fn orders(effects: Vec<Effect>) -> impl Iterator<Item = PathOrder> {
    effects.into_iter().filter_map(|effect| match effect {
        Effect::MeasurePath(order) => Some(order),
        _ => None,
    })
}

/// A cluster whose nodes, except for the first ten, have a job with a session each. Most paths are still to be
/// measured.
struct Site {
    cluster: Cluster,
    now: u64,
    nodes: u32,
    seen: BTreeSet<usize>,
    worst: u64,
    /// Ordered measurements.
    orders: Vec<PathOrder>,
}

impl Site {
    fn new(nodes: u32) -> Self {
        let limits = Limits { nodes_max: 16_384, devices_max: 65_536, session_quota: 65_536, ..Limits::default() };
        // Recording for the state file is included.
        let restart = Restart { now: Millis(0), committed: Millis(0), unix_ms: 1_000, epoch: 1 };
        let (cluster, seen) = (Cluster::restore(limits, &Records::new(), restart).unwrap(), BTreeSet::new());
        let mut site = Self { cluster, now: 0, nodes, seen, worst: 0, orders: Vec::new() };
        for node in 0..nodes {
            let link = LinkId(node.into());
            let world = if node < 4 { "run" } else { "" };
            site.give(Input::Register { link, registration: registration(&format!("n{node}"), world) });
            site.give(Input::NodeMeasured { link, figures: NodeFigures::default() });
        }
        // Requests wait for agents right after the coordinator's start. A late tick visits all nodes, because then the
        // coordinator was suspended.
        for _ in 0..20 {
            site.now += 250;
            let (effects, _) = site.give(Input::Tick);
            site.orders.extend(orders(effects));
        }
        for node in 10..nodes {
            let client = node.into();
            site.open(client, request(&format!("n{node}"), Some("1")));
            site.give(Input::MayUse { client: ClientId(client), device: at(node, 0) });
        }
        for node in 0..nodes {
            site.beat(node);
        }
        site
    }

    /// Passes an input to the cluster. Returns its effects and steps.
    fn give(&mut self, input: Input) -> (Vec<Effect>, u64) {
        let (begun, before) = (STEPS.get(), self.cluster.allocations.scheduler().steps());
        let (kind, mut effects) = (number(&input), Vec::new());
        self.cluster.handle(Millis(self.now), input, &mut effects);
        let _ = self.cluster.next_deadline();
        let records = self.cluster.take_step().records;
        let kilobytes = |record: &Record| record.value.as_ref().map_or(0, |value| value.len() as u64 >> 10);
        let recorded: u64 = records.iter().map(|record| 1 + kilobytes(record)).sum();
        let steps = STEPS.get() - begun + self.cluster.allocations.scheduler().steps() - before + recorded;
        self.seen.insert(kind);
        (effects, steps)
    }

    /// Passes an input that concerns few nodes, and checks the number of steps.
    fn few(&mut self, input: Input) -> Vec<Effect> {
        let text = format!("{input:?}");
        let max = match input {
            Input::Tick | Input::MeasureSoon => STEPS_MAX + CHECKS_MAX,
            _ => STEPS_MAX,
        };
        let (effects, steps) = self.give(input);
        self.worst = self.worst.max(steps);
        assert!(steps <= max, "{steps} steps among {} nodes: {text}", self.nodes);
        effects
    }

    fn open(&mut self, client: u64, request: SessionRequest) -> (SessionId, u64) {
        let input = Input::Open { client: ClientId(client), request, key: key(client), user: "eva".into() };
        let (effects, steps) = self.give(input);
        let granted = effects.iter().find_map(|effect| match effect {
            Effect::ToClient(_, ClientPush::Granted(id)) => Some(*id),
            _ => None,
        });
        (granted.unwrap_or_else(|| panic!("{effects:?}")), steps)
    }

    /// Opens a session that concerns few nodes.
    fn open_few(&mut self, client: u64, request: SessionRequest) -> SessionId {
        let (id, steps) = self.open(client, request);
        self.worst = self.worst.max(steps);
        assert!(steps <= STEPS_MAX, "{steps} steps among {} nodes for a session", self.nodes);
        id
    }

    fn beat(&mut self, node: u32) -> Vec<Effect> {
        let link = LinkId(node.into());
        let sessions = self.cluster.executing.get(&NodeId(node)).into_iter().flatten().copied().collect();
        self.few(Input::Heartbeat { link, sessions })
    }
}

/// Passes every kind of input once to a cluster of this many nodes. Returns the most steps of an input.
fn all_inputs(nodes: u32) -> u64 {
    let mut site = Site::new(nodes);
    let (last, client) = (u64::from(nodes) + 1, |at: u64| ClientId(1_000_000 + at));
    let link = |node: u32| LinkId(node.into());

    // Agents.
    let joiner = |name: &str| Joiner { node_name: name.into(), world: "next".into(), run: 1 };
    site.few(Input::Join { link: LinkId(2_000_000), joiner: joiner("a") });
    site.few(Input::Join { link: LinkId(2_000_001), joiner: joiner("b") });
    assert_eq!(site.few(Input::LinkLost { link: LinkId(2_000_000) }).len(), 1);
    site.few(Input::Register { link: LinkId(last), registration: registration("new", "") });
    site.few(Input::Register { link: LinkId(3_000_000), registration: registration("n20", "") });
    site.few(Input::NodeMeasured { link: link(7), figures: NodeFigures::default() });
    site.few(Input::Drain { node_name: "n9".into(), drain: true });
    site.few(Input::Drain { node_name: "n9".into(), drain: false });
    site.few(Input::Leaving { link: link(9) });

    // Programs and their jobs.
    let id = site.open_few(client(1).0, request("n5", Some("1")));
    let session = site.cluster.session(id).unwrap().clone();
    let (node, ordinals) = session.nodes.first_key_value().unwrap();
    let (agent, key_of_job) = (link(node.0), session.job.unwrap());
    let grant = SessionGrant { ordinals: ordinals.clone(), ..session.grant(Millis(site.now), *node) };
    site.few(Input::ExecutorStarted { link: agent, grant });
    site.few(Input::MayUse { client: client(1), device: at(node.0, ordinals[0]) });
    let token = JobToken { job: 0, key: key_of_job };
    site.open_few(client(2).0, SessionRequest { job: Some(token), ..request("n5", None) });
    site.few(Input::ClientGone { client: client(2) });
    let attach = request("n5", None);
    site.few(Input::Attach {
        client: client(3),
        session: id,
        request: attach,
        key: key(client(1).0),
        user: "eva".into(),
    });
    site.few(Input::ExecutorEnded { link: agent, session: id, why: "tired".into() });
    site.few(Input::Close { session: id });
    let script = SiteScript::Epilog;
    site.few(Input::ScriptFailed { link: agent, job: key(77), script, why: "of no job here".into() });
    site.few(Input::JobReleased { link: agent, job: key_of_job });
    site.few(Input::JobSuspended { link: agent, job: key_of_job, suspend: true, outcome: Ok(()) });
    let hold = |at: u64, devices: &str| Input::Hold {
        client: client(at),
        request: request("n6", Some(devices)),
        key: key(client(at).0),
        user: "tom".into(),
    };
    site.few(hold(4, "2"));
    site.few(Input::ClientLost { client: client(4) });
    site.few(hold(5, "1"));
    site.few(Input::ClientGone { client: client(5) });
    site.few(Input::Schedule(accord_scheduler::Input::Cancel { job: JobId(7), by: "root".into() }));
    site.few(Input::Groups { user: "eva".into(), groups: vec!["lab".into()] });
    for rank in 0..4 {
        let opener = client(10 + u64::from(rank));
        let rank = Some(Rank { rank, size: 4, local_rank: 0, local_size: 1, job: 9 });
        site.open_few(opener.0, SessionRequest { rank, ..request("n6", Some("4")) });
        site.few(Input::MayUse { client: opener, device: at(6, 0) });
    }

    // Paths.
    site.few(Input::MeasureSoon);
    let order = site.orders.swap_remove(0);
    let path = Ok(MeasuredPath { times: PathTimes::new(1, 1, 1), transport: "tcp".into() });
    site.few(Input::PathMeasured { link: order.from, measurement: order.measurement, path });

    // Nodes that reconnect, leave and are lost.
    for _ in 0..8 {
        site.now += 250;
        site.few(Input::Tick);
    }
    site.few(Input::Goodbye { link: link(8) });
    site.few(Input::LinkLost { link: link(30) });
    // Requests do not wait for the lost agent, because the others are connected.
    site.open_few(client(20).0, request("n7", Some("1")));
    site.few(Input::Register { link: LinkId(3_000_001), registration: registration("n30", "") });
    site.few(Input::LinkLost { link: link(2) });
    for step in 0..60 {
        site.now += 250;
        for node in (0..nodes).filter(|node| step % 16 == 0 && *node != 40) {
            let sessions = site.cluster.executing.get(&NodeId(node)).into_iter().flatten().copied().collect();
            let link = site.cluster.nodes.get(&NodeId(node)).and_then(super::super::node::Node::link);
            let Some(link) = link else { continue };
            site.few(Input::Heartbeat { link, sessions });
        }
        site.few(Input::Tick);
    }
    let is_up = |node| site.cluster.nodes.get(&NodeId(node)).unwrap().is_up();
    assert_eq!([2, 8, 40, 41].map(is_up), [false, false, false, true]);

    // Programs without a request share one lease of all devices.
    let idle = site.open_few(client(29).0, request("n5", None));
    assert!(site.cluster.lease(idle).unwrap().devices.len() > site.nodes as usize / 2);
    site.few(Input::ClientGone { client: client(29) });
    // An agent learns of such a session when its program begins to use the node.
    let all = site.open_few(client(30).0, request("n5", None));
    for node in 0..nodes {
        let reported = site.few(Input::MayUse { client: client(30), device: at(node, 1) });
        let orders = reported.iter().filter(|effect| matches!(effect, Effect::ToAgent(..))).count();
        assert!(orders <= 1, "{reported:?}");
    }
    // The session does not make other inputs more expensive.
    site.few(Input::MayUse { client: client(30), device: at(5, 0) });
    site.open_few(client(31).0, request("n7", Some("1")));
    site.few(Input::ClientGone { client: client(31) });
    let attach = Input::Attach {
        client: client(32),
        session: SessionId(1 << 60),
        request: request("n5", None),
        key: key(32),
        user: "eva".into(),
    };
    site.few(attach);
    site.few(Input::InUse { client: client(32), devices: vec![at(5, 0), at(9, 1)] });
    site.few(Input::ClientGone { client: client(32) });
    // All agents report its use of their devices repeatedly.
    for busy_ms in [100, 200] {
        let used = DeviceUse { busy_ms: Some(busy_ms), ..DeviceUse::default() };
        let own = at(5, 0);
        site.few(Input::ProgramUsed { client: client(30), uses: vec![(own, used)] });
        for node in 0..nodes {
            site.few(Input::AgentUsed { link: link(node), uses: vec![(all, 0, used), (all, 1, used)] });
        }
    }
    assert!(site.cluster.device_uses(all).count() > site.nodes as usize / 2);
    site.few(Input::UseEnded { link: link(5), sessions: vec![all] });
    site.few(Input::AgentLoads { link: link(5), loads: vec![(0, DeviceLoad::default()), (1, DeviceLoad::default())] });
    site.few(Input::DeviceTested { link: link(5), ordinal: 1, number: 1, verdict: DeviceVerdict::Works });
    site.few(Input::Register { link: LinkId(3_000_002), registration: registration("n50", "") });

    assert_eq!(site.seen.len(), KINDS, "{:?}", site.seen);
    site.cluster.check_invariants().unwrap();
    site.worst
}

#[test]
fn no_input_costs_more_in_a_larger_cluster() {
    let (small, large) = (all_inputs(SMALL), all_inputs(LARGE));
    assert!(small > 0 && large > 0, "{small} and {large}");
    println!("at most {small} steps among {SMALL} nodes, {large} among {LARGE}");
}

#[test]
fn a_program_without_a_request_is_refused_in_few_steps_where_all_devices_are_taken() {
    let mut site = Site::new(SMALL);
    let target = |node, ordinal| accord_scheduler::DrainTarget::Device(at(node, ordinal));
    for (node, ordinal) in (0..SMALL).flat_map(|node| (0..DEVICES).map(move |ordinal| (node, ordinal))) {
        let (by_time, target) = (accord_scheduler::Millis(0), target(node, ordinal));
        let (reason, by) = ("fan".to_owned(), "root".to_owned());
        site.give(Input::Schedule(accord_scheduler::Input::Drain { target, by_time, end: false, reason, by }));
    }
    let ask = |client: u64| {
        let (request, user) = (request("n5", None), "tom".to_owned());
        Input::Open { client: ClientId(client), request, key: key(client), user }
    };
    let is_refused = |effect: &Effect| matches!(effect, Effect::ToClient(_, ClientPush::Refused(_)));
    site.give(ask(5_000_000));
    let (effects, steps) = site.give(ask(5_000_001));
    assert!(effects.iter().any(is_refused), "{effects:?}");
    assert!(steps < u64::from(SMALL), "{steps} steps");
    let target = target(7, 1);
    site.give(Input::Schedule(accord_scheduler::Input::Undrain { target, by: "root".to_owned() }));
    site.open(5_000_002, request("n5", None));
}

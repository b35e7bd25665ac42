//! Single decisions of the core: inputs go in, effects come out, with a simulated clock.

use crate::bench::{ALICE, Bench, KEY, device, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, NodeState, Refusal, Registration,
    SessionEnd, Viewer,
};
use accord_fabric::frame::session::{DEVICES_MAX, Message, REPLY_MAX};
use accord_types::incarnation::incarnation;
use accord_types::{
    DeviceId, DeviceKind, ErrorCode, Lease, NodeId, OrderPolicy, Rank, SessionGrant, SessionId, SessionKey,
    SessionRequest,
};

const LOST_AFTER: u64 = 10_000;

impl Bench {
    fn register(&mut self, link: u64, name: &str) -> Vec<Effect> {
        self.give(Input::Register { link: LinkId(link), registration: registration(name) })
    }

    fn open_on(&mut self, client: u64, node_name: &str) -> SessionId {
        let effects = self.give(Input::Open {
            client: ClientId(client),
            request: request(node_name),
            key: KEY,
            user: ALICE.into(),
        });
        let session = granted(&effects).unwrap_or_else(|| panic!("{effects:?}"));
        self.use_nodes(client);
        session
    }

    /// Has a program begin to use a device of each node.
    fn use_nodes(&mut self, client: u64) -> Vec<Effect> {
        let nodes = self.cluster.nodes().filter(|node| node.link().is_some());
        let devices: Vec<DeviceId> = nodes.filter_map(|node| Some(node.devices.first()?.id)).collect();
        devices.into_iter().flat_map(|device| self.use_device(client, device)).collect()
    }

    fn use_device(&mut self, client: u64, device: DeviceId) -> Vec<Effect> {
        self.give(Input::MayUse { client: ClientId(client), device })
    }

    fn beat(&mut self, link: u64, sessions: &[SessionId]) -> Vec<Effect> {
        self.give(Input::Heartbeat { link: LinkId(link), sessions: sessions.to_vec() })
    }

    /// Lets time pass with ticks. Returns their effects without measurements of paths, which are never answered.
    fn tick_until(&mut self, until: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.now < until {
            self.now = until.min(self.now + 250);
            effects.extend(self.give(Input::Tick));
        }
        effects.retain(|effect| !matches!(effect, Effect::MeasurePath(_)));
        effects
    }

    fn state(&self, name: &str) -> NodeState {
        self.cluster.node_named(name).unwrap().state
    }
}

/// Returns a grant that includes a device which the agent does not have.
fn grant(session: SessionId) -> SessionGrant {
    SessionGrant { ordinals: vec![0, 1, 77], ..crate::bench::grant(session, KEY, ALICE) }
}

fn granted(effects: &[Effect]) -> Option<SessionId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(_, ClientPush::Granted(id)) => Some(*id),
        _ => None,
    })
}

fn orders(effects: &[Effect], link: u64) -> Vec<&AgentOrder> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToAgent(to, order) if *to == LinkId(link) => Some(order),
            _ => None,
        })
        .collect()
}

#[test]
fn programs_hear_which_node_of_an_mpi_job_died_first() {
    let reported = |world: &str| {
        let mut bench = Bench::new();
        for (link, name) in [(1, "h1"), (2, "h2"), (3, "h3")] {
            let registration = Registration { world: world.into(), ..registration(name) };
            bench.give(Input::Register { link: LinkId(link), registration });
        }
        bench.open_on(7, "h1");
        bench.give(Input::LinkLost { link: LinkId(2) })
    };
    let news = Effect::ToClient(ClientId(7), ClientPush::NodeLost(NodeId(1), "h2".into()));
    assert!(reported("run-1").contains(&news), "{:?}", reported("run-1"));
    // The job's other agents end as well, unless the lost one reconnects at once.
    for comes_back in [false, true] {
        let mut bench = Bench::new();
        let ranks = |name: &str| Registration { world: "run-1".into(), ..registration(name) };
        for (link, name) in [(1, "h1"), (2, "h2")] {
            bench.give(Input::Register { link: LinkId(link), registration: ranks(name) });
        }
        bench.give(Input::LinkLost { link: LinkId(2) });
        if comes_back {
            bench.give(Input::Register { link: LinkId(3), registration: ranks("h2") });
        }
        let order = Effect::ToAgent(LinkId(1), AgentOrder::NodeLost(NodeId(1), "h2".into()));
        bench.now += 500;
        assert!(!bench.give(Input::Tick).contains(&order));
        // A tick that is sent in any case needs no deadline.
        let due = bench.cluster.next_deadline().map(|due| due.since(Millis(bench.now)));
        assert_eq!(due == Some(300), !comes_back, "{due:?}");
        bench.now += 300;
        assert_eq!(bench.give(Input::Tick).contains(&order), !comes_back);
    }
    // An agent that is no rank may reconnect at once.
    assert!(!reported("").contains(&news), "{:?}", reported(""));
}

#[test]
fn nodes_are_numbered_in_order_and_devices_get_their_ids() {
    let mut bench = Bench::new();
    assert_eq!(orders(&bench.register(1, "b"), 1), [&AgentOrder::Registered(NodeId(0))]);
    assert_eq!(orders(&bench.register(2, "a"), 2), [&AgentOrder::Registered(NodeId(1))]);
    let node = bench.cluster.node_named("a").unwrap();
    assert_eq!(node.devices[1].id, DeviceId { node: NodeId(1), ordinal: 1 });
    assert_eq!(node.devices[1].node_name, "a");
}

#[test]
fn a_session_gets_all_devices_and_agents_hear_of_it_when_it_uses_their_nodes() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    let effects = bench.give(Input::Open { client: ClientId(1), request: request("h2"), key: KEY, user: ALICE.into() });
    let id = granted(&effects).unwrap();
    let lease = bench.cluster.lease(id).unwrap();
    assert_eq!(lease.own_node, Some(NodeId(1)));
    let numbers: Vec<_> = lease.devices.iter().map(|d| (d.info.id.node.0, d.info.id.ordinal)).collect();
    assert_eq!(numbers, [(1, 0), (1, 1), (0, 0), (0, 1)]);
    assert_eq!(lease.devices[2].address, "h1:1");
    assert!(orders(&effects, 1).is_empty() && orders(&effects, 2).is_empty(), "{effects:?}");
    for (link, other, device) in [(1, 2, lease.devices[2].info.id), (2, 1, lease.devices[0].info.id)] {
        let effects = bench.use_device(1, device);
        let [AgentOrder::SessionOpened(grant)] = orders(&effects, link)[..] else { panic!("{effects:?}") };
        assert_eq!((grant.session, &grant.ordinals[..]), (id, &[0, 1][..]));
        assert_eq!(orders(&effects, other), [] as [&AgentOrder; 0]);
        // The agent is informed before the program.
        assert_eq!(effects.last(), Some(&Effect::ToClient(ClientId(1), ClientPush::UseAnswered(device, None))));
        assert!(orders(&bench.use_device(1, device), link).is_empty(), "it is told once");
    }
}

#[test]
fn an_answer_lists_no_more_devices_than_programs_read() {
    let mut cluster = Cluster::new(Limits::default(), 1_000);
    let mut effects = Vec::new();
    for node in 0..193 {
        let devices = (0..256).map(device).collect();
        let registration = Registration { devices, ..registration(&format!("h{node}")) };
        cluster.handle(Millis(0), Input::Register { link: LinkId(node), registration }, &mut effects);
    }
    let open = Input::Open { client: ClientId(1), request: request("h190"), key: KEY, user: ALICE.into() };
    cluster.handle(Millis(0), open, &mut effects);
    let draft = cluster.lease_draft(granted(&effects).unwrap()).unwrap();
    let (warning, lease) = (draft.warning().unwrap(), draft.lease());
    assert_eq!(lease.devices.len(), DEVICES_MAX);
    let nodes: Vec<u32> = lease.devices.chunks(256).map(|devices| devices[0].info.id.node.0).collect();
    assert!(nodes.iter().copied().eq((190..193).chain(0..189)), "{nodes:?}");
    assert!(Message::Granted(lease).encode().len() < REPLY_MAX);
    assert!(warning.contains("49408 devices") && warning.contains("49152 at most"), "{warning}");
}

#[test]
fn an_agent_that_was_away_learns_which_of_its_sessions_have_ended() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let (ended, closed, open) = (bench.open_on(1, "h1"), bench.open_on(2, "h1"), bench.open_on(3, "h1"));
    bench.give(Input::LinkLost { link: LinkId(1) });
    // None of the sessions has an executor.
    bench.give(Input::ClientGone { client: ClientId(1) });
    bench.give(Input::Close { session: closed });
    let earlier = SessionId(1 << 40);
    let back = Registration { granted: vec![ended, closed, open, earlier], ..registration("h1") };
    let effects = bench.give(Input::Register { link: LinkId(2), registration: back });
    let [AgentOrder::Registered(_), first, second, AgentOrder::SessionOpened(grant)] = orders(&effects, 2)[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(first, &AgentOrder::SessionClosed(ended, None));
    assert_eq!(second, &AgentOrder::SessionClosed(closed, Some(SessionEnd::Administrator)));
    assert_eq!(grant.session, open);
}

#[test]
fn a_program_may_not_begin_on_a_node_that_is_lost_or_has_no_such_device() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    bench.give(Input::Open { client: ClientId(1), request: request("h1"), key: KEY, user: ALICE.into() });
    let refused = |bench: &mut Bench, node, ordinal| {
        let effects = bench.use_device(1, DeviceId { node: NodeId(node), ordinal });
        let [Effect::ToClient(ClientId(1), ClientPush::UseAnswered(_, Some(error)))] = &effects[..] else {
            panic!("{effects:?}");
        };
        error.to_string()
    };
    assert!(refused(&mut bench, 1, 7).contains("node h2 has no device 7"));
    bench.give(Input::Goodbye { link: LinkId(2) });
    assert!(refused(&mut bench, 1, 0).contains("the agent of node h2 was lost or stopped"));
    // A program drives devices of its own node without the agent.
    bench.give(Input::Goodbye { link: LinkId(1) });
    let effects = bench.use_device(1, DeviceId { node: NodeId(0), ordinal: 0 });
    assert!(matches!(&effects[..], [Effect::ToClient(_, ClientPush::UseAnswered(_, None))]), "{effects:?}");
}

#[test]
fn the_end_of_the_programs_connection_ends_its_executors() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let id = bench.open_on(1, "h1");
    bench.give(Input::ExecutorStarted { link: LinkId(1), grant: grant(id) });
    let effects = bench.give(Input::ClientGone { client: ClientId(1) });
    assert_eq!(orders(&effects, 1), [&AgentOrder::SessionClosed(id, None)]);
    assert_eq!(bench.cluster.session_count(), 0);
    // If the message was lost, or the executor was starting, the order is repeated.
    assert_eq!(orders(&bench.beat(1, &[id]), 1), [&AgentOrder::SessionClosed(id, None)]);
}

#[test]
fn silent_node_is_lost_and_only_its_users_are_notified() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let before = bench.open_on(1, "h1");
    bench.register(2, "h2");
    let after = bench.open_on(2, "h1");
    bench.give(Input::ExecutorStarted { link: LinkId(1), grant: grant(after) });

    assert!(bench.tick_until(LOST_AFTER / 2).is_empty());
    bench.beat(1, &[after]);
    assert!(bench.tick_until(LOST_AFTER - 1).is_empty());
    assert_eq!(bench.cluster.next_deadline(), Some(Millis(LOST_AFTER)));
    let effects = bench.tick_until(LOST_AFTER);
    assert_eq!(bench.state("h2"), NodeState::Lost);
    let reported: Vec<_> = effects.iter().filter(|e| matches!(e, Effect::ToClient(..))).collect();
    assert_eq!(reported, [&Effect::ToClient(ClientId(2), ClientPush::NodeLost(NodeId(1), "h2".into()))]);
    assert!(effects.contains(&Effect::DropLink(LinkId(2))));
    assert_eq!(orders(&effects, 1), [&AgentOrder::NodeLost(NodeId(1), "h2".into())]);
    assert!(bench.cluster.session(before).is_some() && bench.cluster.session(after).is_some());
    // New sessions avoid the node.
    let third = bench.open_on(3, "h1");
    assert_eq!(bench.cluster.lease(third).unwrap().devices.len(), 2);
}

#[test]
fn a_silent_agent_that_comes_back_keeps_its_sessions() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let (id, ended) = (bench.open_on(1, "elsewhere"), bench.open_on(2, "elsewhere"));
    for session in [id, ended] {
        bench.give(Input::ExecutorStarted { link: LinkId(1), grant: grant(session) });
    }
    bench.tick_until(LOST_AFTER);
    assert_eq!(bench.state("h1"), NodeState::Lost);
    bench.give(Input::ClientGone { client: ClientId(2) });
    let effects = bench.give(Input::Register {
        link: LinkId(2),
        registration: Registration { sessions: vec![grant(id), grant(ended)], ..registration("h1") },
    });
    let [AgentOrder::Registered(NodeId(0)), AgentOrder::SessionClosed(closed, _), AgentOrder::SessionOpened(kept)] =
        orders(&effects, 2)[..]
    else {
        panic!("{effects:?}");
    };
    assert_eq!((*closed, kept.session), (ended, id));
    assert!(bench.cluster.session(id).unwrap().executors.contains(&NodeId(0)));
}

#[test]
fn a_session_of_an_earlier_coordinator_outlives_its_nodes_silence() {
    let mut bench = Bench::of(Cluster::new(Limits::default(), 77_000));
    let id = SessionId(5);
    let listed = Registration { sessions: vec![grant(id)], ..registration("h1") };
    bench.give(Input::Register { link: LinkId(1), registration: listed.clone() });
    bench.tick_until(LOST_AFTER);
    assert_eq!(bench.state("h1"), NodeState::Lost);
    assert!(bench.cluster.session(id).is_none());
    let effects = bench.give(Input::Register { link: LinkId(2), registration: listed });
    assert!(!orders(&effects, 2).contains(&&AgentOrder::SessionClosed(id, None)), "{effects:?}");
    assert!(bench.cluster.session(id).unwrap().executors.contains(&NodeId(0)));
}

#[test]
fn the_coordinators_own_sleep_does_not_count_as_silence() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.tick_until(1_000);
    bench.now += 600_000;
    assert!(bench.give(Input::Tick).is_empty());
    assert_eq!(bench.state("h1"), NodeState::Up { link: Some(LinkId(1)) });
    let asleep = bench.now;
    bench.tick_until(asleep + LOST_AFTER);
    assert_eq!(bench.state("h1"), NodeState::Lost, "it is silent all the same");
}

#[test]
fn when_most_are_silent_the_coordinator_doubts_itself_first() {
    let mut bench = Bench::new();
    for link in 1..=5 {
        bench.register(link, &format!("h{link}"));
    }
    bench.tick_until(LOST_AFTER / 2);
    bench.beat(1, &[]);
    bench.beat(2, &[]);
    assert!(bench.tick_until(LOST_AFTER + 1_000).is_empty(), "three of five");
    bench.beat(3, &[]);
    bench.tick_until(LOST_AFTER + 1_250);
    let up = |bench: &Bench| bench.cluster.nodes().filter(|node| node.is_up()).count();
    assert_eq!(up(&bench), 3, "two of five are silent by themselves");
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    bench.tick_until(6 * LOST_AFTER - 250);
    assert_eq!(up(&bench), 2);
    bench.tick_until(6 * LOST_AFTER);
    assert_eq!(up(&bench), 0, "not for ever");
}

#[test]
fn a_node_without_a_connection_is_in_no_new_lease_until_it_is_back() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    bench.give(Input::LinkLost { link: LinkId(2) });
    let devices = |bench: &mut Bench, client| {
        let id = bench.open_on(client, "h1");
        bench.cluster.lease(id).unwrap().devices.len()
    };
    assert_eq!(devices(&mut bench, 1), 2);
    let newer = Registration { incarnation: 11, ..registration("h2") };
    bench.give(Input::Register { link: LinkId(3), registration: newer });
    assert_eq!(devices(&mut bench, 2), 4, "at once");
}

#[test]
fn a_clock_that_was_set_back_locks_no_agent_out() {
    let mut bench = Bench::new();
    let of_boot = |boot: &str, at| Registration { incarnation: incarnation(boot, at), ..registration("h1") };
    bench.give(Input::Register { link: LinkId(1), registration: of_boot("first", 1_000_000) });
    // Two machines must not displace each other for ever.
    let taken = bench.give(Input::Register { link: LinkId(2), registration: of_boot("second", 1) });
    assert_eq!(taken, [Effect::RefuseAgent(LinkId(2), Refusal::Taken { node_name: "h1".into() })]);
    bench.give(Input::LinkLost { link: LinkId(1) });
    let effects = bench.give(Input::Register { link: LinkId(3), registration: of_boot("second", 1) });
    assert_eq!(orders(&effects, 3), [&AgentOrder::Registered(NodeId(0))]);
}

#[test]
fn a_broken_connection_is_not_a_lost_node() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let id = bench.open_on(1, "h1");
    bench.give(Input::ExecutorStarted { link: LinkId(1), grant: grant(id) });
    bench.give(Input::LinkLost { link: LinkId(1) });
    assert_eq!(bench.state("h1"), NodeState::Up { link: None });
    bench.now = 1_000;
    let effects = bench.give(Input::Register {
        link: LinkId(2),
        registration: Registration { sessions: vec![grant(id)], ..registration("h1") },
    });
    let [AgentOrder::Registered(NodeId(0)), AgentOrder::SessionOpened(again)] = orders(&effects, 2)[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(again.session, id);
    assert!(bench.cluster.session(id).unwrap().lost.is_empty());
}

#[test]
fn a_stale_agent_is_refused_and_a_newer_one_takes_over() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let id = bench.open_on(1, "elsewhere");
    let newer = Registration { incarnation: 11, ..registration("h1") };
    let effects = bench.give(Input::Register { link: LinkId(2), registration: newer });
    assert!(effects.contains(&Effect::DropLink(LinkId(1))));
    assert!(effects.contains(&Effect::ToClient(ClientId(1), ClientPush::NodeLost(NodeId(0), "h1".into()))));
    assert!(bench.cluster.session(id).unwrap().lost.contains(&NodeId(0)));
    let stale = bench.register(3, "h1");
    assert_eq!(stale, [Effect::RefuseAgent(LinkId(3), Refusal::Stale { node_name: "h1".into() })]);
    assert_eq!(
        bench.beat(1, &[]),
        [Effect::RefuseAgent(LinkId(1), Refusal::NotRegistered)],
        "the replaced connection has nothing to say"
    );
}

#[test]
fn a_new_coordinator_takes_running_sessions_and_numbers_over() {
    let mut old = Bench::new();
    old.register(1, "h1");
    old.register(2, "h2");
    let id = old.open_on(1, "h1");

    let mut new = Bench::of(Cluster::new(Limits::default(), 77_000));
    // The second node reconnects first, and keeps its number.
    let back =
        |name: &str, node: u32, sessions| Registration { previous: Some(NodeId(node)), sessions, ..registration(name) };
    let effects = new.give(Input::Register { link: LinkId(1), registration: back("h2", 1, vec![grant(id)]) });
    assert_eq!(orders(&effects, 1)[0], &AgentOrder::Registered(NodeId(1)));
    new.give(Input::Register { link: LinkId(2), registration: back("h1", 0, vec![]) });
    let session = new.cluster.session(id).unwrap();
    assert!(session.client.is_none());
    assert_eq!(session.lease.devices.len(), 2, "ordinal 77 does not exist");

    // A new session gets a new number. The old session, whose program does not reconnect, ends with its last executor.
    assert_ne!(new.open_on(1, "h1"), id);
    new.now = 70_000;
    new.give(Input::ExecutorEnded { link: LinkId(1), session: id, why: String::new() });
    assert!(new.cluster.session(id).is_none());
    assert_eq!(orders(&new.beat(1, &[id]), 1), [&AgentOrder::SessionClosed(id, None)]);
}

#[test]
fn a_number_that_is_taken_or_senseless_is_not_given_again() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let wish = |name: &str, node| Registration { previous: Some(NodeId(node)), ..registration(name) };
    bench.give(Input::Register { link: LinkId(2), registration: wish("h2", 0) });
    bench.give(Input::Register { link: LinkId(3), registration: wish("h3", u32::MAX) });
    let numbers: Vec<u32> = bench.cluster.nodes().map(|node| node.id.0).collect();
    assert_eq!(numbers, [0, 1, 2]);
}

#[test]
fn goodbye_is_not_lost_and_draining_nodes_take_no_new_sessions() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    let effects = bench.give(Input::Drain { node_name: "h1".into(), drain: true });
    assert_eq!(orders(&effects, 1), [&AgentOrder::Drain(true)]);
    let id = bench.open_on(1, "h1");
    assert!(bench.cluster.lease(id).unwrap().devices.iter().all(|d| d.info.node_name == "h2"));
    bench.give(Input::Goodbye { link: LinkId(2) });
    assert_eq!(bench.state("h2"), NodeState::Gone);
    let effects = bench.give(Input::Open { client: ClientId(2), request: request("h1"), key: KEY, user: ALICE.into() });
    let [Effect::ToClient(_, ClientPush::Refused(error))] = &effects[..] else { panic!("{effects:?}") };
    assert!(error.cause().contains("1 node (1 draining)"), "{error}");
    assert!(error.remedy_text().is_some());
}

#[test]
fn a_drain_outlives_its_coordinator_and_who_knows_the_node_knows_better() {
    let mut bench = Bench::new();
    let says = |link, draining| Input::Register {
        link: LinkId(link),
        registration: Registration { draining, ..registration("h1") },
    };
    // This coordinator has started after the drain.
    let effects = bench.give(says(1, true));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::Drain(_)))), "{effects:?}");
    bench.register(2, "h2");
    let id = bench.open_on(1, "h1");
    assert!(bench.cluster.lease(id).unwrap().devices.iter().all(|d| d.info.node_name == "h2"));
    // The drain ends while the agent is disconnected, and the agent reconnects with its last state.
    bench.give(Input::LinkLost { link: LinkId(1) });
    bench.give(Input::Drain { node_name: "h1".into(), drain: false });
    let effects = bench.give(says(3, true));
    assert!(orders(&effects, 3).contains(&&AgentOrder::Drain(false)), "{effects:?}");
    let id = bench.open_on(2, "h1");
    assert!(bench.cluster.lease(id).unwrap().devices.iter().any(|d| d.info.node_name == "h1"));
}

#[test]
fn an_empty_cluster_and_a_missing_kind_are_explained() {
    let mut bench = Bench::new();
    // No agent is expected to reconnect any more.
    bench.now = 5_000;
    let refusal = |bench: &mut Bench, client, kind| {
        let request = SessionRequest { kind, ..request("h1") };
        let effects = bench.give(Input::Open { client: ClientId(client), request, key: KEY, user: ALICE.into() });
        let [Effect::ToClient(_, ClientPush::Refused(error))] = &effects[..] else { panic!("{effects:?}") };
        error.clone()
    };
    let error = refusal(&mut bench, 1, None);
    assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
    bench.register(1, "h1");
    let error = refusal(&mut bench, 2, Some(DeviceKind::CUDA));
    assert_eq!(error.code(), ErrorCode::DeviceTypeUnavailable);
    assert!(error.cause().contains("offers a GPU"), "{error}");
}

#[test]
fn a_node_without_devices_is_a_member_but_offers_nothing() {
    let mut bench = Bench::new();
    let empty = Registration { devices: Vec::new(), ..registration("h1") };
    bench.give(Input::Register { link: LinkId(1), registration: empty });
    bench.register(2, "h2");
    let id = bench.open_on(1, "h1");
    let lease = bench.cluster.lease(id).unwrap();
    assert_eq!((lease.own_node, lease.devices.len()), (Some(NodeId(0)), 2));
}

#[test]
fn ordinals_are_the_agents_own_and_may_have_gaps() {
    let mut bench = Bench::new();
    let gap = Registration { devices: [0, 2].map(device).to_vec(), ..registration("h1") };
    bench.give(Input::Register { link: LinkId(1), registration: gap });
    let id = bench.open_on(1, "h1");
    let ordinals = |lease: Lease| lease.devices.iter().map(|device| device.info.id.ordinal).collect::<Vec<_>>();
    assert_eq!(ordinals(bench.cluster.lease(id).unwrap()), [0, 2]);
    assert_eq!(bench.cluster.session(id).unwrap().nodes[&NodeId(0)], [0, 2]);
}

const FIRST: DeviceId = DeviceId { node: NodeId(0), ordinal: 0 };

/// Returns the warnings among these effects.
fn warned(mut effects: Vec<Effect>) -> Vec<Effect> {
    effects.retain(|effect| matches!(effect, Effect::ToClient(_, ClientPush::Warning(_))));
    effects
}

#[test]
fn ranks_that_crowd_on_one_device_are_warned_once() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let mut warnings = Vec::new();
    for rank in 0..3_u32 {
        let client = ClientId(u64::from(rank) + 1);
        let rank = Some(Rank { rank, size: 3, local_rank: rank, local_size: 3, job: 0 });
        bench.give(Input::Open {
            client,
            request: SessionRequest { rank, ..request("h1") },
            key: KEY,
            user: ALICE.into(),
        });
        warnings.extend(warned(bench.give(Input::MayUse { client, device: FIRST })));
    }
    // Three ranks use two devices, so two may share one.
    let [Effect::ToClient(ClientId(3), ClientPush::Warning(text))] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(text.contains("3 ranks of node h1 use device 0 of node h1 while 1 device is idle"), "{text}");
}

#[test]
fn ranks_of_several_nodes_that_crowd_on_one_device_are_warned() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    bench.register(2, "h2");
    let use_first = |bench: &mut Bench, rank: u32, program: &str, size: u32| {
        let client = ClientId(u64::from(rank) + 1);
        let node = if rank == 0 { "h1" } else { "h2" };
        let rank = Some(Rank { rank, size, local_rank: 0, local_size: 1, job: 0 });
        let request = SessionRequest { rank, program: program.into(), order: OrderPolicy::Global, ..request(node) };
        bench.give(Input::Open { client, request, key: KEY, user: ALICE.into() });
        warned(bench.give(Input::MayUse { client, device: FIRST }))
    };
    assert_eq!(use_first(&mut bench, 0, "one", 2), []);
    assert_eq!(use_first(&mut bench, 7, "other", 8), [], "another job");
    let effects = use_first(&mut bench, 1, "one", 2);
    let [Effect::ToClient(ClientId(2), ClientPush::Warning(text))] = &effects[..] else { panic!("{effects:?}") };
    assert!(text.contains("2 ranks of nodes h1, h2 use device 0 of node h1"), "{text}");
    // With twice as many ranks as devices, two share one.
    for rank in 10..12 {
        assert_eq!(use_first(&mut bench, rank, "many", 16), []);
    }
}

#[test]
fn ranks_on_devices_of_their_own_are_not_warned() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    for rank in 0..2_u32 {
        let client = ClientId(u64::from(rank) + 1);
        let place = Some(Rank { rank, size: 2, local_rank: rank, local_size: 2, job: 0 });
        bench.give(Input::Open {
            client,
            request: SessionRequest { rank: place, ..request("h1") },
            key: KEY,
            user: ALICE.into(),
        });
        let device = DeviceId { ordinal: rank, ..FIRST };
        assert_eq!(warned(bench.give(Input::MayUse { client, device })), []);
    }
}

#[test]
fn an_administrator_may_end_a_session() {
    let mut bench = Bench::new();
    bench.register(1, "h1");
    let id = bench.open_on(1, "h1");
    let effects = bench.give(Input::Close { session: id });
    assert!(matches!(&effects[0], Effect::ToClient(ClientId(1), ClientPush::Ended(_))), "{effects:?}");
    assert!(effects.contains(&Effect::CloseClient(ClientId(1))));
    // The executor's program may be cut off from the coordinator. An agent that reconnects gets the same order.
    let closed = AgentOrder::SessionClosed(id, Some(SessionEnd::Administrator));
    assert_eq!(orders(&effects, 1), [&closed]);
    let back = Registration { sessions: vec![grant(id)], ..registration("h1") };
    let effects = bench.give(Input::Register { link: LinkId(2), registration: back });
    assert!(orders(&effects, 2).contains(&&closed), "{effects:?}");
    assert_eq!(bench.give(Input::ClientGone { client: ClientId(1) }), []);
}

#[test]
fn bounds_hold_and_old_nodes_make_room() {
    let limits = Limits { nodes_max: 2, sessions_max: 1, devices_per_node_max: 2, ..Limits::default() };
    let mut bench = Bench::of(Cluster::new(limits, 0));
    let refused = |effects: &[Effect]| matches!(effects, [Effect::RefuseAgent(_, Refusal::Full { .. })]);
    let big = Registration { devices: [0, 1, 2].map(device).to_vec(), ..registration("big") };
    assert!(refused(&bench.give(Input::Register { link: LinkId(9), registration: big })));
    bench.register(1, "h1");
    bench.register(2, "h2");
    assert!(refused(&bench.register(3, "h3")));
    bench.give(Input::Goodbye { link: LinkId(1) });
    assert!(!refused(&bench.register(4, "h3")));
    bench.open_on(1, "h2");
    let effects = bench.give(Input::Open { client: ClientId(2), request: request("h2"), key: KEY, user: ALICE.into() });
    assert!(matches!(&effects[..], [Effect::ToClient(_, ClientPush::Refused(_))]), "{effects:?}");
}

/// The node's number goes to no other node, of whose devices the session would know nothing.
#[test]
fn a_node_with_devices_in_use_without_its_agent_makes_no_room() {
    let mut bench = Bench::of(Cluster::new(Limits { nodes_max: 1, ..Limits::default() }, 0));
    let refused = |effects: &[Effect]| matches!(effects, [Effect::RefuseAgent(_, Refusal::Full { .. })]);
    bench.register(1, "h1");
    bench.give(Input::Open { client: ClientId(1), request: request("h1"), key: KEY, user: ALICE.into() });
    bench.give(Input::Goodbye { link: LinkId(1) });
    bench.use_device(1, FIRST);
    assert!(refused(&bench.register(2, "h2")));
    bench.give(Input::ClientGone { client: ClientId(1) });
    assert!(!refused(&bench.register(3, "h2")));
}

#[test]
fn senseless_registrations_are_refused() {
    let mut bench = Bench::new();
    for registration in [
        registration(""),
        registration("with\nnewline"),
        registration(&"n".repeat(256)),
        Registration { address: String::new(), ..registration("h1") },
        Registration { devices: [1, 0].map(device).to_vec(), ..registration("h1") },
        Registration { devices: [2, 2].map(device).to_vec(), ..registration("h1") },
    ] {
        let effects = bench.give(Input::Register { link: LinkId(1), registration });
        assert!(matches!(effects[..], [Effect::RefuseAgent(_, Refusal::Malformed(_))]), "{effects:?}");
    }
    bench.register(1, "h1");
    assert!(matches!(bench.register(1, "h2")[..], [Effect::RefuseAgent(_, Refusal::Malformed(_))]));
}

#[test]
fn displayed_device_order_matches_the_sessions_order() {
    let mut bench = Bench::new();
    for (link, name) in [(1, "h1"), (2, "h2"), (3, "h3")] {
        bench.register(link, name);
    }
    for (client, order) in [(1, OrderPolicy::Local), (2, OrderPolicy::Global), (3, OrderPolicy::Rank)] {
        let rank = Some(Rank { rank: 1, size: 3, local_rank: 0, local_size: 1, job: 0 });
        let request = SessionRequest { order, rank, ..request("h3") };
        let displayed = bench.cluster.numbering(&Viewer { node_name: "h3", rank, kind: None, order });
        let effects = bench.give(Input::Open { client: ClientId(client), request, key: KEY, user: ALICE.into() });
        let lease = bench.cluster.lease(granted(&effects).unwrap()).unwrap();
        let got: Vec<DeviceId> = lease.devices.iter().map(|device| device.info.id).collect();
        assert_eq!(got, displayed);
    }
}

#[test]
fn a_session_whose_time_is_over_is_ended() {
    let limits = Limits { session_ms: 5_000, ..Limits::default() };
    let mut bench = Bench::of(Cluster::new(limits, 1_000));
    bench.register(1, "h1");
    let id = bench.open_on(7, "h1");
    bench.tick_until(2_000);
    bench.beat(1, &[]);
    // An agent that registers in between gets the time left, plus half a second, so that the program learns of the end
    // first.
    let effects = bench.give(Input::Register { link: LinkId(2), registration: registration("h1") });
    let [_, AgentOrder::SessionOpened(grant)] = orders(&effects, 2)[..] else { panic!("{effects:?}") };
    assert_eq!((grant.session, grant.key, grant.ends_in_ms), (id, KEY, Some(3_500)));
    bench.tick_until(4_000);
    bench.beat(2, &[]);
    assert_eq!(bench.cluster.next_deadline(), Some(Millis(5_000)));
    let effects = bench.tick_until(5_000);
    assert_eq!(orders(&effects, 2), [&AgentOrder::SessionClosed(id, Some(SessionEnd::TimeIsOver))]);
    let ended = |effect: &Effect| matches!(effect, Effect::ToClient(ClientId(7), ClientPush::Ended(why)) if why.contains("--session-time"));
    assert!(effects.iter().any(ended), "{effects:?}");
    assert!(bench.cluster.session(id).is_none() && bench.cluster.next_deadline() == Some(Millis(14_000)));
}

#[test]
fn an_agent_takes_no_session_over_whose_key_it_does_not_know() {
    let mut bench = Bench::new();
    let foreign = SessionId(1 << 40);
    // Two agents reconnect to a new coordinator; the second one falsely claims a session of the first.
    let honest = Registration { sessions: vec![grant(foreign)], ..registration("h1") };
    bench.give(Input::Register { link: LinkId(1), registration: honest });
    let false_claim = SessionGrant { key: SessionKey([8; SessionKey::LEN]), user: "mallory".into(), ..grant(foreign) };
    let attacker = Registration { sessions: vec![false_claim], ..registration("h2") };
    let effects = bench.give(Input::Register { link: LinkId(2), registration: attacker });
    assert_eq!(orders(&effects, 2)[1..], [&AgentOrder::SessionClosed(foreign, None)]);
    let session = bench.cluster.session(foreign).unwrap();
    assert_eq!((session.owner.key, &*session.owner.user, session.nodes.len()), (KEY, ALICE, 1));
}

//! Programs and agents reconnect to a coordinator that does not know them: decisions of the core.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, Origin, Records, Registration,
    Restart, SessionEnd,
};
use accord_types::{
    DeviceId, HeldDevice, JobGrant, JobToken, NodeId, SessionGrant, SessionId, SessionKey, SessionRequest,
};

const OTHER_KEY: SessionKey = SessionKey([8; SessionKey::LEN]);
/// A session of an earlier coordinator, whose epoch differs from that of [`Bench::new`].
const EARLIER: SessionId = SessionId(1 << 40);

impl Bench {
    fn register_with(&mut self, link: u64, name: &str, sessions: Vec<SessionGrant>) -> Vec<Effect> {
        self.give(Input::Register { link: LinkId(link), registration: Registration { sessions, ..registration(name) } })
    }

    fn attach(&mut self, client: u64, session: SessionId, key: SessionKey, user: &str) -> Vec<ClientPush> {
        let (client, user) = (ClientId(client), user.to_owned());
        let effects = self.give(Input::Attach { client, session, request: request("h1"), key, user });
        pushes(&effects, client)
    }
}

fn pushes(effects: &[Effect], client: ClientId) -> Vec<ClientPush> {
    let mine = |effect: &Effect| match effect {
        Effect::ToClient(to, push) if *to == client => Some(push.clone()),
        _ => None,
    };
    effects.iter().filter_map(mine).collect()
}

fn is_closed_on(effects: &[Effect], link: u64, session: SessionId) -> bool {
    let closes = |effect: &Effect| matches!(effect, Effect::ToAgent(to, AgentOrder::SessionClosed(id, _)) if *to == LinkId(link) && *id == session);
    effects.iter().any(closes)
}

#[test]
fn a_program_gets_its_session_back_in_either_order_of_returns() {
    for program_first in [true, false] {
        let mut bench = Bench::new();
        if program_first {
            assert_eq!(bench.attach(1, EARLIER, KEY, ALICE), [ClientPush::Attached]);
            assert_eq!(bench.cluster.session(EARLIER).unwrap().origin, Origin::Program);
        }
        let effects = bench.register_with(1, "h1", vec![grant(EARLIER, KEY, ALICE)]);
        assert!(!is_closed_on(&effects, 1, EARLIER), "{effects:?}");
        if !program_first {
            assert_eq!(bench.attach(1, EARLIER, KEY, ALICE), [ClientPush::Attached]);
        }
        let session = bench.cluster.session(EARLIER).unwrap();
        assert_eq!((session.origin, session.client), (Origin::Agent, Some(ClientId(1))));
        assert_eq!((session.executors.len(), session.lease.memory_quota, session.lease.stream_quota), (1, 5, 3));
        // The session behaves like one that was opened here. It continues without executors, and ends everywhere with
        // its program.
        bench.register_with(2, "h2", vec![]);
        bench.give(Input::ExecutorEnded { link: LinkId(1), session: EARLIER, why: String::new() });
        assert!(bench.cluster.session(EARLIER).is_some());
        let effects = bench.give(Input::ClientGone { client: ClientId(1) });
        assert!(is_closed_on(&effects, 1, EARLIER) && is_closed_on(&effects, 2, EARLIER), "{effects:?}");
        let again = bench.attach(2, EARLIER, KEY, ALICE);
        assert!(matches!(&again[..], [ClientPush::Ended(_)]), "{again:?}");
    }
}

#[test]
fn a_program_that_begins_on_a_node_before_its_agent_is_back_is_answered_then() {
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    for comes_back in [true, false] {
        let mut bench = Bench::new();
        bench.attach(1, EARLIER, KEY, ALICE);
        let asks = Input::MayUse { client: ClientId(1), device };
        assert_eq!(bench.give(asks), []);
        assert_eq!(bench.cluster.next_deadline(), Some(Millis(2_000)));
        let effects = if comes_back {
            bench.register_with(1, "h1", vec![])
        } else {
            // The node may be the program's own, whose devices it drives without the agent.
            bench.now = 2_000;
            bench.give(Input::Tick)
        };
        assert_eq!(pushes(&effects, ClientId(1)), [ClientPush::UseAnswered(device, None)]);
        let is_reported = |effect: &Effect| matches!(effect, Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) if grant.session == EARLIER);
        assert_eq!(effects.iter().any(is_reported), comes_back, "{effects:?}");
    }
}

#[test]
fn an_agent_that_registers_hears_of_sessions_that_use_its_devices_already() {
    let device = DeviceId { node: NodeId(1), ordinal: 0 };
    let held = HeldDevice { ordinal: 0, milli: 1_000, memory: 1, exclusive: true, milli_cores: 0, host_memory: 0 };
    let job = JobGrant {
        token: JobToken { job: 3, key: OTHER_KEY },
        user: "eva".into(),
        account: "site".into(),
        ends_in_ms: None,
        devices: vec![held],
        sessions: Vec::new(),
        is_suspended: false,
    };
    for jobs in [vec![], vec![job]] {
        let mut bench = Bench::new();
        bench.attach(1, EARLIER, KEY, ALICE);
        bench.give(Input::InUse { client: ClientId(1), devices: vec![device] });
        bench.now = 5_000;
        let is_a_job_s = !jobs.is_empty();
        let registration = Registration { previous: Some(device.node), jobs, ..registration("h2") };
        let effects = bench.give(Input::Register { link: LinkId(1), registration });
        let is_reported = |effect: &Effect| matches!(effect, Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) if grant.session == EARLIER);
        assert_eq!(effects.iter().any(is_reported), !is_a_job_s, "{effects:?}");
        match &pushes(&effects, ClientId(1))[..] {
            [] if !is_a_job_s => {}
            [ClientPush::Ended(why)] if is_a_job_s => assert!(why.contains("job 3 has device 0 of node h2"), "{why}"),
            pushes => panic!("{pushes:?}"),
        }
        // The agent is informed of its end.
        let effects = bench.give(Input::ClientGone { client: ClientId(1) });
        assert_eq!(effects.iter().any(|effect| matches!(effect, Effect::ToAgent(..))), !is_a_job_s, "{effects:?}");
    }
}

#[test]
fn a_program_that_came_back_begins_on_no_far_node_that_is_not_known() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![]);
    bench.attach(1, EARLIER, KEY, ALICE);
    bench.now = 2_000;
    let device = DeviceId { node: NodeId(7), ordinal: 0 };
    let effects = bench.give(Input::MayUse { client: ClientId(1), device });
    assert!(
        matches!(&pushes(&effects, ClientId(1))[..], [ClientPush::UseAnswered(of, Some(_))] if *of == device),
        "{effects:?}"
    );
}

#[test]
fn a_program_has_few_questions_wait_for_agents_and_none_after_its_end() {
    let mut bench = Bench::new();
    bench.attach(1, EARLIER, KEY, ALICE);
    let ask = |bench: &mut Bench, ordinal| {
        let device = DeviceId { node: NodeId(7), ordinal };
        bench.give(Input::MayUse { client: ClientId(1), device })
    };
    let answered = (0..20).filter(|ordinal| !ask(&mut bench, *ordinal).is_empty()).count();
    assert_eq!(answered, 4);
    assert_eq!(bench.cluster.next_deadline(), Some(Millis(2_000)));
    bench.give(Input::ClientGone { client: ClientId(1) });
    assert_ne!(bench.cluster.next_deadline(), Some(Millis(2_000)));
}

/// An executor that runs learns of no further device: the job's one may be used once the job has ended.
#[test]
fn agents_are_told_after_a_restart_of_devices_of_jobs_that_began_later_than_the_session() {
    let restart = |now, epoch| Restart { now: Millis(now), committed: Millis(now), unix_ms: 1_000 + now, epoch };
    let mut bench = Bench::of(Cluster::restore(Limits::default(), &Records::new(), restart(0, 1)).unwrap());
    bench.now = 60_000;
    bench.give(Input::Tick);
    let names = ["h1", "h2"];
    for (link, name) in (1..).zip(names) {
        bench.register_with(link, name, vec![]);
    }
    let [ClientPush::Granted(session)] = asked(&mut bench, 1)[..] else { panic!("it waits") };
    bench.now = 61_000;
    let request = SessionRequest { devices: Some("1:cpu".to_owned()), ..request("h1") };
    let effects = bench.give(Input::Open { client: ClientId(2), request, key: OTHER_KEY, user: ALICE.into() });
    let begun = effects.iter().find_map(|effect| match effect {
        Effect::ToAgent(LinkId(link), AgentOrder::JobStarted(grant)) => Some((link - 1, grant.clone())),
        _ => None,
    });
    let (at, job) = begun.unwrap_or_else(|| panic!("{effects:?}"));

    bench.now = 62_000;
    let records = bench.cluster.all_records();
    bench.cluster = Cluster::restore(Limits::default(), &records, restart(bench.now, 2)).unwrap();
    for (number, name) in (0..).zip(names) {
        // The agent of the other node has an executor of the session.
        let opened = SessionGrant { opened_unix_ms: 61_000, ..grant(session, KEY, ALICE) };
        let (jobs, sessions) = if number == at { (vec![job.clone()], vec![]) } else { (vec![], vec![opened]) };
        let registration = Registration { jobs, sessions, ..registration(name) };
        bench.give(Input::Register { link: LinkId(3 + number), registration });
    }
    assert_eq!(bench.attach(3, session, KEY, ALICE), [ClientPush::Attached]);
    let node = bench.cluster.node_named(names[usize::from(at == 1)]).unwrap().id;
    let device = DeviceId { node, ordinal: 1 - job.devices[0].ordinal };
    let effects = bench.give(Input::MayUse { client: ClientId(3), device });
    let reported = effects.iter().find_map(|effect| match effect {
        Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) => Some(&grant.ordinals[..]),
        _ => None,
    });
    assert_eq!(reported, Some(&[0, 1][..]), "{effects:?}");
}

#[test]
fn agents_hear_of_the_limits_in_force_for_a_session_that_only_its_program_names() {
    let limits = Limits { memory_quota: 70, stream_quota: 5, plain_tcp: true, ..Limits::default() };
    let mut bench = Bench::of(Cluster::new(limits, 1_000));
    bench.register_with(1, "h1", vec![]);
    bench.attach(1, EARLIER, KEY, ALICE);
    let effects = bench.give(Input::MayUse { client: ClientId(1), device: DeviceId { node: NodeId(0), ordinal: 0 } });
    let reported = effects.iter().find_map(|effect| match effect {
        Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) => Some(grant),
        _ => None,
    });
    let terms = reported.map(|grant| (grant.memory_quota, grant.stream_quota, grant.plain_tcp));
    assert_eq!(terms, Some((70, 5, true)), "{effects:?}");
}

#[test]
fn a_program_that_comes_back_hears_of_lost_nodes_and_of_its_end() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![grant(EARLIER, KEY, ALICE)]);
    bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]);
    bench.attach(1, EARLIER, KEY, ALICE);
    let effects = bench.give(Input::Goodbye { link: LinkId(2) });
    assert_eq!(pushes(&effects, ClientId(1)), [ClientPush::NodeLeft(NodeId(1), "h2".into())]);
    // The program's connection has ended again, which the coordinator has not noticed yet.
    let again = bench.attach(2, EARLIER, KEY, ALICE);
    assert_eq!(again, [ClientPush::Attached, ClientPush::NodeLost(NodeId(1), "h2".into())]);
    assert!(bench.give(Input::ClientGone { client: ClientId(1) }).is_empty());
    let effects = bench.give(Input::Close { session: EARLIER });
    assert!(matches!(&pushes(&effects, ClientId(2))[..], [ClientPush::Ended(_)]), "{effects:?}");
    // A program without a connection in between gets the same reason.
    assert_eq!(bench.attach(3, EARLIER, KEY, ALICE), [ClientPush::Ended(SessionEnd::Administrator.text(EARLIER))]);
}

#[test]
fn a_first_comer_does_not_take_anothers_session() {
    // Mallory names a session of Alice's before Alice's program or agent has reconnected.
    for (key, user) in [(OTHER_KEY, "mallory"), (OTHER_KEY, ALICE), (KEY, "mallory")] {
        let mut bench = Bench::new();
        assert_eq!(bench.attach(1, EARLIER, key, user), [ClientPush::Attached]);
        // Alice does not receive the error that the session is another's, which would end her program. Her program
        // tries again.
        let (client, user, request) = (ClientId(2), ALICE.to_owned(), request("h1"));
        let effects = bench.give(Input::Attach { client, session: EARLIER, request, key: KEY, user });
        assert_eq!(effects, [Effect::CloseClient(client)]);
        let effects = bench.register_with(1, "h1", vec![grant(EARLIER, KEY, ALICE)]);
        assert!(!is_closed_on(&effects, 1, EARLIER), "{effects:?}");
        assert!(effects.contains(&Effect::CloseClient(ClientId(1))), "{effects:?}");
        let session = bench.cluster.session(EARLIER).unwrap();
        assert_eq!((&*session.owner.user, session.owner.key, session.client), (ALICE, KEY, None));
        assert!(bench.give(Input::ClientGone { client: ClientId(1) }).is_empty());
        assert_eq!(bench.attach(3, EARLIER, KEY, ALICE), [ClientPush::Attached]);
    }
}

#[test]
fn a_program_that_comes_back_to_a_full_coordinator_comes_again() {
    let limits = Limits { sessions_max: 1, ..Limits::default() };
    let mut bench = Bench::of(Cluster::new(limits, 1_000));
    assert_eq!(bench.attach(1, EARLIER, KEY, ALICE), [ClientPush::Attached]);
    let (client, user, session) = (ClientId(2), ALICE.to_owned(), SessionId(EARLIER.0 + 1));
    let effects = bench.give(Input::Attach { client, session, request: request("h1"), key: KEY, user });
    assert_eq!(effects, [Effect::CloseClient(client)]);
    bench.give(Input::ClientGone { client: ClientId(1) });
    assert_eq!(bench.attach(2, session, KEY, ALICE), [ClientPush::Attached]);
}

#[test]
fn a_first_comer_does_not_end_anothers_session() {
    let limits = Limits { session_ms: 10_000, ..Limits::default() };
    for how in ["leaves", "stays", "is closed"] {
        let mut bench = Bench::of(Cluster::new(limits, 1_000));
        bench.register_with(1, "h1", vec![]);
        assert_eq!(bench.attach(1, EARLIER, OTHER_KEY, "mallory"), [ClientPush::Attached]);
        // Mallory goes, stays until the time of such a session is over, or is thrown out by an administrator.
        let effects = match how {
            "leaves" => bench.give(Input::ClientGone { client: ClientId(1) }),
            "stays" => {
                bench.now = 10_000;
                bench.give(Input::Tick)
            }
            _ => bench.give(Input::Close { session: EARLIER }),
        };
        assert!(!is_closed_on(&effects, 1, EARLIER), "{effects:?}");
        assert!(effects.contains(&Effect::CloseClient(ClientId(1))), "{effects:?}");
        let effects = bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]);
        assert!(!is_closed_on(&effects, 2, EARLIER), "{effects:?}");
        assert_eq!(bench.attach(2, EARLIER, KEY, ALICE), [ClientPush::Attached]);
    }
}

#[test]
fn agents_end_a_session_that_only_a_client_has_named_by_the_clients_key() {
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    for is_refused in [false, true] {
        let mut bench = Bench::new();
        bench.register_with(1, "h1", vec![]);
        bench.attach(1, EARLIER, OTHER_KEY, "mallory");
        bench.give(Input::MayUse { client: ClientId(1), device });
        let effects = match is_refused {
            true => bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]),
            false => bench.give(Input::ClientGone { client: ClientId(1) }),
        };
        assert!(effects.contains(&Effect::ToAgent(LinkId(1), AgentOrder::ClaimClosed(EARLIER, OTHER_KEY, None))));
        assert!(!is_closed_on(&effects, 1, EARLIER) && !is_closed_on(&effects, 2, EARLIER), "{effects:?}");
    }
}

#[test]
fn an_agent_that_was_away_hears_that_a_session_which_only_a_client_had_named_has_ended() {
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    let close = |link| Effect::ToAgent(LinkId(link), AgentOrder::ClaimClosed(EARLIER, OTHER_KEY, None));
    for granted in [vec![EARLIER], vec![]] {
        let mut bench = Bench::new();
        bench.register_with(1, "h1", vec![]);
        bench.attach(1, EARLIER, OTHER_KEY, "mallory");
        bench.give(Input::MayUse { client: ClientId(1), device });
        bench.give(Input::LinkLost { link: LinkId(1) });
        assert!(!bench.give(Input::ClientGone { client: ClientId(1) }).contains(&close(1)));
        // An agent that was started anew knows nothing of it.
        let back = |granted: &[SessionId]| Registration { granted: granted.to_vec(), ..registration("h1") };
        let effects = bench.give(Input::Register { link: LinkId(2), registration: back(&granted) });
        assert_eq!(effects.contains(&close(2)), !granted.is_empty(), "{effects:?}");
        let effects = bench.give(Input::Register { link: LinkId(3), registration: back(&granted) });
        assert!(!effects.contains(&close(3)), "once is enough: {effects:?}");
    }
}

#[test]
fn a_program_without_a_request_that_is_back_has_the_devices_that_are_offered() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![]);
    bench.attach(1, EARLIER, KEY, ALICE);
    let count = |bench: &Bench| bench.cluster.device_count_of(bench.cluster.session(EARLIER).unwrap());
    assert_eq!(count(&bench), 2);
    bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]);
    assert_eq!(count(&bench), 4);
}

/// A liar's executor makes no session the liar's: its agent knows only what this coordinator told it because of the liar's word.
#[test]
fn a_first_comer_with_an_executor_does_not_end_anothers_session() {
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    for comes_again in [false, true] {
        let mut bench = Bench::new();
        bench.register_with(1, "h1", vec![]);
        bench.attach(1, EARLIER, OTHER_KEY, "mallory");
        let effects = bench.give(Input::MayUse { client: ClientId(1), device });
        let reported = effects.iter().find_map(|effect| match effect {
            Effect::ToAgent(LinkId(1), AgentOrder::SessionOpened(grant)) => Some(grant.clone()),
            _ => None,
        });
        let reported = reported.unwrap_or_else(|| panic!("{effects:?}"));
        bench.give(Input::ExecutorStarted { link: LinkId(1), grant: reported.clone() });
        if comes_again {
            bench.now = 500;
            bench.give(Input::LinkLost { link: LinkId(1) });
            bench.register_with(3, "h1", vec![reported]);
        }
        let link = if comes_again { 3 } else { 1 };
        let session = bench.cluster.session(EARLIER).unwrap();
        assert_eq!((session.origin, session.executors.len()), (Origin::Program, 1));
        // Alice is not told that it is another's, and her executor goes on.
        assert_eq!(bench.attach(2, EARLIER, KEY, ALICE), []);
        let effects = bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]);
        assert!(!is_closed_on(&effects, 2, EARLIER), "{effects:?}");
        assert!(effects.contains(&Effect::ToAgent(LinkId(link), AgentOrder::ClaimClosed(EARLIER, OTHER_KEY, None))));
        assert!(effects.contains(&Effect::CloseClient(ClientId(1))), "{effects:?}");
        assert_eq!(bench.attach(4, EARLIER, KEY, ALICE), [ClientPush::Attached]);
    }
}

#[test]
fn a_session_that_agents_know_stays_its_owners() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![grant(EARLIER, KEY, ALICE)]);
    for (client, key, user) in [(1, OTHER_KEY, ALICE), (2, KEY, "mallory")] {
        let refused = bench.attach(client, EARLIER, key, user);
        assert!(matches!(&refused[..], [ClientPush::Refused(_)]), "{refused:?}");
        assert!(bench.give(Input::ClientGone { client: ClientId(client) }).is_empty());
    }
    assert!(bench.cluster.session(EARLIER).unwrap().client.is_none());
}

#[test]
fn a_heartbeat_that_overtakes_an_executors_start_ends_nothing() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![]);
    bench.register_with(2, "h2", vec![grant(EARLIER, KEY, ALICE)]);
    // The program begins to use h1. The agent's heartbeat arrives before its grant.
    for session in [EARLIER, SessionId((1 << 40) + 1)] {
        let effects = bench.give(Input::Heartbeat { link: LinkId(1), sessions: vec![session] });
        assert!(!is_closed_on(&effects, 1, session), "{effects:?}");
        bench.give(Input::ExecutorStarted { link: LinkId(1), grant: grant(session, KEY, ALICE) });
        assert!(bench.cluster.session(session).unwrap().executors.contains(&NodeId(0)));
    }
}

#[test]
fn a_session_without_executors_waits_for_its_program_after_a_start() {
    let mut bench = Bench::new();
    bench.register_with(1, "h1", vec![grant(EARLIER, KEY, ALICE)]);
    // The program releases its devices before it has reconnected.
    bench.give(Input::ExecutorEnded { link: LinkId(1), session: EARLIER, why: String::new() });
    assert_eq!(bench.attach(1, EARLIER, KEY, ALICE), [ClientPush::Attached]);
}

#[test]
fn a_session_that_was_taken_over_still_ends_in_time() {
    let limits = Limits { session_ms: 10_000, ..Limits::default() };
    let mut bench = Bench::of(Cluster::new(limits, 1_000));
    bench.attach(1, EARLIER, KEY, ALICE);
    assert_eq!(bench.cluster.session(EARLIER).unwrap().ends, Some(Millis(10_000)));
    // An agent's time takes precedence.
    let reported = SessionGrant { ends_in_ms: Some(4_000), ..grant(EARLIER, KEY, ALICE) };
    bench.register_with(1, "h1", vec![reported]);
    bench.now = 4_000;
    let effects = bench.give(Input::Tick);
    assert!(matches!(&pushes(&effects, ClientId(1))[..], [ClientPush::Ended(_)]), "{effects:?}");
    assert!(is_closed_on(&effects, 1, EARLIER));
}

fn asked(bench: &mut Bench, client: u64) -> Vec<ClientPush> {
    let client = ClientId(client);
    let effects = bench.give(Input::Open { client, request: request("h1"), key: KEY, user: ALICE.into() });
    pushes(&effects, client)
}

#[test]
fn request_waits_for_agents_after_a_coordinator_start() {
    // The coordinator has just started.
    let mut bench = Bench::new();
    assert_eq!((asked(&mut bench, 1), bench.cluster.next_deadline()), (vec![], Some(Millis(2_000))));
    bench.now = 500;
    bench.register_with(1, "h1", vec![]);
    bench.register_with(2, "h2", vec![]);
    // The next request finds devices already.
    assert!(matches!(&asked(&mut bench, 2)[..], [ClientPush::Granted(_)]));
    bench.now = 2_000;
    let effects = bench.give(Input::Tick);
    let [ClientPush::Granted(session)] = pushes(&effects, ClientId(1))[..] else { panic!("{effects:?}") };
    assert_eq!(bench.cluster.lease(session).unwrap().devices.len(), 4);

    // A coordinator was suspended and has lost all connections.
    bench.now = 20_000;
    bench.give(Input::Tick);
    for link in [1, 2] {
        bench.give(Input::LinkLost { link: LinkId(link) });
    }
    assert_eq!(asked(&mut bench, 3), []);
    assert_eq!(asked(&mut bench, 4), []);
    bench.give(Input::ClientGone { client: ClientId(4) });
    bench.now = 20_300;
    let effects = bench.register_with(3, "h2", vec![]);
    assert_eq!(pushes(&effects, ClientId(3)), [], "h1 is about to be back, too");
    let effects = bench.register_with(4, "h1", vec![]);
    let [ClientPush::Granted(session)] = pushes(&effects, ClientId(3))[..] else { panic!("{effects:?}") };
    assert_eq!(bench.cluster.lease(session).unwrap().devices.len(), 4);
    assert_eq!(pushes(&effects, ClientId(4)), []);

    // Requests no longer wait for agents that have not reconnected in time.
    for link in [3, 4] {
        bench.give(Input::LinkLost { link: LinkId(link) });
    }
    assert_eq!(asked(&mut bench, 5), []);
    bench.now = 22_300;
    let effects = bench.give(Input::Tick);
    assert!(matches!(&pushes(&effects, ClientId(5))[..], [ClientPush::Refused(_)]), "{effects:?}");
}

#[test]
fn request_waits_while_most_agents_reconnect() {
    let mut bench = Bench::new();
    bench.now = 10_000;
    for (link, name) in [(1, "h1"), (2, "h2"), (3, "h3")] {
        bench.register_with(link, name, vec![]);
    }
    // The loss of a single agent takes effect at once.
    bench.now = 20_000;
    bench.give(Input::LinkLost { link: LinkId(3) });
    let [ClientPush::Granted(session)] = asked(&mut bench, 1)[..] else { panic!("it waits") };
    assert_eq!(bench.cluster.lease(session).unwrap().devices.len(), 4);

    // The loss of most agents at the same moment is more likely caused by the coordinator itself.
    bench.give(Input::LinkLost { link: LinkId(2) });
    bench.now = 20_100;
    bench.register_with(4, "h3", vec![]);
    assert_eq!(asked(&mut bench, 2), [], "h2 is about to be back, too");
    let effects = bench.register_with(5, "h2", vec![]);
    let [ClientPush::Granted(session)] = pushes(&effects, ClientId(2))[..] else { panic!("{effects:?}") };
    assert_eq!(bench.cluster.lease(session).unwrap().devices.len(), 6);

    // Requests no longer wait for an agent that has not reconnected in time.
    for link in [4, 5] {
        bench.give(Input::LinkLost { link: LinkId(link) });
    }
    assert_eq!(asked(&mut bench, 3), []);
    bench.now = 22_100;
    let effects = bench.give(Input::Tick);
    let [ClientPush::Granted(session)] = pushes(&effects, ClientId(3))[..] else { panic!("{effects:?}") };
    assert_eq!(bench.cluster.lease(session).unwrap().devices.len(), 2);
}

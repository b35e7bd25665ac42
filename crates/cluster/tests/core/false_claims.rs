//! A hostile agent and a hostile program make every claim about another user's session, in every state of their
//! connection. No other peer is affected, and the session stays as it was.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{ClientId, Effect, Input, Joiner, LinkId, NodeState, Registration};
use accord_types::{
    DeviceFault, DeviceId, DeviceUse, DeviceVerdict, NodeFigures, NodeId, SessionGrant, SessionId, SessionKey,
};

const VICTIM: LinkId = LinkId(1);
const VICTIMS_PROGRAM: ClientId = ClientId(1);
const LIAR: LinkId = LinkId(2);
const LYING_PROGRAM: ClientId = ClientId(2);
const MALLORY: &str = "mallory";
const MADE_UP: SessionKey = SessionKey([3; SessionKey::LEN]);
/// Longer than the limit on an agent's silence.
const SILENT_MS: u64 = 11_000;

/// The progress of a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Membership {
    Unknown,
    In,
    Gone,
    Lost,
    Silent,
    Replaced,
}

const MEMBERSHIPS: [Membership; 6] =
    [Membership::Unknown, Membership::In, Membership::Gone, Membership::Lost, Membership::Silent, Membership::Replaced];

/// Creates a session of alice's on h1 with an executor there, and a hostile agent h2.
fn cluster(membership: Membership) -> (Bench, SessionId) {
    let mut bench = Bench::new();
    let register = |link, name: &str| Input::Register { link, registration: registration(name) };
    bench.give(register(VICTIM, "h1"));
    let own = Input::Open { client: VICTIMS_PROGRAM, request: request("h1"), key: KEY, user: ALICE.into() };
    bench.give(own);
    let session = bench.cluster.sessions().next().unwrap().id;
    bench.give(Input::MayUse { client: VICTIMS_PROGRAM, device: device(0) });
    bench.give(Input::ExecutorStarted { link: VICTIM, grant: grant(session, KEY, ALICE) });
    if membership != Membership::Unknown {
        bench.give(register(LIAR, "h2"));
    }
    match membership {
        Membership::Unknown | Membership::In => {}
        Membership::Gone => drop(bench.give(Input::Goodbye { link: LIAR })),
        Membership::Lost => drop(bench.give(Input::LinkLost { link: LIAR })),
        Membership::Silent => {
            while bench.now < SILENT_MS {
                bench.now += 250;
                bench.give(Input::Heartbeat { link: VICTIM, sessions: vec![session] });
                bench.give(Input::Tick);
            }
        }
        Membership::Replaced => drop(bench.give(register(LinkId(3), "h2"))),
    }
    (bench, session)
}

/// Returns the possible claims of an agent about other sessions and measurements.
fn false_claims_of_agent(session: SessionId) -> Vec<Input> {
    let link = LIAR;
    let with = |key, user: &str| grant(session, key, user);
    let elsewhere = SessionGrant { node_name: "h2".into(), ordinals: vec![0, 1, 77], ..with(MADE_UP, MALLORY) };
    let grants = [with(MADE_UP, ALICE), with(MADE_UP, MALLORY), with(KEY, MALLORY), elsewhere];
    let faulty = DeviceUse { fault: DeviceFault::cuda(214), ..DeviceUse::default() };
    let mut false_claims = vec![
        Input::Heartbeat { link, sessions: vec![session] },
        Input::Heartbeat { link, sessions: (0..64).map(SessionId).chain([session, session]).collect() },
        Input::Heartbeat { link, sessions: Vec::new() },
        Input::ExecutorEnded { link, session, why: "it has crashed".into() },
        Input::ExecutorEnded { link, session: SessionId(u64::MAX), why: "x".repeat(1 << 20) },
        Input::NodeMeasured { link, figures: NodeFigures::default() },
        Input::AgentUsed { link, uses: vec![(session, 0, faulty), (session, 1, faulty)] },
        Input::DeviceTested { link, ordinal: 0, number: 0, verdict: DeviceVerdict::Faulty("it is faulty".into()) },
        Input::DeviceTested { link, ordinal: u32::MAX, number: u64::MAX, verdict: DeviceVerdict::Works },
    ];
    false_claims.extend(grants.iter().map(|grant| Input::ExecutorStarted { link, grant: grant.clone() }));
    false_claims.extend([0, 1, u64::MAX].map(|measurement| Input::PathMeasured {
        link,
        measurement,
        path: Err("no".into()),
    }));
    // The agent's certificate is for its own name, but it may report any number and sessions.
    for sessions in grants.map(|grant| vec![grant]) {
        let registration = Registration { sessions, previous: Some(NodeId(0)), ..registration("h2") };
        false_claims.push(Input::Register { link, registration });
    }
    let joiner = Joiner { node_name: "h2".into(), world: "world".into(), run: 0 };
    false_claims.extend([
        Input::Leaving { link },
        Input::Join { link, joiner },
        Input::LinkLost { link },
        Input::Goodbye { link },
    ]);
    false_claims
}

/// Returns the id of a device on alice's node.
fn device(ordinal: u32) -> DeviceId {
    DeviceId { node: NodeId(0), ordinal }
}

/// Returns the possible claims of another tenant's program.
fn false_claims_of_program(session: SessionId) -> Vec<Input> {
    let client = LYING_PROGRAM;
    let attach = |key, user: &str| Input::Attach { client, session, request: request("h1"), key, user: user.into() };
    let mut false_claims = vec![
        attach(MADE_UP, ALICE),
        attach(MADE_UP, MALLORY),
        // A user who has found the key is still another user.
        attach(KEY, MALLORY),
        Input::MayUse { client, device: device(0) },
        Input::MayUse { client, device: device(u32::MAX) },
        Input::InUse { client, devices: vec![device(0), device(u32::MAX)] },
        Input::Open { client, request: request("h1"), key: MADE_UP, user: MALLORY.into() },
        Input::Open { client, request: request("h1"), key: MADE_UP, user: MALLORY.into() },
    ];
    false_claims.push(Input::ClientGone { client });
    false_claims
}

/// Makes a claim. Checks which peers are affected, and the session.
fn printed(bench: &mut Bench, session: SessionId, membership: Membership, false_claim: &Input) {
    let before = bench.cluster.session(session).cloned();
    for effect in bench.give(false_claim.clone()) {
        let concerns = match &effect {
            Effect::ToAgent(link, order) => *link == VICTIM && !of_another_session(order, session),
            Effect::RefuseAgent(link, _) | Effect::DropLink(link) => *link == VICTIM,
            Effect::ToClient(client, _) | Effect::CloseClient(client) => *client == VICTIMS_PROGRAM,
            Effect::MeasurePath(_) | Effect::Changed => false,
        };
        assert!(!concerns, "{membership:?}: {false_claim:?} leads to {effect:?}");
    }
    assert_eq!(before, bench.cluster.session(session).cloned(), "{membership:?}: {false_claim:?}");
    assert!(
        matches!(bench.cluster.node_named("h1").unwrap().state, NodeState::Up { link: Some(VICTIM) }),
        "{false_claim:?}"
    );
}

/// Whether an honest agent's order is about one of the hostile agent's own sessions.
fn of_another_session(order: &accord_cluster::AgentOrder, session: SessionId) -> bool {
    use accord_cluster::AgentOrder;
    match order {
        AgentOrder::SessionOpened(grant) => grant.session != session && grant.key == MADE_UP,
        AgentOrder::SessionClosed(closed, _) | AgentOrder::ClaimClosed(closed, ..) => *closed != session,
        AgentOrder::MeasureNode | AgentOrder::MeasurePath { .. } | AgentOrder::ExpectMeasurement { .. } => true,
        // No program in this test requests devices, and the victim's devices have no faults.
        AgentOrder::JobStarted(_)
        | AgentOrder::ReleaseJob(_)
        | AgentOrder::Suspend(..)
        | AgentOrder::TestDevice(..) => false,
        AgentOrder::Registered(_) | AgentOrder::NodeLost(..) | AgentOrder::RankLost(_) | AgentOrder::Drain(_) => false,
    }
}

#[test]
fn an_agents_words_about_others_sessions_reach_no_other_peer() {
    for membership in MEMBERSHIPS {
        let (_, session) = cluster(membership);
        let false_claims = false_claims_of_agent(session);
        // Each claim alone, each after each other one, and all in sequence.
        for first in &false_claims {
            for second in &false_claims {
                let (mut bench, session) = cluster(membership);
                printed(&mut bench, session, membership, first);
                printed(&mut bench, session, membership, second);
            }
        }
        let (mut bench, session) = cluster(membership);
        false_claims
            .iter()
            .chain(&false_claims)
            .for_each(|false_claim| printed(&mut bench, session, membership, false_claim));
    }
}

#[test]
fn a_programs_words_about_others_sessions_reach_no_other_peer() {
    for membership in MEMBERSHIPS {
        let (_, session) = cluster(membership);
        let false_claims = false_claims_of_program(session);
        for first in &false_claims {
            for second in &false_claims {
                let (mut bench, session) = cluster(membership);
                printed(&mut bench, session, membership, first);
                printed(&mut bench, session, membership, second);
            }
        }
    }
}

//! Reports to programs about the end of their executors.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{ClientId, ClientPush, Effect, Input, LinkId};
use accord_types::{DeviceId, NodeId, SessionId};

const WHY: &str = "signal: 9 (SIGKILL)";

fn open(bench: &mut Bench, client: u64) -> SessionId {
    let client = ClientId(client);
    let effects = bench.give(Input::Open { client, request: request("h1"), key: KEY, user: ALICE.into() });
    let granted = |effect: &Effect| match effect {
        Effect::ToClient(_, ClientPush::Granted(session)) => Some(*session),
        _ => None,
    };
    let session = effects.iter().find_map(granted).unwrap();
    let devices: Vec<DeviceId> = bench.cluster.nodes().filter_map(|node| Some(node.devices.first()?.id)).collect();
    for device in devices {
        bench.give(Input::MayUse { client, device });
    }
    session
}

/// Returns the reports to programs after an agent reports the end of an executor.
fn reported(bench: &mut Bench, link: u64, session: SessionId, why: &str) -> Vec<(ClientId, NodeId, String)> {
    let effects = bench.give(Input::ExecutorEnded { link: LinkId(link), session, why: why.into() });
    let reported = effects.into_iter().filter_map(|effect| match effect {
        Effect::ToClient(client, ClientPush::ExecutorEnded(node, why)) => Some((client, node, why)),
        _ => None,
    });
    reported.collect()
}

#[test]
fn a_program_hears_why_its_own_executors_have_ended() {
    let mut bench = Bench::new();
    for (link, name) in [(1, "h1"), (2, "h2")] {
        bench.give(Input::Register { link: LinkId(link), registration: registration(name) });
    }
    let (first, second) = (open(&mut bench, 1), open(&mut bench, 2));
    let starts = |bench: &mut Bench, link, session| {
        bench.give(Input::ExecutorStarted { link: LinkId(link), grant: grant(session, KEY, ALICE) });
    };
    starts(&mut bench, 2, first);
    assert_eq!(reported(&mut bench, 2, first, WHY), [(ClientId(1), NodeId(1), WHY.to_owned())]);
    // The program has no executor any more, and the other session never had one. An ordinary end is not reported.
    assert_eq!(reported(&mut bench, 2, first, WHY), []);
    assert_eq!(reported(&mut bench, 2, second, WHY), []);
    starts(&mut bench, 2, second);
    assert_eq!(reported(&mut bench, 1, second, WHY), []);
    assert_eq!(reported(&mut bench, 2, second, ""), []);
    // The agent's reason may have any length.
    starts(&mut bench, 1, second);
    let [(ClientId(2), NodeId(0), why)] = &reported(&mut bench, 1, second, &"ä".repeat(5_000))[..] else { panic!() };
    assert_eq!(*why, "ä".repeat(512));
}

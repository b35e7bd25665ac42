//! Jobs ask for devices, hold them and give them back: the scheduler's decisions, carried out.

// Other tests use the rest of it.
#[allow(dead_code)]
mod bench;
mod requests;

use accord_coordinator::cluster::{AgentOrder, ClientId, ClientPush, Effect, Input, LinkId, Registration};
use accord_types::{DeviceId, QueuedJob, SessionId, SessionKey};
use bench::{ALICE, Bench, KEY, registration};
use requests::request;

const LOST_AFTER: u64 = 10_000;

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

impl Bench {
    /// A coordinator with agents of two devices each.
    fn with_agents(names: &[&str]) -> Self {
        let mut bench = Self::new();
        // No agent is about to be back from before the coordinator's start.
        bench.now = 60_000;
        bench.give(Input::Tick);
        for (link, name) in (1..).zip(names) {
            bench.give(Input::Register { link: LinkId(link), registration: registration(name) });
        }
        bench
    }

    /// A program on `h1` asks for devices.
    fn ask(&mut self, client: u64, devices: &str) -> Vec<Effect> {
        let devices = Some(devices.to_owned()).filter(|text| !text.is_empty());
        let request = accord_types::SessionRequest { devices, ..request("h1") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }

    fn ends(&mut self, client: u64) -> Vec<Effect> {
        self.give(Input::ClientGone { client: ClientId(client) })
    }

    fn released(&mut self, link: u64, job: u64) -> Vec<Effect> {
        self.give(Input::JobReleased { link: LinkId(link), job: key(job) })
    }

    fn devices(&self, session: SessionId) -> Vec<(u32, u32)> {
        let devices = &self.cluster.session(session).unwrap().lease.devices;
        devices.iter().map(|id: &DeviceId| (id.node.0, id.ordinal)).collect()
    }

    /// Time passes while agents say that they live.
    fn pass(&mut self, ms: u64, links: &[u64]) -> Vec<Effect> {
        let (mut effects, until) = (Vec::new(), self.now + ms);
        while self.now < until {
            self.now += 250;
            for link in links {
                self.give(Input::Heartbeat { link: LinkId(*link), sessions: Vec::new() });
            }
            effects.extend(self.give(Input::Tick));
        }
        effects
    }
}

fn granted(effects: &[Effect], client: u64) -> Option<SessionId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Granted(session)) if *to == ClientId(client) => Some(*session),
        _ => None,
    })
}

fn queued(effects: &[Effect], client: u64) -> Option<&QueuedJob> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Queued(job)) if *to == ClientId(client) => Some(job),
        _ => None,
    })
}

fn refused(effects: &[Effect], client: u64) -> Option<String> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Refused(error)) if *to == ClientId(client) => Some(error.to_string()),
        _ => None,
    })
}

/// Agents that are told to release the job of this program.
fn to_release(effects: &[Effect], job: u64) -> Vec<u64> {
    let order = AgentOrder::ReleaseJob(key(job));
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::ToAgent(link, other) if *other == order => Some(link.0),
        _ => None,
    });
    told.collect()
}

#[test]
fn exclusive_devices_go_to_the_next_job_when_agents_have_released_them() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let first = granted(&bench.ask(1, "3:cpu"), 1).unwrap();
    assert_eq!(bench.devices(first), [(0, 0), (0, 1), (1, 0)]);
    let effects = bench.ask(2, "2:cpu");
    let waits = queued(&effects, 2).unwrap();
    assert_eq!((waits.token.job, waits.position), (2, 0));
    assert!(waits.why.contains("2 of d are needed, and 1 are free"), "{}", waits.why);
    assert!(granted(&effects, 2).is_none());

    let effects = bench.ends(1);
    assert_eq!(to_release(&effects, 1), [1, 2]);
    assert!(granted(&effects, 2).is_none());
    let second = granted(&bench.released(1, 1), 2).unwrap();
    // What the first job had on the second node is not free yet.
    assert!(bench.devices(second).len() == 2 && !bench.devices(second).contains(&(1, 0)));
    assert!(queued(&bench.ask(3, "2:cpu"), 3).is_some());
    assert!(granted(&bench.released(2, 1), 3).is_some());
}

#[test]
fn agents_are_told_what_a_job_holds_before_its_session_opens() {
    let mut bench = Bench::with_agents(&["h1"]);
    let effects = bench.ask(1, "1:cpu");
    let orders: Vec<&AgentOrder> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToAgent(_, order @ (AgentOrder::JobStarted(_) | AgentOrder::SessionOpened(_))) => Some(order),
            _ => None,
        })
        .collect();
    let [AgentOrder::JobStarted(job), AgentOrder::SessionOpened(session)] = orders[..] else { panic!("{orders:?}") };
    assert_eq!((job.user.as_str(), job.account.as_str(), job.devices.len()), (ALICE, "site/alice", 1));
    assert!(job.devices[0].exclusive && session.job == Some(job.token.key));
}

#[test]
fn a_program_that_asks_for_nothing_gets_devices_that_no_job_has_to_itself() {
    let mut bench = Bench::with_agents(&["h1"]);
    let before = granted(&bench.ask(1, ""), 1).unwrap();
    granted(&bench.ask(2, "1:cpu"), 2).unwrap();
    granted(&bench.ask(3, "1:cpu:1"), 3);
    let after = granted(&bench.ask(4, ""), 4).unwrap();
    assert_eq!((bench.devices(before).len(), bench.devices(after)), (2, vec![(0, 1)]));
    bench.ends(2);
    assert_eq!(bench.ask(5, "").iter().filter(|effect| matches!(effect, Effect::ToClient(..))).count(), 1);
    bench.released(1, 2);
    let all = granted(&bench.ask(6, ""), 6).unwrap();
    assert_eq!(bench.devices(all).len(), 2);
}

#[test]
fn a_program_that_goes_while_it_waits_gives_its_place_away() {
    let mut bench = Bench::with_agents(&["h1"]);
    granted(&bench.ask(1, "1:cpu"), 1).unwrap();
    assert!(queued(&bench.ask(2, "2:cpu"), 2).is_some());
    bench.ends(2);
    assert!(granted(&bench.ask(3, "1:cpu"), 3).is_some());
}

#[test]
fn a_wait_ends_as_the_request_says_and_a_job_at_its_limit() {
    let mut bench = Bench::with_agents(&["h1"]);
    let first = granted(&bench.ask(1, "2:cpu limit=5m"), 1).unwrap();
    assert!(queued(&bench.ask(2, "1:cpu wait=1m"), 2).is_some());
    let effects = bench.pass(70_000, &[1]);
    assert!(refused(&effects, 2).unwrap().contains("job 2 waits no longer: it waited as long as"), "{effects:?}");
    let effects = bench.pass(300_000, &[1]);
    let told: Vec<&ClientPush> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToClient(ClientId(1), push) => Some(push),
            _ => None,
        })
        .collect();
    let [ClientPush::Warning(warning), ClientPush::Ended(ended)] = &told[..] else { panic!("{told:?}") };
    assert!(warning.contains("job 1 ends in 1m"), "{warning}");
    assert!(ended.contains("job 1 has ended: its time limit"), "{ended}");
    assert!(bench.cluster.session(first).is_none());
}

#[test]
fn a_lost_node_s_devices_are_given_to_none_until_its_agent_confirms_or_another_one_runs() {
    for is_another in [false, true] {
        let mut bench = Bench::with_agents(&["h1", "h2"]);
        let first = granted(&bench.ask(1, "4:cpu"), 1).unwrap();
        bench.pass(LOST_AFTER + 1_000, &[1]);
        assert!(bench.cluster.session(first).unwrap().lost.len() == 1);
        bench.ends(1);
        bench.released(1, 1);
        assert!(granted(&bench.ask(2, "4:cpu"), 2).is_none());
        let incarnation = if is_another { 11 } else { 10 };
        let again = Registration { incarnation, ..registration("h2") };
        let effects = bench.give(Input::Register { link: LinkId(3), registration: again });
        assert_eq!(granted(&effects, 2).is_some(), is_another);
        if !is_another {
            assert_eq!(to_release(&effects, 1), [3]);
            assert!(granted(&bench.released(3, 1), 2).is_some());
        }
    }
}

#[test]
fn a_request_that_makes_no_sense_or_is_not_for_the_user_is_refused() {
    let mut bench = Bench::with_agents(&["h1"]);
    let wrong = refused(&bench.ask(1, "2:cpuu"), 1).unwrap();
    assert!(wrong.contains("the request \"2:cpuu\" is wrong: "), "{wrong}");
    let foreign = refused(&bench.ask(1, "2:cpu account=physics"), 1).unwrap();
    assert!(foreign.contains("the account \"physics\" is not for this user"), "{foreign}");
    assert!(granted(&bench.ask(1, "2:cpu"), 1).is_some());
}

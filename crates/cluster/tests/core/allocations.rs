//! Jobs request devices, hold them and return them: the core carries the scheduler's decisions out.

use crate::bench::{ALICE, Bench, KEY, registration};
use crate::requests::request;
use accord_cluster::{AgentOrder, ClientId, ClientPush, Effect, Input, LinkId, Registration};
use accord_types::incarnation::incarnation;
use accord_types::{
    DeviceId, JobGrant, JobToken, Machine, NodeId, QueuedJob, Rank, SessionId, SessionKey, SessionRequest,
};

const LOST_AFTER: u64 = 10_000;

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

impl Bench {
    /// Creates a coordinator with agents of two devices each.
    fn with_agents(names: &[&str]) -> Self {
        let mut bench = Self::new();
        // Requests no longer wait for agents to reconnect after the start.
        bench.now = 60_000;
        bench.give(Input::Tick);
        for (link, name) in (1..).zip(names) {
            bench.give(Input::Register { link: LinkId(link), registration: registration(name) });
        }
        bench
    }

    /// Requests devices for a program on `h1`.
    fn ask(&mut self, client: u64, devices: &str) -> Vec<Effect> {
        let devices = Some(devices.to_owned()).filter(|text| !text.is_empty());
        let request = SessionRequest { devices, ..request("h1") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }

    fn ends(&mut self, client: u64) -> Vec<Effect> {
        self.give(Input::ClientGone { client: ClientId(client) })
    }

    fn released(&mut self, link: u64, job: u64) -> Vec<Effect> {
        self.give(Input::JobReleased { link: LinkId(link), job: key(job) })
    }

    fn devices(&self, session: SessionId) -> Vec<(u32, u32)> {
        let ids = self.cluster.lease(session).unwrap().devices.into_iter().map(|device| device.info.id);
        ids.map(|id: DeviceId| (id.node.0, id.ordinal)).collect()
    }

    /// Lets time pass while these agents send heartbeats.
    fn beat_links_for(&mut self, ms: u64, links: &[u64]) -> Vec<Effect> {
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

/// Returns the links of agents with the order to release this program's job.
fn to_release(effects: &[Effect], job: u64) -> Vec<u64> {
    let order = AgentOrder::ReleaseJob(key(job));
    let reported = effects.iter().filter_map(|effect| match effect {
        Effect::ToAgent(link, other) if *other == order => Some(link.0),
        _ => None,
    });
    reported.collect()
}

#[test]
fn exclusive_devices_go_to_the_next_job_when_agents_have_released_them() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let first = granted(&bench.ask(1, "3:cpu"), 1).unwrap();
    assert_eq!(bench.devices(first), [(0, 0), (0, 1), (1, 0)]);
    let effects = bench.ask(2, "2:cpu");
    let waits = queued(&effects, 2).unwrap();
    assert_eq!((waits.token.job, waits.position), (2, Some(0)));
    assert!(waits.why.contains("it needs 2 of d, and 1 is free for as long"), "{}", waits.why);
    assert!(granted(&effects, 2).is_none());

    let effects = bench.ends(1);
    assert_eq!(to_release(&effects, 1), [1, 2]);
    assert!(granted(&effects, 2).is_none());
    let second = granted(&bench.released(1, 1), 2).unwrap();
    // The first job's devices on the second node are not free yet.
    assert!(bench.devices(second).len() == 2 && !bench.devices(second).contains(&(1, 0)));
    assert!(queued(&bench.ask(3, "2:cpu"), 3).is_some());
    assert!(granted(&bench.released(2, 1), 3).is_some());
}

#[test]
fn leases_say_which_devices_the_job_shares() {
    let mut bench = Bench::with_agents(&["h1"]);
    for (client, devices, is_shared) in [(1, "1:cpu", false), (2, "1:cpu:50%", true)] {
        let session = granted(&bench.ask(client, devices), client).unwrap();
        assert_eq!(bench.cluster.lease(session).unwrap().devices[0].is_shared, is_shared, "{devices}");
    }
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
    assert_eq!(bench.devices(before).len(), 2);
    granted(&bench.ask(2, "1:cpu"), 2).unwrap();
    granted(&bench.ask(3, "1:cpu:1"), 3);
    let after = granted(&bench.ask(4, ""), 4).unwrap();
    assert_eq!(bench.devices(after), [(0, 1)]);
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
    let effects = bench.beat_links_for(70_000, &[1]);
    assert!(refused(&effects, 2).unwrap().contains("job 2 waits no longer: it waited as long as"), "{effects:?}");
    let effects = bench.beat_links_for(300_000, &[1]);
    let reported: Vec<&ClientPush> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToClient(ClientId(1), push) => Some(push),
            _ => None,
        })
        .collect();
    let [ClientPush::Warning(warning), ClientPush::Ended(ended)] = &reported[..] else { panic!("{reported:?}") };
    assert!(warning.contains("job 1 ends in 1m"), "{warning}");
    assert!(ended.contains("job 1 has ended: its time limit"), "{ended}");
    assert!(bench.cluster.session(first).is_none());
}

/// Returns the connections that get a warning for standard error.
fn warned(effects: &[Effect]) -> Vec<u64> {
    let warned = effects.iter().filter_map(|effect| match effect {
        Effect::ToClient(client, ClientPush::Warning(_)) => Some(client.0),
        _ => None,
    });
    warned.collect()
}

#[test]
fn people_are_warned_of_a_limit_once() {
    // The command that holds the job gets the warning, its programs do not.
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let token = held(&bench.hold_devices(1, "2:cpu limit=2m"), 1).unwrap();
    for client in [2, 3] {
        granted(&bench.enter(client, token, ALICE), client).unwrap();
    }
    assert_eq!(warned(&bench.beat_links_for(70_000, &[1, 2])), [1]);
    // One of the ranks with their own request gets the warning.
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    for client in [1, 2, 3] {
        granted(&bench.ask_as_rank(client, rank(client as u32, 4, 7), "2:cpu limit=2m"), client).unwrap();
    }
    assert_eq!(warned(&bench.beat_links_for(70_000, &[1, 2])), [1]);
}

#[test]
fn a_job_of_ranks_lingers_as_long_as_the_policy_says() {
    for (text, lingers_ms) in [("[site]\n", 30_000), ("linger = \"5m\"\n", 300_000), ("linger = \"1s\"\n", 1_000)] {
        let mut bench = Bench::with_agents(&["h1", "h2"]);
        let text = format!("{text}[account.all]\nusers = [\"*\"]\n");
        let policy = Box::new(accord_scheduler::policy::SitePolicy::read(&text, None).unwrap());
        bench.give(Input::ApplyPolicy { policy, by: "admin root".into() });
        granted(&bench.ask_as_rank(1, rank(0, 2, 7), "1:cpu"), 1).unwrap();
        bench.ends(1);
        assert_eq!(to_release(&bench.beat_links_for(lingers_ms - 500, &[1, 2]), 1), [0; 0], "{text}");
        assert_eq!(to_release(&bench.beat_links_for(1_000, &[1, 2]), 1), [1], "{text}");
    }
}

#[test]
fn a_lost_node_s_devices_are_given_to_none_until_its_agent_confirms_or_its_machine_was_started_anew() {
    for is_another in [false, true] {
        let mut bench = Bench::with_agents(&["h1", "h2"]);
        let first = granted(&bench.ask(1, "4:cpu"), 1).unwrap();
        bench.beat_links_for(LOST_AFTER + 1_000, &[1]);
        assert!(bench.cluster.session(first).unwrap().lost.len() == 1);
        bench.ends(1);
        bench.released(1, 1);
        assert!(granted(&bench.ask(2, "4:cpu"), 2).is_none());
        // The machine is booted again, or the agent is started again.
        let incarnation = if is_another { incarnation("another", 0) } else { 11 };
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
fn an_agent_of_a_machine_that_was_booted_again_gets_no_order_for_earlier_jobs() {
    let mut bench = Bench::with_agents(&["h1"]);
    granted(&bench.ask(1, "1:cpu"), 1).unwrap();
    bench.give(Input::LinkLost { link: LinkId(1) });
    bench.beat_links_for(5_000, &[]);
    let again = Registration { incarnation: incarnation("another", 0), ..registration("h1") };
    let effects = bench.give(Input::Register { link: LinkId(2), registration: again });
    let orders = effects.iter().filter(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::JobStarted(_))));
    assert_eq!(orders.count(), 0, "{effects:?}");
    // The devices of the machine are free.
    assert!(granted(&bench.ask(2, "2:cpu"), 2).is_some());
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

#[test]
fn labels_and_compute_capability_are_those_that_agents_register() {
    let mut bench = Bench::with_agents(&[]);
    let register = |bench: &mut Bench, link: u64, name: &str, labels: &str| {
        let machine = Machine { labels: labels.parse().unwrap(), ..Machine::default() };
        let mut registration = Registration { machine, ..registration(name) };
        for device in &mut registration.devices {
            device.compute = (8, 6);
        }
        bench.give(Input::Register { link: LinkId(link), registration })
    };
    for (link, name, rack) in [(1, "h1", "r1"), (2, "h2", "r2"), (3, "h3", "r1")] {
        register(&mut bench, link, name, &format!("rack={rack},gpu=old"));
    }
    let on = |bench: &Bench, session: Option<SessionId>| -> Vec<u32> {
        bench.devices(session.unwrap()).into_iter().map(|(node, _)| node).collect()
    };
    let labelled = granted(&bench.ask(1, "2:cpu label=rack=r2 label=gpu=old"), 1);
    assert_eq!(on(&bench, labelled), [1, 1]);
    bench.ends(1);
    bench.released(2, 1);
    // The program's own node has too few devices, so the rest is in its rack.
    let near = granted(&bench.ask(2, "4:cpu near"), 2);
    assert_eq!(on(&bench, near), [0, 0, 2, 2]);
    assert!(granted(&bench.ask(3, "1:cpu:cc=8.6"), 3).is_some());
    assert!(queued(&bench.ask(4, "1:cpu:cc=9.0"), 4).is_some());
    assert!(queued(&bench.ask(5, "1:cpu label=rack=r3"), 5).is_some());
    // The new start of an agent has other labels.
    register(&mut bench, 4, "h4", "rack=r4");
    let effects = register(&mut bench, 5, "h4", "rack=r3");
    assert!(granted(&effects, 5).is_some(), "{effects:?}");
}

fn rank(rank: u32, size: u32, job: u64) -> Option<Rank> {
    Some(Rank { rank, size, local_rank: rank, local_size: size, job })
}

fn held(effects: &[Effect], client: u64) -> Option<JobToken> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Held(job)) if *to == ClientId(client) => Some(job.token),
        _ => None,
    })
}

impl Bench {
    fn hold(&mut self, client: u64, request: SessionRequest) -> Vec<Effect> {
        self.give(Input::Hold { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }

    fn hold_devices(&mut self, client: u64, devices: &str) -> Vec<Effect> {
        self.hold(client, SessionRequest { devices: Some(devices.into()), ..request("h1") })
    }

    /// Opens a program's session in a job.
    fn enter(&mut self, client: u64, token: JobToken, user: &str) -> Vec<Effect> {
        let request = SessionRequest { job: Some(token), ..request("h2") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: user.into() })
    }

    /// Requests devices for a rank on node `h1` or `h2`.
    fn ask_as_rank(&mut self, client: u64, rank: Option<Rank>, devices: &str) -> Vec<Effect> {
        let node = if rank.unwrap().rank.is_multiple_of(2) { "h1" } else { "h2" };
        let request = SessionRequest { devices: Some(devices.into()), rank, ..request(node) };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }
}

#[test]
fn programs_open_their_sessions_in_the_job_of_a_command_until_that_ends() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let token = held(&bench.hold_devices(1, "3:cpu"), 1).unwrap();
    // Sessions may be open one after the other or concurrently. Each numbers its own node's device first.
    for client in [2, 3] {
        let session = granted(&bench.enter(client, token, ALICE), client).unwrap();
        assert_eq!(bench.devices(session), [(1, 0), (0, 0), (0, 1)]);
        bench.ends(client);
    }
    let both: Vec<SessionId> =
        [4, 5].map(|client| granted(&bench.enter(client, token, ALICE), client).unwrap()).to_vec();
    // Only the job's user may use the token.
    assert!(refused(&bench.enter(6, token, "mallory"), 6).unwrap().contains("another user's"));
    // A job without sessions lasts as long as its command.
    bench.beat_links_for(120_000, &[1, 2]);
    assert!(queued(&bench.ask(7, "2:cpu"), 7).is_some());
    let effects = bench.ends(1);
    assert!(both.iter().all(|session| bench.cluster.session(*session).is_none()));
    assert_eq!(to_release(&effects, 1), [1, 2]);
    assert!(refused(&bench.enter(8, token, ALICE), 8).unwrap().contains("job 1 has ended"));
    let effects = [bench.released(1, 1), bench.released(2, 1)].concat();
    assert!(granted(&effects, 7).is_some());
}

#[test]
fn a_request_and_a_command_s_job_outlast_a_connection_that_breaks() {
    let mut bench = Bench::with_agents(&["h1"]);
    let token = held(&bench.hold_devices(1, "2:cpu"), 1).unwrap();
    let waits = queued(&bench.hold_devices(2, "1:cpu"), 2).unwrap().token;
    assert!(queued(&bench.ask(3, "1:cpu"), 3).is_some());
    for client in [1, 2] {
        bench.give(Input::ClientLost { client: ClientId(client) });
    }
    bench.beat_links_for(200_000, &[1]);
    let again = |token| SessionRequest { job: Some(token), ..request("h1") };
    // A command may reconnect before the end of its previous connection is noticed.
    for client in [4, 5] {
        assert_eq!(held(&bench.hold(client, again(token)), client), Some(token));
    }
    let effects = bench.hold(6, again(waits));
    assert_eq!(queued(&effects, 6).map(|job| (job.token, job.position)), Some((waits, Some(0))));
    bench.beat_links_for(200_000, &[1]);
    bench.ends(5);
    let effects = bench.released(1, 1);
    assert!(held(&effects, 6).is_some() && granted(&effects, 3).is_some(), "{effects:?}");
    // A command that does not reconnect loses its job.
    bench.give(Input::ClientLost { client: ClientId(6) });
    let effects = bench.beat_links_for(310_000, &[1]);
    assert_eq!(to_release(&effects, 2), [1]);
}

#[test]
fn the_first_rank_asks_for_all_and_the_others_are_answered_from_that() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let first = granted(&bench.ask_as_rank(1, rank(0, 2, 77), "3:cpu"), 1).unwrap();
    let second = granted(&bench.ask_as_rank(2, rank(1, 2, 77), "3:cpu"), 2).unwrap();
    let sorted = |bench: &Bench, session| {
        let mut devices = bench.devices(session);
        devices.sort_unstable();
        devices
    };
    assert_eq!(sorted(&bench, first), sorted(&bench, second));
    let differs = refused(&bench.ask_as_rank(3, rank(1, 2, 77), "1:cpu"), 3).unwrap();
    assert!(differs.contains("rank 1 asks for \"1:cpu\"") && differs.contains("\"3:cpu\""), "{differs}");
    let unnamed = refused(&bench.ask_as_rank(4, rank(0, 2, 0), "1:cpu"), 4).unwrap();
    assert!(unnamed.contains("accord run -np 2"), "{unnamed}");
    // Ranks of another launcher are another gang, and wait.
    assert!(queued(&bench.ask_as_rank(5, rank(0, 2, 78), "2:cpu"), 5).is_some());
    assert!(queued(&bench.ask_as_rank(6, rank(1, 2, 78), "2:cpu"), 6).is_some());

    bench.ends(1);
    bench.ends(2);
    // A rank may be late.
    bench.beat_links_for(20_000, &[1, 2]);
    granted(&bench.ask_as_rank(7, rank(0, 2, 77), "3:cpu"), 7).unwrap();
    bench.ends(7);
    bench.beat_links_for(20_000, &[1, 2]);
    let effects = bench.beat_links_for(11_000, &[1, 2]);
    assert_eq!(to_release(&effects, 1), [1, 2]);
    let effects = [bench.released(1, 1), bench.released(2, 1)].concat();
    assert!(granted(&effects, 5).is_some() && granted(&effects, 6).is_some());
}

#[test]
fn each_rank_has_devices_of_its_own_where_it_asks_for_these() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    let mut seen = Vec::new();
    for client in 1..=2 {
        let at = u32::try_from(client).unwrap() - 1;
        let session = granted(&bench.ask_as_rank(client, rank(at, 2, 5), "2:cpu per-rank"), client).unwrap();
        let devices = bench.devices(session);
        assert!(devices.iter().all(|(node, _)| *node == at), "{devices:?}");
        seen.extend(devices);
    }
    seen.sort_unstable();
    assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

/// Returns the sessions that these effects announce to an agent.
fn introduced(effects: &[Effect], link: u64) -> Vec<SessionId> {
    let reported = effects.iter().filter_map(|effect| match effect {
        Effect::ToAgent(to, AgentOrder::SessionOpened(grant)) if *to == LinkId(link) => Some(grant.session),
        _ => None,
    });
    reported.collect()
}

#[test]
fn ranks_that_start_after_a_node_was_lost_have_devices_whose_agents_know_their_sessions() {
    let mut bench = Bench::with_agents(&["h1", "h2"]);
    // Each rank has the devices of its node.
    let ask = |bench: &mut Bench, client, at| bench.ask_as_rank(client, rank(at, 2, 777), "2:cpu per-rank");
    for client in 1..=2 {
        let at = u32::try_from(client).unwrap() - 1;
        granted(&ask(&mut bench, client, at), client).unwrap();
    }
    bench.beat_links_for(LOST_AFTER + 1_000, &[1]);
    bench.give(Input::Register { link: LinkId(3), registration: registration("h2") });
    bench.ends(2);
    let late = refused(&ask(&mut bench, 3, 1), 3).unwrap();
    assert!(late.contains("job 1 has lost all devices that the program can use, those of h2"), "{late}");
    bench.ends(1);
    // The job lingers when the launcher starts ranks once more.
    assert_eq!(to_release(&ask(&mut bench, 4, 0), 1), [1], "it ends, because it has lost devices");
    assert!(queued(&ask(&mut bench, 5, 1), 5).is_some());
    let effects = [bench.released(1, 1), bench.released(3, 1)].concat();
    for client in [4, 5] {
        let session = granted(&effects, client).unwrap();
        assert!(bench.cluster.session(session).unwrap().lost.is_empty());
        for (node, _) in bench.devices(session) {
            let link = if node == 0 { 1 } else { 3 };
            assert!(introduced(&effects, link).contains(&session), "node {node}: {effects:?}");
        }
    }
}

#[test]
fn a_coordinator_that_is_started_again_gives_nothing_away_that_agents_say_is_held() {
    let mut before = Bench::with_agents(&["h1"]);
    let token = held(&before.hold_devices(1, "1:cpu"), 1).unwrap();
    granted(&before.ask(2, "1:cpu"), 2).unwrap();
    let effects = before.give(Input::Register { link: LinkId(2), registration: registration("h1") });
    let mut jobs: Vec<JobGrant> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToAgent(_, AgentOrder::JobStarted(grant)) => Some(grant.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(jobs.len(), 2);
    // The second job's program has a session without an executor.
    let session = SessionId(9);
    jobs[1].sessions = vec![session];

    let mut after = Bench::new();
    after.now = 100;
    // The request arrives before the agent has reconnected.
    after.ask(3, "1:cpu");
    let again = Registration { jobs, ..registration("h1") };
    after.give(Input::Register { link: LinkId(1), registration: again });
    after.now = 3_000;
    let effects = after.give(Input::Tick);
    assert!(granted(&effects, 3).is_none() && queued(&effects, 3).is_some(), "{effects:?}");
    let nothing = after.ask(4, "");
    assert!(granted(&nothing, 4).is_none(), "{nothing:?}");
    // Command and program reconnect.
    let again = SessionRequest { job: Some(token), ..request("h1") };
    assert_eq!(held(&after.hold(5, again), 5), Some(token));
    let request = request("h1");
    let (client, user) = (ClientId(6), ALICE.into());
    after.give(Input::Attach { client, session, request, key: key(2), user });
    after.beat_links_for(60_000, &[1]);
    let effects = after.ends(6);
    assert!(to_release(&effects, 2).is_empty());
    let effects = after.beat_links_for(31_000, &[1]);
    assert_eq!(to_release(&effects, 2), [1]);
    assert!(granted(&after.released(1, 2), 3).is_some());
    // A job ends if its command does not reconnect.
    after.give(Input::ClientLost { client: ClientId(5) });
    assert_eq!(to_release(&after.beat_links_for(301_000, &[1]), 1), [1]);
}

/// Returns the id of a device on the first node.
fn device(ordinal: u32) -> DeviceId {
    DeviceId { node: NodeId(0), ordinal }
}

#[test]
fn a_program_that_comes_back_says_which_devices_no_job_may_have() {
    let mut bench = Bench::new();
    bench.now = 60_000;
    let (client, session, user) = (ClientId(1), SessionId(1 << 40), ALICE.to_owned());
    bench.give(Input::Attach { client, session, request: request("h1"), key: key(1), user });
    // The program may reconnect before the agents.
    bench.give(Input::InUse { client, devices: vec![device(1)] });
    assert!(!bench.cluster.session(session).unwrap().nodes.contains_key(&NodeId(0)));
    bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    let job = granted(&bench.ask(2, "1:cpu"), 2).unwrap();
    assert_eq!(bench.devices(job), [(0, 0)]);
    assert!(queued(&bench.ask(3, "1:cpu"), 3).is_some());
    assert!(granted(&bench.ends(1), 3).is_some());
}

/// Returns the ordinals that an agent is granted when a program is about to use a device of the first node.
fn reported(bench: &mut Bench, client: u64, ordinal: u32) -> Option<Vec<u32>> {
    let effects = bench.give(Input::MayUse { client: ClientId(client), device: device(ordinal) });
    effects.into_iter().find_map(|effect| match effect {
        Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) => Some(grant.ordinals),
        _ => None,
    })
}

#[test]
fn agents_let_programs_use_those_devices_that_no_job_has_to_itself() {
    let mut bench = Bench::with_agents(&["h1"]);
    let job = granted(&bench.ask(1, "1:cpu"), 1).unwrap();
    let held = bench.devices(job)[0].1;
    granted(&bench.ask(2, ""), 2).unwrap();
    assert_eq!(reported(&mut bench, 2, held), None);
    assert_eq!(reported(&mut bench, 2, 1 - held), Some(vec![1 - held]));
    bench.ends(1);
    bench.released(1, 1);
    assert_eq!(reported(&mut bench, 2, held), Some(vec![0, 1]));
}

/// A running executor can't get further devices.
#[test]
fn agents_are_told_at_once_of_devices_that_a_job_has_only_for_a_while() {
    let mut bench = Bench::with_agents(&["h1"]);
    granted(&bench.ask(1, ""), 1).unwrap();
    bench.now += 1;
    let job = granted(&bench.ask(2, "1:cpu"), 2).unwrap();
    let held = bench.devices(job)[0].1;
    assert_eq!(reported(&mut bench, 1, held), None, "the job has it to itself");
    assert_eq!(reported(&mut bench, 1, 1 - held), Some(vec![0, 1]));
    bench.ends(2);
    bench.released(1, 2);
    let may_use = Input::MayUse { client: ClientId(1), device: device(held) };
    let allowed = Effect::ToClient(ClientId(1), ClientPush::UseAnswered(device(held), None));
    assert_eq!(bench.give(may_use).last(), Some(&allowed));
}

#[test]
fn a_program_that_asked_for_nothing_holds_what_it_uses_and_is_refused_what_a_job_has() {
    let mut bench = Bench::with_agents(&["h1"]);
    granted(&bench.ask(1, ""), 1).unwrap();
    granted(&bench.ask(2, ""), 2).unwrap();
    bench.give(Input::MayUse { client: ClientId(1), device: device(0) });
    bench.give(Input::MayUse { client: ClientId(1), device: device(0) });
    let job = granted(&bench.ask(3, "1:cpu"), 3).unwrap();
    assert_eq!(bench.devices(job), [(0, 1)]);
    assert!(queued(&bench.ask(4, "1:cpu"), 4).is_some());
    let uses = |bench: &mut Bench, ordinal| {
        let device = device(ordinal);
        match bench.give(Input::MayUse { client: ClientId(2), device }).last() {
            Some(Effect::ToClient(ClientId(2), ClientPush::UseAnswered(answered, error))) if *answered == device => {
                error.clone()
            }
            effects => panic!("{effects:?}"),
        }
    };
    // The use of the other device continues, and the refused one may be used after the job's end.
    let error = uses(&mut bench, 1).unwrap();
    assert!(error.cause().contains("job 1 has device 1 of node h1 to itself"), "{error}");
    assert_eq!(uses(&mut bench, 0), None);
    bench.ends(3);
    assert!(uses(&mut bench, 1).is_some(), "the agent has not confirmed that the device is free");
    bench.give(Input::ClientGone { client: ClientId(4) });
    bench.released(1, 3);
    assert_eq!(uses(&mut bench, 1), None);
    // Both devices are in use now, each until its users have ended.
    assert!(queued(&bench.ask(5, "1:cpu"), 5).is_some());
    assert!(granted(&bench.ends(1), 5).is_none());
    // A program that reconnects to another coordinator and uses the job's device loses its session.
    let job = granted(&bench.ends(2), 5).unwrap();
    let devices = vec![device(bench.devices(job)[0].1)];
    let (client, session, user) = (ClientId(6), SessionId(1 << 40), ALICE.to_owned());
    bench.give(Input::Attach { client, session, request: request("h1"), key: key(6), user });
    let effects = bench.give(Input::InUse { client, devices });
    // No agent receives a grant of the device: the session may be another program's, which agents have not named yet.
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::ToAgent(..))), "{effects:?}");
    let ended = effects.iter().any(|effect| match effect {
        Effect::ToClient(ClientId(6), ClientPush::Ended(text)) => text.contains(" of node h1 to itself"),
        _ => false,
    });
    assert!(ended, "{effects:?}");
}

#[test]
fn an_agent_that_is_started_again_on_the_same_boot_takes_no_devices_from_jobs() {
    for stops_in_order in [false, true] {
        let mut bench = Bench::with_agents(&["h1"]);
        let session = granted(&bench.ask(1, "2:cpu"), 1).unwrap();
        if stops_in_order {
            bench.give(Input::Goodbye { link: LinkId(1) });
        } else {
            bench.give(Input::LinkLost { link: LinkId(1) });
        }
        let again = Registration { incarnation: 11, ..registration("h1") };
        let effects = bench.give(Input::Register { link: LinkId(2), registration: again });
        assert!(granted(&bench.ask(2, "1:cpu"), 2).is_none());
        if stops_in_order {
            // The job has lost its devices there.
            assert_eq!(to_release(&effects, 1), [2]);
        } else {
            assert!(bench.cluster.session(session).unwrap().lost.is_empty());
            assert_eq!(to_release(&bench.ends(1), 1), [2]);
        }
        assert!(granted(&bench.released(2, 1), 2).is_some());
    }
}

#[test]
fn devices_that_programs_elsewhere_used_are_free_when_their_agent_is_started_again() {
    for stops_in_order in [false, true] {
        let mut bench = Bench::with_agents(&["h1", "h2"]);
        granted(&bench.ask(1, ""), 1).unwrap();
        let (client, far) = (ClientId(1), DeviceId { node: NodeId(1), ordinal: 0 });
        bench.give(Input::MayUse { client, device: far });
        bench.give(Input::MayUse { client, device: device(0) });
        assert!(queued(&bench.ask(2, "3:cpu"), 2).is_some());
        if stops_in_order {
            bench.give(Input::Goodbye { link: LinkId(2) });
        }
        let again = Registration { incarnation: 11, ..registration("h2") };
        let effects = bench.give(Input::Register { link: LinkId(3), registration: again });
        assert!(granted(&effects, 2).is_some(), "{effects:?}");
        // The program goes on with that of its own node. It knows that the other one is lost.
        assert_eq!(bench.give(Input::InUse { client, devices: vec![far, device(0)] }), []);
    }
}

#[test]
fn agents_are_told_when_a_job_ends_and_when_its_limit_is_changed() {
    let mut bench = Bench::with_agents(&["h1"]);
    let reported = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::ToAgent(_, AgentOrder::JobStarted(grant)) => Some(grant.ends_in_ms),
            _ => None,
        })
    };
    assert_eq!(reported(&bench.ask(1, "1:cpu limit=60s")), Some(Some(60_500)));
    bench.beat_links_for(20_000, &[1]);
    let job = accord_scheduler::JobId(1);
    let longer = accord_scheduler::Input::SetLimit { job, limit_ms: 90_000, by: "admin".to_owned() };
    assert_eq!(reported(&bench.give(Input::Schedule(longer))), Some(Some(70_500)));
    assert_eq!(reported(&bench.ask(2, "1:cpu")), Some(None), "without a limit only the coordinator ends it");
}

#[test]
fn a_job_on_hold_has_no_place_among_those_that_wait() {
    let mut bench = Bench::with_agents(&["h1"]);
    bench.ask(1, "2:cpu");
    assert_eq!(queued(&bench.ask(2, "1:cpu"), 2).unwrap().position, Some(0));
    let hold = |held| Input::Schedule(accord_scheduler::Input::Hold { job: accord_scheduler::JobId(2), held });
    let reported = bench.give(hold(true));
    let job = queued(&reported, 2).unwrap();
    assert_eq!((job.position, job.why.as_str()), (None, "it is on hold"));
    assert_eq!(queued(&bench.give(hold(false)), 2).unwrap().position, Some(0));
}

#[test]
fn waiters_hear_within_some_seconds_of_what_else_keeps_their_jobs() {
    let mut bench = Bench::with_agents(&["h1"]);
    bench.ask(1, "2:cpu");
    bench.ask(2, "2:cpu");
    let third = bench.ask(3, "1:cpu");
    assert_eq!(queued(&third, 3).unwrap().position, Some(1));
    let hears = |bench: &mut Bench| {
        let effects = bench.beat_links_for(10_250, &[1]);
        [2, 3].map(|client| queued(&effects, client).map(|job| (job.position, job.why.clone())))
    };
    hears(&mut bench);
    assert_eq!(hears(&mut bench), [None, None], "nothing has changed");
    bench.ends(2);
    let [_, Some((Some(0), why))] = hears(&mut bench) else { panic!("its position is another one") };
    assert!(why.contains("it needs 1 of d"), "{why}");
    let pause = |paused| Input::Schedule(accord_scheduler::Input::Pause { paused, by: "admin root".to_owned() });
    bench.give(pause(true));
    assert_eq!(hears(&mut bench)[1], Some((Some(0), "all starts are paused".to_owned())));
    bench.give(pause(false));
    assert_eq!(hears(&mut bench)[1], Some((Some(0), why)));
}

#[test]
fn only_the_first_waiters_hear_of_changes_that_name_no_job() {
    let mut bench = Bench::with_agents(&["h1"]);
    bench.ask(1, "2:cpu");
    for client in 2..202 {
        bench.ask(client, "2:cpu");
    }
    let pause = Input::Schedule(accord_scheduler::Input::Pause { paused: true, by: "admin root".to_owned() });
    bench.give(pause);
    let effects = bench.beat_links_for(10_250, &[1]);
    let reported: Vec<u64> = (2..202).filter(|client| queued(&effects, *client).is_some()).collect();
    assert_eq!(reported, (2..66).collect::<Vec<_>>());
}

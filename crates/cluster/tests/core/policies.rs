//! Policies that take effect while jobs wait and run.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{
    ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, Records, Registration, Restart,
};
use accord_scheduler::policy::{Change, KeyPositions, SitePolicy};
use accord_types::{DeviceId, DeviceUse, NodeId, SessionId, SessionKey};

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

fn policy(text: &str) -> SitePolicy {
    SitePolicy::read(text, None).unwrap()
}

/// Creates a coordinator with an agent of two devices.
fn with_agent() -> Bench {
    let mut bench = Bench::new();
    // Requests no longer wait for agents to reconnect after the start.
    bench.now = 60_000;
    bench.give(Input::Tick);
    bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    bench
}

impl Bench {
    fn ask_for(&mut self, client: u64, devices: Option<&str>) -> Vec<Effect> {
        let request = accord_types::SessionRequest { devices: devices.map(str::to_owned), ..request("h1") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }

    fn apply(&mut self, text: &str) -> Vec<Effect> {
        self.give(Input::ApplyPolicy { policy: Box::new(policy(text)), by: "admin root".into() })
    }

    fn is_in(&mut self, groups: &[&str]) {
        let groups = groups.iter().map(|name| (*name).to_owned()).collect();
        self.give(Input::Groups { user: ALICE.into(), groups });
    }
}

fn refused(effects: &[Effect]) -> Option<String> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(_, ClientPush::Refused(error)) => Some(error.cause().to_owned()),
        _ => None,
    })
}

fn granted(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::ToClient(_, ClientPush::Granted(_))))
}

#[test]
fn a_user_is_in_an_account_by_unix_group_and_stays_there_while_it_names_the_group() {
    let mut bench = with_agent();
    bench.apply("[account.physics]\nusers = [\"@physics\"]\n");
    assert!(refused(&bench.ask_for(1, Some("1:cpu"))).unwrap().contains("no account for this user"));
    bench.is_in(&["staff", "physics"]);
    assert!(granted(&bench.ask_for(2, Some("2:cpu"))));
    assert!(!granted(&bench.ask_for(3, Some("2:cpu"))));
    assert_eq!(refused(&bench.apply("[account.physics]\nusers = [\"@staff\"]\n")), None);
    let ended = bench.apply("[account.physics]\nusers = [\"@chemistry\"]\n");
    assert!(refused(&ended).unwrap().contains("the policy has its account no longer"));
    assert_eq!(bench.cluster.policy_version(), 3);
    // The running job continues.
    assert_eq!(bench.cluster.scheduler().running(), 1);
}

#[test]
fn policy_without_a_key_keeps_the_coordinators_flag() {
    let mut bench = with_agent();
    let flags = *bench.cluster.limits();
    bench.apply("memory-quota = \"1M\"\nsession-time = \"2h\"\n");
    let limits = bench.cluster.limits();
    assert_eq!((limits.memory_quota, limits.session_ms, limits.stream_quota), (1 << 20, 7_200_000, flags.stream_quota));
    bench.apply("stream-quota = 3\n");
    let limits = bench.cluster.limits();
    assert_eq!(
        (limits.memory_quota, limits.session_ms, limits.stream_quota),
        (flags.memory_quota, flags.session_ms, 3)
    );
}

#[test]
fn a_month_begins_with_whole_budgets() {
    let mut bench = with_agent();
    let november = 1_796_000_000_000;
    bench.cluster.set_wall_clock(Millis(bench.now), november);
    bench.apply("[account.physics]\nusers = [\"*\"]\ndevice-hours = 1\n");
    assert!(granted(&bench.ask_for(1, Some("2:cpu"))));
    bench.now += 3_600_000;
    assert!(refused(&bench.ask_for(2, Some("1:cpu"))).unwrap().contains("has spent its device-hours of this month"));
    // An hour back is no other month; the next one is.
    bench.cluster.set_wall_clock(Millis(bench.now), november - 3_600_000);
    assert!(refused(&bench.ask_for(3, Some("1:cpu"))).is_some());
    bench.cluster.set_wall_clock(Millis(bench.now), november + 40 * 86_400_000);
    assert_eq!(refused(&bench.ask_for(4, Some("1:cpu"))), None);
}

#[test]
fn a_user_of_no_account_gets_no_devices_by_asking_for_nothing() {
    let mut bench = with_agent();
    assert!(granted(&bench.ask_for(1, None)), "every user is in the account of no policy");
    bench.apply("[account.physics]\nusers = [\"@physics\"]\n");
    assert!(refused(&bench.ask_for(2, None)).unwrap().contains("no account for this user"));
    // A session of an earlier coordinator, if it existed.
    let (client, device) = (ClientId(3), DeviceId { node: NodeId(0), ordinal: 0 });
    let session = SessionId(1 << 40);
    bench.give(Input::Attach { client, session, request: request("h1"), key: key(3), user: ALICE.into() });
    bench.give(Input::MayUse { client, device });
    assert!(bench.cluster.session(session).unwrap().used.is_empty());
    bench.is_in(&["physics"]);
    assert!(granted(&bench.ask_for(4, None)));
}

#[test]
fn nothing_starts_for_an_account_that_has_spent_its_device_hours_until_the_month_ends() {
    let mut bench = with_agent();
    let november = 1_796_000_000_000;
    bench.cluster.set_wall_clock(Millis(bench.now), november);
    bench.apply("[account.physics]\nusers = [\"*\"]\ndevice-hours = 1\n");
    assert!(granted(&bench.ask_for(1, Some("1:cpu limit=2h"))));
    let waits = bench.ask_for(2, Some("2:cpu"));
    assert!(!granted(&waits) && refused(&waits).is_none());
    assert!(granted(&bench.ask_for(3, None)), "device-hours are left");
    bench.now += 3_600_000;
    assert!(refused(&bench.ask_for(4, None)).unwrap().contains("has spent its device-hours of this month"));
    let ends = |bench: &mut Bench, client| {
        let mut effects = bench.give(Input::ClientGone { client: ClientId(client) });
        effects.extend(bench.give(Input::JobReleased { link: LinkId(1), job: key(client) }));
        effects
    };
    let effects = ends(&mut bench, 1);
    assert!(!granted(&effects), "{effects:?}");
    let why = bench.cluster.scheduler().reason(accord_scheduler::JobId(2)).unwrap().to_string();
    assert!(why.contains("has spent its device-hours of this month; its jobs start again on the first day"), "{why}");
    bench.cluster.set_wall_clock(Millis(bench.now), november + 40 * 86_400_000);
    assert!(granted(&bench.give(Input::Tick)));
    ends(&mut bench, 2);
    assert!(granted(&bench.ask_for(5, None)));
}

#[test]
fn a_default_request_is_for_programs_and_ranks_that_ask_for_nothing() {
    let mut bench = with_agent();
    bench.apply("[account.physics]\nusers = [\"*\"]\ndefault = \"1:cpu\"\n");
    assert!(granted(&bench.ask_for(1, None)));
    assert_eq!(bench.cluster.scheduler().running(), 1);
    // The ranks of one MPI program share a job, in any order. A new policy applies to later programs.
    for client in [2, 3] {
        assert!(granted(&bench.open_as_rank(client, 7)), "rank {client}");
        assert_eq!(bench.cluster.scheduler().running(), 2);
        bench.apply("[account.physics]\nusers = [\"*\"]\ndefault = \"2:cpu\"\n");
    }
    assert!(bench.leases_are_of_jobs());
    // A launcher that does not name its job can't evade the default.
    let unnamed = bench.give(Input::Open {
        client: ClientId(4),
        request: accord_types::SessionRequest { rank: rank(0), ..request("h1") },
        key: key(4),
        user: ALICE.into(),
    });
    assert!(refused(&unnamed).is_some_and(|why| why.contains("one of 2 ranks asks for \"2:cpu\"")), "{unnamed:?}");
}

#[test]
fn ranks_that_ask_for_nothing_have_no_job_where_the_policy_has_no_default() {
    let mut bench = with_agent();
    bench.apply("[account.physics]\nusers = [\"*\"]\n");
    assert!(granted(&bench.open_as_rank(1, 7)) && granted(&bench.open_as_rank(2, 0)));
    assert_eq!(bench.cluster.scheduler().running(), 0);
    assert!(!bench.leases_are_of_jobs());
}

fn rank(job: u64) -> Option<accord_types::Rank> {
    Some(accord_types::Rank { rank: 0, size: 2, local_rank: 0, local_size: 2, job })
}

impl Bench {
    /// Whether all leases inform programs that their devices belong to a job.
    fn leases_are_of_jobs(&self) -> bool {
        let mut leases = self.cluster.sessions().filter_map(|session| self.cluster.lease(session.id));
        leases.all(|lease| lease.is_of_job)
    }

    /// Opens a session for a rank whose launcher names its job `job`.
    fn open_as_rank(&mut self, client: u64, job: u64) -> Vec<Effect> {
        let request = accord_types::SessionRequest { rank: rank(job), ..request("h1") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() })
    }
}

#[test]
fn a_program_that_comes_back_does_not_evade_the_default_request() {
    let mut bench = with_agent();
    bench.apply("[account.physics]\nusers = [\"*\"]\ndefault = \"1:cpu\"\n");
    assert!(granted(&bench.ask_for(1, None)));
    // A session of an earlier coordinator, if it existed.
    let (client, session, user) = (ClientId(2), SessionId(1 << 40), ALICE.to_owned());
    bench.give(Input::Attach { client, session, request: request("h1"), key: key(2), user });
    let devices = [0, 1].map(|ordinal| DeviceId { node: NodeId(0), ordinal });
    let mut effects = bench.give(Input::InUse { client, devices: devices.to_vec() });
    for device in devices {
        effects.extend(bench.give(Input::MayUse { client, device }));
    }
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::ToAgent(..))), "{effects:?}");
    // The devices may be those of its own job, which ends no program and is not given to another job.
    let known = bench.cluster.session(session).unwrap();
    assert!(known.used.is_empty() && known.client == Some(client), "{effects:?}");
    assert!(granted(&bench.ask_for(3, None)));
}

fn restart(now: u64, epoch: u64) -> Restart {
    Restart { now: Millis(now), committed: Millis(now), unix_ms: 1_000 + now, epoch }
}

/// How the coordinator learns that a session is older than the policy: from its records, or from an agent before or after the program is back.
#[derive(Clone, Copy, PartialEq, Debug)]
enum LearnedFrom {
    Records,
    AgentBefore,
    AgentAfter,
}

#[test]
fn a_session_that_is_older_than_the_default_request_needs_no_job() {
    let device = |ordinal| DeviceId { node: NodeId(0), ordinal };
    for known_from in [LearnedFrom::Records, LearnedFrom::AgentBefore, LearnedFrom::AgentAfter] {
        let mut bench = Bench::of(Cluster::restore(Limits::default(), &Records::new(), restart(0, 1)).unwrap());
        bench.now = 60_000;
        bench.give(Input::Tick);
        bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
        assert!(granted(&bench.ask_for(1, None)));
        let session = bench.cluster.sessions().next().unwrap().id;
        bench.give(Input::MayUse { client: ClientId(1), device: device(0) });

        let is_recorded = known_from == LearnedFrom::Records;
        let records = if is_recorded { bench.cluster.all_records() } else { Records::new() };
        bench.cluster = Cluster::restore(Limits::default(), &records, restart(bench.now, 2)).unwrap();
        bench.apply("[account.physics]\nusers = [\"*\"]\ndefault = \"1:cpu\"\n");
        let attach = |bench: &mut Bench, client| {
            let (client, user) = (ClientId(client), ALICE.to_owned());
            let attach = Input::Attach { client, session, request: request("h1"), key: key(1), user };
            bench.give(attach).contains(&Effect::ToClient(client, ClientPush::Attached))
        };
        assert_eq!(attach(&mut bench, 2), is_recorded, "{known_from:?}");
        let sessions = if is_recorded { vec![] } else { vec![grant(session, key(1), ALICE)] };
        let back = Input::Register { link: LinkId(2), registration: Registration { sessions, ..registration("h1") } };
        if known_from == LearnedFrom::AgentAfter {
            bench.now += 2_000;
            assert!(attach(&mut bench, 3));
            bench.give(back);
        } else {
            bench.give(back);
            assert!(is_recorded || attach(&mut bench, 3));
        }
        let client = bench.cluster.session(session).unwrap().client.unwrap();
        bench.give(Input::InUse { client, devices: vec![device(0)] });
        bench.give(Input::MayUse { client, device: device(1) });
        let used = &bench.cluster.session(session).unwrap().used;
        assert!(used.iter().copied().eq([device(0), device(1)]), "{known_from:?}: {used:?}");
    }
}

#[test]
fn a_made_up_session_does_not_evade_the_default_request_after_a_restart_either() {
    let mut bench = Bench::of(Cluster::restore(Limits::default(), &Records::new(), restart(0, 1)).unwrap());
    bench.apply("[account.physics]\nusers = [\"*\"]\ndefault = \"1:cpu\"\n");
    bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    let (session, device) = (SessionId(1 << 40), DeviceId { node: NodeId(0), ordinal: 0 });
    let uses = |bench: &mut Bench, number| {
        bench.now += 60_000;
        let (client, user) = (ClientId(number), ALICE.to_owned());
        bench.give(Input::Attach { client, session, request: request("h1"), key: key(1), user });
        bench.give(Input::MayUse { client, device });
        bench.give(Input::ProgramUsed { client, uses: vec![(device, DeviceUse::default())] });
        assert!(bench.cluster.session(session).unwrap().used.is_empty());
    };
    uses(&mut bench, 1);
    let records = bench.cluster.all_records();
    bench.cluster = Cluster::restore(Limits::default(), &records, restart(bench.now, 2)).unwrap();
    uses(&mut bench, 2);
}

#[test]
fn a_check_names_jobs_on_nodes_and_of_priorities_that_the_policy_no_longer_allows() {
    let mut bench = with_agent();
    bench.apply("[account.physics]\nusers = [\"*\"]\npriorities = [0, 9]\n");
    assert!(granted(&bench.ask_for(1, Some("2:cpu"))));
    assert!(!granted(&bench.ask_for(2, Some("1:cpu priority=9"))));
    let text = "[account.physics]\nusers = [\"*\"]\npriorities = [0, 2]\nnodes = { rack = \"r7\" }\n";
    let (new, keys) = (policy(text), KeyPositions::new(text));
    let changes = bench.cluster.policy_changes(&new);
    let placed = |change: &Change| format!("{}: {change}", change.position(&new, &keys).unwrap());
    let named: Vec<String> = changes.iter().map(placed).collect();
    assert_eq!(
        named,
        [
            "4:1: job 1 would run on, on node h1, which new jobs of physics may not use",
            "4:1: job 2 would wait without end on the nodes of physics: it needs 1 of d, and 0 of those that it may use work",
            "3:1: job 2 would keep its priority 9, although new jobs of physics may use priorities 0 to 2 only",
        ]
    );
}

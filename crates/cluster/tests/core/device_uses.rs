//! Reports of programs and agents on the use of devices are charged once, bounded, and decide whether a job is idle.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{
    ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, Records, Registration, Restart,
};
use accord_scheduler::JobId;
use accord_scheduler::ledger::{Activity, Row, UsageBy};
use accord_scheduler::policy::SitePolicy;
use accord_types::{
    DeviceId, DeviceUse, HeldDevice, JobGrant, JobToken, NodeId, SessionId, SessionKey, SessionRequest,
};
use proptest::prelude::*;

const MINUTE: u64 = 60_000;

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

fn used(busy_ms: u64, bytes_in: u64) -> DeviceUse {
    DeviceUse { busy_ms: Some(busy_ms), bytes_in, bytes_out: bytes_in.saturating_mul(2), held: 64, fault: None }
}

/// Creates a coordinator with an agent of two devices, and a policy.
fn with_policy(text: &str) -> Bench {
    let mut bench = Bench::new();
    bench.now = MINUTE;
    bench.give(Input::Tick);
    bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    let text = format!("{text}\n[account.physics]\nusers = [\"*\"]\n");
    let policy = Box::new(SitePolicy::read(&text, None).unwrap());
    bench.give(Input::ApplyPolicy { policy, by: "admin root".into() });
    bench
}

impl Bench {
    fn open_and_use(&mut self, client: u64, devices: Option<&str>) -> SessionId {
        let request = SessionRequest { devices: devices.map(str::to_owned), ..request("h1") };
        let effects =
            self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() });
        let granted = effects.iter().find_map(|effect| match effect {
            Effect::ToClient(_, ClientPush::Granted(session)) => Some(*session),
            _ => None,
        });
        if devices.is_none() {
            self.give(Input::MayUse { client: ClientId(client), device: DeviceId { node: self.node(), ordinal: 0 } });
        }
        granted.unwrap_or_else(|| panic!("{effects:?}"))
    }

    /// Returns the only node.
    fn node(&self) -> NodeId {
        self.cluster.nodes().next().unwrap().id
    }

    fn program_used(&mut self, client: u64, ordinal: u32, used: DeviceUse) -> Vec<Effect> {
        let device = DeviceId { node: self.node(), ordinal };
        self.give(Input::ProgramUsed { client: ClientId(client), uses: vec![(device, used)] })
    }

    fn agent_used(&mut self, session: SessionId, ordinal: u32, used: DeviceUse) -> Vec<Effect> {
        self.give(Input::AgentUsed { link: LinkId(1), uses: vec![(session, ordinal, used)] })
    }

    fn beat_for(&mut self, ms: u64) -> Vec<Effect> {
        let (mut effects, until) = (Vec::new(), self.now + ms);
        while self.now < until {
            self.now += 1_000;
            self.give(Input::Heartbeat { link: LinkId(1), sessions: Vec::new() });
            effects.extend(self.give(Input::Tick));
        }
        effects
    }

    fn row(&mut self) -> Row {
        let now = Millis(self.now);
        self.cluster.usage(now).by(UsageBy::User, None).first().map(|line| line.row).unwrap_or_default()
    }

    /// Returns the warnings to programs, and the reason for a job's end.
    fn reported(effects: &[Effect]) -> (Vec<String>, Option<String>) {
        let mut reported = (Vec::new(), None);
        for effect in effects {
            match effect {
                Effect::ToClient(_, ClientPush::Warning(text)) => reported.0.push(text.clone()),
                Effect::ToClient(_, ClientPush::Ended(text)) => reported.1 = Some(text.clone()),
                _ => {}
            }
        }
        reported
    }
}

#[test]
fn a_program_that_asks_for_nothing_is_charged_what_it_uses() {
    let mut bench = with_policy("[billing]\nany = 2\n");
    bench.open_and_use(1, None);
    bench.beat_for(10 * MINUTE);
    assert_eq!(bench.row(), Row::default(), "its lease costs nothing");
    bench.program_used(1, 0, used(4 * MINUTE, 10));
    // The same report is repeated.
    bench.program_used(1, 0, used(4 * MINUTE, 10));
    let row = bench.row();
    assert_eq!((row.usage.milli_ms, row.usage.billed), (4 * 60_000_000, 8 * 60_000_000_000));
    assert_eq!((row.activity.busy_ms, row.activity.bytes_in, row.activity.bytes_out), (4 * MINUTE, 10, 20));
    // Fair share and monthly budgets include the use.
    assert_eq!(bench.cluster.scheduler().usage("physics/alice").unwrap(), row.usage);
    assert_eq!(bench.cluster.scheduler().usage("site").unwrap(), row.usage);
    assert!(bench.cluster.ended_jobs(Millis(bench.now), None, None).jobs.is_empty());
}

/// Returns a coordinator that has restarted with its state file, and the session that used one of two devices. A job
/// holds the other device.
fn with_earlier_use() -> (Bench, SessionId) {
    let mut bench = Bench::new();
    let restart = |now, epoch| Restart { now: Millis(now), committed: Millis(now), unix_ms: 1_000 + now, epoch };
    bench.cluster = Cluster::restore(Limits::default(), &Records::new(), restart(0, 1)).unwrap();
    bench.now = MINUTE;
    bench.give(Input::Tick);
    let register = |bench: &mut Bench| {
        bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    };
    register(&mut bench);
    let session = bench.open_and_use(1, None);
    bench.program_used(1, 0, used(1_000, 1));
    let records = bench.cluster.all_records();
    bench.cluster = Cluster::restore(Limits::default(), &records, restart(bench.now, 2)).unwrap();
    register(&mut bench);
    let job = bench.open_and_use(2, Some("1:cpu"));
    assert_eq!(bench.cluster.session(job).unwrap().lease.devices[0].ordinal, 1);
    (bench, session)
}

impl Bench {
    /// Requests a device for a program, which may have to wait.
    fn ask_for_one(&mut self, client: u64) {
        let request = SessionRequest { devices: Some("1:cpu".to_owned()), ..request("h1") };
        self.give(Input::Open { client: ClientId(client), request, key: key(client), user: ALICE.into() });
    }
}

#[test]
fn a_client_that_names_a_session_and_goes_frees_no_device_that_was_in_use_before_the_restart() {
    // The records have it as a session of alice.
    for user in [ALICE, "mallory"] {
        let (mut bench, session) = with_earlier_use();
        let client = ClientId(4);
        let attach = Input::Attach { client, session, request: request("h1"), key: key(4), user: user.into() };
        let is_taken = bench.give(attach).contains(&Effect::ToClient(client, ClientPush::Attached));
        assert_eq!(is_taken, user == ALICE);
        let devices = vec![DeviceId { node: bench.node(), ordinal: 0 }];
        bench.give(Input::InUse { client, devices });
        bench.give(Input::ClientGone { client });
        let opened = bench.cluster.session_count();
        bench.ask_for_one(3);
        assert_eq!(bench.cluster.session_count(), opened);
        bench.beat_for(62_000);
        assert_eq!(bench.cluster.session_count(), opened + 1);
    }
}

#[test]
fn no_job_gets_a_device_that_a_program_used_before_the_restart_until_the_program_should_be_back() {
    for comes_back in [false, true] {
        let (mut bench, session) = with_earlier_use();
        bench.ask_for_one(3);
        if comes_back {
            let client = ClientId(4);
            let attach = Input::Attach { client, session, request: request("h1"), key: key(1), user: ALICE.into() };
            bench.give(attach);
            let devices = vec![DeviceId { node: bench.node(), ordinal: 0 }];
            bench.give(Input::InUse { client, devices });
        }
        bench.beat_for(58_000);
        let opened = bench.cluster.session_count();
        bench.beat_for(4_000);
        assert_eq!(bench.cluster.session_count() - opened, usize::from(!comes_back));
    }
}

#[test]
fn a_device_is_busy_no_longer_than_time_passes() {
    let mut bench = with_policy("");
    bench.open_and_use(1, None);
    bench.beat_for(MINUTE);
    bench.program_used(1, 0, used(u64::MAX, u64::MAX));
    bench.program_used(1, 0, used(0, 0));
    bench.program_used(1, 0, used(u64::MAX, u64::MAX));
    let row = bench.row();
    assert!((MINUTE..=MINUTE + 2_000).contains(&row.activity.busy_ms), "{row:?}");
    assert!(row.activity.bytes_in < 1 << 52 && row.activity.bytes_out < 1 << 52, "{row:?}");
    // A flood of reports does not increase the charge.
    for _ in 0..1_000 {
        bench.program_used(1, 0, used(u64::MAX, u64::MAX));
    }
    assert_eq!(bench.row(), row);
    // The rest of an exaggerated report counts as time passes.
    bench.beat_for(MINUTE);
    bench.program_used(1, 0, used(u64::MAX, 0));
    assert!((2 * MINUTE..=2 * MINUTE + 2_000).contains(&bench.row().activity.busy_ms), "{:?}", bench.row());
}

#[test]
fn reports_on_foreign_devices_and_sessions_change_nothing() {
    let mut bench = with_policy("");
    bench.open_and_use(1, Some("1:cpu"));
    let session = bench.open_and_use(2, Some("1:cpu"));
    let own = bench.cluster.session(session).unwrap().lease.devices[0].ordinal;
    bench.beat_for(MINUTE);
    // Reports on another job's device, and on devices, nodes and sessions that do not exist.
    for ordinal in [1 - own, 77] {
        bench.program_used(2, ordinal, used(1_000, 1));
        bench.agent_used(session, ordinal, used(1_000, 1));
    }
    let nowhere = DeviceId { node: NodeId(u32::MAX), ordinal: own };
    bench.give(Input::ProgramUsed { client: ClientId(2), uses: vec![(nowhere, used(1_000, 1))] });
    bench.program_used(3, own, used(1_000, 1));
    bench.agent_used(SessionId(77), own, used(1_000, 1));
    assert_eq!(bench.row().activity, Activity::default());
    assert_eq!(bench.cluster.device_uses(session).count(), 0);
    // The program's own device counts, and memory is limited to the device's.
    bench.program_used(2, own, DeviceUse { held: u64::MAX, ..used(1_000, 1) });
    let (device, displayed) = bench.cluster.device_uses(session).next().unwrap();
    assert_eq!((device.ordinal, displayed), (own, DeviceUse { held: 1, ..used(1_000, 1) }));
    assert_eq!(bench.row().activity.busy_ms, 1_000);
}

#[test]
fn a_job_s_use_includes_the_last_reports_of_its_executors() {
    let mut bench = with_policy("");
    let session = bench.open_and_use(1, Some("2:cpu"));
    bench.beat_for(MINUTE);
    bench.program_used(1, 0, used(20_000, 1));
    bench.agent_used(session, 1, used(10_000, 2));
    let job = |bench: &Bench| bench.cluster.job_use(Millis(bench.now), JobId(1)).unwrap().1;
    assert_eq!((job(&bench).activity.busy_ms, job(&bench).is_unknown), (30_000, false));
    let grant = bench.cluster.session(session).unwrap();
    let grant = accord_types::SessionGrant {
        session,
        key: grant.owner.key,
        user: ALICE.into(),
        ends_in_ms: None,
        program: grant.program.clone(),
        node_name: grant.node_name.clone(),
        pid: grant.pid,
        rank: None,
        ordinals: vec![0, 1],
        memory_quota: 0,
        stream_quota: 0,
        plain_tcp: false,
        opened_unix_ms: 0,
        job: grant.job,
    };
    bench.give(Input::ExecutorStarted { link: LinkId(1), grant });
    bench.give(Input::ClientGone { client: ClientId(1) });
    // The agent confirms the end of the session at once; its executor ends later.
    bench.give(Input::ExecutorEnded { link: LinkId(1), session, why: String::new() });
    bench.agent_used(session, 1, used(12_000, 5));
    bench.agent_used(session, 0, used(500, 0));
    let page = bench.cluster.ended_jobs(Millis(bench.now), None, None);
    let did = page.jobs[0].did;
    assert_eq!((did.activity.busy_ms, did.activity.bytes_in, did.is_unknown), (32_500, 6, false));
    assert_eq!(bench.row().activity, did.activity);
    // Only the hold is charged.
    assert_eq!(bench.row().usage, page.jobs[0].used);
}

#[test]
fn use_that_is_not_reported_is_unknown() {
    let mut bench = with_policy("");
    bench.open_and_use(1, Some("1:cpu"));
    bench.give(Input::MayUse { client: ClientId(1), device: DeviceId { node: NodeId(0), ordinal: 0 } });
    bench.beat_for(MINUTE);
    bench.give(Input::ClientGone { client: ClientId(1) });
    assert!(bench.cluster.ended_jobs(Millis(bench.now), None, None).jobs[0].did.is_unknown);
    let row = bench.row();
    assert_eq!(row.unknown_milli_ms, row.usage.milli_ms);
    // A program that never used a device has certainly done nothing.
    bench.give(Input::JobReleased { link: LinkId(1), job: key(1) });
    bench.open_and_use(2, Some("1:cpu"));
    bench.give(Input::ClientGone { client: ClientId(2) });
    assert!(!bench.cluster.ended_jobs(Millis(bench.now), None, None).jobs[0].did.is_unknown);
}

#[test]
fn the_use_by_an_executor_that_ends_without_a_report_is_unknown() {
    let mut bench = with_policy("");
    let session = bench.open_and_use(1, Some("1:cpu"));
    bench.give(Input::MayUse { client: ClientId(1), device: DeviceId { node: NodeId(0), ordinal: 0 } });
    let job = bench.cluster.session(session).unwrap().job;
    let grant = accord_types::SessionGrant { job, ..grant(session, key(1), ALICE) };
    bench.give(Input::ExecutorStarted { link: LinkId(1), grant });
    bench.give(Input::ClientGone { client: ClientId(1) });
    let did = |bench: &Bench| bench.cluster.ended_jobs(Millis(bench.now), None, None).jobs[0].did;
    assert!(!did(&bench).is_unknown, "it may report");
    // An agent confirms the end of a session before that of its executor.
    bench.give(Input::ExecutorEnded { link: LinkId(1), session, why: String::new() });
    assert!(!did(&bench).is_unknown, "it may still report");
    bench.give(Input::UseEnded { link: LinkId(1), sessions: vec![session] });
    assert!(did(&bench).is_unknown);
    // Reports after the end do not count.
    bench.agent_used(session, 0, used(500, 1));
    assert_eq!(did(&bench).activity, Activity::default());
}

#[test]
fn an_exclusive_job_that_does_nothing_is_warned_and_ended() {
    let mut bench = with_policy("idle = \"30m\"\ngrace = \"2m\"\n");
    bench.open_and_use(1, Some("1:cpu"));
    bench.program_used(1, 0, used(0, 0));
    bench.beat_for(10 * MINUTE);
    bench.program_used(1, 0, used(1_000, 0));
    let (warned, ended) = Bench::reported(&bench.beat_for(27 * MINUTE));
    assert_eq!((warned.len(), ended), (0, None));
    let (warned, ended) = Bench::reported(&bench.beat_for(MINUTE + 2_000));
    assert_eq!((warned.len(), &ended), (1, &None), "{warned:?}");
    assert!(warned[0].contains("job 1 has done nothing with its devices for 28m"), "{warned:?}");
    // The program uses a device, and is warned again later.
    bench.program_used(1, 0, used(1_000, 7));
    assert_eq!(Bench::reported(&bench.beat_for(27 * MINUTE)), (Vec::new(), None));
    let (warned, ended) = Bench::reported(&bench.beat_for(4 * MINUTE));
    assert!(
        warned.len() == 1 && ended.as_ref().is_some_and(|why| why.contains("did nothing with its devices")),
        "{ended:?}"
    );
    let page = bench.cluster.ended_jobs(Millis(bench.now), None, None);
    assert_eq!(page.jobs[0].cause, accord_scheduler::EndCause::Idle);
    assert_eq!(page.jobs[0].events.len(), 2, "{page:?}");
}

#[test]
fn a_job_whose_use_is_unknown_or_that_shares_its_devices_is_not_ended_as_idle() {
    for (devices, report) in
        [("1:cpu", Some(DeviceUse { busy_ms: None, ..used(0, 0) })), ("1:cpu", None), ("1:cpu:50%", Some(used(0, 0)))]
    {
        let mut bench = with_policy("idle = \"5m\"\n");
        bench.open_and_use(1, Some(devices));
        bench.give(Input::MayUse { client: ClientId(1), device: DeviceId { node: NodeId(0), ordinal: 0 } });
        if let Some(report) = report {
            bench.program_used(1, 0, report);
        }
        assert_eq!(Bench::reported(&bench.beat_for(20 * MINUTE)), (Vec::new(), None), "{devices} {report:?}");
    }
    // A job is ended if its program uses no device at all.
    let mut bench = with_policy("idle = \"5m\"\n");
    bench.open_and_use(1, Some("1:cpu"));
    assert!(Bench::reported(&bench.beat_for(6 * MINUTE)).1.is_some());
}

proptest! {
    /// Reports may be lost, repeated or late. The last one that arrives determines the total charge.
    #[test]
    fn lost_and_repeated_reports_charge_nothing_twice(
        steps in prop::collection::vec((1u64..30, 0u64..30, 0u8..4), 1..60),
    ) {
        let mut bench = with_policy("");
        bench.open_and_use(1, None);
        let (mut busy, mut bytes, mut reported) = (0, 0, (0, 0));
        for (seconds, busy_s, how) in steps {
            bench.beat_for(seconds * 1_000);
            busy += busy_s.min(seconds) * 1_000;
            bytes += busy_s;
            for _ in 0..how {
                bench.program_used(1, 0, used(busy, bytes));
                reported = (busy, bytes);
            }
        }
        let row = bench.row();
        prop_assert_eq!((row.activity.busy_ms, row.activity.bytes_in), reported);
        prop_assert_eq!(row.usage.milli_ms, u128::from(reported.0) * 1_000);
    }
}

const UNIX_MS: u64 = 1_800_000_000_000;

/// A coordinator with a state file, and the records after each input.
struct BenchWithRecords {
    bench: Bench,
    epoch: u64,
    records: Vec<Records>,
}

impl BenchWithRecords {
    fn new() -> Self {
        let mut kept = Self { bench: Bench::new(), epoch: 0, records: vec![Records::new()] };
        kept.restart(0);
        kept
    }

    /// Ends the coordinator, without the inputs after `saved_state`, which were not durable, and starts another one.
    fn restart(&mut self, kept: usize) {
        self.epoch += 1;
        self.records.truncate(kept + 1);
        let now = Millis(self.bench.now);
        let restart = Restart { now, committed: now, unix_ms: UNIX_MS + self.bench.now, epoch: self.epoch };
        self.bench.cluster = Cluster::restore(Limits::default(), &self.records[kept], restart).unwrap();
        self.give(Input::Tick);
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let effects = self.bench.give(input);
        let mut records = self.records.last().cloned().unwrap_or_default();
        for record in self.bench.cluster.take_step().records {
            record.apply(&mut records);
        }
        let all = self.bench.cluster.all_records();
        let differs = |key: &&String| records.get(*key) != all.get(*key);
        let wrong: Vec<&String> = records.keys().chain(all.keys()).filter(differs).collect();
        assert!(wrong.is_empty(), "not recorded: {wrong:?}");
        self.records.push(records);
        effects
    }

    /// Registers the agent, and opens or continues a program's session.
    fn connect(&mut self, session: Option<SessionId>) -> SessionId {
        let sessions = session.map(|session| grant(session, key(1), ALICE)).into_iter().collect();
        let registration = Registration { sessions, ..registration("h1") };
        self.give(Input::Register { link: LinkId(self.epoch), registration });
        let (client, user) = (ClientId(self.epoch), ALICE.to_owned());
        match session {
            Some(session) => {
                self.give(Input::Attach { client, session, request: request("h1"), key: key(1), user });
                session
            }
            None => {
                self.give(Input::Open { client, request: request("h1"), key: key(1), user });
                self.give(Input::MayUse { client, device: DeviceId { node: self.bench.node(), ordinal: 0 } });
                self.bench.cluster.sessions().next().unwrap().id
            }
        }
    }

    fn report(&mut self, session: SessionId, program: DeviceUse, agent: DeviceUse) {
        let node = self.bench.node();
        let uses = vec![(DeviceId { node, ordinal: 0 }, program)];
        self.give(Input::ProgramUsed { client: ClientId(self.epoch), uses });
        self.give(Input::AgentUsed { link: LinkId(self.epoch), uses: vec![(session, 1, agent)] });
    }
}

proptest! {
    /// A coordinator is killed at any moment and loses inputs that were not durable. The use of devices is charged
    /// once.
    #[test]
    fn use_is_charged_once_over_restarts(
        steps in prop::collection::vec((1_u64..20, 0_u64..20, any::<bool>(), prop::option::of(0_usize..6)), 1..25),
    ) {
        let mut kept = BenchWithRecords::new();
        let session = kept.connect(None);
        let (mut program, mut agent) = (used(0, 0), used(0, 0));
        for (seconds, busy_s, reports, lost) in steps {
            kept.bench.now += seconds * 1_000;
            let busy_ms = busy_s.min(seconds) * 1_000;
            program = used(program.busy_ms.unwrap() + busy_ms, program.bytes_in + busy_s);
            agent = used(agent.busy_ms.unwrap() + busy_ms / 2, agent.bytes_in + 1);
            if reports {
                kept.report(session, program, agent);
            }
            if let Some(lost) = lost {
                kept.restart((kept.records.len() - 1).saturating_sub(lost));
                kept.connect(Some(session));
            }
        }
        kept.report(session, program, agent);
        let row = kept.bench.row();
        let busy_ms = program.busy_ms.unwrap() + agent.busy_ms.unwrap();
        prop_assert_eq!((row.activity.busy_ms, row.activity.bytes_in), (busy_ms, program.bytes_in + agent.bytes_in));
        prop_assert_eq!(row.usage.milli_ms, u128::from(busy_ms) * 1_000);
        let displayed: u64 = kept.bench.cluster.device_uses(session).filter_map(|(_, used)| used.busy_ms).sum();
        prop_assert_eq!(displayed, busy_ms);
    }
}

#[test]
fn a_job_that_only_its_agent_knows_is_charged_to_the_users_default_account() {
    let mut bench = with_policy("");
    let held = HeldDevice { ordinal: 0, milli: 1_000, memory: 1, exclusive: true, milli_cores: 0, host_memory: 0 };
    let job = JobGrant {
        token: JobToken { job: 7, key: key(7) },
        user: ALICE.into(),
        // An account that the policy does not have.
        account: format!("chemistry/{ALICE}"),
        ends_in_ms: None,
        devices: vec![held],
        sessions: Vec::new(),
        is_suspended: false,
    };
    bench.give(Input::Register {
        link: LinkId(2),
        registration: Registration { jobs: vec![job], ..registration("h2") },
    });
    let open = bench.cluster.job_use(Millis(bench.now), JobId(7));
    assert!(open.is_some(), "the job has no record");
    // No session returns, so the job ends.
    bench.now += 40_000;
    bench.give(Input::Heartbeat { link: LinkId(2), sessions: Vec::new() });
    bench.give(Input::Tick);
    bench.give(Input::JobReleased { link: LinkId(2), job: key(7) });
    let page = bench.cluster.ended_jobs(Millis(bench.now), None, None);
    let [ended] = &page.jobs[..] else { panic!("{page:?}") };
    assert_eq!(
        (ended.job, ended.submission.user.as_str(), ended.submission.account.as_str()),
        (JobId(7), ALICE, "physics")
    );
    assert_eq!((ended.used.milli_ms, bench.row().usage), (40_000_000, ended.used));
    assert_eq!(ended.devices.len(), 1);
}

//! Faults of devices: which of them begin a quarantine, who is informed, and how a quarantine ends.

use crate::bench::{ALICE, Bench, KEY, device, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, Records, Registration, Restart,
};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{Input as Scheduled, JobId, Quarantine};
use accord_types::{
    DeviceFault, DeviceId, DeviceInfo, DeviceUse, DeviceVerdict, NodeId, SessionId, SessionKey, SessionRequest,
    SiteScript,
};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const BOB: &str = "bob";
const LINK: LinkId = LinkId(1);

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

/// The driver's error for a faulty device, and below for a faulty region.
fn ecc() -> Option<DeviceFault> {
    DeviceFault::cuda(214)
}

fn illegal_address() -> Option<DeviceFault> {
    DeviceFault::cuda(700)
}

fn used(fault: Option<DeviceFault>) -> DeviceUse {
    DeviceUse { busy_ms: Some(0), fault, ..DeviceUse::default() }
}

/// Creates a coordinator with an agent of `count` devices.
fn with_devices(count: u32) -> Bench {
    let mut bench = Bench::new();
    bench.now = MINUTE;
    bench.give(Input::Tick);
    let devices = (0..count).map(device).collect();
    bench.give(Input::Register { link: LINK, registration: Registration { devices, ..registration("h1") } });
    let policy = Box::new(SitePolicy::read("[account.physics]\nusers = [\"*\"]\n", None).unwrap());
    bench.give(Input::ApplyPolicy { policy, by: "admin root".into() });
    bench
}

impl Bench {
    /// Opens a program's session, with or without a request.
    fn open_as(&mut self, client: u64, user: &str, devices: Option<&str>) -> SessionId {
        let request = SessionRequest { devices: devices.map(str::to_owned), ..request("h1") };
        let open = Input::Open { client: ClientId(client), request, key: key(client), user: user.into() };
        let effects = self.give(open);
        let granted = effects.iter().find_map(|effect| match effect {
            Effect::ToClient(_, ClientPush::Granted(session)) => Some(*session),
            _ => None,
        });
        granted.unwrap_or_else(|| panic!("{effects:?}"))
    }

    fn device(&self, ordinal: u32) -> DeviceId {
        DeviceId { node: self.cluster.nodes().next().unwrap().id, ordinal }
    }

    fn agent_says(&mut self, session: SessionId, ordinal: u32, fault: Option<DeviceFault>) -> Vec<Effect> {
        self.agent_of(LINK, session, ordinal, fault)
    }

    /// The agent of a connection reports a fault that a session's program has shown, which has used the device.
    fn agent_of(&mut self, link: LinkId, session: SessionId, ordinal: u32, fault: Option<DeviceFault>) -> Vec<Effect> {
        if let Some(client) = self.cluster.session(session).and_then(|session| session.client) {
            self.give(Input::MayUse { client, device: self.device(ordinal) });
        }
        self.give(Input::AgentUsed { link, uses: vec![(session, ordinal, used(fault))] })
    }

    fn program_says(&mut self, client: u64, ordinal: u32, fault: Option<DeviceFault>) -> Vec<Effect> {
        self.give(Input::MayUse { client: ClientId(client), device: self.device(ordinal) });
        let uses = vec![(self.device(ordinal), used(fault))];
        self.give(Input::ProgramUsed { client: ClientId(client), uses })
    }

    /// Answers the last order to test a device, or no order if there was none.
    fn tested(&mut self, ordinal: u32, verdict: DeviceVerdict) -> Vec<Effect> {
        let number = self.test_orders.get(&ordinal).copied().unwrap_or(0);
        self.give(Input::DeviceTested { link: LINK, ordinal, number, verdict })
    }

    fn quarantine(&self, ordinal: u32) -> Option<Quarantine> {
        self.cluster.scheduler().quarantine_of(self.device(ordinal)).cloned()
    }

    /// Lets time pass. Returns the ordered tests with their times from now.
    fn tests_within(&mut self, ms: u64) -> Vec<(u64, u32)> {
        let (begin, mut tests) = (self.now, Vec::new());
        while self.now < begin + ms {
            self.now += 1_000;
            self.give(Input::Heartbeat { link: LINK, sessions: Vec::new() });
            for effect in self.give(Input::Tick) {
                if let Effect::ToAgent(LINK, AgentOrder::TestDevice(ordinal, _)) = effect {
                    tests.push((self.now - begin, ordinal));
                }
            }
        }
        tests
    }
}

#[test]
fn a_device_with_a_fault_of_its_own_is_in_quarantine_until_a_test_passes() {
    let mut bench = with_devices(2);
    let session = bench.open_as(1, ALICE, None);
    bench.open_as(9, BOB, None);
    bench.agent_says(session, 0, None);
    assert_eq!(bench.quarantine(0), None);
    bench.agent_says(session, 0, ecc());
    let quarantine = bench.quarantine(0).expect("a fault of its own");
    assert_eq!(quarantine.reason, "an uncorrectable ECC error (CUDA error 214)");
    assert_eq!((quarantine.since.0, quarantine.by), (bench.now, None));
    // Neither a job nor a program without a request gets the device, even if the program knows it.
    let device = bench.device(0);
    let answer = bench.give(Input::MayUse { client: ClientId(9), device });
    let refused = answer.iter().any(|effect| match effect {
        Effect::ToClient(_, ClientPush::UseAnswered(to, Some(error))) if *to == device => {
            error.cause().contains("is in quarantine: an unc")
        }
        _ => false,
    });
    assert!(refused, "{answer:?}");
    let other = bench.open_as(2, BOB, Some("1:cpu"));
    assert_eq!(bench.cluster.session(other).unwrap().lease.devices, [bench.device(1)]);
    // A failed or inconclusive test is followed by another one after a longer time.
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 0)]);
    bench.tested(0, DeviceVerdict::Faulty("a test shows an uncorrectable ECC error (CUDA error 214)".into()));
    assert_eq!(bench.tests_within(MINUTE), [(MINUTE, 0)]);
    bench.tested(0, DeviceVerdict::Unknown("the test took more than 30 s".into()));
    assert_eq!(bench.tests_within(2 * MINUTE), [(2 * MINUTE, 0)]);
    assert!(bench.quarantine(0).is_some());
    bench.tested(0, DeviceVerdict::Works);
    assert_eq!(bench.quarantine(0), None);
    assert_eq!(bench.tests_within(HOUR), []);
    // A repeated report is not a new fault. A fault on the same day is tested after a longer time.
    bench.agent_says(session, 0, ecc());
    assert_eq!(bench.quarantine(0), None);
    let third = bench.open_as(3, ALICE, None);
    bench.agent_says(third, 0, ecc());
    assert!(bench.quarantine(0).is_some());
    assert_eq!(bench.tests_within(4 * MINUTE), [(4 * MINUTE, 0)]);
}

#[test]
fn a_fault_that_a_region_may_have_caused_counts_once_two_users_have_shown_it() {
    let mut bench = with_devices(2);
    let sessions = [ALICE, ALICE, BOB, BOB].map(|user| {
        let client = bench.cluster.session_count() as u64 + 1;
        bench.open_as(client, user, None)
    });
    // Programs of one user hit the fault twice. Another user's program hits another fault, and the same fault on
    // another device.
    bench.agent_says(sessions[0], 0, illegal_address());
    bench.agent_says(sessions[1], 0, illegal_address());
    bench.agent_says(sessions[2], 0, DeviceFault::cuda(716));
    bench.agent_says(sessions[2], 1, illegal_address());
    assert_eq!([0, 1].map(|ordinal| bench.quarantine(ordinal)), [None, None]);
    bench.agent_says(sessions[3], 0, illegal_address());
    let quarantine = bench.quarantine(0).expect("two users");
    assert_eq!(quarantine.reason, "programs of two users have shown an illegal address (CUDA error 700)");
    // The regions may still be at fault. The device is tested at once, and the reports count no longer.
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    bench.tested(0, DeviceVerdict::Works);
    assert_eq!(bench.quarantine(0), None);
    let fifth = bench.open_as(5, ALICE, None);
    bench.agent_says(fifth, 0, illegal_address());
    assert_eq!(bench.quarantine(0), None);
    // The report is dropped after an hour.
    bench.tests_within(HOUR);
    let sixth = bench.open_as(6, BOB, None);
    bench.agent_says(sixth, 0, illegal_address());
    assert_eq!(bench.quarantine(0), None);
}

#[test]
fn a_program_s_word_on_its_own_device_has_it_tested_and_a_late_test_is_no_fault() {
    let mut bench = with_devices(2);
    bench.open_as(1, ALICE, None);
    bench.program_says(1, 0, ecc());
    assert_eq!(bench.quarantine(0), None);
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    for verdict in [DeviceVerdict::Unknown("the test took more than 30 s".into()), DeviceVerdict::Works] {
        bench.tested(0, verdict);
        assert_eq!(bench.quarantine(0), None);
    }
    // An answer without an order is ignored.
    bench.tested(1, DeviceVerdict::Faulty("it was not asked for".into()));
    assert_eq!(bench.quarantine(1), None);
    bench.tests_within(MINUTE);
    bench.open_as(2, ALICE, None);
    bench.program_says(2, 0, ecc());
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    bench.tested(0, DeviceVerdict::Faulty("a test shows an uncorrectable ECC error (CUDA error 214)".into()));
    assert!(bench.quarantine(0).is_some_and(|quarantine| quarantine.reason.starts_with("a test shows")));
    // Reports by two users' programs about another device only cause a test.
    bench.open_as(3, ALICE, None);
    bench.open_as(4, BOB, None);
    bench.program_says(3, 1, illegal_address());
    assert_eq!(bench.tests_within(1_000), []);
    bench.program_says(4, 1, illegal_address());
    assert_eq!(bench.tests_within(1_000), [(1_000, 1)]);
    assert_eq!(bench.quarantine(1), None);
}

#[test]
fn a_program_s_word_is_not_one_of_two_users_reports() {
    let mut bench = with_devices(2);
    bench.open_as(1, ALICE, None);
    bench.program_says(1, 0, illegal_address());
    // An honest user's region hits the same fault, which only causes a test.
    let honest = bench.open_as(2, BOB, None);
    bench.agent_says(honest, 0, illegal_address());
    assert_eq!(bench.quarantine(0), None);
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    // The same in the opposite order.
    bench.tests_within(2 * HOUR);
    let honest = bench.open_as(3, BOB, None);
    bench.agent_says(honest, 0, illegal_address());
    bench.open_as(4, ALICE, None);
    bench.program_says(4, 0, illegal_address());
    assert_eq!(bench.quarantine(0), None);
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    // An agent runs the program of a third user, whose report is the second one that counts.
    let third = bench.open_as(5, "carol", None);
    bench.agent_says(third, 0, illegal_address());
    assert!(bench.quarantine(0).is_some());
}

#[test]
fn a_program_s_word_counts_for_devices_of_its_own_node_that_no_other_job_has() {
    let mut bench = with_devices(2);
    let owner = bench.open_as(1, BOB, Some("1:cpu"));
    let held = bench.cluster.session(owner).unwrap().lease.devices[0].ordinal;
    let free = 1 - held;
    // Bob's job has one device. Alice's program may use all others, and reports faults of both.
    bench.open_as(2, ALICE, None);
    for fault in [ecc(), DeviceFault::cuda(220)] {
        bench.program_says(2, held, fault);
        assert_eq!(bench.tests_within(MINUTE), []);
    }
    // A job that has got the device since is not disturbed. The test follows its end.
    bench.program_says(2, free, ecc());
    bench.give(Input::ClientGone { client: ClientId(2) });
    bench.open_as(3, BOB, Some("1:cpu"));
    assert_eq!(bench.tests_within(5 * MINUTE), []);
    bench.give(Input::ClientGone { client: ClientId(3) });
    bench.give(Input::JobReleased { link: LINK, job: key(3) });
    let tests = bench.tests_within(MINUTE);
    assert!(matches!(tests[..], [(_, ordinal)] if ordinal == free), "{tests:?}");
    // The job's own program can have its device tested.
    bench.program_says(1, held, ecc());
    assert_eq!(bench.tests_within(1_000), [(1_000, held)]);
    // A program on a host without devices reports faults of another host's.
    bench.tests_within(MINUTE);
    bench.give(Input::Register { link: LinkId(2), registration: registration("h2") });
    let request = request("h2");
    bench.give(Input::Open { client: ClientId(4), request, key: key(4), user: ALICE.into() });
    bench.program_says(4, free, ecc());
    assert_eq!(bench.tests_within(MINUTE), []);
}

#[test]
fn a_session_shows_its_first_fault_of_a_device_and_then_only_one_that_is_the_device_s() {
    let mut bench = with_devices(2);
    let session = bench.open_as(1, ALICE, None);
    bench.program_says(1, 0, ecc());
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    bench.tested(0, DeviceVerdict::Works);
    for fault in [DeviceFault::cuda(220), ecc(), illegal_address()] {
        bench.tests_within(MINUTE);
        bench.program_says(1, 0, fault);
        assert_eq!(bench.tests_within(1_000), [], "{fault:?}");
    }
    bench.agent_says(session, 1, illegal_address());
    assert_eq!(bench.quarantine(1), None);
    bench.agent_says(session, 1, ecc());
    assert!(bench.quarantine(1).is_some());
}

#[test]
fn only_a_test_that_was_ordered_since_the_fault_ends_a_quarantine() {
    let mut bench = with_devices(2);
    let session = bench.open_as(1, ALICE, None);
    // The agent reports a fault while it tests the device because of a program's report.
    bench.program_says(1, 0, ecc());
    assert_eq!(bench.tests_within(1_000), [(1_000, 0)]);
    bench.agent_says(session, 0, ecc());
    bench.tested(0, DeviceVerdict::Works);
    assert!(bench.quarantine(0).is_some());
    // The planned test still takes place. A repeated order without an answer is the same test.
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 0)]);
    let first = bench.test_orders.clone();
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 0)]);
    assert_eq!(bench.test_orders, first);
    bench.tested(0, DeviceVerdict::Works);
    assert_eq!(bench.quarantine(0), None);
}

#[test]
fn faults_take_a_tenth_of_a_class_out_and_administrators_more() {
    let mut bench = with_devices(20);
    let session = bench.open_as(1, ALICE, None);
    for ordinal in 0..5 {
        bench.agent_says(session, ordinal, ecc());
    }
    let out =
        |bench: &Bench| bench.cluster.scheduler().quarantines().map(|(device, _)| device.ordinal).collect::<Vec<_>>();
    assert_eq!(out(&bench), [0, 1]);
    let by_hand = |bench: &Bench, ordinal| {
        let (reason, by) = ("it is loud".to_owned(), Some("admin root".to_owned()));
        let uuid = String::new();
        Input::Schedule(Scheduled::Quarantine { device: bench.device(ordinal), reason, by, charged: false, uuid })
    };
    for ordinal in [7, 8] {
        let input = by_hand(&bench, ordinal);
        bench.give(input);
    }
    assert_eq!(out(&bench), [0, 1, 7, 8]);
    // What an administrator has put there leaves room for faults, of which the first one comes that was refused.
    let input = by_hand(&bench, 0);
    bench.give(input);
    assert_eq!(out(&bench), [0, 1, 2, 7, 8]);
    // It stays until an administrator takes it out: no test does. For a device that works the next one comes.
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 1), (MINUTE / 2, 2)]);
    for ordinal in [0, 1, 7] {
        bench.tested(ordinal, DeviceVerdict::Works);
    }
    assert_eq!(out(&bench), [0, 2, 3, 7, 8]);
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 2), (MINUTE / 2, 3)]);
    for ordinal in [2, 3] {
        bench.tested(ordinal, DeviceVerdict::Works);
    }
    assert_eq!(out(&bench), [0, 4, 7, 8]);
    bench.agent_says(session, 9, ecc());
    assert_eq!(out(&bench), [0, 4, 7, 8, 9]);
    for ordinal in [0, 4, 7, 8, 9] {
        let device = bench.device(ordinal);
        bench.give(Input::Schedule(Scheduled::Unquarantine { device, by: "admin root".into() }));
    }
    assert!(out(&bench).is_empty());
    assert_eq!(bench.tests_within(HOUR), []);
}

#[test]
fn a_job_is_told_of_a_quarantine_and_not_charged_meanwhile() {
    let mut bench = with_devices(20);
    let session = bench.open_as(1, ALICE, Some("2:cpu"));
    let job = JobId(1);
    let devices = bench.cluster.session(session).unwrap().lease.devices.clone();
    let charged = |bench: &Bench| bench.cluster.job_use(Millis(bench.now), job).unwrap().0.milli_ms;
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), u128::from(2 * 1_000 * MINUTE));
    let effects = bench.agent_says(session, devices[0].ordinal, ecc());
    let warnings: Vec<&String> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ToClient(ClientId(1), ClientPush::Warning(text)) => Some(text),
            _ => None,
        })
        .collect();
    let printed = format!(
        "device {} of node h1 is in quarantine, and job 1 is not charged for it: an uncorrectable ECC error (CUDA error 214)",
        devices[0].ordinal
    );
    assert_eq!(warnings, [&printed]);
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), u128::from(3 * 1_000 * MINUTE));
    assert_eq!(bench.cluster.scheduler().usage("physics/alice").unwrap().milli_ms, charged(&bench));
    bench.tested(devices[0].ordinal, DeviceVerdict::Works);
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), u128::from(5 * 1_000 * MINUTE));
    assert_eq!(bench.cluster.scheduler().usage("physics/alice").unwrap().milli_ms, charged(&bench));
    // The end of the job frees both devices while one is in quarantine.
    let other = bench.open_as(2, BOB, Some("18:cpu"));
    bench.agent_says(session, devices[1].ordinal, ecc());
    bench.give(Input::ClientGone { client: ClientId(1) });
    bench.give(Input::JobReleased { link: LINK, job: key(1) });
    assert_eq!(bench.cluster.scheduler().holders(devices), [].into());
    assert!(bench.cluster.session(other).is_some());
}

#[test]
fn a_fault_that_a_region_may_have_caused_ends_no_charge_before_a_test_shows_it() {
    let mut bench = with_devices(2);
    let other = bench.open_as(2, BOB, None);
    for ordinal in 0..2 {
        bench.agent_says(other, ordinal, illegal_address());
    }
    // The device that it has used is its own until it ends.
    bench.give(Input::ClientGone { client: ClientId(2) });
    let session = bench.open_as(1, ALICE, Some("1:cpu"));
    let ordinal = bench.cluster.session(session).unwrap().lease.devices[0].ordinal;
    let charged = |bench: &Bench| bench.cluster.job_use(Millis(bench.now), JobId(1)).unwrap().0.milli_ms;
    // Programs of both users hit the fault, but the device may work.
    let effects = bench.agent_says(session, ordinal, illegal_address());
    assert!(bench.quarantine(ordinal).is_some_and(|quarantine| quarantine.charged));
    let tells = |effect: &Effect| match effect {
        Effect::ToClient(ClientId(1), ClientPush::Warning(text)) => text.contains("until a test shows the fault"),
        _ => false,
    };
    assert!(effects.iter().any(tells), "{effects:?}");
    let begun = bench.now;
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), u128::from(1_000 * (bench.now - MINUTE)));
    bench.tested(ordinal, DeviceVerdict::Faulty("a test shows an illegal address (CUDA error 700)".into()));
    let quarantine = bench.quarantine(ordinal).unwrap();
    assert_eq!((quarantine.charged, quarantine.since.0), (false, begun));
    assert!(quarantine.reason.starts_with("a test shows"));
    let before = charged(&bench);
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), before);
    assert_eq!(bench.cluster.scheduler().usage("physics/alice").unwrap().milli_ms, before);
    bench.tested(ordinal, DeviceVerdict::Works);
    bench.tests_within(MINUTE);
    assert_eq!(charged(&bench), before + u128::from(1_000 * MINUTE));
}

#[test]
fn a_quarantine_outlasts_the_coordinator_and_so_do_the_tests() {
    let mut bench = with_devices(20);
    bench.cluster = restored(&Records::new(), bench.now, 1);
    let devices = (0..20).map(device).collect();
    bench.give(Input::Register { link: LINK, registration: Registration { devices, ..registration("h1") } });
    let session = bench.open_as(1, ALICE, None);
    bench.agent_says(session, 3, ecc());
    let by = Some("admin root".to_owned());
    let device = bench.device(4);
    let reason = "it is loud".into();
    let uuid = String::new();
    bench.give(Input::Schedule(Scheduled::Quarantine { device, reason, by: by.clone(), charged: false, uuid }));
    let (fault, by_hand) = (bench.quarantine(3).unwrap(), bench.quarantine(4).unwrap());
    let mut records = Records::new();
    bench.cluster.take_step().records.into_iter().for_each(|record| record.apply(&mut records));
    bench.now += 10 * MINUTE;
    bench.cluster = restored(&records, bench.now, 2);
    assert_eq!((bench.quarantine(3), bench.quarantine(4)), (Some(fault), Some(by_hand)));
    let devices = (0..20).map(crate::bench::device).collect();
    bench.give(Input::Register { link: LINK, registration: Registration { devices, ..registration("h1") } });
    assert_eq!(bench.tests_within(MINUTE / 2), [(MINUTE / 2, 3)]);
    bench.tested(3, DeviceVerdict::Works);
    assert_eq!((bench.quarantine(3), bench.quarantine(4).map(|quarantine| quarantine.by)), (None, Some(by)));
}

fn restored(records: &Records, now: u64, epoch: u64) -> Cluster {
    let restart = Restart { now: Millis(now), committed: Millis(now), unix_ms: 1_800_000_000_000 + now, epoch };
    Cluster::restore(Limits::default(), records, restart).unwrap()
}

#[test]
fn a_node_that_is_away_is_tested_when_it_is_back() {
    let mut bench = with_devices(2);
    let session = bench.open_as(1, ALICE, None);
    bench.agent_says(session, 0, ecc());
    bench.give(Input::LinkLost { link: LINK });
    bench.now += 3 * MINUTE;
    let orders = bench.give(Input::Tick);
    assert!(
        !orders.iter().any(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::TestDevice(..)))),
        "{orders:?}"
    );
    bench.give(Input::Register { link: LINK, registration: registration("h1") });
    assert!(bench.quarantine(0).is_some());
    let tests = bench.tests_within(2 * MINUTE);
    assert!(matches!(tests[..], [(_, 0), ..]), "{tests:?}");
    assert_eq!(bench.device(0).node, NodeId(0));
}

/// Registers a node whose devices have these UUIDs, with another start of its agent.
fn register_with(bench: &mut Bench, name: &str, link: u64, incarnation: u64, uuids: &[&str]) {
    let with_uuid = |(ordinal, uuid): (u32, &&str)| DeviceInfo { uuid: (*uuid).to_owned(), ..device(ordinal) };
    let devices = (0..).zip(uuids).map(with_uuid).collect();
    let registration = Registration { devices, incarnation, ..registration(name) };
    bench.give(Input::Register { link: LinkId(link), registration });
}

/// Returns the nodes and ordinals of the devices in quarantine.
fn in_quarantine(bench: &Bench) -> Vec<(String, u32)> {
    let name = |device: DeviceId| bench.cluster.scheduler().node_name(device.node).unwrap_or("unknown").to_owned();
    bench.cluster.scheduler().quarantines().map(|(device, _)| (name(device), device.ordinal)).collect()
}

#[test]
fn a_quarantine_follows_the_device_by_its_uuid() {
    let mut bench = with_devices(0);
    let at = |node: &str, ordinal: u32| (node.to_owned(), ordinal);
    let first: Vec<String> = (0..20).map(|ordinal| format!("GPU-{ordinal}")).collect();
    let mut uuids: Vec<&str> = first.iter().map(String::as_str).collect();
    register_with(&mut bench, "h1", 2, 11, &uuids);
    let session = bench.open_as(1, ALICE, None);
    for ordinal in [3, 4] {
        bench.agent_of(LinkId(2), session, ordinal, ecc());
    }
    assert_eq!(in_quarantine(&bench), [at("h1", 3), at("h1", 4)]);
    // Two change their numbers, one of them with one that works.
    uuids.swap(3, 5);
    uuids.swap(3, 4);
    assert_eq!((uuids[3], uuids[5]), ("GPU-4", "GPU-3"));
    register_with(&mut bench, "h1", 3, 12, &uuids);
    assert_eq!(in_quarantine(&bench), [at("h1", 3), at("h1", 5)]);
    // One is replaced, and put into another node.
    uuids[5] = "GPU-new";
    register_with(&mut bench, "h1", 4, 13, &uuids);
    assert_eq!(in_quarantine(&bench), [at("h1", 3)]);
    register_with(&mut bench, "h2", 5, 11, &["GPU-other", "GPU-3"]);
    assert_eq!(in_quarantine(&bench), [at("h1", 3), at("h2", 1)]);
    // One that has left the bus keeps its place until it is back.
    register_with(&mut bench, "h2", 6, 12, &["GPU-other"]);
    assert_eq!(in_quarantine(&bench), [at("h1", 3), at("h2", 1)]);
    register_with(&mut bench, "h2", 7, 13, &["GPU-3", "GPU-other"]);
    assert_eq!(in_quarantine(&bench), [at("h1", 3), at("h2", 0)]);
}

#[test]
fn quarantines_of_devices_that_no_node_has_are_kept_over_a_restart() {
    let mut bench = with_devices(0);
    bench.cluster = restored(&Records::new(), bench.now, 1);
    register_with(&mut bench, "h1", 2, 11, &["GPU-0", "GPU-1"]);
    let session = bench.open_as(1, ALICE, None);
    bench.agent_of(LinkId(2), session, 1, ecc());
    register_with(&mut bench, "h1", 3, 12, &["GPU-0", "GPU-2"]);
    assert_eq!(in_quarantine(&bench), []);
    let mut records = Records::new();
    bench.cluster.take_step().records.into_iter().for_each(|record| record.apply(&mut records));
    bench.cluster = restored(&records, bench.now, 2);
    register_with(&mut bench, "h2", 4, 11, &["GPU-1"]);
    assert_eq!(in_quarantine(&bench), [("h2".to_owned(), 0)]);
    // Nor does it matter that the node is not known any more.
    let mut records = bench.cluster.all_records();
    records.retain(|key, _| !key.starts_with("node"));
    bench.cluster = restored(&records, bench.now, 3);
    assert_eq!(bench.cluster.scheduler().quarantines().count(), 1);
    register_with(&mut bench, "h3", 5, 11, &["GPU-8", "GPU-1"]);
    assert_eq!(in_quarantine(&bench), [("h3".to_owned(), 1)]);
}

#[test]
fn a_failed_script_puts_a_job_s_devices_of_the_node_into_quarantine_until_an_administrator_has_looked() {
    let mut bench = with_devices(3);
    let session = bench.open_as(1, ALICE, Some("2:cpu"));
    let held: Vec<u32> = bench.cluster.session(session).unwrap().lease.devices.iter().map(|of| of.ordinal).collect();
    let fails = |bench: &mut Bench| {
        let (script, why) = (SiteScript::Prolog, "exit status: 4".into());
        bench.give(Input::ScriptFailed { link: LINK, job: key(1), script, why });
    };
    // No release of the job is awaited.
    fails(&mut bench);
    assert_eq!(held.iter().filter_map(|ordinal| bench.quarantine(*ordinal)).count(), 0);
    bench.give(Input::ClientGone { client: ClientId(1) });
    fails(&mut bench);
    bench.give(Input::JobReleased { link: LINK, job: key(1) });
    let quarantined: Vec<u32> = (0..3).filter(|ordinal| bench.quarantine(*ordinal).is_some()).collect();
    assert_eq!(quarantined, held);
    let quarantine = bench.quarantine(held[0]).unwrap();
    assert_eq!(quarantine.reason, "the prolog of job 1 has failed: exit status: 4");
    assert_eq!(quarantine.by.as_deref(), Some("the site's prolog"));
    assert_eq!(bench.tests_within(HOUR), [], "a test of the device says nothing of the prolog");
    assert!(bench.quarantine(held[0]).is_some());
}

//! Reservations: conflicts, times by the wall clock, and jobs on reserved devices.

use crate::bench::{KEY, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, NewReservation, Records,
    ReserveError, ReservedTarget, Restart,
};
use accord_types::{DeviceId, NodeId, Rank, SessionId, SessionKey, SessionRequest};

pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const HOUR: u64 = 60 * MINUTE;
/// 2026-12-01 00:00 UTC, a Tuesday.
pub(crate) const DAY: u64 = 1_796_083_200_000;

/// A coordinator with two nodes of two devices each.
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) now: u64,
    /// The wall clock at time 0.
    pub(crate) wall_clock: u64,
    clients: u64,
}

impl Site {
    /// Creates a site at midnight.
    fn new() -> Self {
        Self::beginning_at(DAY)
    }

    pub(crate) fn beginning_at(wall_clock: u64) -> Self {
        let restart = Restart { now: Millis(0), committed: Millis(0), unix_ms: wall_clock, epoch: 1 };
        let cluster = Cluster::restore(Limits::default(), &Records::new(), restart).unwrap();
        let mut site = Self { cluster, now: 0, wall_clock, clients: 0 };
        // Requests no longer wait for agents to reconnect after the start.
        site.pass(MINUTE);
        site.join();
        site
    }

    fn join(&mut self) {
        for (link, name) in [(1, "h1"), (2, "h2")] {
            self.give(Input::Register { link: LinkId(link), registration: registration(name) });
        }
    }

    pub(crate) fn give(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.cluster.set_wall_clock(Millis(self.now), self.wall_clock + self.now);
        self.cluster.handle(Millis(self.now), input, &mut effects);
        self.cluster.check_invariants().unwrap();
        drop(self.cluster.take_step());
        effects
    }

    /// Lets time pass while agents send heartbeats.
    pub(crate) fn pass(&mut self, ms: u64) -> Vec<Effect> {
        let (mut effects, until) = (Vec::new(), self.now + ms);
        while self.now < until {
            self.now = until.min(self.now + 5_000);
            for link in [1, 2] {
                effects.extend(self.give(Input::Heartbeat { link: LinkId(link), sessions: Vec::new() }));
            }
            effects.extend(self.give(Input::Tick));
        }
        effects
    }

    fn check(&self, new: NewReservation) -> Result<NewReservation, ReserveError> {
        self.cluster.check_reservation(Millis(self.now), new)
    }

    pub(crate) fn reserve(&mut self, new: NewReservation) {
        let checked = self.check(new).unwrap();
        self.give(Input::Reserve(Box::new(checked)));
    }

    /// Requests devices for a user's program. Returns its client number and the effects.
    pub(crate) fn ask(&mut self, user: &str, devices: &str) -> (u64, Vec<Effect>) {
        self.clients += 1;
        let request = SessionRequest { devices: Some(devices.to_owned()), ..request("h1") };
        let (client, key) = (ClientId(self.clients), key(self.clients));
        (self.clients, self.give(Input::Open { client, request, key, user: user.to_owned() }))
    }

    fn session_devices(&self, session: SessionId) -> Vec<DeviceId> {
        self.cluster.lease(session).unwrap().devices.iter().map(|device| device.info.id).collect()
    }

    fn times(&self) -> Vec<(String, String)> {
        self.cluster.reservations(Millis(self.now), "").map(|of| (of.starts, of.ends)).collect()
    }
}

fn key(program: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&program.to_le_bytes());
    key
}

pub(crate) fn reservation(name: &str, devices: ReservedTarget, first: &str, lasts_ms: u64) -> NewReservation {
    NewReservation {
        name: name.to_owned(),
        by: "admin root".to_owned(),
        reason: "test".to_owned(),
        devices,
        accounts: Vec::new(),
        users: Vec::new(),
        end_jobs: false,
        first: first.to_owned(),
        zone: "UTC".to_owned(),
        lasts_ms,
        weekly: false,
    }
}

pub(crate) fn node(name: &str) -> ReservedTarget {
    ReservedTarget::Listed(vec![(name.to_owned(), None)])
}

pub(crate) fn granted(effects: &[Effect], client: u64) -> Option<SessionId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Granted(session)) if *to == ClientId(client) => Some(*session),
        _ => None,
    })
}

pub(crate) fn why(effects: &[Effect], client: u64) -> String {
    let printed = effects.iter().find_map(|effect| match effect {
        Effect::ToClient(to, ClientPush::Queued(job)) if *to == ClientId(client) => Some(job.why.clone()),
        Effect::ToClient(to, ClientPush::Refused(error)) if *to == ClientId(client) => Some(error.to_string()),
        _ => None,
    });
    printed.unwrap_or_else(|| panic!("{effects:?}"))
}

fn in_the_way(result: Result<NewReservation, ReserveError>) -> String {
    match result {
        Err(ReserveError::InTheWay(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_that_end_before_maintenance_start_and_others_wait_and_name_it() {
    let mut site = Site::new();
    site.reserve(reservation("firmware", ReservedTarget::All, "2026-12-01T01:00", HOUR));
    let (short, effects) = site.ask("eva", "4:cpu limit=30m");
    assert!(granted(&effects, short).is_some(), "{effects:?}");
    site.give(Input::ClientGone { client: ClientId(short) });
    for link in [1, 2] {
        site.give(Input::JobReleased { link: LinkId(link), job: key(short) });
    }
    let (long, effects) = site.ask("eva", "1:cpu limit=2h");
    assert!(why(&effects, long).contains("the reservation firmware has others"), "{}", why(&effects, long));
    site.pass(HOUR);
    let (meanwhile, effects) = site.ask("tom", "1:cpu limit=1m");
    assert!(why(&effects, meanwhile).contains("the reservation firmware has others"));
    let effects = site.pass(HOUR);
    assert!(granted(&effects, long).is_some() && granted(&effects, meanwhile).is_some(), "{effects:?}");
    assert!(site.times().is_empty());
}

#[test]
fn a_limit_that_reaches_into_a_reservation_is_in_its_way_unless_it_ends_the_job() {
    let mut site = Site::new();
    let (client, effects) = site.ask("eva", "1:cpu limit=2h on=h1");
    assert!(granted(&effects, client).is_some());
    let soon = || reservation("fan", node("h1"), "2026-12-01T01:00", HOUR);
    let printed = in_the_way(site.check(soon()));
    assert!(printed.contains("running job 1 reaches into the reservation") && printed.contains("--end"), "{printed}");
    assert!(site.check(reservation("fan", node("h2"), "2026-12-01T01:00", HOUR)).is_ok());
    assert!(site.check(reservation("fan", node("h1"), "2026-12-01T03:00", HOUR)).is_ok());
    let own = NewReservation { users: vec!["eva".to_owned()], ..soon() };
    assert!(site.check(own).is_ok(), "a member's job is not in the way");
    site.reserve(NewReservation { end_jobs: true, ..soon() });
    let ended = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::ToClient(_, ClientPush::Ended(why)) if why.contains("reserved by \"fan\"")))
    };
    assert!(!ended(&site.pass(57 * MINUTE)));
    assert!(ended(&site.pass(2 * MINUTE)));
}

#[test]
fn a_request_gets_devices_without_jobs_and_other_reservations() {
    let mut site = Site::new();
    let (client, effects) = site.ask("eva", "1:cpu limit=2h on=h1");
    assert!(granted(&effects, client).is_some());
    let asked = |text: &str, name: &str| NewReservation {
        users: vec!["tom".to_owned()],
        ..reservation(name, ReservedTarget::Request(text.to_owned()), "2026-12-01T01:00", HOUR)
    };
    let chosen = site.check(asked("2:cpu", "a")).unwrap().devices;
    let h2 = |ordinal| ("h2".to_owned(), Some(ordinal));
    assert_eq!(chosen, ReservedTarget::Listed(vec![h2(0), h2(1)]));
    site.reserve(asked("2:cpu", "a"));
    let printed = in_the_way(site.check(asked("2:cpu", "b")));
    assert!(
        printed.contains("2 of d are to be reserved, and 1 can be") && printed.contains("1 more are held"),
        "{printed}"
    );
    let printed = in_the_way(site.check(asked("1:cpu limit=1h", "b")));
    assert!(printed.contains("limit does not say which devices"), "{printed}");
    let named = NewReservation { devices: ReservedTarget::Listed(vec![h2(1)]), ..asked("", "b") };
    assert!(in_the_way(site.check(named)).contains("the reservation a has some of these devices"));
    assert!(in_the_way(site.check(asked("1:cpu", "a"))).contains("there is a reservation a already"));
    // Maintenance takes precedence.
    assert!(site.check(reservation("b", node("h2"), "2026-12-01T01:00", HOUR)).is_ok());
    let unknown = NewReservation { accounts: vec!["chemistry".to_owned()], users: Vec::new(), ..asked("1:cpu", "b") };
    assert!(matches!(site.check(unknown), Err(ReserveError::Unknown(_))));
    let over = NewReservation { first: "2026-11-30T01:00".to_owned(), ..asked("1:cpu", "b") };
    assert!(matches!(site.check(over), Err(ReserveError::Malformed(_))));
}

#[test]
fn members_start_on_reserved_devices_and_jobs_that_name_it_nowhere_else() {
    let mut site = Site::new();
    let course = reservation("course", node("h2"), "2026-12-01T01:00", HOUR);
    site.reserve(NewReservation { users: vec!["eva".to_owned()], ..course });
    let (stranger, effects) = site.ask("tom", "1:cpu limit=10m reservation=course");
    assert!(why(&effects, stranger).contains("is for other accounts and users"), "{}", why(&effects, stranger));
    let (unknown, effects) = site.ask("eva", "1:cpu limit=10m reservation=lecture");
    assert!(why(&effects, unknown).contains("there is no reservation \"lecture\""));
    let (early, effects) = site.ask("eva", "1:cpu limit=10m reservation=course");
    assert_eq!(why(&effects, early), "its reservation course has not begun");
    let effects = site.pass(HOUR);
    let session = granted(&effects, early).unwrap();
    assert_eq!(site.session_devices(session)[0].node, NodeId(1));
    // Programs without a request get the devices that are not reserved.
    site.clients += 1;
    let plain =
        Input::Open { client: ClientId(site.clients), request: request("h1"), key: key(99), user: "tom".into() };
    let session = granted(&site.give(plain), site.clients).unwrap();
    assert!(site.session_devices(session).iter().all(|device| device.node == NodeId(0)));
    let (full, effects) = site.ask("eva", "2:cpu limit=10m reservation=course");
    assert_eq!(why(&effects, full), "too few devices of its reservation course are free");
    // A job that waits for it still can't start anywhere else, so it ends.
    let effects = site.give(Input::Unreserve { name: "course".into(), by: "admin root".into() });
    assert!(why(&effects, full).contains("its reservation \"course\" is over"), "{}", why(&effects, full));
    assert!(site.cluster.scheduler().order_of_waiting().is_empty());
}

/// Opens the session of a program without a request, whose lease has all shared devices.
fn open_plain(site: &mut Site, user: &str) -> (u64, SessionId) {
    site.clients += 1;
    let (client, key) = (ClientId(site.clients), key(site.clients));
    let effects = site.give(Input::Open { client, request: request("h1"), key, user: user.to_owned() });
    (site.clients, granted(&effects, site.clients).unwrap())
}

/// Asks whether a program may use a device. Returns the error if it may not.
fn may_use(site: &mut Site, client: u64, device: DeviceId) -> Option<String> {
    let effects = site.give(Input::MayUse { client: ClientId(client), device });
    let answer = effects.into_iter().find_map(|effect| match effect {
        Effect::ToClient(_, ClientPush::UseAnswered(of, error)) if of == device => Some(error),
        _ => None,
    });
    answer.unwrap().map(|error| error.to_string())
}

#[test]
fn a_reservation_that_began_before_the_coordinator_ends_when_it_says() {
    let mut site = Site::new();
    site.reserve(reservation("late", ReservedTarget::All, "2026-11-30T23:00", HOUR + 10 * MINUTE));
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    assert!(site.cluster.scheduler().is_reserved(device));
    let ends = site.cluster.scheduler().reservation_of(device).unwrap().ends;
    assert_eq!(ends.0, 10 * MINUTE);
    site.pass(10 * MINUTE);
    assert!(!site.cluster.scheduler().is_reserved(device));
}

#[test]
fn a_reservation_may_follow_one_that_began_before_the_coordinator() {
    let mut site = Site::new();
    let course = NewReservation {
        users: vec!["eva".to_owned()],
        ..reservation("course", node("h1"), "2026-11-30T23:00", HOUR + 10 * MINUTE)
    };
    site.reserve(course.clone());
    let next = NewReservation { name: "next".to_owned(), first: "2026-12-01T00:10".to_owned(), ..course };
    assert!(site.check(next).is_ok());
}

#[test]
fn a_program_without_a_request_does_not_begin_to_use_a_reserved_or_drained_device() {
    let mut site = Site::new();
    let (client, session) = open_plain(&mut site, "tom");
    let devices = site.session_devices(session);
    assert_eq!(devices.len(), 4);
    let id = |node: u32, ordinal: u32| {
        let device = DeviceId { node: NodeId(node), ordinal };
        assert!(devices.contains(&device));
        device
    };
    assert_eq!(may_use(&mut site, client, id(1, 0)), None);
    let course = reservation("course", node("h2"), "2026-12-01T00:10", HOUR);
    site.reserve(NewReservation { users: vec!["eva".to_owned()], ..course });
    site.pass(20 * MINUTE);
    let error = may_use(&mut site, client, id(1, 1)).unwrap();
    assert!(error.contains("the reservation course has device 1 of node h2 until 2026-12-01 01:10 UTC"), "{error}");
    assert_eq!(may_use(&mut site, client, id(1, 0)), None, "it uses that one already");
    assert_eq!(may_use(&mut site, client, id(0, 0)), None);
    let target = accord_scheduler::DrainTarget::Device(DeviceId { node: NodeId(0), ordinal: 1 });
    let drain = accord_scheduler::Input::Drain {
        target,
        by_time: accord_scheduler::Millis(0),
        end: false,
        reason: "fan".into(),
        by: "admin root".into(),
    };
    site.give(Input::Schedule(drain));
    let error = may_use(&mut site, client, id(0, 1)).unwrap();
    assert!(error.contains("device 1 of node h1 is drained"), "{error}");
    // Reporting the devices as in use does not help either.
    let nowhere = DeviceId { node: NodeId(7), ordinal: 0 };
    let devices = vec![id(1, 1), id(0, 1), nowhere];
    let effects = site.give(Input::InUse { client: ClientId(client), devices: devices.clone() });
    let is_refused = |effect: &Effect| matches!(effect, Effect::ToClient(_, ClientPush::UseAnswered(_, Some(_))));
    assert!(effects.len() == devices.len() && effects.iter().all(is_refused), "{effects:?}");
    let used = &site.cluster.session(session).unwrap().used;
    assert!(devices.iter().all(|device| !used.contains(device)), "{used:?}");
    site.pass(HOUR);
    assert_eq!(may_use(&mut site, client, id(1, 1)), None, "the reservation is over");
}

/// The ordinals of which an agent is told for a session.
fn reported(effects: &[Effect]) -> Option<&[u32]> {
    effects.iter().find_map(|effect| match effect {
        Effect::ToAgent(_, AgentOrder::SessionOpened(grant)) => Some(&grant.ordinals[..]),
        _ => None,
    })
}

#[test]
fn agents_are_not_told_that_a_program_without_a_request_may_use_a_reserved_device() {
    let mut site = Site::new();
    let (before, _) = open_plain(&mut site, "tom");
    let [reserved, other] = [0, 1].map(|ordinal| DeviceId { node: NodeId(1), ordinal });
    site.pass(MINUTE);
    let course =
        reservation("course", ReservedTarget::Listed(vec![("h2".to_owned(), Some(0))]), "2026-12-01T00:05", HOUR);
    site.reserve(NewReservation { users: vec!["eva".to_owned()], ..course });
    site.pass(10 * MINUTE);
    let (after, _) = open_plain(&mut site, "tom");
    let uses = |site: &mut Site, client| site.give(Input::MayUse { client: ClientId(client), device: other });
    assert_eq!(reported(&uses(&mut site, after)), Some(&[1][..]));
    // It may be allowed to one that was open before.
    assert_eq!(reported(&uses(&mut site, before)), Some(&[0, 1][..]));
    // A session of an earlier coordinator, if there was one.
    let (client, session, user) = (ClientId(99), SessionId(1 << 40), "mallory".to_owned());
    site.give(Input::Attach { client, session, request: request("h1"), key: key(99), user });
    assert_eq!(reported(&site.give(Input::InUse { client, devices: vec![reserved] })), None);
    let effects = site.give(Input::InUse { client, devices: vec![other] });
    assert_eq!(reported(&effects), Some(&[1][..]));
}

#[test]
fn drained_and_reserved_devices_are_not_idle_to_ranks_that_crowd_on_one() {
    for withheld in [false, true] {
        for reserves in [false, true] {
            let mut site = Site::new();
            for rank in 0..2 {
                let place = Rank { rank, size: 2, local_rank: rank, local_size: 2, job: 9 };
                let (client, key) = (ClientId(u64::from(rank)), key(u64::from(rank)));
                let request = SessionRequest { rank: Some(place), ..request("h1") };
                site.give(Input::Open { client, request, key, user: "tom".to_owned() });
            }
            let others = if reserves { vec![(0, 1)] } else { vec![(0, 1), (1, 0), (1, 1)] };
            for (node, ordinal) in others.into_iter().filter(|_| withheld) {
                site.give(Input::Schedule(accord_scheduler::Input::Drain {
                    target: accord_scheduler::DrainTarget::Device(DeviceId { node: NodeId(node), ordinal }),
                    by_time: accord_scheduler::Millis(0),
                    end: false,
                    reason: "fan".into(),
                    by: "admin root".into(),
                }));
            }
            if reserves && withheld {
                let course = reservation("course", node("h2"), "2026-12-01T00:10", HOUR);
                site.reserve(NewReservation { users: vec!["eva".to_owned()], ..course });
                site.pass(20 * MINUTE);
            }
            let device = DeviceId { node: NodeId(0), ordinal: 0 };
            let uses = |client| Input::MayUse { client: ClientId(client), device };
            let effects = [site.give(uses(0)), site.give(uses(1))].concat();
            let warns = |effect: &Effect| matches!(effect, Effect::ToClient(_, ClientPush::Warning(_)));
            assert_eq!(effects.iter().any(warns), !withheld, "{effects:?}");
        }
    }
}

#[test]
fn a_reservation_for_members_is_refused_where_another_has_a_device_weeks_ahead() {
    let mut site = Site::new();
    let of = |name: &str, first: &str, weekly: bool, devices: ReservedTarget| NewReservation {
        weekly,
        users: vec!["eva".to_owned()],
        ..reservation(name, devices, first, HOUR)
    };
    site.reserve(of("course", "2026-12-01T08:00", true, node("h2")));
    let device = || ReservedTarget::Listed(vec![("h2".to_owned(), Some(1))]);
    let printed = in_the_way(site.check(of("late", "2027-03-02T08:30", false, device())));
    assert!(printed.contains("the reservation course has some of these devices"), "{printed}");
    assert!(site.check(of("late", "2027-03-02T08:30", false, node("h1"))).is_ok());
    assert!(site.check(of("late", "2027-03-02T09:00", false, device())).is_ok());
    site.reserve(of("exam", "2027-03-03T08:00", false, device()));
    assert!(in_the_way(site.check(of("talks", "2026-12-02T08:00", true, ReservedTarget::All))).contains("exam"));
    let maintenance = reservation("fan", node("h2"), "2027-03-02T08:00", HOUR);
    assert!(site.check(maintenance).is_ok(), "maintenance goes before");
}

#[test]
fn a_wall_clock_that_was_ahead_for_a_while_deletes_no_reservation() {
    let mut site = Site::new();
    site.reserve(reservation("move", ReservedTarget::All, "2026-12-05T01:00", HOUR));
    let kept = |site: &Site| site.cluster.all_records().keys().any(|key| key == "reservation/move");
    let now = Millis(site.now);
    site.cluster.set_wall_clock(now, DAY + 365 * 24 * HOUR);
    site.cluster.handle(now, Input::Tick, &mut Vec::new());
    assert!(site.times().is_empty() && kept(&site));
    assert!(site.check(reservation("move", ReservedTarget::All, "2028-12-05T01:00", HOUR)).is_ok(), "it is hidden");
    site.pass(5_000);
    assert_eq!(site.times()[0].0, "2026-12-05 01:00 UTC");
    // The reservation is over, and its record is removed a day later.
    site.now += 4 * 24 * HOUR + 2 * HOUR;
    site.give(Input::Tick);
    assert!(site.times().is_empty() && kept(&site));
    site.now += 24 * HOUR;
    site.give(Input::Tick);
    assert!(!kept(&site));
}

#[test]
fn a_weekly_reservation_goes_on_and_follows_the_wall_clock_and_a_restart() {
    let mut site = Site::new();
    let weekly = NewReservation {
        weekly: true,
        zone: "Europe/Berlin".to_owned(),
        ..reservation("cleaning", ReservedTarget::All, "2026-12-01T08:00", HOUR)
    };
    site.reserve(weekly);
    let first = "2026-12-01 08:00 +01:00 Europe/Berlin";
    assert_eq!(site.times(), [(first.to_owned(), "2026-12-01 09:00 +01:00 Europe/Berlin".to_owned())]);
    let is_reserved = |site: &Site| site.cluster.scheduler().is_reserved(DeviceId { node: NodeId(0), ordinal: 0 });
    site.pass(7 * HOUR - MINUTE);
    assert!(is_reserved(&site));
    site.pass(HOUR);
    assert!(!is_reserved(&site));
    assert_eq!(site.times()[0].0, "2026-12-08 08:00 +01:00 Europe/Berlin");
    // The coordinator is down until the next occurrence has begun. Its clock continues.
    let records = site.cluster.all_records();
    site.now += 6 * 24 * HOUR + 23 * HOUR + MINUTE;
    let restart = Restart { now: Millis(site.now), committed: Millis(site.now), unix_ms: DAY + site.now, epoch: 2 };
    site.cluster = Cluster::restore(Limits::default(), &records, restart).unwrap();
    assert!(is_reserved(&site));
    assert_eq!(site.times()[0].0, "2026-12-08 08:00 +01:00 Europe/Berlin");
    // The wall clock is set back by two hours.
    let now = Millis(site.now);
    site.cluster.set_wall_clock(now, DAY + site.now - 2 * HOUR);
    site.cluster.handle(now, Input::Tick, &mut Vec::new());
    assert!(!is_reserved(&site));
    let kept = site.cluster.all_records();
    assert_eq!(kept.keys().filter(|key| key.starts_with("reservation/")).count(), 1);
    site.cluster.handle(now, Input::Unreserve { name: "cleaning".into(), by: "admin root".into() }, &mut Vec::new());
    assert!(!site.cluster.all_records().keys().any(|key| key.starts_with("reservation/")));
}

/// Returns a site whose node h2 has weekly reservations z for eva and a for tom, and its records. They conflict only by
/// their records, as if the rules of a time zone had changed since their creation.
fn conflicting() -> (Site, Records) {
    let mut site = Site::new();
    let weekly = |name: &str, user: &str, first: &str| NewReservation {
        weekly: true,
        users: vec![user.to_owned()],
        ..reservation(name, node("h2"), first, 2 * HOUR)
    };
    // The reservation created later comes first by name.
    site.reserve(weekly("z", "eva", "2026-12-01T08:00"));
    site.reserve(weekly("a", "tom", "2026-12-01T12:00"));
    let mut records = site.cluster.all_records();
    let record = String::from_utf8(records["reservation/a"].clone()).unwrap();
    records.insert("reservation/a".to_owned(), record.replace("T12:00", "T09:00").into_bytes());
    (site, records)
}

/// Restarts the coordinator with records. Asserts that eva has the node from 8 to 10 on this day, and tom after that.
fn assert_eva_has_precedence(mut site: Site, records: &Records) {
    let restart = Restart { now: Millis(site.now), committed: Millis(site.now), unix_ms: DAY + site.now, epoch: 2 };
    site.cluster = Cluster::restore(Limits::default(), records, restart).unwrap();
    site.join();
    site.pass(9 * HOUR);
    let (tom, effects) = site.ask("tom", "1:cpu limit=1h reservation=a");
    assert!(granted(&effects, tom).is_none(), "{effects:?}");
    let (eva, effects) = site.ask("eva", "1:cpu limit=50m reservation=z");
    assert!(granted(&effects, eva).is_some(), "{effects:?}");
    assert!(granted(&site.pass(50 * MINUTE), tom).is_none());
    assert!(granted(&site.pass(10 * MINUTE), tom).is_some());
}

#[test]
fn earlier_created_reservation_has_precedence_after_a_restart() {
    let (site, records) = conflicting();
    assert_eva_has_precedence(site, &records);
}

#[test]
fn the_one_created_earlier_goes_first_where_a_state_without_numbers_is_restored() {
    let (mut site, mut records) = conflicting();
    for record in records.values_mut() {
        let Ok(text) = String::from_utf8(record.clone()) else { continue };
        // z has the first number, and its four weeks have the following ones.
        let old = text.replace("\"created\":1,", "").replace("\"created\":6,", "");
        *record = old.into_bytes();
    }
    let is_numbered = |name: &str| String::from_utf8_lossy(&records[name]).contains("created");
    assert!(!is_numbered("reservation/a") && !is_numbered("reservation/z"));
    // All known weeks are over. The next ones get their ids in the order of names.
    site.now += 4 * 7 * 24 * HOUR;
    assert_eva_has_precedence(site, &records);
}

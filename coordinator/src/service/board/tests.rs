//! Boards of a small cluster, as seen by an administrator and by users.

use super::super::driver::{Driver, DriverSettings};
use super::super::viewer::Viewer;
use super::observe::{AT_ONCE, CoreAccess};
use super::{Board, Boards, Watcher};
use accord_cluster::{ClientId, Cluster, Input, Limits, LinkId, Millis, Registration};
use accord_proto::{VERSION, v1};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{DrainTarget, Input as Scheduled};
use accord_types::{DeviceId, DeviceInfo, DeviceKind, DeviceUse, NodeId, OrderPolicy, SessionKey, SessionRequest};
use std::cell::Cell;
use std::sync::Arc;
use v1::watch_row::Line;
use v1::{DeviceCondition, WatchOrder, WatchTable};

/// Time at the first board.
const NOW: u64 = 100_000;
const STARTED_UNIX_MS: u64 = 1_000;

struct Site {
    cluster: Cluster,
    now: u64,
    clients: u64,
}

impl CoreAccess for Site {
    fn with_core<T>(&self, with_core: impl FnOnce(&Cluster) -> T) -> T {
        with_core(&self.cluster)
    }
}

/// Counts the locks of a site's core, and the scheduler's steps in the longest of them.
struct Counted<'a> {
    site: &'a Site,
    looks: Cell<usize>,
    longest: Cell<u64>,
}

impl CoreAccess for Counted<'_> {
    fn with_core<T>(&self, with_core: impl FnOnce(&Cluster) -> T) -> T {
        let steps = || self.site.cluster.scheduler().steps();
        let before = steps();
        let found = with_core(&self.site.cluster);
        self.looks.set(self.looks.get() + 1);
        self.longest.set(self.longest.get().max(steps() - before));
        found
    }
}

impl Site {
    /// Creates nodes with two devices each, in this order.
    fn new(nodes: &[&str]) -> Self {
        let mut site = Self { cluster: Cluster::new(Limits::default(), STARTED_UNIX_MS), now: NOW, clients: 0 };
        for (link, node_name) in (1..).zip(nodes) {
            let device = |ordinal| DeviceInfo {
                id: DeviceId { node: NodeId(0), ordinal },
                node_name: String::new(),
                kind: DeviceKind::CPU,
                name: "cpu".into(),
                vendor: "v".into(),
                driver: "1".into(),
                uuid: String::new(),
                memory: 1 << 30,
                context: 0,
                units: 1,
                compute: (0, 0),
                attributes: Vec::new(),
                numa: None,
                cpus: Vec::new(),
            };
            let registration = Registration::new(*node_name, "h:1", 10, [0, 1].map(device).to_vec());
            site.give(Input::Register { link: LinkId(link), registration });
        }
        let policy = Box::new(SitePolicy::read("[account.physics]\nusers = [\"*\"]\n", None).unwrap());
        site.give(Input::ApplyPolicy { policy, by: "admin root".into() });
        site
    }

    fn give(&mut self, input: Input) {
        self.cluster.handle(Millis(self.now), input, &mut Vec::new());
        self.cluster.check_invariants().unwrap();
    }

    /// Opens a session of a user's program, with a request for devices or without one.
    fn open(&mut self, user: &str, node_name: &str, devices: Option<&str>) -> ClientId {
        self.clients += 1;
        let client = ClientId(self.clients);
        let mut key = SessionKey([0; SessionKey::LEN]);
        key.0[..8].copy_from_slice(&self.clients.to_le_bytes());
        let request = SessionRequest {
            node_name: node_name.into(),
            pid: 1,
            program: format!("app of {user}"),
            rank: None,
            kind: None,
            order: OrderPolicy::Local,
            devices: devices.map(str::to_owned),
            job: None,
        };
        self.give(Input::Open { client, request, key, user: user.into() });
        client
    }

    fn device(&self, node: &str, ordinal: u32) -> DeviceId {
        DeviceId { node: self.cluster.node_named(node).unwrap().id, ordinal }
    }

    /// Reports a program's use of a device so far.
    fn did(&mut self, client: ClientId, device: DeviceId, busy_ms: Option<u64>) {
        let used = DeviceUse { busy_ms, bytes_in: 0, bytes_out: 0, held: 64 << 20, fault: None };
        self.give(Input::ProgramUsed { client, uses: vec![(device, used)] });
    }

    fn board(&self) -> Board {
        Board::observe(self, (Millis(self.now), STARTED_UNIX_MS + self.now), None)
    }

    fn rows(&self, viewer: &Viewer, request: v1::WatchRequest) -> Vec<Line> {
        let reply = Watcher::new(viewer.clone(), request).reply(self, &self.board()).unwrap();
        reply.changed.into_iter().map(|row| row.line.unwrap()).collect()
    }

    fn devices(&self, viewer: &Viewer) -> Vec<v1::DeviceLine> {
        let device = |line| match line {
            Line::Device(device) => device,
            other => panic!("{other:?}"),
        };
        self.rows(viewer, asks(WatchTable::Devices)).into_iter().map(device).collect()
    }

    fn users(&self, viewer: &Viewer) -> Vec<v1::UserLine> {
        let user = |line| match line {
            Line::User(user) => user,
            other => panic!("{other:?}"),
        };
        self.rows(viewer, asks(WatchTable::Users)).into_iter().map(user).collect()
    }

    fn jobs(&self, viewer: &Viewer) -> Vec<v1::JobLine> {
        let job = |line| match line {
            Line::Job(job) => job,
            other => panic!("{other:?}"),
        };
        self.rows(viewer, asks(WatchTable::Jobs)).into_iter().map(job).collect()
    }
}

fn asks(table: WatchTable) -> v1::WatchRequest {
    v1::WatchRequest { version: VERSION, table: table.into(), rows: 100, ..v1::WatchRequest::default() }
}

fn admin() -> Viewer {
    Viewer { called: "admin root".into(), user: None, is_admin: true }
}

fn user(name: &str) -> Viewer {
    Viewer { called: name.into(), user: Some(name.into()), is_admin: false }
}

#[test]
fn devices_have_their_busy_part_memory_users_and_programs() {
    let mut site = Site::new(&["n1"]);
    let program = site.open("eva", "n1", None);
    let device = site.device("n1", 0);
    site.give(Input::MayUse { client: program, device });
    let [first, second] = &site.devices(&admin())[..] else { panic!() };
    assert_eq!((first.busy_percent, first.condition()), (None, DeviceCondition::Used), "nothing was reported yet");
    assert_eq!((second.busy_percent, second.condition()), (Some(0), DeviceCondition::Free));
    site.now += 1_000;
    site.did(program, device, Some(250));
    let line = site.devices(&admin()).remove(0);
    assert_eq!((line.busy_percent, line.memory_used, line.memory), (Some(25), 64 << 20, 1 << 30));
    assert_eq!((&line.users[..], &line.programs[..]), (&["eva".to_owned()][..], &["app of eva".to_owned()][..]));
    // Without further reports the device becomes idle.
    site.now += 3_000;
    assert_eq!(site.devices(&admin())[0].busy_percent, Some(0));
    site.now += 1_000;
    site.did(program, device, None);
    assert_eq!(site.devices(&admin())[0].busy_percent, None, "unknown is not idle");
}

#[test]
fn users_see_their_own_programs_and_the_number_of_others() {
    let mut site = Site::new(&["n1"]);
    let programs = ["eva", "tom"].map(|user| site.open(user, "n1", None));
    for program in programs {
        let device = site.device("n1", 0);
        site.give(Input::MayUse { client: program, device });
    }
    let line = site.devices(&user("eva")).remove(0);
    assert_eq!((&line.users[..], line.other_users), (&["eva".to_owned()][..], 1));
    assert_eq!((&line.programs[..], line.other_sessions), (&["app of eva".to_owned()][..], 1));
    let line = site.devices(&user("mia")).remove(0);
    assert_eq!((line.users.len(), line.other_users, line.programs.len(), line.other_sessions), (0, 2, 0, 2));
    let names = |lines: Vec<v1::UserLine>| lines.into_iter().map(|line| (line.user, line.users)).collect::<Vec<_>>();
    assert_eq!(names(site.users(&user("eva"))), [("eva".to_owned(), 1), (String::new(), 1)]);
    assert_eq!(names(site.users(&admin())), [("eva".to_owned(), 1), ("tom".to_owned(), 1)]);
    // Another user's rows can't be found by that user's name.
    let asked = v1::WatchRequest { user: "tom".into(), ..asks(WatchTable::Devices) };
    assert_eq!(site.rows(&user("eva"), asked.clone()).len(), 0);
    assert_eq!(site.rows(&admin(), asked).len(), 1);
}

#[test]
fn a_job_that_leaves_its_device_idle_is_told_from_a_busy_one() {
    let mut site = Site::new(&["n1"]);
    let busy = site.open("eva", "n1", Some("1:cpu limit=1h"));
    site.open("tom", "n1", Some("1:cpu limit=1h"));
    site.open("tom", "n1", Some("1:cpu limit=1h"));
    let jobs = site.jobs(&admin());
    let held = jobs[0].job.as_ref().unwrap().devices[0].ordinals[0];
    let states: Vec<_> = jobs.iter().map(|line| line.job.as_ref().unwrap().state()).collect();
    assert_eq!(states, [v1::JobState::Running, v1::JobState::Running, v1::JobState::Waiting]);
    assert!(jobs[2].job.as_ref().unwrap().why.contains("needs"), "{jobs:?}");
    for second in 1..=8 {
        site.now += 1_000;
        let device = site.device("n1", held);
        site.did(busy, device, Some(second * 900));
    }
    let lines = site.devices(&admin());
    let (busy, idle) = (&lines[held as usize], &lines[1 - held as usize]);
    assert_eq!((busy.busy_percent, busy.idle_since_unix_ms, &busy.jobs[..]), (Some(90), None, &[1][..]));
    assert_eq!(idle.idle_since_unix_ms, Some(STARTED_UNIX_MS + NOW), "{idle:?}");
    let jobs = site.jobs(&admin());
    assert_eq!((jobs[0].busy_percent, jobs[0].idle_since_unix_ms), (Some(90), None));
    assert_eq!((jobs[1].busy_percent, jobs[1].idle_since_unix_ms), (Some(0), Some(STARTED_UNIX_MS + NOW)));
    let users = site.users(&admin());
    let numbers = |line: &v1::UserLine| (line.jobs_running, line.jobs_waiting, line.devices, line.devices_idle);
    assert_eq!((numbers(&users[0]), numbers(&users[1])), ((1, 0, 1, 0), (1, 1, 1, 1)));
    let summary = Watcher::new(user("eva"), asks(WatchTable::Jobs)).reply(&site, &site.board()).unwrap().summary;
    let summary = summary.unwrap();
    assert_eq!((summary.jobs_running, summary.others_running, summary.others_waiting), (1, 1, 1));
    assert_eq!((summary.devices, summary.devices_busy, summary.devices_idle), (2, 1, 1));
    assert_eq!(site.jobs(&user("eva")).len(), 1);
}

#[test]
fn a_device_that_a_busy_job_never_uses_is_idle_since_its_start() {
    let mut site = Site::new(&["n1"]);
    let program = site.open("eva", "n1", Some("2:cpu limit=1h"));
    for second in 1..=8 {
        site.now += 1_000;
        let device = site.device("n1", 0);
        site.did(program, device, Some(second * 900));
    }
    let lines = site.devices(&admin());
    let idle: Vec<_> = lines.iter().map(|line| line.idle_since_unix_ms).collect();
    assert_eq!(idle, [None, Some(STARTED_UNIX_MS + NOW)]);
}

#[test]
fn times_are_by_the_wall_clock_as_it_is_now() {
    let mut site = Site::new(&["n1"]);
    site.open("eva", "n1", Some("1:cpu"));
    site.now += 60_000;
    let hour = 3_600_000;
    for unix_ms in [site.now + 2 * hour, site.now + hour, site.now] {
        let board = Board::observe(&site, (Millis(site.now), unix_ms), None);
        let [job] = &board.jobs[..] else { panic!("one job is there") };
        assert_eq!(job.started_unix_ms, Some(unix_ms - 60_000));
        let idle: Vec<u64> = board.devices.iter().filter_map(|device| device.activity.idle_since_unix_ms).collect();
        assert_eq!(idle, [unix_ms - 60_000]);
        let later = Board::observe(&site, (Millis(site.now), unix_ms + 1), Some(&board));
        assert_eq!(later.jobs[0].started_unix_ms, job.started_unix_ms, "two clocks are not read at one moment");
    }
}

#[test]
fn drained_and_quarantined_devices_and_lost_nodes_say_why() {
    let mut site = Site::new(&["n10", "n9", "n1"]);
    let drained = DrainTarget::Device(site.device("n9", 1));
    let drain = |target| Scheduled::Drain {
        target,
        by_time: accord_scheduler::Millis(0),
        end: false,
        reason: "a new fan".into(),
        by: "admin root".into(),
    };
    site.give(Input::Schedule(drain(drained)));
    site.give(Input::Schedule(drain(DrainTarget::Node(site.device("n10", 0).node))));
    let device = site.device("n9", 0);
    site.give(Input::Schedule(Scheduled::Quarantine {
        device,
        reason: "ECC errors".into(),
        by: None,
        charged: true,
        uuid: String::new(),
    }));
    site.give(Input::Goodbye { link: LinkId(3) });
    let lines = site.devices(&user("eva"));
    let seen: Vec<_> =
        lines.iter().map(|line| (line.node_name.as_str(), line.condition(), line.reason.as_str())).collect();
    assert_eq!(
        seen,
        [
            ("n1", DeviceCondition::Lost, ""),
            ("n1", DeviceCondition::Lost, ""),
            ("n9", DeviceCondition::Quarantined, "ECC errors"),
            ("n9", DeviceCondition::Drained, "a new fan"),
            ("n10", DeviceCondition::Drained, "a new fan"),
            ("n10", DeviceCondition::Drained, "a new fan"),
        ]
    );
    let charged: Vec<_> = lines.iter().map(|line| line.quarantine_charged).collect();
    assert_eq!(charged, [false, false, true, false, false, false]);
    let since: Vec<_> = lines.iter().map(|line| line.quarantined_since_unix_ms).collect();
    assert_eq!(since, [None, None, Some(STARTED_UNIX_MS + NOW), None, None, None]);
    let rows = site.rows(&user("eva"), asks(WatchTable::Nodes));
    let Line::Node(away) = &rows[0] else { panic!("{rows:?}") };
    assert_eq!((away.state(), away.heard_unix_ms), (v1::NodeState::Gone, Some(STARTED_UNIX_MS + NOW)));
    let Line::Node(draining) = &rows[2] else { panic!("{rows:?}") };
    assert_eq!((draining.state(), draining.reason.as_str()), (v1::NodeState::Draining, "a new fan"));
}

#[test]
fn a_watcher_gets_rows_of_its_window_and_then_those_that_have_changed() {
    let mut site = Site::new(&["n1", "n2", "n3"]);
    let request = v1::WatchRequest { number: 7, from: 2, rows: 3, ..asks(WatchTable::Devices) };
    let mut watcher = Watcher::new(admin(), request.clone());
    let reply = watcher.reply(&site, &site.board()).unwrap();
    assert_eq!((reply.request, reply.total, reply.from, reply.rows, reply.changed.len()), (7, 6, 2, 3, 3));
    site.now += 1_000;
    assert!(watcher.reply(&site, &site.board()).is_none(), "nothing has changed");
    let program = site.open("eva", "n2", None);
    let summary = watcher.reply(&site, &site.board()).unwrap();
    assert_eq!((summary.summary.unwrap().sessions, summary.changed.len()), (1, 0));
    let device = site.device("n2", 1);
    site.give(Input::MayUse { client: program, device });
    site.did(program, device, Some(900));
    let reply = watcher.reply(&site, &site.board()).unwrap();
    assert_eq!(reply.changed.iter().map(|row| row.at).collect::<Vec<_>>(), [1]);
    // The busiest device first; a window beyond the end shows the last rows.
    watcher.ask(v1::WatchRequest { order: WatchOrder::Busy.into(), from: 0, rows: 1, ..request.clone() });
    let first = watcher.reply(&site, &site.board()).unwrap().changed.remove(0).line.unwrap();
    assert!(matches!(&first, Line::Device(line) if (line.node_name.as_str(), line.ordinal) == ("n2", 1)), "{first:?}");
    watcher.ask(v1::WatchRequest { from: 99, ..request });
    let reply = watcher.reply(&site, &site.board()).unwrap();
    assert_eq!((reply.from, reply.rows, reply.changed.len()), (3, 3, 3));
}

#[test]
fn the_order_of_names_is_kept_while_there_are_the_same_nodes() {
    let site = Site::new(&["n10", "n9"]);
    let first = site.board();
    let second = Board::observe(&site, (Millis(site.now), 0), Some(&first));
    assert!(Arc::ptr_eq(&first.by_node_name, &second.by_node_name));
    let more = Site::new(&["n10", "n9", "n1"]);
    let third = Board::observe(&more, (Millis(more.now), 0), Some(&second));
    assert_eq!(*third.by_node_name, [2, 1, 0]);
}

#[test]
fn watchers_share_a_board() {
    let runtime = accord_proto::runtime::one_threaded().unwrap();
    let boards = Boards::new(Arc::new(Driver::new(DriverSettings::default())));
    let (one, two) = runtime.block_on(async { (boards.fresh().await.unwrap(), boards.fresh().await.unwrap()) });
    assert!(Arc::ptr_eq(&one, &two));
}

#[test]
fn the_core_is_locked_for_a_few_jobs_at_a_time_and_once_for_each_row_that_is_shown() {
    let mut site = Site::new(&["n1"]);
    let jobs = 3 * AT_ONCE;
    for _ in 0..jobs {
        site.open("eva", "n1", Some("1:cpu limit=1h"));
    }
    let counted = Counted { site: &site, looks: Cell::new(0), longest: Cell::new(0) };
    let board = Board::observe(&counted, (Millis(site.now), STARTED_UNIX_MS + site.now), None);
    assert!(counted.longest.get() <= 2 * AT_ONCE as u64, "{} steps under one lock", counted.longest.get());
    let request = v1::WatchRequest { from: 5, rows: 10, ..asks(WatchTable::Jobs) };
    let mut watcher = Watcher::new(admin(), request);
    counted.looks.set(0);
    let reply = watcher.reply(&counted, &board).unwrap();
    assert_eq!((reply.total as usize, reply.changed.len(), counted.looks.get()), (jobs, 10, 10));
    assert!(Watcher::new(admin(), asks(WatchTable::Nodes)).reply(&counted, &board).is_some());
    assert!(watcher.reply(&counted, &board).is_none());
    assert_eq!(counted.looks.get(), 10, "a row's words are kept with the board");
    assert!(counted.longest.get() <= 2 * AT_ONCE as u64, "{} steps under one lock", counted.longest.get());
}

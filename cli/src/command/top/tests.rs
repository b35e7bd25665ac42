//! Tests of replies and keys, and of the resulting screens.

use super::rows::Rows;
use super::screen::{draw, fit, text};
use super::state::{Act, Key, Sort, Top, View};
use super::{cells, json};
use crate::client::WholeTable;
use accord_proto::v1::watch_row::Line;
use accord_proto::v1::{
    ClusterSummary, DeviceCondition, DeviceLine, Job, JobDevices, JobLine, JobState, NodeLine, NodeState, UserLine,
    WatchReply, WatchRow,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The coordinator's clock.
const NOW: u64 = 100_000_000;
const MINUTE: u64 = 60_000;

fn summary() -> ClusterSummary {
    ClusterSummary {
        started_unix_ms: NOW - 125 * MINUTE,
        nodes_up: 1,
        nodes_draining: 1,
        nodes_away: 1,
        devices: 5,
        devices_busy: 1,
        devices_unknown: 1,
        devices_idle: 1,
        devices_out: 2,
        jobs_running: 2,
        jobs_waiting: 1,
        others_running: 3,
        others_waiting: 0,
        sessions: 4,
        paused: false,
    }
}

fn device(node_name: &str, ordinal: u32, busy_percent: Option<u32>) -> DeviceLine {
    DeviceLine {
        node_name: node_name.into(),
        ordinal,
        name: "NVIDIA H200".into(),
        condition: DeviceCondition::Held.into(),
        busy_percent,
        memory: 139 << 30,
        ..DeviceLine::default()
    }
}

fn devices() -> Vec<Line> {
    let lines = [
        DeviceLine {
            users: vec!["eva".into()],
            programs: vec!["heat".into()],
            jobs: vec![17],
            memory_used: 71 << 30,
            ..device("gpu01", 0, Some(97))
        },
        DeviceLine {
            users: vec!["tom".into()],
            jobs: vec![18],
            idle_since_unix_ms: Some(NOW - 41 * MINUTE),
            ..device("gpu01", 1, Some(0))
        },
        DeviceLine { other_users: 2, other_sessions: 3, ..device("gpu01", 2, None) },
        DeviceLine {
            condition: DeviceCondition::Drained.into(),
            reason: "new fan".into(),
            ..device("gpu02", 0, Some(0))
        },
        DeviceLine { condition: DeviceCondition::Lost.into(), ..device("gpu03", 0, None) },
    ];
    lines.into_iter().map(Line::Device).collect()
}

fn nodes() -> Vec<Line> {
    let node = |name: &str, state: NodeState| NodeLine {
        name: name.into(),
        state: state.into(),
        devices: 3,
        memory: 417 << 30,
        ..NodeLine::default()
    };
    let lines = [
        NodeLine {
            devices_busy: 1,
            devices_held: 2,
            devices_idle: 1,
            memory_used: 71 << 30,
            sessions: 4,
            ..node("gpu01", NodeState::Up)
        },
        NodeLine { reason: "new fan".into(), ..node("gpu02", NodeState::Draining) },
        NodeLine { heard_unix_ms: Some(NOW - 3 * MINUTE), ..node("gpu03", NodeState::Lost) },
    ];
    lines.into_iter().map(Line::Node).collect()
}

fn users() -> Vec<Line> {
    let lines = [
        UserLine {
            user: "eva".into(),
            users: 1,
            jobs_running: 1,
            jobs_waiting: 1,
            sessions: 1,
            devices: 1,
            busy_percent: Some(97),
            memory_used: 71 << 30,
            ..UserLine::default()
        },
        UserLine { user: "mia".into(), users: 1, jobs_waiting: 2, ..UserLine::default() },
        UserLine { users: 2, jobs_running: 3, sessions: 3, devices: 1, devices_unknown: 1, ..UserLine::default() },
    ];
    lines.into_iter().map(Line::User).collect()
}

fn job(number: u64, user: &str, state: JobState) -> Job {
    Job {
        job: number,
        user: user.into(),
        program: "heat".into(),
        request: "2:nvidia".into(),
        state: state.into(),
        asked_unix_ms: NOW - 50 * MINUTE,
        ..Job::default()
    }
}

fn jobs() -> Vec<Line> {
    let on = |ordinals: &[u32]| JobDevices {
        node_name: "gpu01".into(),
        ordinals: ordinals.to_vec(),
        share_milli: 1_000,
        exclusive: true,
        ..JobDevices::default()
    };
    let runs = |number, user, ordinals| Job {
        started_unix_ms: Some(NOW - 42 * MINUTE),
        devices: vec![on(ordinals)],
        ..job(number, user, JobState::Running)
    };
    let lines = [
        JobLine { job: Some(runs(17, "eva", &[0])), busy_percent: Some(97), ..JobLine::default() },
        JobLine {
            job: Some(runs(18, "tom", &[1])),
            busy_percent: Some(0),
            idle_since_unix_ms: Some(NOW - 41 * MINUTE),
            ..JobLine::default()
        },
        JobLine {
            job: Some(Job {
                why: "it needs 2 of nvidia/h200, and none is free".into(),
                ..job(19, "eva", JobState::Waiting)
            }),
            ..JobLine::default()
        },
    ];
    lines.into_iter().map(Line::Job).collect()
}

fn lines(view: View) -> Vec<Line> {
    match view {
        View::Devices => devices(),
        View::Nodes => nodes(),
        View::Users => users(),
        View::Jobs => jobs(),
    }
}

/// Returns the first reply to the last request, with some rows of a table.
fn reply(top: &Top, from: u32, total: u32, lines: Vec<Line>) -> WatchReply {
    let rows = u32::try_from(lines.len()).unwrap();
    let changed = (0..).zip(lines).map(|(at, line)| WatchRow { at, line: Some(line) }).collect();
    WatchReply { request: top.request().number, unix_ms: NOW, summary: Some(summary()), total, from, rows, changed }
}

fn top(view: View) -> Top {
    let mut top = Top::new("head:7447", view, Sort::default(), "");
    top.resize(100);
    let lines = lines(view);
    top.take(reply(&top, 0, u32::try_from(lines.len()).unwrap(), lines));
    top
}

/// Returns the lines of a terminal.
fn displayed(top: &Top, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, frame.area(), frame.buffer_mut())).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

#[test]
fn devices_show_use_memory_users_and_idle_holders_in_80_columns() {
    assert_eq!(
        displayed(&top(View::Devices), 80, 12),
        [
            "accord top  coordinator head:7447, up 2 h 5 min",
            "nodes: 1 up, 1 draining, 1 away; 4 sessions",
            "5 devices: 1 busy, 1 unknown, 1 held but idle, 2 out of use",
            "jobs: 2 running, 1 waiting; of other users 3 running",
            "",
            "NODE  DEV NAME            USE       MEMORY JOB USERS, PROGRAMS",
            "gpu01   0 NVIDIA H200    97 % 71.0/139 GiB  17 eva heat",
            "gpu01   1 NVIDIA H200     0 %    0/139 GiB  18 tom, idle 41 min",
            "gpu01   2 NVIDIA H200 unknown    0/139 GiB   - 2 other users",
            "gpu02   0 NVIDIA H200     0 %    0/139 GiB   - drained: new fan",
            "gpu03   0 NVIDIA H200       -    0/139 GiB   - lost",
            "d devices  n nodes  u users  j jobs  s sort: name  q quit",
        ]
    );
}

#[test]
fn a_device_in_quarantine_says_since_when_why_and_whether_its_jobs_are_charged() {
    for (quarantine_charged, notes) in [(false, "7 min: ECC"), (true, "7 min, charged: ECC")] {
        let line = DeviceLine {
            condition: DeviceCondition::Quarantined.into(),
            reason: "ECC".into(),
            quarantined_since_unix_ms: Some(NOW - 7 * MINUTE),
            quarantine_charged,
            ..device("gpu01", 0, Some(0))
        };
        let mut top = Top::new("head:7447", View::Devices, Sort::default(), "");
        top.resize(100);
        top.take(reply(&top, 0, 1, vec![Line::Device(line)]));
        let displayed = displayed(&top, 80, 12);
        assert!(displayed.iter().any(|line| line.ends_with(&format!("in quarantine for {notes}"))), "{displayed:#?}");
    }
}

#[test]
fn a_device_that_programs_outside_of_accord_use_says_others() {
    let line = DeviceLine {
        condition: DeviceCondition::Free.into(),
        used_by_others: true,
        memory_used: 70 << 30,
        ..device("gpu01", 0, Some(80))
    };
    let mut top = Top::new("head:7447", View::Devices, Sort::default(), "");
    top.resize(100);
    top.take(reply(&top, 0, 1, vec![Line::Device(line)]));
    let displayed = displayed(&top, 80, 12);
    assert!(displayed.contains(&"gpu01   0 NVIDIA H200 80 % 70.0/139 GiB   - others".to_owned()), "{displayed:#?}");
}

#[test]
fn nodes_say_why_they_take_no_jobs() {
    assert_eq!(
        displayed(&top(View::Nodes), 80, 10)[5..9],
        [
            "NODE  STATE    DEVICES BUSY HELD IDLE       MEMORY SESSIONS WHY",
            "gpu01 up             3    1    2    1 71.0/417 GiB        4",
            "gpu02 draining       3    0    0    0    0/417 GiB        0 new fan",
            "gpu03 lost           3    0    0    0    0/417 GiB        0 heard 3 min ago",
        ]
    );
}

#[test]
fn users_have_their_jobs_and_devices_and_others_are_counted() {
    assert_eq!(
        displayed(&top(View::Users), 80, 10)[5..9],
        [
            "USER            RUNNING WAITING SESSIONS DEVICES     USE IDLE   MEMORY",
            "eva                   1       1        1       1    97 %    0 71.0 GiB",
            "mia                   0       2        0       0       -    0      0 B",
            "(2 other users)       3       0        3       1 unknown    0      0 B",
        ]
    );
}

#[test]
fn jobs_say_how_long_they_run_and_why_they_wait() {
    assert_eq!(
        displayed(&top(View::Jobs), 80, 10)[5..9],
        [
            "JOB USER PROGRAM REQUEST  STATE   SINCE   USE DEVICES, OR WHY IT WAITS",
            " 17 eva  heat    2:nvidia running 42 min 97 % gpu01/0",
            " 18 tom  heat    2:nvidia running 42 min  0 % idle 41 min, gpu01/1",
            " 19 eva  heat    2:nvidia waiting 50 min    - it needs 2 of nvidia/h200, and non",
        ]
    );
}

#[test]
fn a_narrow_screen_cuts_the_last_column_and_a_small_one_has_no_rows() {
    for (width, height) in [(40, 8), (20, 3), (1, 1)] {
        let lines = displayed(&top(View::Devices), width, height);
        assert_eq!(lines.len(), usize::from(height), "{lines:#?}");
    }
}

#[test]
fn keys_choose_the_table_its_order_and_its_place() {
    let mut top = top(View::Devices);
    assert_eq!((fit(12), fit(3)), (5, 1));
    assert_eq!(top.resize(2), Act::Ask);
    assert_eq!(top.resize(2), Act::Nothing);
    top.take(reply(&top, 0, 5, devices()[..2].to_vec()));
    for (key, from) in [(Key::Down, 1), (Key::PageDown, 3), (Key::Up, 2), (Key::End, 3), (Key::Home, 0)] {
        assert_eq!(top.key(key), Act::Ask, "{key:?}");
        assert_eq!(top.request().from, from, "{key:?}");
    }
    assert_eq!(
        (top.key(Key::Up), top.key(Key::Char('x')), top.key(Key::Char('d'))),
        (Act::Nothing, Act::Nothing, Act::Nothing)
    );
    top.key(Key::End);
    let before = top.request();
    assert_eq!(top.key(Key::Char('s')), Act::Ask);
    assert_eq!((top.request().from, top.request().order), (0, Sort::Use.order().into()));
    assert_ne!(top.request().number, before.number);
    for (letter, view) in [('n', View::Nodes), ('u', View::Users), ('j', View::Jobs), ('d', View::Devices)] {
        assert_eq!(top.key(Key::Char(letter)), Act::Ask);
        assert_eq!(top.request().table, i32::from(view.table()));
    }
    assert_eq!(top.key(Key::Char('q')), Act::Quit);
}

#[test]
fn rows_change_in_their_places_and_those_of_another_request_are_dropped() {
    let mut top = top(View::Devices);
    let mut changed = reply(&top, 0, 5, Vec::new());
    changed.rows = 5;
    changed.summary = None;
    changed.changed = vec![WatchRow { at: 2, line: Some(Line::Device(device("gpu01", 2, Some(33)))) }];
    top.take(changed);
    let screen = displayed(&top, 80, 12).join("\n");
    assert!(screen.contains("33 %") && screen.contains("97 %") && screen.contains("up 2 h"), "{screen}");
    // The rows of devices stay until those of nodes arrive.
    let late = reply(&top, 0, 1, vec![Line::Device(device("gpu09", 9, None))]);
    top.key(Key::Char('n'));
    top.take(late);
    assert!(displayed(&top, 80, 12).join("\n").contains("33 %"));
    top.take(reply(&top, 0, 3, nodes()));
    let screen = displayed(&top, 80, 12).join("\n");
    assert!(screen.contains("heard 3 min ago") && !screen.contains("33 %"), "{screen}");
    let fewer = WatchReply { rows: 1, total: 1, ..reply(&top, 0, 1, Vec::new()) };
    top.take(fewer);
    assert_eq!(top.rows.lines.len(), 1);
}

#[test]
fn old_rows_say_so_and_names_can_t_move_the_cursor() {
    let mut top = top(View::Devices);
    top.problem = Some("the coordinator does not answer\u{1b}[2J".into());
    let last = displayed(&top, 80, 10).pop().unwrap();
    assert!(last.starts_with("the coordinator does not answer") && !last.contains('\u{1b}'), "{last:?}");
    let hostile = DeviceLine { users: vec!["\u{1b}]0;x\u{7}\nroot".into()], ..device("gpu01", 0, None) };
    top.take(reply(&top, 0, 1, vec![Line::Device(hostile)]));
    let screen = displayed(&top, 80, 10);
    assert!(screen.iter().all(|line| !line.contains(['\u{1b}', '\u{7}'])), "{screen:?}");
    assert!(screen.last().unwrap().starts_with("d devices"), "{screen:?}");
}

#[test]
fn the_printed_table_has_all_rows_and_no_keys() {
    let printed = text(&top(View::Devices), 80);
    assert_eq!(printed.lines().count(), 11, "{printed}");
    assert!(!printed.contains("q quit") && printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    let mut none = Top::new("head:7447", View::Jobs, Sort::default(), "");
    none.rows = Rows::whole(View::Jobs.table(), WholeTable::default());
    assert!(text(&none, 80).contains("nodes: none; 0 sessions\n0 devices\n"), "{}", text(&none, 80));
}

#[test]
fn json_has_all_tables_and_unknown_is_null() {
    let whole = |view| WholeTable {
        summary: summary(),
        unix_ms: NOW,
        rows: (0..).zip(lines(view)).map(|(at, line)| WatchRow { at, line: Some(line) }).collect(),
    };
    let json = json::json("head:7447", &View::ALL.map(whole));
    let counts = ["nodes", "devices", "users", "jobs"].map(|list| json[list].as_array().unwrap().len());
    assert_eq!(counts, [3, 5, 3, 3], "{json:#}");
    assert_eq!((&json["devices"][0]["busy_percent"], &json["devices"][2]["busy_percent"]), (&97.into(), &().into()));
    assert_eq!(
        (&json["devices"][3]["condition"], &json["devices"][3]["reason"]),
        (&"drained".into(), &"new fan".into())
    );
    assert_eq!((&json["users"][2]["user"], &json["users"][2]["users"]), (&().into(), &2.into()));
    assert_eq!((&json["jobs"][2]["state"], &json["nodes"][2]["state"]), (&"waiting".into(), &"lost".into()));
}

#[test]
fn memory_is_in_the_unit_of_all_of_it() {
    assert_eq!(cells::part_of(71 << 30, 139 << 30), "71.0/139 GiB");
    assert_eq!(cells::part_of(0, 64 << 20), "0/64.0 MiB");
    assert_eq!(cells::part_of(1 << 20, 139 << 30), "1.0 MiB/139 GiB");
    assert_eq!(cells::part_of(0, 0), "0/0 B");
}

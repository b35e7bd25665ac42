//! The rows that visitors see.

use super::site::{Site, admin, eva, rows, tom};
use accord_cluster::Input;
use accord_coordinator::service::AnonymousAccess;
use accord_scheduler::{DrainTarget, Input as Scheduled, Millis};
use accord_types::{DeviceId, DeviceUse, NodeId};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Names that would be scripts, styles or other text if anything took them for it.
pub(super) const HOSTILE: [&str; 4] = [
    "<img src=x onerror=document.title=1>",
    "\"><script>document.title=2</script>",
    "&lt;b&gt; {{7*7}} ${7*7}",
    "\u{202e}txet desrever\u{0}\u{7}\ndata: {}\n\n",
];

fn names<'a>(rows: &[&'a Value], key: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[key].as_str().unwrap_or("-")).collect()
}

#[test]
fn users_see_their_own_programs_and_administrators_all() {
    let site = Site::start(AnonymousAccess::Nothing);
    site.nodes(3);
    let eva_program = site.open("eva", "eva's app", "n1", Some("1:cpu"));
    site.open("tom", "tom's app", "n1", Some("1:cpu"));
    let device = DeviceId { node: NodeId(0), ordinal: 0 };
    let used = DeviceUse { busy_ms: Some(1), bytes_in: 0, bytes_out: 0, held: 1 << 20, fault: None };
    site.driver.input(Input::ProgramUsed { client: eva_program, uses: vec![(device, used)] });
    let (eva, tom, admin) = (site.cookie_of(eva()), site.cookie_of(tom()), site.cookie_of(admin()));
    let event = |path: &str, cookie: &str| site.events(path, cookie).next().unwrap();

    let seen = event("/events?table=jobs", &eva);
    assert_eq!((names(&rows(&seen), "user"), &seen["summary"]["others_running"]), (vec!["eva"], &1.into()), "{seen}");
    let seen = event("/events?table=jobs", &admin);
    assert_eq!(names(&rows(&seen), "user"), ["eva", "tom"]);
    assert_eq!(names(&rows(&seen), "program"), ["eva's app", "tom's app"]);
    assert_eq!(names(&rows(&event("/events?table=users", &eva)), "user"), ["eva", "-"]);
    let seen = event("/events?table=devices&rows=100", &tom);
    assert!(!seen.to_string().contains("eva"), "{seen}");
    assert_eq!(seen["total"], 6);
    // A user whom the visitor does not see is as unknown as one that there is not.
    for user in ["eva", "no-such-user"] {
        assert_eq!(event(&format!("/events?table=devices&user={user}"), &tom)["total"], 0);
    }
    assert_eq!(event("/events?table=devices&user=tom", &tom)["total"], 1);
    // The policy shows others' jobs.
    site.apply_policy("others-jobs = \"all\"\n[account.physics]\nusers = [\"*\"]\n");
    let mut events = site.events("/events?table=jobs", &eva);
    events.until(|event| rows(event).len() == 2);
}

#[test]
fn usage_is_by_account_and_a_users_own() {
    let site = Site::start(AnonymousAccess::Nothing);
    site.nodes(1);
    site.apply_policy("[account.physics]\nusers = [\"eva\"]\n[account.chemistry]\nusers = [\"tom\"]\n");
    site.open("eva", "app", "n1", Some("1:cpu"));
    site.open("tom", "app", "n1", Some("1:cpu"));
    std::thread::sleep(Duration::from_millis(20));
    let accounts = |role| {
        let usage = site.get("/usage", &site.cookie_of(role)).json();
        let rows = usage["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["account"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(accounts(eva()), ["physics"]);
    assert_eq!(accounts(admin()), ["chemistry", "physics"]);
}

#[test]
fn hostile_names_are_text_in_json() {
    let site = Site::start(AnonymousAccess::Nothing);
    for (number, name) in HOSTILE.iter().enumerate() {
        site.node(&format!("n{number}"));
        site.open(name, name, &format!("n{number}"), Some("1:cpu"));
    }
    let event = site.events("/events?table=jobs", &site.cookie_of(admin())).next().unwrap();
    assert_eq!(names(&rows(&event), "user"), HOSTILE);
    assert_eq!(names(&rows(&event), "program"), HOSTILE);
}

#[test]
fn drained_devices_have_a_reason_and_a_node_that_ends_is_seen() {
    let site = Site::start(AnonymousAccess::Nothing);
    let cookie = site.cookie_of(eva());
    let mut empty = site.events("/events?table=nodes", &cookie);
    let first = empty.next().unwrap();
    assert_eq!((&first["total"], &first["summary"]["nodes_up"]), (&0.into(), &0.into()));
    site.nodes(3);
    empty.until(|event| event["total"] == 3);
    drop(empty);
    let mut devices = site.events("/events?table=devices", &cookie);
    assert_eq!(rows(&devices.next().unwrap()).len(), 6);
    let target = DrainTarget::Device(DeviceId { node: NodeId(1), ordinal: 1 });
    let drain =
        Scheduled::Drain { target, by_time: Millis(0), end: false, reason: "new fan".into(), by: "admin root".into() };
    site.driver.input(Input::Schedule(drain));
    let event = devices.until(|event| event["summary"]["devices_out"] == 1);
    let [row] = rows(&event)[..] else { panic!("only one row has changed: {event}") };
    assert_eq!((&row["node"], &row["condition"], &row["reason"]), (&"n2".into(), &"drained".into(), &"new fan".into()));
    site.node_ends("n3");
    let event = devices.until(|event| event["summary"]["nodes_away"] == 1);
    assert_eq!(rows(&event).iter().filter(|row| row["condition"] == "lost" && row["node"] == "n3").count(), 2);
}

#[test]
fn page_sends_only_the_visible_rows_of_ten_thousand_nodes() {
    const NODES: usize = 10_000;
    let site = Site::start(AnonymousAccess::Nothing);
    site.nodes(NODES);
    let cookie = site.cookie_of(eva());
    let begun = Instant::now();
    let mut events = site.events("/events?table=devices&order=use&rows=50", &cookie);
    let first = events.next().unwrap();
    println!("the first view of {NODES} nodes came within {:?}", begun.elapsed());
    assert_eq!((&first["total"], &first["from"], rows(&first).len()), (&20_000.into(), &0.into(), 50));
    let begun = Instant::now();
    let last = site.events("/events?table=nodes&from=9990&rows=50", &cookie).next().unwrap();
    println!("another window came within {:?}", begun.elapsed());
    assert_eq!((&last["from"], rows(&last).len()), (&9_950.into(), 50), "the last rows");
    assert_eq!(rows(&last)[49]["name"], "n10000");
    // More than a page has at most are not sent.
    assert_eq!(rows(&site.events("/events?rows=100000", &cookie).next().unwrap()).len(), 100);
    // A change elsewhere sends the numbers, and no row.
    site.node_ends("n9999");
    let event = events.until(|event| !event["summary"].is_null() && event["summary"]["nodes_away"] == 1);
    assert_eq!(rows(&event).len(), 0);
}

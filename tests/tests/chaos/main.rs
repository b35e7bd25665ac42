//! Every role, hit by every fault in every phase: the program goes on or ends with an error, as is due, in time, with right results, and nothing is
//! left. `ACCORD_TEST_CHAOS` says how many tries a role; `make chaos` takes more of them and writes docs/reference/faults.md.

mod judge;
mod page;
mod site;
mod table;

use judge::{Ending, judge};
use page::Row;
use site::Site;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use table::{Phase, Role, cases};

/// A fixed share, for every run of the tests.
const TRIES: usize = 6;
/// How far into its phase a fault may come.
const JITTER_MAX_MS: u64 = 120;
/// The same where the phase is over in a moment.
const CLOSING_JITTER_MAX_MS: u64 = 6;

fn hit(role: Role) {
    let tries = std::env::var("ACCORD_TEST_CHAOS").map_or(TRIES, |text| text.parse().expect("a number"));
    let cases = cases(role);
    let (mut site, mut rows, mut wrong) = (Site::new(), BTreeMap::<_, Row>::new(), Vec::new());
    let (mut left_out, mut random) = (BTreeSet::new(), 11u64);
    for &(fault, phase, due) in cases.iter().cycle().take(tries) {
        if let Some(why) = site::lacks(role, fault) {
            left_out.insert(why);
            continue;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let longest = if phase == Phase::Close { CLOSING_JITTER_MAX_MS } else { JITTER_MAX_MS };
        let jitter = Duration::from_millis((random >> 33) % longest);
        let outcome = site.attempt(role, fault, phase, jitter);
        let row = rows.entry(fault).or_default();
        if !outcome.hit {
            row.missed += 1;
            continue;
        }
        match judge(due, role, fault, phase, &outcome) {
            Ok(ending) => row.count(ending, phase, outcome.took),
            Err(why) => {
                row.wrong += 1;
                println!("WRONG {role}, {fault}, {phase}, after {jitter:?}: {why}");
                wrong.push(format!("{role}, {fault}, {phase}, after {jitter:?}: {why}"));
                site.give_up();
            }
        }
    }
    drop(site);
    site::remove_groups();
    for why in &left_out {
        println!("skipped: {why}");
    }
    for (fault, row) in &rows {
        println!("{role}, {fault}: {row}");
    }
    page::record(role, &rows);
    assert!(wrong.is_empty(), "{} tries went wrong:\n{}", wrong.len(), wrong.join("\n"));
    let done: u32 =
        rows.values().map(|row| row.of(Ending::WentOn) + row.of(Ending::Error) + row.of(Ending::Gone)).sum();
    assert!(done > 0 || !left_out.is_empty(), "nobody was hit");
}

#[test]
fn programs() {
    hit(Role::Program);
}

#[test]
fn workers() {
    hit(Role::Worker);
}

#[test]
fn executors() {
    hit(Role::Executor);
}

#[test]
fn agents() {
    hit(Role::Agent);
}

#[test]
fn coordinators() {
    hit(Role::Coordinator);
}

#[test]
fn accord_run_and_links() {
    hit(Role::Run);
}

#[test]
fn ranks() {
    hit(Role::Rank);
}

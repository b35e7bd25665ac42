//! Every role, hit by every fault in every phase. The program goes on or ends with an error, as is due, in time, with
//! right results, and nothing is left. A test run applies each fault once to each role, some 80 tries, in the same
//! phase each time. `ACCORD_TEST_CHAOS` is the number of tries per role, and `ACCORD_TEST_CHAOS_AT_ONCE` the number at
//! one time; `make chaos` makes 1,000 and writes docs/reference/faults.md. `ACCORD_TEST_CHAOS_ONLY="no descriptors,
//! launch"` selects tries by name.

mod clocks;
mod judge;
mod launcher;
mod links;
mod page;
mod site;
mod table;

use clocks::Clocks;
use judge::{Ending, judge};
use page::Row;
use site::Site;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use table::{Due, Fault, Lanes, Phase, Role, cases};

/// Number of tries at one time, which mostly wait.
const AT_ONCE: usize = 3;
/// Latest time of a fault in its phase.
const JITTER_MAX_MS: u64 = 120;
/// Latest time of a fault in a start, which mostly waits for agents for a second.
const STARTING_JITTER_MAX_MS: u64 = 900;
/// Latest time of a fault in a short phase.
const CLOSING_JITTER_MAX_MS: u64 = 6;

/// Results of all threads of a role.
#[derive(Default)]
struct Seen {
    rows: BTreeMap<Fault, Row>,
    wrong: Vec<String>,
    left_out: BTreeSet<&'static str>,
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn hit(role: Role) {
    let mut cases = cases(role);
    let faults: BTreeSet<Fault> = cases.iter().map(|(fault, ..)| *fault).collect();
    let (tries, at_once) = (number("ACCORD_TEST_CHAOS", faults.len()), number("ACCORD_TEST_CHAOS_AT_ONCE", AT_ONCE));
    if let Ok(only) = std::env::var("ACCORD_TEST_CHAOS_ONLY") {
        cases.retain(|(fault, phase, _)| format!("{fault}, {phase}").contains(&only));
    }
    let clocks = Clocks::new();
    let (next, seen) = (AtomicUsize::new(0), Mutex::new(Seen::default()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                let mut site = Site::new(&clocks);
                let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
                for number in numbers.take_while(|number| *number < tries) {
                    let case = (cases[number % cases.len()], Lanes::of(number, &cases));
                    attempt(&mut site, role, case, number as u64, &seen);
                }
            });
        }
    });
    site::remove_groups();
    let Seen { rows, wrong, left_out } = seen.into_inner().unwrap();
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
    assert!(done > 0 || !left_out.is_empty(), "no process was hit");
}

fn attempt(site: &mut Site<'_>, role: Role, case: ((Fault, Phase, Due), Lanes), number: u64, seen: &Mutex<Seen>) {
    let ((fault, phase, due), lanes) = case;
    if let Some(why) = site::lacks(role, fault) {
        seen.lock().unwrap().left_out.insert(why);
        return;
    }
    let longest = match phase {
        Phase::Start => STARTING_JITTER_MAX_MS,
        Phase::Close => CLOSING_JITTER_MAX_MS,
        _ => JITTER_MAX_MS,
    };
    let jitter = Duration::from_millis(jitter_of(number) % longest);
    let outcome = site.attempt(role, (fault, phase), lanes, jitter);
    let judged = outcome.hit.then(|| judge(due, role, fault, phase, &outcome));
    let mut seen = seen.lock().unwrap();
    let row = seen.rows.entry(fault).or_default();
    row.left += u32::from(outcome.leaves_something());
    row.due += u32::from(outcome.hit && due == Due::GoesOn);
    match judged {
        None => row.missed += 1,
        Some(Ok(ending)) => {
            row.count(ending, phase, outcome.took);
            row.did += u32::from(due == Due::GoesOn && ending == Ending::WentOn);
        }
        Some(Err(why)) => {
            row.wrong += 1;
            let why = format!("{role}, {fault}, {phase}, after {jitter:?}, by {lanes}: {why}\n{}", outcome.printed);
            println!("WRONG {why}");
            seen.wrong.push(why);
            drop(seen);
            site.give_up();
        }
    }
}

/// Returns the same jitter for the same try.
fn jitter_of(number: u64) -> u64 {
    let mixed = (number + 11).wrapping_mul(6_364_136_223_846_793_005);
    (mixed ^ (mixed >> 29)).wrapping_mul(1_442_695_040_888_963_407) >> 33
}

#[test]
#[ignore = "long"]
fn programs() {
    hit(Role::Program);
}

#[test]
#[ignore = "long"]
fn workers() {
    hit(Role::Worker);
}

#[test]
#[ignore = "long"]
fn executors() {
    hit(Role::Executor);
}

#[test]
#[ignore = "long"]
fn agents() {
    hit(Role::Agent);
}

#[test]
#[ignore = "long"]
fn coordinators() {
    hit(Role::Coordinator);
}

#[test]
#[ignore = "long"]
fn accord_run_and_links() {
    hit(Role::Run);
}

#[test]
#[ignore = "long"]
fn ranks() {
    hit(Role::Rank);
}

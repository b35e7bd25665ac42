//! Twelve users on three hosts: jobs of all kinds, with ranks, exclusive and shared, withdrawn, killed, held and over
//! their limit, while an administrator drains and pauses and nodes are lost. Two users lie. Programs record their use,
//! and all of it is checked from outside.
#![forbid(unsafe_code)]

mod administrator;
mod audit;
mod books;
mod false_reporter;
mod plan;
mod site;
mod user;

use accord_test_tier::{first_seed, pick};
use audit::{Record, overlaps, records};
use plan::{Numbers, Plan, Take};
use site::{HOSTS, Site, USERS};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use user::Outcome;

/// Memory of each device.
const MEMORY_MIB: u64 = 64;
/// Number of lying users, which are the last ones.
const LIARS: usize = 2;
/// The first user's launcher gives every job at this interval the number that liars name.
const SAME_NUMBER: usize = 4;
/// Interval of checks of the programs' use.
const AUDIT_PAUSE: Duration = Duration::from_secs(3);
/// The time limit for the last jobs to leave the queue.
const EMPTY_MAX: Duration = Duration::from_secs(60);

/// The facts about all jobs.
#[derive(Default)]
struct JobFacts {
    /// What programs may hold. A program without a request is added once it has ended without losing its device to a
    /// job.
    takes: BTreeMap<String, Take>,
    /// The plans of programs, in words.
    plans: BTreeMap<String, String>,
    in_outage: BTreeSet<String>,
    /// Number of jobs of each kind.
    counts: BTreeMap<String, usize>,
}

/// Returns the number in a variable that configures the test.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "long"]
fn nothing_is_allocated_twice_usage_adds_up_and_nothing_is_left() {
    let Some(site) = Site::new() else { return };
    let seed = number("ACCORD_TEST_SEED").unwrap_or_else(|| first_seed(1));
    let lasts = Duration::from_secs(number("ACCORD_TEST_SECONDS").unwrap_or_else(|| pick(40, 1_200)));
    println!("ACCORD_TEST_SEED={seed} ACCORD_TEST_SECONDS={}", lasts.as_secs());
    let (known, is_over, begun) = (Mutex::new(JobFacts::default()), AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let (site, known, is_over) = (&site, &known, &is_over);
        let users: Vec<_> =
            (0..USERS.len()).map(|at| scope.spawn(move || work(site, at, seed, begun + lasts, known))).collect();
        scope.spawn(move || administrator::work(site, seed, is_over));
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) && site.faults().is_empty() {
                std::thread::sleep(AUDIT_PAUSE);
                audit(site, known);
            }
        });
        for (at, user) in users.into_iter().enumerate() {
            if user.join().is_err() {
                site.fault(format!("the thread of user {at} has panicked"));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    await_empty_queue(&site);
    let left = site.left();
    if !left.is_empty() {
        site.fault(format!("left behind: {left:?}"));
    }
    let lasted = begun.elapsed();
    let found = audit(&site, &known);
    let known = known.into_inner().unwrap();
    books::check(&site, &found, &known, lasted);
    println!("{} records in {lasted:?}; {:#?}", found.len(), known.counts);
    let faults = site.faults();
    let messages = site.cluster.read().unwrap().messages();
    assert!(faults.is_empty(), "seed {seed}: {} faults:\n{}\n{messages}", faults.len(), faults.join("\n"));
}

/// Runs the jobs of a user in sequence.
fn work(site: &Site, at: usize, seed: u64, until: Instant, known: &Mutex<JobFacts>) {
    let (user, is_liar) = (USERS[at], at + LIARS >= USERS.len());
    let mut numbers = Numbers::new(seed.wrapping_mul(1_000).wrapping_add(at as u64));
    for nth in 0.. {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        let name = format!("j{at}x{nth}");
        let plan =
            (!is_liar && (at > 0 || nth % SAME_NUMBER > 0)).then(|| Plan::next(&mut numbers, HOSTS, site.with_mpi));
        let take = plan.map_or(Take::Exclusive, |plan| plan.request.take);
        known.lock().unwrap().plans.insert(name.clone(), plan.map_or_else(String::new, |plan| plan.to_string()));
        if take != Take::Nothing {
            known.lock().unwrap().takes.insert(name.clone(), take);
        }
        let outcome = match &plan {
            Some(plan) => user::run(site, user, &name, plan),
            None if is_liar => {
                false_reporter::false_claim(site, user, &name, &mut numbers, false_reporter::published(site))
                    .map(|()| Outcome::AsPlanned)
            }
            None => false_reporter::honest(site, user, &name).map(|()| Outcome::AsPlanned),
        };
        let mut known = known.lock().unwrap();
        if site.had_outage_since(begun) {
            known.in_outage.insert(name.clone());
        }
        match outcome {
            Ok(outcome) => {
                let what =
                    plan.map_or_else(|| format!("liar {is_liar}"), |plan| format!("{:?} {:?}", plan.way, plan.fate));
                *known.counts.entry(format!("{what}: {outcome:?}")).or_default() += 1;
                if take == Take::Nothing && outcome == Outcome::AsPlanned {
                    known.takes.insert(name, take);
                }
            }
            Err(why) => site.fault(format!("{name} of {user}, {}: {why}", known.plans[&name])),
        }
    }
}

/// Searches for regions that shared a device without permission.
fn audit(site: &Site, known: &Mutex<JobFacts>) -> Vec<Record> {
    let known = known.lock().unwrap();
    let found = records(&site.path("records"));
    for overlap in overlaps(&found, &known.takes) {
        let plans: Vec<String> =
            overlap.programs.iter().map(|program| format!("{program}: {}", known.plans[program])).collect();
        site.fault(format!("{}\n  {}", overlap.text, plans.join("\n  ")));
    }
    found
}

fn await_empty_queue(site: &Site) {
    let begun = Instant::now();
    loop {
        let queue = site.seen(&["queue"]);
        if queue.as_ref().is_ok_and(|queue| queue["jobs"].as_array().is_some_and(Vec::is_empty)) {
            return;
        }
        if begun.elapsed() > EMPTY_MAX {
            return site.fault(format!("the queue does not empty: {queue:?}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

//! The cost of users' questions for the coordinator's decisions: a cluster as in `accord-bench scheduler`, with and
//! without 100 users. Each repeatedly asks for the queue, why a job waits, and what a request would get.
//!
//! The coordinator runs in this process with its usual threads: one for all connections, and others for questions.
//! Agents and commands call the driver without connections; the asking users have connections through TLS. Events
//! (requests, ends of commands, releases of devices) arrive at a steady rate from another thread, as from the network.
//! Rounds with and without questions alternate.

mod cluster;
mod served;
mod users;

pub(crate) use served::Served;

use crate::report::{Report, quantile};
use cluster::{Cluster, DEVICES, EventTimes};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use users::Users;

/// The name of the question.
pub(crate) const NAME: &str = "askers";
/// Devices of the smallest cluster.
const DEVICES_MIN: u32 = 160;
/// Highest ratio of the decisions' 99th percentile with questions to that without.
const RATIO_MAX: f64 = 1.1;

/// The size of the cluster, and the number of questions.
#[derive(Clone, Copy)]
struct Sizes {
    devices: u32,
    waiting: usize,
    askers: usize,
    /// Number of rounds of each kind.
    rounds: usize,
    /// Duration of a round in seconds.
    seconds: u64,
    /// Events per second.
    rate: u64,
}

impl Sizes {
    /// Parses the flags of this process.
    fn of_flags() -> Result<(Self, String), String> {
        let mut sizes = Self { devices: 80_000, waiting: 1_000, askers: 100, rounds: 9, seconds: 6, rate: 500 };
        let flags: Vec<String> = std::env::args().filter(|argument| argument.starts_with("--")).collect();
        for flag in &flags {
            let wrong =
                || format!("{flag}: --devices, --waiting, --askers, --rounds, --seconds and --rate take =NUMBER");
            let (name, value) = flag.split_once('=').ok_or_else(wrong)?;
            let value: u32 = value.parse().ok().filter(|value| *value > 0).ok_or_else(wrong)?;
            match name {
                // Whole nodes, and enough that the smallest job is small.
                "--devices" => sizes.devices = value.max(DEVICES_MIN).next_multiple_of(DEVICES),
                "--waiting" => sizes.waiting = value as usize,
                "--askers" => sizes.askers = value as usize,
                "--rounds" => sizes.rounds = value as usize,
                "--seconds" => sizes.seconds = value.into(),
                "--rate" => sizes.rate = value.into(),
                _ => return Err(wrong()),
            }
        }
        Ok((sizes, flags.iter().map(|flag| format!(" {flag}")).collect()))
    }
}

pub(crate) fn run() -> Result<Report, String> {
    let (sizes, flags) = Sizes::of_flags()?;
    let mut report = Report::of(format!("accord-bench {NAME}{flags}"));
    let mut served = Served::begin(sizes.devices, sizes.waiting)?;
    let names: Vec<String> = served.cluster.users().iter().cycle().take(sizes.askers).cloned().collect();
    let identities = names.into_iter().map(|name| served.tenant(name)).collect::<Result<Vec<_>, _>>()?;
    let users = Users::connect(&served.address, identities, sizes.devices)?;
    let mut rounds: BTreeMap<&str, Vec<Vec<EventTimes>>> = BTreeMap::new();
    let mut answers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..=2 * sizes.rounds {
        let asks = round % 2 == 1;
        users.ask(asks)?;
        let took = events_of_a_round(&mut served.cluster, sizes)?;
        for (question, ms) in users.answers()? {
            answers.entry(question).or_default().push(ms);
        }
        // The first round is a warm-up.
        if round > 0 {
            rounds.entry(if asks { "asked" } else { "quiet" }).or_default().push(took);
        }
    }
    users.ask(false)?;
    drop(users);
    served.end()?;
    put(&mut report, &rounds, &answers, sizes)?;
    Ok(report)
}

/// Issues the events of a round at their due times. A late event's time includes the delay by earlier ones.
fn events_of_a_round(cluster: &mut Cluster, sizes: Sizes) -> Result<Vec<EventTimes>, String> {
    let begun = Instant::now();
    let due = |event: u64| begun + Duration::from_secs(1).mul_f64(event as f64 / sizes.rate as f64);
    let mut took = Vec::new();
    for event in 0..sizes.seconds * sizes.rate {
        let mut due = due(event);
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left);
            due = Instant::now();
        }
        took.push(cluster.next_event(due)?);
    }
    Ok(took)
}

/// Adds the medians of the rounds to the report.
fn put(
    report: &mut Report,
    rounds: &BTreeMap<&str, Vec<Vec<EventTimes>>>,
    answers: &BTreeMap<&str, Vec<f64>>,
    sizes: Sizes,
) -> Result<(), String> {
    type What = fn(&EventTimes) -> f64;
    let kinds: [(&str, What); 2] = [("decision", |took| took.decided_us), ("event_to_effects", |took| took.all_us)];
    for (when, rounds) in rounds {
        for (what, of) in kinds {
            for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
                let of_rounds = rounds.iter().map(|round| quantile(round.iter().map(of).collect(), share));
                report.put(&format!("{when}/{what}/{name}"), "us", of_rounds.collect());
            }
        }
    }
    for (question, ms) in answers {
        println!("{} answers to {question}, median {:.1} ms", ms.len(), quantile(ms.clone(), 0.5));
        report.put(&format!("answer/{question}"), "ms", ms.clone());
    }
    if answers.is_empty() {
        return Err("no question was answered: make the rounds longer".to_owned());
    }
    for (what, _) in kinds {
        let median = |when: &str, of: &str| report.median(&format!("{when}/{what}/{of}"));
        let quiet = (median("quiet", "p50")?, median("quiet", "p99")?);
        let asked = (median("asked", "p50")?, median("asked", "p99")?);
        println!(
            "{what}: p50 {:.1} us, p99 {:.1} us without questions; {:.1} us, {:.1} us with {} askers",
            quiet.0, quiet.1, asked.0, asked.1, sizes.askers
        );
        let row = format!("{what}, p99: {} askers / none", sizes.askers);
        report.at_most(&row, asked.1 / quiet.1, "x", RATIO_MAX);
    }
    Ok(())
}

//! `accord-bench QUESTION...`: measures, prints a table, and keeps the raw samples.
//!
//! Each question is answered by ratios of medians of samples from one run, Accord compared with the raw mechanism.
//! Results go to `benches/results/DATE-QUESTION.json` with the machine's description.
#![forbid(unsafe_code)]

mod agents;
mod askers;
mod fake_agents;
mod journal;
mod lanes;
mod mandelbrot;
mod mpi;
mod present_table;
mod process_use;
mod profiling;
mod remote;
mod report;
mod requests;
mod scalars;
mod scale;
mod scheduler;
mod scrape;
mod secure;
mod services;
mod shares;
mod short_messages;
mod slow_network;
mod start;
mod tls;
mod transports;
mod turns;
mod waiting;
mod watchers;

use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// A function that answers a question.
type Ask = fn() -> Result<Report, String>;

const QUESTIONS: [(&str, Ask); 23] = [
    ("remote", remote::run),
    ("lanes", lanes::run),
    ("tls", tls::run),
    ("secure", secure::run),
    ("scrape", scrape::run),
    ("transports", transports::run),
    ("mpi", mpi::run),
    ("mandelbrot", mandelbrot::run),
    ("short-messages", short_messages::run),
    ("slow-network", slow_network::run),
    ("present-table", present_table::run),
    ("scalars", scalars::run),
    ("profiling", profiling::run),
    ("start", start::run),
    ("scheduler", scheduler::run),
    ("shares", shares::run),
    ("waiting", waiting::run),
    ("turns", turns::run),
    ("agents", agents::run),
    ("scale", scale::run),
    ("journal", journal::run),
    ("watchers", watchers::run),
    (askers::NAME, askers::run),
];

fn main() -> ExitCode {
    let mut asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.iter().any(|a| a == "--help" || a == "-h") {
        println!("usage: accord-bench [QUESTION...]\nquestions: {}", names().join(", "));
        return ExitCode::SUCCESS;
    }
    // The part of this process inside a cluster that it has started.
    let part = match asked.first().map(String::as_str) {
        Some(secure::PLAIN_PROGRAM) => Some(secure::plain_program(&asked[1..])),
        Some(waiting::IN_NAMESPACE) => Some(waiting::in_namespace(&asked[1..])),
        Some(scrape::WITH_SCRAPES) => Some(scrape::with_scrapes(&asked[1..])),
        _ => None,
    };
    if let Some(done) = part {
        return match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    // Flags belong to one question, which parses them itself.
    if asked.first().is_some_and(|first| first == askers::NAME) {
        asked.retain(|argument| !argument.starts_with("--"));
    }
    if asked.is_empty() {
        asked = names();
    }
    let mut failed = false;
    for name in &asked {
        let Some((_, run)) = QUESTIONS.iter().find(|(n, _)| n == name) else {
            eprintln!("no question {name}; there are {}", names().join(", "));
            return ExitCode::from(2);
        };
        match run().and_then(|report| report.keep(name, &results())) {
            Ok(table) => println!("{table}"),
            Err(why) => {
                eprintln!("{name}: {why}");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

fn names() -> Vec<String> {
    QUESTIONS.iter().map(|(n, _)| (*n).to_owned()).collect()
}

/// Returns the repository's folder.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

fn results() -> PathBuf {
    root().join("benches/results")
}

//! `accord-fuzz [--seconds N] [--seed N] [--input FILE] [--keep] [TARGET...]`: runs targets for a long time, or with one input. `--keep` writes short
//! inputs that reach more than a target's seeds into the corpus, and replaces those of an earlier `--keep`.

use accord_fuzz::corpus::{self, CorpusEntry, EntryReason};
use accord_fuzz::{ALL, Budget, Failure, Target, check, collect, drive};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct Arguments {
    seconds: u64,
    seed: u64,
    input: Option<String>,
    keep: bool,
    targets: Vec<&'static Target>,
}

fn arguments() -> Result<Arguments, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut found = Arguments { seconds: 60, seed: now, input: None, keep: false, targets: Vec::new() };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match argument.as_str() {
            "--seconds" => found.seconds = number(value()?)?,
            "--seed" => found.seed = number(value()?)?,
            "--keep" => found.keep = true,
            "--input" => found.input = Some(value()?),
            name => {
                let target = ALL.iter().find(|target| target.name == name);
                found.targets.push(target.ok_or_else(|| {
                    let names: Vec<_> = ALL.iter().map(|target| target.name).collect();
                    format!("no target {name}; there are {}", names.join(", "))
                })?);
            }
        }
    }
    if found.targets.is_empty() {
        found.targets = ALL.iter().collect();
    }
    Ok(found)
}

fn run() -> Result<(), String> {
    let arguments = arguments()?;
    if let Some(path) = arguments.input {
        let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        return arguments.targets.iter().try_for_each(|target| check(target, &bytes).map(drop));
    }
    if arguments.keep {
        let budget = Budget::Time(Duration::from_secs(arguments.seconds));
        return arguments.targets.iter().try_for_each(|target| keep(target, budget, arguments.seed));
    }
    let mut wrong = Vec::new();
    for target in arguments.targets {
        match drive(target, Budget::Time(Duration::from_secs(arguments.seconds)), arguments.seed) {
            Ok(inputs) => println!("{}: {inputs} inputs, seed {}", target.name, arguments.seed),
            Err(failure) => {
                println!("{failure}\n  seed {}, {}", arguments.seed, remember(target, &failure));
                wrong.push(target.name);
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong: {}", wrong.join(", "))) }
}

/// Adds a failing input to the corpus. Returns a message.
fn remember(target: &Target, failure: &Failure) -> String {
    let found = CorpusEntry { why: EntryReason::Found(failure.what.clone()), input: failure.input.clone() };
    let written = corpus::read(target).and_then(|mut kept| {
        kept.push(found);
        corpus::write(target, &kept).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => format!("kept in {}", corpus::path(target).display()),
        Err(error) => format!("not kept: {error}"),
    }
}

fn keep(target: &Target, budget: Budget, seed: u64) -> Result<(), String> {
    let found = collect(target, budget, seed).map_err(|failure| failure.to_string())?;
    println!("{}: {} inputs, {} bytes", target.name, found.len(), found.iter().map(Vec::len).sum::<usize>());
    let mut kept = corpus::read(target)?;
    kept.retain(|kept| kept.why != EntryReason::Rare);
    kept.splice(..0, found.into_iter().map(|input| CorpusEntry { why: EntryReason::Rare, input }));
    corpus::write(target, &kept).map_err(|error| format!("{}: {error}", corpus::path(target).display()))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

//! `accord-fuzz [--seconds N] [--seed N] [--input FILE] [TARGET...]`: feeds targets at length, or gives them one input.

use accord_fuzz::{ALL, Budget, Target, check, drive};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct Arguments {
    seconds: u64,
    seed: u64,
    input: Option<String>,
    targets: Vec<&'static Target>,
}

fn arguments() -> Result<Arguments, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut found = Arguments { seconds: 60, seed: now, input: None, targets: Vec::new() };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match argument.as_str() {
            "--seconds" => found.seconds = number(value()?)?,
            "--seed" => found.seed = number(value()?)?,
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
    let mut wrong = Vec::new();
    for target in arguments.targets {
        match drive(target, Budget::Time(Duration::from_secs(arguments.seconds)), arguments.seed) {
            Ok(inputs) => println!("{}: {inputs} inputs, seed {}", target.name, arguments.seed),
            Err(failure) => {
                let path = format!("fuzz/corpus/{}/found-{}", target.name, arguments.seed);
                let kept = std::fs::create_dir_all(format!("fuzz/corpus/{}", target.name))
                    .and_then(|()| std::fs::write(&path, &failure.input));
                println!(
                    "{failure}\n  seed {}, {}",
                    arguments.seed,
                    match kept {
                        Ok(()) => format!("kept as {path}"),
                        Err(error) => format!("not kept: {error}"),
                    }
                );
                wrong.push(target.name);
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong: {}", wrong.join(", "))) }
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

//! Random programs against a model of the specification, through the whole of libacc: a program compiled by GCC does what
//! a file says, on devices in the process, on other nodes, and on one of each.
//!
//! `ACCORD_TEST_SEED` takes the place of the first seed, `ACCORD_TEST_OPERATIONS` of the number of operations of each test. A
//! failure is shrunk, and printed as a C program.
#![forbid(unsafe_code)]

mod op;
mod plan;
mod shrink;
mod spec;

use accord_tests::{Job, Result, Tool, libacc, test_plugin, test_program, tool};
use op::Op;
use plan::{Abilities, Choice};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Choices of one sequence: each is an operation and the waits that it needs.
const CHOICES: usize = 48;
/// Sequences that one process runs.
const SEQUENCES: usize = 400;
/// How often a small sequence is tried: what depends on time does not fail each time.
const TRIES: usize = 40;
const FIRST_SEED: u64 = 1;

/// Where the two devices are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    InProcess,
    Remote,
    Mixed,
    /// As [`Place::Remote`], by links on which everything takes its time.
    Slow,
}

struct Harness {
    place: Place,
    driver: std::path::PathBuf,
    folder: tempfile::TempDir,
}

impl Harness {
    fn new(place: Place) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        Ok(Self { place, driver: test_program("model/driver.c")?, folder })
    }

    fn job(&self, file: &Path, progress: &Path) -> Result<Job> {
        let remote = matches!(self.place, Place::Remote | Place::Slow);
        let first = if remote { "1" } else { "0" };
        let job = match self.place {
            Place::InProcess => Job::new(&self.driver).env("LD_PRELOAD", libacc()?).env("ACCORD_CPU_DEVICES", "2"),
            Place::Remote | Place::Mixed | Place::Slow => {
                let size = if remote { "3x1" } else { "2x1" };
                let job = Job::new(tool(Tool::Accord)?).args(["run", "--local-cluster", size, "--loopback", "--"]);
                job.arg(&self.driver)
            }
        };
        let job = match self.place {
            Place::Slow => job.env("LD_PRELOAD", test_plugin("model/driver.c")?),
            _ => job,
        };
        let job = job.env("ACCORD_CPU_MEMORY", "512M").env("ACCORD_LIBACC", libacc()?);
        Ok(job.arg(file).arg(first).arg(progress).timeout(Duration::from_secs(300)))
    }

    /// Runs sequences in one process. What went wrong, and in which of them.
    fn run<'a>(&self, sequences: impl Iterator<Item = &'a [Op]>) -> Result<Option<(usize, String)>> {
        let mut text = String::new();
        for (index, ops) in sequences.enumerate() {
            let _ = writeln!(text, "N {index}");
            ops.iter().for_each(|op| text += &(op.line() + "\n"));
        }
        let (file, progress) = (self.folder.path().join("ops"), self.folder.path().join("progress"));
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        let finished = self.job(&file, &progress)?.run()?;
        if finished.status.success() && finished.stdout.contains("PASS") {
            return Ok(None);
        }
        let at = std::fs::read_to_string(&progress).unwrap_or_default().trim().parse();
        Ok(Some((at.map_err(|_| finished.report())?, finished.report())))
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs so many operations; a failure ends it.
fn check(place: Place, operations: u64) {
    let abilities = Abilities { across: true };
    let harness = Harness::new(place).expect("the driver");
    let operations = number("ACCORD_TEST_OPERATIONS", operations);
    let mut seed = number("ACCORD_TEST_SEED", FIRST_SEED);
    let (begin, mut done, mut sequences) = (Instant::now(), 0, 0);
    while done < operations {
        let all: Vec<Vec<Choice>> = (0..SEQUENCES as u64).map(|i| plan::choices(seed + i, CHOICES)).collect();
        let programs: Vec<Vec<Op>> = all.iter().map(|choices| plan::plan(choices, abilities)).collect();
        let mut some = programs.len();
        let mut count = 0;
        for (index, program) in programs.iter().enumerate() {
            if done + count >= operations {
                some = index;
                break;
            }
            count += program.len() as u64;
        }
        let outcome = harness.run(programs[..some].iter().map(Vec::as_slice)).expect("the driver runs");
        done += count;
        sequences += some;
        if let Some((index, report)) = outcome {
            fail(&harness, abilities, seed + index as u64, &all[index], &report, begin.elapsed(), sequences);
        }
        seed += SEQUENCES as u64;
    }
    println!("{place:?}: {done} operations in {sequences} sequences, {:.1} s", begin.elapsed().as_secs_f64());
}

/// Shrinks what failed and says so.
fn fail(
    harness: &Harness,
    abilities: Abilities,
    seed: u64,
    choices: &[Choice],
    report: &str,
    after: Duration,
    sequences: usize,
) -> ! {
    let fails = |choices: &[Choice]| {
        let ops = plan::plan(choices, abilities);
        harness.run(std::iter::repeat_n(ops.as_slice(), TRIES)).ok().flatten().is_some()
    };
    let small = shrink::shrink(choices, fails);
    let ops = plan::plan(&small, abilities);
    let again = harness.run(std::iter::repeat_n(ops.as_slice(), TRIES)).ok().flatten();
    let again = again.map_or_else(|| "it did not fail again".to_owned(), |(_, report)| report);
    panic!(
        "{:?} devices, ACCORD_TEST_SEED={seed}: wrong after {:.1} s, among {sequences} sequences\n{report}\n\
         shrunk to {} of {} choices:\n{}\nwhich says\n{again}",
        harness.place,
        after.as_secs_f64(),
        small.len(),
        choices.len(),
        op::program(&ops),
    )
}

#[test]
fn devices_in_the_process() {
    check(Place::InProcess, 400_000);
}

#[test]
fn devices_of_other_nodes() {
    check(Place::Remote, 250_000);
}

#[test]
fn a_device_of_each_kind() {
    check(Place::Mixed, 250_000);
}

#[test]
fn devices_behind_slow_links() {
    check(Place::Slow, 100_000);
}

//! Random nests: `--kernels=check` of each has to have the serial run's results, and planted faults have to be detected.
//!
//! A failure names its seed and prints the case. `ACCORD_TEST_SEED` sets the first seed, `ACCORD_TEST_PROGRAMS` the number of nests.
//! With `ACCORD_TEST_WRITE` the sources are written into that folder, for `accord cc` and a GPU, and not run.

use super::programs::{Case, case, file};
use super::support::{RULES, Random, number, seeds, written};
use crate::edits::Edits;
use crate::emit::check;
use crate::plan::{Part, Plan, plan};
use crate::source::Source;
use crate::{Mode, c, rewrite_c};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Nests of one file: a start of the compiler takes as long as some of them.
const OF_FILE: usize = 100;

/// The cases of a file.
fn cases(seed: u64) -> Vec<Case> {
    let mut random = Random::new(seed);
    (0..OF_FILE).map(|_| case(&mut random)).collect()
}

/// Compiles and runs a source after the preprocessor. Returns the cases that differ, and messages of the checks in the program.
fn differing(folder: &Path, text: &str) -> (BTreeSet<usize>, BTreeSet<String>) {
    let source = folder.join("cases.i");
    std::fs::write(&source, text).unwrap();
    let program = folder.join("cases");
    // Constructs that are left to GCC have private variables too.
    let mut command = Command::new("gcc");
    command.args(["-O1", "-w", "-fwrapv", "-fopenacc", "-foffload=disable", "-o"]).arg(&program).arg(&source);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut all, mut printed) = (BTreeSet::new(), BTreeSet::new());
    for seed in ["", "2", "another"] {
        let output = Command::new(&program).env("KERNELS_CHECK_SEED", seed).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{:?}", output.status);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.extend(String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned));
        all.extend(text.lines().filter_map(|line| line.strip_prefix("case ")?.parse::<usize>().ok()));
    }
    (all, printed)
}

pub(super) fn preprocessed(folder: &Path, text: &str) -> String {
    let source = folder.join("cases.c");
    std::fs::write(&source, text).unwrap();
    let output = Command::new("gcc").args(["-E", "-fopenacc"]).arg(&source).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn random_nests_in_another_order_leave_what_the_serial_run_leaves() {
    let seeds = seeds(OF_FILE, 100, 10_000);
    if written(seeds.clone(), "c", |seed| file(&cases(seed))) {
        return;
    }
    let nests = (seeds.end - seeds.start) * OF_FILE as u64;
    let folder = tempfile::tempdir().unwrap();
    let mut opened = 0usize;
    for seed in seeds {
        let cases = cases(seed);
        let text = preprocessed(folder.path(), &file(&cases));
        let new = rewrite_c(&text, "cases.c", false, Mode::Check, RULES);
        opened += new.messages.iter().filter(|message| !message.refused).count();
        let (bad, printed) = differing(folder.path(), &new.text.unwrap());
        assert!(printed.is_empty(), "seed {seed}: {printed:?}");
        if let Some(at) = bad.first() {
            panic!("seed {seed}, case {at} of {bad:?}:\n{:#?}\n{}", cases[*at], cases[*at].body);
        }
    }
    // The nests must not pass because none of them is rewritten.
    assert!(opened as u64 > nests / 2, "{opened} loops of {nests} nests opened");
}

/// Planted faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// `independent` where iterations depend on each other.
    FalseIndependent,
    /// A scalar that each iteration writes is treated as one that is only read.
    ForgottenPrivate,
    /// A scalar whose value is used afterwards is treated as dead.
    LiveScalar,
}

/// Returns a nest that is right, and the directive or the variable of its fault.
fn faulty(fault: Fault, random: &mut Random) -> (String, &'static str) {
    let shift = 1 + random.below(3);
    let (from, to) = if random.below(2) == 0 { ("i", format!("i + {shift}")) } else { ("i + 1", "i".to_owned()) };
    let factor = random.below(9) + 2;
    match fault {
        Fault::FalseIndependent => (format!("for (i = 0; i < n; i++) x[{to}] = x[{from}] * {factor} + y[i];"), ""),
        Fault::ForgottenPrivate => (format!("for (i = 0; i < n; i++) {{ t = y[{from}] * {factor}; x[i] = t; }}"), "t"),
        Fault::LiveScalar => (format!("for (i = 0; i < n; i++) {{ w = y[{from}] * {factor}; x[i] = w; }}"), "w"),
    }
}

#[test]
fn planted_faults_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(number("ACCORD_TEST_SEED").unwrap_or(1));
    for fault in [Fault::FalseIndependent, Fault::ForgottenPrivate, Fault::LiveScalar] {
        let faults: Vec<(String, &str)> = (0..70).map(|_| faulty(fault, &mut random)).collect();
        let name = faults[0].1;
        let cases: Vec<Case> =
            faults.iter().map(|(nest, _)| Case::of(nest, fault == Fault::FalseIndependent)).collect();
        let text = preprocessed(folder.path(), &file(&cases));
        let source = Source::c(&text, "cases.c");
        let mut constructs = c::constructs(&source, false);
        assert_eq!(constructs.len(), cases.len());
        for construct in &mut constructs {
            for variable in
                construct.variables.iter_mut().filter(|variable| fault == Fault::LiveScalar && variable.name == name)
            {
                assert!(variable.live_after);
                variable.live_after = false;
            }
        }
        let mut edits = Edits::default();
        for construct in &constructs {
            let mut plan = plan(construct, RULES).unwrap();
            if fault == Fault::ForgottenPrivate {
                forget(&mut plan, name);
            }
            check::emit(&source, &plan, &mut edits);
        }
        edits.insert(0, check::PROLOGUE);
        let (seen, printed) = differing(folder.path(), &edits.apply(&text));
        let count = if fault == Fault::ForgottenPrivate { printed.len() } else { seen.len() };
        assert_eq!(count, cases.len(), "{fault:?}: {seen:?} {printed:?}");
    }
}

/// Treats a private scalar as one that is only read.
fn forget(plan: &mut Plan<'_>, name: &str) {
    for part in &mut plan.parts {
        let Part::Nest(nest) = part else { continue };
        for parallel in nest.loops.iter_mut().filter_map(|planned| planned.parallel.as_mut()) {
            let found = parallel.scalars.private.iter().copied().find(|id| plan.construct.variables[id.0].name == name);
            let found = found.expect("the scalar is private");
            parallel.scalars.private.remove(&found);
            parallel.scalars.read.insert(found);
        }
    }
}

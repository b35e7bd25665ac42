//! docs/reference/faults.md: the results of the tries, which `make chaos` writes.

use crate::judge::Ending;
use crate::table::{Due, Fault, Phase, Role, cases};
use accord_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The results of a fault on a role.
#[derive(Clone, Default, Debug)]
pub(crate) struct Row {
    endings: BTreeMap<Ending, u32>,
    phases: BTreeSet<Phase>,
    worst: Duration,
    pub(crate) wrong: u32,
    /// Number of tries after which the program had to go on.
    pub(crate) due: u32,
    /// Number of those after which it did.
    pub(crate) did: u32,
    /// Number of tries that left a process, or the folder of a run.
    pub(crate) left: u32,
    /// Number of tries without a process of the role.
    pub(crate) missed: u32,
}

impl Row {
    pub(crate) fn count(&mut self, ending: Ending, phase: Phase, took: Duration) {
        *self.endings.entry(ending).or_default() += 1;
        self.phases.insert(phase);
        self.worst = self.worst.max(took);
    }

    pub(crate) fn of(&self, ending: Ending) -> u32 {
        self.endings.get(&ending).copied().unwrap_or(0)
    }

    fn cells(&self) -> String {
        let [on, error, gone] = [Ending::WentOn, Ending::Error, Ending::Gone].map(|ending| self.of(ending));
        let phases: Vec<String> = self.phases.iter().map(Phase::to_string).collect();
        let (tries, worst) = (on + error + gone + self.wrong, self.worst.as_secs_f64());
        let Self { due, did, wrong, left, .. } = self;
        let counts = format!("{tries} | {due} / {did} | {on} | {error} | {gone} | {wrong} | {left}");
        format!("{counts} | {worst:.1} s | {}", phases.join(", "))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} missed", self.cells(), self.missed)
    }
}

const HEAD: &str = "# Faults\n\n\
    What becomes of programs when something fails around them: `make chaos` hits each role with each fault in each phase of a program\n\
    that checks every byte, and writes this page (`tests/tests/chaos`, whose `table.rs` says what is due). A smaller share runs with the tests.\n\n\
    * *due / did*: after how many tries the program had to go on to its end, and how often it did. Elsewhere it may end with an error, be the process that is hit,\n\
    \x20 or go on.\n\
    * *went on*: the program came to its end with right results. *error*: it ended with an error of OpenACC. *gone*: the fault, or what follows from it, ended it.\n\
    * *wrong*: what was not due: a hang, a wrong result, something left, an error where the program need not end. *left*: tries after which a process, or the\n\
    \x20 folder of a run, stayed.\n\
    * *worst*: the longest time from the fault (from its end, where the program outlives it) to the program's end.\n\
    * Except with *default times*, a silent peer counts as hung after 4 s (`ACCORD_TIMEOUT`, by default 30 s), an agent as lost after 3 s (`--lost-after`, 10 s),\n\
    \x20 and a program asks for its session for 12 s (`ACCORD_OPEN_TIMEOUT`, 30 s).\n\
    * *start* is before the program: `accord run`, and all that it starts, has the limits from its beginning. Later faults hit its launcher or its supervisor.\n\
    * A link is that of the host whose device is used (`accord run`), or the coordinator's alone.\n\
    * A clock that is set back is that of the role's processes; the monotonic one stays (`tests/programs/support/clocks.c`).\n\
    * Full disks are limits on files here, real ones in `tests/tests/full_disk.rs`. Mass silence, and outages of minutes, are simulated (`crates/sim`).\n\
    * All hosts are one machine. Every second try of a fault has lanes by shared memory, the others by TLS over TCP; where links are hit, all have TLS.\n\
    * *run* is the commit that the line was counted at. A run of some roles (`ROLES`) or faults (`ONLY`) leaves the other lines as they were.\n\n";
const COLUMNS: &str = "| role | fault | tries | due / did | went on | error | gone | wrong | left | worst | phases | run |\n\
    | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
const RUNS: &str = "\n## Runs\n\n| run | date | machine |\n| --- | --- | --- |\n";

fn folder() -> Option<PathBuf> {
    std::env::var_os("ACCORD_TEST_RECORD").map(PathBuf::from)
}

/// Stores a role's lines for the page.
pub(crate) fn record(role: Role, rows: &BTreeMap<Fault, Row>) {
    let Some(folder) = folder() else { return };
    let mut text = String::new();
    for (fault, row) in rows {
        // The writer of the page adds the run's name.
        let _ = writeln!(text, "| {role} | {fault} | {} |", row.cells());
    }
    std::fs::write(folder.join(format!("{role:?}")), text).unwrap();
}

fn page_file() -> PathBuf {
    root().join("docs/reference/faults.md")
}

/// Returns the output of a command.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the tested commit, with a mark if there are uncommitted changes.
fn commit() -> String {
    let changed = printed("git", &["status", "--porcelain", "--untracked-files=no"]);
    let changed = changed.lines().any(|line| !line.ends_with("docs/reference/faults.md"));
    format!("{}{}", printed("git", &["rev-parse", "--short=7", "HEAD"]), if changed { "+" } else { "" })
}

fn machine() -> String {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names: Vec<&str> = processors.lines().filter(|line| line.starts_with("model name")).collect();
    let name =
        names.first().and_then(|line| line.split_once(": ")).map_or("of a kind that is not said", |(_, name)| name);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{} processors, {name}; Linux {}",
        std::thread::available_parallelism().map_or(1, usize::from),
        kernel.trim()
    )
}

#[test]
fn write_what_a_run_has_shown() {
    if std::env::var_os("ACCORD_UPDATE_DOCS").is_none() {
        return;
    }
    let folder = folder().expect("ACCORD_TEST_RECORD names the run's folder");
    // A run of some roles or faults keeps the other lines.
    let before = if std::env::var_os("ACCORD_TEST_CHAOS_PART").is_some() {
        std::fs::read_to_string(page_file()).unwrap_or_default()
    } else {
        String::new()
    };
    let run = commit();
    let mut text = format!("{HEAD}{COLUMNS}");
    for role in Role::ALL {
        let new = std::fs::read_to_string(folder.join(format!("{role:?}"))).unwrap_or_default();
        for fault in Fault::ALL {
            let begin = format!("| {role} | {fault} | ");
            let line = new.lines().find(|line| line.starts_with(&begin)).map(|line| format!("{line} {run} |\n"));
            let kept = || Some(format!("{}\n", before.lines().find(|line| line.starts_with(&begin))?));
            text.extend(line.or_else(kept));
        }
    }
    let now = format!("| {run} | {} | {} |", printed("date", &["+%F"]), machine());
    let (all, known) = (text.clone(), before.split_once(RUNS).map_or("", |(_, runs)| runs));
    text += RUNS;
    for line in known.lines().filter(|line| !line.starts_with(&format!("| {run} "))).chain([&*now]) {
        let run = line.split('|').nth(1).unwrap_or_default();
        if all.contains(&format!("|{run}|\n")) {
            text += &format!("{line}\n");
        }
    }
    std::fs::write(page_file(), text).unwrap();
}

#[test]
fn the_page_has_a_line_for_each_fault_of_each_role() {
    let page = std::fs::read_to_string(page_file()).unwrap();
    assert!(page.starts_with(HEAD), "make chaos writes it anew");
    for role in Role::ALL {
        let faults: BTreeSet<Fault> = cases(*role).into_iter().map(|(fault, ..)| fault).collect();
        for fault in faults {
            let begin = format!("| {role} | {fault} | ");
            let line = page.lines().find_map(|line| line.strip_prefix(&begin));
            let line = line.unwrap_or_else(|| panic!("no line of {role}, {fault}"));
            assert!(!line.starts_with("0 "), "{role}, {fault}: {line}");
        }
    }
}

/// The counts show whether each try of a fault, or none, was due to go on.
#[test]
fn tries_with_a_due_outcome_are_counted() {
    assert!(Row::default().cells().contains("| 0 / 0 |"));
    let page = std::fs::read_to_string(page_file()).unwrap();
    for role in Role::ALL {
        for fault in Fault::ALL {
            let begin = format!("| {role} | {fault} | ");
            let Some(line) = page.lines().find(|line| line.starts_with(&begin)) else { continue };
            let due: BTreeSet<bool> =
                cases(*role).into_iter().filter(|case| case.0 == *fault).map(|case| case.2 == Due::GoesOn).collect();
            let [_, _, _, tries, counted, ..] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let (of, _) = counted.split_once(" / ").unwrap_or_else(|| panic!("{line}"));
            if due.len() == 1 {
                assert_eq!(of, if due.contains(&true) { tries } else { "0" }, "{line}");
            }
        }
    }
}

//! The routines that conformance programs call, and the results: the table of `docs/reference/conformance.md`.

use crate::conformance::Mode;
use crate::program::support;
use crate::{Language, Program, Result, root};
use regex_lite::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A routine of our headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routine {
    /// Its name.
    pub name: String,
    /// Whether the routine has a Fortran interface.
    pub fortran: bool,
}

/// A column of the table: where programs of a language run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// CPU devices in the program.
    CpuLocal,
    /// A GPU in the program, from a kept result of gpu-check.
    CpuRemote,
    /// A GPU of another node, from a kept result of gpu-check.
    GpuLocal,
    /// A GPU of another node, by the same.
    GpuRemote,
}

impl Kind {
    /// All columns, in the table's order.
    pub const ALL: [Self; 4] = [Self::CpuLocal, Self::CpuRemote, Self::GpuLocal, Self::GpuRemote];

    /// Returns the conformance tests' mode; `None` for GPUs, which gpu-check tests.
    fn mode(self) -> Option<Mode> {
        match self {
            Self::CpuLocal => Some(Mode::Local),
            Self::CpuRemote => Some(Mode::Cluster),
            Self::GpuLocal | Self::GpuRemote => None,
        }
    }
}

/// Returns all routines of `openacc.h` and `acc_prof.h`, in order.
///
/// # Errors
/// Returns an error if a header can't be read.
pub fn routines() -> Result<Vec<Routine>> {
    let header = |name: &str| {
        let path = root().join("libacc/include").join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let fortran = header("openacc_lib.h")?;
    let declared = Regex::new(r"^(?:[a-z][\w ]*?[ *]+)?(acc_\w+)\(").map_err(|error| error.to_string())?;
    let mut found: Vec<Routine> = Vec::new();
    for line in (header("openacc.h")? + &header("acc_prof.h")?).lines() {
        let Some(name) = declared.captures(line).map(|found| found[1].to_owned()) else { continue };
        if line.starts_with("typedef") || found.iter().any(|known| known.name == name) {
            continue;
        }
        let interface = format!("interface {name}");
        let has = |line: &str| line.trim() == interface || line.contains(&format!(" {name}("));
        found.push(Routine { fortran: fortran.lines().any(has), name });
    }
    Ok(found)
}

/// Returns the names of all routines that a program calls, from its text and its includes of `support/`.
///
/// # Errors
/// Returns an error if a source can't be read.
pub fn called(program: &Program) -> Result<BTreeSet<String>> {
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut text = read(&program.path)?;
    for path in program.with.iter().chain(&program.plugin) {
        text += &read(path)?;
    }
    if text.contains("\"every_routine.h\"") {
        text += &read(&support("every_routine.h"))?;
    }
    let comment = if program.language == Language::Fortran { "!" } else { "//" };
    let call = Regex::new(r"\b(acc_[a-z0-9_]+)\s*(\(|$)").map_err(|error| error.to_string())?;
    Ok(text
        .lines()
        .filter(|line| !line.trim_start().starts_with(comment) || line.trim_start().starts_with("!$"))
        .flat_map(|line| call.captures_iter(line).map(|found| found[1].to_owned()).collect::<Vec<_>>())
        .collect())
}

/// Results of a run: whether every variant of `mode::language::program` passed.
pub type Record = BTreeMap<String, bool>;

/// Returns the record of the last run of the conformance tests.
///
/// # Errors
/// Returns an error if it can't be read.
pub fn record(folder: &std::path::Path) -> Result<Record> {
    let mut all = Record::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let passed = std::fs::read_to_string(entry.path()).map_err(|error| error.to_string())? == "passed";
        let program = name.rsplit_once("::").map_or(name.clone(), |(program, _)| program.to_owned());
        let known = all.entry(program).or_insert(true);
        *known &= passed;
    }
    Ok(all)
}

/// Returns the results of gpu-check that name their programs, under `gpu` and `gpu-remote`; the last one of each
/// program.
///
/// # Errors
/// Returns an error if a result can't be read.
pub fn gpu_record() -> Result<Record> {
    let folder = root().join("benches/results");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("-gpu-")));
    paths.sort();
    let mut all = Record::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let Ok(result) = serde_json::from_str::<Value>(&text) else { continue };
        for (part, mode) in [("programs", "gpu"), ("programs-remote", "gpu-remote")] {
            let list = |key: &str| result[part][key].as_array().cloned().unwrap_or_default();
            // Older results name only failures.
            if result[part]["names"].is_null() {
                continue;
            }
            for name in list("names").iter().filter_map(Value::as_str) {
                all.insert(format!("{mode}::{}", name.replace('/', "::")), true);
            }
            for failed in list("failed") {
                // Results from before gpu-check listed skipped programs have these among the failures.
                let not_run = failed["wrong"][0].as_str().is_some_and(|why| why.starts_with("not started"));
                if let (Some(name), false) = (failed["name"].as_str(), not_run) {
                    all.insert(format!("{mode}::{}", name.replace('/', "::")), false);
                }
            }
        }
    }
    Ok(all)
}

/// Returns the text of a cell. `programs` come with the routines that they call.
pub fn cell(
    routine: &Routine,
    language: Language,
    kind: Kind,
    programs: &[(Program, BTreeSet<String>)],
    record: &Record,
) -> String {
    if language == Language::Fortran && !routine.fortran {
        return "not in Fortran".to_owned();
    }
    let mode = match kind.mode() {
        Some(mode) => mode.name(),
        None if kind == Kind::GpuLocal => "gpu",
        None => "gpu-remote",
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for (program, _) in
        programs.iter().filter(|(program, called)| program.language == language && called.contains(&routine.name))
    {
        match record.get(&format!("{mode}::{}::{}", language.folder(), program.name)) {
            Some(true) => passed += 1,
            Some(false) => failed.push(program.name.as_str()),
            None => {}
        }
    }
    match (passed, failed.as_slice()) {
        (_, [first, ..]) => format!("fails: {first}"),
        (0, []) => "-".to_owned(),
        _ => "passes".to_owned(),
    }
}

/// Whether any program of that language calls the routine.
pub fn is_covered(routine: &Routine, language: Language, programs: &[(Program, BTreeSet<String>)]) -> bool {
    programs.iter().any(|(program, called)| program.language == language && called.contains(&routine.name))
}

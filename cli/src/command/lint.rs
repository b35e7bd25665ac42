//! `accord lint`.

use super::included::included;
use super::outside::outside;
use super::unopened::unopened;
use crate::args::LintArgs;
use crate::directives::{Finding, Language, Severity, findings};
use crate::failure::{Failure, Result};
use crate::output::print;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit code if there are findings.
const FOUND: u8 = 1;
/// The assumed version of GCC if none is installed.
const OLDEST: u32 = 12;

/// Prints what GCC omits, gets wrong or refuses in sources; returns 1 if there is anything.
pub(crate) fn lint(args: &LintArgs) -> Result<u8> {
    let gcc = args.gcc.unwrap_or_else(version);
    let mut all: Vec<(PathBuf, Finding)> = Vec::new();
    let mut seen: BTreeSet<PathBuf> = args.files.iter().filter_map(|path| path.canonicalize().ok()).collect();
    for path in &args.files {
        let language = Language::of(path)
            .ok_or_else(|| Failure::new(format!("{}: neither C, C++ nor Fortran by its name", path.display())))?;
        let text =
            std::fs::read(path).map_err(|error| Failure::system(format!("can't read {}", path.display()), error))?;
        let text = String::from_utf8_lossy(&text);
        let files = included(path, &text, language, &[]);
        let others: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
        let outside = outside(path, &text, language, &files, &others, &[]);
        let found = findings(&text, language, gcc, &outside).into_iter().chain(unopened(path, language));
        all.extend(found.map(|finding| (path.clone(), finding)));
        for (path, text) in files {
            if path.canonicalize().is_ok_and(|path| seen.insert(path)) {
                let found = findings(&text, language, gcc, &outside).into_iter();
                // Included files are not copied.
                all.extend(found.map(|finding| (path.clone(), Finding { rewritten: finding.everywhere, ..finding })));
            }
        }
    }
    if args.json {
        let list: Vec<_> = all.iter().map(|(path, found)| as_json(path, found)).collect();
        print(&format!("{:#}\n", json!(list)));
    } else {
        print(&all.iter().map(|(path, found)| as_line(path, found)).collect::<String>());
    }
    Ok(if all.is_empty() { 0 } else { FOUND })
}

fn as_line(path: &Path, found: &Finding) -> String {
    let file = found.file.clone().unwrap_or_else(|| path.display().to_string());
    let by_itself = if found.rewritten { " (accord cc, c++ and fc do that)" } else { "" };
    format!("{file}:{}: {}: {}; write: {}{by_itself}\n", found.line, word(found.severity), found.message, found.remedy)
}

fn as_json(path: &Path, found: &Finding) -> serde_json::Value {
    json!({
        "file": found.file.clone().unwrap_or_else(|| path.display().to_string()),
        "line": found.line,
        "severity": word(found.severity),
        "message": found.message,
        "remedy": found.remedy,
        "rewritten": found.rewritten,
    })
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Refused => "refused",
        Severity::Ignored => "ignored",
        Severity::Wrong => "wrong",
    }
}

/// Returns the major version of the machine's GCC.
fn version() -> u32 {
    let output = Command::new("gcc").arg("-dumpversion").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.trim().split('.').next().and_then(|major| major.parse().ok()).unwrap_or(OLDEST)
}

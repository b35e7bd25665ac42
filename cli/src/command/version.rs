//! `accord version`: what this installation is, and what it fits.

use crate::args::VersionArgs;
use crate::failure::Result;
use crate::output::print;
use accord_types::{build_version, settings};
use serde_json::json;
use std::process::{Command, Stdio};

/// The versions of GCC that Accord is tested with.
const GCC_TESTED: [&str; 4] = ["12.2", "13.3", "14.2", "15.3"];

/// Runs `accord version`.
pub(crate) fn version(args: &VersionArgs) -> Result<u8> {
    let build = build_version!();
    let (compiler, _) = settings::CC.in_force(|name| std::env::var(name).ok());
    let found = gcc_version(&compiler);
    let (control, session) = (accord_proto::VERSIONS.own(), accord_fabric::handshake::VERSIONS.own());
    if args.json {
        let all = json!({
            "version": build.version,
            "commit": build.commit,
            "gcc": { "program": compiler, "found": found, "tested": GCC_TESTED },
            "protocols": { "control": control, "session": session },
        });
        print(&format!("{all:#}\n"));
        return Ok(0);
    }
    let here = found.map_or_else(|| format!("no {compiler} here"), |found| format!("{compiler} here is {found}"));
    print(&format!(
        "accord {}\ncommit {}\nGCC: {here}; tested with {}\nprotocols: control {control}, session {session}\n",
        build.version,
        build.commit,
        GCC_TESTED.join(", ")
    ));
    Ok(0)
}

/// Returns the version that a compiler reports, or `None` if it can't be started.
fn gcc_version(compiler: &str) -> Option<String> {
    let output =
        Command::new(compiler).args(["-dumpfullversion", "-dumpversion"]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().next()?.trim();
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
    (is_version && !version.is_empty()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tested_compilers_are_those_of_the_documents() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/use/gcc.md");
        let page = std::fs::read_to_string(page).unwrap();
        let line = page.lines().find(|line| line.starts_with("Tried with GCC ")).unwrap();
        for version in GCC_TESTED {
            assert!(line.contains(version), "{line}");
        }
    }

    #[test]
    fn only_a_compiler_has_a_version() {
        assert_eq!(gcc_version("/nonexistent/gcc"), None);
        assert_eq!(gcc_version("echo"), None, "it prints its arguments");
    }
}

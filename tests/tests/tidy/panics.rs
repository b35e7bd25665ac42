//! Refusals by the system (threads, memory, descriptors), and a lock whose holder has panicked, are errors with words.
//! So shipped code has no `unwrap` and no `expect`, starts no thread by a call that panics, and prints by none.

use crate::modules::code_of;
use crate::sources::{is_tests, sources, text, without_text};
use std::path::Path;

/// Folders of shipped code.
const SHIPPED: &[&str] = &["crates", "libacc", "node-agent", "coordinator", "cli", "proto/src", "mpi/src"];
/// Calls that panic. `expect` with an argument other than a text is another method. `println!` panics when its text
/// can't be written (`| head`, a full disk).
const PANICS: &[&str] = &[
    ".unwrap()",
    ".unwrap_err()",
    ".expect()",
    ".expect(&format",
    "thread::spawn(",
    "spawn_blocking(",
    "print!(",
    "println!(",
];
/// Files that are used only in tests, or are generated.
const NOT_SHIPPED: &[&str] = &["crates/sim", "proto/src/gen"];

fn found_in(source: &str) -> Vec<&'static str> {
    // A file's own tests are at its end.
    let (source, _) = source.split_once("\n#[cfg(test)]\nmod tests {").unwrap_or((source, ""));
    let code = code_of(source);
    let lines: Vec<String> = code.lines().map(without_text).collect();
    PANICS.iter().filter(|panics| lines.iter().any(|line| line.contains(**panics))).copied().collect()
}

pub(crate) fn is_shipped(path: &Path) -> bool {
    let is_build = path.file_name().is_some_and(|name| name == "build.rs");
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let is_example = path.components().any(|part| part.as_os_str() == "examples");
    below(SHIPPED) && !below(NOT_SHIPPED) && !is_build && !is_example && !is_tests(path)
}

#[test]
fn shipped_code_has_no_unwrap_and_no_expect() {
    let shipped: Vec<_> = sources().into_iter().filter(|path| is_shipped(path)).collect();
    assert!(shipped.len() > 300, "{} files", shipped.len());
    let wrong: Vec<_> = shipped
        .iter()
        .map(|path| (path, found_in(&text(path))))
        .filter(|(_, found)| !found.is_empty())
        .map(|(path, found)| format!("{}: {}", path.display(), found.join(", ")))
        .collect();
    assert!(
        wrong.is_empty(),
        "return the error instead, or PoisonError::into_inner for a lock, or `let _ = writeln!`:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_panic_is_found_and_what_only_looks_like_one_is_not() {
    let bad = "let held = lock.lock().expect(\"held\");\nstd::thread::spawn(work);\nlet n = text.parse().unwrap();\n\
               tokio::task::spawn_blocking(work);\neprintln!(\"lost\");\n";
    assert_eq!(found_in(bad), [".unwrap()", ".expect()", "thread::spawn(", "spawn_blocking(", "println!("]);
    let good = "core.expect(transfer, from)?;\n// x.unwrap()\nlet t = \".unwrap()\";\nx.unwrap_or_default();\n\
                #[cfg(test)]\nmod tests {\n    fn t() {\n        x.unwrap();\n    }\n}\n";
    assert!(found_in(good).is_empty());
}

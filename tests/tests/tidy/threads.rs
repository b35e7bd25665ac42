//! A panic never ends a thread alone, since other threads may wait for it. All threads start in
//! `accord_types::threads`, which decides what a panic means; our own processes declare at their start that any panic
//! ends them. Code that catches one reports it.

use crate::panics::is_shipped;
use crate::sources::{code, sources, without_text};
use regex_lite::Regex;
use std::path::Path;

/// Names of functions that start a thread, or handle panics.
const WORDS: &str = r"\bthread::(Builder|spawn|scope)\b|\bthread::\{[^}]*\b(Builder|spawn|scope)\b|\bspawn_scoped\b|\bspawn_blocking\b|\bpthread_create\b|\bcatch_unwind\b|\bresume_unwind\b|\b(set|take)_hook\b";

/// Files that may use these names, with reasons.
const MAY: &[(&str, &str)] = &[
    ("crates/types/src/threads.rs", "is the place"),
    (
        "libacc/cuda-fortran/src/grid.rs",
        "runs blocks in a CPU device's worker, which a panic ends: it leaves no C function",
    ),
    ("libacc/src/abi_boundary.rs", "ends the program with an error: no frame of the program is unwound"),
    ("libacc/src/explain.rs", "ends the process, which only describes a program, with its status"),
    ("libacc/src/loader.rs", "keeps a panic out of the loader, and goes on without what it looked for"),
    ("libacc/src/output.rs", "prints panics of this library"),
    ("libacc/src/process.rs", "is past the end of the program, whose exit status stands"),
    ("libacc/src/prof/event_records.rs", "keeps a panic of a tool out of who raises events"),
    ("libacc/src/start_main.rs", "ends a worker, which its owner sees"),
];

/// The mains of our own processes, and their first call.
const MAINS: &[&str] = &["cli/src/main.rs", "coordinator/src/main.rs", "node-agent/src/main.rs"];
const FIRST: &str = "threads::abort_on_panic(";

fn named_in(code: &str) -> Option<String> {
    let words = Regex::new(WORDS).unwrap();
    let code: Vec<_> = code.lines().map(without_text).collect();
    words.find(&code.join("\n")).map(|found| found.as_str().to_owned())
}

#[test]
fn threads_start_and_panics_are_caught_in_few_places() {
    let (mut wrong, mut used) = (Vec::new(), vec![false; MAY.len()]);
    for path in sources().into_iter().filter(|path| is_shipped(path)) {
        let Some(named) = named_in(&code(&path)) else { continue };
        let name = path.to_string_lossy();
        match MAY.iter().position(|(may, _)| *may == name) {
            Some(at) => used[at] = true,
            None => wrong.push(format!("{name}: {named}: take accord_types::threads")),
        }
    }
    let idle = MAY.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(idle.map(|((path, _), _)| format!("{path} names none any more: take it off MAY")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn our_processes_end_with_a_panic() {
    let begins_so = |main: &&&str| {
        let code = code(Path::new(main));
        let body = code.split_once("fn main() -> ExitCode {\n").map(|(_, body)| body.trim_start());
        body.is_some_and(|body| body.starts_with(FIRST))
    };
    let wrong: Vec<_> = MAINS.iter().filter(|main| !begins_so(main)).collect();
    assert!(wrong.is_empty(), "they do not begin with {FIRST}: {wrong:?}");
    // This finds a new process without it.
    let is_main = |path: &Path| path.file_name().is_some_and(|name| name == "main.rs") && is_shipped(path);
    let known = |path: &Path| MAINS.iter().any(|main| path == Path::new(main));
    let unknown: Vec<_> = sources().into_iter().filter(|path| is_main(path) && !known(path)).collect();
    assert!(unknown.is_empty(), "add them to MAINS: {unknown:?}");
}

#[test]
fn other_ways_to_a_thread_are_found() {
    for bad in [
        "std::thread::Builder::new().name(name)",
        "thread::spawn(work)",
        "use std::thread::{\n    Builder,\n    JoinHandle};",
        "std::thread::scope(|scope| scope)",
        "std::panic::catch_unwind(work)",
        "panic::set_hook(hook)",
    ] {
        assert!(named_in(bad).is_some(), "{bad}");
    }
    for good in ["threads::spawn(name, work)", "use std::thread::{JoinHandle, Thread};", "say(\"thread::spawn\")"] {
        assert_eq!(named_in(good), None);
    }
}

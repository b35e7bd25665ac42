//! `accord run` with too little of some resource from its start: it continues, or reports the limit and its remedy, and
//! leaves nothing.
#![forbid(unsafe_code)]

mod common;
// A part of the end-to-end tests, which show it.
#[allow(unreachable_pub)]
#[path = "../../tests/src/process_group.rs"]
mod process_group;

use accord_test_tier::{cases, pick};
use common::{Run, ways};
use process_group::ProcessGroup;
use std::path::Path;
use std::process::Command;

/// The loader's message if a program can't even start.
const CANNOT_BEGIN: &str = "error while loading shared libraries";

/// Whether the parts of a cluster are built.
fn is_built() -> bool {
    let parts = Path::new(env!("CARGO_BIN_EXE_accord")).parent().unwrap();
    let built = ["accord-coordinator", "accord-node-agent", "libacc.so"].iter().all(|part| parts.join(part).exists());
    if !built {
        println!("skipped: the parts of a cluster are not built");
    }
    built
}

/// Runs a cluster for an empty program, after a shell has run `limit`. Returns how often it failed with a message.
fn reported(limits: impl Iterator<Item = String> + Clone, remedy: &str) -> u32 {
    let mut reported = 0;
    for way in ways() {
        for limit in limits.clone() {
            let run = Run::cluster(way, "2x1");
            let command = run.command("true");
            let mut limited = Command::new("sh");
            limited.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]);
            limited.arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => limited.env(name, value),
                    None => limited.env_remove(name),
                };
            }
            let output = limited.output().unwrap();
            let printed = String::from_utf8_lossy(&output.stderr);
            let report = format!("{way:?}, {limit}: {:?}: {printed}", output.status);
            match output.status.code() {
                Some(0) => {}
                // The loader or the system failed before Accord could write a message.
                Some(127) if !printed.starts_with("accord: ") => assert!(printed.contains(CANNOT_BEGIN), "{report}"),
                // The kernel could not load the program, or its memory ends with what is loaded, and Rust's runtime says so.
                None => assert!(printed.is_empty() || printed.starts_with("memory allocation of "), "{report}"),
                Some(125..=127) => {
                    assert!(printed.starts_with("accord: ") && printed.contains(remedy), "{report}");
                    reported += 1;
                }
                Some(_) => panic!("{report}"),
            }
            run.assert_nothing_left(None);
        }
    }
    reported
}

#[test]
fn too_few_descriptors() {
    if is_built() {
        // Each part of these has few, some and many.
        let limits = cases(&Vec::from_iter((3..6).flat_map(|from| (from..20).step_by(3))), 6);
        let reported = reported(limits.iter().map(|many| format!("ulimit -n {many}")), "(ulimit -n)");
        assert!(reported > pick(1, 8), "{reported} times");
    }
}

#[test]
fn too_little_address_space() {
    if is_built() {
        // For a debug build, and for a smaller one.
        let amounts = (12_000..112_000).step_by(pick(12_000, 4_000)).map(|kib| format!("ulimit -v {kib}"));
        let reported = reported(amounts, "ulimit -v");
        assert!(reported > pick(0, 4), "{reported} times");
        // Without a cluster the loader would omit libacc, and the program would run.
        let mut plain = Command::new("sh");
        plain.args(["-c", "ulimit -v 52000; exec \"$0\" run -- true", env!("CARGO_BIN_EXE_accord")]);
        let output = plain.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(125) && printed.contains("ulimit -v"), "{:?}: {printed}", output.status);
    }
}

#[test]
fn too_little_room_in_files() {
    if is_built() {
        let reported = reported((0..8).map(|blocks| format!("ulimit -f {blocks}")), "(ulimit -f)");
        assert!(reported > 0, "{reported} times");
    }
}

#[test]
fn too_few_processes_and_threads() {
    if !is_built() {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        // This user's existing processes count, too.
        let reported = reported([1, 2].into_iter().map(|many| format!("ulimit -u {many}")), "ulimit -u");
        assert!(reported > 0, "{reported} times");
        return;
    }
    // The limit on processes does not hold for root, but that of a control group does.
    let many = cases(&Vec::from_iter((1..5).flat_map(|from| (from..24).step_by(4))), 6);
    let groups: Vec<_> = many.into_iter().map_while(ProcessGroup::new).collect();
    if groups.is_empty() {
        println!("skipped: there is no control group for processes");
        return;
    }
    let limits = groups.iter().map(ProcessGroup::enter);
    let reported = reported(limits, "ulimit -u");
    assert!(reported > pick(1, 8), "{reported} times");
}

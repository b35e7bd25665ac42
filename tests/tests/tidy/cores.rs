//! Cores only decide: no sockets, threads, files or clocks. Time is an argument, so that they can be simulated.

use crate::sources::{code, is_tests, sources, text, without_text};
use std::path::Path;

/// The cores that ARCHITECTURE.md names ("Cores have no I/O").
const CORES: &[&str] = &[
    "libacc/runtime/src",
    "libacc/client/src/connection",
    "crates/cluster/src",
    "coordinator/src/leadership/candidate.rs",
    "node-agent/src/node",
    "node-agent/src/turns/device_turns.rs",
    "crates/scheduler/src",
    "crates/fabric/src/transfer/table.rs",
    "crates/fabric/src/transfer/table",
    "crates/fabric/src/transfer/lane_pool.rs",
    "crates/fabric/src/transport/mpi/streams.rs",
    "crates/fabric/src/transport/mpi/streams/exposing.rs",
    "crates/fabric/src/transport/mpi/credit.rs",
    "crates/fabric/src/transport/mpi/backoff.rs",
    "crates/executor/src/executor.rs",
    "crates/executor/src/executor",
    "crates/executor/src/limits.rs",
    "crates/executor/src/queue_table.rs",
    "crates/executor/src/window.rs",
    "crates/executor/src/admission.rs",
    "crates/executor/src/request_window.rs",
    "crates/executor/src/peer_table.rs",
    "crates/image/src",
    "crates/device/src/stream",
    "crates/device/src/in_flight.rs",
    "crates/gpu/src/staging/copy_route.rs",
    "crates/fabric/src/copy_way.rs",
    "crates/types/src/path_times.rs",
    "cli/src/directives",
];

/// Words of code that uses the system.
const MUST_NOT_NAME: &[&str] = &[
    "std::net",
    "std::process",
    "std::fs",
    "std::env",
    "std::os",
    "TcpStream",
    "UnixStream",
    "Instant::now",
    "SystemTime",
    ".elapsed()",
    "thread::spawn",
    "thread::sleep",
    "thread::Builder",
    "tokio",
    "tonic",
    "rustix",
    "nix::",
    "libc::",
    "getrandom",
    "extern \"C\"",
    "println!",
];

#[test]
fn cores_ask_no_system() {
    let (sources, mut wrong) = (sources(), Vec::new());
    for core in CORES {
        let files: Vec<_> = sources.iter().filter(|path| path.starts_with(core) && !is_tests(path)).collect();
        if files.is_empty() {
            wrong.push(format!("{core} is not there any more: correct CORES and ARCHITECTURE.md"));
        }
        for path in files {
            for line in code(path).lines().map(without_text) {
                let named = MUST_NOT_NAME.iter().filter(|name| line.contains(**name));
                wrong.extend(named.map(|name| format!("{}: {name}", path.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_of_the_architecture_names_the_cores() {
    let page = text(Path::new("ARCHITECTURE.md"));
    let rule = page.split("* **").find(|rule| rule.starts_with("Cores have no I/O")).expect("the rule");
    let missing: Vec<_> = CORES.iter().filter(|core| !rule.contains(&format!("`{core}`"))).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md lacks {missing:?}");
}

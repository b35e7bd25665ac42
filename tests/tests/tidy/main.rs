//! The house rules that a program can check.

mod addresses;
mod bounds;
mod circles;
mod collections;
mod copies;
mod cores;
mod dependencies;
mod documents;
mod english;
mod kinds;
mod locks;
mod modules;
mod names;
mod panics;
mod shapes;
mod sources;
mod threads;
mod transports;
mod traps;

use accord_tests::{Result, repository_file, root};
use accord_types::settings;
use accord_types::unknown_settings::NO_SETTINGS;
use regex_lite::Regex;
use serde_json::Value;
use sources::{code, sources, without_text};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Most lines of a file that are neither empty nor comment, without its tests.
const LINES_MAX: usize = 500;

/// Most lines of a test file: one suite may be one file.
const TEST_LINES_MAX: usize = 800;

/// Tables and generated files, which may be longer.
const LONG_FILES: &[&str] = &["proto/src/gen/"];

/// Files that may use `unsafe`: the C boundary, host memory, worker processes and hardware.
const UNSAFE: &[&str] = &[
    "libacc/src/",
    "libacc/cuda-fortran/src/",
    "crates/device/src/file_limit.rs",
    "crates/device/src/host_memory.rs",
    "crates/device/src/kept_memory.rs",
    "libacc/client/src/host_copy.rs",
    "libacc/client/src/pages/",
    "crates/device/src/cpu/",
    "crates/gpu/src/",
    "crates/device/tests/",
    "crates/gpu/tests/",
    "crates/fabric/src/transport/shared_memory.rs",
    "crates/fabric/src/transport/socket_option.rs",
    "crates/fabric/src/transport/window.rs",
    "crates/fabric/src/transport/mpi/object.rs",
    "crates/fabric/src/transport/mpi/short_buffers.rs",
    "crates/fabric/src/transport/mpi/exposed_memory.rs",
    "mpi/src/",
    "cli/openacc/src/",
    "node-agent/src/topology/",
    "tests/fake-cuda/src/",
    "tests/tests/counting/",
    "fuzz/src/allocations.rs",
    "fuzz/src/coverage.rs",
];

/// The crates that each crate may use: imports go down only. Programs, agents and the coordinator share only the
/// fabric's frames and the protocol.
const LAYERS: &[(&str, &[&str])] = &[
    ("accord-types", &[]),
    ("accord-trust", &["accord-types"]),
    ("accord-telemetry", &["accord-types"]),
    ("accord-scheduler", &["accord-types"]),
    ("accord-debuginfo", &[]),
    ("accord-kernels", &[]),
    ("accord-cuda-fortran", &[]),
    ("accord-cuf", &["accord-types"]),
    ("accord-monitoring", &["accord-types"]),
    ("accord-proto", &["accord-types", "accord-trust"]),
    ("accord-fabric", &["accord-types", "accord-trust"]),
    ("accord-image", &["accord-types"]),
    ("accord-device", &["accord-types", "accord-image"]),
    ("accord-gpu", &["accord-types", "accord-image", "accord-device"]),
    ("accord-backends", &["accord-types", "accord-device", "accord-gpu"]),
    ("accord-executor", &["accord-types", "accord-device", "accord-fabric", "accord-telemetry"]),
    ("accord-runtime", &["accord-types", "accord-device"]),
    (
        "accord-client",
        &[
            "accord-types",
            "accord-backends",
            "accord-device",
            "accord-executor",
            "accord-fabric",
            "accord-runtime",
            "accord-trust",
        ],
    ),
    (
        "libacc",
        &[
            "accord-types",
            "accord-device",
            "accord-gpu",
            "accord-backends",
            "accord-debuginfo",
            "accord-fabric",
            "accord-runtime",
            "accord-client",
            "accord-scheduler",
            "accord-telemetry",
            "accord-trust",
        ],
    ),
    (
        "accord-node-agent",
        &[
            "accord-types",
            "accord-backends",
            "accord-device",
            "accord-executor",
            "accord-fabric",
            "accord-gpu",
            "accord-monitoring",
            "accord-openacc",
            "accord-proto",
            "accord-telemetry",
            "accord-trust",
        ],
    ),
    ("accord-cluster", &["accord-types", "accord-fabric", "accord-proto", "accord-scheduler", "accord-telemetry"]),
    (
        "accord-coordinator",
        &[
            "accord-cluster",
            "accord-types",
            "accord-fabric",
            "accord-monitoring",
            "accord-proto",
            "accord-scheduler",
            "accord-telemetry",
            "accord-trust",
        ],
    ),
    ("accord-openacc", &[]),
    (
        "accord",
        &[
            "accord-coordinator",
            "accord-cuda-fortran",
            "accord-types",
            "accord-backends",
            "accord-device",
            "accord-fabric",
            "accord-gpu",
            "accord-kernels",
            "accord-node-agent",
            "accord-openacc",
            "accord-proto",
            "accord-scheduler",
            "accord-telemetry",
            "accord-trust",
        ],
    ),
];

/// Crates of the control plane, which the program's side and the data plane must not use.
const CONTROL_PLANE: &[&str] = &["tokio", "tonic", "hyper", "prost"];

/// Packages that must not contain [`CONTROL_PLANE`], even indirectly.
const WITHOUT_CONTROL_PLANE: &[&str] = &[
    "accord-types",
    "accord-fabric",
    "accord-device",
    "accord-gpu",
    "accord-executor",
    "accord-runtime",
    "accord-client",
    "libacc",
];

#[test]
fn imports_go_down_only() {
    let metadata = metadata(&["--no-deps"]).unwrap();
    let allowed: BTreeMap<_, _> = LAYERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let manifest = package["manifest_path"].as_str().unwrap();
        let relative = Path::new(manifest).strip_prefix(root()).unwrap();
        if ["tests", "benches", "crates/sim", "fuzz"].iter().any(|folder| relative.starts_with(folder)) {
            continue; // they may see everything
        }
        let Some(&may_use) = allowed.get(name) else {
            wrong.push(format!("{name} has no layer; give it one in LAYERS"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let ours = used.starts_with("accord") || used == "libacc";
            if dependency["kind"].is_null() && ours && !may_use.contains(&used) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_data_path_has_no_async_runtime() {
    let metadata = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]).unwrap();
    let mut wrong = Vec::new();
    for root in WITHOUT_CONTROL_PLANE {
        for used in all_dependencies(&metadata, root) {
            if CONTROL_PLANE.contains(&used.as_str()) {
                wrong.push(format!("{root} contains {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_is_where_it_may_be_and_says_why() {
    let keyword = Regex::new(r"\bunsafe\b\s*(\{|fn|impl|extern|trait|\()").unwrap();
    let block = Regex::new(r"\bunsafe\b\s*(\{|impl)").unwrap();
    let mut wrong = Vec::new();
    for path in sources() {
        let allowed = UNSAFE.iter().any(|prefix| path.to_string_lossy().starts_with(prefix));
        let text = std::fs::read_to_string(repository_file(&path.to_string_lossy())).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("unsafe")) {
            let line = without_text(line);
            if !keyword.is_match(&line) {
                continue;
            }
            if !allowed {
                wrong.push(format!("{}:{}: unsafe is not allowed here", path.display(), index + 1));
            } else if block.is_match(&line) && !has_reason(&lines, index) {
                wrong.push(format!("{}:{}: SAFETY is missing", path.display(), index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Crates without unsafe code forbid it, so that the compiler checks them.
#[test]
fn safe_crates_forbid_unsafe() {
    let roots = [
        "crates/types/src/lib.rs",
        "crates/telemetry/src/lib.rs",
        "crates/debuginfo/src/lib.rs",
        "crates/monitoring/src/lib.rs",
        "crates/backends/src/lib.rs",
        "crates/executor/src/lib.rs",
        "crates/image/src/lib.rs",
        "proto/src/lib.rs",
        "libacc/runtime/src/lib.rs",
        "coordinator/src/lib.rs",
        "coordinator/src/main.rs",
        "cli/src/main.rs",
        "tests/src/lib.rs",
    ];
    let wrong: Vec<_> = roots
        .iter()
        .filter(|path| {
            !std::fs::read_to_string(repository_file(path)).unwrap_or_default().contains("#![forbid(unsafe_code)]")
        })
        .collect();
    assert!(wrong.is_empty(), "no #![forbid(unsafe_code)] in {wrong:?}");
}

#[test]
fn files_are_short() {
    let mut long = Vec::new();
    for path in sources() {
        if LONG_FILES.iter().any(|prefix| path.to_string_lossy().starts_with(prefix)) {
            continue;
        }
        let lines = code(&path).lines().count();
        let in_tests = path.components().any(|part| part.as_os_str() == "tests");
        let max = if in_tests { TEST_LINES_MAX } else { LINES_MAX };
        if lines >= max {
            long.push(format!("{}: {lines} lines, {max} are the limit", path.display()));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_crate_takes_the_workspaces_lints() {
    let metadata = metadata(&["--no-deps"]).unwrap();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(package["name"].to_string());
        }
    }
    assert!(wrong.is_empty(), "no workspace lints in {wrong:?}");
}

#[test]
fn the_page_of_settings_lists_every_setting() {
    let page = std::fs::read_to_string(repository_file("docs/reference/env.md")).unwrap();
    let mut missing = Vec::new();
    for setting in settings::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", setting.name)));
        match row {
            None => missing.push(setting.name.to_owned()),
            Some(row) => missing.extend(
                std::iter::once(&setting.help)
                    .chain(setting.aliases)
                    .filter(|text| !row.contains(**text))
                    .map(|text| format!("{}: {text}", setting.name)),
            ),
        }
    }
    assert!(missing.is_empty(), "docs/reference/env.md lacks {missing:#?}");
}

/// An environment variable of ours that is read elsewhere is in the table.
#[test]
fn settings_are_in_the_table() {
    let name = Regex::new(r#""(ACCORD_[A-Z_]+)""#).unwrap();
    let mut wrong = Vec::new();
    for path in sources() {
        let text = path.to_string_lossy().into_owned();
        if text.contains("/tests/") || text.starts_with("tests/") || text.starts_with("benches/") {
            continue;
        }
        for found in name.captures_iter(&code(&path)) {
            let known = settings::ALL.iter().any(|setting| setting.name == &found[1]);
            if !known && !NO_SETTINGS.iter().any(|prefix| found[1].starts_with(prefix)) {
                wrong.push(format!("{text}: {}", &found[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "not in crates/types/src/settings.rs: {wrong:#?}");
}

#[test]
fn code_is_formatted() {
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    if !cargo().args(["fmt", "--version"]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no rustfmt here");
        return;
    }
    let output = cargo().current_dir(root()).args(["fmt", "--check", "--", "-l"]).output().unwrap();
    assert!(output.status.success(), "not formatted (cargo fmt):\n{}", String::from_utf8_lossy(&output.stdout));
}

fn metadata(arguments: &[&str]) -> Result<Value> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root())
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// Returns the names of all packages in `package`, without build and test dependencies.
fn all_dependencies(metadata: &Value, package: &str) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let name_of = |id: &Value| {
        let found = packages.iter().find(|package| &package["id"] == id);
        found.and_then(|package| package["name"].as_str()).unwrap_or_default().to_owned()
    };
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let start = packages.iter().find(|candidate| candidate["name"] == package).unwrap();
    let mut open = vec![start["id"].clone()];
    let mut seen: Vec<Value> = Vec::new();
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        if let Some(node) = nodes.iter().find(|node| node["id"] == id) {
            for dependency in node["deps"].as_array().unwrap() {
                let normal = dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
                if normal {
                    open.push(dependency["pkg"].clone());
                }
            }
        }
        seen.push(id);
    }
    seen.iter().map(name_of).collect()
}

/// Whether SAFETY is in the comments and attributes directly above a line's statement, or on the line.
fn has_reason(lines: &[&str], index: usize) -> bool {
    const ABOVE: usize = 12;
    lines[index.saturating_sub(ABOVE)..=index].iter().any(|line| line.contains("SAFETY"))
}

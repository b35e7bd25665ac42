//! An object is one thing: it has few fields, and its methods are in few files. A type with more is several types, each with the methods
//! of its own fields.

use crate::sources::{code, is_tests, sources, without_text};
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most fields of a type.
const FIELDS_MAX: usize = 12;

/// Most files with methods of one type, or with its implementations of traits.
const FILES_MAX: usize = 6;

/// Attributes of types whose fields another party defines: a C library, the kernel, memory that processes share, the command line.
const DEFINED_ELSEWHERE: [&str; 3] = ["repr(C", "Args", "Parser"];

/// Types with more fields, by file. The list may only get shorter.
const LARGE: &[(&str, &str)] = &[
    ("cli/src/command/cuf/options.rs", "Options"),
    ("crates/cluster/src/allocations.rs", "Allocations"),
    ("crates/cluster/src/job.rs", "Job"),
    ("crates/cluster/src/path_table.rs", "Paths"),
    ("crates/cluster/src/reservation_table.rs", "ReservationRecord"),
    ("crates/cluster/src/reserving.rs", "ReservationView"),
    ("crates/cluster/src/session.rs", "Session"),
    ("crates/cluster/src/state.rs", "Cluster"),
    ("crates/device/src/capabilities.rs", "Capabilities"),
    ("crates/gpu/src/shared.rs", "Shared"),
    ("crates/gpu/src/stream.rs", "Stream"),
    ("crates/scheduler/src/accounts.rs", "AccountUse"),
    ("crates/scheduler/src/job.rs", "Job"),
    ("crates/scheduler/src/policy.rs", "Policy"),
    ("crates/scheduler/src/pool/class_index.rs", "ClassIndex"),
    ("crates/scheduler/src/pool/device.rs", "Device"),
    ("crates/scheduler/src/request.rs", "Request"),
    ("crates/scheduler/src/request/read.rs", "Reader"),
    ("crates/scheduler/src/saved.rs", "SavedEnd"),
    ("crates/scheduler/src/saved.rs", "SavedJob"),
    ("crates/scheduler/src/scheduler/mod.rs", "Scheduler"),
    ("crates/sim/src/connection/site.rs", "SimulatedConnection"),
    ("crates/sim/src/connection/streams.rs", "Executor"),
    ("crates/sim/src/coordinator/agent.rs", "Agent"),
    ("crates/sim/src/coordinator/world.rs", "World"),
    ("crates/sim/src/gpu_streams/machine.rs", "Machine"),
    ("crates/types/src/device.rs", "DeviceInfo"),
    ("crates/types/src/session.rs", "SessionGrant"),
    ("node-agent/src/node/state.rs", "Node"),
];

/// Types with methods in more files, by the files that define them. The list may only get shorter.
const SPREAD: &[(&str, &str)] = &[
    ("crates/cluster/src/allocations.rs", "Allocations"),
    ("crates/cluster/src/state.rs", "Cluster"),
    ("crates/gpu/src/stream.rs", "Stream"),
    ("crates/scheduler/src/scheduler/mod.rs", "Scheduler"),
    ("crates/sim/src/connection/world.rs", "World"),
    ("crates/sim/src/coordinator/world.rs", "World"),
    ("libacc/runtime/src/construct/map.rs", "Mapping"),
    ("libacc/runtime/src/runtime.rs", "Runtime"),
    ("node-agent/src/node/state.rs", "Node"),
];

/// Whether a file's types count: shipped code and simulations, without generated code.
fn is_judged(path: &Path) -> bool {
    !is_tests(path) && !["proto/src/gen", "tests", "benches", "fuzz"].iter().any(|top| path.starts_with(top))
}

/// Returns the structs of a file, with the numbers of their fields, except for those whose fields others define.
fn structs(code: &str) -> Vec<(String, usize)> {
    let item = Regex::new(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)[^;(]*\{$").unwrap();
    let field = Regex::new(r"^    (?:pub(?:\([^)]*\))? )?(?:r#)?\w+: ").unwrap();
    let (mut attributes, mut found, mut lines) = (String::new(), Vec::new(), code.lines());
    while let Some(line) = lines.next() {
        if line.starts_with("#[") || !attributes.is_empty() && line.starts_with([' ', ')']) {
            attributes.push_str(line);
            continue;
        }
        let attributes = std::mem::take(&mut attributes);
        if let Some(begun) = item.captures(line) {
            let fields = lines.by_ref().take_while(|line| !line.starts_with('}')).filter(|line| field.is_match(line));
            let count = fields.count();
            if !DEFINED_ELSEWHERE.iter().any(|attribute| attributes.contains(attribute)) {
                found.push((begun[1].to_owned(), count));
            }
        }
    }
    found
}

/// Returns the names of the types that a file implements.
fn implemented(code: &str) -> BTreeSet<String> {
    let block = Regex::new(r"^(?:unsafe )?impl(?:<.*?>)? (?:.* for )?(?:\w+::)*(\w+)").unwrap();
    code.lines().filter_map(|line| Some(block.captures(&without_text(line))?[1].to_owned())).collect()
}

/// Returns the folder of a file's crate.
fn crate_of(path: &Path) -> String {
    path.to_string_lossy().split("/src/").next().unwrap_or_default().to_owned()
}

/// Returns the definition to which an implementation in `path` belongs: of several types with one name, that in the nearest folder.
fn definition<'a>(definitions: &'a [PathBuf], path: &Path) -> Option<&'a PathBuf> {
    let shared = |other: &&PathBuf| other.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    definitions.iter().max_by_key(shared)
}

/// Compares what is found with a list: what is new is wrong, and so is a row that nothing needs.
fn compare(found: &BTreeSet<(String, String)>, list: &[(&str, &str)], remedy: &str) {
    let list: BTreeSet<_> = list.iter().map(|(place, name)| ((*place).to_owned(), (*name).to_owned())).collect();
    let new: Vec<_> = found.difference(&list).collect();
    assert!(new.is_empty(), "{remedy}: {new:#?}");
    let gone: Vec<_> = list.difference(found).collect();
    assert!(gone.is_empty(), "these are small now: take them off the list: {gone:#?}");
}

#[test]
fn types_have_few_fields() {
    let mut found = BTreeSet::new();
    for path in sources().iter().filter(|path| is_judged(path)) {
        let large = structs(&code(path)).into_iter().filter(|(_, count)| *count > FIELDS_MAX);
        found.extend(large.map(|(name, _)| (path.to_string_lossy().into_owned(), name)));
    }
    compare(&found, LARGE, &format!("more than {FIELDS_MAX} fields: give some of them a type of their own"));
}

#[test]
fn types_are_implemented_in_few_files() {
    let item = Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?(?:struct|enum|union) (\w+)").unwrap();
    let judged: Vec<_> = sources().into_iter().filter(|path| is_judged(path)).map(|path| (code(&path), path)).collect();
    let mut definitions: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for (code, path) in &judged {
        for found in item.captures_iter(code) {
            definitions.entry((crate_of(path), found[1].to_owned())).or_default().push(path.clone());
        }
    }
    let mut files: BTreeMap<(&PathBuf, String), usize> = BTreeMap::new();
    for (code, path) in &judged {
        for name in implemented(code) {
            let known = definitions.get(&(crate_of(path), name.clone()));
            if let Some(definition) = known.and_then(|known| definition(known, path)) {
                *files.entry((definition, name)).or_default() += 1;
            }
        }
    }
    let spread = files.into_iter().filter(|(_, count)| *count > FILES_MAX);
    let found = spread.map(|((path, name), _)| (path.to_string_lossy().into_owned(), name)).collect();
    compare(
        &found,
        SPREAD,
        &format!("in more than {FILES_MAX} files: give parts of it types with methods of their own"),
    );
}

#[test]
fn fields_and_implementations_are_found() {
    let text = "#[derive(Debug)]\npub(crate) struct A<'a, T>\nwhere\n    T: Copy,\n{\n    b: u8,\n}\nstruct C {\n    pub d: Vec<u8>,\n    e: [u8; 2],\n}\n\
                #[repr(C)]\nstruct F {\n    g: u8,\n}\nstruct H(u8);\nimpl<T> A<'_, T> {\n}\nimpl std::fmt::Debug for C {\n}\nimpl<T: Into<u8>> From<T> for i::J {\n}\n";
    assert_eq!(structs(text), [("C".to_owned(), 2)]);
    assert_eq!(implemented(text).into_iter().collect::<Vec<_>>(), ["A", "C", "J"]);
}

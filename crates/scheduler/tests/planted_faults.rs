//! The table of faults for `scripts/planted-faults` suits the sources.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Least number of faults.
const FAULTS_MIN: usize = 20;

/// Returns the text of a fault's key.
fn text<'a>(fault: &'a DeValue<'_>, key: &str) -> &'a str {
    fault
        .get(key)
        .and_then(|value| value.get_ref().as_str())
        .unwrap_or_else(|| panic!("a fault has no {key}: {fault:?}"))
}

#[test]
fn each_planted_fault_has_one_place() {
    let table = DeTable::parse(include_str!("planted_faults.toml")).unwrap();
    let faults = table.get_ref().get("fault").and_then(|faults| faults.get_ref().as_array()).unwrap();
    let mut names = BTreeSet::new();
    for fault in faults.iter().map(|fault| fault.get_ref()) {
        let [name, what, file, find, put] = ["name", "what", "file", "find", "put"].map(|key| text(fault, key));
        let source = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let source = source.unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
        assert_eq!(source.matches(find).count(), 1, "{name}: {file} has it so many times:\n{find}");
        assert!(!what.is_empty() && find != put && find.ends_with('\n') == put.ends_with('\n'), "{name}");
        assert!(names.insert(name), "there are two faults {name}");
    }
    assert!(names.len() >= FAULTS_MIN, "{names:?}");
}

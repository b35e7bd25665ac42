//! The interface of a transport stays small: a capability of only one of them is a trait of its own, not a method that
//! the others answer with "unsupported".

use crate::sources::{code, is_tests, sources};

/// Most methods of all traits that a transport implements. This number may only fall.
const METHODS_MAX: usize = 24;

/// Traits below `transport` that other types implement: `World` is a message passing library.
const OF_NO_TRANSPORT: &[&str] = &["World"];

#[test]
fn transports_implement_few_methods() {
    let mut methods = Vec::new();
    let below = |path: &&std::path::PathBuf| path.starts_with("crates/fabric/src/transport") && !is_tests(path);
    for path in sources().iter().filter(below) {
        methods.extend(methods_of_traits(&code(path)));
    }
    assert!(methods.iter().any(|method| method == "Lane::read"), "no trait Lane: correct this test");
    let count = methods.len();
    assert!(count <= METHODS_MAX, "{count} methods, at most {METHODS_MAX}: make it a capability: {methods:#?}");
    assert!(count == METHODS_MAX, "only {count} methods are left: lower METHODS_MAX to that");
}

/// Returns the methods of the traits that a file exports.
fn methods_of_traits(code: &str) -> Vec<String> {
    let (mut name, mut found) = (None, Vec::new());
    for line in code.lines() {
        if line == "}" {
            name = None;
        } else if let Some(rest) = line.strip_prefix("pub").and_then(|rest| rest.split_once("trait ")) {
            let end = |at: char| !at.is_alphanumeric();
            name = rest.1.split(end).next().filter(|name| !OF_NO_TRANSPORT.contains(name));
        } else if let (Some(name), Some(rest)) = (name, line.strip_prefix("    fn ")) {
            found.push(format!("{name}::{}", rest.split(['(', '<']).next().unwrap_or_default()));
        }
    }
    found
}

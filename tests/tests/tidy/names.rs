//! A type is named by what it is. Names that fit anything are not taken, and those of the field mean one thing each.

use crate::sources::{sources, text};
use regex_lite::Regex;

/// They say nothing of a type, or what all types are.
const EMPTY: [&str; 9] = ["State", "Inner", "Impl", "Manager", "Helper", "Handler", "Info", "Utils", "Wrapper"];

/// The one type of each name: `Link` is all that two processes have with each other, `Queue` one of the program's, `Connection` the
/// program's to an executor.
const ONE_EACH: [(&str, &str); 3] = [
    ("Link", "crates/fabric/src/link.rs"),
    ("Queue", "crates/executor/src/queue_table.rs"),
    ("Connection", "libacc/client/src/remote/connection.rs"),
];

#[test]
fn types_are_named_by_what_they_are() {
    let definition = Regex::new(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|type) ([A-Z]\w*)").unwrap();
    let mut wrong = Vec::new();
    let generated = |path: &std::path::Path| path.starts_with("proto/src/gen");
    for path in sources().into_iter().filter(|path| !generated(path)) {
        let file = path.to_string_lossy();
        for found in definition.captures_iter(&text(&path)) {
            let name = &found[1];
            if EMPTY.contains(&name) || ONE_EACH.iter().any(|(one, at)| *one == name && *at != file) {
                wrong.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "name these by what they are: {wrong:#?}");
}

//! Every queue has a named bound: `tests/data/bounds.md` lists them.

use crate::sources::{code, is_tests, sources, without_text};
use accord_tests::repository_file;
use regex_lite::Regex;
use std::path::Path;

pub(crate) const DOCUMENT: &str = "tests/data/bounds.md";
const SHIPPED: &[&str] = &["crates", "libacc", "node-agent", "coordinator", "cli", "proto", "mpi"];

pub(crate) fn document() -> String {
    std::fs::read_to_string(repository_file(DOCUMENT)).unwrap()
}

#[test]
fn bounds_are_what_the_document_says() {
    let row = Regex::new(r"(?m)^\| [^|]+ \| `([^`]+)` \| `([A-Z_]+)` \| `([^`]+)` \| [^|]+ \|$").unwrap();
    let (document, mut wrong, mut rows) = (document(), Vec::new(), 0);
    for found in row.captures_iter(&document) {
        rows += 1;
        let (path, name, value) = (&found[1], &found[2], &found[3]);
        let wanted = Regex::new(&format!(r"\bconst {name}: \w+ = ([^;]+);")).unwrap();
        let code = code(Path::new(path));
        match wanted.captures(&code) {
            Some(found) if &found[1] == value => {}
            Some(found) => wrong.push(format!("{path}: {name} is {}, not {value}", &found[1])),
            None => wrong.push(format!("{path} has no {name}")),
        }
    }
    // Rows in another format would go unnoticed.
    let all = document.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 6).count();
    assert_eq!(rows, all - 2 * 2, "rows, without the heads of the two tables");
    assert!(wrong.is_empty(), "{DOCUMENT}:\n{}", wrong.join("\n"));
}

/// Whether a line creates a queue that its type does not bound.
fn is_queue(line: &str) -> bool {
    let line = without_text(line);
    let makes =
        ["VecDeque<", "BinaryHeap<", "mpsc::channel", "sync_channel", "unbounded_channel(", "broadcast::channel"];
    !line.trim_start().starts_with("use ") && makes.iter().any(|make| line.contains(make))
}

#[test]
fn every_queue_is_in_the_document() {
    let (document, mut wrong, mut found) = (document(), Vec::new(), 0);
    // A file's entry for another reason says nothing of its queues.
    let document = document.split("## Collections").next().unwrap_or_default();
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let name = path.to_string_lossy();
        let simulates = name.starts_with("crates/sim") || name.contains("/examples/");
        if !SHIPPED.iter().any(|top| name.starts_with(top)) || simulates || name.contains("/gen/") {
            continue;
        }
        if !code(path).lines().any(is_queue) {
            continue;
        }
        found += 1;
        if !document.contains(&format!("`{name}`")) {
            wrong.push(name.to_string());
        }
    }
    assert!(found > 20, "{found} files with queues");
    assert!(wrong.is_empty(), "say in {DOCUMENT} what bounds their queues:\n{}", wrong.join("\n"));
}

//! Comments of source files and paragraphs of documents, which cite clauses.

use crate::list::plain;
use accord_tests::root;
use std::path::{Path, PathBuf};

/// A run of comment lines with the line of code below it, or a paragraph of a document.
pub(crate) struct Comment {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The text with the code below it, in lower case, without `acc_` and punctuation.
    pub(crate) context: String,
}

/// Suffixes of the files to read, and the starts of their comments.
const KINDS: &[(&str, &[&str])] = &[
    ("openacc_lib.h", &["!"]),
    (".rs", &["//"]),
    (".c", &["//", "/*", "*"]),
    (".h", &["//", "/*", "*"]),
    (".cpp", &["//", "/*", "*"]),
    (".f90", &["!"]),
    (".proto", &["//"]),
    (".py", &["#"]),
    (".md", &[]),
];

const FOLDERS: &[&str] =
    &["benches", "cli", "coordinator", "crates", "docs", "examples", "libacc", "node-agent", "proto", "tests"];

/// Returns the files with comments, as paths relative to the root.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(PathBuf::from).into();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("benches/results") {
                    open.push(path);
                }
            } else if markers(&path).is_some() {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn markers(path: &Path) -> Option<&'static [&'static str]> {
    let name = path.to_string_lossy();
    KINDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, markers)| *markers)
}

/// Returns the comments of a file.
pub(crate) fn comments(path: &Path) -> Vec<Comment> {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    let markers = markers(path).unwrap();
    if markers.is_empty() { paragraphs(&text) } else { runs(&text, markers) }
}

fn runs(text: &str, markers: &[&str]) -> Vec<Comment> {
    let (mut found, mut run) = (Vec::new(), None::<(usize, String)>);
    let mut open = false; // in a comment of several lines
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let whole = open || markers.iter().any(|marker| line.starts_with(marker));
        if line.contains("/*") && markers.contains(&"/*") {
            open = true;
        }
        if line.contains("*/") {
            open = false;
        }
        if whole {
            let (_, run) = run.get_or_insert((index + 1, String::new()));
            run.push_str(line.trim_start_matches(['/', '*', '!', '#']));
            run.push(' ');
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if let Some((start, run)) = run.take() {
            found.push(Comment::new(start, &run, line));
        }
        // A comment after code; a string that looks like one does no harm.
        if let Some((code, behind)) = line.split_once(&format!(" {} ", markers[0])) {
            found.push(Comment::new(index + 1, behind, code));
        }
    }
    if let Some((start, run)) = run {
        found.push(Comment::new(start, &run, ""));
    }
    found
}

fn paragraphs(text: &str) -> Vec<Comment> {
    let (mut found, mut heading, mut run) = (Vec::new(), String::new(), None::<(usize, String)>);
    // Figures in a table may look like clauses; there, clauses follow the specification's version.
    let figures = |line: &str| line.starts_with('|') && !line.contains("3.3, ");
    for (index, line) in text.lines().chain([""]).enumerate() {
        let alone = line.is_empty() || line.starts_with(['#', '|', '*']);
        if alone && let Some((start, run)) = run.take() {
            found.push(Comment::new(start, &run, &heading));
        }
        if line.starts_with('#') {
            line.clone_into(&mut heading);
        } else if !line.is_empty() && !figures(line) {
            let (_, run) = run.get_or_insert((index + 1, String::new()));
            run.push_str(line);
            run.push(' ');
        }
    }
    found
}

impl Comment {
    fn new(line: usize, text: &str, beside: &str) -> Self {
        let context = plain(&format!("{text} {beside}"));
        Self { line, text: text.to_owned(), context }
    }
}

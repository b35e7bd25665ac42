//! Documents: the index lists all of them, their links resolve, and the files that they name exist.

use crate::sources::text;
use accord_tests::root;
use regex_lite::Regex;
use std::path::{Path, PathBuf};

/// Returns the repository's files and folders, relative to its root, without hidden ones and build outputs.
fn entries() -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![root()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if ["target", "out"].contains(&name.as_str()) || name.starts_with('.') {
                continue;
            }
            found.push(path.strip_prefix(root()).unwrap().to_owned());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn documents() -> Vec<PathBuf> {
    entries().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the paths that a text names in backticks: those below a folder of the root, and names of sources. Each ends
/// before the first part with a placeholder: `*`, or a word in capitals.
fn named_paths(text: &str) -> Vec<PathBuf> {
    let path = Regex::new(r"`([\w.*-]+(?:/[\w.*-]+)*)/?`").unwrap();
    let (source, placeholder) = (Regex::new(r"\w\.(?:rs|py|proto)$").unwrap(), Regex::new(r"\*|[A-Z]{4}").unwrap());
    let is_path = |name: &str| {
        let below =
            name.split_once('/').is_some_and(|(top, _)| root().join(top).is_dir() && !["target", "out"].contains(&top));
        !name.starts_with('.') && (below || source.is_match(name))
    };
    let names = path.captures_iter(text).map(|found| found[1].to_owned()).filter(|name| is_path(name));
    names.map(|name| name.split('/').take_while(|part| !placeholder.is_match(part)).collect()).collect()
}

/// A path may be named by its end: `link/tests.rs`.
#[test]
fn named_files_exist() {
    let entries = entries();
    let exists = |path: &Path| entries.iter().any(|entry| entry.ends_with(path));
    let mut wrong = Vec::new();
    for document in documents().into_iter().filter(|path| path != Path::new("CHANGELOG.md")) {
        let missing = named_paths(&text(&document)).into_iter().filter(|path| !exists(path));
        wrong.extend(missing.map(|path| format!("{}: {}", document.display(), path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_named_path_is_found() {
    let text = "`tests/src/a.rs`, `b/c.rs` and `d.py`, not `e/f` or `g.rs --help`; `tests/programs/*/h` and `fuzz/corpus/TARGET.txt`; `docs/`";
    let expected = ["tests/src/a.rs", "b/c.rs", "d.py", "tests/programs", "fuzz/corpus"];
    assert_eq!(named_paths(text), expected.map(PathBuf::from));
}

#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut wrong = Vec::new();
    for path in documents() {
        for found in link.captures_iter(&text(&path)) {
            let target = found[1].split('#').next().unwrap_or_default();
            if !target.contains("://") && !root().join(&path).parent().unwrap().join(target).exists() {
                wrong.push(format!("{}: {}", path.display(), &found[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_index_lists_every_document() {
    let index = text(Path::new("docs/README.md"));
    let listed =
        |path: &Path| path.strip_prefix("docs").is_ok_and(|path| index.contains(&format!("({})", path.display())));
    let missing: Vec<_> = documents()
        .into_iter()
        .filter(|path| path.starts_with("docs") && path != Path::new("docs/README.md") && !listed(path))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks {missing:?}");
}

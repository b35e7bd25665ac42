//! Documents: the index has all of them, and their links lead somewhere.

use crate::sources::text;
use accord_tests::root;
use regex_lite::Regex;
use std::path::{Path, PathBuf};

fn documents() -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![root()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "out"].contains(&name.as_str()) && !name.starts_with('.') {
                open.push(path);
            } else if name.ends_with(".md") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
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

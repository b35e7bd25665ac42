//! The repository's Rust sources, for the rules.

use accord_tests::{Result, repository_file, root};
use std::path::{Path, PathBuf};

/// Returns all Rust sources, relative to the root.
pub(crate) fn sources() -> Vec<PathBuf> {
    let tops = ["crates", "libacc", "node-agent", "coordinator", "cli", "proto", "tests", "benches", "fuzz", "mpi"];
    let found =
        files_below(&tops.map(|top| root().join(top)).into_iter().filter(|top| top.exists()).collect::<Vec<_>>());
    let found = found.unwrap();
    assert!(!found.is_empty(), "no sources");
    found
}

/// Returns the Rust sources below some folders, relative to the root.
pub(crate) fn files_below(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let (mut open, mut found) = (folders.to_vec(), Vec::new());
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).map_err(|error| error.to_string())?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(repository_file(&path.to_string_lossy())).unwrap_or_default()
}

/// Whether a file has only tests: one of a folder `tests`, or `tests.rs` and the like.
pub(crate) fn is_tests(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.ends_with("tests") || name == "simulation"
        })
}

/// Returns a file's lines that are neither empty nor comment, without its tests.
pub(crate) fn code(path: &Path) -> String {
    without_tests(&text(path))
}

fn without_tests(text: &str) -> String {
    let (mut kept, mut lines) = (Vec::new(), text.lines().filter(|line| !is_empty_or_comment(line)).peekable());
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            kept.push(line);
        } else if lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{')) {
            // An inline module is the last item of its file.
            break;
        } else {
            skip_item(&mut lines);
        }
    }
    kept.join("\n")
}

fn is_empty_or_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with("//")
}

/// Skips the item below an attribute.
pub(crate) fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let (mut depth, mut begun) = (0, false);
    for line in lines {
        let line = without_text(line);
        depth += line.matches('{').count();
        depth -= line.matches('}').count().min(depth);
        begun |= line.contains('{');
        if if begun { depth == 0 } else { line.trim_end().ends_with([';', ',']) } {
            return;
        }
    }
}

/// Returns a line without its comment and strings.
pub(crate) fn without_text(line: &str) -> String {
    let (mut kept, mut quoted, mut escaped) = (String::new(), false, false);
    for letter in line.chars() {
        match letter {
            '"' if !escaped => quoted = !quoted,
            _ if !quoted => kept.push(letter),
            _ => {}
        }
        escaped = quoted && letter == '\\' && !escaped;
    }
    kept.split("//").next().unwrap_or_default().to_owned()
}

#[test]
fn code_after_a_test_item_is_checked() {
    let text = "use a;\n#[cfg(test)]\nmod tests;\nfn b() {}\n    #[cfg(test)]\n    fn c() {\n        if d {}\n    }\n\n\
                fn e() {}\n// f\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
    assert_eq!(without_tests(text), "use a;\nfn b() {}\nfn e() {}");
}

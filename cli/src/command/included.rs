//! The files of the program itself that a source includes.

use crate::directives::{Language, includes};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Most files to read for one source.
const FILES_MAX: usize = 1000;
/// Most bytes of a file: larger ones are tables without directives.
const BYTES_MAX: u64 = 8 << 20;

/// Returns the files that `source` includes, directly or not, with their texts. Searches quoted names next to the
/// including file, and all names in `folders` (`-I`), which belong to the program. Skips unreadable files, which the
/// compiler reports.
pub(crate) fn included(path: &Path, text: &str, language: Language, folders: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    seen.extend(path.canonicalize());
    let mut wanted: Vec<PathBuf> = candidates(path, text, language, folders, &mut seen);
    while let Some(path) = wanted.pop() {
        if found.len() == FILES_MAX {
            break;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        wanted.extend(candidates(&path, &text, language, folders, &mut seen));
        found.push((path, text));
    }
    found.sort();
    found
}

fn candidates(
    path: &Path,
    text: &str,
    language: Language,
    folders: &[PathBuf],
    seen: &mut BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    let home = path.parent().unwrap_or(Path::new(""));
    let mut new = Vec::new();
    for include in includes(text, language) {
        let beside = include.beside.then_some(home).into_iter();
        let places = beside.chain(folders.iter().map(PathBuf::as_path)).map(|folder| folder.join(&include.name));
        let file = places
            .into_iter()
            .find(|place| std::fs::metadata(place).is_ok_and(|file| file.is_file() && file.len() <= BYTES_MAX));
        if let Some(file) = file
            && let Ok(canonical) = file.canonicalize()
            && seen.insert(canonical)
        {
            new.push(file);
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_followed_and_looked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sub/a.h", "#include \"b.h\"\n#include \"../main.c\"\n");
        write("sub/b.h", "#include \"a.h\"\n#include <c.h>\n");
        write("inc/c.h", "int c;\n");
        let text = "#include \"sub/a.h\"\n#include <stdio.h>\n#include <sub/b.h>\n";
        write("main.c", text);
        let found = included(&folder.path().join("main.c"), text, Language::C, &[folder.path().join("inc")]);
        let names: Vec<_> = found.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["c.h", "a.h", "b.h"]);
    }
}

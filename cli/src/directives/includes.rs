//! The files that a source includes.

use super::Language;

/// A file that a source includes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Include {
    /// The name as written.
    pub(crate) name: String,
    /// Whether the name is in quotes, so that the source's folder is searched first.
    pub(crate) beside: bool,
}

/// Returns all includes, also those in branches that are not compiled.
pub(crate) fn includes(source: &str, language: Language) -> Vec<Include> {
    source
        .lines()
        .filter_map(|line| preprocessed(line).or_else(|| language.is_fortran().then(|| fortran(line))?))
        .collect()
}

/// Parses `#include "file"` or `#include <file>`.
fn preprocessed(line: &str) -> Option<Include> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let beside = rest.starts_with('"');
    let end = if beside { '"' } else { '>' };
    let (name, _) = rest.strip_prefix(['"', '<'])?.split_once(end)?;
    Some(Include { name: name.to_owned(), beside })
}

/// Parses `include 'file'`.
fn fortran(line: &str) -> Option<Include> {
    let line = line.trim_start();
    let rest = line.get(7..).filter(|_| line[..7].eq_ignore_ascii_case("include"))?.trim_start();
    let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let (name, _) = rest[1..].split_once(quote)?;
    Some(Include { name: name.to_owned(), beside: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_both_forms() {
        let of = |text: &str, language| {
            includes(text, language).into_iter().map(|one| (one.name, one.beside)).collect::<Vec<_>>()
        };
        let source =
            "#include \"a.h\"\n  # include <b/c.h> // x\ninclude 'd.inc' ! y\n#define include \"e\"\nincluded = 'f'\n";
        let both = [("a.h".to_owned(), true), ("b/c.h".to_owned(), false)];
        assert_eq!(of(source, Language::C), both);
        assert_eq!(of(source, Language::FreeFortran)[2], ("d.inc".to_owned(), true));
        assert_eq!(of(source, Language::FreeFortran).len(), 3);
    }
}

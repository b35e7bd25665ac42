//! Comments and names are in the field's English: their subjects are nouns, and a public item's documentation begins with what it is or does.

use crate::documents::documents;
use crate::panics::is_shipped;
use crate::sources::{is_tests, sources, text};
use regex_lite::Regex;
use std::path::Path;

/// Pronouns that leave open what a sentence is about.
const PRONOUNS: [&str; 3] = ["whoever", "nobody", "somebody"];

/// Most lines of Rust with a pronoun in the place of a noun. The number may only fall.
const PRONOUNS_MAX: usize = 7;

/// First words of a summary that leave open what it is about. A summary of a boolean begins with "Whether".
const OPEN: &str = "Also And Any Anything As At But By Else Everything For From How If In It No Not Nothing Of \
    On Only See Since So Something That Then These They Those To Unless Until What When Where Which Who Whose Why";

/// Whether a file's comments count: not generated ones, nor this file, which contains the words themselves.
fn is_judged(path: &Path) -> bool {
    !path.starts_with("proto/src/gen") && !path.ends_with("tidy/english.rs")
}

/// Counts the lines of a file with a pronoun in the place of a noun.
fn pronouns(path: &Path) -> usize {
    let has_one = |line: &&str| PRONOUNS.iter().any(|pronoun| line.to_lowercase().contains(pronoun));
    text(path).lines().filter(has_one).count()
}

#[test]
fn subjects_are_nouns() {
    let counts: Vec<_> =
        sources().into_iter().filter(|path| is_judged(path)).map(|path| (pronouns(&path), path)).collect();
    let all: usize = counts.iter().map(|(count, _)| count).sum();
    let found: Vec<_> = counts.into_iter().filter(|(count, _)| *count > 0).collect();
    assert!(
        all <= PRONOUNS_MAX,
        "{all} lines have one of {PRONOUNS:?}, {PRONOUNS_MAX} may: name the thing. {found:#?}"
    );
}

#[test]
fn subjects_of_documents_are_nouns() {
    let named = documents().into_iter().filter(|path| path != Path::new("CHANGELOG.md"));
    let found: Vec<_> = named.filter(|path| pronouns(path) > 0).collect();
    assert!(found.is_empty(), "these have one of {PRONOUNS:?}; name the thing: {found:?}");
}

/// The public items of a file whose summaries begin with a word of [`OPEN`].
fn open_summaries(text: &str) -> Vec<String> {
    let item = Regex::new(
        r"^\s*pub(?:\([a-z: ]+\))? (?:(?:const|async|unsafe) )*(?:(?:fn|struct|enum|trait|type|const|static|mod) )?\w+",
    )
    .unwrap();
    let is_open = |summary: &String| {
        let first = summary.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        OPEN.split(' ').any(|open| open == first)
    };
    let (mut summary, mut found) = (None, Vec::new());
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(words) = trimmed.strip_prefix("///") {
            summary.get_or_insert_with(|| words.trim().to_owned());
        } else if !trimmed.starts_with("#[") {
            found.extend(summary.take().filter(is_open).filter(|_| item.is_match(line)));
        }
    }
    found
}

#[test]
fn summaries_begin_with_a_verb_or_a_noun() {
    let mut found = Vec::new();
    for path in sources().into_iter().filter(|path| is_shipped(path) && !is_tests(path) && is_judged(path)) {
        found.extend(open_summaries(&text(&path)).into_iter().map(|summary| format!("{}: {summary}", path.display())));
    }
    assert!(found.is_empty(), "these summaries begin with no verb or noun: {found:#?}");
}

#[test]
fn an_open_summary_is_found() {
    let text = "/// What is kept.\n/// More.\n#[derive(Debug)]\npub struct A {\n    /// Returns it.\n    pub fn b() {}\n    /// How many.\n    \
                pub c: u8,\n    /// What a caller can't see.\n    d: u8,\n}\n/// Whether it holds.\npub const fn e() {}\n";
    assert_eq!(open_summaries(text), ["What is kept.", "How many."]);
}

/// The first lines of sections on errors that are no sentence of the form "Returns …".
fn nameless_errors(text: &str) -> Vec<String> {
    let named = ["Returns ", "An error ", "* "];
    let sections = text.lines().zip(text.lines().skip(1)).filter(|(title, _)| title.trim_start() == "/// # Errors");
    let first = sections.map(|(_, first)| first.trim_start().trim_start_matches("/// ").to_owned());
    first.filter(|first| !named.iter().any(|start| first.starts_with(start))).collect()
}

#[test]
fn errors_are_named_in_sentences() {
    let mut found = Vec::new();
    for path in sources().into_iter().filter(|path| is_judged(path)) {
        found.extend(nameless_errors(&text(&path)).into_iter().map(|first| format!("{}: {first}", path.display())));
    }
    assert!(found.is_empty(), "these sections on errors do not say what is returned: {found:#?}");
}

#[test]
fn a_nameless_error_is_found() {
    let text = "    /// # Errors\n    /// When it fails.\n/// # Errors\n/// Returns `a` if it fails.\n";
    assert_eq!(nameless_errors(text), ["When it fails."]);
}

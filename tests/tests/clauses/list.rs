//! The list of clauses, `tests/data/openacc-3.3-clauses.txt`.

use accord_tests::repository_file;
use std::collections::BTreeMap;

/// A clause of the specification.
pub(crate) struct Clause {
    pub(crate) title: String,
    words: Vec<String>,
}

/// All clauses, and the clause of each routine (without `acc_`).
pub(crate) struct Clauses {
    clauses: BTreeMap<String, Clause>,
    routines: BTreeMap<String, String>,
}

impl Clauses {
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(repository_file("tests/data/openacc-3.3-clauses.txt")).unwrap();
        let (mut clauses, mut routines) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let [number, title, words, names] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                panic!("not a line of this list: {line}");
            };
            let words = words.split(',').chain([title]).map(|word| plain(word.trim())).collect();
            let clause = Clause { title: title.to_owned(), words };
            assert!(clauses.insert(number.to_owned(), clause).is_none(), "{number} is twice in the list");
            for name in names.split_whitespace() {
                let before = routines.insert(name.to_owned(), number.to_owned());
                assert!(before.is_none(), "acc_{name} is twice in the list");
            }
        }
        Self { clauses, routines }
    }

    pub(crate) fn get(&self, number: &str) -> Option<&Clause> {
        self.clauses.get(number)
    }

    /// Returns the clause that describes a routine.
    pub(crate) fn of_routine(&self, name: &str) -> Option<&str> {
        self.routines.get(name).map(String::as_str)
    }

    pub(crate) fn routines(&self) -> impl Iterator<Item = &str> {
        self.routines.keys().map(String::as_str)
    }
}

impl Clause {
    /// Whether a lower-case text is about this clause.
    pub(crate) fn is_subject_of(&self, text: &str) -> bool {
        self.words.iter().any(|word| match word.strip_suffix('*') {
            Some(stem) => has_word(text, stem, false),
            None => has_word(text, word, true),
        })
    }
}

fn has_word(text: &str, word: &str, whole: bool) -> bool {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && (!whole || !text[at + word.len()..].starts_with(part)))
}

/// Normalises a text for comparison: lower case, without the prefix of all routines.
pub(crate) fn plain(text: &str) -> String {
    text.to_lowercase().replace("goacc_", "").replace("acc_", "").replace('`', "")
}

/// Returns the parts of a clause's number, for comparison.
pub(crate) fn order(number: &str) -> Vec<u32> {
    number.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

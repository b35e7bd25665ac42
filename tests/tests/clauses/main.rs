//! Clauses of the OpenACC specification that comments, documents and test programs cite: each exists, and the citing
//! text is about the clause's subject.

mod comments;
mod list;

use accord_tests::repository_file;
use list::{Clauses, order};
use regex_lite::{Captures, Regex};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// Clauses in brackets with nothing else, or after the specification's version.
static TOGETHER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\(([^()]*)\)|3\.3, ((?:[\dA.]|, | and | to )+)").unwrap());
static NOTHING_ELSE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:OpenACC |appendix |chapters? \d(?: and |, )?|(?:[1-5]|A)(?:\.\d+)+|to|and|[ ,.;])+$").unwrap()
});
/// A number of three parts is a clause anywhere.
static RANGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d\.\d+\.\d+ to \d\.\d+\.\d+").unwrap());
static ALONE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\d.])([1-5]\.\d+\.\d+)(?:$|[^\d.:]|\.(?:$|[^\d]))").unwrap());
static NUMBERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"((?:[1-5]|A)(?:\.\d+)+)(?: to ((?:[1-5]|A)(?:\.\d+)+))?").unwrap());

/// Returns the clauses that a text cites, as ranges.
fn citations(text: &str) -> Vec<RangeInclusive<String>> {
    let numbered = text.as_bytes().windows(3).any(|part| part[1] == b'.' && part[2].is_ascii_digit());
    if !numbered {
        return Vec::new();
    }
    let mut texts: Vec<String> = Vec::new();
    let rest = TOGETHER.replace_all(text, |found: &Captures<'_>| {
        let inside = found.get(1).or(found.get(2)).unwrap().as_str();
        if found.get(2).is_none() && !NOTHING_ELSE.is_match(inside) && !inside.contains("3.3, ") {
            return found[0].to_owned();
        }
        texts.push(inside.split("3.3, ").last().unwrap().to_owned());
        String::new()
    });
    texts.extend(RANGE.find_iter(&rest).map(|found| found.as_str().to_owned()));
    texts.extend(ALONE.captures_iter(&RANGE.replace_all(&rest, "")).map(|found| found[1].to_owned()));
    texts
        .iter()
        .flat_map(|text| NUMBERS.captures_iter(text))
        .map(|found| found[1].to_owned()..=found.get(2).map_or(&found[1], |end| end.as_str()).to_owned())
        .collect()
}

fn contains(range: &RangeInclusive<String>, clause: &str) -> bool {
    (order(range.start())..=order(range.end())).contains(&order(clause))
}

fn to_string(range: &RangeInclusive<String>) -> String {
    if range.start() == range.end() { range.start().clone() } else { format!("{} to {}", range.start(), range.end()) }
}

#[test]
fn citations_are_found() {
    let found = |text: &str| citations(text).iter().map(to_string).collect::<Vec<_>>();
    assert_eq!(found("Queues (OpenACC 3.3, 3.2.9 to 3.2.14)."), ["3.2.9 to 3.2.14"]);
    assert_eq!(found("regions (2.6.5, 2.8). Then (A.2.1) and (chapter 3, A.2.1)"), ["2.6.5", "2.8", "A.2.1", "A.2.1"]);
    assert_eq!(found("what OpenACC 3.3, 2.16 says"), ["2.16"]);
    assert_eq!(found("the errors of 3.2.16 (malloc), 3.2.26 to 3.2.28."), ["3.2.26 to 3.2.28", "3.2.16"]);
    assert_eq!(found("its lifetime (3.3, 2.6)"), ["2.6"]);
    assert!(found("takes (1.5 us) or 2.5 s, 10.1.1.1:7000, 0.1.0, OpenACC 3.3 and 1.0").is_empty());
}

/// In all texts: the clause exists, and the comment contains one of its words.
#[test]
fn comments_cite_what_they_are_about() {
    let (clauses, mut wrong, mut cited) = (Clauses::read(), Vec::new(), 0);
    for path in comments::files() {
        if path.ends_with("tests/tests/clauses/main.rs") {
            continue; // examples
        }
        for comment in comments::comments(&path) {
            for range in citations(&comment.text) {
                cited += 1;
                if order(range.start()) > order(range.end()) {
                    wrong.push(format!("{}:{}: {} is empty", path.display(), comment.line, to_string(&range)));
                }
                for number in BTreeSet::from([range.start(), range.end()]) {
                    let Some(clause) = clauses.get(number) else {
                        wrong.push(format!("{}:{}: there is no clause {number}", path.display(), comment.line));
                        continue;
                    };
                    if !clause.is_subject_of(&comment.context) {
                        wrong.push(format!("{}:{}: {number} is \"{}\"", path.display(), comment.line, clause.title));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cited > 300, "only {cited} citations are found");
}

/// The C functions: a doc comment cites the clause of the function below it, directly or through another routine of the
/// same clause; otherwise the file is about that clause.
#[test]
fn docstrings_cite_their_routines_clause() {
    let (clauses, mut wrong) = (Clauses::read(), Vec::new());
    let function = Regex::new(r"\bfn acc_(\w+)\(").unwrap();
    let other = Regex::new(r"\[`acc_(\w+)`\]").unwrap();
    let mut seen = Vec::new();
    for (path, text) in rust_files("libacc/src/api") {
        let module: String = text.lines().filter_map(|line| line.strip_prefix("//!")).collect();
        let module = citations(&module);
        let mut doc = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(more) = line.strip_prefix("///") {
                doc.push_str(more);
            } else if let Some(found) = function.captures(line) {
                let name = found[1].to_owned();
                match clauses.of_routine(&name) {
                    None => wrong.push(format!("{path}: acc_{name} is not in the list of clauses")),
                    Some(right) => {
                        let printed = citations(&doc);
                        let like = other.captures(&doc).and_then(|other| clauses.of_routine(&other[1]));
                        let cites = match printed.is_empty() {
                            true if like.is_some() => like == Some(right),
                            true => module.iter().any(|range| contains(range, right)),
                            false => printed.iter().all(|range| range.start() == right && range.end() == right),
                        };
                        if !cites {
                            wrong.push(format!("{path}: acc_{name} is {right}"));
                        }
                    }
                }
                seen.push(name);
                doc.clear();
            } else if !line.starts_with("#[") {
                doc.clear();
            }
        }
    }
    wrong.extend(
        clauses
            .routines()
            .filter(|name| !seen.iter().any(|seen| seen == name))
            .map(|name| format!("acc_{name} is not in libacc/src/api")),
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The runtime's methods: a clause follows the routine that it describes.
#[test]
fn the_runtime_cites_the_same_clauses() {
    let (clauses, mut wrong, mut named) = (Clauses::read(), Vec::new(), 0);
    let printed = Regex::new(r"`acc_(\w+)`[^`\n]*\((3\.2\.\d+)\)").unwrap();
    for (path, text) in rust_files("libacc/runtime/src/routine") {
        for found in printed.captures_iter(&text) {
            named += 1;
            if clauses.of_routine(&found[1]) != Some(&found[2]) {
                wrong.push(format!("{path}: acc_{} is not {}", &found[1], &found[2]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(named > 25, "only {named} clauses are named");
}

/// The headers of C and Fortran: the comment above a group of routines cites the clauses of all of them.
#[test]
fn headers_cite_their_routines_clauses() {
    let clauses = Clauses::read();
    let prototype = Regex::new(r"^[\w *]*\bacc_(\w+)\(").unwrap();
    let interface = Regex::new(r"^(?:interface|subroutine|function|integer.* function) acc_(\w+)").unwrap();
    for (file, routine, least) in
        [("openacc.h", &prototype, 75), ("acc_prof.h", &prototype, 5), ("openacc_lib.h", &interface, 70)]
    {
        let (mut wrong, mut seen, mut above) = (Vec::new(), 0, Vec::new());
        let text = std::fs::read_to_string(repository_file(&format!("libacc/include/{file}"))).unwrap();
        for line in text.lines().map(str::trim) {
            if line.starts_with("/*") || line.starts_with('!') {
                let cited = citations(line);
                if !cited.is_empty() {
                    above = cited;
                }
            } else if let Some(found) = routine.captures(line)
                && let Some(right) = clauses.of_routine(&found[1])
            {
                seen += 1;
                if !above.iter().any(|range| contains(range, right)) {
                    wrong.push(format!("acc_{} is {right}", &found[1]));
                }
            }
        }
        assert!(wrong.is_empty(), "{file}: {wrong:#?}");
        assert!(seen >= least, "{file}: only {seen} routines are found");
    }
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(repository_file(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    files
}

//! Every collection that peers can make grow is in `tests/data/bounds.md`, with its bound.

use crate::bounds::{DOCUMENT, document};
use crate::sources::{code, is_tests, sources, without_text};
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// Folders that store peers' data: executors', agents', the coordinator's, and a program's side of its connections.
const KEEPERS: &[&str] = &[
    "crates/executor/src/",
    "crates/fabric/src/",
    "crates/cluster/src/",
    "coordinator/src/",
    "node-agent/src/",
    "libacc/client/src/connection/",
    "libacc/client/src/remote/",
];

/// Returns the names of fields and statics with collection types in a file's code. Tuple structs count by their own
/// names.
fn collections(code: &str) -> BTreeSet<String> {
    let item = Regex::new(r"^\s*(?:pub(?:\([^)]*\))? )?(struct|static) (?:mut )?(\w+)").unwrap();
    let field = Regex::new(r"^\s*(?:pub(?:\([^)]*\))? )?(\w+): ").unwrap();
    let (mut found, mut lines) = (BTreeSet::new(), code.lines().map(without_text));
    while let Some(line) = lines.next() {
        let Some((head, kind, name)) = item
            .captures(&line)
            .map(|item| (item.get(0).map_or(0, |all| all.end()), item[1].to_owned(), item[2].to_owned()))
        else {
            continue;
        };
        let mut kept = |name: &str, of: &str| {
            if holds_many(of) {
                found.insert(name.to_owned());
            }
        };
        let mut rest = line[head..].to_owned();
        if kind == "static" || !line.ends_with('{') {
            while !rest.contains(';') {
                let Some(more) = lines.next() else { break };
                rest.push_str(&more);
            }
            let declared = if kind == "static" { rest.split(" = ").next().unwrap_or_default() } else { &rest };
            kept(&name, declared);
            continue;
        }
        // As formatted by rustfmt, the struct's end has its start's indentation, and each field begins a line.
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let (mut last, mut of) = (String::new(), String::new());
        for line in lines.by_ref().take_while(|line| *line != end) {
            match field.captures(&line) {
                Some(next) => {
                    kept(&last, &of);
                    last = next[1].to_owned();
                    of = line[next.get(0).map_or(0, |all| all.end())..].to_owned();
                }
                None => of.push_str(&line),
            }
        }
        kept(&last, &of);
    }
    found
}

/// Whether a type holds any number of values. Other rules cover queues, and plain bytes have the size of their source.
fn holds_many(of: &str) -> bool {
    let many = Regex::new(r"\b(HashMap|BTreeMap|NotingMap|HashSet|BTreeSet|ByNumber|Vec)\b").unwrap();
    many.is_match(&of.replace("Vec<u8>", ""))
}

/// Returns the document's rows: names of collections by file, and their bounds.
fn rows(document: &str) -> Vec<(String, Vec<String>, String)> {
    let row = Regex::new(r"(?m)^\| `([^`]+\.rs)` \| ((?:`\w+`(?:, )?)+) \| ([^|]+) \|$").unwrap();
    let name = Regex::new(r"`(\w+)`").unwrap();
    let names = |text: &str| name.captures_iter(text).map(|name| name[1].to_owned()).collect();
    row.captures_iter(document).map(|row| (row[1].to_owned(), names(&row[2]), row[3].to_owned())).collect()
}

#[test]
fn every_collection_that_others_make_grow_is_in_the_document() {
    let (mut written, mut wrong) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
    for (path, names, _) in rows(&document()) {
        for name in names {
            if !written.entry(path.clone()).or_default().insert(name.clone()) {
                wrong.push(format!("{path}: {name} is there twice"));
            }
        }
    }
    let mut all = 0;
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let name = path.to_string_lossy();
        if !KEEPERS.iter().any(|keeper| name.starts_with(keeper)) {
            continue;
        }
        let (found, known) = (collections(&code(path)), written.remove(&*name).unwrap_or_default());
        all += found.len();
        wrong.extend(found.difference(&known).map(|field| format!("{name}: {field} is not there")));
        wrong.extend(known.difference(&found).map(|field| format!("{name} has no {field}")));
    }
    wrong.extend(written.keys().map(|path| format!("there is no {path} to look at")));
    assert!(all > 100, "{all} collections");
    assert!(wrong.is_empty(), "say in {DOCUMENT} what bounds each of these:\n{}", wrong.join("\n"));
}

/// A row whose bound is a constant names the constant's file and value.
#[test]
fn constants_that_bound_collections_are_in_the_tables() {
    let document = document();
    let constant = Regex::new(r"`([A-Z][A-Z_]+)`").unwrap();
    let mut wrong = Vec::new();
    for (path, names, bound) in rows(&document) {
        for named in
            constant.captures_iter(&bound).filter(|named| !document.contains(&format!("| `{}` | `", &named[1])))
        {
            wrong.push(format!("{path}, {}: {}", names.join(", "), &named[1]));
        }
    }
    assert!(wrong.is_empty(), "{DOCUMENT} has no such constants:\n{}", wrong.join("\n"));
}

#[test]
fn fields_and_statics_that_hold_many_things_are_found() {
    let text = r#"
use std::collections::HashMap;
static ALL: Lock<Vec<Thing>> = Lock::new(Vec::new());
static NAMES: Lock<u8> = Lock::new(BTreeMap::new());
pub struct Plain<T: Into<u8>> {
    pub(super) by_name: BTreeMap<String, T>,
    bytes: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    few: SmallVec<[u8; 4]>,
    #[cfg(a)]
    long: Arc<
        ShortLock<HashSet<Thing>>,
    >,
    text: &'static str, // Vec<String>
    last: HashMap<u32, Thing, ByNumber>,
}
pub(crate) struct Tuple(Vec<Thing>);
struct Wrapped(
    u8,
    pub BTreeSet<u8>,
);
struct Nothing;
impl Plain {
    fn new(of: Vec<Thing>) -> Vec<Thing> {
        let all: Vec<Thing> = Vec::new();
        Self { by_name: BTreeMap::new() }
    }
}
mod inner {
    struct Deep {
        more: Vec<Thing>,
    }
}
enum Message {
    Said { list: Vec<Thing> },
}
"#;
    let found: Vec<_> = collections(text).into_iter().collect();
    assert_eq!(found, ["ALL", "Tuple", "Wrapped", "by_name", "last", "long", "more", "pieces"]);
}

#[test]
fn rows_name_one_collection_or_more() {
    let text = "| file | what | by what |\n| --- | --- | --- |\n| `a/b.rs` | `one`, `two` | `MAX` of them |\n| `c.rs` | by what |\n";
    let names = vec!["one".to_owned(), "two".to_owned()];
    assert_eq!(rows(text), [("a/b.rs".to_owned(), names, "`MAX` of them".to_owned())]);
}

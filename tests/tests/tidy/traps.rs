//! Every trap of GCC's interface has its paragraph in docs/gcc-traps.md and the test that it names.

use crate::sources::text;
use accord_tests::programs;
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::path::Path;

/// A paragraph's statement on its test.
struct Trap {
    number: u32,
    what: String,
    test: String,
}

fn traps() -> Vec<Trap> {
    let page = text(Path::new("docs/gcc-traps.md"));
    let mut parts = page.split("\n### ").skip(1);
    let part = |part: &str| {
        let (number, rest) = part.split_once(". ").expect("a number");
        let found = |start: &str| rest.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
        let line = |start: &str| found(start).unwrap_or_else(|| panic!("trap {number} lacks {start}"));
        let number: u32 = number.parse().expect("a number");
        Trap {
            number,
            what: line("GCC: ") + &line("Accord: "),
            test: found("Test: ").unwrap_or_else(|| format!("`trap_{number:02}`")),
        }
    };
    parts.by_ref().map(part).collect()
}

#[test]
fn every_trap_has_its_paragraph_and_its_test() {
    let (names, functions) = (programs().unwrap(), Regex::new("`(\\w+)` in `([^`]+)`").unwrap());
    let program = |name: &str| names.iter().any(|program| program.name.starts_with(name));
    let mut wrong = Vec::new();
    let traps = traps();
    for (trap, expected) in traps.iter().zip(1..) {
        let Trap { number, what, test } = trap;
        if *number != expected || what.len() < 60 {
            wrong.push(format!("trap {number}: out of order, or says too little"));
        }
        let own = format!("trap_{number:02}");
        let is_own = test.starts_with(&format!("`{own}`")) && program(&format!("{own}_"));
        let named = functions
            .captures(test)
            .is_some_and(|found| text(Path::new(&found[2])).contains(&format!("fn {}", &found[1])));
        if !is_own && !named {
            wrong.push(format!("trap {number}: there is no test {test}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(traps.len() >= 48, "traps are missing");
}

/// No program and no unit test cites a trap that the page lacks.
#[test]
fn no_test_cites_an_unknown_trap() {
    let known: BTreeSet<u32> = traps().iter().map(|trap| trap.number).collect();
    let cited = Regex::new(r"\btrap_(\d\d)").unwrap();
    let mut wrong = BTreeSet::new();
    let programs = programs().unwrap().into_iter().map(|program| program.name);
    let sources =
        crate::sources::sources().into_iter().filter(|path| path.starts_with("libacc")).map(|path| text(&path));
    for text in programs.chain(sources) {
        let numbers = cited.captures_iter(&text).filter_map(|found| found[1].parse().ok());
        wrong.extend(numbers.filter(|number| !known.contains(number)));
    }
    assert!(wrong.is_empty(), "not in docs/gcc-traps.md: {wrong:?}");
}

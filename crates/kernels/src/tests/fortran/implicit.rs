//! Compares GCC's decisions on the variables of Fortran's `kernels` constructs, by its own dump, with the rewriter's.

use super::super::implicit::{Region, dumped, named, printed, region};
use super::super::support::{RULES, number};
use super::built::{alone, rewritten};
use super::nests::{NESTS, source};
use crate::ir::Shape;
use crate::plan::{Part, plan};
use crate::{Form, Mode, fortran};
use std::collections::BTreeSet;

/// The prefix of the compiler's own variables in the dump, which contain bounds of loops: `D.4261`.
const OWN: &str = "D";

/// Whether the expansion of statements of arrays declares it.
fn is_new(name: &str) -> bool {
    name.starts_with("accord_")
}

#[test]
fn clauses_are_what_gcc_decides_for_the_same_variables() {
    let folder = tempfile::tempdir().unwrap();
    let text = source(number("ACCORD_TEST_SEED").unwrap_or(11));
    let read = |text: &str| {
        let source = fortran::source::Source::new(text, Form::Free, "nests.f90");
        fortran::constructs::constructs(&source, &alone(text, Form::Free, "nests.f90"))
    };
    let expanded = fortran::expand::expand(&alone(&text, Form::Free, "nests.f90")).text.unwrap();
    let constructs = read(&expanded);
    let new = rewritten(&text, Form::Free, "nests.f90", Mode::Parallel).text.unwrap();
    let dumped = |text: &str| dumped(folder.path(), ("gfortran", "dumped.f90"), text, "nest");
    let (before, after) = (dumped(&text), dumped(&new));
    assert_eq!((constructs.len(), before.len()), (NESTS, NESTS));
    let (mut scalars, mut arrays, mut opened, mut folded) = (0, 0, 0, 0);
    for (at, construct) in constructs.iter().enumerate() {
        let own = procedure(&text, at);
        let [original] = &*before[&at] else { panic!("nest {at}: {:?}", before[&at]) };
        assert_eq!(original.name, "kernels");
        let original = std::slice::from_ref(original);
        // What the front end sees is what GCC sees: arrays and structures are mapped as `copy`, scalars by force.
        let (mapped, copied) = (printed(original, &["tofrom"]), printed(original, &["force_tofrom"]));
        let is_scalar = |shape| shape == Shape::Scalar;
        let known = [named(construct, |shape| !is_scalar(shape)), named(construct, is_scalar)];
        let seen: BTreeSet<String> = known.iter().flatten().cloned().collect();
        let unseen: Vec<&String> = mapped.union(&copied).filter(|name| !seen.contains(*name) && *name != OWN).collect();
        assert!(unseen.is_empty(), "nest {at}: {seen:?} {unseen:?}\n{own}");
        folded +=
            seen.iter().filter(|name| !is_new(name) && !mapped.contains(*name) && !copied.contains(*name)).count();
        let Some(regions) = after.get(&at).filter(|regions| regions.iter().any(|one| one.name == "parallel")) else {
            continue;
        };
        opened += 1;
        // Each array moves as GCC moves it: around all parts, or with the one that there is.
        let moved: BTreeSet<String> = printed(regions, &["tofrom"]).intersection(&mapped).cloned().collect();
        let plan = plan(construct, RULES).unwrap();
        let arrays_of = |part: &Part<'_>| match part {
            Part::Nest(nest) => nest.arrays.clone(),
            Part::Serial { arrays, .. } => arrays.clone(),
        };
        let root = |name: &str| name.split('%').next().unwrap_or_default().to_owned();
        let used = plan.parts.iter().flat_map(arrays_of).map(|id| root(&construct.variables[id.0].name));
        let used: BTreeSet<String> = used.filter(|name| mapped.contains(name)).collect();
        assert_eq!(moved, used, "nest {at}: {regions:?}\n{own}");
        // No scalar of a part is left to GCC, which would take another decision than for `kernels`.
        let written = directives(&procedure(&new, at));
        let explicit: BTreeSet<&String> = written.iter().flat_map(|one| one.variables.keys()).collect();
        for (name, kinds) in regions.iter().flat_map(|region| &region.variables) {
            let decided = mapped.contains(name) || explicit.contains(name) || name == OWN;
            assert!(decided, "nest {at}: {name} is {kinds:?} by GCC alone: {regions:?}\n{written:?}\n{own}");
        }
        scalars += explicit.len();
        arrays += mapped.len();
    }
    assert!(opened > NESTS / 3 && scalars > opened && arrays > opened / 2, "{opened} {scalars} {arrays}");
    assert!(folded < NESTS / 4, "{folded} variables that GCC does not name");
}

/// Returns the text of one nest.
fn procedure(text: &str, at: usize) -> String {
    let own = text.split(&format!(" subroutine nest{at}(")).nth(1).unwrap_or_default();
    own.split(" end subroutine").next().unwrap_or_default().to_owned()
}

fn directives(text: &str) -> Vec<Region> {
    let joined = text.replace("&\n!$acc&", "");
    let lines = joined.lines().filter_map(|line| line.trim_start().strip_prefix("!$acc "));
    lines.map(|line| region(&line.replace(',', ", ").replace(",  ", ", "))).collect()
}

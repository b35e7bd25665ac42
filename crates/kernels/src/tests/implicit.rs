//! Compares GCC's decisions on the variables of `kernels` constructs, by its own dump, with the rewriter's.

use super::programs::{Case, case, file};
use super::support::{RULES, Random, number};
use crate::ir::{Construct, Shape, Storage};
use crate::plan::{Part, plan};
use crate::source::Source;
use crate::{Mode, c, rewrite_c, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Constructs of the test.
const CONSTRUCTS: usize = 100;

/// A directive of a dump or of a source: its name, and the kinds of each variable.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) name: String,
    pub(super) variables: BTreeMap<String, BTreeSet<String>>,
}

/// Reads `name clause(list) clause(kind:variable [len: 4])`.
pub(super) fn region(text: &str) -> Region {
    let name = text.split([' ', '(']).next().unwrap_or_default().to_owned();
    let mut variables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let clause = rest[..open].rsplit(' ').next().unwrap_or_default();
        let mut depth = 0;
        let close = rest[open..].find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let Some(close) = close.map(|length| open + length) else { break };
        let list = &rest[open + 1..close];
        let (kind, list) = match clause {
            "map" => list.split_once(':').unwrap_or((clause, list)),
            _ => (clause, list.rsplit(':').next().unwrap_or(list)),
        };
        // Lengths and sections have commas too.
        let mut depth = 0;
        let outside = |c: &char| {
            depth += i32::from(*c == '[') - i32::from(*c == ']');
            depth == 0 && *c != ']'
        };
        let list: String = list.chars().filter(outside).collect();
        for one in list.split(", ") {
            // Fortran's arguments by reference: `*n`, `*n.261`, `(*a.99_1)`.
            let name = one.trim_start_matches(['(', '*']).split([' ', '[', '.', ')']).next().unwrap_or_default();
            variables.entry(name.to_owned()).or_default().insert(kind.to_owned());
        }
        rest = &rest[close + 1..];
    }
    Region { name, variables }
}

/// Returns the regions of each procedure of this name and a number in GCC's dump after its implicit decisions.
pub(super) fn dumped(
    folder: &Path,
    (compiler, file): (&str, &str),
    text: &str,
    name: &str,
) -> BTreeMap<usize, Vec<Region>> {
    let source = folder.join(file);
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(compiler);
    command.current_dir(folder);
    command.args(["-fopenacc", "-foffload=disable", "-w", "-S", "-o", "/dev/null", "-dumpdir"]);
    let output = command.arg(folder.join("dump-")).arg("-fdump-tree-gimple").arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dumps = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let dump = dumps.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "gimple")).unwrap();
    let text = std::fs::read_to_string(&dump).unwrap();
    std::fs::remove_file(dump).unwrap();
    let (mut all, mut function): (BTreeMap<usize, Vec<Region>>, _) = (BTreeMap::new(), None);
    for line in text.lines() {
        if !line.starts_with([' ', '{', '}']) && line.contains('(') {
            let own = line.split(" (").next().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
            function = own.strip_prefix(name).and_then(|number| number.parse().ok());
        }
        let directive = line.trim_start().strip_prefix("#pragma omp target oacc_");
        if let (Some(directive), Some(function)) = (directive, function) {
            all.entry(function).or_default().push(region(directive));
        }
    }
    all
}

/// Returns variables of a construct, by their shape; for a component its structure.
pub(super) fn named(construct: &Construct, is: impl Fn(Shape) -> bool) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add = |id: crate::poly::VarId| {
        let variable = &construct.variables[id.0];
        if variable.storage != Storage::Inside && is(variable.shape) {
            all.insert(variable.name.split(['%', '-', '.']).next().unwrap_or_default().to_owned());
        }
    };
    walk::accesses(&construct.body, &mut |access| add(access.variable));
    walk::loops(&construct.body, &mut |inner| add(inner.variable));
    all
}

/// Returns the variables of regions with one of these kinds.
pub(super) fn printed(regions: &[Region], of: &[&str]) -> BTreeSet<String> {
    let all = regions.iter().flat_map(|region| &region.variables);
    all.filter(|(_, kinds)| of.iter().any(|kind| kinds.contains(*kind))).map(|(name, _)| name.clone()).collect()
}

#[test]
fn clauses_are_what_gcc_decides_for_the_same_variables() {
    let mut random = Random::new(number("ACCORD_TEST_SEED").unwrap_or(11));
    let cases: Vec<Case> = (0..CONSTRUCTS).map(|_| case(&mut random)).collect();
    let folder = tempfile::tempdir().unwrap();
    let text = super::generated::preprocessed(folder.path(), &file(&cases));
    let source = Source::c(&text, "cases.c");
    let constructs = c::constructs(&source, false);
    let new = rewrite_c(&text, "cases.c", false, Mode::Parallel, RULES).text.unwrap();
    let dumped = |text: &str| dumped(folder.path(), ("gcc", "dumped.i"), text, "kernels_");
    let (before, after) = (dumped(&text), dumped(&new));
    assert_eq!((constructs.len(), before.len()), (CONSTRUCTS, CONSTRUCTS));
    let (mut scalars, mut arrays, mut opened, mut folded) = (0, 0, 0, 0);
    for (at, construct) in constructs.iter().enumerate() {
        let [original] = &*before[&at] else { panic!("case {at}: {:?}", before[&at]) };
        assert_eq!(original.name, "kernels");
        let original = std::slice::from_ref(original);
        // What the front end sees is what GCC sees: arrays are mapped as `copy`, scalars and pointers by force.
        let (mapped, copied) = (printed(original, &["tofrom"]), printed(original, &["force_tofrom"]));
        let known = [named(construct, |shape| shape == Shape::Array), named(construct, |shape| shape != Shape::Array)];
        for (known, gcc) in known.iter().zip([&mapped, &copied]) {
            assert!(gcc.is_subset(known), "case {at}: {known:?} {gcc:?}\n{}", cases[at].body);
            // GCC folds products with 0.
            folded += known.difference(gcc).count();
        }
        let Some(regions) = after.get(&at).filter(|regions| regions.iter().any(|one| one.name == "parallel")) else {
            continue;
        };
        opened += 1;
        // Each array moves as GCC moves it: around all parts, or with the one that there is.
        let whole = printed(regions, &["tofrom"]);
        let moved: BTreeSet<String> = whole.intersection(&mapped).cloned().collect();
        // Loops without iterations leave the device.
        let plan = plan(construct, RULES).unwrap();
        let arrays_of = |part: &Part<'_>| match part {
            Part::Nest(nest) => nest.arrays.clone(),
            Part::Serial { arrays, .. } => arrays.clone(),
        };
        let used = plan.parts.iter().flat_map(arrays_of).map(|id| construct.variables[id.0].name.clone());
        let used: BTreeSet<String> = used.filter(|name| mapped.contains(name)).collect();
        assert_eq!(moved, used, "case {at}: {regions:?}\n{}", cases[at].body);
        // No scalar of a part is left to GCC, which would take another decision than for `kernels`.
        let pointers = named(construct, |shape| matches!(shape, Shape::Pointer { .. }));
        let written = new_directives(&new, at);
        let explicit: BTreeSet<&String> = written.iter().flat_map(|one| one.variables.keys()).collect();
        for (name, kinds) in regions.iter().flat_map(|region| &region.variables) {
            let decided = mapped.contains(name) || pointers.contains(name) || explicit.contains(name);
            assert!(
                decided,
                "case {at}: {name} is {kinds:?} by GCC alone: {regions:?}\n{written:?}\n{}",
                cases[at].body
            );
        }
        scalars += explicit.len();
        arrays += mapped.len();
    }
    assert!(opened > CONSTRUCTS / 4 && scalars > opened && arrays > opened / 2, "{opened} {scalars} {arrays}");
    assert!(folded < CONSTRUCTS / 10, "{folded} variables that GCC does not name");
}

/// The directives in a function of the rewritten text.
fn new_directives(text: &str, at: usize) -> Vec<Region> {
    let own = text.split(&format!("static void kernels_{at}(")).nth(1).unwrap_or_default();
    let own = own.split("static void").next().unwrap_or_default();
    let lines = own.lines().filter_map(|line| line.split("#pragma acc ").nth(1));
    lines.map(|line| region(&line.replace(',', ", ").replace(",  ", ", "))).collect()
}

//! Clauses of the parts of a construct.

use crate::clause::{has_clause, kind, mapped, moves, named, path};
use crate::ir::{CallKind, Construct, Kind, Loop, Shape, VarId};
use crate::plan::{Nest, Note, Part, Plan, Planned, has_few_iterations};
use crate::walk;
use std::collections::BTreeSet;

/// Clauses that each part of a construct gets from it.
const TO_PARTS: &[&str] = &["async", "wait", "if", "self", "num_gangs", "num_workers", "vector_length", "default"];

/// Clauses for the number of threads.
const SIZES: &[&str] = &["num_gangs", "num_workers", "vector_length"];
/// A region of one thread, for which GCC does not warn as it does for `serial`.
const ONE_THREAD: &str = "parallel num_gangs(1) num_workers(1)";

/// The mapping of the data of a construct with several parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DataMapping {
    /// All of it is mapped by the parts.
    Nothing,
    /// By a `data` construct with these clauses.
    Data(String),
    /// By `enter data` and `exit data`, which may be asynchronous.
    Dynamic {
        /// Clauses of `enter data`.
        enter: String,
        /// Clauses of `exit data`.
        exit: String,
    },
}

/// Returns the clauses that map the construct's data around its parts; a note if that can't be expressed.
pub(crate) fn around(plan: &Plan<'_>) -> Result<DataMapping, Note> {
    let construct = plan.construct;
    if plan.single {
        return Ok(DataMapping::Nothing);
    }
    let refuse = |text: String| Err(Note { at: construct.directive.span.start, text, refused: true });
    let mut written = written(construct);
    // Loops on the host set their variables between the parts.
    written.extend(plan.host.iter().map(|of| construct.variables[of.variable.0].name.as_str()));
    // The loop clauses of a combined construct go to its loop.
    let stays = |name: &str| crate::clause::DATA.contains(&name) || TO_PARTS.contains(&name);
    for clause in construct.directive.clauses.iter().filter(|clause| stays(&clause.name)) {
        let argument = clause.argument.as_deref().unwrap_or("");
        let mut words = argument.split(|c: char| !c.is_alphanumeric() && c != '_');
        let of_data = crate::clause::DATA.contains(&clause.name.as_str());
        let in_sections = argument.contains(['[', '(']);
        if (!of_data || in_sections) && words.any(|word| written.contains(word)) {
            return refuse(format!("{} of the construct names a variable that the construct changes", clause.name));
        }
        let is_call = argument
            .char_indices()
            .any(|(at, c)| c == '(' && argument[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        if is_call && !of_data {
            return refuse(format!("{} of the construct has a call, which would run several times", clause.name));
        }
    }
    let mut maps: Vec<(String, String)> =
        mapped(construct).into_iter().map(|(name, element)| (kind(name).to_owned(), element.to_owned())).collect();
    let default_present =
        construct.directive.clause("default").is_some_and(|one| one.argument.as_deref() == Some("present"));
    for (at, variable) in construct.variables.iter().enumerate() {
        let id = VarId(at);
        // The structure of a component is mapped as a whole.
        let is_component = variable.name.contains('%');
        let is_array = variable.shape == Shape::Array
            && !is_component
            && variable.storage != crate::ir::Storage::Inside
            && !default_present;
        if (is_array || plan.device.contains(&id)) && !has_clause(construct, id) && used(plan, id) {
            maps.push(("copy".into(), variable.name.clone()));
        }
    }
    // The compiler finds present what a surrounding `data` construct maps.
    let is_present = |name: &str, element: &str| moves(name) && construct.present.contains(path(element));
    maps.retain(|(name, element)| name != "deviceptr" && !is_present(name, element));
    if maps.iter().all(|(name, _)| matches!(name.as_str(), "present" | "no_create")) {
        return Ok(DataMapping::Nothing);
    }
    let with = |names: &[&str]| {
        let clauses = construct.directive.clauses.iter().filter(|clause| names.contains(&clause.name.as_str()));
        clauses.map(|clause| format!(" {}", clause.text())).collect::<String>()
    };
    if construct.directive.clause("async").is_none() {
        let clauses = maps.iter().map(|(name, element)| format!(" {name}({element})")).collect::<String>();
        return Ok(DataMapping::Data(format!("{clauses}{}", with(&["if"]))));
    }
    let (mut enter, mut exit) = (String::new(), String::new());
    for (name, element) in &maps {
        let (first, last) = match name.as_str() {
            "copy" => ("copyin", "copyout"),
            "copyin" => ("copyin", "delete"),
            "copyout" => ("create", "copyout"),
            "create" => ("create", "delete"),
            "present" => continue,
            other => return refuse(format!("{other} of an asynchronous construct with several parts")),
        };
        enter += &format!(" {first}({element})");
        exit += &format!(" {last}({element})");
    }
    Ok(DataMapping::Dynamic { enter: enter + &with(&["if", "async", "wait"]), exit: exit + &with(&["if", "async"]) })
}

fn written(construct: &Construct) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    walk::accesses(&construct.body, &mut |access| {
        let variable = &construct.variables[access.variable.0];
        if access.write && variable.shape == Shape::Scalar {
            found.insert(variable.name.as_str());
        }
    });
    found
}

fn used(plan: &Plan<'_>, id: VarId) -> bool {
    plan.parts.iter().any(|part| match part {
        Part::Nest(nest) => nest.arrays.contains(&id) || nest_scalars(nest).contains(&id),
        Part::Serial { scalars, arrays, .. } => scalars.contains(&id) || arrays.contains(&id),
    })
}

fn nest_scalars(nest: &Nest<'_>) -> BTreeSet<VarId> {
    let reductions = nest.loops[0].parallel.iter().flat_map(|parallel| parallel.scalars.reductions.keys());
    nest.read.iter().chain(reductions).copied().collect()
}

/// The directive of a nest's outermost loop, without the sentinel.
pub(crate) fn of_nest(plan: &Plan<'_>, nest: &Nest<'_>, around: &DataMapping) -> String {
    let mut text = String::from("parallel loop");
    text += &of_loop(plan.construct, nest, 0);
    // Otherwise GCC passes a reference's own address to the device.
    let referred: BTreeSet<&str> = nest
        .loops
        .iter()
        .flat_map(|planned| reductions_of_references(plan.construct, planned.of))
        .map(|(_, name)| name)
        .filter(|name| mapped(plan.construct).iter().all(|(_, element)| named(element) != *name))
        .collect();
    for name in referred {
        text += &format!(" copy({name})");
    }
    for id in &nest.stored {
        text += &format!(" copy({})", kept(&plan.construct.variables[id.0].name));
    }
    text += &shared(plan, around, &nest_scalars(nest), &nest.arrays, "firstprivate", true);
    text
}

/// The variable that the last iteration of a nest stores a private scalar to.
pub(super) fn kept(name: &str) -> String {
    format!("accord_l_{name}")
}

/// Returns the directive of a nest that runs in order after all, as pointers overlap.
pub(crate) fn in_order(plan: &Plan<'_>, nest: &Nest<'_>, around: &DataMapping) -> String {
    let name = |id: &VarId| plan.construct.variables[id.0].name.as_str();
    let own = nest.loops[0].parallel.iter().flat_map(|parallel| &parallel.scalars.private);
    let variable = Some(&nest.loops[0].of.variable).filter(|_| !nest.loops[0].of.declares);
    let mut names: BTreeSet<&str> =
        own.chain(variable).chain(nest.loops.iter().flat_map(|one| &one.of.private)).map(name).collect();
    for read in &nest_scalars(nest) {
        names.remove(name(read));
    }
    let names: Vec<&str> = names.into_iter().collect();
    let private = if names.is_empty() { String::new() } else { format!(" private({})", names.join(", ")) };
    format!("{ONE_THREAD}{private}{}", shared(plan, around, &nest_scalars(nest), &nest.arrays, "firstprivate", false))
}

/// The directive of statements that run in order.
pub(crate) fn of_serial(
    plan: &Plan<'_>,
    scalars: &BTreeSet<VarId>,
    arrays: &BTreeSet<VarId>,
    is_loop: bool,
    around: &DataMapping,
) -> String {
    let (name, by_value) = if is_loop { ("kernels", "copyin") } else { (ONE_THREAD, "firstprivate") };
    format!("{name}{}", shared(plan, around, scalars, arrays, by_value, is_loop))
}

/// Returns clauses for data, and those that each part gets from the construct.
fn shared(
    plan: &Plan<'_>,
    around: &DataMapping,
    scalars: &BTreeSet<VarId>,
    arrays: &BTreeSet<VarId>,
    by_value: &str,
    with_sizes: bool,
) -> String {
    let construct = plan.construct;
    let mut text = String::new();
    let names: BTreeSet<&str> = scalars.iter().chain(arrays).map(|id| named(&construct.variables[id.0].name)).collect();
    for (clause, element) in mapped(construct) {
        if !plan.single && !names.contains(named(element)) {
            continue;
        }
        let clause = match (around, clause) {
            (DataMapping::Nothing, _) | (_, "deviceptr" | "no_create" | "attach") => clause,
            _ => "present",
        };
        text += &format!(" {clause}({element})");
    }
    let mut values = Vec::new();
    for id in scalars.iter().filter(|id| !has_clause(construct, **id)) {
        let name = &construct.variables[id.0].name;
        if plan.device.contains(id) {
            text += &format!(" copy({name})");
        } else {
            values.push(name.as_str());
        }
    }
    if !values.is_empty() {
        text += &format!(" {by_value}({})", values.join(", "));
    }
    let has_wait = !matches!(around, DataMapping::Dynamic { .. });
    for clause in construct.directive.clauses.iter().filter(|clause| TO_PARTS.contains(&clause.name.as_str())) {
        if !with_sizes && SIZES.contains(&clause.name.as_str()) {
            continue;
        }
        if has_wait || clause.name != "wait" {
            text += &format!(" {}", clause.text());
        }
    }
    text
}

/// Returns clauses of a parallel loop of a nest, by its number.
pub(crate) fn of_loop(construct: &Construct, nest: &Nest<'_>, at: usize) -> String {
    let planned = &nest.loops[at];
    let Some(parallel) = &planned.parallel else {
        let own = planned.of.private.iter().filter(|id| **id != planned.of.variable);
        let names: Vec<&str> = own.map(|id| construct.variables[id.0].name.as_str()).collect();
        return if names.is_empty() { " seq".into() } else { format!(" seq private({})", names.join(", ")) };
    };
    let mut text = String::new();
    if levels_fit(nest) {
        let own = planned.of.directive.iter().flat_map(|directive| &directive.clauses);
        for clause in own.filter(|clause| level(&clause.name).is_some()) {
            text += &format!(" {}", clause.name);
        }
    }
    if let Some(level) = own_level(construct, nest, at) {
        text += level;
    }
    let own: Vec<&Planned<'_>> = nest
        .loops
        .iter()
        .enumerate()
        .filter(|(other, one)| *other == at || one.collapsed && contains(planned, one))
        .map(|(_, one)| one)
        .collect();
    let has_tile = planned.of.directive.as_ref().is_some_and(|directive| directive.clause("tile").is_some());
    let mut collapsed: BTreeSet<VarId> = BTreeSet::new();
    if planned.collapse > 1 && !has_tile {
        text += &format!(" collapse({})", planned.collapse);
        collapsed.extend(own.iter().map(|one| one.of.variable).filter(|variable| *variable != planned.of.variable));
    }
    let mut private: Vec<&str> = parallel
        .scalars
        .private
        .iter()
        .filter(|id| !collapsed.contains(id))
        .map(|id| construct.variables[id.0].name.as_str())
        .collect();
    // Arrays that the source names.
    let clauses = own.iter().flat_map(|one| &one.of.directive).flat_map(|directive| &directive.clauses);
    let is_loops = |name: &str| collapsed.iter().any(|id| construct.variables[id.0].name == name);
    for name in clauses.filter(|clause| clause.name == "private").flat_map(|clause| clause.list()) {
        if is_loops(name) {
            continue;
        }
        if !private.contains(&name) && !is_only_read(construct, planned.of, name) {
            private.push(name);
        }
    }
    if !private.is_empty() {
        text += &format!(" private({})", private.join(", "));
    }
    for (id, operator) in &parallel.scalars.reductions {
        text += &format!(" reduction({operator}:{})", construct.variables[id.0].name);
    }
    // References of C++ that the source names.
    for (operator, name) in own.iter().flat_map(|one| reductions_of_references(construct, one.of)) {
        text += &format!(" reduction({operator}:{name})");
    }
    text
}

/// Returns reductions of a loop's directive over non-scalars, with their operators.
fn reductions_of_references<'a>(construct: &'a Construct, of: &'a Loop) -> Vec<(&'a str, &'a str)> {
    let clauses = of.directive.iter().flat_map(|directive| &directive.clauses);
    let lists = clauses.filter(|clause| clause.name == "reduction").filter_map(|clause| clause.argument.as_deref());
    let pairs = lists
        .filter_map(|list| list.split_once(':'))
        .flat_map(|(operator, list)| list.split(',').map(move |name| (operator.trim(), name.trim())));
    let is_other = |name: &str| {
        let mut named = construct.variables.iter().filter(|variable| variable.name == name);
        named.any(|variable| variable.shape == Shape::Other)
    };
    pairs.filter(|(_, name)| is_other(name)).collect()
}

/// Whether a loop reads a scalar and never writes it: a private copy would have no value.
fn is_only_read(construct: &Construct, of: &Loop, name: &str) -> bool {
    let variables = &construct.variables;
    let is_it = |id: VarId| variables[id.0].name == name;
    let known = variables.iter().filter(|variable| variable.name == name);
    let is_scalar = known.clone().count() > 0 && known.clone().all(|variable| variable.shape == Shape::Scalar);
    let mut written = is_it(of.variable) || !is_scalar;
    walk::accesses(&of.body, &mut |access| written |= access.write && is_it(access.variable));
    walk::loops(&of.body, &mut |inner| written |= is_it(inner.variable));
    known.count() > 0 && !written
}

fn contains(outer: &Planned<'_>, inner: &Planned<'_>) -> bool {
    outer.span.start < inner.span.start && inner.span.end <= outer.span.end
}

/// Returns gang, worker and vector as 1, 2 and 3.
fn level(clause: &str) -> Option<usize> {
    ["gang", "worker", "vector"].iter().position(|level| *level == clause).map(|at| at + 1)
}

/// Whether the levels in the source suit `parallel`: each parallel loop has some, and inner ones finer ones.
fn levels_fit(nest: &Nest<'_>) -> bool {
    let of = |planned: &Planned<'_>| -> Vec<usize> {
        let clauses = planned.of.directive.iter().flat_map(|directive| &directive.clauses);
        clauses.filter_map(|clause| level(&clause.name)).collect()
    };
    let parallel: Vec<&Planned<'_>> =
        nest.loops.iter().filter(|one| one.parallel.is_some() && !one.collapsed).collect();
    parallel.iter().all(|one| {
        let own = of(one);
        let inner = parallel.iter().filter(|other| contains(one, other)).flat_map(|other| of(other));
        !own.is_empty() && inner.into_iter().all(|finer| own.iter().all(|level| *level < finer))
    })
}

/// Returns the level of a loop in a nest of two without levels in the source: a row for each gang, its elements for the lanes. GCC gives the
/// inner loop workers too, which wait for each other at each row; if an element takes a loop, more threads are worth it.
fn own_level(construct: &Construct, nest: &Nest<'_>, at: usize) -> Option<&'static str> {
    let is_counted = |one: &&Planned<'_>| one.parallel.is_some() && !one.collapsed;
    let parallel: Vec<&Planned<'_>> = nest.loops.iter().filter(is_counted).collect();
    let (outer, inner) = parallel.split_first()?;
    let mut clauses = nest.loops.iter().flat_map(|one| &one.of.directive).flat_map(|directive| &directive.clauses);
    let is_plain = |one: &&Planned<'_>| {
        let reductions = one.parallel.iter().any(|parallel| !parallel.scalars.reductions.is_empty());
        let mut has_loops = false;
        walk::statements(&one.of.body, &mut |statement| {
            has_loops |= matches!(statement.kind, Kind::Loop(_) | Kind::Repeat { .. });
        });
        !reductions && !has_loops && inner.iter().all(|other| !contains(one, other))
    };
    let mut has_level = false;
    walk::effects(&outer.of.body, &mut |effect| {
        has_level |= effect.calls.iter().any(|call| call.kind == CallKind::Level);
    });
    let fits = !inner.is_empty()
        && inner.iter().all(is_plain)
        && outer.collapse == 1
        && inner.iter().all(|one| one.collapse == 1)
        && !clauses.any(|clause| level(&clause.name).is_some() || clause.name == "tile")
        && SIZES.iter().all(|size| construct.directive.clause(size).is_none())
        && !has_few_iterations(outer.of)
        && !has_level;
    fits.then_some(if at == 0 { " gang" } else { " vector" })
}

//! Decides for each loop whether its iterations may run in any order.

mod dependence;
mod references;
mod scalars;

pub use scalars::Scalars;
pub(crate) use scalars::{definitely_written, exposed};

use crate::ir::{CallKind, Construct, Element, Kind, Loop, Obstacle, Shape, Statement, Storage, VarId};
use crate::poly::Poly;
use crate::walk;
use dependence::{Tested, independent};
use references::{Reference, References};
use std::collections::{BTreeMap, BTreeSet};

/// Pairs of ranges that are compared before a nest.
const COMPARISONS_MAX: usize = 32;

/// The rules that the analysis may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Whether loops without `independent` are tried; not in C++.
    pub prove: bool,
    /// Whether an update that no clause names may become a reduction.
    pub implicit_reductions: bool,
    /// Whether pointers are promised not to overlap.
    pub no_alias: bool,
}

/// A loop that may run in parallel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parallel {
    /// Whether `independent` asserts it, without a proof.
    pub promised: bool,
    /// Its scalars.
    pub scalars: Scalars,
    /// Reductions that no clause names.
    pub recognised: BTreeSet<VarId>,
    /// Pairs of pointers whose ranges must not overlap.
    pub overlaps: BTreeSet<(VarId, VarId)>,
}

/// Variables that clauses of a loop name.
struct Named {
    private: BTreeSet<VarId>,
    reductions: BTreeMap<VarId, String>,
}

impl Named {
    fn of(construct: &Construct, of: &Loop) -> Self {
        let mut new = Self { private: of.private.clone(), reductions: BTreeMap::new() };
        let find = |name: &str| {
            let found = construct.variables.iter().enumerate().filter(|(_, variable)| variable.name == name.trim());
            found.map(|(at, _)| VarId(at)).collect::<Vec<_>>()
        };
        let clauses = of.directive.iter().flat_map(|directive| &directive.clauses);
        for clause in clauses.filter(|clause| clause.name == "reduction") {
            let argument = clause.argument.as_deref().unwrap_or("");
            let (operator, list) = argument.split_once(':').unwrap_or(("", argument));
            for name in list.split(',') {
                new.reductions.extend(find(name).into_iter().map(|id| (id, operator.trim().to_owned())));
            }
        }
        new
    }
}

/// Decides whether a loop's iterations may run in any order; else returns the obstacle. `promised` if an outer loop's `collapse` asserts it;
/// `around` are the loops around it in the construct.
pub fn judge(
    construct: &Construct,
    of: &Loop,
    rules: Rules,
    promised: bool,
    around: &[&Loop],
) -> Result<Parallel, Obstacle> {
    let refuse =
        |reason: String| Err(Obstacle { span: of.text.body.clone(), reason, remedy: None, promised_away: false });
    let directive = of.directive.as_ref();
    let has = |name: &str| directive.is_some_and(|directive| directive.clause(name).is_some());
    if has("seq") {
        return refuse("loop seq".into());
    }
    let promised = promised || has("independent");
    if !promised && !rules.prove {
        return refuse("a loop without independent in C++ stays as it is".into());
    }
    if let Some(obstacle) = obstacle(&of.body, promised) {
        return Err(obstacle);
    }
    let named = Named::of(construct, of);
    let scalars = Scalars::of(construct, of, &named.private, &named.reductions);
    if let Some(carried) = scalars.carried {
        return refuse(carries(construct, carried));
    }
    if let Some(variable) = stored_whole(construct, of, &named) {
        let name = &construct.variables[variable.0].name;
        return refuse(format!("each iteration stores to {name}, a reference, a structure or an unknown variable"));
    }
    let recognised: BTreeSet<VarId> =
        scalars.reductions.keys().copied().filter(|variable| !named.reductions.contains_key(variable)).collect();
    if let Some(variable) = recognised.first().filter(|_| !rules.implicit_reductions) {
        return refuse(carries(construct, *variable));
    }
    let mut new = Parallel { promised, scalars, recognised, overlaps: BTreeSet::new() };
    if promised {
        return Ok(new);
    }
    let mut references = References::of(construct, of);
    references.all.retain(|reference| !is_own(construct, of, reference, &named.private));
    let tested = tested(of, around);
    for (at, first) in references.all.iter().enumerate() {
        for second in &references.all[at..] {
            if !first.write && !second.write {
                continue;
            }
            if first.variable != second.variable {
                match relation(construct, rules, first.variable, second.variable) {
                    Relation::Apart => {}
                    Relation::Unknown => {
                        return refuse(format!(
                            "{} and {} may overlap",
                            construct.variables[first.variable.0].name, construct.variables[second.variable.0].name
                        ));
                    }
                    Relation::Comparable => {
                        new.overlaps.insert((first.variable.min(second.variable), first.variable.max(second.variable)));
                    }
                }
                continue;
            }
            let either = independent(construct, &tested, &references, first, second)
                || independent(construct, &tested, &references, second, first);
            if !either {
                return refuse(carries(construct, first.variable));
            }
        }
    }
    Ok(new)
}

fn tested(of: &Loop, around: &[&Loop]) -> Tested {
    let facts = around.iter().filter_map(|outer| references::bounds(outer)).filter_map(|(low, high)| high.minus(&low));
    Tested { variable: of.variable, step: of.step, bounds: references::bounds(of), facts: facts.collect() }
}

/// The range of elements that a pointer's accesses stay in, from one subscript to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// The pointer.
    pub pointer: VarId,
    /// The least subscript.
    pub first: Poly,
    /// The greatest one.
    pub last: Poly,
}

/// Returns ranges of which each pair must not overlap, so that accesses of different pointers never conflict; `None` if they are not known.
pub(crate) fn extents(
    construct: &Construct,
    of: &Loop,
    around: &[&Loop],
    overlaps: &BTreeSet<(VarId, VarId)>,
) -> Option<BTreeSet<(Extent, Extent)>> {
    let references = References::of(construct, of);
    let tested = tested(of, around);
    let mut found = BTreeSet::new();
    for (first, second) in overlaps {
        for one in references.all.iter().filter(|one| one.variable == *first) {
            for other in references.all.iter().filter(|other| other.variable == *second && (one.write || other.write)) {
                let extent = |reference: &Reference| {
                    let (first, last) = dependence::extent(construct, &tested, &references, reference)?;
                    Some(Extent { pointer: reference.variable, first, last })
                };
                found.insert((extent(one)?, extent(other)?));
            }
        }
    }
    (found.len() <= COMPARISONS_MAX).then_some(found)
}

fn carries(construct: &Construct, variable: VarId) -> String {
    format!("loop carried dependence of {} prevents parallelization", construct.variables[variable.0].name)
}

/// The first statement that no loop with iterations in any order may have.
fn obstacle(list: &[Statement], promised: bool) -> Option<Obstacle> {
    let mut found = None;
    walk::statements(list, &mut |statement| {
        if found.is_some() {
            return;
        }
        match &statement.kind {
            Kind::Obstacle { obstacle, .. } if !(promised && obstacle.promised_away) => found = Some(obstacle.clone()),
            Kind::Jump { innermost: false } if !promised => {
                found = Some(Obstacle {
                    span: statement.span.clone(),
                    reason: "cycle of another loop than the innermost one".into(),
                    remedy: None,
                    promised_away: true,
                });
            }
            Kind::Effect(effect) if !promised => {
                if let Some(call) = effect.calls.iter().find(|call| call.kind != CallKind::Pure) {
                    found = Some(Obstacle {
                        span: call.span.clone(),
                        reason: format!("a call of {} prevents parallelization", call.name),
                        remedy: None,
                        promised_away: true,
                    });
                }
            }
            _ => {}
        }
    });
    found
}

/// Returns a non-scalar that all iterations store to as a whole, that is neither local to an iteration nor named in a clause.
fn stored_whole(construct: &Construct, of: &Loop, named: &Named) -> Option<VarId> {
    let mut found = None;
    walk::accesses(&of.body, &mut |access| {
        let id = access.variable;
        let shared = construct.variables[id.0].stored_whole && named_outside(construct, of, id);
        if access.write && shared && !named.private.contains(&id) && !named.reductions.contains_key(&id) {
            found.get_or_insert(id);
        }
    });
    found
}

/// Whether anything outside a loop's body names a variable, or something outside the construct may.
fn named_outside(construct: &Construct, of: &Loop, id: VarId) -> bool {
    let (mut all, mut inside) = (0usize, 0usize);
    walk::accesses(&construct.body, &mut |access| all += usize::from(access.variable == id));
    walk::accesses(&of.body, &mut |access| inside += usize::from(access.variable == id));
    construct.variables[id.0].storage != Storage::Inside || all != inside
}

/// Whether each iteration has the array for itself.
fn is_own(construct: &Construct, of: &Loop, reference: &Reference, private: &BTreeSet<VarId>) -> bool {
    let variable = &construct.variables[reference.variable.0];
    if private.contains(&reference.variable) {
        return true;
    }
    variable.shape == Shape::Array && !named_outside(construct, of, reference.variable)
}

enum Relation {
    /// They never overlap.
    Apart,
    /// Their ranges can be compared when the program runs.
    Comparable,
    /// They may overlap.
    Unknown,
}

fn relation(construct: &Construct, rules: Rules, first: VarId, second: VarId) -> Relation {
    let (first, second) = (&construct.variables[first.0], &construct.variables[second.0]);
    let is_restrict = |shape: Shape| shape == Shape::Pointer { restrict: true };
    let arithmetic = |element: Element| !matches!(element, Element::Other | Element::Integer { bits: 8, .. });
    let pointer = |shape: Shape| matches!(shape, Shape::Pointer { .. } | Shape::Array);
    if first.shape == Shape::Array && second.shape == Shape::Array || rules.no_alias {
        return Relation::Apart;
    }
    if is_restrict(first.shape) || is_restrict(second.shape) {
        return Relation::Apart;
    }
    if arithmetic(first.element) && arithmetic(second.element) && kind(first.element) != kind(second.element) {
        return Relation::Apart;
    }
    if pointer(first.shape) && pointer(second.shape) { Relation::Comparable } else { Relation::Unknown }
}

/// Returns the class of a type: objects of other classes are never accessed by it. Signed and unsigned are one class.
fn kind(element: Element) -> (u8, u32) {
    match element {
        Element::Integer { bits, .. } => (0, bits),
        Element::Real(bits) => (1, bits),
        Element::Complex(bits) => (2, bits),
        Element::Logical => (3, 0),
        Element::Other => (4, 0),
    }
}

/// Whether a loop reads or writes an array with neighbouring elements in neighbouring iterations.
pub(crate) fn is_contiguous(construct: &Construct, of: &Loop) -> bool {
    let variable = Poly::variable(of.variable);
    References::of(construct, of).all.iter().any(|reference| {
        let last = reference.subscripts.last().and_then(Option::as_ref);
        last.and_then(|poly| poly.split(of.variable)).is_some_and(|(factor, _)| factor.as_constant() == Some(1))
            || last == Some(&variable)
    })
}

/// Returns the number of accesses to adjacent elements for adjacent values of a loop's variable, less those to distant ones.
pub(crate) fn contiguity(body: &[Statement], variable: VarId) -> i64 {
    let mut score = 0;
    walk::accesses(body, &mut |access| {
        let Some((last, others)) = access.subscripts.split_last() else { return };
        let factor = last.as_ref().and_then(|last| Some(last.split(variable)?.0));
        score += match factor {
            Some(factor) if factor == Poly::default() => {
                -i64::from(others.iter().flatten().any(|other| other.variables().contains(&variable)))
            }
            Some(factor) if factor.as_constant().is_some_and(|factor| factor.abs() == 1) => 1,
            Some(_) => -1,
            None => 0,
        };
    });
    score
}

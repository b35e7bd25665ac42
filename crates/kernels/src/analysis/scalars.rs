//! Classifies a loop's scalars: private, reduction, or carried from one iteration to the next.

use crate::ir::{Access, Construct, Kind, Loop, Shape, Statement, Storage, VarId};
use crate::walk;
use std::collections::{BTreeMap, BTreeSet};

/// A loop's treatment of the scalars that its body writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scalars {
    /// Written in each iteration before it is read.
    pub private: BTreeSet<VarId>,
    /// Updated by one operator only.
    pub reductions: BTreeMap<VarId, String>,
    /// The first scalar that carries a value from one iteration to the next.
    pub carried: Option<VarId>,
    /// All others that the loop reads.
    pub read: BTreeSet<VarId>,
}

impl Scalars {
    /// Classifies the scalars of a loop. `known` are those of its clauses: private ones, and reductions with their operators.
    pub(super) fn of(
        construct: &Construct,
        of: &Loop,
        private: &BTreeSet<VarId>,
        reductions: &BTreeMap<VarId, String>,
    ) -> Self {
        let is_scalar = |variable: VarId| construct.variables[variable.0].shape == Shape::Scalar;
        let mut new = Self::default();
        let (mut written, mut all) = (BTreeSet::new(), BTreeSet::new());
        walk::accesses(&of.body, &mut |access: &Access| {
            if is_scalar(access.variable) {
                all.insert(access.variable);
                if access.write {
                    written.insert(access.variable);
                }
            }
        });
        let (mut inner, mut of_inner) = (BTreeSet::new(), BTreeSet::<VarId>::new());
        walk::loops(&of.body, &mut |one| {
            inner.insert(one.variable);
            of_inner.extend(&one.private);
        });
        // Private variables of surrounding loops are shared by the iterations like others.
        let is_own = |id: VarId| match construct.variables[id.0].private_of {
            Some(_) => of_inner.contains(&id),
            None => construct.variables[id.0].storage == Storage::Inside && declared_in(construct, of, id),
        };
        written.extend(&inner);
        let updates = updates(&of.body);
        let exposed = exposed(construct, &of.body);
        for variable in &written {
            if *variable == of.variable || private.contains(variable) {
                new.private.insert(*variable);
            } else if is_own(*variable) {
                // By its declaration, or by an inner loop's directive.
            } else if let Some(operator) = reductions.get(variable) {
                new.reductions.insert(*variable, operator.clone());
            } else if !exposed.contains(variable) {
                new.private.insert(*variable);
            } else if let Some(Some(operator)) = updates.get(variable) {
                new.reductions.insert(*variable, operator.clone());
            } else if new.carried.is_none() {
                new.carried = Some(*variable);
            }
        }
        new.private.remove(&of.variable);
        all.extend(of.header.iter().map(|access| access.variable).filter(|variable| is_scalar(*variable)));
        new.read = all.into_iter().filter(|variable| !written.contains(variable) && *variable != of.variable).collect();
        new
    }
}

/// Whether a variable's declaration is inside a loop's body: an effect there writes it first, or nothing outside names it.
fn declared_in(construct: &Construct, of: &Loop, variable: VarId) -> bool {
    let mut outside = false;
    let (mut in_header, mut count, mut inner) = (false, 0usize, 0usize);
    walk::accesses(&construct.body, &mut |access| {
        if access.variable == variable {
            count += 1;
            in_header |= of.header.contains(access);
        }
    });
    walk::loops(&construct.body, &mut |one| {
        outside |= one.variable == variable && !one.declares && !contains(of, one);
    });
    walk::accesses(&of.body, &mut |access| inner += usize::from(access.variable == variable));
    !outside && !in_header && count == inner
}

fn contains(of: &Loop, other: &Loop) -> bool {
    of.text.body.start <= other.text.body.start && other.text.body.end <= of.text.body.end
}

/// Returns the operator by which all accesses of a scalar update it; `None` for scalars with other accesses too.
fn updates(list: &[Statement]) -> BTreeMap<VarId, Option<String>> {
    let mut found: BTreeMap<VarId, Option<String>> = BTreeMap::new();
    let mut inside: BTreeMap<VarId, usize> = BTreeMap::new();
    walk::effects(list, &mut |effect| {
        if let Some(reduction) = &effect.reduction {
            let own = effect.accesses.iter().filter(|access| access.variable == reduction.variable).count();
            *inside.entry(reduction.variable).or_default() += own;
            let entry = found.entry(reduction.variable).or_insert_with(|| Some(reduction.operator.clone()));
            if entry.as_ref() != Some(&reduction.operator) {
                *entry = None;
            }
        }
    });
    let mut all: BTreeMap<VarId, usize> = BTreeMap::new();
    walk::accesses(list, &mut |access| *all.entry(access.variable).or_default() += 1);
    walk::loops(list, &mut |inner| {
        found.insert(inner.variable, None);
    });
    for (variable, operator) in &mut found {
        if inside.get(variable) != all.get(variable) {
            *operator = None;
        }
    }
    found
}

/// Returns scalars that may be read before they are written.
pub(crate) fn exposed(construct: &Construct, list: &[Statement]) -> BTreeSet<VarId> {
    let mut walk = Assigned { construct, exposed: BTreeSet::new() };
    walk.statements(list, &mut BTreeSet::new());
    walk.exposed
}

/// Returns scalars that are written on each path, including those that end an iteration of a surrounding loop.
pub(crate) fn definitely_written(construct: &Construct, list: &[Statement]) -> BTreeSet<VarId> {
    let mut all = Assigned { construct, exposed: BTreeSet::new() };
    let mut assigned = BTreeSet::new();
    let jump = list.iter().position(walk::jumps_out).unwrap_or(list.len());
    all.statements(&list[..jump], &mut assigned);
    assigned
}

struct Assigned<'a> {
    construct: &'a Construct,
    exposed: BTreeSet<VarId>,
}

impl Assigned<'_> {
    fn accesses(&mut self, list: &[Access], assigned: &mut BTreeSet<VarId>) {
        for access in list {
            if self.construct.variables[access.variable.0].shape != Shape::Scalar {
                continue;
            }
            if access.write {
                assigned.insert(access.variable);
            } else if !assigned.contains(&access.variable) {
                self.exposed.insert(access.variable);
            }
        }
    }

    fn statements(&mut self, list: &[Statement], assigned: &mut BTreeSet<VarId>) {
        for statement in list {
            match &statement.kind {
                Kind::Loop(inner) => {
                    self.accesses(&inner.header, assigned);
                    assigned.insert(inner.variable);
                    self.statements(&inner.body, &mut assigned.clone());
                }
                Kind::Repeat { accesses, body, .. } => {
                    let mut within = assigned.clone();
                    self.accesses(accesses, &mut within);
                    self.statements(body, &mut within);
                }
                Kind::Branch { condition, arms } => {
                    self.accesses(condition, assigned);
                    let ends: Vec<BTreeSet<VarId>> = arms
                        .iter()
                        .map(|arm| {
                            let mut end = assigned.clone();
                            self.statements(arm, &mut end);
                            end
                        })
                        .collect();
                    if let Some(common) = ends.into_iter().reduce(|a, b| a.intersection(&b).copied().collect()) {
                        *assigned = common;
                    }
                }
                Kind::Block(body) => self.statements(body, assigned),
                Kind::Effect(effect) => self.accesses(&effect.accesses, assigned),
                Kind::Jump { .. } => {}
                Kind::Obstacle { accesses, .. } => {
                    // Reads and writes in an order that is not known.
                    let (writes, reads): (Vec<Access>, Vec<Access>) =
                        accesses.iter().cloned().partition(|access| access.write);
                    self.accesses(&reads, assigned);
                    self.accesses(&writes, &mut assigned.clone());
                }
            }
        }
    }
}

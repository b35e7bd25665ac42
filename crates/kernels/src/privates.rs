//! Creates variables for those that `loop` directives make private.
//!
//! A `private` clause (OpenACC 3.3, 2.9.10) makes copies, as a directive does of the variables of its loops. The source's variable
//! of the same name is neither read nor changed. In the intermediate representation the copy is another variable
//! ([`Variable::private_of`]), so that later passes distinguish the two.

use crate::ir::{Access, Construct, Kind, Loop, Statement, Storage, VarId, Variable};
use crate::plan::collapse;
use crate::poly::Poly;
use crate::walk;
use std::collections::{BTreeMap, BTreeSet};

/// From variables to their copies.
type Copies = BTreeMap<VarId, VarId>;

/// The source's language, for the rules of privatization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// C and C++: the variables of the directive's loops.
    C,
    /// Fortran: also those of all loops inside without a directive of their own.
    Fortran,
}

/// Separates private variables from those of the source in all loops of a construct.
pub(crate) fn separate(construct: &mut Construct, language: Language) {
    let Construct { variables, body, .. } = construct;
    statements(body, language, variables);
}

fn statements(list: &mut [Statement], language: Language, variables: &mut Vec<Variable>) {
    for statement in list {
        match &mut statement.kind {
            Kind::Loop(of) => {
                if of.directive.is_some() {
                    copy(of, language, variables);
                }
                statements(&mut of.body, language, variables);
            }
            Kind::Repeat { body, .. } | Kind::Block(body) => statements(body, language, variables),
            Kind::Branch { arms, .. } => arms.iter_mut().for_each(|arm| statements(arm, language, variables)),
            Kind::Effect(_) | Kind::Obstacle { .. } | Kind::Jump { .. } => {}
        }
    }
}

fn copy(of: &mut Loop, language: Language, variables: &mut Vec<Variable>) {
    let mut copies = Copies::new();
    for id in private(of, language, variables) {
        let copy = Variable {
            storage: Storage::Inside,
            live_after: false,
            mapped: false,
            private_of: Some(id),
            ..variables[id.0].clone()
        };
        copies.insert(id, VarId(variables.len()));
        variables.push(copy);
    }
    of.variable = renamed(of.variable, &copies);
    of.body.iter_mut().for_each(|statement| rename(statement, &copies));
    of.private.extend(copies.values());
}

/// Returns variables that a loop's directive makes private.
fn private(of: &Loop, language: Language, variables: &[Variable]) -> BTreeSet<VarId> {
    let mut written = BTreeSet::from([of.variable]);
    walk::accesses(&of.body, &mut |access| written.extend(access.write.then_some(access.variable)));
    walk::loops(&of.body, &mut |inner| written.extend((!inner.declares).then_some(inner.variable)));
    let clauses = of.directive.iter().flat_map(|directive| &directive.clauses);
    let names: BTreeSet<&str> =
        clauses.filter(|clause| clause.name == "private").flat_map(|clause| clause.list()).map(str::trim).collect();
    // A copy of a variable that is only read would have no value: the source's is read.
    let mut found: BTreeSet<VarId> =
        written.into_iter().filter(|id| names.contains(variables[id.0].name.as_str())).collect();
    let mut next = Some(of);
    for _ in 0..collapse(of) {
        let Some(inner) = next else { break };
        found.extend((!inner.declares).then_some(inner.variable));
        next = only_loop(&inner.body);
    }
    if language == Language::Fortran {
        undirected(&of.body, &mut found);
    }
    found
}

/// Collects variables of loops without a directive.
fn undirected(list: &[Statement], found: &mut BTreeSet<VarId>) {
    for statement in list {
        match &statement.kind {
            Kind::Loop(of) if of.directive.is_none() => {
                found.insert(of.variable);
                undirected(&of.body, found);
            }
            Kind::Repeat { body, .. } | Kind::Block(body) => undirected(body, found),
            Kind::Branch { arms, .. } => arms.iter().for_each(|arm| undirected(arm, found)),
            Kind::Loop(_) | Kind::Effect(_) | Kind::Obstacle { .. } | Kind::Jump { .. } => {}
        }
    }
}

/// The loop that is all a body has.
fn only_loop(body: &[Statement]) -> Option<&Loop> {
    match body {
        [one] => match &one.kind {
            Kind::Loop(of) => Some(of),
            Kind::Block(body) => only_loop(body),
            _ => None,
        },
        _ => None,
    }
}

fn rename(statement: &mut Statement, copies: &Copies) {
    let all = |list: &mut [Statement]| list.iter_mut().for_each(|one| rename(one, copies));
    match &mut statement.kind {
        Kind::Loop(of) => {
            of.variable = renamed(of.variable, copies);
            for poly in [&mut of.lower, &mut of.last].into_iter().flatten() {
                rename_in(poly, copies);
            }
            rename_accesses(&mut of.header, copies);
            all(&mut of.body);
        }
        Kind::Repeat { accesses, body, .. } => {
            rename_accesses(accesses, copies);
            all(body);
        }
        Kind::Branch { condition, arms } => {
            rename_accesses(condition, copies);
            arms.iter_mut().for_each(|arm| all(arm));
        }
        Kind::Block(body) => all(body),
        Kind::Effect(effect) => {
            rename_accesses(&mut effect.accesses, copies);
            if let Some((variable, value)) = &mut effect.value {
                *variable = renamed(*variable, copies);
                rename_in(value, copies);
            }
            if let Some(reduction) = &mut effect.reduction {
                reduction.variable = renamed(reduction.variable, copies);
            }
        }
        Kind::Obstacle { accesses, .. } => rename_accesses(accesses, copies),
        Kind::Jump { .. } => {}
    }
}

fn rename_accesses(list: &mut [Access], copies: &Copies) {
    for access in list {
        access.variable = renamed(access.variable, copies);
        access.subscripts.iter_mut().flatten().for_each(|subscript| rename_in(subscript, copies));
    }
}

fn rename_in(poly: &mut Poly, copies: &Copies) {
    *poly = poly.renamed(|variable| renamed(variable, copies));
}

fn renamed(variable: VarId, copies: &Copies) -> VarId {
    copies.get(&variable).copied().unwrap_or(variable)
}

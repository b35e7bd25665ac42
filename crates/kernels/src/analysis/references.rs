//! Accesses of arrays in a loop's body, with subscripts over the loops' variables and invariants.

use crate::ir::{Access, Construct, Kind, Loop, Shape, Statement, VarId};
use crate::poly::Poly;
use crate::walk;
use std::collections::BTreeMap;

/// An access in the body of the loop under test.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) variable: VarId,
    pub(super) write: bool,
    /// Over the loop's own variable, symbols of inner loops and invariants; `None` if unknown.
    pub(super) subscripts: Vec<Option<Poly>>,
    /// Inner loops around it, from the outside inwards, as indices into [`References::inner`].
    pub(super) loops: Vec<usize>,
}

/// A loop inside the one under test, whose variable is a symbol of its own.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) symbol: VarId,
    /// Least and greatest value, if they are polynomials.
    pub(super) bounds: Option<(Poly, Poly)>,
}

/// All references of a loop's body.
#[derive(Debug)]
pub(super) struct References {
    pub(super) all: Vec<Reference>,
    pub(super) inner: Vec<Range>,
    /// The least identifier that no variable and no inner loop has.
    pub(super) next: usize,
}

/// The value of a scalar at a place: a polynomial, or unknown.
type Values = BTreeMap<VarId, Option<Poly>>;

impl References {
    pub(super) fn of(construct: &Construct, of: &Loop) -> Self {
        let mut new = Self { all: Vec::new(), inner: Vec::new(), next: construct.variables.len() };
        let mut values = Values::new();
        // A variable that the body writes has another value in each iteration.
        forget(&of.body, &mut values);
        values.remove(&of.variable);
        new.statements(construct, &of.body, &mut values, &mut Vec::new());
        new
    }

    fn statements(&mut self, construct: &Construct, list: &[Statement], values: &mut Values, loops: &mut Vec<usize>) {
        for statement in list {
            match &statement.kind {
                Kind::Loop(inner) => {
                    self.accesses(construct, &inner.header, values, loops);
                    let bounds = range(inner, values);
                    forget(&inner.body, values);
                    let symbol = VarId(self.next);
                    self.next += 1;
                    self.inner.push(Range { symbol, bounds });
                    values.insert(inner.variable, Some(Poly::variable(symbol)));
                    loops.push(self.inner.len() - 1);
                    self.statements(construct, &inner.body, values, loops);
                    loops.pop();
                    forget(&inner.body, values);
                    values.insert(inner.variable, None);
                }
                Kind::Repeat { accesses, body, .. } => {
                    forget(body, values);
                    for access in accesses.iter().filter(|access| access.write) {
                        values.insert(access.variable, None);
                    }
                    self.accesses(construct, accesses, values, loops);
                    self.statements(construct, body, values, loops);
                    forget(body, values);
                }
                Kind::Branch { condition, arms } => {
                    self.accesses(construct, condition, values, loops);
                    for arm in arms {
                        self.statements(construct, arm, &mut values.clone(), loops);
                    }
                    arms.iter().for_each(|arm| forget(arm, values));
                }
                Kind::Block(body) => self.statements(construct, body, values, loops),
                Kind::Effect(effect) => {
                    self.accesses(construct, &effect.accesses, values, loops);
                    let value =
                        effect.value.as_ref().and_then(|(variable, value)| Some((*variable, worth(value, values)?)));
                    for access in effect.accesses.iter().filter(|access| access.write) {
                        values.insert(access.variable, None);
                    }
                    if let Some((variable, value)) = value {
                        values.insert(variable, Some(value));
                    }
                }
                Kind::Jump { .. } => {}
                Kind::Obstacle { accesses, .. } => {
                    self.accesses(construct, accesses, values, loops);
                    for access in accesses.iter().filter(|access| access.write) {
                        values.insert(access.variable, None);
                    }
                }
            }
        }
    }

    fn accesses(&mut self, construct: &Construct, list: &[Access], values: &Values, loops: &[usize]) {
        for access in list.iter().filter(|access| construct.variables[access.variable.0].shape != Shape::Scalar) {
            let subscripts =
                access.subscripts.iter().map(|subscript| subscript.as_ref().and_then(|poly| worth(poly, values)));
            self.all.push(Reference {
                variable: access.variable,
                write: access.write,
                subscripts: subscripts.collect(),
                loops: loops.to_vec(),
            });
        }
    }
}

/// Least and greatest value of a loop's variable.
pub(super) fn bounds(of: &Loop) -> Option<(Poly, Poly)> {
    range(of, &Values::new())
}

fn range(of: &Loop, values: &Values) -> Option<(Poly, Poly)> {
    let (first, last) = (worth(of.lower.as_ref()?, values)?, worth(of.last.as_ref()?, values)?);
    Some(if of.step > 0 { (first, last) } else { (last, first) })
}

/// Returns a polynomial with the values of its variables.
fn worth(poly: &Poly, values: &Values) -> Option<Poly> {
    let mut new = poly.clone();
    for variable in poly.variables() {
        match values.get(&variable) {
            Some(Some(value)) => new = new.with(variable, value)?,
            Some(None) => return None,
            None => {}
        }
    }
    Some(new)
}

/// All that statements write is unknown.
fn forget(list: &[Statement], values: &mut Values) {
    walk::accesses(list, &mut |access| {
        if access.write {
            values.insert(access.variable, None);
        }
    });
    walk::loops(list, &mut |inner| {
        values.insert(inner.variable, None);
    });
}

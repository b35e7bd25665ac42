//! Loops inside of nests.

use super::loops::{collapse as collapse_of, has_fewer_iterations, has_work};
use super::{Frame, Note, Planned, Planner};
use crate::analysis::{Parallel, contiguity, definitely_written, is_contiguous, judge};
use crate::ir::{Access, Construct, Element, Kind, Loop, Shape, Statement, VarId};
use crate::walk;

impl<'a> Planner<'a> {
    /// Plans loops in a nest's body. `collapse` loops more belong to the one around.
    pub(super) fn inner(
        &mut self,
        list: &'a [Statement],
        (around, frames): (&[&'a Loop], &[Frame<'a>]),
        collapse: usize,
        loops: &mut Vec<Planned<'a>>,
    ) {
        for (at, statement) in list.iter().enumerate() {
            let frames = [frames, &[Frame::Before(&list[at + 1..])]].concat();
            match &statement.kind {
                Kind::Loop(of) => {
                    let promised = collapse > 0;
                    let judged = judge(self.construct, of, self.rules, promised, around);
                    let wanted = of.directive.is_some() || promised || has_work(of);
                    let parallel = judged.ok().filter(|parallel| wanted && !self.is_read_after(of, parallel, &frames));
                    if parallel.is_some() || of.directive.is_some() {
                        if let Some(parallel) = &parallel {
                            self.notes.push(Note {
                                at: statement.span.start,
                                text: "loop is parallelizable".into(),
                                refused: false,
                            });
                            for variable in &parallel.recognised {
                                let name = &self.construct.variables[variable.0].name;
                                self.notes.push(Note {
                                    at: statement.span.start,
                                    text: format!("reduction of {name} recognised"),
                                    refused: false,
                                });
                            }
                        }
                        let (span, collapse) = (statement.span.clone(), collapse_of(of));
                        loops.push(Planned { of, span, parallel, collapsed: promised, collapse });
                    }
                    let inner: Vec<&Loop> = around.iter().copied().chain([&**of]).collect();
                    let left = if promised { collapse - 1 } else { collapse_of(of) - 1 };
                    self.inner(&of.body, (&inner, &[&*frames, &[Frame::Loop(of)]].concat()), left, loops);
                }
                Kind::Repeat { body, .. } => {
                    self.inner(body, (around, &[&*frames, &[Frame::Repeat(body)]].concat()), 0, loops);
                }
                Kind::Block(body) => self.inner(body, (around, &frames), collapse, loops),
                Kind::Branch { arms, .. } => arms.iter().for_each(|arm| self.inner(arm, (around, &frames), 0, loops)),
                Kind::Effect(_) | Kind::Obstacle { .. } | Kind::Jump { .. } => {}
            }
        }
    }

    /// Whether the rest of the nest reads what an inner loop leaves in its variable or in its private scalars.
    fn is_read_after(&self, of: &Loop, parallel: &Parallel, frames: &[Frame<'a>]) -> bool {
        let own = Some(of.variable).filter(|_| !of.declares);
        let mut left = parallel.scalars.private.iter().copied().chain(own);
        left.any(|variable| self.is_read(variable, frames) == Some(true))
    }

    /// Whether the last iteration of a nest can store a private scalar's value for the host: each iteration sets it, and the host knows
    /// which one is the last.
    pub(super) fn can_be_stored(&self, variable: VarId, of: &Loop) -> bool {
        let construct = self.construct;
        let is_scalar = |access: &Access| construct.variables[access.variable.0].shape == Shape::Scalar;
        // An inner loop that runs in parallel needs the scalar for its iterations.
        let mut in_inner = false;
        walk::loops(&of.body, &mut |inner| {
            in_inner |= inner.variable == variable;
            walk::accesses(&inner.body, &mut |access| in_inner |= access.write && access.variable == variable);
        });
        of.text.open_end.is_some()
            && !in_inner
            && collapse_of(of) == 1
            && construct.directive.clause("async").is_none()
            && of.header.iter().all(is_scalar)
            && !self.device.contains(&variable)
            && construct.variables[variable.0].element != Element::Other
            && !of.body.iter().any(walk::jumps_out)
            && definitely_written(construct, &of.body).contains(&variable)
    }

    /// Collapses a nest's two outermost loops if nothing is between them: all lanes of all gangs share the iterations. GCC counts
    /// the iterations of both in 32 bits: there have to be fewer.
    pub(super) fn collapse_perfect(construct: &Construct, loops: &mut [Planned<'_>]) {
        let [outer, inner, rest @ ..] = loops else { return };
        let has_levels = |planned: &Planned<'_>| {
            let clauses = planned.of.directive.iter().flat_map(|directive| &directive.clauses);
            let fixed = ["gang", "worker", "vector", "collapse", "tile"];
            clauses.into_iter().any(|clause| fixed.contains(&clause.name.as_str()))
        };
        let is_scalar = |access: &Access| construct.variables[access.variable.0].shape == Shape::Scalar;
        let is_fixed = |access: &Access| is_scalar(access) && access.variable != outer.of.variable;
        if inner.parallel.is_some()
            && !inner.collapsed
            && rest.iter().all(|one| one.parallel.is_none())
            && is_only(&outer.of.body, inner.of)
            && inner.of.header.iter().all(is_fixed)
            && !has_levels(outer)
            && !has_levels(inner)
            && has_fewer_iterations(outer.of, inner.of)
        {
            outer.collapse = 2;
            inner.collapsed = true;
        }
    }

    /// Splits loops that `tile` asserts to be independent, as the clause itself is omitted.
    pub(super) fn untile(loops: &mut [Planned<'_>]) {
        for at in 0..loops.len() {
            let has_tile = loops[at].of.directive.as_ref().is_some_and(|directive| directive.clause("tile").is_some());
            if has_tile {
                let (span, last) = (loops[at].span.clone(), at + loops[at].collapse);
                loops[at].collapse = 1;
                for inner in loops[at + 1..].iter_mut().take(last - at - 1).filter(|one| one.span.end <= span.end) {
                    inner.collapsed = false;
                }
            }
        }
    }

    /// Makes inner loops without a directive run in order if their lanes would access distant elements. These access no
    /// adjacent elements, unless a parallel loop inside does, or fewer than a surrounding inner loop: `j` in
    /// the product of two matrices, instead of the sum over `k`.
    pub(super) fn keep_contiguous(construct: &Construct, loops: &mut Vec<Planned<'_>>) {
        let inside = |outer: &Planned<'_>, inner: &Planned<'_>| {
            outer.span.start < inner.span.start && inner.span.end <= outer.span.end && outer.parallel.is_some()
        };
        for at in (1..loops.len()).rev() {
            let inner = &loops[at];
            if inner.of.directive.is_some() || inner.collapsed || inner.parallel.is_none() {
                continue;
            }
            let is_better = |outer: &Planned<'_>| {
                let score = |variable| contiguity(&outer.of.body, variable);
                inside(outer, inner) && score(outer.of.variable) > score(inner.of.variable)
            };
            let is_around = loops[at + 1..].iter().any(|other| inside(inner, other) && other.parallel.is_some());
            if loops[1..at].iter().any(is_better) || !is_around && !is_contiguous(construct, inner.of) {
                loops.remove(at);
            }
        }
    }
}

/// Whether a loop is all that a body has.
fn is_only(body: &[Statement], wanted: &Loop) -> bool {
    let [one] = body else { return false };
    match &one.kind {
        Kind::Loop(of) => std::ptr::eq(&raw const **of, wanted),
        Kind::Block(body) => is_only(body, wanted),
        _ => false,
    }
}

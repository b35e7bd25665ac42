//! Loops inside of nests.

use super::{Frame, Note, Planned, Planner, collapse as collapse_of, is_worth_it};
use crate::analysis::{Parallel, judge};
use crate::ir::{Kind, Loop, Statement};

impl<'a> Planner<'a> {
    /// Loops in a nest's body. `collapse` loops more belong to the one around.
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
                    let wanted = of.directive.is_some() || promised || is_worth_it(self.construct, of);
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
                        loops.push(Planned { of, span: statement.span.clone(), parallel, collapsed: promised });
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
                Kind::Effect(_) | Kind::Obstacle { .. } => {}
            }
        }
    }

    /// Whether the rest of the nest reads what an inner loop leaves in its variable or in its private scalars.
    fn is_read_after(&self, of: &Loop, parallel: &Parallel, frames: &[Frame<'a>]) -> bool {
        let own = Some(of.variable).filter(|_| !of.declares);
        let mut left = parallel.scalars.private.iter().copied().chain(own);
        left.any(|variable| self.is_read(variable, frames) == Some(true))
    }
}

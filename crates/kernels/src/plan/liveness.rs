//! Decides which values of scalars are needed after a statement, and where they are stored.

use super::Planner;
use super::frames::Frame;
use crate::analysis;
use crate::clause::has_clause;
use crate::ir::{Loop, Shape, VarId};

impl<'a> Planner<'a> {
    /// Whether a scalar's value may be read after a nest, in the construct or after it.
    pub(super) fn is_live(&self, variable: VarId, around: &[Frame<'a>]) -> bool {
        self.is_read(variable, around).unwrap_or(self.construct.variables[variable.0].live_after)
    }

    /// Whether the statements of frames read a scalar before they write it; `None` if they do neither.
    pub(super) fn is_read(&self, variable: VarId, frames: &[Frame<'a>]) -> Option<bool> {
        for frame in frames.iter().rev() {
            let (statements, always_run) = match frame {
                Frame::Before(after) => (*after, true),
                Frame::Loop(outer) => (&*outer.body, false),
                Frame::Repeat(body) => (*body, false),
            };
            if analysis::exposed(self.construct, statements).contains(&variable) {
                return Some(true);
            }
            if always_run && analysis::definitely_written(self.construct, statements).contains(&variable) {
                return Some(false);
            }
        }
        None
    }

    /// Whether the host may keep what a loop makes private: scalars that only the host sets, and of which no variable of the same name
    /// is on the device. Otherwise GCC would use that one's value for `firstprivate`.
    pub(super) fn has_private_on_host(&self, of: &Loop) -> bool {
        let variables = &self.construct.variables;
        let on_device = |id: VarId| {
            let sets = [&self.device, &self.on_device, &self.private_on_device];
            sets.iter().any(|set| set.contains(&id))
        };
        of.private.iter().all(|id| {
            let mut same = std::iter::successors(Some(*id), |id| variables[id.0].private_of);
            variables[id.0].shape == Shape::Scalar && !same.any(on_device) && !has_clause(self.construct, *id)
        })
    }
}

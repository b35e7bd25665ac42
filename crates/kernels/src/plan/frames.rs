//! What runs around and after a statement, and whether it reads a scalar.

use super::Planner;
use crate::analysis;
use crate::ir::{Loop, Statement, VarId};

/// What is around a statement.
#[derive(Clone, Copy)]
pub(super) enum Frame<'a> {
    /// Statements that follow.
    Before(&'a [Statement]),
    /// A loop, whose next iteration may follow.
    Loop(&'a Loop),
    /// The body of a loop that only runs in order.
    Repeat(&'a [Statement]),
}

/// The loops of frames, from the outside inwards.
pub(super) fn loops<'a>(frames: &[Frame<'a>]) -> Vec<&'a Loop> {
    let of = |frame: &Frame<'a>| match frame {
        Frame::Loop(of) => Some(*of),
        Frame::Before(_) | Frame::Repeat(_) => None,
    };
    frames.iter().filter_map(of).collect()
}

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
}

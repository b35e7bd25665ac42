//! Statements that run around and after a statement.

use crate::ir::{Loop, Statement};

/// The surroundings of a statement.
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

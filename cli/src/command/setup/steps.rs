//! The steps of a setup: each is checked, done if necessary, and printed.

use crate::failure::{Failure, Result};
use crate::output::show;
use std::fmt::Display;

/// Prints a note.
pub(super) fn note(text: impl Display) {
    show(&format!("note       {text}\n"));
}

/// The progress of one command.
pub(super) struct Steps {
    is_dry: bool,
    changes: usize,
}

impl Steps {
    /// Starts with no step done; with `is_dry` nothing is changed.
    pub(super) fn new(is_dry: bool) -> Self {
        Self { is_dry, changes: 0 }
    }

    /// Whether the setup is a dry run.
    pub(super) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Does a step unless `is_done`, and prints which. Returns whether something was changed.
    pub(super) fn step(&mut self, what: impl Display, is_done: bool, act: impl FnOnce() -> Result<()>) -> Result<bool> {
        if is_done {
            show(&format!("is there   {what}\n"));
            return Ok(false);
        }
        self.changes += 1;
        if self.is_dry {
            show(&format!("would do   {what}\n"));
            return Ok(true);
        }
        act().map_err(|failure| {
            Failure::new(format!(
                "stopped at \"{what}\": {failure}. What is listed above stays; enter the same command again after that, and it goes on here"
            ))
        })?;
        show(&format!("done       {what}\n"));
        Ok(true)
    }

    /// Prints a step that was done.
    pub(super) fn did(&mut self, what: impl Display) {
        self.changes += 1;
        show(&format!("done       {what}\n"));
    }

    /// Prints whether anything has changed.
    pub(super) fn end(&self) {
        match (self.is_dry, self.changes) {
            (_, 0) => show("nothing to do: all of it is there\n"),
            (true, _) => show("dry run: nothing was changed\n"),
            (false, _) => {}
        }
    }
}

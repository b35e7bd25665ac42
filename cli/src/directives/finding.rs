//! What a rule finds in a source.

use super::Directive;

/// What GCC does with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Severity {
    /// GCC refuses it: the compiler says so too.
    Refused,
    /// GCC leaves it out without a word, or with one under `-Wall`.
    Ignored,
    /// GCC takes it and computes something else.
    Wrong,
}

/// Something in a source that GCC doesn't do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// The file that a line marker names, if not the source itself.
    pub(crate) file: Option<String>,
    /// Line, from 1.
    pub(crate) line: u32,
    /// What GCC does.
    pub(crate) severity: Severity,
    /// What it is, and what GCC does with it.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) remedy: String,
    /// `accord cc`, `c++` and `fc` do what it says.
    pub(crate) rewritten: bool,
    /// By an option or a module: in included files too.
    pub(crate) everywhere: bool,
}

impl Finding {
    /// A fault of a directive, without a rewrite.
    pub(crate) fn at(directive: &Directive, severity: Severity, message: String, remedy: String) -> Self {
        let Directive { file, line, .. } = directive;
        Self { file: file.clone(), line: *line, severity, message, remedy, rewritten: false, everywhere: false }
    }
}

//! What a rule finds in a source.

use super::Directive;

/// The severity, by what GCC does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Severity {
    /// GCC refuses it: the compiler says so too.
    Refused,
    /// GCC leaves it out without a word, or with one under `-Wall`.
    Ignored,
    /// GCC takes it and computes something else.
    Wrong,
}

/// A part of a source that GCC does not honour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// The file that a line marker names, if not the source itself.
    pub(crate) file: Option<String>,
    /// Line, from 1.
    pub(crate) line: u32,
    /// The severity, by what GCC does.
    pub(crate) severity: Severity,
    /// The fault, and GCC's treatment of it.
    pub(crate) message: String,
    /// The replacement.
    pub(crate) remedy: String,
    /// `accord cc`, `c++` and `fc` do what it says.
    pub(crate) rewritten: bool,
    /// Whether an option or a module applies the remedy: in included files too.
    pub(crate) everywhere: bool,
}

impl Finding {
    /// A fault of a directive, without a rewrite.
    pub(crate) fn at(directive: &Directive, severity: Severity, message: String, remedy: String) -> Self {
        let Directive { file, line, .. } = directive;
        Self { file: file.clone(), line: *line, severity, message, remedy, rewritten: false, everywhere: false }
    }
}

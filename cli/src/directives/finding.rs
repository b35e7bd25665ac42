//! A rule's finding in a source.

use super::Directive;

/// The severity, by what GCC does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Severity {
    /// GCC refuses it with an error.
    Refused,
    /// GCC omits it silently, or with a warning under `-Wall`.
    Ignored,
    /// GCC accepts it and computes something else.
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
    /// Whether `accord cc`, `c++` and `fc` apply the remedy.
    pub(crate) rewritten: bool,
    /// Whether an option or a module applies the remedy, so that it works in included files, too.
    pub(crate) everywhere: bool,
}

impl Finding {
    /// Creates a finding at a directive, without a rewrite.
    pub(crate) fn at(directive: &Directive, severity: Severity, message: String, remedy: String) -> Self {
        let Directive { file, line, .. } = directive;
        Self { file: file.clone(), line: *line, severity, message, remedy, rewritten: false, everywhere: false }
    }
}

//! A directive in a source.

use std::ops::Range;

/// The form of a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `#pragma acc` or a sentinel, on lines of its own.
    Line,
    /// `_Pragma("acc ...")`.
    Operator,
}

/// A directive in a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Directive {
    /// The text after `acc`, on one line and without comments.
    pub(crate) text: String,
    /// The file of a line marker, if there was one.
    pub(crate) file: Option<String>,
    /// Its first line, from 1.
    pub(crate) line: u32,
    /// The replaced range of the source: whole lines except for the last line end, or the operator.
    pub(crate) place: Range<usize>,
    /// Its form.
    pub(crate) form: Form,
}

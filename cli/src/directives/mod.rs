//! OpenACC directives in source text: finding them, reading their clauses, what GCC makes of them, and how those that it
//! doesn't know are written as calls. Pure: text in, text out.

mod c;
mod clause;
mod finding;
mod fortran;
mod rewrite;

pub(crate) use finding::{Finding, Severity, findings};
pub(crate) use rewrite::rewrite;

use std::ops::Range;
use std::path::Path;

/// The language of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// C
    C,
    /// C++
    Cxx,
    /// Fortran in free form
    FreeFortran,
    /// Fortran in fixed form
    FixedFortran,
}

impl Language {
    /// By the extension, as GCC does it.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            "c" | "h" | "i" => Self::C,
            "C" | "cc" | "cp" | "cpp" | "cxx" | "c++" | "CPP" | "H" | "hh" | "hp" | "hpp" | "hxx" | "h++" | "ii" => {
                Self::Cxx
            }
            "f90" | "F90" | "f95" | "F95" | "f03" | "F03" | "f08" | "F08" | "f18" | "F18" => Self::FreeFortran,
            "f" | "F" | "for" | "FOR" | "ftn" | "FTN" | "fpp" | "FPP" | "inc" => Self::FixedFortran,
            _ => return None,
        })
    }

    /// Whether it is Fortran in either form.
    pub(crate) fn is_fortran(self) -> bool {
        matches!(self, Self::FreeFortran | Self::FixedFortran)
    }
}

/// Where a directive is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `#pragma acc` or a sentinel, on lines of its own.
    Line,
    /// `_Pragma("acc ...")`.
    Operator,
}

/// A directive, as it stands in a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Directive {
    /// What comes after `acc`, on one line and without comments.
    pub(crate) text: String,
    /// The file that a line marker has named, if there was one.
    pub(crate) file: Option<String>,
    /// Its first line, from 1.
    pub(crate) line: u32,
    /// Where it stands in the source: whole lines but for the last line's end, or the operator.
    pub(crate) place: Range<usize>,
    /// How it is written.
    pub(crate) form: Form,
}

/// All directives of a source, in order.
pub(crate) fn scan(source: &str, language: Language) -> Vec<Directive> {
    match language {
        Language::C => c::scan(source, false),
        Language::Cxx => c::scan(source, true),
        Language::FreeFortran => fortran::scan_free(source),
        Language::FixedFortran => fortran::scan_fixed(source),
    }
}

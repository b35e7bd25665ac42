//! OpenACC directives in source text: scanning and parsing them, findings about GCC's treatment, and replacements for
//! those that GCC doesn't know, omits or refuses. Pure: text in, text out.

mod allocations;
mod c;
mod calls;
mod clause;
mod clause_findings;
mod components;
mod declared;
mod declared_update;
mod directive;
mod elements;
mod finding;
mod fortran;
mod includes;
mod module_file;
mod pieces;
mod references;
mod repeated;
mod rewrite;
mod rules;
mod sections;
mod source_findings;
#[cfg(test)]
mod table_tests;
mod variables;

pub(crate) use declared::{Outside, Traits, exported, names, uses};
pub(crate) use directive::{Directive, Form};
pub(crate) use finding::{Finding, Severity};
pub(crate) use includes::includes;
pub(crate) use module_file::declared as declared_in_module;
pub(crate) use rewrite::rewrite;
pub(crate) use rules::findings;

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
    /// Returns the language by the extension, as GCC does.
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

    /// Whether the language is Fortran in either form.
    pub(crate) fn is_fortran(self) -> bool {
        matches!(self, Self::FreeFortran | Self::FixedFortran)
    }
}

/// Returns all directives of a source, in order.
pub(crate) fn scan(source: &str, language: Language) -> Vec<Directive> {
    match language {
        Language::C => c::scan(source, false),
        Language::Cxx => c::scan(source, true),
        Language::FreeFortran => fortran::scan_free(source),
        Language::FixedFortran => fortran::scan_fixed(source),
    }
}

//! Errors of lowering.

use crate::mlir::{Module, SyntaxError};
use std::fmt;

/// The reason why a source is not lowered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The text is not MLIR's generic form.
    Syntax(SyntaxError),
    /// The source uses an unsupported construct.
    Refusal(Refusal),
}

impl From<SyntaxError> for Error {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Refusal(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// A place in a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLocation {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// A construct that is not supported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The place of the construct.
    pub place: Option<SourceLocation>,
    /// The unsupported construct.
    pub what: String,
    /// A supported replacement.
    pub remedy: String,
}

impl Refusal {
    pub(crate) fn new(module: &Module, location: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: place(module, location), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Refusal {
    /// Writes file, line and column first, as flang does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(SourceLocation { file, line, column }) = &self.place {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        write!(f, "error: {}; {}", self.what, self.remedy)
    }
}

/// Returns the first place that a location names, through aliases and call sites.
pub(crate) fn place(module: &Module, location: &str) -> Option<SourceLocation> {
    /// Longest chain of aliases.
    const DEPTH: usize = 16;
    let mut text = location;
    for _ in 0..DEPTH {
        if let Some(start) = text.find('"') {
            let rest = &text[start + 1..];
            let (file, numbers) = rest.split_once('"')?;
            let mut numbers = numbers.strip_prefix(':')?.split(|c: char| !c.is_ascii_digit());
            let mut next = || numbers.next()?.parse().ok();
            return Some(SourceLocation { file: file.to_owned(), line: next()?, column: next()? });
        }
        let name =
            text.split(|c: char| !(c.is_alphanumeric() || c == '#' || c == '_')).find(|part| part.starts_with('#'))?;
        text = &module.aliases.iter().find(|(alias, _)| alias == name)?.1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_through_aliases() {
        let alias = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let aliases = vec![
            alias("#loc1", "loc(\"dir/a.cuf\":12:7)"),
            alias("#loc2", "loc(fused<#x>[#loc1, #loc])"),
            alias("#loc", "loc(unknown)"),
        ];
        let module = Module { aliases, ..Module::default() };
        let place_ = SourceLocation { file: "dir/a.cuf".into(), line: 12, column: 7 };
        assert_eq!(place(&module, "#loc1"), Some(place_.clone()));
        assert_eq!(place(&module, "\"dir/a.cuf\":12:7"), Some(place_));
        assert_eq!(place(&module, "#loc"), None);
        let refusal = Refusal::new(&module, "#loc1", "printing in a kernel", "print on the host");
        assert_eq!(refusal.to_string(), "dir/a.cuf:12:7: error: printing in a kernel; print on the host");
    }
}

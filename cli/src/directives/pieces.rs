//! The replacement text of directives, with the line numbers of the source.

use super::{Directive, Form, Language};
use std::ops::Range;

/// Most columns of a line in free form, without continuation marks.
const FREE_COLUMNS: usize = 120;
/// Width of columns 7 to 72.
const FIXED_COLUMNS: usize = 66;

/// A part of a directive's replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// Statements.
    Code(String),
    /// A directive: the text after `acc`.
    Pragma(String),
    /// Unchanged lines of the source.
    Lines(String),
}

/// A replacement of a place in a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edit {
    /// The place in the source.
    pub(super) place: Range<usize>,
    /// The file of a line marker, if there was one.
    file: Option<String>,
    /// The first line of the place, from 1, by line markers.
    line: u32,
    form: Form,
    pieces: Vec<Piece>,
}

impl Edit {
    /// Creates a replacement of a directive.
    pub(super) fn of(directive: &Directive, pieces: Vec<Piece>) -> Self {
        let Directive { file, line, place, form, .. } = directive;
        Self { place: place.clone(), file: file.clone(), line: *line, form: *form, pieces }
    }

    /// Creates a replacement of whole lines.
    pub(super) fn of_lines(place: Range<usize>, file: Option<String>, line: u32, pieces: Vec<Piece>) -> Self {
        Self { place, file, line, form: Form::Line, pieces }
    }

    /// Returns the replacement text. The source text after it keeps its line number.
    pub(super) fn text(&self, source: &str, language: Language, name: &str) -> String {
        if self.form == Form::Operator {
            let pieces: Vec<String> = self.pieces.iter().map(operator).collect();
            return pieces.join(" ");
        }
        let file = self.file.as_deref().unwrap_or(name);
        let breaks = source[self.place.clone()].matches('\n').count();
        let next = self.line + u32::try_from(breaks).unwrap_or(0) + 1;
        let pieces: Vec<String> = self.pieces.iter().map(|piece| written(piece, language)).collect();
        if let ([one], false) = (&*pieces, language.is_fortran()) {
            return format!("{one}{}", "\n".repeat(breaks));
        }
        let between = format!("\n{}\n", marker(self.line, file, language, name));
        format!("{}\n{}", pieces.join(&between), marker(next, file, language, name))
    }
}

/// Returns a marker: the next line is line `line` of `file`. `name` is the source's own.
pub(super) fn marker(line: u32, file: &str, language: Language, name: &str) -> String {
    let preprocessed = language.is_fortran() || name.ends_with(".i") || name.ends_with(".ii");
    format!("{} {line} \"{file}\"", if preprocessed { "#" } else { "#line" })
}

/// Writes a piece on lines of its own.
fn written(piece: &Piece, language: Language) -> String {
    let cut = |text: &str, columns: usize, between: &str| {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(columns).map(|piece| piece.iter().collect()).collect::<Vec<String>>().join(between)
    };
    match (piece, language) {
        (Piece::Lines(text), _) => text.clone(),
        (Piece::Code(text), Language::C | Language::Cxx) => text.clone(),
        (Piece::Pragma(text), Language::C | Language::Cxx) => format!("#pragma acc {text}"),
        (Piece::Code(text), Language::FreeFortran) => cut(text, FREE_COLUMNS, "&\n&"),
        (Piece::Pragma(text), Language::FreeFortran) => format!("!$acc {}", cut(text, FREE_COLUMNS, "&\n!$acc&")),
        (Piece::Code(text), Language::FixedFortran) => format!("      {}", cut(text, FIXED_COLUMNS, "\n     &")),
        (Piece::Pragma(text), Language::FixedFortran) => format!("!$acc {}", cut(text, FIXED_COLUMNS, "\n!$acc&")),
    }
}

/// Writes a piece where the line must not be broken.
fn operator(piece: &Piece) -> String {
    match piece {
        Piece::Pragma(text) => {
            format!("_Pragma(\"acc {}\")", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Piece::Code(text) | Piece::Lines(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_directives_go_on_as_their_form_wants() {
        let long = Piece::Pragma(format!("update self({})", "a_long_name, ".repeat(12)));
        let free = written(&long, Language::FreeFortran);
        assert!(free.lines().all(|line| line.len() <= 132 && line.starts_with("!$acc")), "{free}");
        let fixed = written(&long, Language::FixedFortran);
        assert!(fixed.lines().all(|line| line.len() <= 72), "{fixed}");
        assert!(fixed.lines().skip(1).all(|line| line.starts_with("!$acc&")), "{fixed}");
    }

    #[test]
    fn operators_escape_what_a_string_needs() {
        assert_eq!(operator(&Piece::Pragma("wait(q[\"a\"])".into())), "_Pragma(\"acc wait(q[\\\"a\\\"])\")");
    }
}

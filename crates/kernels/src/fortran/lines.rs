//! Inserts statements and directives on lines of their own, in the source's form, with line numbers of the source.

use super::Form;
use super::source::Source;
use crate::edits::Edits;
use crate::ir::Span;
use crate::source::Line as Place;

/// Longest piece of a line in free form, without the continuation mark.
const FREE_COLUMNS: usize = 110;
/// Columns 7 to 72.
const FIXED_COLUMNS: usize = 66;

/// A line of new text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A statement, or several.
    Code(String),
    /// A directive without its sentinel.
    Directive(String),
}

impl Line {
    fn text(&self, form: Form) -> String {
        let cut = |text: &str, columns: usize, between: &str| {
            let chars: Vec<char> = text.chars().collect();
            chars.chunks(columns).map(|piece| piece.iter().collect()).collect::<Vec<String>>().join(between)
        };
        match (self, form) {
            (Self::Code(text), Form::Free) => cut(text, FREE_COLUMNS, "&\n&"),
            (Self::Directive(text), Form::Free) => format!("!$acc {}", cut(text, FREE_COLUMNS, "&\n!$acc&")),
            (Self::Code(text), Form::Fixed { .. }) => format!("      {}", cut(text, FIXED_COLUMNS, "\n     &")),
            (Self::Directive(text), Form::Fixed { .. }) => format!("!$acc {}", cut(text, FIXED_COLUMNS, "\n!$acc&")),
        }
    }
}

fn marker(place: &Place) -> String {
    format!("# {} \"{}\"", place.number, place.file)
}

/// The lines, each with a marker ahead, without the last line's end.
fn text(source: &Source<'_>, lines: &[Line], place: &Place) -> String {
    let all = lines.iter().map(|line| format!("{}\n{}", marker(place), line.text(source.form)));
    all.collect::<Vec<_>>().join("\n")
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Whether only blanks, or a label, precede a statement in its line.
fn is_first(source: &Source<'_>, at: usize) -> bool {
    source.text[line_start(source.text, at)..at].chars().all(|c| c.is_whitespace() || c.is_ascii_digit())
}

/// Whether a statement has a label.
pub(super) fn is_labelled(source: &Source<'_>, at: usize) -> bool {
    let ahead = source.text[line_start(source.text, at)..at].rsplit(';').next().unwrap_or("");
    !ahead.trim().is_empty() && ahead.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns blanks that put what follows into its old column, or into the statement field.
fn indent(source: &Source<'_>, at: usize) -> String {
    let column = source.text[line_start(source.text, at)..at].chars().count();
    " ".repeat(if source.form == Form::Free { column.min(FREE_COLUMNS / 2) } else { 6 })
}

/// Inserts lines before a statement.
pub(crate) fn insert_before(source: &Source<'_>, at: usize, lines: &[Line], edits: &mut Edits) {
    insert_before_as(source, at, lines, &source.place(at).0, edits);
}

/// Inserts lines before a statement, numbered as another line of the source.
pub(crate) fn insert_before_as(source: &Source<'_>, at: usize, lines: &[Line], place: &Place, edits: &mut Edits) {
    if lines.is_empty() {
        return;
    }
    let body = text(source, lines, place);
    let back = marker(&source.place(at).0);
    if is_first(source, at) {
        edits.insert(line_start(source.text, at), format!("{body}\n{back}\n"));
    } else {
        edits.insert(at, format!("\n{body}\n{back}\n{}", indent(source, at)));
    }
}

/// Inserts lines after a statement that ends at a byte.
pub(crate) fn insert_after(source: &Source<'_>, end: usize, lines: &[Line], edits: &mut Edits) {
    if lines.is_empty() {
        return;
    }
    let place = source.place(end.saturating_sub(1)).0;
    let body = text(source, lines, &place);
    let line_end = source.text[end..].find('\n').map_or(source.text.len(), |length| end + length);
    let rest = &source.text[end..line_end];
    if rest.trim().is_empty() || rest.trim_start().starts_with('!') {
        let next = Place { number: place.number + 1, ..place };
        edits.close(line_end, format!("\n{body}\n{}", marker(&next)));
    } else {
        let at = end + rest.find(';').map_or(0, |at| at + 1);
        edits.close(at, format!("\n{body}\n{}\n{}", marker(&place), indent(source, at)));
    }
}

/// Replaces a statement with lines.
pub(crate) fn replace(source: &Source<'_>, span: Span, lines: &[Line], edits: &mut Edits) {
    let Some((last, first)) = lines.split_last() else { return };
    let (begin, end) = (source.place(span.start).0, source.place(span.end.saturating_sub(1)).0);
    let mut body = text(source, first, &begin);
    if !first.is_empty() {
        body.push('\n');
    }
    body += &text(source, std::slice::from_ref(last), &end);
    let line_end = source.text[span.end..].find('\n').map_or(source.text.len(), |length| span.end + length);
    let rest = &source.text[span.end..line_end];
    let (start, ahead) = match is_first(source, span.start) {
        true => (line_start(source.text, span.start), ""),
        false => (span.start, "\n"),
    };
    if rest.trim_start().starts_with(';') {
        let to = span.end + rest.find(';').map_or(0, |at| at + 1);
        edits.replace(start..to, format!("{ahead}{body}\n{}\n{}", marker(&end), indent(source, to)));
    } else {
        edits.replace(start..span.end, format!("{ahead}{body}"));
    }
}

/// Replaces a directive with another, or nothing; the lines that follow keep their numbers.
pub(crate) fn directive(source: &Source<'_>, span: Span, new: Option<&str>, edits: &mut Edits) {
    let (begin, end) = (source.place(span.start).0, source.place(span.end.saturating_sub(1)).0);
    let next = Place { number: end.number + 1, ..end };
    let new = match new {
        Some(new) => {
            let line = Line::Directive(new.to_owned());
            format!("{}\n{}", text(source, &[line], &begin), marker(&next))
        }
        None => "\n".repeat(source.text[span.clone()].matches('\n').count()),
    };
    edits.replace(span, new);
}

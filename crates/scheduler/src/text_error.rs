//! Errors that mark a place in a text written by a user.

use accord_types::printable;
use std::fmt;
use std::ops::Range;

/// Most characters of a long line on each side of the error.
const SHOWN_MAX: usize = 60;

/// An error at a place in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The line with the error.
    line: String,
    /// The range of the error, in bytes of `line`.
    range: Range<usize>,
    /// The cause and remedy, in one line.
    message: String,
}

impl TextError {
    /// Creates an error at `range` of the text `line`. Ends of the range within a character are moved to its end.
    pub(crate) fn new(line: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        let border = |at: usize| (at.min(line.len())..=line.len()).find(|&at| line.is_char_boundary(at));
        let start = border(range.start).unwrap_or(line.len());
        let end = border(range.end).unwrap_or(line.len()).max(start);
        Self { line: line.to_owned(), range: start..end, message: message.into() }
    }

    /// Returns the cause and remedy, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the range of the error, in bytes of the text.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the line and, below it, a line that marks the error.
    #[must_use]
    pub fn marked(&self) -> String {
        let (before, rest) = self.line.split_at(self.range.start);
        let (wrong, after) = rest.split_at(self.range.end - self.range.start);
        let (before, wrong, after) = (printable(before), printable(wrong), printable(after));
        let cut = before.chars().count().saturating_sub(SHOWN_MAX);
        let dots = if cut > 0 { "..." } else { "" };
        let before: String = dots.chars().chain(before.chars().skip(cut)).collect();
        let more = if after.chars().count() > SHOWN_MAX { "..." } else { "" };
        let after: String = after.chars().take(SHOWN_MAX).collect();
        let blanks = " ".repeat(before.chars().count());
        let carets = "^".repeat(wrong.chars().count().max(1));
        format!("  {before}{wrong}{after}{more}\n  {blanks}{carets}")
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, self.marked())
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_wrong_place() {
        let error = TextError::new("4:nvida near", 2..7, "no device type nvida");
        assert_eq!(error.to_string(), "no device type nvida\n  4:nvida near\n    ^^^^^");
        let at_the_end = TextError::new("4:", 2..2, "m");
        assert_eq!(at_the_end.marked(), "  4:\n    ^");
    }

    #[test]
    fn a_terminals_commands_are_shown_and_counted() {
        let error = TextError::new("\u{1b}é x", 4..5, "m");
        assert_eq!(error.marked(), "  \\u{1b}é x\n          ^");
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides() {
        let text = format!("{}wrong{}", "a".repeat(100), "b".repeat(100));
        let marked = TextError::new(&text, 100..105, "m").marked();
        let (line, carets) = marked.split_once('\n').unwrap();
        assert_eq!(line.trim(), format!("...{}wrong{}...", "a".repeat(60), "b".repeat(60)));
        assert_eq!(line.find("wrong"), carets.find("^^^^^"));
    }

    #[test]
    fn a_range_inside_of_a_character_is_moved() {
        assert_eq!(TextError::new("é", 1..9, "m").range(), 2..2);
    }
}

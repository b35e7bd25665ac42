//! Errors in a policy file, with their places.

use crate::text_error::TextError;
use std::fmt;
use std::ops::Range;

/// Most findings that are reported; a last one reports that there are more.
pub const FINDINGS_MAX: usize = 200;

/// An error in a policy file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The cause and remedy, with the line's text.
    pub error: TextError,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.error)
    }
}

/// Collects the errors of a text.
pub(super) struct Findings<'a> {
    text: &'a str,
    found: Vec<(Range<usize>, String)>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// Adds an error at `range` of the text, with cause and remedy.
    pub(super) fn add(&mut self, range: Range<usize>, message: impl Into<String>) {
        self.found.push((range, message.into()));
    }

    /// Adds an error at `range` of `written`, which is at `place` in quotes or as a key.
    pub(super) fn add_within(
        &mut self,
        place: Range<usize>,
        written: &str,
        range: Range<usize>,
        message: impl Into<String>,
    ) {
        // A text with escapes is marked as a whole.
        let found = self.text.get(place.clone()).and_then(|raw| raw.find(written)).map(|at| place.start + at);
        let range = found.map_or(place, |start| start + range.start..start + range.end);
        self.add(range, message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the lines with errors, from 0.
    pub(super) fn lines(&self) -> Vec<usize> {
        self.found.iter().map(|(range, _)| self.line_of(range.start)).collect()
    }

    pub(super) fn line_of(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Drops errors from index `from` on, unless `keep` is true for their line.
    pub(super) fn retain_lines(&mut self, from: usize, keep: impl Fn(usize) -> bool) {
        let later = self.found.split_off(from);
        let kept: Vec<_> = later.into_iter().filter(|(range, _)| keep(self.line_of(range.start))).collect();
        self.found.extend(kept);
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns the errors in the order of the text, without duplicates.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        self.found.sort_by(|(one, a), (other, b)| (one.start, one.end, a).cmp(&(other.start, other.end, b)));
        self.found.dedup();
        let more = self.found.len().saturating_sub(FINDINGS_MAX);
        self.found.truncate(FINDINGS_MAX);
        let mut found: Vec<Finding> =
            self.found.iter().map(|(range, message)| place(self.text, range, message)).collect();
        if let Some(last) = found.last().filter(|_| more > 0) {
            let error = TextError::new("", 0..0, format!("and {more} more: correct these first"));
            found.push(Finding { error, ..last.clone() });
        }
        found
    }
}

fn place(text: &str, range: &Range<usize>, message: &str) -> Finding {
    let border = (range.start.min(text.len())..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let begin = text[..border].rfind('\n').map_or(0, |at| at + 1);
    let end = text[border..].find('\n').map_or(text.len(), |at| border + at);
    let line = text[begin..end].trim_end_matches('\r');
    let within = border - begin..range.end.saturating_sub(begin).clamp(border - begin, line.len().max(border - begin));
    Finding {
        line: text[..begin].matches('\n').count() + 1,
        column: text[begin..border].chars().count() + 1,
        error: TextError::new(line, within, message),
    }
}

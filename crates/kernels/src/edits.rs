//! Replacements in a source's text.

use crate::ir::Span;
use crate::source::Source;

/// Replacements of a source's text.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// Span, rank among those that begin there, text.
    list: Vec<(Span, i64, String)>,
}

impl Edits {
    /// Replaces a span with other text.
    pub(crate) fn replace(&mut self, span: Span, text: impl Into<String>) {
        let rank = 1 + i64::try_from(self.list.len()).unwrap_or(i64::MAX - 1);
        self.list.push((span, rank, text.into()));
    }

    /// Inserts text after what ends at a byte, and before all text that was closed there earlier, as that is around it.
    pub(crate) fn close(&mut self, at: usize, text: impl Into<String>) {
        let rank = -1 - i64::try_from(self.list.len()).unwrap_or(i64::MAX - 1);
        self.list.push((at..at, rank, text.into()));
    }

    /// Inserts text before a byte.
    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    /// Removes a directive; its lines stay.
    pub(crate) fn blank(&mut self, source: &Source<'_>, span: Span) {
        let breaks = source.text[span.clone()].matches('\n').count();
        self.replace(span, "\n".repeat(breaks));
    }

    /// The source's text with all replacements.
    pub(crate) fn apply(mut self, text: &str) -> String {
        self.list.sort_by_key(|(span, rank, _)| (span.start, *rank));
        let (mut new, mut done) = (String::with_capacity(text.len()), 0);
        for (span, _, replacement) in self.list {
            if span.start < done {
                continue;
            }
            new.push_str(&text[done..span.start]);
            new.push_str(&replacement);
            done = span.end;
        }
        new.push_str(&text[done..]);
        new
    }
}

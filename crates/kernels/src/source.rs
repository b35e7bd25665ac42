//! A preprocessed source: the origin of its lines, its directives, and the text without both for a parser.

use crate::clause::Directive;
use crate::ir::Span;
use std::collections::BTreeMap;

/// A source after the preprocessor.
#[derive(Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// The text with blanks instead of line markers, directives and lines of system headers; bytes keep their offsets in `text`.
    pub code: String,
    /// Directives of OpenACC, in order.
    pub directives: Vec<Directive>,
    lines: BTreeMap<usize, Line>,
}

/// The origin of a line of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The file's name in a line marker.
    pub file: String,
    /// The line's number, from 1.
    pub number: u32,
}

impl<'a> Source<'a> {
    /// Reads C or C++ after the preprocessor; `name` is the file's name until a line marker has another.
    pub fn c(text: &'a str, name: &str) -> Self {
        let mut source =
            Self { text, code: String::with_capacity(text.len()), directives: Vec::new(), lines: BTreeMap::new() };
        let (mut file, mut number, mut system) = (name.to_owned(), 1, false);
        let mut at = 0;
        while at < text.len() {
            let mut end = text[at..].find('\n').map_or(text.len(), |length| at + length);
            source.lines.insert(at, Line { file: file.clone(), number });
            number += 1;
            let line = text[at..end].trim_start();
            if let Some(directive) = line.strip_prefix('#') {
                let mut directive = directive.trim_start();
                if let Some(rest) = directive.strip_prefix("line").filter(|rest| rest.starts_with([' ', '\t'])) {
                    directive = rest.trim_start();
                }
                if directive.starts_with(|c: char| c.is_ascii_digit()) {
                    if let Some((new, next, flags)) = marker(directive) {
                        (file, number) = (new, next);
                        system = flags.split_whitespace().any(|flag| flag == "3");
                    }
                } else {
                    // Text that is not preprocessed may continue a directive on the next line.
                    while text[at..end].ends_with('\\') && end < text.len() {
                        end = text[end + 1..].find('\n').map_or(text.len(), |length| end + 1 + length);
                        number += 1;
                    }
                    let joined = text[at..end].replace("\\\n", " ");
                    let words = joined.trim_start().strip_prefix('#').unwrap_or("").trim_start();
                    if let Some(rest) = words.strip_prefix("pragma").map(str::trim_start)
                        && let Some(rest) = rest.strip_prefix("acc").filter(|rest| rest.starts_with([' ', '\t']))
                    {
                        source.directives.push(Directive::new(rest, at..end));
                    }
                }
                source.blank(at..end);
            } else if system {
                source.blank(at..end);
            } else {
                source.code.push_str(&text[at..end]);
            }
            if end < text.len() {
                source.code.push('\n');
            }
            at = end + 1;
        }
        source
    }

    fn blank(&mut self, span: Span) {
        self.code.extend(self.text[span].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
    }

    /// The line of a byte, and the byte's column, from 0.
    pub fn place(&self, at: usize) -> (Line, usize) {
        match self.lines.range(..=at).next_back() {
            Some((start, line)) => (line.clone(), at - start),
            None => (Line { file: String::new(), number: 1 }, at),
        }
    }

    /// Returns directives right before a byte, with only blanks, markers and other directives between.
    pub fn directives_before(&self, at: usize) -> impl Iterator<Item = &Directive> {
        self.directives
            .iter()
            .rev()
            .skip_while(move |directive| directive.span.start >= at)
            .take_while(move |directive| self.code[directive.span.end..at].trim().is_empty())
    }
}

/// Returns file, number and flags of a line marker, from its number on.
pub(crate) fn marker(text: &str) -> Option<(String, u32, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..digits].parse().ok()?;
    let rest = text[digits..].trim_start().strip_prefix('"')?;
    let end = rest.rfind('"')?;
    Some((rest[..end].to_owned(), number, &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_markers_and_bytes_stay() {
        let text = "# 1 \"a.c\"\nint x;\n# 7 \"/usr/include/b.h\" 1 3\nint y;\n# 3 \"a.c\" 2\n#pragma acc kernels copy(a)\nz;\n";
        let source = Source::c(text, "?");
        assert_eq!(source.code.len(), text.len());
        assert!(!source.code.contains('y') && source.code.contains("int x;"));
        let at = text.find("z;").unwrap();
        assert_eq!(source.place(at), (Line { file: "a.c".into(), number: 4 }, 0));
        let directive = source.directives_before(at).next().unwrap();
        assert_eq!(
            (directive.name.as_str(), &text[directive.span.clone()]),
            ("kernels", "#pragma acc kernels copy(a)")
        );
        assert_eq!(source.directives_before(text.len()).count(), 0);
    }

    #[test]
    fn directives_go_on_after_a_backslash() {
        let text = "#pragma acc kernels \\\n loop\nx;\n";
        let source = Source::c(text, "a.c");
        assert_eq!(source.directives[0].name, "kernels loop");
        assert_eq!(source.place(text.find('x').unwrap()).0.number, 3);
    }
}

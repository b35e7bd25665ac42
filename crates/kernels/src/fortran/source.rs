//! A source of Fortran as statements: continuation lines joined, comments, directives and line markers removed.
//!
//! [`Source::code`] has one statement per line, in free form whatever the source's form is, so that one grammar reads
//! both. Loops that end at a label get an `end do` of their own. Each byte knows its place in the source's text.

use super::Form;
use crate::ir::{Directive, Span};
use crate::source::{Line, marker};
use crate::text::without_comment;
use std::collections::BTreeMap;

/// A source after the preprocessor.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// The text.
    pub(crate) text: &'a str,
    /// Its form.
    pub(crate) form: Form,
    /// Its statements.
    pub(crate) code: String,
    /// Directives of OpenACC, in order.
    pub(crate) directives: Vec<Placed>,
    runs: Vec<Run>,
    lines: BTreeMap<usize, Line>,
}

/// A directive, and its position among the statements.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The directive; its span is of the text.
    pub(crate) directive: Directive,
    /// The byte of the code that follows it.
    pub(crate) at: usize,
}

/// Bytes of the code that are in the text in the same order.
#[derive(Clone, Copy, Debug)]
struct Run {
    code: usize,
    text: usize,
    length: usize,
}

impl<'a> Source<'a> {
    /// Reads a source; `name` is the file's name until a line marker has another.
    pub(crate) fn new(text: &'a str, form: Form, name: &str) -> Self {
        let mut reader = Reader {
            source: Self {
                text,
                form,
                code: String::with_capacity(text.len()),
                directives: Vec::new(),
                runs: Vec::new(),
                lines: BTreeMap::new(),
            },
            statement: 0,
            labels: Vec::new(),
            quote: None,
        };
        let lines = physical(text, name);
        reader.source.lines = lines.iter().map(|line| (line.start, line.place.clone())).collect();
        let mut at = 0;
        while at < lines.len() {
            at = match form {
                Form::Free => reader.free(&lines, at),
                Form::Fixed { columns } => reader.fixed(&lines, at, columns),
            };
        }
        reader.source
    }

    /// Returns the place in the text of a byte of the code.
    pub(crate) fn start(&self, at: usize) -> usize {
        let next = self.runs.partition_point(|run| run.code <= at);
        match next.checked_sub(1).and_then(|last| self.runs.get(last)) {
            Some(run) => run.text + (at - run.code).min(run.length),
            None => 0,
        }
    }

    /// Returns the place in the text of bytes of the code.
    pub(crate) fn span(&self, code: Span) -> Span {
        let start = self.start(code.start);
        if code.is_empty() {
            return start..start;
        }
        let last = code.end - 1;
        let run = self.runs.partition_point(|run| run.code <= last).checked_sub(1).map(|at| self.runs[at]);
        let copied = run.is_some_and(|run| last - run.code < run.length);
        start..(self.start(last) + usize::from(copied)).max(start)
    }

    /// Returns where the directives of a statement begin, which stand behind the byte `from`; the statement's own start without any.
    pub(crate) fn first_directive(&self, statement: usize, from: usize) -> usize {
        let mut first = statement;
        for Placed { directive, .. } in self.directives.iter().rev() {
            let between = directive.span.end..first;
            if directive.span.start < from || between.start > between.end {
                continue;
            }
            if !self.statement(&between).chars().all(|c| c.is_ascii_digit()) {
                break;
            }
            first = directive.span.start;
        }
        first
    }

    /// Returns a part of a statement on one line, without comments.
    pub(crate) fn statement(&self, text: &Span) -> String {
        let inside = |run: &&Run| run.text < text.end && run.text + run.length > text.start;
        let parts = self.runs.iter().filter(inside).map(|run| {
            let (from, to) = (run.text.max(text.start), (run.text + run.length).min(text.end));
            &self.text[from..to]
        });
        parts.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The line of a byte of the text, and the byte's column, from 0.
    pub(crate) fn place(&self, at: usize) -> (Line, usize) {
        match self.lines.range(..=at).next_back() {
            Some((start, line)) => (line.clone(), at - start),
            None => (Line { file: String::new(), number: 1 }, at),
        }
    }

    /// Returns directives right before a byte of the code, the nearest first: with no statement between.
    pub(crate) fn directives_before(&self, at: usize) -> impl Iterator<Item = &Placed> {
        self.directives.iter().rev().skip_while(move |placed| placed.at > at).take_while(move |placed| {
            self.code[placed.at..at].chars().all(|c| c.is_whitespace() || c.is_ascii_digit() || c == ';')
        })
    }
}

/// A line of the text without its end.
struct Physical<'a> {
    text: &'a str,
    start: usize,
    place: Line,
}

fn physical<'a>(text: &'a str, name: &str) -> Vec<Physical<'a>> {
    let (mut file, mut number, mut start) = (name.to_owned(), 1, 0);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let bare = line.strip_suffix('\r').unwrap_or(line);
        lines.push(Physical { text: bare, start, place: Line { file: file.clone(), number } });
        start += line.len() + 1;
        number += 1;
        if let Some(rest) = bare.strip_prefix('#').map(str::trim_start) {
            let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
            if let Some((new, next, _)) = marker(rest) {
                (file, number) = (new, next);
            }
        }
    }
    lines
}

struct Reader<'a> {
    source: Source<'a>,
    /// Where the current statement begins.
    statement: usize,
    /// Labels at which open loops end.
    labels: Vec<String>,
    /// The quote of the string that is open.
    quote: Option<char>,
}

impl Reader<'_> {
    /// Reads from a line in free form on; returns the first line that is not read.
    fn free(&mut self, lines: &[Physical<'_>], first: usize) -> usize {
        let line = &lines[first];
        if let Some(rest) = free_sentinel(line.text) {
            return self.free_directive(lines, first, rest);
        }
        if no_statement(line.text) {
            return first + 1;
        }
        let mut at = first;
        let mut skip = 0;
        loop {
            let line = &lines[at];
            let goes_on = self.characters(line.start + skip, &line.text[skip..], true);
            let next = (at + 1..lines.len()).find(|next| !no_statement(lines[*next].text));
            let Some(next) = next.filter(|_| goes_on) else { break };
            // A line that ends with an ampersand right before a directive ends its statement.
            if free_sentinel(lines[next].text).is_some() {
                break;
            }
            let text = lines[next].text;
            let blanks = text.len() - text.trim_start().len();
            skip = match text.trim_start().starts_with('&') {
                true => blanks + 1,
                false => {
                    self.source.code.push(' ');
                    blanks
                }
            };
            at = next;
        }
        self.quote = None;
        self.end_of_statement();
        at + 1
    }

    fn free_directive(&mut self, lines: &[Physical<'_>], first: usize, rest: &str) -> usize {
        let mut text = rest.to_owned();
        let mut last = first;
        while let Some(open) = without_comment(&text).trim_end().strip_suffix('&').map(str::to_owned) {
            text = open;
            let next = (last + 1..lines.len())
                .find(|next| free_sentinel(lines[*next].text).is_some() || !no_statement(lines[*next].text));
            let Some((next, more)) = next.and_then(|next| Some((next, free_sentinel(lines[next].text)?))) else {
                break;
            };
            let more = more.trim_start();
            text.push_str(more.strip_prefix('&').unwrap_or(more));
            last = next;
        }
        self.directive(without_comment(&text), lines[first].start..lines[last].start + lines[last].text.len());
        last + 1
    }

    /// Reads from a line in fixed form on; returns the first line that is not read.
    fn fixed(&mut self, lines: &[Physical<'_>], first: usize, columns: usize) -> usize {
        let cut = |text: &str| text.char_indices().nth(columns).map_or(text.len(), |(at, _)| at);
        if let Some((rest, false)) = fixed_sentinel(lines[first].text) {
            let mut text = without_comment(rest).to_owned();
            let mut last = first;
            while let Some((more, true)) = lines.get(last + 1).and_then(|line| fixed_sentinel(line.text)) {
                text.push_str(without_comment(more).trim_end());
                last += 1;
            }
            self.directive(&text, lines[first].start..lines[last].start + lines[last].text.len());
            return last + 1;
        }
        let Some((label, body, _)) = fixed_fields(lines[first].text) else { return first + 1 };
        let (mut at, mut body) = (first, body);
        if let Some(label) = label {
            self.copy(lines[at].start + label.start, &lines[at].text[label]);
            self.source.code.push(' ');
        }
        loop {
            let line = &lines[at];
            let end = cut(line.text).max(body);
            self.characters(line.start + body, &line.text[body..end], false);
            if self.quote.is_some() {
                let width = line.text[..end].chars().count();
                self.source.code.extend((width..columns.min(72)).map(|_| ' '));
            }
            let next = (at + 1..lines.len())
                .find(|next| fixed_fields(lines[*next].text).is_some() || fixed_sentinel(lines[*next].text).is_some());
            match next.and_then(|next| Some((next, fixed_fields(lines[next].text)?))) {
                Some((next, (_, start, true))) => (at, body) = (next, start),
                _ => break,
            }
        }
        self.quote = None;
        self.end_of_statement();
        at + 1
    }

    /// Appends the statements of a line, and returns whether an ampersand continues the last one.
    fn characters(&mut self, start: usize, text: &str, free: bool) -> bool {
        for (at, c) in text.char_indices() {
            match (self.quote, c) {
                (None, '!') => return false,
                (None, ';') => {
                    self.end_of_statement();
                    continue;
                }
                (_, '&') if free => {
                    let rest = text[at + 1..].trim_start();
                    if rest.is_empty() || rest.starts_with('!') && self.quote.is_none() {
                        return true;
                    }
                }
                (None, '\'' | '"') => self.quote = Some(c),
                (Some(open), c) if c == open => self.quote = None,
                _ => {}
            }
            self.copy(start + at, &text[at..at + c.len_utf8()]);
        }
        false
    }

    fn copy(&mut self, from: usize, text: &str) {
        let code = self.source.code.len();
        match self.source.runs.last_mut() {
            Some(run) if run.code + run.length == code && run.text + run.length == from => run.length += text.len(),
            _ => self.source.runs.push(Run { code, text: from, length: text.len() }),
        }
        self.source.code.push_str(text);
    }

    /// Records a directive; its names are in lower case, for comparison.
    fn directive(&mut self, text: &str, span: Span) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = if text.contains(['\'', '"']) { text } else { text.to_ascii_lowercase() };
        let at = self.source.code.len();
        self.source.directives.push(Placed { directive: Directive::new(&text, span), at });
    }

    /// Ends the current statement, and the loops that end at its label.
    fn end_of_statement(&mut self) {
        let start = std::mem::replace(&mut self.statement, self.source.code.len());
        let statement = &self.source.code[start..];
        if statement.trim().is_empty() {
            self.source.code.truncate(start);
            self.source.code.extend((start == 0).then_some('\n'));
            self.statement = self.source.code.len();
            return;
        }
        let blanks = statement.len() - statement.trim_start().len();
        let digits = statement[blanks..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let label = statement[blanks..blanks + digits].to_owned();
        let rest = statement[blanks + digits..].to_owned();
        let ends = self.labels.iter().rev().take_while(|open| same_label(open, &label)).count();
        if let Some((at, length)) = loop_label(&rest) {
            let at = start + blanks + digits + at;
            self.labels.push(self.source.code[at..at + length].to_owned());
            self.blank(at..at + length);
        }
        self.source.code.push('\n');
        if ends > 0 && !label.is_empty() {
            self.labels.truncate(self.labels.len() - ends);
            self.blank(start + blanks..start + blanks + digits);
            let own = usize::from(rest.split_whitespace().collect::<String>().eq_ignore_ascii_case("enddo"));
            self.source.code.push_str(&"end do\n".repeat(ends - own));
        }
        self.statement = self.source.code.len();
    }

    fn blank(&mut self, span: Span) {
        let blanks = " ".repeat(span.len());
        self.source.code.replace_range(span, &blanks);
    }
}

fn same_label(one: &str, other: &str) -> bool {
    !other.is_empty() && one.trim_start_matches('0') == other.trim_start_matches('0')
}

/// Returns the position of the label of `do 10 i = ...` or `do 10 while (...)` in a statement without its own label.
fn loop_label(statement: &str) -> Option<(usize, usize)> {
    let text = statement.trim_start();
    let at = statement.len() - text.len();
    let rest = text.get(2..).filter(|_| text[..2].eq_ignore_ascii_case("do"))?;
    let digits = rest.trim_start();
    let blanks = rest.len() - digits.len();
    let length = digits.find(|c: char| !c.is_ascii_digit())?;
    let after = digits[length..].trim_start().trim_start_matches(',').trim_start();
    let variable = after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    let is_loop =
        variable.trim_start().starts_with('=') || after.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("while"));
    (length > 0 && is_loop).then_some((at + 2 + blanks, length))
}

/// Whether a line has no statement: a comment, a directive, a line marker, or nothing.
fn no_statement(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#') || line.starts_with('!') && free_sentinel(line).is_none()
}

/// Returns the text after `!$acc`.
fn free_sentinel(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.get(5..).filter(|_| line[..5].eq_ignore_ascii_case("!$acc"))?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '&', '!'])).then_some(rest)
}

/// Returns columns 7 and on of a line with a sentinel, and whether it continues the line before.
fn fixed_sentinel(line: &str) -> Option<(&str, bool)> {
    let sentinel = line.get(..5)?;
    let known = ["!$acc", "c$acc", "*$acc"].iter().any(|known| sentinel.eq_ignore_ascii_case(known));
    let sixth = line.get(5..)?.chars().next().unwrap_or(' ');
    known.then(|| (line.get(5 + sixth.len_utf8()..).unwrap_or(""), !matches!(sixth, ' ' | '0' | '\t')))
}

/// Returns the label's place, where the statement field begins, and whether the line continues the one before; `None` for lines without
/// a statement.
fn fixed_fields(line: &str) -> Option<(Option<Span>, usize, bool)> {
    let first = line.chars().next()?;
    if "cC*!#dD".contains(first)
        || line.trim().is_empty()
        || line.trim_start().starts_with('!') && line.find('!') != Some(5)
    {
        return None;
    }
    let digits = |field: &str| {
        let text = field.trim();
        let at = field.len() - field.trim_start().len();
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(at..at + text.len())
    };
    if let Some(tab) = line.find('\t').filter(|tab| *tab < 6) {
        let sixth = line[tab + 1..].chars().next().filter(|c| ('1'..='9').contains(c));
        return Some((digits(&line[..tab]), tab + 1 + usize::from(sixth.is_some()), sixth.is_some()));
    }
    let (Some(head), Some(sixth)) = (line.get(..5), line.get(5..).and_then(|rest| rest.chars().next())) else {
        return Some((digits(line), line.len(), false));
    };
    let goes_on = sixth != ' ' && sixth != '0' && head.trim().is_empty();
    Some((digits(head), 5 + sixth.len_utf8(), goes_on))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Form = Form::Fixed { columns: 72 };

    #[test]
    fn free_form_is_joined_and_bytes_keep_their_place() {
        let text = "x = 1 ! one\n\ncall f(a, & ! more\n ! between\n   & 'b&\n  &c;!') ; y = 2\n";
        let source = Source::new(text, Form::Free, "a.f90");
        let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
        assert_eq!(lines, ["x = 1", "call f(a,  'bc;!')", "y = 2"]);
        let at = source.code.find("y = 2").unwrap();
        let span = source.span(at..at + 5);
        assert_eq!((&text[span.clone()], source.place(span.start).0.number), ("y = 2", 6));
    }

    #[test]
    fn fixed_form_has_fields_and_continuation() {
        let long = format!("      y = 'it''s'{}cut", " ".repeat(57));
        let text = format!("C comment\n   10 x = 1\n      call f(a,\nc between\n     & b) ! c\n{long}\n\tz = 3\n");
        let source = Source::new(&text, FIXED, "a.f");
        let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
        assert_eq!(lines, ["10 x = 1", "call f(a, b)", "y = 'it''s'", "z = 3"]);
    }

    #[test]
    fn loops_to_a_label_end_with_end_do() {
        let text = "      DO 10 I = 1, N\n      DO 10 J = 1, M\n   10 A(I,J) = 0\n      DO 20 I=1,N\n   20 CONTINUE\n      do 30, k=1,2\n   30 enddo\n      x=1\n";
        let source = Source::new(text, FIXED, "a.f");
        let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "DO    I = 1, N",
                "DO    J = 1, M",
                "A(I,J) = 0",
                "end do",
                "end do",
                "DO    I=1,N",
                "CONTINUE",
                "end do",
                "do   , k=1,2",
                "enddo",
                "x=1"
            ]
        );
        let end = source.code.find("end do").unwrap() + 6;
        assert!(text[..source.span(end - 6..end).end].ends_with("A(I,J) = 0"));
    }

    #[test]
    fn directives_stand_before_what_follows() {
        let text = "x = 1\n!$ACC kernels copy(a) & ! c\n!$acc & copyin(b)\n# 40 \"b.f90\"\n!$acc loop independent\ndo i = 1, n\nend do\n!$acc end kernels\n";
        let source = Source::new(text, Form::Free, "a.f90");
        let names: Vec<&str> = source.directives.iter().map(|placed| placed.directive.name.as_str()).collect();
        assert_eq!(names, ["kernels", "loop", "end kernels"]);
        let at = source.code.find("do i").unwrap();
        let before: Vec<&str> = source.directives_before(at).map(|placed| placed.directive.name.as_str()).collect();
        assert_eq!(before, ["loop", "kernels"]);
        assert_eq!(source.place(source.start(at)).0, Line { file: "b.f90".into(), number: 41 });
        assert_eq!(source.directives_before(source.code.len()).count(), 1);
    }

    #[test]
    fn fixed_sentinels_go_on_by_column_6() {
        let text = "c$acc kernels copy(\nC$ACC+ a)\n      x = 1\n*$acc0end kernels\n";
        let source = Source::new(text, FIXED, "a.f");
        let clauses = &source.directives[0].directive.clauses;
        assert_eq!((clauses[0].name.as_str(), clauses[0].argument.as_deref()), ("copy", Some("a")));
        assert_eq!(source.directives[1].directive.name, "end kernels");
    }
}

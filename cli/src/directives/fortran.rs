//! Directives and statements in Fortran, in free and fixed form, with continuation.

use super::{Directive, Form};
use accord_kernels::text::{split, without_comment};
use std::ops::Range;

/// A line of the source, without its end.
struct Line<'a> {
    text: &'a str,
    start: usize,
}

fn lines(source: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    source
        .split('\n')
        .map(|text| {
            let line = Line { text: text.strip_suffix('\r').unwrap_or(text), start };
            start += text.len() + 1;
            line
        })
        .collect()
}

/// Returns all directives in free form: `!$acc` after blanks. A `&` at the end of a line continues after the next
/// sentinel.
pub(super) fn scan_free(source: &str) -> Vec<Directive> {
    collect(source, |lines, at| {
        let mut text = free_sentinel(lines[at].text)?.to_owned();
        let mut last = at;
        loop {
            let bare = without_comment(&text).trim_end();
            let Some(open) = bare.strip_suffix('&') else {
                return Some((bare.to_owned(), last));
            };
            text = open.to_owned();
            // Comment lines may be in between.
            let next = (last + 1..lines.len()).find(|&next| !is_blank_or_comment(lines[next].text));
            let Some((next, more)) = next.and_then(|next| Some((next, free_sentinel(lines[next].text)?))) else {
                return Some((text, last));
            };
            let more = more.trim_start();
            text.push_str(more.strip_prefix('&').unwrap_or(more));
            last = next;
        }
    })
}

/// Returns all directives in fixed form: `!$acc`, `c$acc` or `*$acc` in column 1. A sign in column 6 continues a
/// directive.
pub(super) fn scan_fixed(source: &str) -> Vec<Directive> {
    collect(source, |lines, at| {
        let (first, goes_on) = fixed_sentinel(lines[at].text)?;
        if goes_on {
            return None;
        }
        let mut text = without_comment(first).trim_end().to_owned();
        let mut last = at;
        while let Some((more, true)) = lines.get(last + 1).and_then(|line| fixed_sentinel(line.text)) {
            text.push_str(without_comment(more).trim_end());
            last += 1;
        }
        Some((text, last))
    })
}

/// Calls `read` at each line, which returns the text and the last line of a directive that begins there.
fn collect(source: &str, read: impl Fn(&[Line<'_>], usize) -> Option<(String, usize)>) -> Vec<Directive> {
    let lines = lines(source);
    let mut found = Vec::new();
    let (mut at, mut file, mut shift) = (0, None, 0i64);
    while at < lines.len() {
        if let Some((number, name)) = marker(lines[at].text) {
            shift = number - at as i64 - 2;
            file = name.or(file);
        } else if let Some((text, last)) = read(&lines, at) {
            let place: Range<usize> = lines[at].start..lines[last].start + lines[last].text.len();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let line = u32::try_from(at as i64 + 1 + shift).unwrap_or(0);
            found.push(Directive { text, file: file.clone(), line, place, form: Form::Line });
            at = last;
        }
        at += 1;
    }
    found
}

/// A statement in a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Statement {
    /// Its first line in the text, from 1.
    pub(super) line: u32,
    /// The range of its whole lines, except for the last line end.
    pub(super) place: Range<usize>,
    /// The text on one line, without comments and without its label.
    pub(super) text: String,
    /// Whether its lines contain no other statement, and no label before an `if`.
    pub(super) alone: bool,
}

/// Returns all statements of a source, in fixed or free form.
pub(super) fn statements(source: &str, fixed: bool) -> Vec<Statement> {
    let lines = lines(source);
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (first, mut last) = (at, at);
        at += 1;
        let text = match fixed {
            true => {
                let Some((text, false)) = fixed_line(lines[first].text) else { continue };
                let mut text = text.to_owned();
                for (next, line) in lines.iter().enumerate().skip(first + 1) {
                    match fixed_line(line.text) {
                        Some((more, true)) => {
                            text.push_str(more);
                            last = next;
                        }
                        Some((_, false)) => break,
                        None => {}
                    }
                }
                text
            }
            false => {
                if lines[first].text.trim_start().is_empty() || lines[first].text.trim_start().starts_with(['!', '#']) {
                    continue;
                }
                let mut text = without_comment(lines[first].text).trim().to_owned();
                for (next, line) in lines.iter().enumerate().skip(first + 1) {
                    let Some(open) = text.strip_suffix('&') else { break };
                    if is_blank_or_comment(line.text) {
                        continue;
                    }
                    let more = without_comment(line.text).trim();
                    text = format!("{open}{}", more.strip_prefix('&').unwrap_or(more));
                    last = next;
                }
                text
            }
        };
        at = last + 1;
        let place = lines[first].start..lines[last].start + lines[last].text.len();
        let several = split(&text, ';');
        for one in &several {
            let bare = one.trim_start_matches(|c: char| c.is_ascii_digit()).trim();
            let labelled_if =
                bare.len() < one.len() && bare.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("if"));
            found.push(Statement {
                line: u32::try_from(first + 1).unwrap_or(0),
                place: place.clone(),
                text: bare.to_owned(),
                alone: several.len() == 1 && !labelled_if,
            });
        }
    }
    found
}

/// Returns file and line number of line `physical` of a source, by its line markers.
pub(super) fn displayed(source: &str, physical: u32) -> (Option<String>, u32) {
    let (mut file, mut shift) = (None, 0);
    for (at, line) in (1..i64::from(physical)).zip(source.lines()) {
        if let Some((number, name)) = marker(line) {
            shift = number - at - 1;
            file = name.or(file);
        }
    }
    (file, u32::try_from(i64::from(physical) + shift).unwrap_or(physical))
}

/// Returns the statement field of a line in fixed form, label included, and whether it continues the previous line.
/// Returns `None` for comments, directives and empty lines.
fn fixed_line(line: &str) -> Option<(&str, bool)> {
    let first = line.chars().next()?;
    if "cC*!#dD".contains(first) || line.trim().is_empty() || line.trim_start().starts_with('!') {
        return None;
    }
    let sixth = line.get(5..6).filter(|_| !line.get(..6).is_some_and(|head| head.contains('\t')));
    let goes_on =
        sixth.is_some_and(|c| c != " " && c != "0") && line.get(..5).is_some_and(|head| head.trim().is_empty());
    let text = if goes_on { &line[6..] } else { line };
    Some((without_comment(text).trim(), goes_on))
}

/// Returns the text after `!$acc`.
fn free_sentinel(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.get(5..).filter(|_| line[..5].eq_ignore_ascii_case("!$acc"))?;
    (rest.is_empty() || rest.starts_with([' ', '\t', '&', '!'])).then_some(rest)
}

/// Returns columns 7 and on of a line with a sentinel, and whether it continues the previous line.
fn fixed_sentinel(line: &str) -> Option<(&str, bool)> {
    let sentinel = line.get(..5)?;
    let known = ["!$acc", "c$acc", "*$acc"].iter().any(|known| sentinel.eq_ignore_ascii_case(known));
    let sixth = line.get(5..)?.chars().next().unwrap_or(' ');
    known.then(|| (line.get(5 + sixth.len_utf8()..).unwrap_or(""), !matches!(sixth, ' ' | '0' | '\t')))
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || (line.starts_with('!') && free_sentinel(line).is_none())
}

/// Parses `# 12 "file"`.
fn marker(line: &str) -> Option<(i64, Option<String>)> {
    let rest = line.strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let name = rest[end..].trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
    Some((rest[..end].parse().ok()?, name.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(source: &str) -> Vec<(u32, String)> {
        scan_free(source).into_iter().map(|directive| (directive.line, directive.text)).collect()
    }

    fn fixed(source: &str) -> Vec<(u32, String)> {
        scan_fixed(source).into_iter().map(|directive| (directive.line, directive.text)).collect()
    }

    #[test]
    fn free_form_goes_on_after_an_ampersand() {
        assert_eq!(free("x = 1\n  !$ACC set device_num(1) ! so\n"), [(2, "set device_num(1)".to_owned())]);
        let source = "!$acc data copy(a) & ! first\n! between\n\n!$acc   & copyin(b)\ny = 2\n!$acc end data";
        assert_eq!(free(source), [(1, "data copy(a) copyin(b)".to_owned()), (6, "end data".to_owned())]);
        assert_eq!(free("!$acc wait(1,&\n!$acc&2)\n"), [(1, "wait(1,2)".to_owned())]);
        assert_eq!(free("!$acc parallel & \nx = 1\n"), [(1, "parallel".to_owned())]);
    }

    #[test]
    fn free_form_knows_what_is_none() {
        for none in ["print *, '!$acc init'\n", "x = 1 !$acc init\n", "!$omp parallel\n", "! $acc init\n", "!$accel\n"]
        {
            assert_eq!(free(none), [], "{none}");
        }
    }

    #[test]
    fn fixed_form_goes_on_by_column_6() {
        let source = "c$acc set device_num(\nC$ACC+ 1)\n      x = 1\n!$acc init\n*$acc0shutdown\n";
        let all = [(1, "set device_num( 1)"), (4, "init"), (5, "shutdown")];
        assert_eq!(fixed(source), all.map(|(line, text)| (line, text.to_owned())));
        assert_eq!(fixed("      x = 1\nc    $acc init\n !$acc init\n"), []);
    }

    #[test]
    fn strings_may_have_exclamation_marks() {
        assert_eq!(free("!$acc wait(f('!')) ! c\n"), [(1, "wait(f('!'))".to_owned())]);
    }

    #[test]
    fn statements_are_read_in_both_forms() {
        let free =
            "x = 1 ! so\n! none\ncall f(1, & ! more\n  ! between\n  & 2); y = ';'\n10 if (a) b = 1\n!$acc wait\n";
        let found = statements(free, false);
        let texts: Vec<(u32, &str, bool)> = found.iter().map(|one| (one.line, &*one.text, one.alone)).collect();
        assert_eq!(
            texts,
            [(1, "x = 1", true), (3, "call f(1,  2)", false), (3, "y = ';'", false), (6, "if (a) b = 1", false)]
        );
        let fixed = "c     none\n      x = 1\n   10 call f(1,\n\nC$acc wait\n     &  2)\n\ty = 2\n";
        let found = statements(fixed, true);
        let texts: Vec<(u32, &str)> = found.iter().map(|one| (one.line, &*one.text)).collect();
        assert_eq!(texts, [(2, "x = 1"), (3, "call f(1,2)"), (7, "y = 2")]);
        assert_eq!(displayed("# 40 \"x.F90\"\n\nx\n", 3), (Some("x.F90".into()), 41));
    }

    #[test]
    fn markers_count() {
        assert_eq!(free("# 40 \"x.F90\"\n\n!$acc init\n"), [(41, "init".to_owned())]);
    }
}

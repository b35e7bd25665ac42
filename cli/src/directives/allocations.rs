//! `allocate` and `deallocate` of allocatables with `declare create`, which make them present and absent (OpenACC 3.3,
//! 2.13.2). GCC omits that; an `enter data` or `exit data` next to the statement does it.

use super::clause::Parsed;
use super::components::word;
use super::declared::Declared;
use super::fortran::{self, Statement};
use super::pieces::{Edit, Piece};
use super::{Directive, Language};
use accord_kernels::text::split;

/// An `allocate` or `deallocate` statement, with the relevant variables.
struct Allocation<'a> {
    begins: bool,
    /// The condition of an `if` around the statement.
    condition: Option<&'a str>,
    /// The statement without its `if`.
    text: &'a str,
    names: Vec<&'a str>,
    /// Whether a failure does not end the program.
    may_fail: bool,
}

/// Returns the insertions of directives at all statements where that is possible.
pub(super) fn edits(source: &str, language: Language, all: &[(&Directive, &Parsed)], declared: &Declared) -> Vec<Edit> {
    let statements = fortran::statements(source, language == Language::FixedFortran);
    let relevant = statements.iter().filter_map(|statement| Some((statement, read(statement, all, declared)?)));
    let changeable = relevant.filter(|(statement, _)| statement.alone);
    changeable
        .map(|(statement, allocation)| {
            let lines = source[statement.place.clone()].to_owned();
            let (file, line) = fortran::shown(source, statement.line);
            Edit::of_lines(statement.place.clone(), file, line, allocation.pieces(lines))
        })
        .collect()
}

/// Whether some `allocate` or `deallocate` of a lower-case name stands where no directive can be inserted.
pub(super) fn is_left(
    name: &str,
    source: &str,
    language: Language,
    all: &[(&Directive, &Parsed)],
    declared: &Declared,
) -> bool {
    let statements = fortran::statements(source, language == Language::FixedFortran);
    let mut left = statements.iter().filter(|statement| !statement.alone);
    left.any(|statement| {
        read(statement, all, declared).is_some_and(|one| one.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
    })
}

/// Whether another clause than `declare` creates this variable on devices, so that the program manages it itself.
pub(super) fn is_made(all: &[(&Directive, &Parsed)], name: &str) -> bool {
    let clauses = all.iter().filter(|(_, parsed)| parsed.name != "declare").flat_map(|(_, parsed)| &parsed.clauses);
    clauses
        .filter(|clause| ["copy", "copyin", "create"].iter().any(|kind| clause.name.ends_with(kind)))
        .flat_map(|clause| split(clause.argument.as_deref().unwrap_or(""), ','))
        .any(|variable| variable.eq_ignore_ascii_case(name))
}

fn read<'a>(statement: &'a Statement, all: &[(&Directive, &Parsed)], declared: &Declared) -> Option<Allocation<'a>> {
    let (condition, text) = conditional(&statement.text);
    let (begins, list) = match word(text).to_ascii_lowercase().as_str() {
        "allocate" => (true, text["allocate".len()..].trim_start()),
        "deallocate" => (false, text["deallocate".len()..].trim_start()),
        _ => return None,
    };
    let list = list.strip_prefix('(')?.strip_suffix(')')?;
    let list = list.rsplit_once("::").map_or(list, |(_, list)| list);
    let (mut names, mut may_fail) = (Vec::new(), false);
    for item in split(list, ',') {
        let name = word(item);
        let rest = item[name.len()..].trim_start();
        match rest.chars().next() {
            Some('=') => may_fail |= name.eq_ignore_ascii_case("stat"),
            None | Some('(') => {
                let lower = name.to_ascii_lowercase();
                let whole = rest.is_empty() || rest.ends_with(')') && !rest.contains('%');
                if whole && declared.is_allocated_present(statement.line, &lower) && !is_made(all, &lower) {
                    names.push(name);
                }
            }
            Some(_) => {}
        }
    }
    (!names.is_empty()).then_some(Allocation { begins, condition, text, names, may_fail })
}

/// Splits an `if` statement into condition and statement; other statements have no condition.
fn conditional(text: &str) -> (Option<&str>, &str) {
    if !word(text).eq_ignore_ascii_case("if") {
        return (None, text);
    }
    let rest = text[2..].trim_start();
    let mut depth = 0usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (Some(rest[1..at].trim()), rest[at + 1..].trim_start());
                }
            }
            _ => {}
        }
    }
    (None, text)
}

impl Allocation<'_> {
    /// Returns the statement with its directives; `lines` are its source lines.
    fn pieces(&self, lines: String) -> Vec<Piece> {
        let directive = |list: &str, condition: &str| {
            Piece::Pragma(match self.begins {
                true => format!("enter data create({list}){condition}"),
                false => format!("exit data delete({list}) finalize{condition}"),
            })
        };
        let directives: Vec<Piece> = match self.may_fail {
            true => self.names.iter().map(|name| directive(name, &format!(" if(allocated({name}))"))).collect(),
            false => vec![directive(&self.names.join(", "), "")],
        };
        let own = match self.condition {
            Some(_) => Piece::Code(self.text.to_owned()),
            None => Piece::Lines(lines),
        };
        let mut pieces = match self.begins {
            true => std::iter::once(own).chain(directives).collect::<Vec<_>>(),
            false => directives.into_iter().chain([own]).collect(),
        };
        if let Some(condition) = self.condition {
            pieces.insert(0, Piece::Code(format!("if ({condition}) then")));
            pieces.push(Piece::Code("end if".into()));
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Outside, rewrite};
    use super::*;

    /// Returns the lines that a rewrite adds to a program with these statements.
    fn new(statements: &str) -> Vec<String> {
        let module = "module m\nreal, allocatable :: x(:), y(:, :), z(:)\n!$acc declare create(x, y)\nend module\n";
        let source = format!("{module}subroutine s\nuse m\n{statements}\nend\n");
        let text = rewrite(&source, Language::FreeFortran, "p.f90", &Outside::default()).map(|new| new.text);
        let text = text.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !source.lines().any(|old| old == *line));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn allocations_get_directives() {
        assert_eq!(new("allocate (x(3), z(2), Y(2, n), source=0.0)"), ["!$acc enter data create(x, Y)"]);
        assert_eq!(new("allocate (real :: x(3), stat=e)"), ["!$acc enter data create(x) if(allocated(x))"]);
        assert_eq!(new("deallocate (x, &\n  y)"), ["!$acc exit data delete(x, y) finalize"]);
        let lines = ["if (.not. allocated(x)) then", "allocate (x(f(3)))", "!$acc enter data create(x)", "end if"];
        assert_eq!(new("if (.not. allocated(x)) allocate (x(f(3)))"), lines);
        assert_eq!(new("allocate (z(3))"), [""; 0]);
        assert_eq!(new("allocate (c%x(3))"), [""; 0]);
        assert_eq!(new("allocate (x(3)); x = 1"), [""; 0]);
        assert_eq!(new("allocate (x(3))\n!$acc enter data copyin(x)"), [""; 0], "the program does it");
    }
}

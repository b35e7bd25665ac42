//! `allocate` and `deallocate` of allocatables with `declare create`, which make them present and absent (OpenACC 3.3,
//! 2.13.2). GCC omits that; an `enter data` or `exit data` next to the statement does it. `move_alloc` needs both. An assignment
//! that may allocate is only reported, because its effect is known at run time.

use super::clause::Parsed;
use super::components::word;
use super::declared::Declared;
use super::finding::{Finding, Severity};
use super::fortran::{self, Statement};
use super::pieces::{Edit, Piece};
use super::{Directive, Language};
use accord_kernels::text::split;

/// An `allocate`, `deallocate` or `move_alloc` statement, with the relevant variables.
struct Allocation<'a> {
    /// The condition of an `if` around the statement.
    condition: Option<&'a str>,
    /// The statement without its `if`.
    text: &'a str,
    names: Vec<&'a str>,
    /// Directives before and after the statement.
    before: Vec<String>,
    after: Vec<String>,
}

/// Returns the insertions of directives at all statements where that is possible.
pub(super) fn edits(source: &str, language: Language, all: &[(&Directive, &Parsed)], declared: &Declared) -> Vec<Edit> {
    let statements = fortran::statements(source, language == Language::FixedFortran);
    let relevant = statements.iter().filter_map(|statement| Some((statement, read(statement, all, declared)?)));
    let changeable = relevant.filter(|(statement, _)| statement.alone);
    changeable
        .map(|(statement, allocation)| {
            let lines = source[statement.place.clone()].to_owned();
            let (file, line) = fortran::displayed(source, statement.line);
            Edit::of_lines(statement.place.clone(), file, line, allocation.pieces(lines))
        })
        .collect()
}

/// Returns findings on statements that may allocate and can't get a directive.
pub(super) fn findings(
    source: &str,
    language: Language,
    all: &[(&Directive, &Parsed)],
    declared: &Declared,
) -> Vec<Finding> {
    let found = fortran::statements(source, language == Language::FixedFortran).into_iter().filter_map(|statement| {
        let present = |name: &str| is_present(name, statement.line, all, declared);
        let (_, text) = conditional(&statement.text);
        let (what, name) = match (assigned(text), moved(text)) {
            (Some(name), _) if present(name) => ("an assignment may allocate", name),
            (_, Some((from, to))) if present(from) && present(to) => {
                ("move_alloc moves no memory of the device to", to)
            }
            _ => return None,
        };
        let (file, line) = fortran::displayed(source, statement.line);
        let message = format!("{what} {name}, which has declare create: nothing of it is on the device then");
        let remedy = format!("exit data delete({name}) finalize before it, enter data create({name}) after it");
        Some(Finding { file, line, severity: Severity::Wrong, message, remedy, rewritten: false, everywhere: false })
    });
    found.collect()
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
    let present = |name: &str| is_present(name, statement.line, all, declared);
    let directive = |begins, list: &str, condition: &str| match begins {
        true => format!("enter data create({list}){condition}"),
        false => format!("exit data delete({list}) finalize{condition}"),
    };
    let if_allocated = |begins, name: &str| directive(begins, name, &format!(" if(allocated({name}))"));
    if let Some((from, to)) = moved(text) {
        let (names, after) = match (present(from), present(to)) {
            (true, false) => (vec![from], vec![]),
            (false, true) => (vec![to], vec![if_allocated(true, to)]),
            _ => return None,
        };
        let before = names.iter().map(|name| if_allocated(false, name)).collect();
        return Some(Allocation { condition, text, names, before, after });
    }
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
                let whole = rest.is_empty() || rest.ends_with(')') && !rest.contains('%');
                if whole && present(name) {
                    names.push(name);
                }
            }
            Some(_) => {}
        }
    }
    if names.is_empty() {
        return None;
    }
    let directives = match may_fail {
        true => names.iter().map(|name| if_allocated(begins, name)).collect(),
        false => vec![directive(begins, &names.join(", "), "")],
    };
    let (before, after) = if begins { (vec![], directives) } else { (directives, vec![]) };
    Some(Allocation { condition, text, names, before, after })
}

/// Whether `allocate` in this line should make a variable present, and no directive of the program does.
fn is_present(name: &str, line: u32, all: &[(&Directive, &Parsed)], declared: &Declared) -> bool {
    let lower = name.to_ascii_lowercase();
    declared.is_allocated_present(line, &lower) && !is_made(all, &lower)
}

/// Returns the variables of a `call move_alloc(from, to)`.
fn moved(text: &str) -> Option<(&str, &str)> {
    let rest = text.get("call".len()..).filter(|_| word(text).eq_ignore_ascii_case("call"))?.trim_start();
    let list = rest.get("move_alloc".len()..).filter(|_| word(rest).eq_ignore_ascii_case("move_alloc"))?;
    let list = split(list.trim().strip_prefix('(')?.strip_suffix(')')?, ',');
    let argument = |at: usize, keyword: &str| {
        let named = list.iter().filter_map(|one| one.split_once('='));
        let mut named = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case(keyword));
        let by_place = || list.get(at).copied().filter(|one| !one.contains('='));
        named.next().map(|(_, variable)| variable.trim()).or_else(by_place)
    };
    Some((argument(0, "from")?, argument(1, "to")?))
}

/// Returns the variable that an assignment may reshape, because the right-hand side constructs an array.
fn assigned(text: &str) -> Option<&str> {
    let name = word(text);
    let right = text[name.len()..].trim_start().strip_prefix('=')?.trim_start();
    let makes = right.starts_with('[') || right.starts_with("(/") || word(right).eq_ignore_ascii_case("reshape");
    (makes && !name.is_empty()).then_some(name)
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
        let own = match self.condition {
            Some(_) => Piece::Code(self.text.to_owned()),
            None => Piece::Lines(lines),
        };
        let pragmas = |all: &[String]| all.iter().cloned().map(Piece::Pragma).collect::<Vec<_>>();
        let mut pieces = pragmas(&self.before);
        pieces.push(own);
        pieces.extend(pragmas(&self.after));
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
    fn statements_that_may_allocate_are_found() {
        let found = |statement: &str| {
            let module = "module m\nreal, allocatable :: x(:), y(:, :), z(:)\n!$acc declare create(x, y)\nend module\n";
            let source = format!("{module}subroutine s\nuse m\n{statement}\nend\n");
            let found = super::super::findings(&source, Language::FreeFortran, 12, &Outside::default());
            found.into_iter().filter(|one| one.line == 7).map(|one| one.message).collect::<Vec<_>>()
        };
        for statement in ["x = [x, 1.0]", "if (n > 0) X = (/ 1.0 /)", "y = reshape(z, [2, 2])"] {
            assert!(found(statement).concat().starts_with("an assignment may allocate"), "{statement}");
        }
        assert!(found("call move_alloc(x, y)").concat().starts_with("move_alloc moves no memory"));
        for statement in
            ["x = 1.0", "x(:) = [1.0, 2.0]", "z = [1.0]", "x == [1.0]", "call move_alloc(z, x)", "call f(x)"]
        {
            assert!(found(statement).is_empty(), "{statement}");
        }
    }

    #[test]
    fn allocations_get_directives() {
        assert_eq!(new("allocate (x(3), z(2), Y(2, n), source=0.0)"), ["!$acc enter data create(x, Y)"]);
        assert_eq!(new("allocate (real :: x(3), stat=e)"), ["!$acc enter data create(x) if(allocated(x))"]);
        assert_eq!(new("deallocate (x, &\n  y)"), ["!$acc exit data delete(x, y) finalize"]);
        let lines = ["if (.not. allocated(x)) then", "allocate (x(f(3)))", "!$acc enter data create(x)", "end if"];
        assert_eq!(new("if (.not. allocated(x)) allocate (x(f(3)))"), lines);
        assert_eq!(new("allocate (z(3))"), [""; 0]);
        let lines =
            ["!$acc exit data delete(X) finalize if(allocated(X))", "!$acc enter data create(X) if(allocated(X))"];
        assert_eq!(new("call move_alloc(z, X)"), lines);
        assert_eq!(new("CALL Move_Alloc (to = X, stat=e, from=z)"), lines);
        assert_eq!(new("call move_alloc(x, z)"), ["!$acc exit data delete(x) finalize if(allocated(x))"]);
        assert_eq!(new("call move_alloc(x, y)"), [""; 0], "device memory of the one would have to become the other's");
        assert_eq!(new("call move_alloc(z, c%x)"), [""; 0]);
        assert_eq!(new("allocate (c%x(3))"), [""; 0]);
        assert_eq!(new("allocate (x(3)); x = 1"), [""; 0]);
        assert_eq!(new("allocate (x(3))\n!$acc enter data copyin(x)"), [""; 0], "the program does it");
    }
}

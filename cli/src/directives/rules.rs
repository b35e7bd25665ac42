//! Rules for what GCC silently omits, gets wrong or refuses, and the remedies. docs/use/gcc.md has the table.

use super::calls::{WaitList, calls_for};
use super::clause::{Clause, DATA_CLAUSES, Parsed, is_scattered};
use super::declared::{Declared, Outside};
use super::declared_update::{WAYS, is_left_out};
use super::finding::{Finding, Severity};
use super::{Directive, Language, clause_findings, components, elements, repeated, scan, source_findings};
use accord_kernels::text::split;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: &[&str] = &[
    "parallel",
    "parallel loop",
    "kernels",
    "kernels loop",
    "serial",
    "serial loop",
    "loop",
    "data",
    "enter data",
    "exit data",
    "host_data",
    "atomic",
    "atomic read",
    "atomic write",
    "atomic update",
    "atomic capture",
    "cache",
    "declare",
    "update",
    "wait",
    "routine",
    "end",
    "end parallel",
    "end kernels",
    "end serial",
    "end data",
    "end host_data",
    "end atomic",
];

/// Returns the findings for a source and GCC of major version `gcc`; `outside` has the declarations of other files.
pub(crate) fn findings(source: &str, language: Language, gcc: u32, outside: &Outside) -> Vec<Finding> {
    let directives = scan(source, language);
    let parsed: Vec<Parsed> = directives.iter().map(|directive| Parsed::new(&directive.text)).collect();
    let all: Vec<(&Directive, &Parsed)> = directives.iter().zip(&parsed).collect();
    let declared = Declared::new(source, language, &all, outside);
    let constants = clause_findings::constants(source, language.is_fortran());
    let mut found = Vec::new();
    for (directive, parsed) in directives.iter().zip(&parsed) {
        let judge = Judge {
            directive,
            parsed,
            language,
            fortran: language.is_fortran(),
            gcc,
            declared: &declared,
            constants: &constants,
        };
        judge.all(&mut found);
    }
    if language.is_fortran() {
        found.extend(components_of_arrays(source, &parsed));
    }
    found.extend(source_findings::findings(source, language, gcc, &all, &declared));
    found.extend(elements::findings(source, language, &all));
    found.sort_by_key(|finding| finding.line);
    found
}

/// Returns findings about pointers to a component of an allocatable array that a data clause names.
fn components_of_arrays(source: &str, all: &[Parsed]) -> Vec<Finding> {
    let clauses = || all.iter().flat_map(|parsed| &parsed.clauses);
    let lists = clauses().filter(|clause| DATA_CLAUSES.contains(&clause.name.as_str()));
    let lists: Vec<String> =
        lists.filter_map(|clause| clause.argument.as_deref()).map(str::to_ascii_lowercase).collect();
    let names: BTreeSet<&str> = lists.iter().flat_map(|list| split(list, ',')).map(components::word).collect();
    let assignments = components::assignments(source).into_iter();
    let named = assignments.filter(|assignment| names.contains(assignment.pointer.as_str()));
    named
        .map(|components::Assignment { line, pointer, array, better }| Finding {
            file: None,
            line,
            severity: Severity::Wrong,
            message: format!(
                "{pointer} points to a component of {array}: GCC describes its elements as whole ones, and data clauses of {pointer} are \
                 right with debug information (-g) only"
            ),
            remedy: better,
            rewritten: false,
            everywhere: false,
        })
        .collect()
}

struct Judge<'a> {
    directive: &'a Directive,
    parsed: &'a Parsed,
    language: Language,
    fortran: bool,
    gcc: u32,
    declared: &'a Declared,
    constants: &'a BTreeMap<String, u64>,
}

impl Judge<'_> {
    fn all(&self, found: &mut Vec<Finding>) {
        use Severity::{Ignored, Refused, Wrong};
        let name = self.parsed.name.as_str();
        let compute = ["parallel", "kernels", "serial"].iter().any(|known| name.split(' ').next() == Some(known));
        let mut say = |severity, message: String, remedy: String, rewritten| {
            found.push(Finding { rewritten, ..Finding::at(self.directive, severity, message, remedy) });
        };
        if let Some(calls) = calls_for(&self.directive.text) {
            let severity = if self.fortran || name == "wait" { Refused } else { Ignored };
            say(
                severity,
                format!("GCC doesn't know \"acc {}\"", self.directive.text),
                calls.displayed(self.fortran),
                true,
            );
            return;
        }
        if matches!(name, "set" | "init" | "shutdown") {
            let severity = if self.fortran { Refused } else { Ignored };
            say(
                severity,
                format!("GCC doesn't know \"acc {name}\", and its clauses make no call"),
                "call the routine of chapter 3".into(),
                false,
            );
            return;
        }
        if !self.fortran && !NAMES.contains(&name) {
            say(
                Ignored,
                format!("there is no directive \"acc {name}\": GCC leaves the whole line out"),
                "correct its name".into(),
                false,
            );
            return;
        }
        if compute {
            self.compute(&mut say);
        }
        for clause in &self.parsed.clauses {
            let argument = clause.argument.as_deref().unwrap_or("");
            for (severity, message, remedy) in
                clause_findings::judge(clause, self.parsed, self.fortran, self.gcc, self.constants)
            {
                say(severity, message, remedy, false);
            }
            if DATA_CLAUSES.contains(&clause.name.as_str()) && !(compute && clause.name == "self") {
                self.data(clause, &mut say);
            }
            match (clause.name.as_str(), name) {
                ("wait", _) if WaitList::new(argument).device.is_some() || WaitList::new(argument).says_queues => {
                    let remedy = format!("a directive of its own ahead of it: {}acc wait({argument})", self.sentinel());
                    say(Refused, format!("GCC doesn't know \"{argument}\" in a wait clause"), remedy, false);
                }
                ("device_type" | "dtype", _) => say(
                    Refused,
                    "GCC doesn't know the clause device_type here".into(),
                    "leave it out, and write the clauses for the device in use".into(),
                    false,
                ),
                ("default", "data") if self.gcc >= 14 => {}
                ("async" | "wait" | "default", "data") => say(
                    Refused,
                    format!("GCC doesn't know the clause {} of data", clause.name),
                    "use enter data and exit data, or leave it out".into(),
                    false,
                ),
                ("num_gangs", _) if split(argument, ',').len() > 1 => say(
                    if self.fortran { Refused } else { Wrong },
                    format!(
                        "num_gangs({argument}) has several dimensions: GCC {}",
                        if self.fortran { "refuses that" } else { "takes the last one" }
                    ),
                    format!("num_gangs({})", split(argument, ',').join(" * ")),
                    false,
                ),
                ("gang", _) if argument.starts_with("dim") => {
                    say(Refused, "GCC doesn't know dimensions of gangs".into(), "gang".into(), false);
                }
                ("collapse", _) if argument.starts_with("force") => say(
                    Refused,
                    "GCC doesn't know collapse(force:)".into(),
                    "move what is between the loops into the innermost, and write collapse(n)".into(),
                    false,
                ),
                ("bind", "routine") => say(
                    Refused,
                    "GCC doesn't know bind with a name".into(),
                    "call the other routine under acc_on_device".into(),
                    false,
                ),
                ("if", name) if name.starts_with("atomic") => say(
                    Refused,
                    "GCC doesn't know the clause if of atomic".into(),
                    "an if around two forms of the statement".into(),
                    false,
                ),
                _ => {}
            }
        }
        if name == "update" {
            self.update(&mut say);
        }
        self.repeats(&mut say);
    }

    fn sentinel(&self) -> &'static str {
        if self.fortran { "!$" } else { "#pragma " }
    }

    fn compute(&self, say: &mut impl FnMut(Severity, String, String, bool)) {
        let Some(clause) = self.parsed.clause(&["self"]).filter(|_| self.gcc < 14) else { return };
        let remedy = match (&clause.argument, self.fortran) {
            (None, false) => "if(0)".to_owned(),
            (None, true) => "if(.false.)".to_owned(),
            (Some(condition), false) => format!("if(!({condition}))"),
            (Some(condition), true) => format!("if(.not. ({condition}))"),
        };
        say(
            Severity::Refused,
            "GCC before 14 doesn't know the clause self of compute constructs".into(),
            remedy,
            false,
        );
    }

    fn data(&self, clause: &Clause, say: &mut impl FnMut(Severity, String, String, bool)) {
        let argument = clause.argument.as_deref().unwrap_or("");
        let name = &clause.name;
        for (word, remedy) in [
            ("readonly", "the same without it: it is a hint only"),
            ("zero", "the same without it, and a loop that sets zeros on the device"),
        ] {
            let rest = argument.strip_prefix(word).map(str::trim_start).and_then(|rest| rest.strip_prefix(':'));
            let taken = word == "readonly" && self.gcc >= 14;
            if rest.is_some_and(|rest| !rest.starts_with(':')) && !taken {
                say(Severity::Refused, format!("GCC doesn't know {name}({word}:)"), remedy.into(), false);
            }
        }
        if self.fortran {
            for variable in split(argument, ',')
                .into_iter()
                .filter(|variable| self.parsed.name == "update" && is_scattered(variable))
            {
                say(
                    Severity::Wrong,
                    format!(
                        "{name}({variable}) skips elements: GCC copies one stretch of memory, with what lies between them"
                    ),
                    "single updates, or nothing where both sides have the same values there".into(),
                    false,
                );
            }
            return;
        }
        for variable in split(argument, ',') {
            if variable == "this" {
                say(
                    Severity::Refused,
                    format!("{name}(this): GCC takes no pointer without a name"),
                    format!("{name}(this[0:1])"),
                    false,
                );
            }
            let Some(bad) = inner_part(variable) else { continue };
            let whole = &variable[..variable.find('[').unwrap_or(variable.len())];
            if bad.1 {
                say(
                    Severity::Wrong,
                    format!(
                        "{name}({variable}) has variable bounds in \"{}\": GCC copies one stretch of memory from its first element, not the rows' parts",
                        bad.0
                    ),
                    format!(
                        "whole rows: \"{whole}[first:count][0:width]\" with the array's own width as a constant, or one clause a row; for pointers to pointers attach each row"
                    ),
                    false,
                );
            } else {
                say(
                    Severity::Refused,
                    format!("{name}({variable}) is not contiguous, and GCC takes no such sections"),
                    "whole rows, or one clause a row; for pointers to pointers attach each row".into(),
                    false,
                );
            }
        }
    }

    fn update(&self, say: &mut impl FnMut(Severity, String, String, bool)) {
        for clause in self.parsed.clauses.iter().filter(|clause| WAYS.contains(&clause.name.as_str())) {
            for variable in split(clause.argument.as_deref().unwrap_or(""), ',') {
                if !is_left_out(self.directive.line, variable, self.declared) {
                    continue;
                }
                let (direction, to) = (&clause.name, if clause.name == "device" { "device" } else { "self" });
                let remedy = if self.fortran {
                    format!(
                        "update {direction}({variable}(:)) for an array; for a scalar call acc_update_{to}({variable})"
                    )
                } else {
                    format!(
                        "update {direction}({variable}[0:n]) for an array; for a scalar acc_update_{to}(&{variable}, sizeof {variable})"
                    )
                };
                let message = format!(
                    "GCC drops the update of {variable}, which is a declare variable, where it is named as a whole"
                );
                say(Severity::Ignored, message, remedy, true);
            }
        }
    }

    fn repeats(&self, say: &mut impl FnMut(Severity, String, String, bool)) {
        for array in repeated::repeats(self.parsed, self.language) {
            say(
                Severity::Refused,
                format!("{array} is named more than once: GCC takes one section of an array in a directive"),
                "a directive for each section; on a compute construct one section that has them all".into(),
                repeated::is_mended(self.parsed, self.language),
            );
        }
    }
}

/// Returns a part of an inner dimension (`[1:m]` after another subscript), and whether its bounds are variable. Inner
/// dimensions from 0 may be whole, which depends on the array's type.
fn inner_part(variable: &str) -> Option<(&str, bool)> {
    let mut sections = Vec::new();
    let mut rest = variable;
    while let Some(open) = rest.find('[') {
        let close = rest[open..].find(']')? + open;
        sections.push(&rest[open + 1..close]);
        rest = &rest[close + 1..];
    }
    let constant = |text: &str| !text.trim().is_empty() && text.trim().bytes().all(|byte| byte.is_ascii_digit());
    let mut ranges = sections.iter().skip_while(|section| !section.contains(':'));
    ranges.next()?;
    ranges.find_map(|section| {
        let (first, count) = section.split_once(':')?;
        let from_zero = first.trim().is_empty() || first.trim() == "0";
        if from_zero
            && (count.trim().is_empty()
                || constant(count)
                || count.trim().chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit()))
        {
            return None;
        }
        Some((*section, !(constant(first) && constant(count))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str, language: Language, gcc: u32) -> Vec<Finding> {
        super::findings(source, language, gcc, &Outside::default())
    }

    fn c(source: &str) -> Vec<(u32, Severity, String)> {
        findings(source, Language::C, 12).into_iter().map(|found| (found.line, found.severity, found.remedy)).collect()
    }

    fn severities(source: &str, language: Language, gcc: u32) -> Vec<Severity> {
        findings(source, language, gcc).into_iter().map(|found| found.severity).collect()
    }

    #[test]
    fn lint_names_the_call_for_directives_that_gcc_ignores() {
        let source = "int x;\n#pragma acc set device_num(2)\n#pragma acc paralel loop\n";
        let found = c(source);
        assert_eq!(found[0], (2, Severity::Ignored, "acc_set_device_num(2, acc_device_current)".to_owned()));
        assert_eq!((found[1].0, found[1].1), (3, Severity::Ignored));
        assert_eq!(severities("!$acc set device_num(2)\n", Language::FreeFortran, 12), [Severity::Refused]);
    }

    #[test]
    fn whole_updates_of_declare_variables_are_found() {
        let source =
            "#pragma acc declare create(gd, h)\n#pragma acc update device(gd)\n#pragma acc update self(gd[0:n], k)\n";
        let found = c(source);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1), (2, Severity::Ignored));
        assert!(found[0].2.starts_with("update device(gd[0:n])"));
        let module = "module m\ninteger :: gd(10), k\nreal, allocatable :: h(:)\n!$acc declare create(GD, h)\n";
        let source = format!("{module}contains\nsubroutine s\n!$acc update self(Gd, h)\nend\nend module\n");
        let found = findings(&source, Language::FreeFortran, 14);
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [4, 7]);
        assert!(found.iter().all(|found| found.rewritten));
        assert!(found[0].message.starts_with("declare create(h)"), "{found:?}");
        assert!(found[1].remedy.starts_with("update self(Gd(:)) for an array; for a scalar call acc_update_self(Gd)"));
        let source = "integer :: gd(10)\n!$acc declare create(gd)\n!$acc update self(gd)\n";
        assert_eq!(findings(source, Language::FreeFortran, 14), [], "GCC passes those of programs and procedures");
    }

    #[test]
    fn parts_of_inner_dimensions_are_found() {
        for (clause, expected) in [
            ("copy(r[1:n][1:m])", vec![Severity::Wrong]),
            ("copyin(r[0:n][0:m])", vec![Severity::Wrong]),
            ("copyin(r[0:n][:m+1])", vec![Severity::Wrong]),
            ("copyin(r[1:2][1:2])", vec![Severity::Refused]),
            ("copy(r[1:n][0:N])", vec![]),
            ("copy(r[0:n][0:64], q[1:n])", vec![]),
            ("copy(r[i][1:n])", vec![]),
            ("copy(r[0:n][:])", vec![]),
        ] {
            assert_eq!(severities(&format!("#pragma acc data {clause}\n"), Language::C, 12), expected, "{clause}");
        }
    }

    #[test]
    fn updates_that_skip_elements_are_found() {
        for (clause, expected) in [
            ("self(v(1:9:2))", vec![Severity::Wrong]),
            ("device(w(2, :))", vec![Severity::Wrong]),
            ("self(w(:, f(1, 2)), v(2:n), u(i), x)", vec![]),
        ] {
            assert_eq!(
                severities(&format!("!$acc update {clause}\n"), Language::FreeFortran, 12),
                expected,
                "{clause}"
            );
        }
    }

    #[test]
    fn pointers_to_components_are_found_where_a_clause_names_them() {
        let source = "type(cell), allocatable, target :: cells(:)\np => cells%value\nq => cells%value\n!$acc update self(P(1:3), k)\n";
        let found = findings(source, Language::FreeFortran, 12);
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), [2]);
        assert_eq!(found[0].remedy, "p => cells(:)%value");
    }

    #[test]
    fn clauses_that_gcc_lacks_are_found() {
        for (text, expected) in [
            ("parallel self(x > 1)", Some("if(!(x > 1))")),
            ("parallel loop self", Some("if(0)")),
            ("update self(x)", None),
            ("parallel copyin(readonly: a)", Some("the same")),
            ("enter data create(zero:a)", Some("the same")),
            ("parallel wait(devnum:1:2)", Some("a directive of its own ahead of it: #pragma acc wait(devnum:1:2)")),
            ("parallel num_gangs(2, n)", Some("num_gangs(2 * n)")),
            ("parallel loop gang(dim:2)", Some("gang")),
            ("loop collapse(force:2)", Some("move")),
            ("data copy(x) async(1)", Some("use enter data")),
            ("parallel async(1) wait(2) default(none)", None),
            ("parallel num_gangs(f(1, 2))", None),
            ("atomic update if(x)", Some("an if")),
        ] {
            let found = c(&format!("#pragma acc {text}\n"));
            match expected {
                Some(remedy) => assert!(found.len() == 1 && found[0].2.starts_with(remedy), "{text}: {found:?}"),
                None => assert_eq!(found, [], "{text}"),
            }
        }
        for taken in ["parallel self(x)", "parallel copyin(readonly:a)", "data default(none) copy(x)"] {
            assert_eq!(severities(&format!("#pragma acc {taken}\n"), Language::C, 14), [], "{taken}");
        }
    }

    #[test]
    fn well_known_directives_are_not_found() {
        for good in NAMES.iter().filter(|name| !name.starts_with("end")) {
            assert_eq!(c(&format!("#pragma acc {good}\n")), [], "{good}");
        }
    }
}

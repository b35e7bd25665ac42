//! `update` of whole variables with `declare`, which GCC leaves out, and of several sections of one array, which it refuses
//! (OpenACC 3.3, 2.14.4).
//!
//! In C and C++ the replacement names the bytes at the variable's address. In Fortran an array or a derived type is
//! named in an `associate` construct, where GCC does not recognise the `declare` variable. Any other scalar is copied
//! by a routine.

use super::clause::{Clause, Parsed};
use super::declared::Declared;
use super::pieces::Piece;
use super::{Directive, Language, repeated};
use accord_kernels::text::split;
use std::fmt::Write;

/// Clauses that state the direction of a copy.
pub(super) const WAYS: &[&str] = &["device", "self", "host"];

/// Returns the replacement of an `update`; `None` if GCC handles it.
pub(super) fn pieces(
    directive: &Directive,
    parsed: &Parsed,
    language: Language,
    declared: &Declared,
) -> Option<Vec<Piece>> {
    if language.is_fortran() { fortran(directive, parsed, declared) } else { c(directive, parsed, language, declared) }
}

/// Whether GCC omits a variable of an `update`.
pub(super) fn is_left_out(line: u32, variable: &str, declared: &Declared) -> bool {
    declared.find(line, variable).is_some_and(|traits| !traits.allocatable && !traits.pointer)
}

fn c(directive: &Directive, parsed: &Parsed, language: Language, declared: &Declared) -> Option<Vec<Piece>> {
    let mut pointers: Vec<(String, String)> = Vec::new();
    let clauses = parsed.clauses.iter().map(|clause| {
        each_variable(clause, |variable| {
            if !is_left_out(directive.line, variable, declared) {
                return Some(variable.to_owned());
            }
            let pointer = format!("accord_{}", variable.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
            let section = format!("{pointer}[0:sizeof({variable})]");
            if !pointers.iter().any(|(known, _)| *known == pointer) {
                pointers.push((pointer, variable.to_owned()));
            }
            Some(section)
        })
    });
    let clauses: Vec<Clause> = clauses.flatten().collect();
    let new = Parsed { clauses, ..parsed.clone() };
    let directives = repeated::directives(&new, language);
    if pointers.is_empty() && directives.len() < 2 {
        return None;
    }
    let mut begin = String::from("{");
    for (pointer, variable) in &pointers {
        // Converted through a number, so that no qualifier is cast away.
        let address = match language {
            Language::Cxx => {
                format!("reinterpret_cast<char *>(reinterpret_cast<__UINTPTR_TYPE__>(__builtin_addressof({variable})))")
            }
            _ => format!("(char *)(__UINTPTR_TYPE__)&{variable}"),
        };
        let _ = write!(begin, " char *{pointer} __attribute__((__unused__)) = {address};");
    }
    Some(around(&new, directives, (begin, "}".into()), |condition| (format!("if ({condition}) {{"), "}")))
}

/// Puts the directives between `begin` and `end`. A condition of several directives is evaluated once.
fn around(
    parsed: &Parsed,
    directives: Vec<Parsed>,
    (begin, end): (String, String),
    branch: impl Fn(&str) -> (String, &'static str),
) -> Vec<Piece> {
    let condition = parsed.value(&["if"]).filter(|_| directives.len() > 1);
    let (mut begin, mut end) = (begin, end);
    if let Some((open, close)) = condition.map(branch) {
        begin = format!("{begin} {open}");
        end = format!("{close} {end}");
    }
    let mut pieces = vec![Piece::Code(begin)];
    for mut directive in directives {
        directive.clauses.retain(|clause| condition.is_none() || clause.name != "if");
        pieces.push(Piece::Pragma(directive.text()));
    }
    pieces.push(Piece::Code(end));
    pieces
}

fn fortran(directive: &Directive, parsed: &Parsed, declared: &Declared) -> Option<Vec<Piece>> {
    let (mut names, mut scalars): (Vec<String>, Vec<(&str, String)>) = (Vec::new(), Vec::new());
    let clauses = parsed.clauses.iter().map(|clause| {
        each_variable(clause, |variable| {
            let traits = declared.find(directive.line, variable);
            match traits.filter(|traits| !traits.allocatable && !traits.pointer) {
                None => Some(variable.to_owned()),
                Some(traits) if traits.whole => {
                    if !names.iter().any(|known| known.eq_ignore_ascii_case(variable)) {
                        names.push(variable.to_owned());
                    }
                    Some(variable.to_owned())
                }
                Some(_) => {
                    scalars.push((if clause.name == "device" { "device" } else { "self" }, variable.to_owned()));
                    None
                }
            }
        })
    });
    let clauses: Vec<Clause> = clauses.flatten().collect();
    let new = Parsed { clauses, ..parsed.clone() };
    let rest = new.clauses.iter().any(|clause| WAYS.contains(&clause.name.as_str()));
    let directives = if rest { repeated::directives(&new, Language::FreeFortran) } else { Vec::new() };
    if names.is_empty() && scalars.is_empty() && directives.len() < 2 {
        return None;
    }
    let (mut pieces, mut ends) = (Vec::new(), Vec::new());
    let condition = parsed.value(&["if"]).filter(|_| directives.len() + scalars.len() > 1 || !scalars.is_empty());
    if let Some(condition) = condition {
        pieces.push(Piece::Code(format!("if ({condition}) then")));
        ends.push("end if");
    }
    if !names.is_empty() {
        let all: Vec<String> = names.iter().map(|name| format!("{name} => {name}")).collect();
        pieces.push(Piece::Code(format!("associate ({})", all.join(", "))));
        ends.push("end associate");
    }
    for mut directive in directives {
        directive.clauses.retain(|clause| condition.is_none() || clause.name != "if");
        pieces.push(Piece::Pragma(directive.text()));
    }
    if !scalars.is_empty() {
        pieces.extend(by_routine(parsed, &scalars));
    }
    pieces.extend(ends.into_iter().rev().map(|end| Piece::Code(end.into())));
    Some(pieces)
}

/// Returns calls of the routines that copy scalars, in the directive's queue and after the queues that it waits for.
fn by_routine(parsed: &Parsed, scalars: &[(&str, String)]) -> Vec<Piece> {
    let queue =
        parsed.clause(&["async"]).map(|clause| clause.argument.clone().unwrap_or_else(|| "acc_async_noval".into()));
    let mut pieces = Vec::new();
    if let Some(wait) = parsed.clause(&["wait"]) {
        let list = wait.argument.as_ref().map_or(String::new(), |list| format!("({list})"));
        let queue = parsed.clause(&["async"]).map_or(String::new(), |clause| format!(" {}", clause.text()));
        pieces.push(Piece::Pragma(format!("wait{list}{queue}")));
    }
    let end = if queue.is_some() { "_async" } else { "" };
    let mut ways: Vec<&str> = scalars.iter().map(|(way, _)| *way).collect();
    ways.dedup();
    let mut routines: Vec<String> = ways.iter().map(|way| format!("accord_{way} => acc_update_{way}{end}")).collect();
    routines.sort();
    routines.dedup();
    if queue.as_deref() == Some("acc_async_noval") {
        routines.push("acc_async_noval".into());
    }
    let mut code = format!("block; use openacc, only: {};", routines.join(", "));
    for (way, variable) in scalars {
        let queue = queue.as_ref().map_or(String::new(), |queue| format!(", int({queue}, 4)"));
        let _ = write!(code, " call accord_{way}({variable}{queue});");
    }
    pieces.push(Piece::Code(format!("{code} end block")));
    pieces
}

/// Returns a clause with its direction and replaced variables; `None` if none is left.
fn each_variable(clause: &Clause, mut new: impl FnMut(&str) -> Option<String>) -> Option<Clause> {
    if !WAYS.contains(&clause.name.as_str()) {
        return Some(clause.clone());
    }
    let list = split(clause.argument.as_deref().unwrap_or(""), ',');
    let list: Vec<String> = list.into_iter().filter_map(&mut new).collect();
    (!list.is_empty()).then(|| Clause { name: clause.name.clone(), argument: Some(list.join(", ")) })
}

//! Directives that name an array twice, which GCC refuses.
//!
//! `update`, `enter data`, `exit data` and `data` are split into several directives. A compute construct may name an
//! array only once: its clauses are merged into one, with all sections and what lies between them.

use super::Language;
use super::clause::{Clause, DATA_CLAUSES, Parsed};
use super::pieces::Piece;
use super::sections;
use accord_kernels::text::split;

/// Directives that can be split into several.
const STANDALONE: &[&str] = &["update", "enter data", "exit data"];

/// Returns the replacement of a directive other than `update`; `None` if it names each array once, or if the clauses
/// can't be merged.
pub(super) fn pieces(parsed: &Parsed, language: Language) -> Option<Vec<Piece>> {
    let name = parsed.name.as_str();
    if repeats(parsed, language).is_empty() {
        return None;
    }
    if is_compute(name) {
        return together(parsed, language).map(|one| vec![Piece::Pragma(one.text())]);
    }
    if name != "data" && !STANDALONE.contains(&name) {
        return None;
    }
    let directives = directives(parsed, language);
    let pragmas = directives.iter().map(|directive| Piece::Pragma(directive.text()));
    if name == "data" || language.is_fortran() {
        return Some(pragmas.collect());
    }
    let mut pieces = vec![Piece::Code("{".into())];
    pieces.extend(pragmas);
    pieces.push(Piece::Code("}".into()));
    Some(pieces)
}

/// Returns the arrays that a directive names more than once, so that GCC refuses it, as written.
pub(super) fn repeats(parsed: &Parsed, language: Language) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (_, variable) in variables(parsed) {
        let array = sections::array(variable, language);
        // gfortran accepts components in `update`.
        if language.is_fortran() && parsed.name == "update" && array.contains('%') {
            continue;
        }
        if seen.contains(&array) && !found.contains(&array) {
            found.push(array);
        } else {
            seen.push(array);
        }
    }
    found
}

/// Whether `pieces` replaces a directive that repeats an array.
pub(super) fn is_mended(parsed: &Parsed, language: Language) -> bool {
    parsed.name == "update" || pieces(parsed, language).is_some()
}

/// Splits a directive into as few as possible that name no array twice, all with the other clauses.
pub(super) fn directives(parsed: &Parsed, language: Language) -> Vec<Parsed> {
    let mut rounds: Vec<Vec<(usize, &str)>> = Vec::new();
    for (at, variable) in variables(parsed) {
        let array = sections::array(variable, language);
        let has_it = |round: &[(usize, &str)]| round.iter().any(|(_, other)| sections::array(other, language) == array);
        match rounds.iter_mut().find(|round| !has_it(round)) {
            Some(round) => round.push((at, variable)),
            None => rounds.push(vec![(at, variable)]),
        }
    }
    let one = |list: &[(usize, &str)]| {
        let clauses = parsed.clauses.iter().enumerate().filter_map(|(at, clause)| {
            if !DATA_CLAUSES.contains(&clause.name.as_str()) {
                return Some(clause.clone());
            }
            let own: Vec<&str> = list.iter().filter(|(of, _)| *of == at).map(|(_, variable)| *variable).collect();
            (!own.is_empty()).then(|| Clause { name: clause.name.clone(), argument: Some(own.join(", ")) })
        });
        Parsed { clauses: clauses.collect(), ..parsed.clone() }
    };
    rounds.iter().map(|round| one(round)).collect()
}

/// Merges a compute construct's clauses for each array.
fn together(parsed: &Parsed, language: Language) -> Option<Parsed> {
    let mut new = parsed.clone();
    for array in repeats(parsed, language) {
        let of_array: Vec<(usize, &str)> = variables(parsed)
            .into_iter()
            .filter(|(_, variable)| sections::array(variable, language) == array)
            .collect();
        let kinds: Option<Vec<(bool, bool, bool)>> =
            of_array.iter().map(|(at, _)| ways(&parsed.clauses[*at].name)).collect();
        let kinds = kinds?;
        let any = |part: fn(&(bool, bool, bool)) -> bool| kinds.iter().any(part);
        let name = match (any(|kind| kind.0), any(|kind| kind.1)) {
            // Bytes between the sections are copied back unchanged.
            (_, true) => "copy",
            (true, false) => "copyin",
            (false, false) if kinds.iter().all(|kind| kind.2) => "present",
            (false, false) => "create",
        };
        let list: Vec<&str> = of_array.iter().map(|(_, variable)| *variable).collect();
        let hull = sections::hull(&list, language)?;
        for clause in &mut new.clauses {
            if ways(&clause.name).is_none() {
                continue;
            }
            let argument = clause.argument.clone().unwrap_or_default();
            let others = split(&argument, ',').into_iter().filter(|one| sections::array(one, language) != array);
            clause.argument = Some(others.collect::<Vec<_>>().join(", "));
        }
        new.clauses.retain(|clause| ways(&clause.name).is_none() || clause.argument.as_deref() != Some(""));
        new.clauses.push(Clause { name: name.into(), argument: Some(hull) });
    }
    Some(new)
}

/// Whether a clause copies in, copies out, and requires presence; `None` for other clauses.
fn ways(clause: &str) -> Option<(bool, bool, bool)> {
    let kind = clause.strip_prefix("present_or_").or_else(|| clause.strip_prefix('p')).unwrap_or(clause);
    Some(match (clause, kind) {
        ("present", _) => (false, false, true),
        (_, "copy") => (true, true, false),
        (_, "copyin") => (true, false, false),
        (_, "copyout") => (false, true, false),
        (_, "create") => (false, false, false),
        _ => return None,
    })
}

/// Returns the variables of the data clauses, with each clause's index.
fn variables(parsed: &Parsed) -> Vec<(usize, &str)> {
    let own = |clause: &Clause| {
        let of_update = ["self", "host", "device"].contains(&clause.name.as_str());
        DATA_CLAUSES.contains(&clause.name.as_str()) && (parsed.name == "update" || !of_update)
    };
    let clauses = parsed.clauses.iter().enumerate().filter(|(_, clause)| own(clause));
    let lists = clauses.map(|(at, clause)| (at, split(clause.argument.as_deref().unwrap_or(""), ',')));
    let all = lists.flat_map(|(at, list)| list.into_iter().map(move |variable| (at, variable)));
    all.filter(|(_, variable)| !variable.is_empty()).collect()
}

fn is_compute(name: &str) -> bool {
    ["parallel", "kernels", "serial"].contains(&name.split(' ').next().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, language: Language) -> Vec<String> {
        let pieces = pieces(&Parsed::new(text), language).unwrap_or_default();
        let pragma = |piece: Piece| match piece {
            Piece::Pragma(text) => Some(text),
            _ => None,
        };
        pieces.into_iter().filter_map(pragma).collect()
    }

    #[test]
    fn directives_are_split_into_as_few_as_possible() {
        assert_eq!(
            texts("enter data copyin(a[0:1], b, a[5:1]) create(a[7:2], c) async(2)", Language::C),
            [
                "enter data copyin(a[0:1], b) create(c) async(2)",
                "enter data copyin(a[5:1]) async(2)",
                "enter data create(a[7:2]) async(2)"
            ]
        );
        assert_eq!(
            texts("exit data copyout(m(:, 1), M(:, 3)) finalize", Language::FreeFortran),
            ["exit data copyout(m(:, 1)) finalize", "exit data copyout(M(:, 3)) finalize"]
        );
        assert_eq!(texts("data copy(s.p[0:1], s.q[0:1])", Language::C), [""; 0]);
        assert_eq!(texts("data copy(s.p[0:1], s.p[5:1])", Language::C).len(), 2);
    }

    #[test]
    fn clauses_of_compute_constructs_are_put_together() {
        for (text, expected) in [
            ("parallel loop copy(a[0:1], a[5:1]) gang", "parallel loop gang copy(a[0:6])"),
            ("parallel copyin(a[2:3], b) present(a[8:2])", "parallel copyin(b) copyin(a[2:8])"),
            ("serial present(a[2:3]) present(a[0:1])", "serial present(a[0:5])"),
            ("kernels copyin(a[2:3]) pcopyout(a[0:1])", "kernels copy(a[0:5])"),
        ] {
            assert_eq!(texts(text, Language::C), [expected], "{text}");
        }
        assert_eq!(texts("parallel no_create(a[0:1], a[5:1])", Language::C), [""; 0]);
    }
}

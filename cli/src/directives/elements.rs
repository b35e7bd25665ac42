//! Data clauses that name one element of an array (`create(image[N])`) where the whole array may be meant.

use super::clause::{Clause, DATA_CLAUSES, Parsed};
use super::finding::{Finding, Severity};
use super::sections::{array, element};
use super::variables::Variables;
use super::{Directive, Language};
use accord_kernels::text::split;

/// Returns all such findings of a source.
pub(super) fn findings(source: &str, language: Language, all: &[(&Directive, &Parsed)]) -> Vec<Finding> {
    let variables = language.is_fortran().then(|| Variables::read(source));
    let mut found = Vec::new();
    for (directive, parsed) in all {
        let of_update = |clause: &Clause| ["self", "host", "device"].contains(&clause.name.as_str());
        let update = parsed.name == "update";
        if update && language.is_fortran() {
            continue;
        }
        let clauses = parsed.clauses.iter().filter(|clause| DATA_CLAUSES.contains(&clause.name.as_str()));
        for clause in clauses.filter(|clause| update == of_update(clause)) {
            for variable in split(clause.argument.as_deref().unwrap_or(""), ',') {
                let Some((head, subscript)) = element(variable, language) else { continue };
                let meant = match &variables {
                    Some(variables) => {
                        let known = variables.at(directive.line, &head.to_ascii_lowercase());
                        !known.is_some_and(|known| known.derived)
                            && split(subscript, ',').iter().any(|one| is_count(one, "1", source, language))
                    }
                    None if update => is_size(head, subscript, source, all),
                    None => is_count(subscript, "0", source, language),
                };
                if meant {
                    let name = &clause.name;
                    let remedy = match split(subscript, ',').len() {
                        _ if !language.is_fortran() => format!("{name}({head}[0:{subscript}])"),
                        1 => format!("{name}({head}(1:{subscript}))"),
                        _ => format!("{name}({head})"),
                    };
                    let message = format!(
                        "{name}({variable}) is one element of {head}, by the specification too: devices get no other"
                    );
                    found.push(Finding::at(directive, Severity::Wrong, message, remedy));
                }
            }
        }
    }
    found
}

/// Whether a subscript may be meant as a number of elements: neither the first index nor a loop variable.
fn is_count(subscript: &str, first: &str, source: &str, language: Language) -> bool {
    let plain = subscript.chars().all(|c| c.is_alphanumeric() || c == '_');
    subscript != first && !(plain && is_loop_variable(subscript, source, language))
}

/// Whether some loop of the source has this loop variable.
fn is_loop_variable(name: &str, source: &str, language: Language) -> bool {
    let key = if language.is_fortran() { "do " } else { "for" };
    source.lines().any(|line| {
        let line = if language.is_fortran() { line.to_ascii_lowercase() } else { line.to_owned() };
        let name = if language.is_fortran() { name.to_ascii_lowercase() } else { name.to_owned() };
        let Some(at) = line.find(key) else { return false };
        let head = &line[at + key.len()..];
        head.match_indices(&name).any(|(at, _)| {
            let rest = head[at + name.len()..].trim_start();
            let alone = !head[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            alone
                && (rest.starts_with('=') && !rest.starts_with("==")
                    || rest.starts_with("++")
                    || rest.starts_with("+="))
        })
    })
}

/// Whether another section of the array, or its declaration, has this number of elements.
fn is_size(head: &str, subscript: &str, source: &str, all: &[(&Directive, &Parsed)]) -> bool {
    let counts = all.iter().flat_map(|(_, parsed)| &parsed.clauses).flat_map(|clause| {
        split(clause.argument.as_deref().unwrap_or(""), ',').into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    let counted = counts.into_iter().any(|one| {
        array(&one, Language::C) == head
            && (one.ends_with(&format!("[0:{subscript}]")) || one.ends_with(&format!("[:{subscript}]")))
    });
    let declared = format!("{head}[{subscript}]");
    counted
        || source.lines().any(|line| {
            line.trim_start().split_once(&declared).is_some_and(|(before, after)| {
                let typed = before.contains(' ') && !before.contains(['=', '(', '[', '#']);
                typed && after.trim_start().starts_with([';', ',', '='])
            })
        })
}

#[cfg(test)]
mod tests {
    use super::super::{Outside, findings};
    use super::*;

    fn remedies(source: &str, language: Language) -> Vec<String> {
        findings(source, language, 12, &Outside::default()).into_iter().map(|found| found.remedy).collect()
    }

    #[test]
    fn one_element_is_told_where_the_array_is_meant() {
        for (source, expected) in [
            (
                "#pragma acc enter data create(image[N], p->x[n * m])\n",
                &["create(image[0:N])", "create(p->x[0:n * m])"][..],
            ),
            ("#pragma acc parallel loop copy(a[n]) copyin(b[0:n])\n", &["copy(a[0:n])"]),
            ("#pragma acc data copyin(a[0:n])\n#pragma acc update self(a[n])\n", &["self(a[0:n])"]),
            ("static double a[N];\n#pragma acc update device(a[N])\n", &["device(a[0:N])"]),
            ("#pragma acc update self(a[n])\n#pragma acc data copy(a[0], b)\n", &[]),
            ("for (int i = 0; i < n; i++)\n#pragma acc enter data copyin(rows[i])\n", &[]),
        ] {
            assert_eq!(remedies(source, Language::C), expected, "{source}");
        }
        for (source, expected) in [
            ("real :: a(n)\n!$acc data copy(a(n))\n", &["copy(a(1:n))"][..]),
            ("!$acc enter data create(m(nx, ny))\n", &["create(m)"]),
            (
                "do i = 1, n\n!$acc enter data copyin(a(i))\nend do\n!$acc update self(a(n))\n!$acc data copy(a(1), b(:, n))\n",
                &[],
            ),
        ] {
            assert_eq!(remedies(source, Language::FreeFortran), expected, "{source}");
        }
    }
}

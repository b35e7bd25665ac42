//! Findings about single clauses, as far as their text shows them.

use super::clause::{Clause, DATA_CLAUSES, Parsed};
use super::finding::Severity;
use accord_kernels::text::split;
use std::collections::BTreeMap;

/// The largest constant number of gangs that fits in an image.
const GANGS_MAX: u64 = u16::MAX as u64;

/// Reports severity, message and remedy of a clause's faults. `constants` are the source's named constants.
pub(super) fn judge(
    clause: &Clause,
    parsed: &Parsed,
    fortran: bool,
    gcc: u32,
    constants: &BTreeMap<String, u64>,
) -> Vec<(Severity, String, String)> {
    let argument = clause.argument.as_deref().unwrap_or("");
    let mut found = Vec::new();
    match clause.name.as_str() {
        "num_gangs" => {
            if let Some(number) = value(argument, fortran, constants).filter(|number| *number > GANGS_MAX) {
                found.push((
                    Severity::Wrong,
                    format!(
                        "num_gangs({argument}) is a constant above {GANGS_MAX}: GCC keeps 16 bits of it, and GPUs get {} gangs of code for \
                         {number} unless the code shows the number",
                        number % (GANGS_MAX + 1)
                    ),
                    format!("a variable with that value, or at most {GANGS_MAX}"),
                ));
            }
        }
        "tile" => found.push((
            Severity::Wrong,
            format!("tile({argument}): GCC's code for GPUs leaves iterations out"),
            "collapse, or loops over blocks written out".into(),
        )),
        "reduction" => {
            let list = argument.split_once(':').map_or("", |(_, list)| list);
            if parsed.name == "kernels" {
                found.push((
                    Severity::Refused,
                    "reduction on kernels, which has none".into(),
                    "the same reduction on a loop in it".into(),
                ));
            }
            for variable in split(list, ',') {
                let others =
                    parsed.clauses.iter().filter(|other| other.name == "reduction" && !std::ptr::eq(*other, clause));
                let before = others.take_while(|other| {
                    let place = |one: &Clause| parsed.clauses.iter().position(|known| std::ptr::eq(known, one));
                    place(other) < place(clause)
                });
                let names = |other: &Clause| {
                    let list = other.argument.as_deref().unwrap_or("").split_once(':').map_or("", |(_, list)| list);
                    split(list, ',').contains(&variable)
                };
                if !variable.is_empty() && before.into_iter().any(names) {
                    found.push((
                        Severity::Refused,
                        format!("two reductions of {variable}"),
                        "a variable for each".into(),
                    ));
                }
                if variable.starts_with('*') {
                    found.push((
                        Severity::Refused,
                        format!("reduction of {variable}, which is no variable"),
                        "a scalar that is stored afterwards".into(),
                    ));
                } else if ['.', '%'].iter().any(|part| variable.contains(*part)) || variable.contains("->") {
                    found.push((
                        Severity::Refused,
                        format!("reduction of {variable}, which is a member of a structure"),
                        "a scalar that is stored afterwards".into(),
                    ));
                } else if variable.contains(['[', '(']) {
                    found.push((
                        Severity::Refused,
                        format!("reduction of {variable}, which is an array or a part of one"),
                        "a scalar for each element, or atomic".into(),
                    ));
                }
            }
        }
        "use_device" => {
            for variable in split(argument, ',') {
                let part = if fortran {
                    variable.contains(['%', '('])
                } else {
                    variable.contains(['.', '[']) || variable.contains("->")
                };
                if part {
                    found.push((
                        Severity::Refused,
                        format!("use_device({variable}), which is a component, an element or a section"),
                        "a pointer to it, in a variable of its own".into(),
                    ));
                }
            }
        }
        name if !fortran && DATA_CLAUSES.contains(&name) => {
            let list = argument.split_once(':').filter(|(word, _)| ["readonly", "zero"].contains(&word.trim()));
            for variable in split(list.map_or(argument, |(_, list)| list), ',') {
                if variable.starts_with(['*', '(']) {
                    found.push((
                        Severity::Refused,
                        format!("{name}({variable}): GCC wants the name of a variable first"),
                        "p[0:n] in place of *p, and a pointer of its own in place of an expression".into(),
                    ));
                } else if gcc == 12
                    && variable
                        .split_once(['.', '-'])
                        .is_some_and(|(whole, part)| whole.ends_with(']') && part.contains('['))
                {
                    found.push((
                        Severity::Refused,
                        format!("{name}({variable}): GCC 12 ends with an internal error at a section in an element of an array"),
                        "a pointer of its own, and a section of that".into(),
                    ));
                }
            }
        }
        "attach" if !fortran && gcc >= 13 => {
            for pointer in split(argument, ',') {
                let Some(whole) = pointer.split_once(['.', '-']).map(|(whole, _)| whole.trim()) else { continue };
                let names = |clause: &&Clause| {
                    clause.name != "attach"
                        && split(clause.argument.as_deref().unwrap_or(""), ',')
                            .iter()
                            .any(|variable| variable.split('[').next().is_some_and(|name| name.trim() == whole))
                };
                if let Some(other) = parsed.clauses.iter().find(names) {
                    found.push((
                        Severity::Refused,
                        format!("attach({pointer}) beside {}({whole}): GCC takes no component beside the whole", other.name),
                        format!(
                            "present({whole}) in a data construct around, or no clause: {whole} is found; in front of enter data a \
                             directive of its own"
                        ),
                    ));
                }
            }
        }
        _ => {}
    }
    found
}

/// Returns the constants of `#define`, `enum` and `parameter`.
pub(super) fn constants(source: &str, fortran: bool) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in source.lines() {
        let line = line.trim();
        let definition = line.strip_prefix('#').map(str::trim_start).and_then(|rest| rest.strip_prefix("define"));
        if let Some((name, text)) = definition.and_then(|rest| rest.trim_start().split_once([' ', '\t'])) {
            let text = text.split("//").next().unwrap_or(text).split("/*").next().unwrap_or(text).trim();
            if let Some(number) = value(text, fortran, &found) {
                found.insert(name.to_owned(), number);
            }
            continue;
        }
        let lower = line.to_ascii_lowercase();
        let named = if fortran {
            lower
                .split_once("::")
                .filter(|(attributes, _)| attributes.contains("parameter"))
                .map(|(_, entities)| entities)
        } else {
            line.strip_prefix("enum").and_then(|rest| Some(rest.split_once('{')?.1.split('}').next().unwrap_or("")))
        };
        for entity in split(named.unwrap_or("").split('!').next().unwrap_or(""), ',') {
            let Some((name, text)) = entity.split_once('=') else { continue };
            if let Some(number) = value(text, fortran, &found) {
                found.insert(name.trim().to_owned(), number);
            }
        }
    }
    found
}

/// Evaluates a constant expression of numbers, names, products, sums and shifts.
fn value(text: &str, fortran: bool, constants: &BTreeMap<String, u64>) -> Option<u64> {
    let text = text.trim();
    let inner =
        text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).filter(|rest| !rest.contains(['(', ')']));
    if let Some(inner) = inner {
        return value(inner, fortran, constants);
    }
    if let Some((a, b)) = text.split_once("<<").filter(|(_, b)| !b.contains("<<")) {
        let by = u32::try_from(value(b, fortran, constants)?).ok()?;
        return value(a, fortran, constants)?.checked_shl(by);
    }
    let parts = |sign| split(text, sign).into_iter().map(|part| value(part, fortran, constants));
    if split(text, '+').len() > 1 {
        return parts('+').try_fold(0u64, |sum, part| sum.checked_add(part?));
    }
    if split(text, '*').len() > 1 {
        return parts('*').try_fold(1u64, |product, part| product.checked_mul(part?));
    }
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let digits = if fortran { text.split('_').next().unwrap_or(text) } else { digits };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let name = if fortran { text.to_ascii_lowercase() } else { text.to_owned() };
    digits.parse().ok().or_else(|| constants.get(&name).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_expressions_amount_to_numbers() {
        let constants = constants("#define N 1000 /* many */\n#define M (N * 100)\nenum { A = 7, B };\n", false);
        for (text, expected) in [
            ("M", Some(100_000)),
            ("2 * N + 1", Some(2001)),
            ("1 << 17", Some(131_072)),
            ("0x10000u", Some(65_536)),
            ("A", Some(7)),
            ("B", None),
            ("n", None),
            ("N * n", None),
            ("", None),
            ("1 << 99", None),
        ] {
            assert_eq!(value(text, false, &constants), expected, "{text}");
        }
        let constants = super::constants("integer, parameter :: many = 10**5, more = 100 * 1000 ! so\n", true);
        assert_eq!(value("More", true, &constants), Some(100_000));
        assert_eq!(value("many", true, &constants), None);
        assert_eq!(value("70000_8", true, &constants), Some(70_000));
    }
}

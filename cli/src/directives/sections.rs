//! Sections of arrays in clauses.

use super::Language;
use accord_kernels::text::split;

/// Returns the array that a variable of a clause is a section or element of; Fortran's in lower case.
pub(super) fn array(variable: &str, language: Language) -> String {
    let bare: String = variable.chars().filter(|c| !c.is_whitespace()).collect();
    if language.is_fortran() {
        let bare = bare.to_ascii_lowercase();
        return parts(&bare, '(', ')').map_or(bare.clone(), |(head, _)| head.to_owned());
    }
    let mut rest = &*bare;
    while let Some((head, _)) = parts(rest, '[', ']') {
        rest = head;
    }
    rest.to_owned()
}

/// Returns array and subscripts of a variable of a clause that is one element: `a[n]`, `a(n)`.
pub(super) fn element(variable: &str, language: Language) -> Option<(&str, &str)> {
    let (open, close) = if language.is_fortran() { ('(', ')') } else { ('[', ']') };
    let (head, inside) = parts(variable.trim(), open, close)?;
    let is_section = split(inside, ',').iter().any(|part| split(part, ':').len() > 1 || part.is_empty());
    (!is_section && !head.ends_with(close) && !head.is_empty()).then_some((head, inside))
}

/// Returns one section that covers all of these; `None` if that is unknown.
pub(super) fn hull(variables: &[&str], language: Language) -> Option<String> {
    let (open, close) = if language.is_fortran() { ('(', ')') } else { ('[', ']') };
    let sections: Option<Vec<(&str, &str)>> = variables.iter().map(|one| parts(one.trim(), open, close)).collect();
    let Some(all) = sections else {
        // One of them is the whole array.
        return variables.iter().map(|one| one.trim()).find(|one| parts(one, open, close).is_none()).map(str::to_owned);
    };
    let head = all.first()?.0.trim();
    if language.is_fortran() {
        let dimensions: Vec<Vec<&str>> = all.iter().map(|(_, inside)| split(inside, ',')).collect();
        let rank = dimensions.first()?.len();
        if dimensions.iter().any(|one| one.len() != rank) {
            return None;
        }
        let each: Option<Vec<String>> =
            (0..rank).map(|at| range(&dimensions.iter().map(|one| one[at]).collect::<Vec<_>>())).collect();
        return Some(format!("{head}({})", each?.join(", ")));
    }
    if all.iter().any(|(other, _)| other.trim() != head) {
        return None;
    }
    counted(&all.iter().map(|(_, inside)| *inside).collect::<Vec<_>>(), language)
        .map(|section| format!("{head}[{section}]"))
}

/// Splits a variable before its last bracketed part.
fn parts(variable: &str, open: char, close: char) -> Option<(&str, &str)> {
    let inner = variable.strip_suffix(close)?;
    let mut depth = 1usize;
    for (at, c) in inner.char_indices().rev() {
        if c == close {
            depth += 1;
        } else if c == open {
            depth -= 1;
            if depth == 0 {
                return Some((&inner[..at], &inner[at + open.len_utf8()..]));
            }
        }
    }
    None
}

/// Merges several `first:count`.
fn counted(all: &[&str], language: Language) -> Option<String> {
    let mut ends: Vec<(String, String)> = Vec::new();
    for one in all {
        let parts = split(one, ':');
        match *parts {
            [element] if !element.is_empty() => ends.push((element.to_owned(), sum(element, "1"))),
            [first, count] if !count.is_empty() => {
                let first = if first.is_empty() { "0" } else { first };
                ends.push((first.to_owned(), sum(first, count)));
            }
            _ => return None,
        }
    }
    let cast = |text: &str| match language {
        Language::Cxx => format!("static_cast<long>({text})"),
        _ => format!("(long)({text})"),
    };
    let choose = |a: String, b: &str, sign: &str| {
        if a == *b {
            return a;
        }
        match (a.parse::<i64>(), b.parse::<i64>()) {
            (Ok(x), Ok(y)) => (if sign == "<" { x.min(y) } else { x.max(y) }).to_string(),
            _ => format!("({} {sign} {} ? {} : {})", cast(&a), cast(b), cast(&a), cast(b)),
        }
    };
    let mut all = ends.into_iter();
    let (mut first, mut end) = all.next()?;
    for (other, other_end) in all {
        first = choose(first, &other, "<");
        end = choose(end, &other_end, ">");
    }
    let count = match (end.parse::<i64>(), first.parse::<i64>()) {
        (Ok(end), Ok(first)) => (end - first).to_string(),
        (_, Ok(0)) => end,
        _ => format!("{end} - {}", if first.starts_with('(') { first.clone() } else { cast(&first) }),
    };
    Some(format!("{first}:{count}"))
}

fn sum(a: &str, b: &str) -> String {
    match (a.trim().parse::<i64>(), b.trim().parse::<i64>()) {
        (Ok(a), Ok(b)) => (a + b).to_string(),
        (Ok(0), _) => b.to_owned(),
        _ => format!("({a}) + ({b})"),
    }
}

/// Merges several `lower:upper` of one dimension.
fn range(all: &[&str]) -> Option<String> {
    let (mut lowers, mut uppers): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for one in all {
        match *split(one, ':') {
            [index] if !index.is_empty() => {
                lowers.push(index);
                uppers.push(index);
            }
            [lower, upper] => {
                lowers.push(lower);
                uppers.push(upper);
            }
            _ => return None,
        }
    }
    let one = |list: Vec<&str>, name: &str| {
        if list.iter().any(|bound| bound.is_empty()) {
            return String::new();
        }
        let mut list = list;
        list.sort_unstable();
        list.dedup();
        let numbers: Option<Vec<i64>> = list.iter().map(|bound| bound.parse().ok()).collect();
        match (numbers, &*list) {
            (_, [same]) => (*same).to_owned(),
            (Some(numbers), _) => {
                let edge = if name == "min" { numbers.iter().min() } else { numbers.iter().max() };
                edge.map_or(String::new(), i64::to_string)
            }
            (None, list) => format!("{name}({})", list.join(", ")),
        }
    };
    Some(format!("{}:{}", one(lowers, "min"), one(uppers, "max")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_belong_to_their_arrays() {
        for (variable, expected) in
            [("a[0:n]", "a"), ("m[i][0:n]", "m"), ("s[2].p[f(1):n]", "s[2].p"), ("p->x", "p->x"), (" a [1]", "a")]
        {
            assert_eq!(array(variable, Language::C), expected);
        }
        for (variable, expected) in [("A(1:2)", "a"), ("c(1)%X(2, :)", "c(1)%x"), ("x", "x"), ("c(1)%x", "c(1)%x")] {
            assert_eq!(array(variable, Language::FreeFortran), expected);
        }
    }

    #[test]
    fn hulls_have_all_of_their_sections() {
        for (list, expected) in [
            (vec!["a[0:1]", "a[5:1]"], Some("a[0:6]")),
            (
                vec!["a[:n]", "a[n:n]"],
                Some(
                    "a[((long)(0) < (long)(n) ? (long)(0) : (long)(n)):((long)(n) > (long)((n) + (n)) ? (long)(n) : (long)((n) + (n))) - ((long)(0) < (long)(n) ? (long)(0) : (long)(n))]",
                ),
            ),
            (vec!["a[3]", "a[1]"], Some("a[1:3]")),
            (vec!["a[3:]", "a[1]"], None),
            (vec!["m[0:2][0:3]", "m[4:2][0:3]"], None),
            (vec!["a", "a[1]"], Some("a")),
        ] {
            assert_eq!(hull(&list, Language::C).as_deref(), expected);
        }
        for (list, expected) in [
            (vec!["a(1:2)", "a(5:6)"], Some("a(1:6)")),
            (vec!["a(i:j)", "a(k)"], Some("a(min(i, k):max(j, k))")),
            (vec!["m(:, 1)", "m(:, 3)"], Some("m(:, 1:3)")),
            (vec!["a(1:9:2)", "a(3)"], None),
            (vec!["a(:3)", "a(5:)"], Some("a(:)")),
        ] {
            assert_eq!(hull(&list, Language::FreeFortran).as_deref(), expected);
        }
    }

    #[test]
    fn elements_are_told_from_sections() {
        assert_eq!(element("a[n]", Language::C), Some(("a", "n")));
        assert_eq!(element("s.p[n + 1]", Language::C), Some(("s.p", "n + 1")));
        for none in ["a", "a[0:n]", "m[1][2]", "m[0:n][2]"] {
            assert_eq!(element(none, Language::C), None, "{none}");
        }
        assert_eq!(element("a(n, 2)", Language::FreeFortran), Some(("a", "n, 2")));
        assert_eq!(element("a(:, 2)", Language::FreeFortran), None);
    }
}

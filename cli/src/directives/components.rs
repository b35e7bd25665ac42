//! Fortran pointers to a component of an allocatable or pointer array (`p => cells%value`), whose elements GCC describes as whole ones.

use accord_kernels::text::split;
use std::collections::BTreeMap;

/// A pointer assignment whose pointer has its array's descriptor.
pub(super) struct Assignment {
    pub(super) line: u32,
    /// The pointer in lower case.
    pub(super) pointer: String,
    /// The array in lower case.
    pub(super) array: String,
    /// The replacement.
    pub(super) better: String,
}

/// Returns all such assignments of a source.
pub(super) fn assignments(source: &str) -> Vec<Assignment> {
    let lower = source.to_ascii_lowercase();
    let statements = statements(&lower);
    let ranks = deferred(&statements);
    let mut found = Vec::new();
    for (line, statement) in &statements {
        let Some((left, right)) = statement.split_once("=>") else { continue };
        let (left, right) = (left.trim(), right.trim());
        let pointer = word(left);
        let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_%() ,:".contains(c));
        if pointer.is_empty() || !plain(left) || !plain(right) {
            continue;
        }
        let parts: Vec<&str> = split(right, '%');
        let Some((last, before)) = parts.split_last() else { continue };
        let array = before.iter().position(|part| ranks.contains_key(*part));
        let Some((at, rank)) = array.and_then(|at| Some((at, ranks.get(before[at])?))) else { continue };
        let mut better: Vec<String> = before.iter().map(|part| (*part).to_owned()).collect();
        better[at] = format!("{}({})", parts[at], vec![":"; *rank].join(","));
        better.push((*last).to_owned());
        found.push(Assignment {
            line: *line,
            pointer: pointer.to_owned(),
            array: parts[at].to_owned(),
            better: format!("{left} => {}", better.join("%")),
        });
    }
    found
}

/// Returns the word at the start of a text.
pub(super) fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")
}

/// Returns statements with their lines, without comments and with continuation lines joined.
pub(super) fn statements(source: &str) -> Vec<(u32, String)> {
    let mut all: Vec<(u32, String)> = Vec::new();
    let mut open = false;
    for (line, text) in (1..).zip(source.lines()) {
        let text = text.split('!').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        let goes_on = text.ends_with('&');
        let text = text.strip_suffix('&').unwrap_or(text);
        match all.last_mut() {
            Some((_, last)) if open => last.push_str(text.strip_prefix('&').unwrap_or(text)),
            _ => all.extend(text.split(';').map(|one| (line, one.trim().to_owned()))),
        }
        open = goes_on;
    }
    all
}

/// Returns the names of allocatable and pointer arrays, with their ranks.
fn deferred(statements: &[(u32, String)]) -> BTreeMap<String, usize> {
    let rank = |bounds: &str| {
        let bounds = split(bounds, ',');
        bounds.iter().all(|bound| bound.trim() == ":").then_some(bounds.len())
    };
    let inside = |text: &str| {
        let (_, rest) = text.split_once('(')?;
        rank(rest.split(')').next()?)
    };
    let mut found = BTreeMap::new();
    for (_, statement) in statements {
        let Some((attributes, entities)) = statement.split_once("::") else { continue };
        let attributes = split(attributes, ',');
        let derived = ["type", "class"].contains(&word(attributes[0]));
        if !derived || !attributes.iter().any(|attribute| ["allocatable", "pointer"].contains(&attribute.trim())) {
            continue;
        }
        let common = attributes.iter().find(|attribute| word(attribute) == "dimension").and_then(|text| inside(text));
        for entity in split(entities, ',') {
            if let Some(rank) = inside(entity.split('=').next().unwrap_or(entity)).or(common) {
                found.insert(word(entity).to_owned(), rank);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(u32, String)> {
        assignments(source).into_iter().map(|found| (found.line, found.better)).collect()
    }

    #[test]
    fn components_of_allocatable_and_pointer_arrays_are_found() {
        let source = "type(cell), allocatable, target :: Cells(:), one\ntype(cell), pointer, dimension(:,:) :: grid => null()\n\
                      type(cell), target :: fixed(10)\nreal, pointer :: p(:), q(:,:), r(:), s(:)\n\
                      p => cells%value ! so\nq(0:,0:) => &\n  grid%in%x\nr => fixed%value\ns => cells%value\n\
                      p => cells(:)%value\nP => one%value\n";
        let expected = [(5, "p => cells(:)%value"), (6, "q(0:,0:) => grid(:,:)%in%x"), (9, "s => cells(:)%value")];
        assert_eq!(found(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn scalars_and_other_arrays_are_none_of_it() {
        let source = "type(field), pointer :: f\nreal, allocatable, target :: c(:)\np => f%density\nq => c\n";
        assert_eq!(found(source), []);
    }
}

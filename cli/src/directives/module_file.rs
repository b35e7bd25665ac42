//! Variables with `declare` in gfortran's module files, which mark each of them.

use super::declared::Traits;

/// Attributes of `declare` that make a variable resident.
const RESIDENT: &[&str] =
    &["OACC_DECLARE_CREATE", "OACC_DECLARE_COPYIN", "OACC_DECLARE_DEVICE_RESIDENT", "OACC_DECLARE_LINK"];

/// Returns their lower-case names in the text of a module file, with their traits.
pub(crate) fn declared(text: &str) -> Vec<(String, Traits)> {
    let mut found = Vec::new();
    let mut before = "";
    for part in text.split("((VARIABLE ") {
        let name = before.split_whitespace().rev().nth(3).map(|name| name.trim_matches('\'').to_ascii_lowercase());
        before = part;
        let Some((attributes, rest)) = part.split_once(')') else { continue };
        let has = |name: &str| attributes.split_whitespace().any(|attribute| attribute == name);
        if let Some(name) = name.filter(|_| RESIDENT.iter().any(|kind| has(kind))) {
            let kind = rest.trim_start().trim_start_matches("()").trim_start();
            let whole = has("DIMENSION") || kind.starts_with("(DERIVED") || kind.starts_with("(CLASS");
            found.push((name, Traits { whole, allocatable: has("ALLOCATABLE"), pointer: has("POINTER") }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_those_of_the_name_before_them() {
        let text = "18 'al' 's' '' 1 ((VARIABLE UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN\nIMPLICIT-SAVE 0 0 ALLOCATABLE DIMENSION \
                    OACC_DECLARE_CREATE) () (REAL 4\n0 0 0 REAL ()) 0 0 () (1 0 DEFERRED () ()) 0 () () () 0 0)\n20 'c' 's' '' 1 (\
                    (VARIABLE UNKNOWN-INTENT UNKNOWN-PROC UNKNOWN\nIMPLICIT-SAVE 0 0 OACC_DECLARE_CREATE) () (DERIVED 2 0 0 0 DERIVED ()) 0 \
                    0)\n21 'd' 's' '' 1 ((VARIABLE UNKNOWN-INTENT 0 0) () (REAL 4 0) 0 0)\n22 'n' 's' 'c_name' 1 ((VARIABLE 0 0 \
                    OACC_DECLARE_COPYIN) () (INTEGER 4 0) 0 0)\n";
        let scalar = Traits::default();
        let expected = [
            ("al", Traits { whole: true, allocatable: true, ..scalar }),
            ("c", Traits { whole: true, ..scalar }),
            ("n", scalar),
        ];
        assert_eq!(declared(text), expected.map(|(name, traits)| (name.to_owned(), traits)));
    }
}

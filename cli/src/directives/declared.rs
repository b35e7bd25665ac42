//! Variables with `declare`, as far as a source and the files it uses show them (OpenACC 3.3, 2.13).

use super::clause::Parsed;
use super::components::word;
use super::variables::{UnitKind, Variables};
use super::{Directive, Language, scan};
use accord_kernels::text::split;
use std::collections::{BTreeMap, BTreeSet};

/// Clauses of `declare` that make a variable resident.
const KINDS: &[&str] = &["create", "copyin", "copy", "device_resident", "link"];

/// The relevant properties of a variable with `declare`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Traits {
    /// Whether the variable is an array, or of a derived type.
    pub(crate) whole: bool,
    /// Whether the variable is a Fortran allocatable.
    pub(crate) allocatable: bool,
    /// Whether the variable is a Fortran pointer.
    pub(crate) pointer: bool,
}

/// Declarations of other files: in C those of a source's includes, in Fortran those of the modules that it uses.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Outside {
    names: BTreeMap<String, Traits>,
}

impl Outside {
    /// Adds a variable under its name in the source; Fortran's in lower case.
    pub(crate) fn add(&mut self, name: String, traits: Traits) {
        self.names.insert(name, traits);
    }
}

/// A `use` statement, in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    /// The module.
    pub(crate) module: String,
    /// Pairs of a local name and the module's name.
    renamed: Vec<(String, String)>,
}

impl Use {
    /// Returns the source's name of a variable of the module.
    pub(crate) fn local(&self, name: &str) -> String {
        let renamed = self.renamed.iter().find(|(_, theirs)| theirs == name);
        renamed.map_or_else(|| name.to_owned(), |(ours, _)| ours.clone())
    }
}

/// Returns all `use` statements of a Fortran source.
pub(crate) fn uses(source: &str) -> Vec<Use> {
    let statements = super::components::statements(&source.to_ascii_lowercase());
    let found = statements.iter().filter_map(|(_, text)| {
        let rest = text.strip_prefix("use")?;
        let rest = match rest.split_once("::") {
            Some((nature, rest)) if nature.is_empty() || nature.trim_start().starts_with(',') => rest.trim_start(),
            _ => rest.strip_prefix([' ', '\t'])?.trim_start(),
        };
        let (module, list) = (word(rest), rest.split_once(',').map_or("", |(_, list)| list));
        let list = list.trim_start();
        let list = list.strip_prefix("only").and_then(|list| list.trim_start().strip_prefix(':')).unwrap_or(list);
        let renamed = split(list, ',').into_iter().filter_map(|one| one.split_once("=>"));
        let renamed = renamed.map(|(ours, theirs)| (ours.trim().to_owned(), theirs.trim().to_owned()));
        (!module.is_empty()).then(|| Use { module: module.to_owned(), renamed: renamed.collect() })
    });
    found.collect()
}

/// Returns the names with `declare` in a C file, for sources that include it.
pub(crate) fn names(source: &str, language: Language) -> Vec<String> {
    let directives = scan(source, language);
    directives.iter().flat_map(|directive| listed(&Parsed::new(&directive.text))).collect()
}

/// Returns the declarations of a Fortran source's modules, by module; names in lower case.
pub(crate) fn exported(source: &str, language: Language) -> BTreeMap<String, Vec<(String, Traits)>> {
    let variables = Variables::read(source);
    let mut found: BTreeMap<String, Vec<(String, Traits)>> = BTreeMap::new();
    for (_, text) in variables.statements() {
        if let Some(name) = text.strip_prefix("module ").map(|rest| word(rest.trim_start())) {
            found.entry(name.to_owned()).or_default();
        }
    }
    for directive in scan(source, language) {
        let (_, kind, module) = variables.unit(directive.line);
        if kind == UnitKind::Module {
            for name in listed(&Parsed::new(&directive.text)) {
                let name = name.to_ascii_lowercase();
                let traits = traits(&variables, directive.line, &name);
                found.entry(module.to_owned()).or_default().push((name, traits));
            }
        }
    }
    found
}

/// Returns the variables of a `declare` directive.
fn listed(parsed: &Parsed) -> Vec<String> {
    if parsed.name != "declare" {
        return Vec::new();
    }
    let clauses = parsed.clauses.iter().filter(|clause| KINDS.contains(&clause.name.as_str()));
    clauses.flat_map(|clause| split(clause.argument.as_deref().unwrap_or(""), ',')).map(str::to_owned).collect()
}

fn traits(variables: &Variables, line: u32, name: &str) -> Traits {
    variables.at(line, name).map_or_else(Traits::default, |known| Traits {
        whole: known.derived || !known.bounds.is_empty(),
        allocatable: known.allocatable,
        pointer: known.pointer,
    })
}

/// Variables with `declare` in a source.
pub(super) struct Declared {
    /// Names: in C without scopes, in Fortran of modules.
    names: BTreeMap<String, Traits>,
    /// Names of other Fortran program units, with the unit's index.
    local: BTreeSet<(usize, String)>,
    variables: Option<Variables>,
}

impl Declared {
    pub(super) fn new(source: &str, language: Language, all: &[(&Directive, &Parsed)], outside: &Outside) -> Self {
        let mut names = outside.names.clone();
        let mut local = BTreeSet::new();
        let variables = language.is_fortran().then(|| Variables::read(source));
        for (directive, parsed) in all {
            for name in listed(parsed) {
                let Some(variables) = &variables else {
                    names.insert(unscoped(&name).to_owned(), Traits::default());
                    continue;
                };
                let name = name.to_ascii_lowercase();
                match variables.unit(directive.line) {
                    (_, UnitKind::Module, _) => {
                        let traits = traits(variables, directive.line, &name);
                        names.insert(name, traits);
                    }
                    (unit, ..) => {
                        local.insert((unit, name));
                    }
                }
            }
        }
        Self { names, local, variables }
    }

    /// Returns the traits of a whole variable that GCC considers resident for the whole program at this line.
    pub(super) fn find(&self, line: u32, variable: &str) -> Option<Traits> {
        let Some(variables) = &self.variables else { return self.names.get(unscoped(variable)).copied() };
        let name = variable.to_ascii_lowercase();
        match variables.home(line, &name) {
            Some((_, kind)) if kind != UnitKind::Module => None,
            _ => self.names.get(&name).copied(),
        }
    }

    /// Whether the `allocate` at this line makes a lower-case name present: it is an allocatable with a `create` clause
    /// that a module or the program declares (2.13.2).
    pub(super) fn is_allocated_present(&self, line: u32, name: &str) -> bool {
        let Some(variables) = &self.variables else { return false };
        match variables.home(line, name) {
            Some((unit, UnitKind::Program)) => {
                self.local.contains(&(unit, name.to_owned())) && traits(variables, line, name).allocatable
            }
            Some((_, UnitKind::Procedure)) => false,
            _ => self.names.get(name).is_some_and(|traits| traits.allocatable),
        }
    }
}

/// Strips the scopes of a C++ name.
fn unscoped(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(source: &str, language: Language, outside: &Outside) -> Declared {
        let directives = scan(source, language);
        let parsed: Vec<Parsed> = directives.iter().map(|directive| Parsed::new(&directive.text)).collect();
        let all: Vec<(&Directive, &Parsed)> = directives.iter().zip(&parsed).collect();
        Declared::new(source, language, &all, outside)
    }

    const MODULE: &str =
        "module m\n  integer :: n, v(3)\n  real, allocatable :: x(:)\n  !$acc declare create(N, v, x)\nend module\n";

    #[test]
    fn variables_of_modules_count_unless_a_procedure_has_its_own() {
        let source = format!("{MODULE}subroutine s\n  use m\n  integer :: v\n  !$acc declare create(v)\nend\n");
        let found = declared(&source, Language::FreeFortran, &Outside::default());
        assert_eq!(found.find(9, "N"), Some(Traits::default()));
        assert_eq!((found.find(3, "v").map(|traits| traits.whole), found.find(9, "v")), (Some(true), None));
        assert!(found.is_allocated_present(9, "x") && !found.is_allocated_present(9, "v"));
    }

    #[test]
    fn modules_are_used_under_other_names() {
        let source = "use, intrinsic :: iso_c_binding\nuse M, count => n\n  use k, only: a, b => c\nuser = 1\n";
        let found = uses(source);
        assert_eq!(found.iter().map(|one| &*one.module).collect::<Vec<_>>(), ["iso_c_binding", "m", "k"]);
        assert_eq!(
            (found[1].local("n"), found[1].local("v"), found[2].local("c")),
            ("count".into(), "v".into(), "b".into())
        );
        let exported = exported(MODULE, Language::FreeFortran);
        assert_eq!(exported["m"].iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["n", "v", "x"]);
    }

    #[test]
    fn names_of_cxx_count_in_every_scope() {
        let source = "namespace s { int k;\n#pragma acc declare create(k)\n}\n";
        let found = declared(source, Language::Cxx, &Outside::default());
        assert!(found.find(9, "s::k").is_some() && found.find(9, "k").is_some() && found.find(9, "k[0:1]").is_none());
    }
}

//! Variables of a Fortran source by name and program unit, as declared.

use super::components::{statements, word};
use accord_kernels::text::split;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The declared attributes of a variable.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Variable {
    pub(super) allocatable: bool,
    pub(super) pointer: bool,
    pub(super) contiguous: bool,
    /// Whether the variable is an argument of its program unit.
    pub(super) dummy: bool,
    /// Whether the variable is of a derived type; `parameters` says whether that type has parameters.
    pub(super) derived: bool,
    /// `class(...)`
    pub(super) polymorphic: bool,
    pub(super) parameters: bool,
    /// `character(:)`
    pub(super) deferred_length: bool,
    /// Bounds of its dimensions; empty for a scalar.
    pub(super) bounds: Vec<String>,
}

impl Variable {
    /// Whether the variable is an array that may have gaps: an assumed-shape dummy or a pointer.
    pub(super) fn may_have_gaps(&self) -> bool {
        let open = |bound: &String| bound.ends_with(':');
        let assumed = self.dummy && !self.allocatable && self.bounds.iter().any(open);
        !self.contiguous && !self.bounds.is_empty() && (self.pointer || assumed)
    }
}

/// The kind of a program unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnitKind {
    Module,
    /// The main program, also without a `program` statement.
    Program,
    Procedure,
}

/// A program unit: a procedure, module or program.
struct Unit {
    lines: RangeInclusive<u32>,
    dummies: BTreeSet<String>,
    variables: BTreeMap<String, Variable>,
    /// Named constants.
    constants: BTreeSet<String>,
    /// Its internal procedures, unless it is a module.
    internal: BTreeSet<String>,
    /// Its name in lower case.
    name: String,
    kind: UnitKind,
}

/// The program units of a source.
pub(super) struct Variables {
    /// Inner units come after outer ones.
    units: Vec<Unit>,
    lower: Vec<(u32, String)>,
}

impl Variables {
    pub(super) fn read(source: &str) -> Self {
        let lower = statements(&source.to_ascii_lowercase());
        let mut this =
            Self { units: vec![Unit::new(1, BTreeSet::new(), String::new(), UnitKind::Program)], lower: Vec::new() };
        let (mut open, mut in_type, mut in_interface) = (vec![0], false, false);
        for (line, statement) in &lower {
            let current = *open.last().unwrap_or(&0);
            match Statement::of(statement) {
                Statement::TypeBegins => in_type = true,
                Statement::TypeEnds => in_type = false,
                Statement::Interface { begins } => in_interface = begins,
                Statement::UnitBegins { name, dummies, kind } => {
                    if current > 0 && this.units[current].kind != UnitKind::Module && !in_interface {
                        this.units[current].internal.insert(name.clone());
                    }
                    open.push(this.units.len());
                    this.units.push(Unit::new(*line, dummies, name, kind));
                }
                Statement::UnitEnds => {
                    if open.len() > 1 {
                        open.pop();
                        let unit = &mut this.units[current];
                        unit.lines = *unit.lines.start()..=*line;
                    }
                }
                Statement::Other if !in_type => this.units[current].declare(statement),
                Statement::Other => {}
            }
        }
        this.lower = lower;
        this
    }

    /// Returns the statements in lower case, with their lines.
    pub(super) fn statements(&self) -> &[(u32, String)] {
        &self.lower
    }

    /// Returns the variable that a lower-case name means at a line.
    pub(super) fn at(&self, line: u32, name: &str) -> Option<&Variable> {
        self.around(line).find_map(|unit| unit.variables.get(name))
    }

    /// Returns index and kind of the unit that declares a lower-case name for a line.
    pub(super) fn home(&self, line: u32, name: &str) -> Option<(usize, UnitKind)> {
        let all = self.units.iter().enumerate().rev().filter(|(_, unit)| unit.lines.contains(&line));
        let mut all = all;
        all.find(|(_, unit)| unit.variables.contains_key(name)).map(|(at, unit)| (at, unit.kind))
    }

    /// Returns index, kind and lower-case name of the innermost unit of a line.
    pub(super) fn unit(&self, line: u32) -> (usize, UnitKind, &str) {
        let at = self.units.iter().rposition(|unit| unit.lines.contains(&line)).unwrap_or(0);
        let unit = &self.units[at];
        (at, unit.kind, &unit.name)
    }

    /// Whether a lower-case name is an internal procedure at a line.
    pub(super) fn is_internal(&self, line: u32, name: &str) -> bool {
        self.around(line).any(|unit| unit.internal.contains(name))
    }

    /// Whether a line is in a `select type` of a lower-case name, which there has the selected type.
    pub(super) fn is_selected(&self, line: u32, name: &str) -> bool {
        let mut open = Vec::new();
        for (_, text) in self.lower.iter().take_while(|(at, _)| *at < line) {
            let text =
                text.split_once(':').filter(|(label, _)| word(label) == *label).map_or(&**text, |(_, rest)| rest);
            let (ends, rest) = text.trim().strip_prefix("end").map_or((false, text.trim()), |rest| (true, rest.trim()));
            let Some(rest) = rest.strip_prefix("select").map(str::trim) else { continue };
            if ends {
                open.pop();
            } else {
                let selector = rest.strip_prefix("type").and_then(|rest| rest.trim().strip_prefix('('));
                open.push(selector.map_or("", |selector| word(selector.trim())));
            }
        }
        open.contains(&name)
    }

    /// Whether a bound is a compile-time constant.
    pub(super) fn is_constant(&self, line: u32, bound: &str) -> bool {
        let names = bound.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let known = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_digit())
                || self.around(line).any(|unit| unit.constants.contains(name))
        };
        bound != ":" && bound != "*" && names.clone().next().is_some() && names.into_iter().all(known)
    }

    /// Returns the units that contain a line, inner ones first.
    fn around(&self, line: u32) -> impl Iterator<Item = &Unit> {
        self.units.iter().rev().filter(move |unit| unit.lines.contains(&line))
    }
}

enum Statement {
    TypeBegins,
    TypeEnds,
    Interface { begins: bool },
    UnitBegins { name: String, dummies: BTreeSet<String>, kind: UnitKind },
    UnitEnds,
    Other,
}

impl Statement {
    fn of(text: &str) -> Self {
        let first = word(text);
        let rest = text[first.len()..].trim_start();
        match first {
            "type" if !rest.starts_with('(') && !rest.starts_with("is") => return Self::TypeBegins,
            "endtype" => return Self::TypeEnds,
            "interface" => return Self::Interface { begins: true },
            "abstract" if word(rest) == "interface" => return Self::Interface { begins: true },
            "endinterface" => return Self::Interface { begins: false },
            "end" if word(rest) == "interface" => return Self::Interface { begins: false },
            "end" if word(rest) == "type" => return Self::TypeEnds,
            "end"
                if ["", "subroutine", "function", "program", "module", "submodule", "procedure"]
                    .contains(&word(rest)) =>
            {
                return Self::UnitEnds;
            }
            "endsubroutine" | "endfunction" | "endprogram" | "endmodule" | "endsubmodule" | "endprocedure" => {
                return Self::UnitEnds;
            }
            "end" => return Self::Other,
            "module" if word(rest) != "procedure" && !["subroutine", "function"].contains(&word(rest)) => {
                return Self::unit(rest, UnitKind::Module);
            }
            "submodule" => return Self::unit("submodule", UnitKind::Module),
            "program" => return Self::unit(rest, UnitKind::Program),
            _ => {}
        }
        if text.contains("::") {
            return Self::Other;
        }
        // After prefixes such as a type, `pure` or `module`.
        let mut rest = text;
        loop {
            let next = word(rest);
            if next.is_empty() {
                return Self::Other;
            }
            let after = rest[next.len()..].trim_start();
            if ["subroutine", "function"].contains(&next) {
                return if word(after).is_empty() { Self::Other } else { Self::unit(after, UnitKind::Procedure) };
            }
            rest = match after.strip_prefix('(') {
                Some(inside) => {
                    inside.split_once(')').map_or("", |(_, after)| after.trim_start_matches(')').trim_start())
                }
                None => after,
            };
        }
    }

    fn unit(head: &str, kind: UnitKind) -> Self {
        let name = word(head).to_owned();
        let arguments = head.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let dummies = arguments.map_or_else(BTreeSet::new, |(list, _)| {
            split(list, ',').into_iter().map(|name| word(name).to_owned()).collect()
        });
        Self::UnitBegins { name, dummies, kind }
    }
}

impl Unit {
    fn new(first: u32, dummies: BTreeSet<String>, name: String, kind: UnitKind) -> Self {
        let (variables, constants, internal) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { lines: first..=u32::MAX, dummies, variables, constants, internal, name, kind }
    }

    fn declare(&mut self, statement: &str) {
        let Some((attributes, entities)) = statement.split_once("::") else { return };
        if word(attributes) == "allocate" {
            return;
        }
        let attributes = split(attributes, ',');
        let has = |name: &str| attributes.iter().any(|attribute| word(attribute) == name);
        let inside = |text: &str| Some(text.split_once('(')?.1.trim().strip_suffix(')')?.to_owned());
        let common = attributes.iter().find(|attribute| word(attribute) == "dimension").and_then(|text| inside(text));
        let kind = attributes.first().copied().unwrap_or_default();
        let typed = inside(kind).unwrap_or_default();
        for entity in split(entities, ',') {
            let declared = entity.split('=').next().unwrap_or(entity).trim();
            let name = word(declared).to_owned();
            if name.is_empty() {
                continue;
            }
            if has("parameter") {
                self.constants.insert(name.clone());
            }
            let bounds = inside(declared).or_else(|| common.clone());
            let dummy = self.dummies.contains(&name) || has("intent");
            let variable = self.variables.entry(name).or_default();
            variable.allocatable |= has("allocatable");
            variable.pointer |= has("pointer");
            variable.contiguous |= has("contiguous");
            variable.dummy |= dummy;
            variable.derived |= ["type", "class"].contains(&word(kind));
            variable.polymorphic |= word(kind) == "class";
            variable.parameters |= variable.derived && typed.contains('(');
            variable.deferred_length |= word(kind) == "character" && typed.replace("len=", "").trim() == ":";
            if let Some(bounds) = bounds {
                variable.bounds = split(&bounds, ',').into_iter().map(str::to_owned).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "module m\n  integer, parameter :: width = 3\n  type :: cell\n    real, pointer :: x(:)\n  end type\ncontains\n\
        pure real function f(x) result(y)\n    real, intent(in) :: x(:)\n    y = g(1)\n  contains\n    integer function g(i)\n\
        integer :: i\n    end function\n  end function f\n  subroutine s(x, n)\n    type(cell), pointer :: x\n    integer n\n\
        real, dimension(n, width), contiguous, pointer :: v => null()\n    type(t(5)) :: p\n    character(len=:), allocatable :: c\n  end\nend module\n";

    #[test]
    fn declarations_are_those_of_the_unit() {
        let variables = Variables::read(SOURCE);
        let x = variables.at(9, "x").unwrap();
        assert!(x.dummy && x.may_have_gaps() && !x.pointer);
        let x = variables.at(20, "x").unwrap();
        assert!(x.dummy && x.derived && x.pointer && !x.parameters && !x.may_have_gaps(), "{x:?}");
        let v = variables.at(20, "v").unwrap();
        assert_eq!((v.bounds.join(";"), v.may_have_gaps()), ("n;width".to_owned(), false));
        assert!(variables.is_constant(20, "width") && variables.is_constant(20, "2*width+1"));
        assert!(!variables.is_constant(20, "n") && !variables.is_constant(20, ":"));
        assert!(variables.at(20, "p").unwrap().parameters && variables.at(20, "c").unwrap().deferred_length);
        assert_eq!(variables.at(3, "x"), None, "a component is no variable");
        assert!(!variables.is_selected(20, "x"));
        assert!(variables.is_internal(9, "g") && !variables.is_internal(20, "g") && !variables.is_internal(20, "f"));
    }

    #[test]
    fn names_in_select_type_stand_for_what_they_are() {
        let source = "subroutine s(u)\n  class(cell) :: u(:)\n  select case (k)\n  case (1)\n  here: select type (U)\n  type is (cell)\n\
            u = 1\n  end select here\n  u = 2\n  endselect\n  select type(v => u)\n  type is (cell)\n  v = 1\n  end select\nend\n";
        let variables = Variables::read(source);
        assert!(variables.at(7, "u").unwrap().polymorphic);
        assert!(variables.is_selected(7, "u") && !variables.is_selected(9, "u") && !variables.is_selected(13, "u"));
        assert!(variables.is_selected(13, "v") && !variables.is_selected(15, "v"));
    }
}

//! The meaning of names in a source: declarations of its modules and procedures, and of modules that it uses.

use super::declarations::Declarations;
use super::entity::{Class, Entity, Procedure};
use super::module_file;
use super::source::Source;
use super::tree::{child, children, word};
use super::{Input, Module, intrinsics};
use crate::clause::{Clause, named};
use crate::ir::{Element, Span, Storage};
use std::collections::HashMap;
use tree_sitter::Node;

/// Program units, and procedures inside them.
const UNITS: &[&str] = &["program", "module", "submodule", "subroutine", "function", "module_procedure", "block_data"];

/// Names of modules whose text is not needed.
const INTRINSIC_MODULES: &[&str] =
    &["iso_fortran_env", "iso_c_binding", "openacc", "ieee_arithmetic", "ieee_exceptions"];

/// The meaning of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    Declared(Entity),
    Intrinsic,
    /// No declaration; the reason, as in a message.
    Unknown(String),
}

/// Scopes of a source.
pub(super) struct Scopes {
    all: Vec<Scope>,
    /// Components of derived types.
    types: HashMap<String, HashMap<String, Entity>>,
    modules: HashMap<String, Option<module_file::Module>>,
}

struct Scope {
    span: Span,
    parent: Option<usize>,
    /// A module's name in lower case.
    module: Option<String>,
    is_module: bool,
    declarations: Declarations,
}

impl Scopes {
    pub(super) fn new(root: Node<'_>, source: &Source<'_>, input: &Input<'_>) -> Self {
        let mut scopes = Self { all: Vec::new(), types: HashMap::new(), modules: HashMap::new() };
        scopes.modules(root, &source.code, input);
        scopes.collect(root, None, &source.code, input);
        scopes.routines(source);
        scopes
    }

    /// Reads the units of a tree.
    fn collect(&mut self, node: Node<'_>, parent: Option<usize>, code: &str, input: &Input<'_>) {
        for inner in children(node) {
            if UNITS.contains(&inner.kind()) {
                let is_module = matches!(inner.kind(), "module" | "submodule" | "block_data");
                let statement = child(inner, &format!("{}_statement", inner.kind()));
                let name = statement.and_then(|statement| child(statement, "name")).map(|name| word(name, code));
                let mut declarations = Declarations::default();
                // An internal procedure sees its host's constants.
                let host = parent.map(|parent| self.all[parent].declarations.constants()).unwrap_or_default();
                declarations.read(inner, code, is_module, host, input, &|name| self.constants_of(name));
                if let (Some(parent), Some(name)) = (parent, &name)
                    && matches!(inner.kind(), "subroutine" | "function")
                {
                    let new = Entity::procedure(Procedure { pure: declarations.pure, ..Procedure::default() });
                    self.all[parent].declarations.names.insert(name.clone(), new);
                }
                for (name, components) in std::mem::take(&mut declarations.types) {
                    self.types.insert(name, components);
                }
                self.all.push(Scope {
                    span: inner.byte_range(),
                    parent,
                    module: name.filter(|_| is_module),
                    is_module,
                    declarations,
                });
                let own = self.all.len() - 1;
                if let Some(internal) = child(inner, "internal_procedures") {
                    self.collect(internal, Some(own), code, input);
                }
            }
        }
    }

    /// Reads procedures with `acc routine`.
    fn routines(&mut self, source: &Source<'_>) {
        for placed in source.directives.iter().filter(|placed| placed.directive.name == "routine") {
            let Some(at) = self.scope(placed.at) else { continue };
            let level = ["gang", "worker", "vector"].iter().any(|level| placed.directive.clause(level).is_some());
            let named = placed.directive.clauses.first().filter(|clause| clause.name.is_empty());
            let (scope, name) = match named.and_then(|clause| clause.argument.as_deref()) {
                Some(name) => (Some(at), name.to_ascii_lowercase()),
                None => (self.all[at].parent, self.all[at].declarations.own.clone()),
            };
            let own = named.is_none();
            let pure = own && self.all[at].declarations.pure;
            let new = Procedure { pure, closed: own && self.is_closed(at), routine: Some(level) };
            // External procedures of the same file have no host, and callers may still declare them.
            for at in scope.map_or_else(|| (0..self.all.len()).collect(), |at| vec![at]) {
                self.all[at].declarations.names.insert(name.clone(), Entity::procedure(new));
            }
        }
    }

    /// Whether a procedure depends only on its arguments and constants.
    fn is_closed(&self, scope: usize) -> bool {
        self.all[scope].declarations.outer.iter().all(|name| match self.meaning(scope, name) {
            Meaning::Declared(entity) => matches!(entity.class, Class::Constant(_)),
            Meaning::Intrinsic => true,
            Meaning::Unknown(_) => false,
        })
    }

    /// Reads the module files of modules that the source uses and does not contain.
    fn modules(&mut self, root: Node<'_>, code: &str, input: &Input<'_>) {
        let units = children(root).into_iter().filter(|unit| unit.kind() == "module");
        let own: Vec<String> = units
            .filter_map(|unit| child(child(unit, "module_statement")?, "name"))
            .map(|name| word(name, code))
            .collect();
        let mut used = Vec::new();
        uses(root, code, &mut used);
        for name in used {
            let known = own.contains(&name) || self.all.iter().any(|scope| scope.module.as_ref() == Some(&name));
            if known || INTRINSIC_MODULES.contains(&name.as_str()) || self.modules.contains_key(&name) {
                continue;
            }
            let found = (input.module)(&name).filter(|_| self.modules.len() < MODULES_MAX);
            self.modules.insert(name.clone(), None);
            match found {
                Some(Module::Compiled(text)) => {
                    self.modules.insert(name, Some(module_file::read(&text)));
                }
                Some(Module::Source { text, form }) => {
                    let source = Source::new(&text, form, "");
                    let Some(tree) = super::parse(&source.code) else { continue };
                    let input = Input { text: &text, form, ..*input };
                    self.modules(tree.root_node(), &source.code, &input);
                    let known = self.all.len();
                    self.collect(tree.root_node(), None, &source.code, &input);
                    self.routines(&source);
                    let declared = source.directives.iter().filter(|placed| placed.directive.name == "declare");
                    let elements = declared.flat_map(|placed| &placed.directive.clauses).flat_map(Clause::list);
                    for name in elements.map(named) {
                        let scopes = self.all[known..].iter_mut();
                        let entities = scopes.filter_map(|scope| scope.declarations.names.get_mut(name));
                        entities.for_each(|entity| entity.resident = true);
                    }
                    // They have no position in the code of the source that uses them.
                    self.all[known..].iter_mut().for_each(|scope| scope.span = 0..0);
                }
                None => {}
            }
        }
    }

    /// Returns integer constants of a module.
    fn constants_of(&self, module: &str) -> HashMap<String, i64> {
        if let Some(own) = self.all.iter().find(|scope| scope.module.as_deref() == Some(module)) {
            return own.declarations.constants();
        }
        let names = self.modules.get(module).into_iter().flatten().flat_map(|module| &module.names);
        names
            .filter_map(|(name, entity)| match entity.class {
                Class::Constant(Some(value)) => Some((name.clone(), value)),
                _ => None,
            })
            .collect()
    }

    /// The innermost scope around a byte of the code.
    pub(super) fn scope(&self, at: usize) -> Option<usize> {
        let around = self.all.iter().enumerate().filter(|(_, scope)| scope.span.contains(&at));
        around.min_by_key(|(_, scope)| scope.span.len()).map(|(at, _)| at)
    }

    /// The bytes of a scope's unit.
    pub(super) fn span(&self, scope: usize) -> Span {
        self.all[scope].span.clone()
    }

    /// Whether the scope's declarations are all understood.
    pub(super) fn is_readable(&self, scope: usize) -> bool {
        !self.all[scope].declarations.broken && self.all[scope].parent.is_none_or(|parent| self.is_readable(parent))
    }

    /// Returns where a new declaration may follow: the end of the scope's last declaration.
    pub(super) fn last_declaration(&self, scope: usize) -> usize {
        self.all[scope].declarations.end
    }

    /// Returns the meaning of a name in a scope, in lower case.
    pub(super) fn meaning(&self, scope: usize, name: &str) -> Meaning {
        let mut missing = None;
        let mut next = Some(scope);
        while let Some(at) = next {
            let Scope { declarations, parent, is_module, .. } = &self.all[at];
            let host = at != scope;
            if let Some(entity) = declarations.names.get(name) {
                let mut entity = entity.clone();
                // A variable of the host, and a function's own name, are seen elsewhere too.
                if *is_module || host && entity.storage == Storage::Local {
                    entity.storage = Storage::Static;
                }
                if entity.element == Element::Other && entity.derived.is_none() && entity.implicit {
                    entity.element = self.implicit(scope, name).unwrap_or(Element::Other);
                }
                return Meaning::Declared(entity);
            }
            match self.used(at, name, 0) {
                Ok(Some(entity)) => return Meaning::Declared(entity),
                Ok(None) => {}
                Err(module) => missing = missing.or(Some(module)),
            }
            next = *parent;
        }
        let include = self.all[scope].declarations.missing.as_ref();
        if let Some(file) = include {
            return Meaning::Unknown(format!("what {name} means is not known: the file {file} was not read"));
        }
        if intrinsics::is_pure(name) {
            return Meaning::Intrinsic;
        }
        if let Some(module) = missing {
            return Meaning::Unknown(format!(
                "what {name} means is not known: the module file of {module} was not read"
            ));
        }
        match self.implicit(scope, name) {
            Some(element) => Meaning::Declared(Entity { implicit: true, ..Entity::variable(element) }),
            None => Meaning::Unknown(format!("what {name} means is not known")),
        }
    }

    /// Returns the meaning of a name by a scope's `use` statements; the module's name if it could not be read.
    fn used(&self, scope: usize, name: &str, depth: usize) -> Result<Option<Entity>, String> {
        if depth > USES_MAX {
            return Ok(None);
        }
        let mut missing = None;
        for r#use in &self.all[scope].declarations.uses {
            let Some(original) = r#use.original(name) else { continue };
            if let Some(kind) =
                super::kinds::named(original).filter(|_| INTRINSIC_MODULES.contains(&r#use.module.as_str()))
            {
                let integer = Element::Integer { signed: true, bits: 32 };
                return Ok(Some(Entity { class: Class::Constant(Some(kind)), ..Entity::variable(integer) }));
            }
            let own = self.all.iter().position(|scope| scope.module.as_ref() == Some(&r#use.module));
            if let Some(own) = own {
                if let Some(entity) = self.all[own].declarations.names.get(original) {
                    let mut entity = entity.clone();
                    entity.storage = Storage::Static;
                    return Ok(Some(entity));
                }
                match self.used(own, original, depth + 1) {
                    Ok(None) => {}
                    Ok(found) => return Ok(found),
                    Err(module) => missing = Some(module),
                }
                continue;
            }
            match self.modules.get(&r#use.module) {
                Some(Some(module)) => {
                    if let Some(entity) = module.names.get(original) {
                        return Ok(Some(entity.clone()));
                    }
                }
                Some(None) => missing = Some(r#use.module.clone()),
                None => {}
            }
        }
        missing.map_or(Ok(None), Err)
    }

    /// Returns the type by the implicit rules.
    fn implicit(&self, scope: usize, name: &str) -> Option<Element> {
        let mut next = Some(scope);
        while let Some(at) = next {
            if let Some(rules) = &self.all[at].declarations.implicit {
                let first = name.chars().next()?;
                return rules.iter().find(|(letters, _)| letters.contains(&first)).map(|(_, element)| *element);
            }
            next = self.all[at].parent;
        }
        let first = name.chars().next()?;
        Some(super::kinds::element(if ('i'..='n').contains(&first) { "integer" } else { "real" }, None))
    }

    /// A component of a derived type.
    pub(super) fn component(&self, derived: &str, name: &str) -> Option<Entity> {
        let own = self.types.get(derived).and_then(|components| components.get(name));
        let mut modules = self.modules.values().flatten();
        own.or_else(|| modules.find_map(|module| module.types.get(derived)?.get(name))).cloned()
    }
}

/// Collects names of the modules that `use` statements name.
fn uses(node: Node<'_>, code: &str, found: &mut Vec<String>) {
    if node.kind() == "use_statement" {
        found.extend(child(node, "module_name").map(|name| word(name, code)));
        return;
    }
    let units = |child: &Node<'_>| {
        UNITS.contains(&child.kind()) || matches!(child.kind(), "use_statement" | "internal_procedures")
    };
    children(node).into_iter().filter(units).for_each(|inner| uses(inner, code, found));
}

/// Modules that are read for one source.
const MODULES_MAX: usize = 1000;

/// Nested modules that are followed.
const USES_MAX: usize = 16;

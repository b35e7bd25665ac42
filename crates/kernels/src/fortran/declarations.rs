//! Declarations of one module or procedure.

use super::entity::{Bounds, Class, Entity, Procedure};
use super::source::Source;
use super::tree::{child, children, fields, has_word, word};
use super::used::Use;
use super::{Form, Input, kinds};
use crate::ir::{Element, Storage};
use crate::text::split;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use tree_sitter::Node;

/// Nested included files that are read.
const INCLUDES_MAX: usize = 8;

/// Names of one scope.
#[derive(Default)]
pub(super) struct Declarations {
    /// Variables by name, in lower case.
    pub(super) names: HashMap<String, Entity>,
    /// Components of the derived types that it defines.
    pub(super) types: HashMap<String, HashMap<String, Entity>>,
    pub(super) uses: Vec<Use>,
    /// `implicit` rules; empty for `none`.
    pub(super) implicit: Option<Vec<(RangeInclusive<char>, Element)>>,
    /// Whether a part is not understood.
    pub(super) broken: bool,
    /// An included file that could not be read.
    pub(super) missing: Option<String>,
    /// The procedure's own name.
    pub(super) own: String,
    pub(super) pure: bool,
    /// Names in it that are not its own.
    pub(super) outer: BTreeSet<String>,
    /// Offset of the last declaration's end in the code.
    pub(super) end: usize,
    pub(super) host: HashMap<String, i64>,
    saves: bool,
}

/// Returns the integer constants of the module with a name.
pub(super) type Constants<'m> = dyn Fn(&str) -> HashMap<String, i64> + 'm;

impl Declarations {
    /// Reads a unit; `host` has the constants of the surrounding scope, `modules` those of a module.
    pub(super) fn read(
        &mut self,
        unit: Node<'_>,
        code: &str,
        is_module: bool,
        host: HashMap<String, i64>,
        input: &Input<'_>,
        modules: &Constants<'_>,
    ) {
        self.host = host;
        let storage = if is_module { Storage::Static } else { Storage::Local };
        self.end = unit.start_byte() + code[unit.start_byte()..].find('\n').unwrap_or(0);
        for node in children(unit) {
            if node.kind().ends_with("_statement") && node.start_byte() == unit.start_byte() {
                self.end = node.end_byte();
                self.header(node, code);
            }
            if node.is_error() && node.start_byte() <= self.end {
                self.broken = true;
            }
            if self.declaration(node, code, storage, input, 0) {
                if node.kind() == "use_statement"
                    && let Some(r#use) = self.uses.last()
                {
                    let all = r#use.constants(&modules(&r#use.module));
                    self.host.extend(all);
                }
                self.end = node.end_byte();
            }
        }
        let mut outer = BTreeSet::new();
        self.outer_names(unit, code, &mut outer);
        self.outer = outer;
        if self.saves {
            for entity in self.names.values_mut().filter(|entity| entity.storage == Storage::Local) {
                entity.storage = Storage::Static;
            }
        }
    }

    /// Collects names in a unit that are neither local variables nor dummy arguments.
    fn outer_names(&self, node: Node<'_>, code: &str, found: &mut BTreeSet<String>) {
        if node.kind() == "identifier" {
            let name = word(node, code);
            if self.names.get(&name).is_none_or(|entity| entity.storage == Storage::Static) {
                found.insert(name);
            }
            return;
        }
        let is_type =
            |child: &Node<'_>| matches!(child.kind(), "variable_declaration" | "intrinsic_type" | "use_statement");
        let inner = children(node).into_iter().filter(|child| !is_type(child) && !child.kind().starts_with("end_"));
        inner.for_each(|child| self.outer_names(child, code, found));
    }

    /// Returns integer constants with their values.
    pub(super) fn constants(&self) -> HashMap<String, i64> {
        let mut all = self.host.clone();
        all.extend(self.names.iter().filter_map(|(name, entity)| match entity.class {
            Class::Constant(Some(value)) => Some((name.clone(), value)),
            _ => None,
        }));
        all
    }

    /// The statement that begins a procedure: dummy arguments and the result.
    fn header(&mut self, node: Node<'_>, code: &str) {
        self.own = child(node, "name").map(|name| word(name, code)).unwrap_or_default();
        self.pure = children(node)
            .into_iter()
            .filter(|child| child.kind() == "procedure_qualifier")
            .any(|qualifier| matches!(word(qualifier, code).as_str(), "pure" | "elemental"));
        if let Some(parameters) = node.child_by_field_name("parameters") {
            for name in children(parameters) {
                self.entity(&word(name, code)).storage = Storage::Reference;
            }
        }
        if node.kind() == "function_statement" {
            let result = child(node, "function_result").and_then(|result| result.named_child(0));
            let name = result.map_or_else(|| self.own.clone(), |result| word(result, code));
            let (element, derived) = match fields(node, "type").first() {
                Some(r#type) => self.r#type(*r#type, code),
                None => (Element::Other, None),
            };
            let entity = self.entity(&name);
            entity.storage = Storage::Reference;
            if element != Element::Other || derived.is_some() {
                (entity.element, entity.derived, entity.implicit) = (element, derived, false);
            }
        }
    }

    fn entity(&mut self, name: &str) -> &mut Entity {
        self.names
            .entry(name.to_owned())
            .or_insert_with(|| Entity { implicit: true, ..Entity::variable(Element::Other) })
    }

    /// Reads a declaration; returns whether it is one.
    fn declaration(&mut self, node: Node<'_>, code: &str, storage: Storage, input: &Input<'_>, depth: usize) -> bool {
        match node.kind() {
            "variable_declaration" => self.variables(node, code, storage),
            "variable_modification" => self.attributes(node, code, storage),
            "parameter_statement" => {
                for assignment in children(node) {
                    let parts = children(assignment);
                    if let (Some(name), Some(value)) = (parts.first(), parts.get(1)) {
                        let value = self.constant(*value, code);
                        self.entity(&word(*name, code)).class = Class::Constant(value);
                    }
                }
            }
            "common_statement" => self.each_declarator(node, code, &mut |entity| entity.storage = Storage::Static),
            "save_statement" => {
                let names = children(node);
                self.saves |= names.is_empty();
                for name in names.into_iter().filter(|name| name.kind() == "identifier") {
                    self.entity(&word(name, code)).storage = Storage::Static;
                }
            }
            "data_statement" => {
                for set in children(node) {
                    let before = |child: &Node<'_>| child.kind() != "data_value";
                    for name in children(set).into_iter().filter(before) {
                        let name =
                            if name.kind() == "call_expression" { name.named_child(0).unwrap_or(name) } else { name };
                        if name.kind() == "identifier" {
                            let entity = self.entity(&word(name, code));
                            if entity.storage == Storage::Local {
                                entity.storage = Storage::Static;
                            }
                        }
                    }
                }
            }
            "equivalence_statement" => {
                for set in children(node) {
                    for name in children(set) {
                        let name =
                            if name.kind() == "call_expression" { name.named_child(0).unwrap_or(name) } else { name };
                        let entity = self.entity(&word(name, code));
                        (entity.equivalent, entity.storage) = (true, Storage::Static);
                    }
                }
            }
            "implicit_statement" => {
                let mut rules = Vec::new();
                let mut element = Element::Other;
                for part in children(node) {
                    match part.kind() {
                        "intrinsic_type" => element = self.r#type(part, code).0,
                        "implicit_range" => {
                            let text = word(part, code);
                            let (first, last) = (text.chars().next(), text.chars().last());
                            if let (Some(first), Some(last)) = (first, last) {
                                rules.push((first..=last, element));
                            }
                        }
                        _ => {}
                    }
                }
                if child(node, "none").is_none() {
                    let integer = kinds::element("integer", None);
                    rules.extend([('i'..='n', integer), ('a'..='z', kinds::element("real", None))]);
                }
                self.implicit = Some(rules);
            }
            "use_statement" => self.uses.extend(Use::read(node, code)),
            "interface" => self.interface(node, code),
            "derived_type_definition" => self.derived(node, code),
            "include_statement" => self.include(node, code, storage, input, depth),
            "enum" => {
                for name in children(node).into_iter().flat_map(|line| fields(line, "declarator")) {
                    let name = name.child_by_field_name("left").unwrap_or(name);
                    let integer = kinds::element("integer", None);
                    let class = Class::Constant(None);
                    self.names.insert(word(name, code), Entity { class, ..Entity::variable(integer) });
                }
            }
            "import_statement" | "namelist_statement" | "public_statement" | "private_statement" => {}
            _ => return false,
        }
        self.broken |= node.has_error();
        true
    }

    /// Reads procedures of an interface block.
    fn interface(&mut self, node: Node<'_>, code: &str) {
        for inner in children(node) {
            let Some(statement) = child(inner, &format!("{}_statement", inner.kind())) else { continue };
            if matches!(inner.kind(), "subroutine" | "function")
                && let Some(name) = child(statement, "name")
            {
                let mut own = Self::default();
                own.header(statement, code);
                let new = Entity::procedure(Procedure { pure: own.pure, ..Procedure::default() });
                self.names.insert(word(name, code), new);
            }
        }
        let header = child(node, "interface_statement").and_then(|statement| child(statement, "name"));
        if let Some(name) = header {
            self.names.insert(word(name, code), Entity::procedure(Procedure::default()));
        }
    }

    fn derived(&mut self, node: Node<'_>, code: &str) {
        let name = child(node, "derived_type_statement").and_then(|statement| child(statement, "type_name"));
        let Some(name) = name.map(|name| word(name, code)) else { return };
        let mut inner = Self { host: self.constants(), ..Self::default() };
        for component in children(node).into_iter().filter(|child| child.kind() == "variable_declaration") {
            inner.variables(component, code, Storage::Local);
        }
        for entity in inner.names.values_mut() {
            entity.storage = Storage::Local;
        }
        self.names.insert(name.clone(), Entity { class: Class::Other, ..Entity::variable(Element::Other) });
        self.types.insert(name, inner.names);
    }

    fn include(&mut self, node: Node<'_>, code: &str, storage: Storage, input: &Input<'_>, depth: usize) {
        let Some(path) = node.child_by_field_name("path") else { return };
        let path = code[path.byte_range()].trim().trim_matches(['\'', '"']).to_owned();
        let text = (input.include)(&path).filter(|_| depth < INCLUDES_MAX);
        let Some(text) = text else {
            self.missing = Some(path);
            return;
        };
        let head = match input.form {
            Form::Free => "subroutine included\n",
            Form::Fixed { .. } => "      subroutine included\n",
        };
        let text = format!("{head}{text}\n      end\n");
        let source = Source::new(&text, input.form, &path);
        let Some(tree) = super::parse(&source.code) else {
            self.broken = true;
            return;
        };
        self.broken |= tree.root_node().has_error();
        for unit in children(tree.root_node()) {
            for node in children(unit) {
                self.declaration(node, &source.code, storage, input, depth + 1);
            }
        }
    }

    /// Returns element and derived type of a type specifier.
    fn r#type(&self, node: Node<'_>, code: &str) -> (Element, Option<String>) {
        match node.kind() {
            "intrinsic_type" => {
                let kind = child(node, "kind");
                let name = code[node.start_byte()..kind.map_or(node.end_byte(), |kind| kind.start_byte())]
                    .split_whitespace()
                    .collect::<String>()
                    .to_ascii_lowercase();
                // A kind that is not known has no bits.
                let value = kind.map(|kind| self.kind(kind, code).unwrap_or(0));
                (kinds::element(&name, value), None)
            }
            "derived_type" => (Element::Other, node.child_by_field_name("name").map(|name| word(name, code))),
            _ => (Element::Other, None),
        }
    }

    fn kind(&self, node: Node<'_>, code: &str) -> Option<i64> {
        let value = node.named_child(u32::try_from(node.named_child_count()).ok()?.checked_sub(1)?)?;
        let value = value.child_by_field_name("value").unwrap_or(value);
        let bytes = self.constant(value, code)?;
        // `complex*16` counts both parts.
        let starred = code[node.byte_range()].trim_start().starts_with('*');
        let complex = code[..node.start_byte()].trim_end().to_ascii_lowercase().ends_with("complex");
        Some(if starred && complex { bytes / 2 } else { bytes })
    }

    fn variables(&mut self, node: Node<'_>, code: &str, storage: Storage) {
        let Some(r#type) = node.child_by_field_name("type") else { return };
        let (element, derived) = self.r#type(r#type, code);
        let procedure = r#type.kind() == "procedure";
        let mut common = Entity { storage, element, derived, ..Entity::variable(element) };
        let mut is_constant = false;
        let mut external = procedure;
        for attribute in fields(node, "attribute") {
            is_constant |= has_word(attribute, "parameter");
            external |= has_word(attribute, "external") || has_word(attribute, "intrinsic");
            apply(attribute, code, &mut common);
        }
        for declarator in fields(node, "declarator") {
            let (name, size) = match declarator.child_by_field_name("left") {
                Some(left) => parts(left),
                None => parts(declarator),
            };
            let value = declarator.child_by_field_name("right");
            let constant = value.filter(|_| is_constant).and_then(|value| self.constant(value, code));
            let initialised = value.is_some();
            let entity = self.entity(&word(name, code));
            let kept = entity.clone();
            *entity = common.clone();
            // Attributes of earlier statements remain.
            if kept.storage != Storage::Local && entity.storage == Storage::Local {
                entity.storage = kept.storage;
            }
            entity.pointer |= kept.pointer;
            entity.target |= kept.target;
            entity.allocatable |= kept.allocatable;
            entity.volatile |= kept.volatile;
            entity.equivalent |= kept.equivalent;
            if entity.bounds.is_empty() {
                entity.bounds = kept.bounds;
            }
            if let Some(size) = size {
                entity.bounds = bounds(size, code);
            }
            fix_lower(entity);
            if is_constant {
                entity.class = Class::Constant(constant);
            } else if external {
                entity.class = Class::Procedure(Procedure::default());
            } else if kept.class != Class::Variable {
                entity.class = kept.class;
            }
            if initialised && entity.storage == Storage::Local {
                entity.storage = Storage::Static;
            }
        }
    }

    /// Reads `dimension a(10)`, `target :: b`, `external f` and so on.
    fn attributes(&mut self, node: Node<'_>, code: &str, _storage: Storage) {
        let qualifiers: Vec<Node<'_>> =
            children(node).into_iter().filter(|child| child.kind() == "type_qualifier").collect();
        let external = qualifiers.iter().any(|one| has_word(*one, "external") || has_word(*one, "intrinsic"));
        for declarator in fields(node, "declarator") {
            let (name, size) = parts(declarator);
            let name = word(name, code);
            let intrinsic = external && super::intrinsics::is_pure(&name);
            if intrinsic {
                continue;
            }
            let entity = self.entity(&name);
            for qualifier in &qualifiers {
                apply(*qualifier, code, entity);
            }
            if let Some(size) = size {
                entity.bounds = bounds(size, code);
            }
            fix_lower(entity);
            if external {
                entity.class = Class::Procedure(Procedure::default());
            }
        }
    }

    /// Calls `apply` for each variable of a `common` statement.
    fn each_declarator(&mut self, node: Node<'_>, code: &str, apply: &mut dyn FnMut(&mut Entity)) {
        for part in children(node) {
            match part.kind() {
                "variable_group" => self.each_declarator(part, code, apply),
                "identifier" | "sized_declarator" => {
                    let (name, size) = parts(part);
                    let entity = self.entity(&word(name, code));
                    if let Some(size) = size {
                        entity.bounds = bounds(size, code);
                    }
                    apply(entity);
                }
                _ => {}
            }
        }
    }
}

/// Returns name and size of a declarator.
fn parts(declarator: Node<'_>) -> (Node<'_>, Option<Node<'_>>) {
    match declarator.kind() {
        "sized_declarator" | "coarray_declarator" => {
            let name = declarator.named_child(0).unwrap_or(declarator);
            (name, child(declarator, "size"))
        }
        _ => (declarator, None),
    }
}

fn apply(attribute: Node<'_>, code: &str, entity: &mut Entity) {
    let text = word(attribute, code);
    match text.split('(').next().unwrap_or("") {
        "allocatable" => entity.allocatable = true,
        "pointer" => entity.pointer = true,
        "target" => entity.target = true,
        "volatile" => entity.volatile = true,
        "save" => entity.storage = Storage::Static,
        "dimension" => {
            if let Some(size) = child(attribute, "argument_list") {
                entity.bounds = bounds(size, code);
            }
        }
        _ => {}
    }
}

/// The bounds of `(n, 0:m, :)`.
fn bounds(size: Node<'_>, code: &str) -> Vec<Bounds> {
    let text = code[size.byte_range()].trim();
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let one = |text: &str| -> Bounds {
        let some = |text: &str| (!text.is_empty() && text != "*").then(|| text.to_owned());
        match *split(text, ':') {
            [upper] => Bounds { lower: Some("1".into()), upper: some(upper) },
            [lower, upper] => Bounds { lower: some(lower), upper: some(upper) },
            _ => Bounds::default(),
        }
    };
    split(text, ',').into_iter().map(one).collect()
}

/// Sets the lower bounds: assumed-shape arrays begin at 1; allocatable arrays and pointers wherever they are allocated.
fn fix_lower(entity: &mut Entity) {
    if !entity.allocatable && !entity.pointer && entity.storage == Storage::Reference {
        for bounds in entity.bounds.iter_mut().filter(|bounds| bounds.lower.is_none()) {
            bounds.lower = Some("1".into());
        }
    }
}

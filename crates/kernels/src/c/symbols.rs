//! The meaning of names in a source of C or C++.

use super::types::{Derived, Type, declarator, named};
use crate::ir::{Element, Storage};
use std::collections::{HashMap, HashSet};
use tree_sitter::Node;

/// Nested typedefs that are followed.
const TYPEDEFS_MAX: usize = 16;

/// A declared variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Declared {
    /// Position of its name's declaration, which distinguishes variables.
    pub(super) at: usize,
    pub(super) r#type: Type,
    pub(super) storage: Storage,
}

/// Names of a source.
pub(super) struct Symbols<'s> {
    code: &'s str,
    /// Declarations outside of functions.
    file: HashMap<&'s str, Vec<Declared>>,
    typedefs: HashMap<&'s str, Type>,
    /// Types of structures' fields by their names, if all structures agree.
    fields: HashMap<&'s str, Option<Type>>,
    /// Constants of enumerations, with their values as far as they are numbers.
    enumerators: HashMap<&'s str, Option<i64>>,
    /// Names whose address is taken somewhere, that a C++ reference refers to, or that a lambda captures.
    taken: HashSet<&'s str>,
    /// Positions of functions' parameters that are references to non-constants.
    references: HashMap<&'s str, HashSet<usize>>,
    pub(super) cxx: bool,
}

impl<'s> Symbols<'s> {
    pub(super) fn new(root: Node<'_>, code: &'s str, cxx: bool) -> Self {
        let mut symbols = Self {
            code,
            file: HashMap::new(),
            typedefs: HashMap::new(),
            fields: HashMap::new(),
            enumerators: HashMap::new(),
            taken: HashSet::new(),
            references: HashMap::new(),
            cxx,
        };
        symbols.top(root);
        symbols.inner(root);
        symbols
    }

    fn top(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            match child.kind() {
                "type_definition" => {
                    for (name, r#type) in self.declarators(child) {
                        self.typedefs.insert(&self.code[name.byte_range()], r#type);
                    }
                }
                "declaration" => {
                    for (name, r#type) in self.declarators(child) {
                        let declared = Declared { at: name.start_byte(), r#type, storage: Storage::Static };
                        self.file.entry(&self.code[name.byte_range()]).or_default().push(declared);
                    }
                }
                "linkage_specification" | "declaration_list" | "namespace_definition" => self.top(child),
                _ => {}
            }
        }
    }

    /// Collects fields and taken addresses, at any depth.
    fn inner(&mut self, node: Node<'_>) {
        match node.kind() {
            "field_declaration" => {
                for (name, r#type) in self.declarators(node) {
                    let name = &self.code[name.byte_range()];
                    let entry = self.fields.entry(name).or_insert_with(|| Some(r#type.clone()));
                    if entry.as_ref() != Some(&r#type) {
                        *entry = None;
                    }
                }
            }
            "enumerator_list" => self.enumerators_of(node),
            "lambda_expression" => self.captured(node),
            "function_declarator" => self.references_of(node),
            "init_declarator"
                if node.child_by_field_name("declarator").is_some_and(|one| one.kind() == "reference_declarator") =>
            {
                if let Some(value) = node.child_by_field_name("value").filter(|value| value.kind() == "identifier") {
                    self.taken.insert(&self.code[value.byte_range()]);
                }
            }
            "pointer_expression" if self.code[node.byte_range()].starts_with('&') => {
                let mut inner = node.child_by_field_name("argument");
                while let Some(node) = inner {
                    match node.kind() {
                        "identifier" => {
                            self.taken.insert(&self.code[node.byte_range()]);
                            break;
                        }
                        "parenthesized_expression" => inner = node.named_child(0),
                        "field_expression" => inner = node.child_by_field_name("argument"),
                        _ => break,
                    }
                }
            }
            _ => {}
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.inner(child);
        }
    }

    /// Collects the names in a lambda, which may run later than its text.
    fn captured(&mut self, node: Node<'_>) {
        if node.kind() == "identifier" {
            self.taken.insert(&self.code[node.byte_range()]);
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.captured(child);
        }
    }

    fn references_of(&mut self, node: Node<'_>) {
        let (Some(name), Some(parameters)) =
            (node.child_by_field_name("declarator"), node.child_by_field_name("parameters"))
        else {
            return;
        };
        let name = self.code[name.byte_range()].rsplit("::").next().unwrap_or_default();
        let entry = self.references.entry(name).or_default();
        let mut cursor = parameters.walk();
        for (at, parameter) in parameters.named_children(&mut cursor).enumerate() {
            let text = &self.code[parameter.byte_range()];
            if text.contains('&') && !text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "const")
            {
                entry.insert(at);
            }
        }
    }

    /// Whether a function may change an argument that is a variable; `true` for functions whose declaration is not in the text.
    pub(super) fn changes_argument(&self, function: &str, at: usize) -> bool {
        self.cxx && self.references.get(function).is_none_or(|references| references.contains(&at))
    }

    fn enumerators_of(&mut self, list: Node<'_>) {
        let mut next = Some(0);
        let mut cursor = list.walk();
        for enumerator in list.named_children(&mut cursor).filter(|child| child.kind() == "enumerator") {
            let Some(name) = enumerator.child_by_field_name("name") else { continue };
            if let Some(value) = enumerator.child_by_field_name("value") {
                next = self.code[value.byte_range()].parse().ok();
            }
            self.enumerators.insert(&self.code[name.byte_range()], next);
            next = next.and_then(|value: i64| value.checked_add(1));
        }
    }

    /// Returns the value of an identifier that names a constant of an enumeration; `Some(None)` if it is no number in the source.
    pub(super) fn enumerator(&self, identifier: Node<'_>) -> Option<Option<i64>> {
        let known = self.enumerators.get(&self.code[identifier.byte_range()])?;
        self.resolve(identifier).is_none().then_some(*known)
    }

    /// Whether the address of a variable of this name is taken anywhere.
    pub(super) fn address_taken(&self, name: &str) -> bool {
        self.taken.contains(name)
    }

    /// The type of structures' field of this name.
    pub(super) fn field(&self, name: &str) -> Type {
        self.fields.get(name).cloned().flatten().unwrap_or(Type::UNKNOWN)
    }

    /// Returns the names that a declaration declares, with their types.
    pub(super) fn declarators<'t>(&self, declaration: Node<'t>) -> Vec<(Node<'t>, Type)> {
        let Some(base) = self.base(declaration) else { return Vec::new() };
        let mut cursor = declaration.walk();
        let mut found = Vec::new();
        for node in declaration.children_by_field_name("declarator", &mut cursor) {
            let mut derived = Vec::new();
            let Some(name) = declarator(node, self.code, &mut derived) else { continue };
            let mut r#type = base.clone();
            if base.is_deduced && derived.is_empty() {
                let value = node.child_by_field_name("value");
                r#type.element = value.map_or(Element::Other, |value| self.deduced(value));
            }
            derived.append(&mut r#type.derived);
            r#type.derived = derived;
            found.push((name, r#type));
        }
        found
    }

    /// Returns the type that `auto` has by its value: that of a number without a point or a suffix.
    fn deduced(&self, value: Node<'_>) -> Element {
        let digits = self.code[value.byte_range()].bytes().all(|byte| byte.is_ascii_digit());
        match digits && value.kind() == "number_literal" {
            true => Element::Integer { signed: true, bits: 32 },
            false => Element::Other,
        }
    }

    /// The type before a declaration's declarators.
    pub(super) fn base(&self, declaration: Node<'_>) -> Option<Type> {
        let mut new = self.specified(declaration.child_by_field_name("type")?, 0);
        let mut cursor = declaration.walk();
        new.volatile |= declaration.children(&mut cursor).any(|child| {
            child.kind() == "type_qualifier" && matches!(&self.code[child.byte_range()], "volatile" | "_Atomic")
        });
        Some(new)
    }

    /// Returns the type of a type specifier.
    pub(super) fn specified(&self, node: Node<'_>, depth: usize) -> Type {
        let text = self.code[node.byte_range()].split_whitespace().collect::<Vec<_>>().join(" ");
        if node.kind() == "placeholder_type_specifier" {
            return Type { is_deduced: true, ..Type::UNKNOWN };
        }
        if node.kind() == "enum_specifier" {
            return Type { element: Element::Integer { signed: true, bits: 32 }, ..Type::UNKNOWN };
        }
        let text = text.strip_prefix("std::").or_else(|| text.strip_prefix("::")).unwrap_or(&text);
        if depth < TYPEDEFS_MAX
            && let Some(known) = self.typedefs.get(text)
        {
            return known.clone();
        }
        let is_parameter = self.cxx && self.is_template_parameter(node, text);
        Type { element: named(text).unwrap_or(Element::Other), is_parameter, ..Type::UNKNOWN }
    }

    /// Whether a template around has a type parameter of this name.
    fn is_template_parameter(&self, node: Node<'_>, name: &str) -> bool {
        let mut next = node.parent();
        while let Some(around) = next {
            if around.kind() == "template_declaration"
                && let Some(parameters) = around.child_by_field_name("parameters")
            {
                let mut cursor = parameters.walk();
                let mut all = parameters.named_children(&mut cursor);
                let is_it = |one: Node<'_>| {
                    let mut cursor = one.walk();
                    one.kind().contains("type_parameter")
                        && one.named_children(&mut cursor).any(|child| &self.code[child.byte_range()] == name)
                };
                if all.any(is_it) {
                    return true;
                }
            }
            next = around.parent();
        }
        false
    }

    /// Returns the variable that an identifier names; `None` if the source does not declare it.
    pub(super) fn resolve(&self, identifier: Node<'_>) -> Option<Declared> {
        let name = &self.code[identifier.byte_range()];
        let mut child = identifier;
        while let Some(parent) = child.parent() {
            let found = match parent.kind() {
                "compound_statement" => self.before(parent, name, identifier.start_byte()),
                "for_statement" => {
                    let initializer = parent.child_by_field_name("initializer");
                    initializer.and_then(|node| self.local(node, name, identifier.start_byte()))
                }
                "function_definition" => {
                    let declarator = parent.child_by_field_name("declarator")?;
                    let found = self.parameter(declarator, name);
                    // A member of the class, if no parameter has its name.
                    let is_member = || {
                        let head = self.code[declarator.byte_range()].split('(').next().unwrap_or_default();
                        head.contains("::") && self.fields.contains_key(name)
                    };
                    if found.is_none() && is_member() {
                        return None;
                    }
                    found
                }
                "translation_unit" => {
                    let all = self.file.get(name)?;
                    // An earlier declaration may leave out an array's bounds.
                    return all.first().cloned();
                }
                // A captured variable is a member of the lambda.
                "lambda_expression" => return self.parameter(parent.child_by_field_name("declarator")?, name),
                "class_specifier" | "struct_specifier" => return None,
                _ => None,
            };
            if found.is_some() {
                return found;
            }
            child = parent;
        }
        None
    }

    fn before(&self, block: Node<'_>, name: &str, at: usize) -> Option<Declared> {
        let mut cursor = block.walk();
        let declarations = block.named_children(&mut cursor).take_while(|child| child.start_byte() <= at);
        declarations.filter_map(|child| self.local(child, name, at)).last()
    }

    fn local(&self, declaration: Node<'_>, name: &str, at: usize) -> Option<Declared> {
        if declaration.kind() != "declaration" {
            return None;
        }
        let mut cursor = declaration.walk();
        let is_static = declaration.children(&mut cursor).any(|child| {
            child.kind() == "storage_class_specifier" && matches!(&self.code[child.byte_range()], "static" | "extern")
        });
        let storage = if is_static { Storage::Static } else { Storage::Local };
        let mut all = self.declarators(declaration).into_iter();
        let found = all.rfind(|(node, _)| &self.code[node.byte_range()] == name && node.start_byte() <= at);
        found.map(|(node, r#type)| Declared { at: node.start_byte(), r#type, storage })
    }

    fn parameter(&self, mut node: Node<'_>, name: &str) -> Option<Declared> {
        while !matches!(node.kind(), "function_declarator" | "abstract_function_declarator") {
            node = match node.kind() {
                "reference_declarator" => node.named_child(0)?,
                _ => node.child_by_field_name("declarator")?,
            };
        }
        let parameters = node.child_by_field_name("parameters")?;
        let mut cursor = parameters.walk();
        for parameter in
            parameters.named_children(&mut cursor).filter(|node| node.kind().ends_with("parameter_declaration"))
        {
            for (node, mut r#type) in self.declarators(parameter) {
                if &self.code[node.byte_range()] == name {
                    if r#type.derived.first() == Some(&Derived::Array) {
                        let text = &self.code[parameter.byte_range()];
                        r#type.derived[0] = Derived::Pointer { restrict: text.contains("[restrict") };
                    }
                    return Some(Declared { at: node.start_byte(), r#type, storage: Storage::Parameter });
                }
            }
        }
        None
    }
}

//! Expressions: the variables that they access, and their values as polynomials.

use super::liveness::operator;
use super::symbols::{Declared, Symbols};
use super::types::{Derived, Type};
use crate::ir::{Access, Call, Element, Shape, Span, Storage, VarId, Variable};
use crate::poly::Poly;
use std::collections::{HashMap, HashSet};
use tree_sitter::Node;

/// Distinguishes variables of a construct.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    /// Where it is declared.
    Declared(usize),
    /// A component, or a name that the source does not declare.
    Path(String),
}

/// Reads the expressions of one construct.
pub(super) struct Expressions<'s> {
    pub(super) symbols: &'s Symbols<'s>,
    pub(super) code: &'s str,
    /// The construct's body.
    pub(super) span: Span,
    /// `acc routine` functions: whether they have a level.
    pub(super) routines: &'s HashMap<String, bool>,
    pub(super) variables: Vec<Variable>,
    /// The declarations of the variables, by their numbers; `None` for an undeclared variable.
    pub(super) declared: Vec<Option<Declared>>,
    types: Vec<Type>,
    ids: HashMap<Key, VarId>,
    /// Pointers whose own value is stored.
    pub(super) stored_pointers: HashSet<VarId>,
}

/// Accesses and calls of an expression.
#[derive(Default, Debug)]
pub(super) struct Found {
    pub(super) accesses: Vec<Access>,
    pub(super) calls: Vec<Call>,
    /// An assignment inside of an expression, or text that is not understood.
    pub(super) opaque: Option<&'static str>,
}

/// What an lvalue names.
struct Lvalue {
    variable: VarId,
    subscripts: Vec<Option<Poly>>,
    /// The rest of the type.
    rest: Type,
    /// Its path, for components.
    path: String,
    /// Whether a pointer has been followed.
    followed: bool,
}

impl<'s> Expressions<'s> {
    pub(super) fn new(
        symbols: &'s Symbols<'s>,
        code: &'s str,
        span: Span,
        routines: &'s HashMap<String, bool>,
    ) -> Self {
        Self {
            symbols,
            code,
            span,
            routines,
            variables: Vec::new(),
            declared: Vec::new(),
            types: Vec::new(),
            ids: HashMap::new(),
            stored_pointers: HashSet::new(),
        }
    }

    pub(super) fn text(&self, node: Node<'_>) -> &'s str {
        &self.code[node.byte_range()]
    }

    /// The type of a variable.
    pub(super) fn type_of(&self, variable: VarId) -> &Type {
        &self.types[variable.0]
    }

    /// Returns the variable of an identifier, which is added to the construct's list.
    pub(super) fn variable(&mut self, identifier: Node<'_>) -> VarId {
        let name = self.text(identifier);
        let declared = self.symbols.resolve(identifier);
        let key = declared.as_ref().map_or_else(|| Key::Path(name.to_owned()), |declared| Key::Declared(declared.at));
        if let Some(known) = self.ids.get(&key) {
            return *known;
        }
        let inside = declared.as_ref().is_some_and(|declared| self.span.contains(&declared.at));
        let storage = match &declared {
            Some(declared) if inside && declared.storage == Storage::Local => Storage::Inside,
            Some(declared) => declared.storage,
            None => Storage::Static,
        };
        let r#type = declared.as_ref().map_or(Type::UNKNOWN, |declared| declared.r#type.clone());
        self.add(key, name, r#type, storage, declared)
    }

    fn add(&mut self, key: Key, name: &str, r#type: Type, storage: Storage, declared: Option<Declared>) -> VarId {
        let shape = match (r#type.derived.first(), &key) {
            (Some(Derived::Array | Derived::Pointer { .. }), Key::Path(_)) => Shape::Other,
            (Some(Derived::Array), _) => Shape::Array,
            (Some(Derived::Pointer { restrict }), _) => Shape::Pointer { restrict: *restrict },
            (None, Key::Declared(_)) if r#type.element != Element::Other || r#type.is_parameter => Shape::Scalar,
            _ => Shape::Other,
        };
        let id = VarId(self.variables.len());
        self.variables.push(Variable {
            name: name.to_owned(),
            shape,
            element: r#type.element,
            storage,
            address_taken: self.symbols.address_taken(name),
            volatile: r#type.volatile,
            live_after: true,
            stored_whole: false,
            private_of: None,
            mapped: false,
        });
        self.types.push(r#type);
        self.declared.push(declared);
        self.ids.insert(key, id);
        id
    }

    /// Collects the accesses of an expression whose value is read.
    pub(super) fn read(&mut self, node: Node<'_>, found: &mut Found) {
        match node.kind() {
            "identifier" if self.symbols.enumerator(node).is_some() => {}
            "identifier" => {
                let variable = self.variable(node);
                let access = match self.variables[variable.0].shape {
                    Shape::Scalar => Access { variable, write: false, subscripts: Vec::new(), span: node.byte_range() },
                    _ => Access::whole(variable, false, node.byte_range()),
                };
                found.accesses.push(access);
            }
            "subscript_expression" | "field_expression" | "qualified_identifier" | "this" => {
                self.lvalue_access(node, false, found);
            }
            "pointer_expression" if self.text(node).starts_with('*') => self.lvalue_access(node, false, found),
            "pointer_expression" => {
                // An address: its uses are unknown.
                if let Some(argument) = node.child_by_field_name("argument") {
                    self.escape(argument, found);
                }
            }
            "call_expression" => self.call(node, found),
            "assignment_expression" | "update_expression" => {
                found.opaque = Some("an assignment inside of an expression");
                self.children(node, found);
            }
            "number_literal"
            | "char_literal"
            | "string_literal"
            | "true"
            | "false"
            | "null"
            | "concatenated_string" => {}
            "sizeof_expression" | "alignof_expression" | "type_descriptor" | "primitive_type" => {}
            "binary_expression"
            | "unary_expression"
            | "parenthesized_expression"
            | "conditional_expression"
            | "cast_expression"
            | "comma_expression"
            | "argument_list"
            | "initializer_list"
            | "initializer_pair" => {
                self.children(node, found);
            }
            _ => {
                found.opaque = Some("an expression that is not understood");
                self.mentions(node, &mut found.accesses);
            }
        }
    }

    fn children(&mut self, node: Node<'_>, found: &mut Found) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.read(child, found);
        }
    }

    /// Reads and writes of all that a text names.
    pub(super) fn mentions(&mut self, node: Node<'_>, accesses: &mut Vec<Access>) {
        if node.kind() == "identifier" {
            let is_called = node.parent().is_some_and(|parent| {
                parent.kind() == "call_expression" && parent.child_by_field_name("function") == Some(node)
            });
            if !is_called && self.symbols.resolve(node).is_some() {
                let variable = self.variable(node);
                accesses.push(Access::whole(variable, false, node.byte_range()));
                accesses.push(Access::whole(variable, true, node.byte_range()));
            }
            return;
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.mentions(child, accesses);
        }
    }

    fn escape(&mut self, node: Node<'_>, found: &mut Found) {
        self.mentions(node, &mut found.accesses);
    }

    /// Adds the access of an lvalue, after those of its subscripts.
    pub(super) fn lvalue_access(&mut self, node: Node<'_>, write: bool, found: &mut Found) {
        let Some(lvalue) = self.lvalue(node, found) else {
            found.opaque = Some("an expression that is not understood");
            self.mentions(node, &mut found.accesses);
            return;
        };
        let variable = lvalue.variable;
        let scalar = self.variables[variable.0].shape == Shape::Scalar;
        let pointer = matches!(self.variables[variable.0].shape, Shape::Pointer { .. }) && lvalue.subscripts.is_empty();
        if pointer && write {
            self.stored_pointers.insert(variable);
        }
        let plain = matches!(node.kind(), "identifier" | "qualified_identifier");
        if write && plain && self.variables[variable.0].shape == Shape::Other {
            self.variables[variable.0].stored_whole = true;
        }
        let subscripts = match lvalue.subscripts.is_empty() && !scalar {
            true => vec![None],
            false => lvalue.subscripts,
        };
        found.accesses.push(Access { variable, write, subscripts, span: node.byte_range() });
    }

    fn lvalue(&mut self, node: Node<'_>, found: &mut Found) -> Option<Lvalue> {
        match node.kind() {
            "identifier" => {
                let variable = self.variable(node);
                let rest = self.types[variable.0].clone();
                Some(Lvalue {
                    variable,
                    subscripts: Vec::new(),
                    rest,
                    path: self.text(node).to_owned(),
                    followed: false,
                })
            }
            "this" | "qualified_identifier" => Some(self.undeclared(self.text(node))),
            "parenthesized_expression" => self.lvalue(node.named_child(0)?, found),
            "subscript_expression" => {
                let base = self.lvalue(node.child_by_field_name("argument")?, found)?;
                let mut cursor = node.walk();
                let index = node.child_by_field_name("index").or_else(|| node.named_children(&mut cursor).nth(1))?;
                let index = match index.kind() {
                    "subscript_argument_list" => index.named_child(0)?,
                    _ => index,
                };
                self.read(index, found);
                let index = self.poly(index);
                self.element(base, index, node.byte_range(), found)
            }
            "pointer_expression" if self.text(node).starts_with('*') => {
                let mut inner = node.child_by_field_name("argument")?;
                while inner.kind() == "parenthesized_expression" {
                    inner = inner.named_child(0)?;
                }
                if inner.kind() == "binary_expression" && operator(inner, self.code) == "+" {
                    let base = self.lvalue(inner.child_by_field_name("left")?, found)?;
                    let index = inner.child_by_field_name("right")?;
                    self.read(index, found);
                    let index = self.poly(index);
                    return self.element(base, index, node.byte_range(), found);
                }
                let base = self.lvalue(inner, found)?;
                self.element(base, Some(Poly::constant(0)), node.byte_range(), found)
            }
            "field_expression" => {
                let mut base = self.lvalue(node.child_by_field_name("argument")?, found)?;
                let field = self.text(node.child_by_field_name("field")?);
                let arrow = self.code[node.byte_range()].contains("->")
                    && matches!(base.rest.derived.first(), Some(Derived::Pointer { .. }));
                if arrow {
                    base = self.element(base, Some(Poly::constant(0)), node.byte_range(), found)?;
                }
                base.rest = self.symbols.field(field);
                base.path = format!("{}{}{field}", base.path, if arrow { "->" } else { "." });
                Some(base)
            }
            _ => None,
        }
    }

    /// Returns the lvalue of a name that the text does not declare: it may be anything.
    fn undeclared(&mut self, name: &str) -> Lvalue {
        let key = Key::Path(name.to_owned());
        let known = self.ids.get(&key).copied();
        let variable = known.unwrap_or_else(|| self.add(key, name, Type::UNKNOWN, Storage::Static, None));
        Lvalue { variable, subscripts: Vec::new(), rest: Type::UNKNOWN, path: name.to_owned(), followed: false }
    }

    /// Returns the lvalue of `base[index]`.
    fn element(&mut self, mut base: Lvalue, index: Option<Poly>, span: Span, found: &mut Found) -> Option<Lvalue> {
        let is_unknown = matches!(base.rest.derived.first(), None | Some(Derived::Function));
        if is_unknown && self.symbols.cxx {
            // An operator of a class, or the target of a reference.
            if base.subscripts.is_empty() {
                base.subscripts.push(None);
            }
            return Some(Lvalue { rest: Type::UNKNOWN, followed: true, ..base });
        }
        match base.rest.derived.first()? {
            Derived::Array => {
                base.rest.derived.remove(0);
                base.subscripts.push(index);
                base.path.push_str("[]");
                Some(base)
            }
            Derived::Pointer { .. }
                if base.subscripts.is_empty() && !base.followed && !base.path.contains(['.', '>']) =>
            {
                base.rest.derived.remove(0);
                base.subscripts.push(index);
                base.followed = true;
                Some(base)
            }
            Derived::Pointer { .. } => {
                // A pointer in memory: it is read, and its target may be anything.
                let subscripts = if base.subscripts.is_empty() { vec![None] } else { base.subscripts };
                found.accesses.push(Access { variable: base.variable, write: false, subscripts, span });
                let path = format!("{}{}", base.path, if base.path.ends_with(']') { "" } else { "*" });
                let mut rest = base.rest;
                let key = Key::Path(path.clone());
                let variable = match self.ids.get(&key) {
                    Some(known) => *known,
                    None => self.add(key, &path, rest.clone(), Storage::Static, None),
                };
                rest.derived.remove(0);
                Some(Lvalue { variable, subscripts: vec![index], rest, path, followed: true })
            }
            Derived::Function => None,
        }
    }

    /// Returns the expression as a polynomial, if its arithmetic does not wrap.
    pub(super) fn poly(&mut self, node: Node<'_>) -> Option<Poly> {
        match node.kind() {
            "number_literal" => {
                let text = self.text(node).trim_end_matches(['u', 'U', 'l', 'L']).replace('\'', "");
                match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                    Some(digits) => i64::from_str_radix(digits, 16).ok(),
                    None if text.len() > 1 && text.starts_with('0') => i64::from_str_radix(&text, 8).ok(),
                    None => text.parse().ok(),
                }
                .map(Poly::constant)
            }
            "identifier" if self.symbols.enumerator(node).is_some() => {
                self.symbols.enumerator(node)?.map(Poly::constant)
            }
            "identifier" => {
                let variable = self.variable(node);
                let of = &self.variables[variable.0];
                (of.shape == Shape::Scalar && self.types[variable.0].is_integer() && !of.volatile)
                    .then(|| Poly::variable(variable))
            }
            "parenthesized_expression" => self.poly(node.named_child(0)?),
            "unary_expression" => {
                let inner = self.poly(node.child_by_field_name("argument")?)?;
                match operator(node, self.code) {
                    "-" if !self.wraps(&inner) || inner.as_constant().is_some() => inner.times(&Poly::constant(-1)),
                    "+" => Some(inner),
                    _ => None,
                }
            }
            "cast_expression" => {
                let inner = self.poly(node.child_by_field_name("value")?)?;
                let descriptor = node.child_by_field_name("type")?;
                let to = self.symbols.base(descriptor)?;
                match to.element {
                    Element::Integer { bits: 64, .. } | Element::Integer { signed: true, bits: 32 }
                        if descriptor.child_by_field_name("declarator").is_none() && !self.wide(&inner, to.element) =>
                    {
                        Some(inner)
                    }
                    _ => None,
                }
            }
            "binary_expression" => {
                let left = self.poly(node.child_by_field_name("left")?)?;
                let right = self.poly(node.child_by_field_name("right")?)?;
                let small = |poly: &Poly| poly.as_constant().is_some_and(|value| value.abs() < 1 << 20);
                let wraps = self.wraps(&left) || self.wraps(&right);
                match operator(node, self.code) {
                    "+" if !wraps || small(&left) || small(&right) => left.plus(&right),
                    "-" if !wraps || small(&right) => left.minus(&right),
                    "*" if !wraps => left.times(&right),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether arithmetic with it may wrap to another element of an array: it is in 32 bits without sign.
    fn wraps(&self, poly: &Poly) -> bool {
        poly.variables()
            .iter()
            .any(|variable| matches!(self.variables[variable.0].element, Element::Integer { signed: false, bits: 32 }))
    }

    /// Whether a cast to 32 bits loses some of its bits.
    fn wide(&self, poly: &Poly, to: Element) -> bool {
        matches!(to, Element::Integer { bits: 32, .. })
            && poly.variables().iter().any(|variable| {
                matches!(
                    self.variables[variable.0].element,
                    Element::Integer { bits: 64, .. } | Element::Integer { signed: false, bits: 32 }
                )
            })
    }
}

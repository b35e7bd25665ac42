//! Variables and accesses in expressions.

use super::constants::integer;
use super::entity::{Class, Entity, Procedure};
use super::intrinsics;
use super::scopes::{Meaning, Scopes};
use super::source::Source;
use super::tree::{bare, callee, child, children, word};
use crate::ir::{Access, Call, CallKind, Element, Shape, Storage, VarId, Variable};
use crate::poly::Poly;
use std::collections::HashMap;
use tree_sitter::Node;

/// Largest constant exponent of a polynomial.
const EXPONENT_MAX: i64 = 4;

/// Reads the expressions of one construct.
pub(super) struct Expressions<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) scopes: &'a Scopes,
    pub(super) scope: usize,
    /// Variables, in the order of their first occurrence.
    pub(super) variables: Vec<Variable>,
    /// The declaration of each variable.
    pub(super) entities: Vec<Option<Entity>>,
    by_name: HashMap<String, VarId>,
    /// The reason why a name is not understood.
    pub(super) unknown: Option<(usize, String)>,
}

/// The effects of an expression.
#[derive(Default)]
pub(super) struct Found {
    pub(super) accesses: Vec<Access>,
    pub(super) calls: Vec<Call>,
}

/// A reference to a variable: `a`, `a(i, j)`, `c%x(i)`.
pub(super) struct Reference<'t> {
    /// The path in lower case.
    pub(super) name: String,
    pub(super) entity: Option<Entity>,
    /// Subscripts of the last part; `None` without parentheses.
    pub(super) subscripts: Option<Vec<Node<'t>>>,
    /// Subscripts of parts before it.
    pub(super) outer: Vec<Node<'t>>,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(source: &'a Source<'a>, scopes: &'a Scopes, scope: usize) -> Self {
        Self {
            source,
            scopes,
            scope,
            variables: Vec::new(),
            entities: Vec::new(),
            by_name: HashMap::new(),
            unknown: None,
        }
    }

    pub(super) fn code(&self) -> &'a str {
        &self.source.code
    }

    /// Returns the meaning of a name; a name that is not understood is recorded.
    pub(super) fn meaning(&mut self, node: Node<'_>) -> Meaning {
        let meaning = self.scopes.meaning(self.scope, &word(node, self.code()));
        if let Meaning::Unknown(reason) = &meaning {
            self.unknown.get_or_insert_with(|| (node.start_byte(), reason.clone()));
        }
        meaning
    }

    /// Returns the variable that an expression refers to; `None` if it is no reference.
    pub(super) fn reference<'t>(&mut self, node: Node<'t>) -> Option<Reference<'t>> {
        match node.kind() {
            "identifier" => {
                let entity = match self.meaning(node) {
                    Meaning::Declared(entity) => match entity.class {
                        Class::Variable => Some(entity),
                        _ => return None,
                    },
                    Meaning::Intrinsic => return None,
                    Meaning::Unknown(_) => None,
                };
                Some(Reference { name: word(node, self.code()), entity, subscripts: None, outer: Vec::new() })
            }
            "call_expression" => {
                let (own, lists) = callee(node)?;
                // A name that is neither declared nor a variable is a function.
                if own.kind() == "identifier"
                    && !matches!(self.scopes.meaning(self.scope, &word(own, self.code())), Meaning::Declared(_))
                {
                    return None;
                }
                let mut reference = self.reference(own)?;
                let implicit = reference.entity.as_ref().is_none_or(|entity| entity.bounds.is_empty());
                // A scalar with parentheses is a function, or a part of a string.
                let text = reference
                    .entity
                    .as_ref()
                    .is_some_and(|entity| entity.element == Element::Other && !entity.implicit);
                if reference.subscripts.is_some() || lists.len() != 1 || implicit && !text {
                    return None;
                }
                reference.subscripts = Some(children(lists[0]));
                Some(reference)
            }
            "derived_type_member_expression" => {
                let mut reference = self.reference(node.named_child(0)?)?;
                let name = word(child(node, "type_member")?, self.code());
                reference.outer.extend(reference.subscripts.take().into_iter().flatten());
                let base = reference.entity.take();
                let derived = base.as_ref().and_then(|entity| entity.derived.clone());
                reference.entity =
                    derived.and_then(|derived| self.scopes.component(&derived, &name)).map(|mut part| {
                        let base = base.as_ref();
                        part.storage = base.map_or(Storage::Static, |base| base.storage);
                        part.target |= base.is_some_and(|base| base.target);
                        part.volatile |= base.is_some_and(|base| base.volatile);
                        // The target of a pointer, or an element of an array, may be the same as another.
                        let reached = |base: &Entity| base.pointer || base.target || base.equivalent || base.is_array();
                        part.equivalent |= base.is_some_and(reached);
                        part
                    });
                reference.name = format!("{}%{name}", reference.name);
                Some(reference)
            }
            _ => None,
        }
    }

    /// The variable of a reference.
    pub(super) fn variable(&mut self, reference: &Reference<'_>) -> VarId {
        if let Some(known) = self.by_name.get(&reference.name) {
            return *known;
        }
        let id = VarId(self.variables.len());
        self.by_name.insert(reference.name.clone(), id);
        self.variables.push(described(&reference.name, reference.entity.as_ref()));
        self.entities.push(reference.entity.clone());
        id
    }

    /// Returns the variable that an identifier names, if it is one.
    pub(super) fn scalar(&mut self, node: Node<'_>) -> Option<VarId> {
        if node.kind() != "identifier" {
            return None;
        }
        let reference = self.reference(node)?;
        let id = self.variable(&reference);
        (self.variables[id.0].shape == Shape::Scalar).then_some(id)
    }

    /// All that an expression reads and calls.
    pub(super) fn read(&mut self, node: Node<'_>, found: &mut Found) {
        if let Some(reference) = self.reference(node) {
            self.access(node, &reference, false, found);
            return;
        }
        match node.kind() {
            "call_expression" => self.call(node, found),
            "number_literal" | "string_literal" | "boolean_literal" | "null_literal" | "intrinsic_type" | "kind"
            | "identifier" | "type_member" | "assumed_size" | "assumed_shape" => {}
            "keyword_argument" => {
                if let Some(value) = node.child_by_field_name("value") {
                    self.read(value, found);
                }
            }
            _ => {
                for inner in children(node) {
                    if inner.kind() == "user_defined_operator" {
                        found.calls.push(self.unknown_call(inner));
                    } else {
                        self.read(inner, found);
                    }
                }
            }
        }
    }

    /// Adds the access of a reference, after all that its subscripts read.
    pub(super) fn access(&mut self, node: Node<'_>, reference: &Reference<'_>, write: bool, found: &mut Found) {
        for subscript in reference.outer.iter().chain(reference.subscripts.iter().flatten()) {
            self.read(*subscript, found);
        }
        let variable = self.variable(reference);
        let span = self.source.span(node.byte_range());
        let shape = self.variables[variable.0].shape;
        let access = match (&reference.subscripts, shape) {
            (_, Shape::Scalar) => Access { variable, write, subscripts: Vec::new(), span },
            (Some(list), _)
                if reference.outer.is_empty() && reference.entity.as_ref().is_some_and(Entity::is_array) =>
            {
                let mut subscripts: Vec<Option<Poly>> = list.iter().map(|one| self.poly(*one)).collect();
                subscripts.reverse();
                Access { variable, write, subscripts, span }
            }
            _ => Access::whole(variable, write, span),
        };
        found.accesses.push(access);
    }

    fn unknown_call(&self, node: Node<'_>) -> Call {
        let name = self.code()[node.byte_range()].trim().to_owned();
        Call { name, kind: CallKind::Unknown, span: self.source.span(node.byte_range()) }
    }

    /// A function reference or a `call`.
    pub(super) fn call(&mut self, node: Node<'_>, found: &mut Found) {
        let own = match node.child_by_field_name("subroutine") {
            Some(own) => {
                Some((own, children(node).into_iter().filter(|child| child.kind() == "argument_list").collect()))
            }
            None => callee(node),
        };
        let Some((callee, lists)) = own else { return };
        let arguments: Vec<Node<'_>> = lists.into_iter().flat_map(children).collect();
        let name = word(callee, self.code());
        let is_call = node.kind() == "subroutine_call";
        let meaning = if callee.kind() == "identifier" { Some(self.scopes.meaning(self.scope, &name)) } else { None };
        let (kind, pure) = match &meaning {
            Some(Meaning::Intrinsic) if !is_call => (CallKind::Pure, true),
            Some(Meaning::Declared(Entity {
                class: Class::Procedure(Procedure { pure, closed, routine }), ..
            })) => {
                let kind = match routine {
                    Some(true) => CallKind::Level,
                    Some(false) if *pure && *closed && !is_call => CallKind::Pure,
                    Some(false) => CallKind::Sequential,
                    None => CallKind::Unknown,
                };
                (kind, *pure && !is_call)
            }
            // An element of a constant array.
            Some(Meaning::Declared(Entity { class: Class::Constant(_), .. })) => {
                arguments.into_iter().for_each(|argument| self.read(argument, found));
                return;
            }
            Some(Meaning::Unknown(reason)) if !is_call => {
                self.unknown.get_or_insert_with(|| (callee.start_byte(), reason.clone()));
                (CallKind::Unknown, false)
            }
            _ => (CallKind::Unknown, false),
        };
        if callee.kind() != "identifier" {
            self.read(callee, found);
        }
        let inquiry = meaning == Some(Meaning::Intrinsic) && intrinsics::is_inquiry(&name);
        for argument in arguments.into_iter().skip(usize::from(inquiry)) {
            self.read(argument, found);
            let value = argument.child_by_field_name("value").unwrap_or(argument);
            if pure {
                continue;
            }
            if let Some(reference) = self.reference(value) {
                // A procedure may use all of an array from the element that is passed.
                let variable = self.variable(&reference);
                let span = self.source.span(value.byte_range());
                if self.variables[variable.0].shape == Shape::Scalar {
                    found.accesses.push(Access { variable, write: true, subscripts: Vec::new(), span });
                } else {
                    found.accesses.push(Access::whole(variable, false, span.clone()));
                    found.accesses.push(Access::whole(variable, true, span));
                }
            }
        }
        found.calls.push(Call { name, kind, span: self.source.span(callee.byte_range()) });
    }

    /// The polynomial that an integer expression is.
    pub(super) fn poly(&mut self, node: Node<'_>) -> Option<Poly> {
        let node = bare(node);
        match node.kind() {
            "number_literal" => Some(Poly::constant(integer(&word(node, self.code()))?)),
            "identifier" => {
                if let Meaning::Declared(Entity { class: Class::Constant(value), .. }) = self.meaning(node) {
                    return Some(Poly::constant(value?));
                }
                let id = self.scalar(node)?;
                matches!(self.variables[id.0].element, Element::Integer { .. }).then(|| Poly::variable(id))
            }
            "unary_expression" => {
                let value = self.poly(node.child_by_field_name("argument")?)?;
                match word(node.child_by_field_name("operator")?, self.code()).as_str() {
                    "-" => value.times(&Poly::constant(-1)),
                    "+" => Some(value),
                    _ => None,
                }
            }
            "math_expression" => {
                let (left, right) = (node.child_by_field_name("left")?, node.child_by_field_name("right")?);
                let operator = word(node.child_by_field_name("operator")?, self.code());
                let (one, two) = (self.poly(left)?, self.poly(right)?);
                match operator.as_str() {
                    "+" => one.plus(&two),
                    "-" => one.minus(&two),
                    "*" => one.times(&two),
                    "/" => Some(Poly::constant(one.as_constant()?.checked_div(two.as_constant()?)?)),
                    // The grammar parses `-i**2` as `(-i)**2`.
                    "**" if left.kind() != "unary_expression" => {
                        let exponent = two.as_constant().filter(|exponent| (0..=EXPONENT_MAX).contains(exponent))?;
                        (0..exponent).try_fold(Poly::constant(1), |product, _| product.times(&one))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Adds a read and a store of unknown parts of each variable that a statement names.
    pub(super) fn mentions(&mut self, node: Node<'_>, accesses: &mut Vec<Access>) {
        if let Some(reference) = self.reference(node) {
            let variable = self.variable(&reference);
            let span = self.source.span(node.byte_range());
            for write in [false, true] {
                accesses.push(match self.variables[variable.0].shape {
                    Shape::Scalar => Access { variable, write, subscripts: Vec::new(), span: span.clone() },
                    _ => Access::whole(variable, write, span.clone()),
                });
            }
            for inner in reference.outer.into_iter().chain(reference.subscripts.into_iter().flatten()) {
                self.mentions(inner, accesses);
            }
            return;
        }
        let name = callee(node).map(|(name, _)| name.id()).filter(|_| node.kind() == "call_expression");
        children(node)
            .into_iter()
            .filter(|inner| Some(inner.id()) != name || inner.kind() != "identifier")
            .for_each(|inner| self.mentions(inner, accesses));
    }
}

fn described(name: &str, entity: Option<&Entity>) -> Variable {
    let mut new = Variable {
        name: name.to_owned(),
        shape: Shape::Other,
        element: Element::Other,
        storage: Storage::Static,
        address_taken: true,
        volatile: false,
        live_after: true,
        stored_whole: false,
        private_of: None,
        mapped: false,
    };
    let Some(entity) = entity else { return new };
    new.element = entity.element;
    new.storage = entity.storage;
    new.volatile = entity.volatile;
    new.mapped = entity.resident;
    new.address_taken = entity.target || entity.pointer || entity.equivalent;
    // Arrays of two kinds don't overlap, as far as the kinds are known.
    if entity.is_array()
        && matches!(new.element, Element::Real(0) | Element::Complex(0) | Element::Integer { bits: 0, .. })
    {
        new.element = Element::Other;
    }
    let arithmetic = entity.element != Element::Other;
    new.shape = match entity.is_array() {
        _ if entity.equivalent || entity.derived.is_some() => Shape::Other,
        // No clause names a component alone, not even a scalar.
        false if name.contains('%') && arithmetic && !entity.pointer => Shape::Array,
        // Strides of pointers are not known, so that no ranges can be compared.
        true if entity.pointer || entity.target && entity.storage == Storage::Reference => Shape::Other,
        true => Shape::Array,
        false if arithmetic && !entity.pointer && !entity.allocatable => Shape::Scalar,
        false => Shape::Other,
    };
    new
}

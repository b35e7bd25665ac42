//! Writes expressions of arrays element by element.

use super::constants::integer;
use super::entity::Entity;
use super::expressions::{Expressions, Reference};
use super::intrinsics;
use super::tree::{bare, callee, child, children, word};
use crate::ir::Element;
use std::collections::HashMap;
use tree_sitter::Node;

/// The prefix of new variables' names.
pub(super) const PREFIX: &str = "accord_i";

/// A dimension of an array in an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Dimension {
    /// One element.
    At(String),
    /// A range of elements.
    Range(Range),
}

/// First and last element, and the distance of two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) first: String,
    pub(super) last: String,
    pub(super) step: String,
}

/// A loop over a dimension of the array that is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DimensionLoop {
    pub(super) variable: String,
    pub(super) range: Range,
}

/// An element that an expression names.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) name: String,
    pub(super) entity: Option<Entity>,
    pub(super) subscripts: Vec<String>,
}

/// Writes expressions of arrays as expressions of elements.
pub(super) struct Elements<'e, 'a> {
    pub(super) expressions: &'e mut Expressions<'a>,
    /// Other names of variables.
    pub(super) renamed: &'e HashMap<String, String>,
    /// Elements that have been named so far.
    pub(super) uses: Vec<Use>,
}

/// The reason why an expression can't be rewritten.
pub(super) type Refusal = String;

impl<'a> Elements<'_, 'a> {
    fn code(&self) -> &'a str {
        self.expressions.code()
    }

    /// Returns a text without arrays, with new names where there are some.
    pub(super) fn plain(&self, node: Node<'_>) -> String {
        let (mut text, mut done) = (String::new(), node.start_byte());
        self.names(node, &mut text, &mut done);
        text.push_str(&self.code()[done..node.end_byte()]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn names(&self, node: Node<'_>, text: &mut String, done: &mut usize) {
        if node.kind() == "identifier" {
            if let Some(new) = self.renamed.get(&word(node, self.code())) {
                text.push_str(&self.code()[*done..node.start_byte()]);
                text.push_str(new);
                *done = node.end_byte();
            }
            return;
        }
        for (at, inner) in children(node).into_iter().enumerate() {
            if node.kind() != "keyword_argument" || at > 0 {
                self.names(inner, text, done);
            }
        }
    }

    /// Returns the dimensions of an array; `None` for anything else.
    pub(super) fn dimensions(&mut self, reference: &Reference<'_>) -> Result<Option<Vec<Dimension>>, Refusal> {
        let Some(entity) = reference.entity.as_ref().filter(|entity| entity.is_array()) else { return Ok(None) };
        let whole = |at: usize| {
            let bounds = &entity.bounds[at];
            let literal = |text: &Option<String>| text.as_ref().filter(|text| text.parse::<i64>().is_ok()).cloned();
            let path = &reference.name;
            Range {
                first: literal(&bounds.lower).unwrap_or_else(|| format!("lbound({path},{})", at + 1)),
                last: literal(&bounds.upper).unwrap_or_else(|| format!("ubound({path},{})", at + 1)),
                step: "1".into(),
            }
        };
        if !reference.outer.is_empty() {
            return Err(format!("{} is a component of an array's element", reference.name));
        }
        let Some(subscripts) = &reference.subscripts else {
            return Ok(Some((0..entity.bounds.len()).map(|at| Dimension::Range(whole(at))).collect()));
        };
        if subscripts.len() != entity.bounds.len() {
            return Err(format!("{} has another rank", reference.name));
        }
        let mut all = Vec::new();
        for (at, subscript) in subscripts.iter().enumerate() {
            if subscript.kind() == "extent_specifier" {
                let given = extent(*subscript);
                let text = |node: Option<Node<'_>>| node.map(|node| self.plain(node));
                let whole = whole(at);
                all.push(Dimension::Range(Range {
                    first: text(given[0]).unwrap_or(whole.first),
                    last: text(given[1]).unwrap_or(whole.last),
                    step: text(given[2]).unwrap_or(whole.step),
                }));
            } else if self.has_array(*subscript) {
                return Err(format!("{} has a vector of subscripts", reference.name));
            } else {
                all.push(Dimension::At(self.plain(*subscript)));
            }
        }
        Ok(Some(all))
    }

    /// Whether an expression has a rank.
    fn has_array(&mut self, node: Node<'_>) -> bool {
        if let Some(reference) = self.expressions.reference(node) {
            let array = reference.entity.as_ref().is_some_and(Entity::is_array);
            return array
                && reference.subscripts.is_none_or(|list| {
                    list.into_iter().any(|one| one.kind() == "extent_specifier" || self.has_array(one))
                });
        }
        node.kind() == "array_literal" || children(node).into_iter().any(|inner| self.has_array(inner))
    }

    /// The first array of an expression.
    pub(super) fn first_array(&mut self, node: Node<'_>) -> Result<Option<Vec<Dimension>>, Refusal> {
        if let Some(reference) = self.expressions.reference(node) {
            let dimensions = self.dimensions(&reference)?;
            return Ok(dimensions.filter(|all| all.iter().any(|one| matches!(one, Dimension::Range(_)))));
        }
        for inner in children(node) {
            if let Some(found) = self.first_array(inner)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// An array's element for the loops' variables.
    pub(super) fn element(&mut self, reference: &Reference<'_>, over: &[DimensionLoop]) -> Result<String, Refusal> {
        let Some(dimensions) = self.dimensions(reference)? else {
            let renamed = self.renamed.get(&reference.name).cloned();
            let (name, entity) = (reference.name.clone(), reference.entity.clone());
            if entity.is_none() {
                return Err(format!("what {name} means is not known"));
            }
            self.uses.push(Use { name: name.clone(), entity, subscripts: Vec::new() });
            return Ok(renamed.unwrap_or(name));
        };
        let ranges = dimensions.iter().filter(|one| matches!(one, Dimension::Range(_))).count();
        if ranges != 0 && ranges != over.len() {
            return Err(format!("{} has another rank", reference.name));
        }
        let mut over = over.iter();
        let mut subscripts = Vec::new();
        for dimension in dimensions {
            subscripts.push(match dimension {
                Dimension::At(text) => text,
                Dimension::Range(range) => match over.next() {
                    Some(over) => moved(over, &range),
                    None => return Err(format!("{} has another rank", reference.name)),
                },
            });
        }
        let text = format!("{}({})", reference.name, subscripts.join(","));
        self.uses.push(Use { name: reference.name.clone(), entity: reference.entity.clone(), subscripts });
        Ok(text)
    }

    /// An expression for the loops' variables.
    pub(super) fn expression(&mut self, node: Node<'_>, over: &[DimensionLoop]) -> Result<String, Refusal> {
        let own = callee(node).map_or(node, |(own, _)| own).start_byte();
        if let Some(reference) = self.expressions.reference(node) {
            // A sign before it belongs to the grammar's node.
            let sign = if node.kind() == "call_expression" { &self.code()[node.start_byte()..own] } else { "" };
            return Ok(format!("{sign}{}", self.element(&reference, over)?));
        }
        match node.kind() {
            "call_expression" => {
                let name = callee(node).map(|(name, _)| name).filter(|name| name.kind() == "identifier");
                let Some(name) = name else { return Err("a call in an assignment of arrays".into()) };
                let meaning = Some(self.expressions.meaning(name));
                let name = word(name, self.code());
                if meaning != Some(super::scopes::Meaning::Intrinsic) {
                    return Err(format!("a call of {name} in an assignment of arrays"));
                }
                if intrinsics::is_inquiry(&name) {
                    return Ok(self.plain(node));
                }
                if !intrinsics::is_elemental(&name) {
                    return Err(format!("{name} in an assignment of arrays"));
                }
                self.parts(node, over)
            }
            "array_literal" | "implied_do_loop_expression" => {
                Err("an array constructor in an assignment of arrays".into())
            }
            "string_literal" => Err("characters in an assignment of arrays".into()),
            "user_defined_operator" => Err("an operator of the program in an assignment of arrays".into()),
            _ => self.parts(node, over),
        }
    }

    /// Returns the text of a node with its parts written element by element.
    fn parts(&mut self, node: Node<'_>, over: &[DimensionLoop]) -> Result<String, Refusal> {
        let (mut text, mut done) = (String::new(), node.start_byte());
        for (at, inner) in children(node).into_iter().enumerate() {
            text.push_str(&self.code()[done..inner.start_byte()]);
            let is_name = matches!(node.kind(), "call_expression" | "keyword_argument") && at == 0;
            let is_kind = matches!(node.kind(), "number_literal" | "boolean_literal" | "string_literal");
            match is_name || is_kind {
                true => text.push_str(&self.code()[inner.byte_range()]),
                false => text.push_str(&self.expression(inner, over)?),
            }
            done = inner.end_byte();
        }
        text.push_str(&self.code()[done..node.end_byte()]);
        Ok(text)
    }

    /// Returns the type of an expression's elements, as far as it is known.
    pub(super) fn element_type(&mut self, node: Node<'_>) -> Option<Element> {
        let node = bare(node);
        if let Some(reference) = self.expressions.reference(node) {
            return reference.entity.map(|entity| entity.element).filter(|element| *element != Element::Other);
        }
        match node.kind() {
            "number_literal" => {
                let text = word(node, self.code());
                if text.contains('_') {
                    return None;
                }
                let real = text.contains(['.', 'e', 'd']);
                Some(match (integer(&text), real) {
                    (Some(_), _) => Element::Integer { signed: true, bits: 32 },
                    (None, _) => Element::Real(if text.contains('d') { 64 } else { 32 }),
                })
            }
            "relational_expression" | "logical_expression" | "boolean_literal" => Some(Element::Logical),
            "unary_expression" => self.element_type(node.child_by_field_name("argument")?),
            "math_expression" => {
                let one = self.element_type(node.child_by_field_name("left")?)?;
                let two = self.element_type(node.child_by_field_name("right")?)?;
                wider(one, two)
            }
            "call_expression" => {
                let name = word(callee(node)?.0, self.code());
                let arguments = children(child(node, "argument_list")?);
                match name.as_str() {
                    "abs" | "sqrt" | "exp" | "log" | "sin" | "cos" | "max" | "min" | "mod" | "sign" => {
                        let mut all =
                            arguments.into_iter().map(|argument| self.element_type(argument)).collect::<Vec<_>>();
                        let first = all.pop()??;
                        all.into_iter()
                            .try_fold(first, |one, two| wider(one, two?))
                            .filter(|kind| !matches!(kind, Element::Complex(_)))
                    }
                    "dble" => Some(Element::Real(64)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn wider(one: Element, two: Element) -> Option<Element> {
    match (one, two) {
        (Element::Integer { .. }, Element::Integer { .. }) if one == two => Some(one),
        (Element::Real(a), Element::Real(b)) => Some(Element::Real(a.max(b))),
        (Element::Real(_), Element::Integer { .. }) => Some(one),
        (Element::Integer { .. }, Element::Real(_)) => Some(two),
        (Element::Logical, Element::Logical) => Some(one),
        _ => None,
    }
}

/// Returns the subscript of another array for a loop whose variable runs over the first one's range.
fn moved(over: &DimensionLoop, range: &Range) -> String {
    let DimensionLoop { variable, range: own } = over;
    let same = |one: &str, other: &str| squeezed(one) == squeezed(other);
    if same(&own.first, &range.first) && same(&own.step, &range.step) {
        return variable.clone();
    }
    if own.step == "1" && range.step == "1" {
        if let (Ok(from), Ok(to)) = (own.first.parse::<i64>(), range.first.parse::<i64>()) {
            let distance = to - from;
            return if distance < 0 { format!("{variable}-{}", -distance) } else { format!("{variable}+{distance}") };
        }
        return format!("{variable}-({})+({})", own.first, range.first);
    }
    format!("({variable}-({}))/({})*({})+({})", own.first, own.step, range.step, range.first)
}

/// A text without blanks, in lower case.
pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<String>().to_ascii_lowercase()
}

/// Returns first, last and step of `a:b:c`.
fn extent(node: Node<'_>) -> [Option<Node<'_>>; 3] {
    let mut found = [None; 3];
    let mut at = 0;
    let mut cursor = node.walk();
    for inner in node.children(&mut cursor) {
        if inner.kind() == ":" {
            at = (at + 1).min(2);
        } else if inner.is_named() && inner.kind() != "comment" {
            found[at] = Some(inner);
        }
    }
    found
}

/// Whether a stored element may be one that is read, and not the same in the same iteration.
pub(super) fn conflict(stored: &Use, read: &Use) -> bool {
    if stored.name == read.name {
        let same = |(one, other): (&String, &String)| squeezed(one) == squeezed(other);
        if stored.subscripts.len() == read.subscripts.len() && stored.subscripts.iter().zip(&read.subscripts).all(same)
        {
            return false;
        }
        // Two different numbers in a dimension.
        let apart = |(one, other): (&String, &String)| match (one.parse::<i64>(), other.parse::<i64>()) {
            (Ok(one), Ok(other)) => one != other,
            _ => one_apart(one, other),
        };
        return !stored.subscripts.iter().zip(&read.subscripts).any(apart);
    }
    let (Some(one), Some(two)) = (&stored.entity, &read.entity) else { return true };
    let reached = |entity: &Entity| entity.pointer || entity.target || entity.equivalent;
    (one.may_overlap() && reached(two)) || (two.may_overlap() && reached(one))
}

/// Whether two subscripts are the same text except for an added number, as `j` and `j-1`, or `j+1` and `j-1`.
fn one_apart(one: &str, other: &str) -> bool {
    let parts = |text: &str| -> Option<(String, i64)> {
        let text = squeezed(text);
        let at = text.rfind(['+', '-']).filter(|at| *at > 0);
        let with =
            at.and_then(|at| Some((text[..at].to_owned(), text[at..].trim_start_matches('+').parse::<i64>().ok()?)));
        let (base, added) = with.unwrap_or((text, 0));
        let is_name = base.chars().all(|c| c.is_alphanumeric() || c == '_');
        // A loop's variable has any value.
        (is_name && !base.starts_with(PREFIX)).then_some((base, added))
    };
    match (parts(one), parts(other)) {
        (Some((first, a)), Some((second, b))) => first == second && a != b,
        _ => false,
    }
}

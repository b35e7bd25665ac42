//! Writes reductions of arrays in constructs as loops: `sum`, `maxval` and the like.

use super::expand::{Expander, apart, wrapped};
use super::expressions::Reference;
use super::scopes::Meaning;
use super::sections::{Dimension, DimensionLoop, Refusal, conflict};
use super::tree::{bare, child, children, word};
use crate::ir::Element;
use tree_sitter::Node;

/// Reductions of arrays: the initial value, and the update of `s` by one element.
const REDUCTIONS: &[(&str, &str, &str)] = &[
    ("sum", "0", "s = s + (e)"),
    ("product", "1", "s = s * (e)"),
    ("dot_product", "0", "s = s + (e)"),
    ("maxval", "-huge(s)", "s = max(s, e)"),
    ("minval", "huge(s)", "s = min(s, e)"),
    ("any", ".false.", "s = s .or. (e)"),
    ("all", ".true.", "s = s .and. (e)"),
    ("count", "0", "if (e) s = s + 1"),
];

/// Functions of whole arrays that remain one statement.
const OTHERS: &[&str] = &[
    "maxloc",
    "minloc",
    "findloc",
    "matmul",
    "norm2",
    "parity",
    "iall",
    "iany",
    "iparity",
    "cshift",
    "eoshift",
    "pack",
    "unpack",
    "reshape",
    "spread",
    "transpose",
];

/// A call of a reduction.
struct Call<'t> {
    name: String,
    none: &'static str,
    one: &'static str,
    /// Adds the variable that is assigned to: `s = s + sum(a)`.
    adds: bool,
    arrays: Vec<Node<'t>>,
    mask: Option<Node<'t>>,
    /// The dimension that it runs over, from 1.
    dim: Option<usize>,
}

impl Expander<'_, '_> {
    /// Rewrites `s = sum(e)` and the like, and `b = sum(a, dim=2)`: `over` are the loops over the stored elements. `None` for another right side.
    pub(super) fn reduction(
        &mut self,
        left: &Reference<'_>,
        right: Node<'_>,
        over: &[DimensionLoop],
    ) -> Result<Option<Vec<String>>, Refusal> {
        let Some(call) = self.call(left, right, over.is_empty())? else { return Ok(None) };
        let Some(entity) = &left.entity else { return Ok(None) };
        let (name, target) = (call.name.as_str(), entity.element);
        let is_number = matches!(target, Element::Real(_) | Element::Integer { .. });
        let mut elements = self.elements();
        for one in &call.arrays {
            let found = elements.element_type(*one);
            let fits = match name {
                "count" => found == Some(Element::Logical) && matches!(target, Element::Integer { .. }),
                "any" | "all" => found == Some(target) && target == Element::Logical,
                _ => found == Some(target) && is_number,
            };
            if !fits {
                return Err(format!("{name} of another type than its result"));
            }
        }
        let Some(dimensions) = elements.first_array(call.arrays[0])? else { return Ok(None) };
        let ranges: Vec<Dimension> = dimensions.into_iter().filter(|one| matches!(one, Dimension::Range(_))).collect();
        // Loops for an element of the result, and all with those around them.
        let (inner, all) = match call.dim {
            None if over.is_empty() => {
                let inner = self.over(&ranges);
                (inner.clone(), inner)
            }
            None => return Ok(None),
            Some(dim) => {
                if ranges.len() != over.len() + 1 || !(1..=ranges.len()).contains(&dim) {
                    return Err(format!("dim of {name} is another dimension than the result leaves out"));
                }
                let inner = self.over(&ranges[dim - 1..dim]);
                let all = [&over[..dim - 1], &inner, &over[dim - 1..]].concat();
                (inner, all)
            }
        };
        let mut elements = self.elements();
        let parts: Vec<String> =
            call.arrays.iter().map(|one| elements.expression(*one, &all)).collect::<Result<_, _>>()?;
        let mask = call.mask.map(|mask| elements.expression(mask, &all)).transpose()?;
        let reads = std::mem::take(&mut elements.uses);
        let text = elements.element(left, over)?;
        if reads.iter().any(|read| read.name == left.name || elements.uses.iter().any(|own| conflict(own, read))) {
            return Err(format!("{} is read and stored", left.name));
        }
        apart(&elements.uses, &reads)?;
        let element = if name == "dot_product" { format!("({})*({})", parts[0], parts[1]) } else { parts[0].clone() };
        let update = filled(call.one, &text, &element);
        let update = match mask {
            Some(mask) => format!("if ({mask}) {update}"),
            None => update,
        };
        let mut lines = Vec::new();
        if !call.adds {
            lines.push(format!("{text} = {}", filled(call.none, &text, &element)));
            match (name, target) {
                // The extremum of no element is infinite.
                ("maxval" | "minval", Element::Real(_)) => lines.push(format!("{text} = {text} + {text}")),
                ("maxval", _) => lines.push(format!("{text} = {text} - 1")),
                _ => {}
            }
        }
        lines.extend(wrapped(&inner, vec![update]));
        Ok(Some(wrapped(over, lines)))
    }

    /// The reduction that is all of the right side.
    fn call<'t>(
        &mut self,
        left: &Reference<'_>,
        right: Node<'t>,
        is_scalar: bool,
    ) -> Result<Option<Call<'t>>, Refusal> {
        let mut call = bare(right);
        let mut adds = false;
        if call.kind() == "math_expression" {
            let parts = ["left", "operator", "right"].map(|field| call.child_by_field_name(field));
            let [Some(first), Some(operator), Some(second)] = parts else { return Ok(None) };
            adds = word(operator, self.code()) == "+"
                && word(bare(first), self.code()) == left.name
                && left.subscripts.is_none()
                && is_scalar;
            call = if adds { bare(second) } else { return Ok(None) };
        }
        let name = call.named_child(0).filter(|name| call.kind() == "call_expression" && name.kind() == "identifier");
        let Some(function) = name else { return Ok(None) };
        if self.expressions.meaning(function) != Meaning::Intrinsic {
            return Ok(None);
        }
        let name = word(function, self.code());
        if OTHERS.contains(&name.as_str()) {
            return Err(format!("{name} stays one statement"));
        }
        let Some((_, none, one)) = REDUCTIONS.iter().find(|(known, _, _)| *known == name) else { return Ok(None) };
        if adds && !matches!(name.as_str(), "sum" | "dot_product") {
            return Ok(None);
        }
        let Some(arguments) = child(call, "argument_list").map(children) else { return Ok(None) };
        let (mut arrays, mut mask, mut dim): (Vec<Node<'t>>, _, _) = (Vec::new(), None, None);
        let pairs = name == "dot_product";
        for argument in arguments {
            let keyword = argument.child_by_field_name("name").map(|name| word(name, self.code()));
            let value = argument.child_by_field_name("value");
            match (keyword.as_deref(), value) {
                (None, _) if arrays.len() < usize::from(pairs) + 1 => arrays.push(argument),
                (None, _) => match self.elements().element_type(argument) {
                    Some(Element::Integer { .. }) => dim = Some(argument),
                    Some(Element::Logical) => mask = Some(argument),
                    _ => return Err(format!("arguments of {name}")),
                },
                (Some("mask"), Some(value)) if matches!(name.as_str(), "any" | "all" | "count") => arrays.push(value),
                (Some("mask"), Some(value)) => mask = Some(value),
                (Some("dim"), Some(value)) => dim = Some(value),
                (Some(other), _) => return Err(format!("{other} of {name}")),
            }
        }
        if arrays.len() != usize::from(pairs) + 1 {
            return Err(format!("arguments of {name}"));
        }
        let dim = match dim {
            None => None,
            Some(dim) => match word(dim, self.code()).parse::<usize>() {
                Ok(dim) => Some(dim),
                Err(_) => return Err(format!("dim of {name} is no constant")),
            },
        };
        Ok(Some(Call { name, none, one, adds, arrays, mask, dim }))
    }
}

/// A template with a variable for `s` and an expression for `e`.
fn filled(template: &str, variable: &str, element: &str) -> String {
    let word = |word: &str| match word {
        "s" => variable.to_owned(),
        "e" => element.to_owned(),
        other => other.to_owned(),
    };
    let (mut text, mut from) = (String::new(), 0);
    for (at, c) in template.char_indices().chain([(template.len(), ' ')]) {
        if !c.is_alphanumeric() {
            text += &word(&template[from..at]);
            if at < template.len() {
                text.push(c);
            }
            from = at + c.len_utf8();
        }
    }
    text
}

//! Reductions of arrays in constructs as loops: `sum`, `maxval` and the like.

use super::expand::{Expander, wrapped};
use super::expressions::Reference;
use super::scopes::Meaning;
use super::sections::{Refusal, conflict};
use super::tree::{bare, child, children, word};
use crate::ir::Element;
use tree_sitter::Node;

/// Reductions of arrays: the value for none, and what one element does to `s`.
const REDUCTIONS: &[(&str, &str, &str)] = &[
    ("sum", "0", "s + (e)"),
    ("product", "1", "s * (e)"),
    ("dot_product", "0", "s + (e)"),
    ("maxval", "-huge(s)", "max(s, e)"),
    ("minval", "huge(s)", "min(s, e)"),
    ("any", ".false.", "s .or. (e)"),
    ("all", ".true.", "s .and. (e)"),
];

impl Expander<'_, '_> {
    /// `s = sum(e)` and the like.
    pub(super) fn reduction(&mut self, left: &Reference<'_>, right: Node<'_>) -> Result<Option<Vec<String>>, Refusal> {
        let mut call = bare(right);
        let mut adds = false;
        if call.kind() == "math_expression" {
            let parts = ["left", "operator", "right"].map(|field| call.child_by_field_name(field));
            let [Some(first), Some(operator), Some(second)] = parts else { return Ok(None) };
            adds = word(operator, self.code()) == "+"
                && word(bare(first), self.code()) == left.name
                && left.subscripts.is_none();
            call = if adds { bare(second) } else { return Ok(None) };
        }
        let name = call.named_child(0).filter(|name| call.kind() == "call_expression" && name.kind() == "identifier");
        let name = name.map(|name| word(name, self.code()));
        let Some(name) = name else { return Ok(None) };
        let Some((_, none, one)) = REDUCTIONS.iter().find(|(known, _, _)| *known == name) else { return Ok(None) };
        if adds && !matches!(name.as_str(), "sum" | "dot_product") {
            return Ok(None);
        }
        let declared = call.named_child(0).map(|name| self.expressions.meaning(name));
        if declared != Some(Meaning::Intrinsic) {
            return Ok(None);
        }
        let Some(arguments) = child(call, "argument_list").map(children) else { return Ok(None) };
        let mut plain: Vec<Node<'_>> = Vec::new();
        let mut mask = None;
        for argument in arguments {
            let keyword = argument.child_by_field_name("name").map(|name| word(name, self.code()));
            let value = argument.child_by_field_name("value");
            match (keyword.as_deref(), value) {
                (None, _) => plain.push(argument),
                (Some("mask"), Some(value)) => mask = Some(value),
                (Some(other), _) => return Err(format!("{other} of {name}")),
            }
        }
        if plain.len() != usize::from(name == "dot_product") + 1 {
            return Err(format!("arguments of {name}"));
        }
        let Some(entity) = &left.entity else { return Ok(None) };
        let target = entity.element;
        let is_number = matches!(target, Element::Real(_) | Element::Integer { .. });
        let mut elements = self.elements();
        for one in &plain {
            let found = elements.element_type(*one);
            if found != Some(target)
                || !is_number && (target != Element::Logical || !matches!(name.as_str(), "any" | "all"))
            {
                return Err(format!("{name} of another type than its result"));
            }
        }
        let Some(dimensions) = elements.first_array(plain[0])? else { return Ok(None) };
        let over = self.over(&dimensions);
        let mut elements = self.elements();
        let parts: Vec<String> = plain.iter().map(|one| elements.expression(*one, &over)).collect::<Result<_, _>>()?;
        let mask = mask.map(|mask| elements.expression(mask, &over)).transpose()?;
        let reads = std::mem::take(&mut elements.uses);
        let text = elements.element(left, &[])?;
        if reads.iter().any(|read| read.name == left.name || elements.uses.iter().any(|own| conflict(own, read))) {
            return Err(format!("{} is read and stored", left.name));
        }
        let element = if name == "dot_product" { format!("({})*({})", parts[0], parts[1]) } else { parts[0].clone() };
        let update = filled(one, &text, &element);
        let update = match mask {
            Some(mask) => format!("if ({mask}) {text} = {update}"),
            None => format!("{text} = {update}"),
        };
        let mut lines = Vec::new();
        if !adds {
            lines.push(format!("{text} = {}", filled(none, &text, &element)));
            match (name.as_str(), target) {
                // The extremum of no element is infinite.
                ("maxval" | "minval", Element::Real(_)) => lines.push(format!("{text} = {text} + {text}")),
                ("maxval", _) => lines.push(format!("{text} = {text} - 1")),
                _ => {}
            }
        }
        lines.extend(wrapped(&over, vec![update]));
        Ok(Some(lines))
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

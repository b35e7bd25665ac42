//! Integer expressions of constants.

use super::declarations::Declarations;
use super::entity::Class;
use super::kinds;
use super::tree::{bare, child, word};
use tree_sitter::Node;

impl Declarations {
    /// The value of an integer expression of constants.
    pub(super) fn constant(&self, node: Node<'_>, code: &str) -> Option<i64> {
        let node = bare(node);
        match node.kind() {
            "number_literal" => integer(&word(node, code)),
            "identifier" => {
                let name = word(node, code);
                match self.names.get(&name) {
                    Some(entity) => match entity.class {
                        Class::Constant(value) => value,
                        _ => None,
                    },
                    None => self
                        .host
                        .get(&name)
                        .copied()
                        .or_else(|| kinds::named(&name).filter(|_| self.uses_intrinsic(&name))),
                }
            }
            "unary_expression" => {
                let value = self.constant(node.child_by_field_name("argument")?, code)?;
                match word(node.child_by_field_name("operator")?, code).as_str() {
                    "-" => value.checked_neg(),
                    "+" => Some(value),
                    _ => None,
                }
            }
            "math_expression" => {
                let left = node.child_by_field_name("left")?;
                let (one, two) = (self.constant(left, code)?, self.constant(node.child_by_field_name("right")?, code)?);
                match word(node.child_by_field_name("operator")?, code).as_str() {
                    "+" => one.checked_add(two),
                    "-" => one.checked_sub(two),
                    "*" => one.checked_mul(two),
                    "/" => one.checked_div(two),
                    "**" if left.kind() != "unary_expression" => one.checked_pow(u32::try_from(two).ok()?),
                    _ => None,
                }
            }
            "call_expression" => self.kind_function(node, code),
            _ => None,
        }
    }

    /// Evaluates `kind(1.d0)`, `selected_real_kind(15, 307)`, `selected_int_kind(9)`.
    fn kind_function(&self, node: Node<'_>, code: &str) -> Option<i64> {
        let name = word(node.named_child(0)?, code);
        let arguments = child(node, "argument_list")?;
        let first = arguments.named_child(0)?;
        let first = first.child_by_field_name("value").unwrap_or(first);
        match name.as_str() {
            "kind" => {
                let text = word(first, code);
                if let Some((_, kind)) = text.split_once('_').filter(|_| first.kind() == "number_literal") {
                    return kind.parse().ok().or_else(|| self.constants().get(kind).copied());
                }
                match first.kind() {
                    "number_literal" if text.contains('d') => Some(8),
                    "number_literal" | "boolean_literal" => Some(4),
                    _ => None,
                }
            }
            "selected_int_kind" => self.constant(first, code).map(kinds::selected_int),
            "selected_real_kind" => self.constant(first, code).map(kinds::selected_real),
            _ => None,
        }
    }

    fn uses_intrinsic(&self, name: &str) -> bool {
        self.uses.iter().any(|r#use| {
            matches!(r#use.module.as_str(), "iso_fortran_env" | "iso_c_binding") && r#use.original(name).is_some()
        })
    }
}

/// The value of an integer literal.
pub(super) fn integer(text: &str) -> Option<i64> {
    text.split('_').next()?.parse().ok()
}

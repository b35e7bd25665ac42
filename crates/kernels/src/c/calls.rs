//! Calls: the properties of the function, and the effects on its arguments.

use super::expressions::{Expressions, Found};
use crate::ir::{Call, CallKind, Shape};
use tree_sitter::Node;

/// Functions of `math.h`, `stdlib.h` and `algorithm` without side effects, without the suffix `f` or `l`.
#[rustfmt::skip]
const PURE: &[&str] = &[
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh",
    "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "labs",
    "llabs", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nearbyint", "pow", "rint", "round", "sin", "sinh",
    "sqrt", "tan", "tanh", "tgamma", "trunc",
];

/// Casts of C++ that are written as calls.
const CASTS: &[&str] = &["static_cast", "const_cast", "reinterpret_cast", "dynamic_cast"];

impl Expressions<'_> {
    pub(super) fn call(&mut self, node: Node<'_>, found: &mut Found) {
        let Some(arguments) = node.child_by_field_name("arguments") else { return };
        let mut cursor = arguments.walk();
        let arguments: Vec<Node<'_>> = arguments.named_children(&mut cursor).collect();
        let Some(function) = node.child_by_field_name("function") else { return };
        let mut named = function;
        if named.kind() == "template_function" {
            named = named.child_by_field_name("name").unwrap_or(named);
        }
        let name = self.text(named);
        let is_cast = CASTS.contains(&name) || matches!(named.kind(), "primitive_type" | "sized_type_specifier");
        if is_cast {
            arguments.into_iter().for_each(|argument| self.read(argument, found));
            return;
        }
        let name = match named.kind() {
            "identifier" => name,
            "qualified_identifier" => name.rsplit("::").next().unwrap_or(name).split('<').next().unwrap_or(name),
            "field_expression" if self.symbols.cxx => {
                // A member function may change its object.
                self.mentions(named, &mut found.accesses);
                ""
            }
            _ => {
                found.opaque = Some("a call by a pointer");
                name
            }
        };
        let kind = self.kind(name);
        for (at, argument) in arguments.into_iter().enumerate() {
            if argument.kind() == "identifier" {
                let variable = self.variable(argument);
                let changes = kind != CallKind::Pure && self.symbols.changes_argument(name, at);
                if self.variables[variable.0].shape != Shape::Scalar || changes {
                    self.mentions(argument, &mut found.accesses);
                    continue;
                }
            }
            self.read(argument, found);
        }
        let name = if name.is_empty() { self.text(named) } else { name };
        found.calls.push(Call { name: name.to_owned(), kind, span: node.byte_range() });
    }

    fn kind(&self, name: &str) -> CallKind {
        let plain = name.strip_prefix("__builtin_").unwrap_or(name);
        let is_pure =
            PURE.contains(&plain) || plain.strip_suffix(['f', 'l']).is_some_and(|plain| PURE.contains(&plain));
        match self.routines.get(name) {
            Some(true) => CallKind::Level,
            Some(false) => CallKind::Sequential,
            None if is_pure || self.symbols.cxx && matches!(name, "max" | "min") => CallKind::Pure,
            None => CallKind::Unknown,
        }
    }
}

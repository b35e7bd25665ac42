//! Whether a variable's value may be read after a construct.

use super::tree::{child, children, contains, word};
use crate::ir::Span;
use tree_sitter::Node;

/// The first effect of a part of a program on a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Reads,
    Writes,
    Nothing,
}

/// A local scalar of a procedure.
pub(super) struct Liveness<'a> {
    pub(super) code: &'a str,
    /// Its name, in lower case.
    pub(super) name: &'a str,
    /// Bytes of the construct in the code.
    pub(super) construct: Span,
}

/// Statements after which the next ones of their block need not run.
const JUMPS: &[&str] = &["keyword_statement", "stop_statement", "arithmetic_if_statement"];

impl Liveness<'_> {
    /// Whether the value at the construct's end may be read; `block` is the node that contains the construct's statements.
    pub(super) fn after(&self, block: Node<'_>) -> bool {
        let mut unit = block;
        while !is_unit(unit) {
            let Some(parent) = unit.parent() else { return true };
            unit = parent;
        }
        let internal = child(unit, "internal_procedures");
        if internal.is_some_and(|internal| self.mentions(internal)) {
            return true;
        }
        if self.jumps(unit) || contains(unit, &["arithmetic_if_statement", "entry_statement"]) || unit.has_error() {
            return self.mentions(unit);
        }
        let (mut parent, mut from) = (block, self.construct.end);
        loop {
            match self.siblings(parent, from, usize::MAX) {
                First::Reads => return true,
                First::Writes => return false,
                First::Nothing => {}
            }
            if is_unit(parent) {
                return false;
            }
            if parent.kind() == "do_loop_statement" {
                let header = child(parent, "while_statement");
                if header.is_some_and(|header| self.mentions(header)) {
                    return true;
                }
                match self.siblings(parent, parent.start_byte(), self.construct.start) {
                    First::Reads => return true,
                    // The next iteration writes it; after the last one, what follows the loop may still read it.
                    First::Writes | First::Nothing => {}
                }
                let ahead = |child: &Node<'_>| {
                    child.start_byte() < self.construct.start && child.end_byte() > self.construct.end
                };
                if children(parent).iter().filter(|child| ahead(child)).any(|child| self.mentions(*child)) {
                    return true;
                }
            }
            from = parent.end_byte();
            // Other arms of a branch don't run.
            let mut child = parent;
            let Some(mut next) = parent.parent() else { return true };
            while matches!(child.kind(), "elseif_clause" | "else_clause" | "case_statement" | "type_statement") {
                child = next;
                from = next.end_byte();
                let Some(parent) = next.parent() else { return true };
                next = parent;
            }
            parent = next;
        }
    }

    /// Returns the effect of the statements of a block between two places.
    fn siblings(&self, block: Node<'_>, from: usize, to: usize) -> First {
        let mut jumps = false;
        for child in children(block) {
            if child.start_byte() < from || child.end_byte() > to || child.kind() == "loop_control_expression" {
                continue;
            }
            if matches!(child.kind(), "elseif_clause" | "else_clause" | "internal_procedures") {
                break;
            }
            match self.first(child) {
                First::Writes if !jumps => return First::Writes,
                First::Reads => return First::Reads,
                _ => {}
            }
            jumps |= contains(child, JUMPS);
        }
        First::Nothing
    }

    fn first(&self, node: Node<'_>) -> First {
        match node.kind() {
            "identifier" if self.is_it(node) => First::Reads,
            "keyword_argument" => node.child_by_field_name("value").map_or(First::Nothing, |value| self.first(value)),
            "assignment_statement" => {
                let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
                let first = right.map_or(First::Nothing, |right| self.first(right));
                match left {
                    Some(left) if left.kind() == "identifier" && self.is_it(left) => {
                        if first == First::Nothing {
                            First::Writes
                        } else {
                            first
                        }
                    }
                    Some(left) if first == First::Nothing => self.first(left),
                    _ => first,
                }
            }
            "loop_control_expression" => {
                let parts = children(node);
                if parts.iter().skip(1).any(|part| self.mentions(*part)) {
                    return First::Reads;
                }
                if parts.first().is_some_and(|name| self.is_it(*name)) { First::Writes } else { First::Nothing }
            }
            "do_loop_statement" => {
                if let Some(control) = child(node, "loop_control_expression") {
                    match self.first(control) {
                        First::Nothing => {}
                        first => return first,
                    }
                }
                let header = child(node, "while_statement").or_else(|| child(node, "concurrent_statement"));
                if header.is_some_and(|header| self.mentions(header)) {
                    return First::Reads;
                }
                // Its body may not run at all.
                if self.siblings(node, 0, usize::MAX) == First::Reads { First::Reads } else { First::Nothing }
            }
            "if_statement" => {
                if child(node, "parenthesized_expression").is_some_and(|condition| self.mentions(condition)) {
                    return First::Reads;
                }
                let clauses =
                    children(node).into_iter().filter(|child| matches!(child.kind(), "elseif_clause" | "else_clause"));
                let clauses: Vec<Node<'_>> = clauses.collect();
                let arms: Vec<First> = std::iter::once(node)
                    .chain(clauses.iter().copied())
                    .map(|arm| self.siblings(arm, 0, usize::MAX))
                    .collect();
                let complete = child(node, "else_clause").is_some();
                if arms.contains(&First::Reads) {
                    First::Reads
                } else if complete && arms.iter().all(|first| *first == First::Writes) {
                    First::Writes
                } else {
                    First::Nothing
                }
            }
            "keyword_statement" | "stop_statement" => {
                let text = word(node, self.code);
                // A return ends its path.
                if self.mentions(node) {
                    First::Reads
                } else if text.starts_with("return") || node.kind() == "stop_statement" {
                    First::Writes
                } else {
                    First::Nothing
                }
            }
            _ if self.mentions(node) => First::Reads,
            _ => First::Nothing,
        }
    }

    fn is_it(&self, node: Node<'_>) -> bool {
        node.kind() == "identifier" && word(node, self.code) == self.name
    }

    /// Whether it is named in a node, outside the construct and declarations.
    fn mentions(&self, node: Node<'_>) -> bool {
        let range = node.byte_range();
        if range.start >= self.construct.start && range.end <= self.construct.end {
            return false;
        }
        match node.kind() {
            "identifier" => self.is_it(node),
            "variable_declaration" | "variable_modification" | "parameters" => false,
            "keyword_argument" => node.child_by_field_name("value").is_some_and(|value| self.mentions(value)),
            _ => children(node).into_iter().any(|child| self.mentions(child)),
        }
    }

    /// Whether statements jump to labels.
    fn jumps(&self, node: Node<'_>) -> bool {
        (node.kind() == "keyword_statement" && word(node, self.code).starts_with("goto"))
            || children(node).into_iter().any(|child| self.jumps(child))
    }
}

fn is_unit(node: Node<'_>) -> bool {
    matches!(node.kind(), "program" | "subroutine" | "function" | "module_procedure" | "translation_unit")
}

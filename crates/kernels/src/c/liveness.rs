//! Whether a variable's value may be read after a construct.

use super::symbols::Symbols;
use tree_sitter::Node;

/// What a part of a program does to a variable first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Reads,
    Writes,
    Nothing,
}

/// A local variable, by where it is declared.
pub(super) struct Liveness<'a> {
    pub(super) symbols: &'a Symbols<'a>,
    pub(super) code: &'a str,
    pub(super) name: &'a str,
    pub(super) at: usize,
}

impl Liveness<'_> {
    /// Whether the value that it has at the end of `construct` may be read.
    pub(super) fn after(&self, construct: Node<'_>) -> bool {
        let mut function = construct;
        while function.kind() != "function_definition" {
            let Some(parent) = function.parent() else { return true };
            function = parent;
        }
        if has(function, &["goto_statement", "labeled_statement"]) {
            return self.mentioned_outside(function, construct);
        }
        let mut child = construct;
        loop {
            let Some(parent) = child.parent() else { return true };
            match parent.kind() {
                "function_definition" => return false,
                "compound_statement" => match self.siblings(parent, child.end_byte(), usize::MAX) {
                    First::Reads => return true,
                    First::Writes => return false,
                    First::Nothing => {}
                },
                "for_statement" | "while_statement" | "do_statement" => {
                    let parts = ["update", "condition"];
                    let again = parts.iter().filter_map(|part| parent.child_by_field_name(part));
                    if again.map(|node| self.first(node)).any(|first| first == First::Reads) {
                        return true;
                    }
                    if let Some(body) = parent.child_by_field_name("body")
                        && self.back(body, construct) == First::Reads
                    {
                        return true;
                    }
                }
                _ => {}
            }
            child = parent;
        }
    }

    /// From the start of a loop's body to the construct.
    fn back(&self, body: Node<'_>, construct: Node<'_>) -> First {
        if body.kind() != "compound_statement" {
            return First::Nothing;
        }
        let first = self.siblings(body, 0, construct.start_byte());
        if first != First::Nothing {
            return first;
        }
        let mut cursor = body.walk();
        let around = body.named_children(&mut cursor).find(|child| {
            child.start_byte() <= construct.start_byte()
                && child.end_byte() >= construct.end_byte()
                && child.id() != construct.id()
        });
        // What stands ahead of the construct in a nested statement.
        match around {
            Some(around) if self.mentions(around, Some(construct)) => First::Reads,
            _ => First::Nothing,
        }
    }

    /// Statements of a block between two places.
    fn siblings(&self, block: Node<'_>, from: usize, to: usize) -> First {
        let (mut cursor, mut jumps) = (block.walk(), false);
        for child in
            block.named_children(&mut cursor).filter(|child| child.start_byte() >= from && child.end_byte() <= to)
        {
            match self.first(child) {
                First::Writes if !jumps => return First::Writes,
                First::Reads => return First::Reads,
                _ => {}
            }
            jumps |= has(child, &["break_statement", "continue_statement"]);
        }
        First::Nothing
    }

    fn first(&self, node: Node<'_>) -> First {
        let field = |name| node.child_by_field_name(name).map_or(First::Nothing, |child| self.first(child));
        match node.kind() {
            "identifier" if self.is_it(node) => First::Reads,
            "assignment_expression" => {
                let left = node.child_by_field_name("left");
                let Some(left) = left.filter(|left| left.kind() == "identifier" && self.is_it(*left)) else {
                    return self.sequence(node);
                };
                let plain = self.code[left.end_byte()..].trim_start().starts_with('=');
                match field("right") {
                    First::Nothing if plain => First::Writes,
                    First::Nothing => First::Reads,
                    first => first,
                }
            }
            "return_statement" => match self.sequence(node) {
                First::Nothing => First::Writes,
                first => first,
            },
            "if_statement" | "conditional_expression" => match field("condition") {
                First::Nothing => {
                    let (yes, no) = (field("consequence"), field("alternative"));
                    match (yes, no) {
                        (First::Reads, _) | (_, First::Reads) => First::Reads,
                        (First::Writes, First::Writes) => First::Writes,
                        _ => First::Nothing,
                    }
                }
                first => first,
            },
            "for_statement" => match (field("initializer"), field("condition")) {
                (First::Nothing, First::Nothing) => only_reads(field("body"), field("update")),
                (First::Nothing, first) | (first, _) => first,
            },
            "while_statement" => match field("condition") {
                First::Nothing => only_reads(field("body"), First::Nothing),
                first => first,
            },
            "do_statement" | "switch_statement" => {
                if self.mentions(node, None) {
                    First::Reads
                } else {
                    First::Nothing
                }
            }
            "binary_expression" if matches!(operator(node, self.code), "&&" | "||") => match field("left") {
                First::Nothing => only_reads(field("right"), First::Nothing),
                first => first,
            },
            _ => self.sequence(node),
        }
    }

    fn sequence(&self, node: Node<'_>) -> First {
        let (mut cursor, mut jumps) = (node.walk(), false);
        for child in node.named_children(&mut cursor) {
            match self.first(child) {
                First::Writes if !jumps => return First::Writes,
                First::Reads => return First::Reads,
                _ => {}
            }
            jumps |= has(child, &["break_statement", "continue_statement"]);
        }
        First::Nothing
    }

    fn is_it(&self, identifier: Node<'_>) -> bool {
        &self.code[identifier.byte_range()] == self.name
            && self.symbols.resolve(identifier).is_some_and(|declared| declared.at == self.at)
    }

    fn mentions(&self, node: Node<'_>, except: Option<Node<'_>>) -> bool {
        if except.is_some_and(|except| except.id() == node.id()) {
            return false;
        }
        if node.kind() == "identifier" && node.start_byte() != self.at && self.is_it(node) {
            return true;
        }
        let mut cursor = node.walk();
        node.named_children(&mut cursor).any(|child| self.mentions(child, except))
    }

    fn mentioned_outside(&self, function: Node<'_>, construct: Node<'_>) -> bool {
        self.mentions(function, Some(construct))
    }
}

fn only_reads(first: First, second: First) -> First {
    if first == First::Reads || second == First::Reads { First::Reads } else { First::Nothing }
}

/// An expression's operator.
pub(super) fn operator<'a>(node: Node<'_>, code: &'a str) -> &'a str {
    node.child_by_field_name("operator").map_or("", |operator| &code[operator.byte_range()])
}

/// Whether a node of one of these kinds is inside.
pub(super) fn has(node: Node<'_>, kinds: &[&str]) -> bool {
    if kinds.contains(&node.kind()) {
        return true;
    }
    let mut cursor = node.walk();
    node.named_children(&mut cursor).any(|child| has(child, kinds))
}

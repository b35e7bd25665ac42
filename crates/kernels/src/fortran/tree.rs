//! Short functions for nodes of the grammar's tree.

use tree_sitter::Node;

/// All children that have names.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

/// Returns children of a field.
pub(super) fn fields<'t>(node: Node<'t>, name: &str) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    node.children_by_field_name(name, &mut cursor).filter(Node::is_named).collect()
}

/// The first child of a kind.
pub(super) fn child<'t>(node: Node<'t>, kind: &str) -> Option<Node<'t>> {
    children(node).into_iter().find(|child| child.kind() == kind)
}

/// Whether it has a child of this kind, including an anonymous one (a keyword).
pub(super) fn has_word(node: Node<'_>, kind: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == kind)
}

/// Whether a node of one of these kinds is inside.
pub(super) fn contains(node: Node<'_>, kinds: &[&str]) -> bool {
    kinds.contains(&node.kind()) || children(node).into_iter().any(|child| contains(child, kinds))
}

/// Returns its text in lower case, without blanks.
pub(super) fn word(node: Node<'_>, code: &str) -> String {
    code[node.byte_range()].split_whitespace().collect::<String>().to_ascii_lowercase()
}

/// Returns the expression without parentheses around it.
pub(super) fn bare(mut node: Node<'_>) -> Node<'_> {
    while node.kind() == "parenthesized_expression" {
        let Some(inner) = node.named_child(0) else { break };
        node = inner;
    }
    node
}

/// Returns the target of a `call_expression`, and its lists of arguments. The grammar parses `-a(i)` as `(-a)(i)`.
pub(super) fn callee(node: Node<'_>) -> Option<(Node<'_>, Vec<Node<'_>>)> {
    let mut own = node.named_child(0)?;
    while own.kind() == "unary_expression" {
        own = own.child_by_field_name("argument")?;
    }
    Some((own, children(node).into_iter().filter(|child| child.kind() == "argument_list").collect()))
}

//! Statements and loops.

use super::expressions::{Expressions, Found};
use super::liveness::operator;
use super::reduction::reduction;
use crate::ir::{ATOMIC, Call, CallKind, Directive, Effect, Kind, Obstacle, Shape, Statement};
use crate::poly::Poly;
use crate::source::Source;
use tree_sitter::Node;

/// Reads the statements of one construct.
pub(super) struct Statements<'a, 's> {
    pub(super) source: &'a Source<'s>,
    pub(super) expressions: Expressions<'a>,
    /// Offset of the end of the construct's directive.
    pub(super) from: usize,
}

impl Statements<'_, '_> {
    /// Returns a block's statements, or the one statement.
    pub(super) fn body(&mut self, node: Node<'_>) -> Vec<Statement> {
        if node.kind() != "compound_statement" {
            return self.statement(node).into_iter().collect();
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        children.into_iter().filter_map(|child| self.statement(child)).collect()
    }

    pub(super) fn text(&self, node: Node<'_>) -> String {
        self.expressions.code[node.byte_range()].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn obstacle(&mut self, node: Node<'_>, reason: impl Into<String>, promised_away: bool) -> Kind {
        let mut accesses = Vec::new();
        self.expressions.mentions(node, &mut accesses);
        let obstacle = Obstacle { span: node.byte_range(), reason: reason.into(), remedy: None, promised_away };
        Kind::Obstacle { obstacle, accesses }
    }

    fn statement(&mut self, node: Node<'_>) -> Option<Statement> {
        let span = node.byte_range();
        let directives: Vec<Directive> = self.source.directives_before(node.start_byte()).cloned().collect();
        let inside = |directive: &&Directive| directive.span.start >= self.from;
        let directives: Vec<&Directive> = directives.iter().filter(inside).collect();
        let is_atomic = directives.iter().any(|directive| directive.name.starts_with("atomic"));
        let directive = directives.into_iter().find(|directive| directive.name == "loop").cloned();
        let mut kind = match node.kind() {
            "comment" | "type_definition" | "preproc_call" => return None,
            "compound_statement" => Kind::Block(self.body(node)),
            "for_statement" => self.r#for(node, directive),
            "while_statement" | "do_statement" => self.repeat(node),
            "if_statement" => self.r#if(node),
            "switch_statement" => self.switch(node),
            "declaration" => self.declaration(node),
            "expression_statement" => match node.named_child(0) {
                Some(expression) => self.effect(expression),
                None => return None,
            },
            "continue_statement" => Kind::Jump { innermost: true },
            "break_statement" => Kind::Effect(Effect::default()),
            "for_range_loop" => self.obstacle(node, "a loop over a range, which counts no iterations", false),
            "return_statement" => self.obstacle(node, "return leaves the construct", false),
            "goto_statement" | "labeled_statement" => self.obstacle(node, "goto and labels", false),
            _ => self.obstacle(node, "a statement that is not understood", false),
        };
        if is_atomic {
            let variables = &self.expressions.variables;
            match &mut kind {
                // Its target may belong to any iteration: only an assertion in the source makes the order irrelevant.
                Kind::Effect(effect)
                    if effect
                        .accesses
                        .iter()
                        .all(|one| !one.write || variables[one.variable.0].shape != Shape::Scalar) =>
                {
                    effect.calls.push(Call { name: ATOMIC.into(), kind: CallKind::Sequential, span: span.clone() });
                    effect.only_scalars = false;
                }
                _ => kind = self.obstacle(node, "an atomic update of a scalar", false),
            }
        }
        Some(Statement { span, kind })
    }

    fn declaration(&mut self, node: Node<'_>) -> Kind {
        let mut effect = Effect { only_scalars: true, ..Effect::default() };
        let mut found = Found::default();
        let mut cursor = node.walk();
        let declarators: Vec<Node<'_>> = node.children_by_field_name("declarator", &mut cursor).collect();
        for declarator in declarators.into_iter().filter(|declarator| declarator.kind() == "init_declarator") {
            let Some(value) = declarator.child_by_field_name("value") else { continue };
            self.expressions.read(value, &mut found);
            let mut derived = Vec::new();
            let Some(name) = super::types::declarator(declarator, self.expressions.code, &mut derived) else {
                continue;
            };
            let poly = self.expressions.poly(value);
            self.store(name, poly, &mut effect, &mut found);
        }
        self.finish(node, effect, found)
    }

    /// The store into an identifier or another lvalue.
    fn store(&mut self, target: Node<'_>, value: Option<Poly>, effect: &mut Effect, found: &mut Found) {
        self.expressions.lvalue_access(target, true, found);
        if target.kind() == "identifier"
            && let Some(value) = value
        {
            effect.value = Some((self.expressions.variable(target), value));
        }
    }

    fn finish(&mut self, node: Node<'_>, mut effect: Effect, found: Found) -> Kind {
        if let Some(reason) = found.opaque {
            return self.obstacle(node, reason, false);
        }
        let variables = &self.expressions.variables;
        effect.only_scalars = found.calls.iter().all(|call| call.kind == CallKind::Pure)
            && found.accesses.iter().all(|access| variables[access.variable.0].shape == Shape::Scalar);
        effect.accesses = found.accesses;
        effect.calls = found.calls;
        Kind::Effect(effect)
    }

    /// An expression statement.
    fn effect(&mut self, node: Node<'_>) -> Kind {
        let (mut effect, mut found) = (Effect::default(), Found::default());
        match node.kind() {
            "assignment_expression" => {
                let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
                else {
                    return self.obstacle(node, "a statement that is not understood", false);
                };
                let operator = operator(node, self.expressions.code).to_owned();
                self.expressions.read(right, &mut found);
                let is_scalar = left.kind() == "identifier" && {
                    let variable = self.expressions.variable(left);
                    self.expressions.variables[variable.0].shape == Shape::Scalar
                };
                if operator == "=" {
                    if is_scalar {
                        let variable = self.expressions.variable(left);
                        effect.reduction = self.own_update(variable, right);
                    }
                    let value = self.expressions.poly(right);
                    self.store(left, value, &mut effect, &mut found);
                } else {
                    self.expressions.lvalue_access(left, false, &mut found);
                    self.expressions.lvalue_access(left, true, &mut found);
                    let variable = is_scalar.then(|| self.expressions.variable(left));
                    if let Some(variable) = variable.filter(|variable| !self.reads(right, *variable)) {
                        effect.reduction = reduction(variable, operator.trim_end_matches('='));
                    }
                }
            }
            "update_expression" => {
                let Some(argument) = node.child_by_field_name("argument") else {
                    return self.obstacle(node, "a statement that is not understood", false);
                };
                self.expressions.lvalue_access(argument, false, &mut found);
                self.expressions.lvalue_access(argument, true, &mut found);
                if argument.kind() == "identifier" {
                    effect.reduction = reduction(self.expressions.variable(argument), "+");
                }
            }
            "comma_expression" => {
                return self.obstacle(node, "several expressions in one statement", false);
            }
            _ => self.expressions.read(node, &mut found),
        }
        self.finish(node, effect, found)
    }

    fn r#if(&mut self, node: Node<'_>) -> Kind {
        let mut found = Found::default();
        let Some(mut condition) = node.child_by_field_name("condition") else {
            return self.obstacle(node, "a statement that is not understood", false);
        };
        self.expressions.read(condition, &mut found);
        if let Some(reason) = found.opaque {
            return self.obstacle(node, reason, false);
        }
        if found.calls.iter().any(|call| call.kind != CallKind::Pure) {
            return self.obstacle(node, "a call in a condition", false);
        }
        let consequence = node.child_by_field_name("consequence");
        let alternative = node.child_by_field_name("alternative");
        while condition.kind() == "parenthesized_expression"
            && let Some(inner) = condition.named_child(0)
        {
            condition = inner;
        }
        if let (Some(then), None) = (consequence, alternative)
            && let Some(effect) = self.conditional_update(condition, then)
        {
            return Kind::Effect(effect);
        }
        let mut arms = Vec::new();
        arms.push(consequence.map_or_else(Vec::new, |then| self.arm(then)));
        let alternative = match alternative.map(|node| (node, node.kind())) {
            Some((clause, "else_clause")) => clause.named_child(0),
            other => other.map(|(node, _)| node),
        };
        arms.push(alternative.map_or_else(Vec::new, |otherwise| self.arm(otherwise)));
        Kind::Branch { condition: found.accesses, arms }
    }

    /// A block remains a block, for its declarations.
    fn arm(&mut self, node: Node<'_>) -> Vec<Statement> {
        self.body(node)
    }

    fn switch(&mut self, node: Node<'_>) -> Kind {
        let (Some(condition), Some(body)) = (node.child_by_field_name("condition"), node.child_by_field_name("body"))
        else {
            return self.obstacle(node, "a statement that is not understood", false);
        };
        let mut found = Found::default();
        self.expressions.read(condition, &mut found);
        let mut cursor = body.walk();
        let cases: Vec<Node<'_>> = body.named_children(&mut cursor).collect();
        if found.opaque.is_some() || cases.iter().any(|case| case.kind() != "case_statement") {
            return self.obstacle(node, "a switch that is not understood", false);
        }
        let mut arms = vec![Vec::new()];
        for case in cases {
            let mut cursor = case.walk();
            let value = case.child_by_field_name("value").map(|value| value.id());
            let statements: Vec<Node<'_>> =
                case.named_children(&mut cursor).filter(|child| Some(child.id()) != value).collect();
            arms.push(statements.into_iter().filter_map(|child| self.statement(child)).collect());
        }
        Kind::Branch { condition: found.accesses, arms }
    }

    pub(super) fn repeat(&mut self, node: Node<'_>) -> Kind {
        let mut found = Found::default();
        for part in ["initializer", "condition", "update"] {
            let Some(part) = node.child_by_field_name(part) else { continue };
            match part.kind() {
                "declaration" => {
                    if let Kind::Effect(effect) = self.declaration(part) {
                        found.accesses.extend(effect.accesses);
                    }
                }
                "assignment_expression" | "update_expression" => {
                    if let Kind::Effect(effect) = self.effect(part) {
                        found.accesses.extend(effect.accesses);
                    } else {
                        found.opaque = Some("a loop that is not understood");
                    }
                }
                _ => self.expressions.read(part, &mut found),
            }
        }
        if let Some(reason) = found.opaque {
            return self.obstacle(node, reason, false);
        }
        let body = node.child_by_field_name("body").map_or_else(Vec::new, |body| self.body(body));
        let reason = self.called_bound(node);
        Kind::Repeat { reason, accesses: found.accesses, body }
    }
}

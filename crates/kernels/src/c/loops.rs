//! Loops whose trip count is known before they start.

use super::expressions::Found;
use super::liveness::{has, operator};
use super::statements::Statements;
use crate::ir::{Access, CallKind, Directive, Element, Kind, Loop, LoopText, Statement, VarId};
use crate::poly::Poly;
use std::collections::BTreeSet;
use tree_sitter::Node;

impl Statements<'_, '_> {
    pub(super) fn r#for(&mut self, node: Node<'_>, directive: Option<Directive>) -> Kind {
        match self.counted(node, directive) {
            Some(counted) => Kind::Loop(Box::new(counted)),
            None => self.repeat(node),
        }
    }

    /// Returns the reason why a loop that compares its variable with a call's result counts no iterations: the call may return another value each time.
    pub(super) fn called_bound(&mut self, node: Node<'_>) -> Option<String> {
        if node.kind() != "for_statement" {
            return None;
        }
        let mut found = Found::default();
        self.expressions.read(node.child_by_field_name("condition")?, &mut found);
        let call = found.calls.iter().find(|call| call.kind != CallKind::Pure)?;
        Some(format!("the loop's bound is a call of {}, which each iteration evaluates", call.name))
    }

    /// Returns the loop, if its trip count is known before it starts.
    fn counted(&mut self, node: Node<'_>, directive: Option<Directive>) -> Option<Loop> {
        let initializer = node.child_by_field_name("initializer")?;
        let (name, first, declares) = match initializer.kind() {
            "assignment_expression" if operator(initializer, self.expressions.code) == "=" => {
                (initializer.child_by_field_name("left")?, initializer.child_by_field_name("right")?, false)
            }
            "declaration" => {
                let declarator = initializer.child_by_field_name("declarator")?;
                if declarator.kind() != "init_declarator" || declarator.next_named_sibling().is_some() {
                    return None;
                }
                (declarator.child_by_field_name("declarator")?, declarator.child_by_field_name("value")?, true)
            }
            _ => return None,
        };
        if name.kind() != "identifier" {
            return None;
        }
        let variable = self.expressions.variable(name);
        let counts = match self.expressions.type_of(variable).element {
            Element::Integer { bits, .. } => bits >= 32 && self.expressions.type_of(variable).is_integer(),
            _ => false,
        };
        if !counts || self.expressions.variables[variable.0].volatile {
            return None;
        }
        let condition = node.child_by_field_name("condition")?;
        let (left, right) = (condition.child_by_field_name("left")?, condition.child_by_field_name("right")?);
        let relation = operator(condition, self.expressions.code).to_owned();
        let (bound, relation) = if self.is(left, variable) {
            (right, relation)
        } else if self.is(right, variable) {
            let turned = match relation.as_str() {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                _ => return None,
            };
            (left, turned.to_owned())
        } else {
            return None;
        };
        let step = self.step(node.child_by_field_name("update")?, variable)?;
        let exclusive = match (relation.as_str(), step > 0) {
            ("<", true) | (">", false) => true,
            ("<=", true) | (">=", false) => false,
            _ => return None,
        };
        // An unsigned variable that counts down wraps before it is below 0.
        if step < 0 && matches!(self.expressions.type_of(variable).element, Element::Integer { signed: false, .. }) {
            return None;
        }
        let body = node.child_by_field_name("body")?;
        if leaves(body) {
            return None;
        }
        let mut found = Found::default();
        self.expressions.read(first, &mut found);
        self.expressions.read(bound, &mut found);
        if found.opaque.is_some() || found.calls.iter().any(|call| call.kind != CallKind::Pure) {
            return None;
        }
        let lower = self.expressions.poly(first);
        let mut last = self.expressions.poly(bound);
        if exclusive {
            last = last.and_then(|last| last.minus(&Poly::constant(step.signum())));
        }
        let statements = self.body(body);
        let mut written = Vec::new();
        writes(&statements, &mut written);
        let reads = found.accesses.iter().map(|access| access.variable);
        if written.contains(&variable) || reads.into_iter().any(|read| read == variable || written.contains(&read)) {
            return None;
        }
        Some(Loop {
            directive,
            variable,
            private: BTreeSet::new(),
            declares,
            text: LoopText {
                first: first.byte_range(),
                bound: bound.byte_range(),
                body: body.byte_range(),
                open_end: Some(body.end_byte()),
            },
            lower,
            last,
            exclusive,
            step,
            header: found.accesses,
            body: statements,
        })
    }

    /// A constant step.
    fn step(&mut self, update: Node<'_>, variable: VarId) -> Option<i64> {
        let sign = |operator: &str| match operator {
            "+" | "+=" | "++" => Some(1),
            "-" | "-=" | "--" => Some(-1),
            _ => None,
        };
        let code = self.expressions.code;
        let step = match update.kind() {
            "update_expression" => {
                let argument = update.child_by_field_name("argument")?;
                let text = &code[update.byte_range()];
                self.is(argument, variable).then_some(if text.contains("++") { 1 } else { -1 })
            }
            "assignment_expression" => {
                let (left, right) = (update.child_by_field_name("left")?, update.child_by_field_name("right")?);
                if !self.is(left, variable) {
                    return None;
                }
                match operator(update, code) {
                    "=" => {
                        let (first, second) = (right.child_by_field_name("left")?, right.child_by_field_name("right")?);
                        let operator = sign(operator(right, code))?;
                        match self.is(first, variable) {
                            true => Some(operator * self.expressions.poly(second)?.as_constant()?),
                            false if operator == 1 && self.is(second, variable) => {
                                self.expressions.poly(first)?.as_constant()
                            }
                            false => None,
                        }
                    }
                    other => Some(sign(other)? * self.expressions.poly(right)?.as_constant()?),
                }
            }
            _ => None,
        };
        step.filter(|step| *step != 0 && step.abs() < 1 << 20)
    }
}

/// All variables that statements write.
fn writes(statements: &[Statement], written: &mut Vec<VarId>) {
    crate::walk::accesses(statements, &mut |access: &Access| {
        if access.write {
            written.push(access.variable);
        }
    });
    crate::walk::loops(statements, &mut |inner: &Loop| written.push(inner.variable));
}

/// Whether a loop's body leaves the loop: `break` of its own, `return`, `goto`.
fn leaves(body: Node<'_>) -> bool {
    match body.kind() {
        "break_statement" => true,
        "for_statement" | "while_statement" | "do_statement" | "switch_statement" => {
            has(body, &["return_statement", "goto_statement"])
        }
        "return_statement" | "goto_statement" => true,
        _ => {
            let mut cursor = body.walk();
            body.named_children(&mut cursor).any(leaves)
        }
    }
}

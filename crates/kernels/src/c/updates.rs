//! Updates of a scalar that may be reductions: `s += e`, `s = fmax(s, e)`, `if (e > s) s = e`.

use super::expressions::Found;
use super::liveness::operator;
use super::reduction::reduction;
use super::statements::Statements;
use crate::ir::{Effect, Reduction, VarId};
use tree_sitter::Node;

impl Statements<'_, '_> {
    /// Recognizes `s = s + e`, `s = e + s`, `s = fmax(s, e)` by the right side of an assignment to `variable`.
    pub(super) fn own_update(&mut self, variable: VarId, mut right: Node<'_>) -> Option<Reduction> {
        while right.kind() == "parenthesized_expression" {
            right = right.named_child(0)?;
        }
        match right.kind() {
            "binary_expression" => {
                let operator = operator(right, self.expressions.code);
                let (left, other) = (right.child_by_field_name("left")?, right.child_by_field_name("right")?);
                if self.is(left, variable) && !self.reads(other, variable) {
                    return reduction(variable, operator);
                }
                let commutes = operator != "-";
                (self.is(other, variable) && !self.reads(left, variable) && commutes)
                    .then(|| reduction(variable, operator))
                    .flatten()
            }
            "call_expression" => {
                let name = self.text(right.child_by_field_name("function")?);
                let operator = match name
                    .trim_start_matches("__builtin_")
                    .trim_start_matches("std::")
                    .trim_end_matches(['f', 'l'])
                {
                    "max" | "fmax" => "max",
                    "min" | "fmin" => "min",
                    _ => return None,
                };
                let arguments = right.child_by_field_name("arguments")?;
                let (first, second) = (arguments.named_child(0)?, arguments.named_child(1)?);
                let one = self.is(first, variable) && !self.reads(second, variable)
                    || self.is(second, variable) && !self.reads(first, variable);
                one.then(|| Reduction { variable, operator: operator.into() })
            }
            "conditional_expression" => {
                let mut condition = right.child_by_field_name("condition")?;
                while condition.kind() == "parenthesized_expression" {
                    condition = condition.named_child(0)?;
                }
                let (yes, no) = (right.child_by_field_name("consequence")?, right.child_by_field_name("alternative")?);
                self.extremum(variable, condition, yes, Some(no))
            }
            _ => None,
        }
    }

    /// Recognizes `condition ? value : s`, or `if (condition) s = value`, as `max` or `min`.
    fn extremum(
        &mut self,
        variable: VarId,
        condition: Node<'_>,
        yes: Node<'_>,
        no: Option<Node<'_>>,
    ) -> Option<Reduction> {
        if condition.kind() != "binary_expression" {
            return None;
        }
        let (left, right) = (condition.child_by_field_name("left")?, condition.child_by_field_name("right")?);
        let mut greater = match operator(condition, self.expressions.code) {
            ">" | ">=" => true,
            "<" | "<=" => false,
            _ => return None,
        };
        let value = if self.is(right, variable) {
            left
        } else if self.is(left, variable) {
            greater = !greater;
            right
        } else {
            return None;
        };
        // `greater` is now: value > s.
        let same = |this: &Self, a: Node<'_>, b: Node<'_>| strip(&this.text(a)) == strip(&this.text(b));
        if self.reads(value, variable) {
            return None;
        }
        let takes = match no {
            None => same(self, yes, value),
            Some(no) if self.is(no, variable) => same(self, yes, value),
            Some(no) if self.is(yes, variable) => {
                greater = !greater;
                same(self, no, value)
            }
            Some(_) => false,
        };
        takes.then(|| Reduction { variable, operator: if greater { "max" } else { "min" }.into() })
    }

    pub(super) fn is(&mut self, mut node: Node<'_>, variable: VarId) -> bool {
        while node.kind() == "parenthesized_expression"
            && let Some(inner) = node.named_child(0)
        {
            node = inner;
        }
        node.kind() == "identifier" && self.expressions.variable(node) == variable
    }

    pub(super) fn reads(&mut self, node: Node<'_>, variable: VarId) -> bool {
        let mut found = Found::default();
        self.expressions.read(node, &mut found);
        found.accesses.iter().any(|access| access.variable == variable)
    }

    /// Recognizes `if (e > s) s = e;`.
    pub(super) fn conditional_update(&mut self, condition: Node<'_>, then: Node<'_>) -> Option<Effect> {
        let mut then = then;
        if then.kind() == "compound_statement" && then.named_child_count() == 1 {
            then = then.named_child(0)?;
        }
        let assignment = (then.kind() == "expression_statement").then(|| then.named_child(0)).flatten()?;
        if assignment.kind() != "assignment_expression" || operator(assignment, self.expressions.code) != "=" {
            return None;
        }
        let (left, right) = (assignment.child_by_field_name("left")?, assignment.child_by_field_name("right")?);
        if left.kind() != "identifier" {
            return None;
        }
        let variable = self.expressions.variable(left);
        let reduction = self.extremum(variable, condition, right, None)?;
        let mut found = Found::default();
        self.expressions.read(condition, &mut found);
        self.expressions.read(right, &mut found);
        self.expressions.lvalue_access(left, true, &mut found);
        Some(Effect { accesses: found.accesses, calls: found.calls, reduction: Some(reduction), ..Effect::default() })
    }
}

fn strip(text: &str) -> &str {
    text.trim_start_matches('(').trim_end_matches(')')
}

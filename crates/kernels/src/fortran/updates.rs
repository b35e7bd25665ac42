//! Updates of scalars that may be reductions.

use super::expressions::Found;
use super::statements::Statements;
use super::tree::{bare, child, children};
use crate::ir::{Effect, Kind, Reduction, VarId};
use tree_sitter::Node;

impl Statements<'_> {
    /// Recognizes `if (e > s) s = e` as `max` or `min`.
    pub(super) fn extremum(&mut self, condition: Node<'_>, assignment: Node<'_>) -> Option<Effect> {
        if condition.kind() != "relational_expression" || assignment.kind() != "assignment_statement" {
            return None;
        }
        let variable = self.expressions.scalar(assignment.child_by_field_name("left")?)?;
        let value = assignment.child_by_field_name("right")?;
        let (left, right) = (condition.child_by_field_name("left")?, condition.child_by_field_name("right")?);
        let greater = match self.word(condition.child_by_field_name("operator")?).as_str() {
            ">" | ">=" | ".gt." | ".ge." => true,
            "<" | "<=" | ".lt." | ".le." => false,
            _ => return None,
        };
        let text = self.word(bare(value));
        let operator = if self.is(right, variable) && self.word(bare(left)) == text {
            if greater { "max" } else { "min" }
        } else if self.is(left, variable) && self.word(bare(right)) == text {
            if greater { "min" } else { "max" }
        } else {
            return None;
        };
        if self.reads(value, variable) {
            return None;
        }
        let mut found = Found::default();
        self.expressions.read(condition, &mut found);
        let Kind::Effect(mut effect) = self.assignment(assignment) else { return None };
        effect.accesses = found.accesses.into_iter().chain(effect.accesses).collect();
        effect.value = None;
        effect.reduction = Some(Reduction { variable, operator: operator.into() });
        Some(effect)
    }

    fn is(&mut self, node: Node<'_>, variable: VarId) -> bool {
        self.expressions.scalar(bare(node)) == Some(variable)
    }

    fn reads(&mut self, node: Node<'_>, variable: VarId) -> bool {
        let mut found = Found::default();
        self.expressions.read(node, &mut found);
        found.accesses.iter().any(|access| access.variable == variable)
    }

    /// Recognizes `s + e`, `e + s`, `max(s, e)` as the right side of an assignment to `variable`.
    pub(super) fn own_update(&mut self, variable: VarId, right: Node<'_>) -> Option<Reduction> {
        let new = |operator: &str| Some(Reduction { variable, operator: operator.into() });
        match right.kind() {
            "math_expression" | "logical_expression" => {
                let operator = self.word(right.child_by_field_name("operator")?);
                let (left, other) = (right.child_by_field_name("left")?, right.child_by_field_name("right")?);
                if !matches!(operator.as_str(), "+" | "-" | "*" | ".and." | ".or." | ".eqv." | ".neqv.") {
                    return None;
                }
                if operator == "+" || operator == "-" {
                    // A sum of several terms: `s + a - b` is `(s + a) - b`.
                    let mut first = right;
                    let mut plain = true;
                    while first.kind() == "math_expression" {
                        let sign = self.word(first.child_by_field_name("operator")?);
                        if sign != "+" && sign != "-" {
                            plain = false;
                            break;
                        }
                        let added = first.child_by_field_name("right")?;
                        if self.reads(added, variable) {
                            plain = false;
                            break;
                        }
                        first = first.child_by_field_name("left")?;
                    }
                    if plain && self.is(first, variable) {
                        return new("+");
                    }
                } else if self.is(left, variable) && !self.reads(other, variable) {
                    return new(&operator);
                }
                (operator != "-" && self.is(other, variable) && !self.reads(left, variable)).then(|| new(&operator))?
            }
            "call_expression" => {
                let operator = match self.word(right.named_child(0)?).as_str() {
                    "max" | "amax1" | "dmax1" | "max0" => "max",
                    "min" | "amin1" | "dmin1" | "min0" => "min",
                    "iand" => "iand",
                    "ior" => "ior",
                    "ieor" => "ieor",
                    _ => return None,
                };
                let arguments = children(child(right, "argument_list")?);
                let own: Vec<bool> = arguments.iter().map(|argument| self.is(*argument, variable)).collect();
                let others = arguments.iter().zip(&own).filter(|(_, own)| !**own).map(|(argument, _)| *argument);
                let others: Vec<Node<'_>> = others.collect();
                let once = own.iter().filter(|own| **own).count() == 1;
                (once && !others.into_iter().any(|other| self.reads(other, variable))).then(|| new(operator))?
            }
            _ => None,
        }
    }
}

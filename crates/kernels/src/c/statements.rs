//! Statements and loops.

use super::expressions::{Expressions, Found};
use super::liveness::{has, operator};
use crate::ir::{Access, Directive, Effect, Element, Kind, Loop, Obstacle, Reduction, Shape, Statement, VarId};
use crate::poly::Poly;
use crate::source::Source;
use tree_sitter::Node;

/// Reads the statements of one construct.
pub(super) struct Statements<'a, 's> {
    pub(super) source: &'a Source<'s>,
    pub(super) expressions: Expressions<'a>,
}

impl Statements<'_, '_> {
    /// A block's statements, or the one statement.
    pub(super) fn body(&mut self, node: Node<'_>) -> Vec<Statement> {
        if node.kind() != "compound_statement" {
            return self.statement(node).into_iter().collect();
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        children.into_iter().filter_map(|child| self.statement(child)).collect()
    }

    fn text(&self, node: Node<'_>) -> String {
        self.expressions.code[node.byte_range()].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn obstacle(&mut self, node: Node<'_>, reason: impl Into<String>, promised_away: bool) -> Kind {
        let mut accesses = Vec::new();
        self.expressions.mentions(node, &mut accesses);
        let obstacle = Obstacle { span: node.byte_range(), reason: reason.into(), remedy: None, promised_away };
        Kind::Obstacle { obstacle, accesses }
    }

    fn statement(&mut self, node: Node<'_>) -> Option<Statement> {
        let span = node.byte_range();
        let directives: Vec<Directive> = self.source.directives_before(node.start_byte()).cloned().collect();
        let inside = |directive: &&Directive| directive.span.start >= self.expressions.span.start;
        let directives: Vec<&Directive> = directives.iter().filter(inside).collect();
        if let Some(other) = directives.iter().find(|directive| !matches!(directive.name.as_str(), "loop" | "cache")) {
            let reason = format!("\"acc {}\" inside of the construct", other.name);
            return Some(Statement { span, kind: self.obstacle(node, reason, false) });
        }
        let directive = directives.into_iter().find(|directive| directive.name == "loop").cloned();
        let kind = match node.kind() {
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
            "continue_statement" | "break_statement" => Kind::Effect(Effect::default()),
            "return_statement" => self.obstacle(node, "return leaves the construct", false),
            "goto_statement" | "labeled_statement" => self.obstacle(node, "goto and labels", false),
            _ => self.obstacle(node, "a statement that is not understood", false),
        };
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
        effect.only_scalars = found.calls.iter().all(|call| call.kind == crate::ir::CallKind::Pure)
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

    /// `s = s + e`, `s = e + s`, `s = fmax(s, e)`: the right side of an assignment to `variable`.
    fn own_update(&mut self, variable: VarId, mut right: Node<'_>) -> Option<Reduction> {
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
                let operator = match name.trim_start_matches("__builtin_").trim_end_matches(['f', 'l']) {
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

    /// `condition ? value : s`, or `if (condition) s = value`, as `max` or `min`.
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

    fn is(&mut self, mut node: Node<'_>, variable: VarId) -> bool {
        while node.kind() == "parenthesized_expression"
            && let Some(inner) = node.named_child(0)
        {
            node = inner;
        }
        node.kind() == "identifier" && self.expressions.variable(node) == variable
    }

    fn reads(&mut self, node: Node<'_>, variable: VarId) -> bool {
        let mut found = Found::default();
        self.expressions.read(node, &mut found);
        found.accesses.iter().any(|access| access.variable == variable)
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
        if found.calls.iter().any(|call| call.kind != crate::ir::CallKind::Pure) {
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

    /// A block stays one, for what it declares.
    fn arm(&mut self, node: Node<'_>) -> Vec<Statement> {
        self.body(node)
    }

    /// `if (e > s) s = e;`
    fn conditional_update(&mut self, condition: Node<'_>, then: Node<'_>) -> Option<Effect> {
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

    fn repeat(&mut self, node: Node<'_>) -> Kind {
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
        Kind::Repeat { accesses: found.accesses, body }
    }

    fn r#for(&mut self, node: Node<'_>, directive: Option<Directive>) -> Kind {
        match self.counted(node, directive) {
            Some(counted) => Kind::Loop(Box::new(counted)),
            None => self.repeat(node),
        }
    }

    /// The loop, if its trip count is known before it starts.
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
        if found.opaque.is_some() || found.calls.iter().any(|call| call.kind != crate::ir::CallKind::Pure) {
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
            declares,
            first: first.byte_range(),
            bound: bound.byte_range(),
            lower,
            last,
            exclusive,
            step,
            header: found.accesses,
            body: statements,
            body_span: body.byte_range(),
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

fn reduction(variable: VarId, operator: &str) -> Option<Reduction> {
    let operator = match operator {
        // A difference is a sum of what is taken away.
        "-" => "+",
        "+" | "*" | "&" | "|" | "^" | "&&" | "||" => operator,
        _ => return None,
    };
    Some(Reduction { variable, operator: operator.into() })
}

fn strip(text: &str) -> &str {
    text.trim_start_matches('(').trim_end_matches(')')
}

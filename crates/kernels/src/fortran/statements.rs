//! Statements and loops.

use super::expressions::{Expressions, Found, Reference};
use super::tree::{bare, callee, child, children, word};
use crate::ir::{
    ATOMIC, Access, Call, CallKind, Directive, Effect, Element, Kind, Loop, LoopText, Obstacle, Shape, Span, Statement,
};
use crate::walk;
use std::collections::BTreeSet;
use tree_sitter::Node;

/// Reads the statements of one construct.
pub(super) struct Statements<'a> {
    pub(super) expressions: Expressions<'a>,
    /// Bytes of the text in which the construct's directives stand.
    pub(super) span: Span,
    /// Names of the loops around the current statement, inner ones last.
    pub(super) names: Vec<Option<String>>,
}

const NOT_UNDERSTOOD: &str = "the statement is not understood";

impl Statements<'_> {
    /// Returns statements of a block. `of_loop` is set for the body of a loop, where `cycle` skips the rest.
    pub(super) fn list(&mut self, nodes: &[Node<'_>], of_loop: bool) -> Vec<Statement> {
        let mut found = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            if matches!(node.kind(), "statement_label" | "comment") {
                continue;
            }
            if of_loop && let Some(branch) = self.cycling(*node, &nodes[at + 1..]) {
                found.push(branch);
                break;
            }
            found.extend(self.statement(*node));
        }
        found
    }

    fn code(&self) -> &str {
        self.expressions.code()
    }

    pub(super) fn word(&self, node: Node<'_>) -> String {
        word(node, self.code())
    }

    fn span(&self, node: Node<'_>) -> Span {
        self.expressions.source.span(node.byte_range())
    }

    fn obstacle(&mut self, node: Node<'_>, reason: impl Into<String>, promised_away: bool) -> Kind {
        let mut accesses = Vec::new();
        let unknown = self.expressions.unknown.clone();
        self.expressions.mentions(node, &mut accesses);
        if matches!(node.kind(), "block_construct" | "associate_statement") {
            self.expressions.unknown = unknown;
        }
        let obstacle = Obstacle { span: self.span(node), reason: reason.into(), remedy: None, promised_away };
        Kind::Obstacle { obstacle, accesses }
    }

    fn statement(&mut self, node: Node<'_>) -> Option<Statement> {
        let span = self.span(node);
        let (mut directive, mut is_atomic) = (None, false);
        let before: Vec<Directive> = self
            .expressions
            .source
            .directives_before(node.start_byte())
            .map(|placed| placed.directive.clone())
            .collect();
        for one in before.into_iter().filter(|one| self.span.contains(&one.span.start)) {
            match one.name.as_str() {
                "loop" => directive = Some(one),
                "cache" | "end atomic" => {}
                name if name.starts_with("atomic") => is_atomic = true,
                other => {
                    let reason = format!("\"acc {other}\" is inside of the construct");
                    return Some(Statement { span, kind: self.obstacle(node, reason, false) });
                }
            }
        }
        let mut kind = match node.kind() {
            "do_loop_statement" => self.r#do(node, directive),
            "if_statement" => self.r#if(node),
            "select_case_statement" => self.select(node),
            "assignment_statement" => self.assignment(node),
            "subroutine_call" => {
                let mut found = Found::default();
                self.expressions.call(node, &mut found);
                self.finish(Effect::default(), found)
            }
            "keyword_statement" => return self.keyword(node).map(|kind| Statement { span, kind }),
            "where_statement" => self.obstacle(node, "where is an assignment of arrays", true),
            "forall_statement" => self.obstacle(node, "forall is an assignment of arrays", true),
            "stop_statement" => self.obstacle(node, "stop ends the program", false),
            "print_statement"
            | "write_statement"
            | "read_statement"
            | "open_statement"
            | "close_statement"
            | "inquire_statement"
            | "file_position_statement" => self.obstacle(node, "input or output", false),
            "allocate_statement" => self.obstacle(node, "an allocation", false),
            "call_expression" => {
                let name = node.named_child(0).map(|name| self.word(name)).unwrap_or_default();
                let reason = match name.as_str() {
                    "deallocate" | "nullify" => "an allocation or a pointer changes",
                    _ => NOT_UNDERSTOOD,
                };
                self.obstacle(node, reason, false)
            }
            "pointer_association_statement" => self.obstacle(node, "a pointer is changed", false),
            "block_construct" | "associate_statement" => self.obstacle(node, "names of a block or associate", false),
            "select_type_statement" | "select_rank_statement" => {
                self.obstacle(node, "select type or select rank", false)
            }
            "arithmetic_if_statement" => self.obstacle(node, "goto", false),
            _ => self.obstacle(node, NOT_UNDERSTOOD, false),
        };
        if is_atomic {
            let variables = &self.expressions.variables;
            let stores_element = |one: &Access| !one.write || variables[one.variable.0].shape != Shape::Scalar;
            match &mut kind {
                // Its target may belong to any iteration: only an assertion in the source makes the order irrelevant.
                Kind::Effect(effect) if effect.accesses.iter().all(stores_element) => {
                    effect.calls.push(Call { name: ATOMIC.into(), kind: CallKind::Sequential, span: span.clone() });
                    effect.only_scalars = false;
                }
                _ => kind = self.obstacle(node, "an atomic update of a scalar", false),
            }
        }
        Some(Statement { span, kind })
    }

    fn keyword(&mut self, node: Node<'_>) -> Option<Kind> {
        let text = self.word(node);
        Some(match text.as_str() {
            "continue" => return None,
            // The loop around it is a `Repeat`.
            _ if text.starts_with("exit") => Kind::Effect(Effect { only_scalars: true, ..Effect::default() }),
            _ if text.starts_with("cycle") => Kind::Jump { innermost: self.cycles(node) },
            _ if text.starts_with("return") => self.obstacle(node, "return leaves the construct", false),
            _ => self.obstacle(node, "goto", false),
        })
    }

    /// Returns `if (condition) cycle` as a branch around the rest of the loop's body.
    fn cycling(&mut self, node: Node<'_>, rest: &[Node<'_>]) -> Option<Statement> {
        if node.kind() != "if_statement"
            || !rest.iter().any(|node| !matches!(node.kind(), "statement_label" | "comment"))
        {
            return None;
        }
        let arms = arms(node);
        let cycles: Vec<bool> = arms.iter().map(|arm| arm.last().is_some_and(|last| self.cycles(*last))).collect();
        if cycles.iter().filter(|cycles| !**cycles).count() != 1 {
            return None;
        }
        let condition = self.conditions(node);
        let mut read = Vec::new();
        for (arm, cycles) in arms.iter().zip(cycles) {
            if cycles {
                let mut ending = self.list(&arm[..arm.len() - 1], false);
                let span = arm.last().map_or_else(|| self.span(node), |last| self.span(*last));
                ending.push(Statement { span, kind: Kind::Jump { innermost: true } });
                read.push(ending);
            } else {
                let all: Vec<Node<'_>> = arm.iter().chain(rest).copied().collect();
                read.push(self.list(&all, true));
            }
        }
        let end = rest.last().map_or(node, |last| *last).end_byte();
        let span = self.expressions.source.span(node.start_byte()..end);
        Some(Statement { span, kind: Kind::Branch { condition, arms: read } })
    }

    /// Whether it is the `cycle` of the innermost loop.
    fn cycles(&self, node: Node<'_>) -> bool {
        let text = self.word(node);
        let Some(name) = text.strip_prefix("cycle").filter(|_| node.kind() == "keyword_statement") else {
            return false;
        };
        name.is_empty() || self.names.last().is_some_and(|own| own.as_deref() == Some(name))
    }

    fn conditions(&mut self, node: Node<'_>) -> Vec<Access> {
        let mut found = Found::default();
        let own = child(node, "parenthesized_expression");
        let others = children(node).into_iter().filter(|child| child.kind() == "elseif_clause");
        let conditions = others.filter_map(|clause| child(clause, "parenthesized_expression"));
        for condition in own.into_iter().chain(conditions.collect::<Vec<_>>()) {
            self.expressions.read(condition, &mut found);
        }
        found.accesses
    }

    fn calls(&mut self, node: Node<'_>) -> bool {
        let mut found = Found::default();
        self.expressions.read(node, &mut found);
        found.calls.iter().any(|call| call.kind != CallKind::Pure)
    }

    fn r#if(&mut self, node: Node<'_>) -> Kind {
        let Some(condition) = child(node, "parenthesized_expression") else {
            return self.obstacle(node, NOT_UNDERSTOOD, false);
        };
        if self.calls(condition) {
            return self.obstacle(node, "a condition calls a function", true);
        }
        let arms = arms(node);
        if let [only, none] = &*arms
            && none.is_empty()
            && let [assignment] = &**only
            && let Some(effect) = self.extremum(bare(condition), *assignment)
        {
            return Kind::Effect(effect);
        }
        let condition = self.conditions(node);
        let arms = arms.iter().map(|arm| self.list(arm, false)).collect();
        Kind::Branch { condition, arms }
    }

    fn select(&mut self, node: Node<'_>) -> Kind {
        let mut found = Found::default();
        if let Some(selector) = child(node, "selector") {
            self.expressions.read(selector, &mut found);
        }
        let (mut arms, mut default) = (Vec::new(), false);
        for case in children(node).into_iter().filter(|child| child.kind() == "case_statement") {
            let inner: Vec<Node<'_>> = children(case)
                .into_iter()
                .filter(|child| !matches!(child.kind(), "case_value_range_list" | "default" | "block_label"))
                .collect();
            default |= child(case, "default").is_some();
            arms.push(self.list(&inner, false));
        }
        if !default {
            arms.push(Vec::new());
        }
        Kind::Branch { condition: found.accesses, arms }
    }

    fn r#do(&mut self, node: Node<'_>, directive: Option<Directive>) -> Kind {
        if child(node, "concurrent_statement").is_some() {
            return self.obstacle(node, "do concurrent has locality clauses, or a header that is not understood", true);
        }
        let label = child(node, "block_label_start_expression");
        let label = label.map(|label| self.word(label).trim_end_matches(':').to_owned());
        let inner: Vec<Node<'_>> = children(node).into_iter().filter(|child| is_statement(*child)).collect();
        let leaves = self.leaves(&inner, label.as_deref(), 0);
        self.names.push(label);
        let body = self.list(&inner, true);
        self.names.pop();
        let control = child(node, "loop_control_expression");
        let Some(control) = control.filter(|_| !leaves) else {
            let mut found = Found::default();
            let condition = child(node, "while_statement").or(control);
            condition.into_iter().for_each(|condition| self.expressions.read(condition, &mut found));
            if let Some(variable) = control.and_then(|control| self.expressions.scalar(control.named_child(0)?)) {
                let span = self.span(node);
                found.accesses.push(Access { variable, write: true, subscripts: Vec::new(), span });
            }
            return Kind::Repeat { reason: None, accesses: found.accesses, body };
        };
        self.counted(node, control, &inner, body, directive).unwrap_or_else(|| {
            let mut found = Found::default();
            self.expressions.read(control, &mut found);
            if let Some(reference) = control.named_child(0).and_then(|name| self.expressions.reference(name)) {
                self.expressions.access(control, &reference, true, &mut found);
            }
            Kind::Obstacle {
                obstacle: Obstacle {
                    span: self.span(node),
                    reason: "the loop's step is not a constant, its variable is no integer, or its bounds change"
                        .into(),
                    remedy: None,
                    promised_away: false,
                },
                accesses: {
                    let mut all = found.accesses;
                    self.expressions.mentions(node, &mut all);
                    all
                },
            }
        })
    }

    /// A loop over integers with a constant step.
    fn counted(
        &mut self,
        node: Node<'_>,
        control: Node<'_>,
        inner: &[Node<'_>],
        body: Vec<Statement>,
        directive: Option<Directive>,
    ) -> Option<Kind> {
        let parts = children(control);
        let [name, first, bound, rest @ ..] = &*parts else { return None };
        let step = match rest.first() {
            Some(step) => self.expressions.poly(*step)?.as_constant().filter(|step| *step != 0)?,
            None => 1,
        };
        let variable = self.expressions.scalar(*name)?;
        if !matches!(self.expressions.variables[variable.0].element, Element::Integer { .. }) {
            return None;
        }
        let mut found = Found::default();
        [first, bound].into_iter().chain(rest).for_each(|one| self.expressions.read(*one, &mut found));
        if found.calls.iter().any(|call| call.kind != CallKind::Pure) {
            return None;
        }
        // Bounds that the body writes would have another value.
        let mut written = vec![variable];
        walk::accesses(&body, &mut |access| written.extend(access.write.then_some(access.variable)));
        if found.accesses.iter().any(|access| written.contains(&access.variable)) {
            return None;
        }
        let start = self.expressions.source.span(control.byte_range()).end;
        let end = child(node, "end_do_loop_statement")?;
        let end = self.expressions.source.start(end.start_byte());
        let last = inner.last().map_or(start, |last| self.span(*last).end);
        Some(Kind::Loop(Box::new(Loop {
            directive,
            variable,
            private: BTreeSet::new(),
            declares: false,
            text: LoopText {
                first: self.span(*first),
                bound: self.span(*bound),
                body: start..end.max(last).max(start),
                open_end: Some(end).filter(|end| {
                    let text = self.expressions.source.text.get(*end..*end + 3);
                    text.is_some_and(|text| text.eq_ignore_ascii_case("end"))
                }),
            },
            lower: self.expressions.poly(*first),
            last: self.expressions.poly(*bound),
            exclusive: false,
            step,
            header: found.accesses,
            body,
        })))
    }

    /// Whether a statement inside leaves the loop named `label`, `depth` loops further out.
    fn leaves(&self, nodes: &[Node<'_>], label: Option<&str>, depth: usize) -> bool {
        nodes.iter().any(|node| match node.kind() {
            "keyword_statement" => {
                let text = self.word(*node);
                let target = |word: &str| text.strip_prefix(word).map(str::to_owned);
                if let Some(name) = target("exit") {
                    return if name.is_empty() {
                        depth == 0
                    } else {
                        Some(&*name) == label || !self.is_inner(&name, *node, depth)
                    };
                }
                if let Some(name) = target("cycle") {
                    return !name.is_empty() && Some(&*name) != label && !self.is_inner(&name, *node, depth);
                }
                false
            }
            "do_loop_statement" => self.leaves(&children(*node), label, depth + 1),
            _ => self.leaves(&children(*node), label, depth),
        })
    }

    /// Whether a name is that of one of the `depth` loops around a node.
    fn is_inner(&self, name: &str, node: Node<'_>, depth: usize) -> bool {
        let (mut next, mut left) = (node.parent(), depth);
        while let Some(parent) = next.filter(|_| left > 0) {
            if parent.kind() == "do_loop_statement" {
                left -= 1;
                let own = child(parent, "block_label_start_expression").map(|label| self.word(label));
                if own.is_some_and(|own| own.trim_end_matches(':') == name) {
                    return true;
                }
            }
            next = parent.parent();
        }
        false
    }

    fn finish(&mut self, mut effect: Effect, found: Found) -> Kind {
        let variables = &self.expressions.variables;
        effect.only_scalars = found.calls.iter().all(|call| call.kind == CallKind::Pure)
            && found.accesses.iter().all(|access| variables[access.variable.0].shape == Shape::Scalar);
        effect.accesses = found.accesses;
        effect.calls = found.calls;
        Kind::Effect(effect)
    }

    pub(super) fn assignment(&mut self, node: Node<'_>) -> Kind {
        let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right")) else {
            return self.obstacle(node, NOT_UNDERSTOOD, false);
        };
        let Some(reference) = self.expressions.reference(left) else {
            // Records a name that is not understood.
            if let Some((name, _)) = callee(left).filter(|(name, _)| name.kind() == "identifier") {
                self.expressions.meaning(name);
            }
            return self.obstacle(node, "an assignment to what is no variable", false);
        };
        let (mut effect, mut found) = (Effect::default(), Found::default());
        self.expressions.read(right, &mut found);
        self.expressions.access(left, &reference, true, &mut found);
        if is_whole(&reference) {
            return self.obstacle(node, "an assignment of arrays whose right side may overlap what is stored", true);
        }
        let variable = self.expressions.variable(&reference);
        if self.expressions.variables[variable.0].shape == Shape::Scalar {
            effect.reduction = self.own_update(variable, bare(right));
            let integer = matches!(self.expressions.variables[variable.0].element, Element::Integer { .. });
            effect.value = self.expressions.poly(right).filter(|_| integer).map(|value| (variable, value));
        }
        self.finish(effect, found)
    }
}

/// Whether an assignment to it stores more than one element.
fn is_whole(reference: &Reference<'_>) -> bool {
    let Some(entity) = reference.entity.as_ref().filter(|entity| entity.is_array()) else { return false };
    match &reference.subscripts {
        None => !entity.bounds.is_empty(),
        Some(list) => list.iter().any(|one| one.kind() == "extent_specifier"),
    }
}

/// Returns the arms of an `if`; the last one is empty without `else`.
fn arms<'t>(node: Node<'t>) -> Vec<Vec<Node<'t>>> {
    let own = |node: Node<'t>| children(node).into_iter().filter(|child| is_statement(*child)).collect::<Vec<_>>();
    let mut all = vec![own(node)];
    let clauses = children(node).into_iter().filter(|child| matches!(child.kind(), "elseif_clause" | "else_clause"));
    all.extend(clauses.map(own));
    if child(node, "else_clause").is_none() {
        all.push(Vec::new());
    }
    all
}

/// Whether a child of a block construct is one of its statements.
fn is_statement(node: Node<'_>) -> bool {
    !matches!(
        node.kind(),
        "end_if_statement"
            | "end_do_loop_statement"
            | "block_label"
            | "block_label_start_expression"
            | "statement_label"
            | "loop_control_expression"
            | "while_statement"
            | "concurrent_statement"
            | "parenthesized_expression"
            | "elseif_clause"
            | "else_clause"
    )
}

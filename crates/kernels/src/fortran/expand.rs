//! Statements of arrays in constructs as loops: assignments, `where`, `forall`, `do concurrent`, `sum` and the like.
//!
//! The new text means the same to any compiler: if the right side might read what is stored, the statement stays. Loops that end
//! at a label get an `end do`.

use super::constructs::{body, end_of, is_kernels};
use super::expressions::{Expressions, Reference};
use super::lines::{self, Line};
use super::scopes::Scopes;
use super::sections::{Dimension, DimensionLoop, Elements, PREFIX, Range, Refusal, Use, conflict};
use super::source::Source;
use super::tree::{child, children, word};
use super::{Input, parse};
use crate::edits::Edits;
use crate::ir::Element;
use crate::source::Line as Place;
use std::collections::{BTreeMap, HashMap};
use tree_sitter::Node;

/// A source with loops in place of such statements.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    /// The text; `None` if there are no such statements.
    pub(crate) text: Option<String>,
    /// Statements that stay as they are, and why.
    pub(crate) refused: Vec<(Place, Refusal)>,
}

/// Writes statements of arrays in constructs as loops.
pub(crate) fn expand(input: &Input<'_>) -> Expanded {
    let source = Source::new(input.text, input.form, input.name);
    if !source.directives.iter().any(is_kernels) {
        return Expanded::default();
    }
    let Some(tree) = parse(&source.code) else { return Expanded::default() };
    let scopes = Scopes::new(tree.root_node(), &source, input);
    let mut edits = Edits::default();
    let (mut changed, mut count, mut refused) = (false, 0, Vec::new());
    let mut declared: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, placed) in source.directives.iter().enumerate().filter(|(_, placed)| is_kernels(placed)) {
        let Some((_, nodes)) = body(&source, placed, end_of(&source, at), tree.root_node()) else { continue };
        let Some(scope) = scopes.scope(nodes[0].start_byte()) else { continue };
        // New variables are declared after a declaration.
        if nodes.iter().any(Node::has_error) || scopes.last_declaration(scope) <= scopes.span(scope).start {
            continue;
        }
        let mut expander = Expander {
            expressions: Expressions::new(&source, &scopes, scope),
            edits: &mut edits,
            renamed: HashMap::new(),
            declarations: Vec::new(),
            labels: Vec::new(),
            refused: Vec::new(),
            count,
            changed: false,
        };
        nodes.into_iter().for_each(|node| expander.statement(node));
        let Expander { declarations, count: used, changed: own, refused: left, .. } = expander;
        (changed, count) = (changed || own, used);
        refused.extend(left);
        declared.entry(scopes.last_declaration(scope)).or_default().extend(declarations);
    }
    for (at, declarations) in declared.into_iter().filter(|(_, declarations)| !declarations.is_empty()) {
        let at = source.code[..at].trim_end().len();
        let lines: Vec<Line> = declarations.into_iter().map(Line::Code).collect();
        lines::insert_after(&source, source.span(at.saturating_sub(1)..at).end, &lines, &mut edits);
    }
    Expanded { text: changed.then(|| edits.apply(input.text)), refused }
}

pub(super) struct Expander<'e, 'a> {
    pub(super) expressions: Expressions<'a>,
    pub(super) edits: &'e mut Edits,
    /// Indices of surrounding `do concurrent` and `forall`.
    pub(super) renamed: HashMap<String, String>,
    pub(super) declarations: Vec<String>,
    /// Labels of the `continue` statements at which surrounding loops end, inner ones last.
    labels: Vec<Option<String>>,
    /// Statements that stay as they are, and why.
    refused: Vec<(Place, Refusal)>,
    pub(super) count: usize,
    pub(super) changed: bool,
}

impl<'a> Expander<'_, 'a> {
    pub(super) fn code(&self) -> &'a str {
        self.expressions.code()
    }

    pub(super) fn elements(&mut self) -> Elements<'_, 'a> {
        Elements { expressions: &mut self.expressions, renamed: &self.renamed, uses: Vec::new() }
    }

    pub(super) fn statement(&mut self, node: Node<'_>) {
        if node.kind() == "do_loop_statement" {
            if let Some(concurrent) = child(node, "concurrent_statement") {
                return self.concurrent(node, concurrent);
            }
            let label = self.label(node);
            self.labels.push(label);
            self.rename(node);
            children(node).into_iter().filter(is_nested).for_each(|inner| self.statement(inner));
            self.labels.pop();
            return;
        }
        if node.kind() == "keyword_statement" && self.cycles(node) {
            return;
        }
        if node.kind() == "if_statement" && child(node, "end_if_statement").is_none() {
            return self.inline_if(node);
        }
        match self.lines_of(node) {
            Some(lines) => self.replace(node, lines),
            // Assignments in these can't be rewritten alone.
            None if matches!(node.kind(), "where_statement" | "forall_statement") => self.rename_all(node),
            None => {
                self.rename(node);
                children(node).into_iter().filter(is_nested).for_each(|inner| self.statement(inner));
            }
        }
    }

    /// Returns the loops for a statement of arrays; `None` for any other, and if it can't be rewritten.
    fn lines_of(&mut self, node: Node<'_>) -> Option<Vec<String>> {
        if lines::is_labelled(self.expressions.source, self.expressions.source.start(node.start_byte())) {
            return None;
        }
        let (count, declared) = (self.count, self.declarations.len());
        if node.kind() == "forall_statement" && !self.has_kind() {
            return None;
        }
        let new = match node.kind() {
            "assignment_statement" => self.assignment(node),
            "where_statement" => self.r#where(node),
            "forall_statement" => self.forall(node),
            _ => return None,
        };
        match new {
            Ok(Some(lines)) => Some(lines),
            unchanged => {
                if let Err(reason) = unchanged {
                    self.refuse(node, reason);
                }
                self.count = count;
                self.declarations.truncate(declared);
                None
            }
        }
    }

    /// Records the reason for which a statement is not expanded.
    pub(super) fn refuse(&mut self, node: Node<'_>, reason: Refusal) {
        let source = self.expressions.source;
        self.refused.push((source.place(source.start(node.start_byte())).0, reason));
    }

    /// Writes `if (condition) a(:) = 0` as a block.
    fn inline_if(&mut self, node: Node<'_>) {
        let inner = children(node);
        let [condition, statement] = &*inner else { return };
        let labelled = lines::is_labelled(self.expressions.source, self.expressions.source.start(node.start_byte()));
        let Some(lines) = self.lines_of(*statement).filter(|_| !labelled) else {
            self.rename_all(node);
            if statement.kind() == "keyword_statement" {
                self.cycles(*statement);
            }
            return;
        };
        let condition = self.elements().plain(*condition);
        let all = std::iter::once(format!("if {condition} then")).chain(lines).chain(["end if".into()]).collect();
        self.replace(node, all);
    }

    fn replace(&mut self, node: Node<'_>, lines: Vec<String>) {
        self.changed = true;
        let span = self.expressions.source.span(node.byte_range());
        let all: Vec<Line> = lines.into_iter().map(Line::Code).collect();
        lines::replace(self.expressions.source, span, &all, self.edits);
    }

    /// Gives all names of a statement their new ones.
    fn rename_all(&mut self, node: Node<'_>) {
        self.rename(node);
        children(node).into_iter().filter(is_nested).for_each(|inner| self.rename_all(inner));
    }

    /// Gives a statement's own names, not those of statements inside it, their new ones.
    pub(super) fn rename(&mut self, node: Node<'_>) {
        if self.renamed.is_empty() {
            return;
        }
        for (at, inner) in children(node).into_iter().enumerate() {
            if !is_nested(&inner) && (node.kind() != "keyword_argument" || at > 0) {
                self.rename(inner);
            }
        }
        if node.kind() == "identifier"
            && let Some(new) = self.renamed.get(&word(node, self.code()))
        {
            self.edits.replace(self.expressions.source.span(node.byte_range()), new.clone());
        }
    }

    /// Whether `kind` is the intrinsic function, by which new variables get their types.
    pub(super) fn has_kind(&self) -> bool {
        self.expressions.scopes.meaning(self.expressions.scope, "kind") == super::scopes::Meaning::Intrinsic
    }

    /// A new variable of a type.
    pub(super) fn fresh(&mut self, of: &str) -> String {
        self.count += 1;
        let name = format!("{PREFIX}{}", self.count);
        self.declarations.push(format!("{of} :: {name}"));
        name
    }

    /// Returns loops over the ranges of an array.
    pub(super) fn over(&mut self, dimensions: &[Dimension]) -> Vec<DimensionLoop> {
        let ranges: Vec<Range> = dimensions
            .iter()
            .filter_map(|dimension| match dimension {
                Dimension::Range(range) => Some(range.clone()),
                Dimension::At(_) => None,
            })
            .collect();
        ranges.into_iter().map(|range| DimensionLoop { variable: self.fresh("integer(8)"), range }).collect()
    }

    fn assignment(&mut self, node: Node<'_>) -> Result<Option<Vec<String>>, Refusal> {
        let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right")) else {
            return Ok(None);
        };
        let Some(reference) = self.expressions.reference(left) else { return Ok(None) };
        let dimensions = self.elements().dimensions(&reference)?;
        let over = dimensions.map(|dimensions| self.over(&dimensions)).unwrap_or_default();
        if let Some(lines) = self.reduction(&reference, right, &over)? {
            return Ok(Some(lines));
        }
        if over.is_empty() {
            return Ok(None);
        }
        let mut elements = self.elements();
        let (stored, line) = elements.store(&reference, right, &over)?;
        apart(&[stored], &elements.uses)?;
        Ok(Some(wrapped(&over, vec![line])))
    }

    fn r#where(&mut self, node: Node<'_>) -> Result<Option<Vec<String>>, Refusal> {
        let first = first_assignment(node).and_then(|first| first.child_by_field_name("left"));
        let Some(reference) = first.and_then(|left| self.expressions.reference(left)) else { return Ok(None) };
        let Some(dimensions) = self.elements().dimensions(&reference)? else { return Ok(None) };
        let over = self.over(&dimensions);
        let (mut lines, mut stored) = (Vec::new(), Vec::new());
        let mut elements = self.elements();
        elements.arm(node, "if", &over, &mut lines, &mut stored)?;
        for clause in children(node).into_iter().filter(|clause| clause.kind() == "elsewhere_clause") {
            elements.arm(clause, "else if", &over, &mut lines, &mut stored)?;
        }
        lines.push("end if".into());
        apart(&stored, &elements.uses)?;
        Ok(Some(wrapped(&over, lines)))
    }

    fn forall(&mut self, node: Node<'_>) -> Result<Option<Vec<String>>, Refusal> {
        let mut over = Vec::new();
        let mut specs = Vec::new();
        for spec in children(node).into_iter().filter(|spec| spec.kind() == "triplet_spec") {
            let parts = children(spec);
            let [name, first, last, rest @ ..] = &*parts else { return Ok(None) };
            let index = word(*name, self.code());
            let texts =
                [Some(first), Some(last), rest.first()].map(|part| part.map(|part| self.elements().plain(*part)));
            let [Some(first), Some(last), step] = texts else { return Ok(None) };
            let variable = self.fresh(&format!("integer(kind({index}))"));
            specs.push((index, variable.clone()));
            over.push(DimensionLoop {
                variable,
                range: Range { first, last, step: step.unwrap_or_else(|| "1".into()) },
            });
        }
        let kept = self.renamed.clone();
        self.renamed.extend(specs);
        let new = self.forall_body(node, &over);
        self.renamed = kept;
        new
    }

    fn forall_body(&mut self, node: Node<'_>, over: &[DimensionLoop]) -> Result<Option<Vec<String>>, Refusal> {
        let (mut lines, mut stored, mut mask) = (Vec::new(), Vec::new(), None);
        let mut elements = self.elements();
        for inner in children(node) {
            match inner.kind() {
                "triplet_spec" | "end_forall_statement" => {}
                "assignment_statement" => {
                    let (Some(left), Some(right)) =
                        (inner.child_by_field_name("left"), inner.child_by_field_name("right"))
                    else {
                        return Ok(None);
                    };
                    let Some(reference) = elements.expressions.reference(left) else { return Ok(None) };
                    if reference.subscripts.is_none() {
                        return Err("forall stores a whole array".into());
                    }
                    let (own, line) = elements.store(&reference, right, &[])?;
                    stored.push(own);
                    lines.push(line);
                }
                "logical_expression" | "relational_expression" => mask = Some(elements.expression(inner, &[])?),
                _ => return Err("a statement of forall is no assignment".into()),
            }
        }
        apart(&stored, &elements.uses)?;
        if let Some(mask) = mask {
            lines = std::iter::once(format!("if ({mask}) then")).chain(lines).chain(["end if".into()]).collect();
        }
        Ok((!stored.is_empty()).then(|| wrapped(over, lines)))
    }

    /// Ends a loop to a label by `end do`. Returns the label, if only `continue` has it.
    fn label(&mut self, node: Node<'_>) -> Option<String> {
        let source = self.expressions.source;
        let control = child(node, "loop_control_expression").or_else(|| child(node, "while_statement"));
        let (control, end) = (control?, child(node, "end_do_loop_statement")?);
        let head = source.start(node.start_byte())..source.start(control.start_byte());
        let text = &source.text[head.clone()];
        let at = text.rfind(|c: char| c.is_ascii_digit())?;
        let first = text[..=at].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
        // A name may end with digits.
        if !text[..first].trim_end().to_ascii_lowercase().ends_with("do")
            || !text[..first].ends_with(char::is_whitespace)
        {
            return None;
        }
        self.changed = true;
        self.edits.replace(head.start + first..head.start + at + 1, " ".repeat(at + 1 - first));
        let span = source.span(end.byte_range());
        let own = source.text[span.clone()].split_whitespace().collect::<String>().to_ascii_lowercase();
        if !own.starts_with("enddo") {
            lines::insert_after(source, span.end, &[Line::Code("end do".into())], self.edits);
        }
        let last = children(node).into_iter().rfind(is_nested)?;
        let is_continue = own.starts_with("enddo") || word(last, self.code()) == "continue";
        is_continue.then(|| text[first..=at].trim_start_matches('0').to_owned())
    }

    /// Makes a `goto` to the end of the innermost loop a `cycle`.
    fn cycles(&mut self, node: Node<'_>) -> bool {
        let text = word(node, self.code());
        let Some(label) = text.strip_prefix("goto") else { return false };
        if self.labels.last() != Some(&Some(label.trim_start_matches('0').to_owned())) {
            return false;
        }
        self.changed = true;
        self.edits.replace(self.expressions.source.span(node.byte_range()), "cycle");
        true
    }
}

impl Elements<'_, '_> {
    /// Returns an assignment of an element: its target, and its text.
    fn store(
        &mut self,
        left: &Reference<'_>,
        right: Node<'_>,
        over: &[DimensionLoop],
    ) -> Result<(Use, String), Refusal> {
        if left.entity.as_ref().is_none_or(|entity| entity.element == Element::Other) {
            return Err(format!("{} is of a type of the program", left.name));
        }
        let value = self.expression(right, over)?;
        let target = self.element(left, over)?;
        let stored = self.uses.pop().filter(|stored| !stored.subscripts.is_empty());
        let stored = stored.ok_or_else(|| format!("{} is no array", left.name))?;
        Ok((stored, format!("{target} = {value}")))
    }

    /// Writes the assignments under one mask of `where`.
    fn arm(
        &mut self,
        node: Node<'_>,
        word: &str,
        over: &[DimensionLoop],
        lines: &mut Vec<String>,
        stored: &mut Vec<Use>,
    ) -> Result<(), Refusal> {
        match child(node, "parenthesized_expression") {
            Some(mask) => lines.push(format!("{word} {} then", self.expression(mask, over)?)),
            None => lines.push("else".into()),
        }
        for inner in children(node) {
            match inner.kind() {
                "parenthesized_expression" | "elsewhere_clause" | "end_where_statement" => {}
                "assignment_statement" => {
                    let (Some(left), Some(right)) =
                        (inner.child_by_field_name("left"), inner.child_by_field_name("right"))
                    else {
                        return Err("an assignment that is not understood".into());
                    };
                    let reference = self.expressions.reference(left).ok_or("an assignment that is not understood")?;
                    let (own, line) = self.store(&reference, right, over)?;
                    stored.push(own);
                    lines.push(line);
                }
                _ => return Err("a statement of where is no assignment".into()),
            }
        }
        Ok(())
    }
}

/// Refuses if what is stored may be read in another iteration.
pub(super) fn apart(stored: &[Use], read: &[Use]) -> Result<(), Refusal> {
    let named = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word.eq_ignore_ascii_case(name))
    };
    for own in stored {
        let others = stored.iter().chain(read);
        let in_subscripts = others.clone().flat_map(|one| &one.subscripts).any(|text| named(text, &own.name));
        if in_subscripts || others.clone().any(|other| conflict(own, other)) {
            return Err(format!("the right side may read elements of {} that are stored", own.name));
        }
    }
    Ok(())
}

/// Returns lines in loops, the last dimension's being the outermost.
pub(super) fn wrapped(over: &[DimensionLoop], inner: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = over
        .iter()
        .rev()
        .map(|DimensionLoop { variable, range: Range { first, last, step } }| {
            let step = if step == "1" { String::new() } else { format!(", {step}") };
            format!("do {variable} = {first}, {last}{step}")
        })
        .collect();
    all.extend(inner);
    all.extend(over.iter().map(|_| "end do".to_owned()));
    all
}

fn first_assignment(node: Node<'_>) -> Option<Node<'_>> {
    let all = children(node);
    let own = all.iter().find(|child| child.kind() == "assignment_statement").copied();
    own.or_else(|| all.into_iter().filter(|child| child.kind() == "elsewhere_clause").find_map(first_assignment))
}

pub(super) fn is_nested(node: &Node<'_>) -> bool {
    let is_clause = matches!(node.kind(), "elseif_clause" | "else_clause" | "case_statement");
    let is_part = matches!(node.kind(), "while_statement" | "concurrent_statement");
    is_clause
        || node.kind().ends_with("_statement") && !node.kind().starts_with("end_") && !is_part
        || node.kind() == "subroutine_call"
}

//! The `kernels` constructs of a source.

use super::expressions::Expressions;
use super::liveness::Liveness;
use super::scopes::Scopes;
use super::source::{Placed, Source};
use super::statements::Statements;
use super::tree::children;
use super::{Input, parse};
use crate::clause::{DATA, made_present, named};
use crate::ir::{Construct, Kind, Obstacle, Shape, Span, Storage, Variable};
use crate::privates::{self, Language};
use std::collections::{BTreeSet, HashMap, HashSet};
use tree_sitter::Node;

/// Returns all `kernels` constructs of a source, in order. A construct that could not be parsed has an obstacle.
pub(crate) fn constructs(source: &Source<'_>, input: &Input<'_>) -> Vec<Construct> {
    if !source.directives.iter().any(is_kernels) {
        return Vec::new();
    }
    let Some(tree) = parse(&source.code) else { return Vec::new() };
    let scopes = Scopes::new(tree.root_node(), source, input);
    let mapped = mapped(source);
    let kernels = source.directives.iter().enumerate().filter(|(_, placed)| is_kernels(placed));
    kernels.map(|(at, _)| construct(source, at, tree.root_node(), &scopes, &mapped)).collect()
}

/// Whether a directive begins a construct.
pub(super) fn is_kernels(placed: &Placed) -> bool {
    matches!(placed.directive.name.as_str(), "kernels" | "kernels loop")
}

fn construct(
    source: &Source<'_>,
    at: usize,
    root: Node<'_>,
    scopes: &Scopes,
    mapped: &HashMap<String, HashSet<usize>>,
) -> Construct {
    let placed = &source.directives[at];
    let end = end_of(source, at);
    let Some((block, nodes)) = body(source, placed, end, root) else {
        return unreadable(source, placed, end, "the construct's statements are not understood");
    };
    let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
    let construct = first.start_byte()..last.end_byte();
    if nodes.iter().any(Node::has_error) || nodes.iter().any(Node::is_error) {
        return unreadable(source, placed, end, "the construct's text is not understood");
    }
    let Some(scope) = scopes.scope(first.start_byte()) else {
        return unreadable(source, placed, end, "the construct stands in no procedure that is understood");
    };
    if !scopes.is_readable(scope) {
        return unreadable(source, placed, end, "the procedure's declarations are not understood");
    }
    let text = source.span(construct.clone());
    let lines = placed.directive.span.end..end.map_or(text.end, |end| end.directive.span.start).max(text.end);
    let expressions = Expressions::new(source, scopes, scope);
    let mut statements = Statements { expressions, span: lines.clone(), names: Vec::new() };
    let mut list = statements.list(&nodes, false);
    if placed.directive.name == "kernels loop"
        && let Some(Kind::Loop(first)) = list.first_mut().map(|statement| &mut statement.kind)
    {
        first.directive = Some(placed.directive.clone());
    }
    let Expressions { mut variables, unknown, .. } = statements.expressions;
    let unit = source.span(scopes.span(scope));
    for variable in &mut variables {
        // A local name means another variable elsewhere.
        let everywhere = variable.storage == Storage::Static;
        let seen = |at: &usize| *at != placed.directive.span.start && (everywhere || unit.contains(at));
        variable.mapped |= mapped.get(&variable.name).is_some_and(|at| at.iter().any(seen));
        if variable.storage == Storage::Local && !variable.address_taken && variable.shape == Shape::Scalar {
            let liveness = Liveness { code: &source.code, name: &variable.name, construct: construct.clone() };
            variable.live_after = liveness.after(block) || in_directives(source, &variable.name, &lines, &unit);
        }
    }
    let obstacle = unknown
        .map(|(at, reason)| {
            let at = source.start(at);
            obstacle(at..at, reason)
        })
        .or_else(|| refused(&variables, text.clone()));
    let mut new = Construct {
        directive: placed.directive.clone(),
        end: end.map(|end| end.directive.span.clone()),
        span: text,
        variables,
        body: list,
        obstacle,
        present: present(source, at),
    };
    privates::separate(&mut new, Language::Fortran);
    new
}

/// Returns the variables that `data` constructs around a directive map.
fn present(source: &Source<'_>, at: usize) -> BTreeSet<String> {
    let mut around: Vec<Vec<&str>> = Vec::new();
    for Placed { directive, .. } in &source.directives[..at] {
        match directive.name.as_str() {
            "data" => around.push(made_present(directive)),
            "end data" => {
                around.pop();
            }
            _ => {}
        }
    }
    around.into_iter().flatten().map(str::to_ascii_lowercase).collect()
}

/// Returns the obstacle for variables with which no part of a construct may be rewritten.
fn refused(variables: &[Variable], span: Span) -> Option<Obstacle> {
    let volatile = variables.iter().find(|variable| variable.volatile)?;
    Some(obstacle(span, format!("{} is volatile", volatile.name)))
}

fn obstacle(span: Span, reason: String) -> Obstacle {
    Obstacle { span, reason, remedy: None, promised_away: false }
}

fn unreadable(source: &Source<'_>, placed: &Placed, end: Option<&Placed>, reason: &str) -> Construct {
    let at = placed.directive.span.end.min(source.text.len());
    Construct {
        directive: placed.directive.clone(),
        end: end.map(|end| end.directive.span.clone()),
        span: at..at,
        variables: Vec::new(),
        body: Vec::new(),
        obstacle: Some(obstacle(at..at, reason.into())),
        present: BTreeSet::new(),
    }
}

/// The directive that ends a construct.
pub(super) fn end_of<'a>(source: &'a Source<'_>, at: usize) -> Option<&'a Placed> {
    let is_loop = source.directives[at].directive.name == "kernels loop";
    let mut next = source.directives[at + 1..].iter().take_while(|placed| {
        !matches!(placed.directive.name.as_str(), "kernels" | "kernels loop" | "parallel" | "serial")
    });
    // `end kernels loop` is read as `end kernels` with a clause.
    next.find(|Placed { directive, .. }| {
        directive.name == "end kernels" && directive.clause("loop").is_some() == is_loop
    })
}

/// Returns the block of a construct's statements, and these.
pub(super) fn body<'t>(
    source: &Source<'_>,
    placed: &Placed,
    end: Option<&Placed>,
    root: Node<'t>,
) -> Option<(Node<'t>, Vec<Node<'t>>)> {
    let rest = &source.code[placed.at..];
    let from =
        placed.at + (rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_ascii_digit()).len());
    let mut first = root.descendant_for_byte_range(from, from + 1)?;
    while let Some(parent) = first.parent().filter(|parent| parent.start_byte() == from) {
        if parent.kind() == "translation_unit" || parent.kind() == "program" && parent.start_byte() == from {
            break;
        }
        first = parent;
    }
    let block = first.parent()?;
    let to = match end.filter(|_| placed.directive.name == "kernels" || first.kind() != "do_loop_statement") {
        Some(end) => end.at,
        None if placed.directive.name == "kernels" => return None,
        None => first.end_byte(),
    };
    let inside = |node: &Node<'_>| node.start_byte() >= from && node.end_byte() <= to;
    let nodes: Vec<Node<'t>> = children(block).into_iter().filter(inside).collect();
    (!nodes.is_empty()).then_some((block, nodes))
}

/// Whether a directive of the procedure outside the construct reads a variable, as in `copy(a(1:n))` or `if(n)`.
fn in_directives(source: &Source<'_>, name: &str, lines: &Span, unit: &Span) -> bool {
    let outside = source.directives.iter().map(|placed| &placed.directive).filter(|directive| {
        unit.contains(&directive.span.start) && (directive.span.start >= lines.end || directive.span.end < lines.start)
    });
    outside.flat_map(|directive| &directive.clauses).any(|clause| {
        clause.name != "private"
            && clause.argument.as_deref().is_some_and(|argument| {
                argument.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word.eq_ignore_ascii_case(name))
            })
    })
}

/// Returns variables that data clauses and `declare` name, with the positions of the directives.
fn mapped(source: &Source<'_>) -> HashMap<String, HashSet<usize>> {
    let mut found: HashMap<String, HashSet<usize>> = HashMap::new();
    for directive in source.directives.iter().map(|placed| &placed.directive) {
        let maps = |name: &str| DATA.contains(&name) || matches!(name, "device_resident" | "link" | "use_device");
        for clause in directive.clauses.iter().filter(|clause| maps(&clause.name)) {
            for element in clause.list() {
                found.entry(named(element).to_ascii_lowercase()).or_default().insert(directive.span.start);
            }
        }
    }
    found
}

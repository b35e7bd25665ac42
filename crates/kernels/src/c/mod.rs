//! The front end for C and C++ after the preprocessor, by tree-sitter's grammars.

mod calls;
mod expressions;
mod liveness;
mod loops;
mod reduction;
mod statements;
mod symbols;
mod types;
mod updates;

use crate::clause::{DATA, made_present, named};
use crate::ir::{Construct, Directive, Kind, Obstacle, Shape, Storage};
use crate::privates::{self, Language};
use crate::source::Source;
use expressions::Expressions;
use liveness::{Liveness, has};
use statements::Statements;
use std::collections::{BTreeSet, HashMap, HashSet};
use symbols::Symbols;
use tree_sitter::{Node, Parser, Tree};

/// Returns all `kernels` constructs of a source, in order. A construct that could not be parsed has an obstacle.
pub(crate) fn constructs(source: &Source<'_>, cxx: bool) -> Vec<Construct> {
    let kernels =
        source.directives.iter().filter(|directive| matches!(directive.name.as_str(), "kernels" | "kernels loop"));
    let kernels: Vec<&Directive> = kernels.collect();
    if kernels.is_empty() {
        return Vec::new();
    }
    // Keywords of GCC that the grammar lacks, padded to their length.
    let code = source.code.replace("__restrict__", "restrict    ").replace("__restrict", "restrict  ");
    let Some(tree) = parse(&code, cxx) else { return Vec::new() };
    let symbols = Symbols::new(tree.root_node(), &code, cxx);
    let routines = routines(source, &code);
    let mapped = mapped(source);
    let mut found: Vec<Construct> = Vec::new();
    for directive in kernels {
        let start = after(&code, directive.span.end);
        let body = statement_at(tree.root_node(), start);
        found.push(match body {
            Some(body) => Construct {
                present: present(source, tree.root_node(), &code, body),
                ..construct(source, directive, body, &code, &symbols, &routines, &mapped)
            },
            None => unreadable(directive, start, "the construct's statement is not understood"),
        });
    }
    found
}

fn parse(code: &str, cxx: bool) -> Option<Tree> {
    let mut parser = Parser::new();
    let language = if cxx { tree_sitter_cpp::LANGUAGE } else { tree_sitter_c::LANGUAGE };
    parser.set_language(&language.into()).ok()?;
    parser.parse(code, None)
}

fn unreadable(directive: &Directive, at: usize, reason: &str) -> Construct {
    let obstacle = Obstacle { span: at..at, reason: reason.into(), remedy: None, promised_away: false };
    Construct {
        directive: directive.clone(),
        end: None,
        span: at..at,
        variables: Vec::new(),
        body: Vec::new(),
        obstacle: Some(obstacle),
        present: BTreeSet::new(),
    }
}

/// Returns where the text continues after a directive.
fn after(code: &str, end: usize) -> usize {
    code.len() - code[end..].trim_start().len()
}

/// Returns the variables that `data` constructs around a statement map.
fn present(source: &Source<'_>, root: Node<'_>, code: &str, body: Node<'_>) -> BTreeSet<String> {
    let before = source.directives.iter().filter(|directive| directive.span.end <= body.start_byte());
    let around = before.filter(|directive| {
        directive.name == "data"
            && statement_at(root, after(code, directive.span.end))
                .is_some_and(|data| data.end_byte() >= body.end_byte())
    });
    around.flat_map(made_present).map(str::to_owned).collect()
}

/// The function around a node.
fn function(node: Node<'_>) -> Option<Node<'_>> {
    let mut next = Some(node);
    while let Some(node) = next.filter(|node| node.kind() != "function_definition") {
        next = node.parent();
    }
    next
}

/// The statement that starts at a byte.
fn statement_at(root: Node<'_>, at: usize) -> Option<Node<'_>> {
    let mut node = root.descendant_for_byte_range(at, at + 1)?;
    while let Some(parent) = node.parent().filter(|parent| parent.start_byte() == at) {
        if matches!(parent.kind(), "function_definition" | "translation_unit") {
            break;
        }
        node = parent;
    }
    let is_statement = node.kind().ends_with("statement") || node.kind() == "for_range_loop";
    (node.start_byte() == at && is_statement).then_some(node)
}

fn construct(
    source: &Source<'_>,
    directive: &Directive,
    body: Node<'_>,
    code: &str,
    symbols: &Symbols<'_>,
    routines: &HashMap<String, bool>,
    mapped: &HashMap<String, HashSet<usize>>,
) -> Construct {
    if body.has_error() {
        return unreadable(directive, body.start_byte(), "the construct's text is not understood");
    }
    let expressions = Expressions::new(symbols, code, body.byte_range(), routines);
    let mut statements = Statements { source, expressions, from: directive.span.end };
    let mut list = statements.body(body);
    if directive.name == "kernels loop"
        && let Some(Kind::Loop(first)) = list.first_mut().map(|statement| &mut statement.kind)
    {
        first.directive = Some(directive.clone());
    }
    let Expressions { mut variables, declared, stored_pointers, .. } = statements.expressions;
    let function = function(body).map(|function| function.byte_range());
    for (variable, declared) in variables.iter_mut().zip(&declared) {
        // A local name means another variable elsewhere.
        let everywhere = variable.storage == Storage::Static;
        let is_seen = |at: &usize| everywhere || function.as_ref().is_none_or(|function| function.contains(at));
        let seen = |at: &usize| *at != directive.span.start && is_seen(at);
        variable.mapped = mapped.get(&variable.name).is_some_and(|at| at.iter().any(seen));
        let Some(declared) = declared else { continue };
        if matches!(variable.storage, Storage::Local | Storage::Parameter)
            && !variable.address_taken
            && variable.shape == Shape::Scalar
        {
            let name = variable.name.clone();
            let liveness = Liveness { symbols, code, name: &name, at: declared.at };
            variable.live_after = liveness.after(body) || in_directives(source, &name, body);
        }
        if variable.storage == Storage::Inside {
            variable.live_after = false;
        }
    }
    let stored = stored_pointers.iter().next();
    let volatile = variables.iter().find(|variable| variable.volatile);
    let inside = |other: &&Directive| (directive.span.end..body.end_byte()).contains(&other.span.start);
    let known = |name: &str| matches!(name, "loop" | "cache") || name.starts_with("atomic");
    let other = source.directives.iter().filter(inside).find(|other| !known(&other.name));
    let reason = match (stored, volatile) {
        _ if has(body, &["return_statement"]) => Some("return leaves the construct".into()),
        _ if has(body, &["goto_statement", "labeled_statement", "gnu_asm_expression"]) => {
            Some("goto, labels or asm in the construct".into())
        }
        _ if other.is_some() => other.map(|other| format!("\"acc {}\" inside of the construct", other.name)),
        (Some(pointer), _) => Some(format!("the pointer {} is changed in the construct", variables[pointer.0].name)),
        (None, Some(variable)) => Some(format!("{} is volatile", variable.name)),
        _ => None,
    };
    let obstacle =
        reason.map(|reason| Obstacle { span: body.byte_range(), reason, remedy: None, promised_away: false });
    let mut new = Construct {
        directive: directive.clone(),
        end: None,
        span: body.byte_range(),
        variables,
        body: list,
        obstacle,
        present: BTreeSet::new(),
    };
    privates::separate(&mut new, Language::C);
    new
}

/// Whether a directive outside the construct reads a variable, as in `copy(a[0:n])` or `if(n)`.
fn in_directives(source: &Source<'_>, name: &str, body: Node<'_>) -> bool {
    let own = |directive: &&Directive| {
        body.byte_range().contains(&directive.span.start)
            || source.code[directive.span.end..body.start_byte()].trim().is_empty()
    };
    let outside = source.directives.iter().filter(|directive| {
        directive.span.start >= body.end_byte() || directive.span.end <= body.start_byte() && !own(directive)
    });
    outside.flat_map(|directive| &directive.clauses).any(|clause| {
        clause.name != "private"
            && clause.argument.as_deref().is_some_and(|argument| {
                argument.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
            })
    })
}

/// Returns functions with `acc routine`, and whether they have a level.
fn routines(source: &Source<'_>, code: &str) -> HashMap<String, bool> {
    let mut found = HashMap::new();
    for directive in source.directives.iter().filter(|directive| directive.name == "routine") {
        let level = ["gang", "worker", "vector"].iter().any(|level| directive.clause(level).is_some());
        let named = directive.clauses.first().filter(|clause| clause.name.is_empty());
        let name = match named.and_then(|clause| clause.argument.clone()) {
            Some(name) => name,
            None => {
                let rest = &code[directive.span.end..];
                let before = rest.split('(').next().unwrap_or("");
                before
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .rfind(|word| !word.is_empty())
                    .unwrap_or("")
                    .to_owned()
            }
        };
        found.insert(name, level);
    }
    found
}

/// Returns variables that data clauses and `declare` name, with the positions of the directives.
fn mapped(source: &Source<'_>) -> HashMap<String, HashSet<usize>> {
    let mut found: HashMap<String, HashSet<usize>> = HashMap::new();
    for directive in &source.directives {
        let maps = |name: &str| DATA.contains(&name) || matches!(name, "device_resident" | "link" | "use_device");
        for clause in directive.clauses.iter().filter(|clause| maps(&clause.name)) {
            for element in clause.list() {
                found.entry(named(element).to_owned()).or_default().insert(directive.span.start);
            }
        }
    }
    found
}

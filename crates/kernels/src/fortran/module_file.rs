//! Names in the text of gfortran's module files.

use super::entity::{Bounds, Class, Entity, Procedure};
use super::kinds;
use crate::ir::{Element, Storage};
use std::collections::HashMap;

/// The content of a module file.
#[derive(Default)]
pub(super) struct Module {
    /// Accessible names, in lower case.
    pub(super) names: HashMap<String, Entity>,
    /// Components of derived types.
    pub(super) types: HashMap<String, HashMap<String, Entity>>,
}

/// A list or a word.
enum Item {
    List(Vec<Self>),
    Word(String),
}

impl Item {
    fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Word(_) => &[],
        }
    }

    fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::List(_) => "",
        }
    }
}

/// Nested lists that are read; a deeper one is no module file.
const DEPTH_MAX: usize = 100;

/// Reads the text of a module file.
pub(super) fn read(text: &str) -> Module {
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    let mut rest = body;
    let items = items(&mut rest, 0);
    let lists: Vec<&[Item]> = items.iter().map(Item::list).collect();
    let mut module = Module::default();
    let [.., symbols, accessible] = &*lists else { return module };
    let mut records: HashMap<&str, (&str, &[Item])> = HashMap::new();
    for record in symbols.chunks(6) {
        if let [number, name, _, _, _, Item::List(content)] = record {
            records.insert(number.word(), (name.word(), content));
        }
    }
    let derived = |number: &str| records.get(number).map(|(name, _)| name.to_ascii_lowercase());
    for triple in accessible.chunks(3) {
        let [name, _, number] = triple else { continue };
        let Some((_, content)) = records.get(number.word()) else { continue };
        if let Some(entity) = entity(content, &derived) {
            module.names.entry(name.word().to_ascii_lowercase()).or_insert(entity);
        }
    }
    for (name, content) in records.values() {
        let [attributes, components, ..] = content else { continue };
        if attributes.list().first().is_none_or(|flavor| flavor.word() != "DERIVED") {
            continue;
        }
        let components = components.list().iter().filter_map(|component| {
            let [_, name, r#type, rest @ ..] = component.list() else { return None };
            let attributes = rest
                .iter()
                .map(Item::list)
                .find(|list| list.first().is_some_and(|word| word.word() == "UNKNOWN-FL"))?;
            let mut new = typed(r#type.list(), &derived);
            new.bounds = rest.first().map(|item| bounds(item.list())).unwrap_or_default();
            mark(attributes, &mut new);
            new.storage = Storage::Local;
            Some((name.word().to_ascii_lowercase(), new))
        });
        module.types.insert(name.to_ascii_lowercase(), components.collect());
    }
    module
}

fn items(rest: &mut &str, depth: usize) -> Vec<Item> {
    let mut found = Vec::new();
    loop {
        *rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return found };
        match first {
            '(' => {
                *rest = &rest[1..];
                if depth == DEPTH_MAX {
                    return found;
                }
                found.push(Item::List(items(rest, depth + 1)));
            }
            ')' => {
                *rest = &rest[1..];
                return found;
            }
            '\'' => {
                let inner = &rest[1..];
                let end = inner.find('\'').unwrap_or(inner.len());
                found.push(Item::Word(inner[..end].to_owned()));
                *rest = inner.get(end + 1..).unwrap_or("");
            }
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || "()'".contains(c)).unwrap_or(rest.len());
                found.push(Item::Word(rest[..end].to_owned()));
                *rest = &rest[end..];
            }
        }
    }
}

fn entity(content: &[Item], derived: &dyn Fn(&str) -> Option<String>) -> Option<Entity> {
    let [attributes, _, r#type, rest @ ..] = content else { return None };
    let attributes = attributes.list();
    let has = |name: &str| attributes.iter().any(|word| word.word() == name);
    let mut new = typed(r#type.list(), derived);
    new.storage = Storage::Static;
    mark(attributes, &mut new);
    new.bounds = rest.iter().map(|item| bounds(item.list())).find(|bounds| !bounds.is_empty()).unwrap_or_default();
    new.class = match attributes.first()?.word() {
        "VARIABLE" => Class::Variable,
        "PARAMETER" => {
            let value =
                rest.iter().map(Item::list).find(|list| list.first().is_some_and(|word| word.word() == "CONSTANT"));
            Class::Constant(value.and_then(|list| list.get(3)?.word().parse().ok()))
        }
        "PROCEDURE" => {
            let level = ["GANG", "WORKER", "VECTOR"].iter().any(|level| has(&format!("OACC_ROUTINE_LOP_{level}")));
            let routine = (level || has("OACC_ROUTINE_LOP_SEQ")).then_some(level);
            Class::Procedure(Procedure { pure: has("PURE"), closed: false, routine })
        }
        _ => Class::Other,
    };
    Some(new)
}

fn typed(r#type: &[Item], derived: &dyn Fn(&str) -> Option<String>) -> Entity {
    let name = r#type.first().map_or("", Item::word).to_ascii_lowercase();
    let kind = r#type.get(1).map_or("", Item::word);
    let element = if name == "character" { Element::Other } else { kinds::element(&name, kind.parse().ok()) };
    let derived = matches!(name.as_str(), "derived" | "class").then(|| derived(kind)).flatten();
    Entity { derived, ..Entity::variable(element) }
}

fn mark(attributes: &[Item], entity: &mut Entity) {
    let has = |name: &str| attributes.iter().any(|word| word.word() == name);
    entity.allocatable = has("ALLOCATABLE");
    entity.pointer = has("POINTER");
    entity.target = has("TARGET");
    entity.volatile = has("VOLATILE");
    entity.resident = attributes.iter().any(|word| word.word().starts_with("OACC_DECLARE_"));
}

/// Reads `(2 0 EXPLICIT lower upper lower upper)`.
fn bounds(list: &[Item]) -> Vec<Bounds> {
    let [rank, _, kind, limits @ ..] = list else { return Vec::new() };
    let known = matches!(kind.word(), "EXPLICIT" | "DEFERRED" | "ASSUMED_SHAPE" | "ASSUMED_SIZE" | "ASSUMED_RANK");
    let rank: usize = rank.word().parse().ok().filter(|rank| known && *rank <= 15).unwrap_or(0);
    let limit = |at: usize| {
        let value = limits.get(at)?.list();
        (value.first()?.word() == "CONSTANT").then(|| value.get(3).map(|value| value.word().to_owned()))?
    };
    (0..rank).map(|at| Bounds { lower: limit(2 * at), upper: limit(2 * at + 1) }).collect()
}

//! The imports between modules of a crate, from its files and the paths of `use` and of expressions in them.
//!
//! A re-exported name (`pub use`) belongs to the module that defines it, so that a facade is in no circle with the
//! modules behind it. Tests are ignored.

use crate::sources::{files_below, is_tests, skip_item, text, without_text};
use accord_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module's path below its crate; empty for the crate root.
type Name = Vec<String>;

#[derive(Default)]
struct Module {
    code: String,
    /// Re-exported names, with their paths.
    passes_on: BTreeMap<String, Vec<String>>,
}

/// The modules of a crate by name.
struct Crate(BTreeMap<Name, Module>);

/// Returns the groups of modules that reach each other, with their names joined and sorted.
pub(crate) fn circles(folder: &str) -> Vec<Vec<String>> {
    let modules = Crate::read(folder);
    let edges = modules.edges();
    let reach: BTreeMap<_, _> = edges.keys().map(|from| (from, reachable(&edges, from))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, to) in &reach {
        if to.contains(*from) {
            let group = to.iter().filter(|other| reach[other].contains(*from)).map(joined).collect();
            found.insert(group);
        }
    }
    found.into_iter().collect()
}

fn joined(name: &Name) -> String {
    if name.is_empty() { "crate".to_owned() } else { name.join("::") }
}

fn reachable(edges: &BTreeMap<Name, BTreeSet<Name>>, from: &Name) -> BTreeSet<Name> {
    let (mut open, mut seen) = (vec![from], BTreeSet::new());
    while let Some(at) = open.pop() {
        open.extend(edges[at].iter().filter(|next| seen.insert((*next).clone())));
    }
    seen
}

impl Crate {
    fn read(folder: &str) -> Self {
        let mut modules: BTreeMap<Name, Module> = BTreeMap::new();
        for path in files_below(&[root().join(folder)]).unwrap() {
            let below = path.strip_prefix(folder).unwrap();
            if !is_tests(below) {
                let module = modules.entry(name_of(below)).or_default();
                module.code.push_str(&code_of(&text(&path)));
            }
        }
        for module in modules.values_mut() {
            module.take_reexports();
        }
        Self(modules)
    }

    fn edges(&self) -> BTreeMap<Name, BTreeSet<Name>> {
        let used = |name: &Name, module: &Module| {
            let to = module.paths().into_iter().filter_map(|path| self.resolve(name, &path, 0));
            to.filter(|to| to != name).collect()
        };
        self.0.iter().map(|(name, module)| (name.clone(), used(name, module))).collect()
    }

    /// Returns the module that defines what a path names, if it is one of this crate.
    fn resolve(&self, from: &Name, path: &[String], depth: u32) -> Option<Name> {
        const DEPTH_MAX: u32 = 8; // of names passed on
        let (mut at, mut rest) = (from.clone(), path);
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Name::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let known = self.0.contains_key(&child(&at, first)) || self.0[&at].passes_on.contains_key(first);
                if !known || path.len() < 2 {
                    return None;
                }
            }
        }
        while let Some(part) = rest.first() {
            let below = child(&at, part);
            if self.0.contains_key(&below) {
                (at, rest) = (below, &rest[1..]);
                continue;
            }
            if let Some(origin) = self.0.get(&at).and_then(|module| module.passes_on.get(part))
                && depth < DEPTH_MAX
            {
                let further: Vec<String> = origin.iter().chain(&rest[1..]).cloned().collect();
                return self.resolve(&at, &further, depth + 1).or(Some(at));
            }
            break;
        }
        self.0.contains_key(&at).then_some(at)
    }
}

impl Module {
    fn take_reexports(&mut self) {
        let (mut kept, mut rest) = (String::new(), self.code.as_str());
        while let Some((before, start, end)) = next_use(rest) {
            let passed_on = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
            if passed_on {
                let paths = expand(&rest[start..end]);
                self.passes_on.extend(paths.into_iter().map(|path| (path.last().unwrap().clone(), path)));
                kept.push_str(before);
            } else {
                kept.push_str(&rest[..=end]);
            }
            rest = &rest[end + 1..];
        }
        kept.push_str(rest);
        self.code = kept;
    }

    /// Returns all paths of two or more parts, and those that `use` lists.
    fn paths(&self) -> Vec<Vec<String>> {
        let (mut found, mut rest) = (Vec::new(), self.code.as_str());
        while let Some((before, start, end)) = next_use(rest) {
            found.extend(plain_paths(before));
            found.extend(expand(&rest[start..end]));
            rest = &rest[end + 1..];
        }
        found.extend(plain_paths(rest));
        found
    }
}

fn child(at: &Name, part: &str) -> Name {
    at.iter().cloned().chain([part.to_owned()]).collect()
}

fn name_of(below: &Path) -> Name {
    let mut parts: Name = below.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod")
        || ["lib", "main"].map(|root| vec![root.to_owned()]).contains(&parts)
    {
        parts.pop();
    }
    parts
}

/// Returns the text before the next `use`, and the begin and end of its tree (at the semicolon).
fn next_use(code: &str) -> Option<(&str, usize, usize)> {
    let mut from = 0;
    loop {
        let at = from + code[from..].find("use ")?;
        let alone = !code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        if alone {
            return Some((&code[..at], at + 4, at + code[at..].find(';')?));
        }
        from = at + 4;
    }
}

/// Expands `a::{b, c::d}` to `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        return vec![name.split("::").map(|part| part.trim().to_owned()).collect()];
    };
    let before: Vec<String> =
        before.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let inside = inside.strip_suffix('}').unwrap_or(inside);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in inside.chars() {
        match letter {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
    }
    let ends = parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| expand(part));
    ends.map(|end| before.iter().cloned().chain(end).collect()).collect()
}

fn plain_paths(code: &str) -> Vec<Vec<String>> {
    code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'))
        .filter(|path| path.contains("::") && !path.starts_with(':'))
        .map(|path| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect())
        .filter(|path: &Vec<String>| path.len() > 1)
        .collect()
}

/// Returns a file without comments, strings and test code.
pub(crate) fn code_of(text: &str) -> String {
    let (mut kept, mut lines, mut inline) = (String::new(), text.lines(), 0);
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if start.starts_with("//") {
            continue;
        }
        if start.starts_with("#[cfg(") && start.contains("test") {
            skip_item(&mut lines);
            continue;
        }
        let line = without_text(line);
        // In an inline module, `super` is the file's own module.
        let begins = line.contains("mod ") && line.trim_end().ends_with('{');
        inline += if inline > 0 || begins { line.matches('{').count() } else { 0 };
        kept.push_str(&if inline > 0 { line.replace("super::", "self::") } else { line.clone() });
        kept.push('\n');
        inline -= line.matches('}').count().min(inline);
    }
    kept
}

#[test]
fn paths_are_found_in_use_and_in_expressions() {
    let mut module = Module {
        code: code_of(
            "use crate::a::{B, c::{D as E, self}};\npub(crate) use f::G;\nfn h() { super::i::j(\"k::l\") } // m::n\n#[cfg(test)]\nmod tests {\nuse o::p;\n}\n",
        ),
        ..Module::default()
    };
    module.take_reexports();
    let paths: Vec<String> = module.paths().iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["crate::a::B", "crate::a::c::D", "crate::a::c::self", "super::i::j"]);
    assert_eq!(module.passes_on["G"].join("::"), "f::G");
}

#[test]
fn a_circle_is_found_and_a_facade_is_none() {
    let module = |code: &str| {
        let mut module = Module { code: code.to_owned(), ..Module::default() };
        module.take_reexports();
        module
    };
    let name = |path: &str| path.split("::").map(str::to_owned).collect::<Name>();
    let modules = Crate(BTreeMap::from([
        (Name::new(), module("pub use a::A; pub use b::B;")),
        (name("a"), module("use crate::B;")),
        (name("b"), module("use crate::c::C;")),
        (name("c"), module("fn f() { crate::a::f() }")),
        (name("d"), module("use crate::A; fn g() -> super::c::C {}")),
    ]));
    let edges = modules.edges();
    let a = reachable(&edges, &name("a"));
    assert_eq!(a.iter().map(joined).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(!reachable(&edges, &name("d")).contains(&name("d")));
}

//! A directive's name and clauses.

pub(crate) use crate::ir::{Clause, Directive};
use crate::ir::{Construct, Span, VarId};
use crate::text::{closing, split};

/// Names of two words.
const PAIRS: &[(&str, &str)] = &[
    ("enter", "data"),
    ("exit", "data"),
    ("parallel", "loop"),
    ("kernels", "loop"),
    ("serial", "loop"),
    ("end", "kernels"),
    ("end", "parallel"),
    ("end", "serial"),
    ("end", "data"),
    ("atomic", "read"),
    ("atomic", "write"),
    ("atomic", "update"),
    ("atomic", "capture"),
];

/// Clauses of compute constructs that map variables.
pub(crate) const DATA: &[&str] = &[
    "copy",
    "copyin",
    "copyout",
    "create",
    "present",
    "no_create",
    "deviceptr",
    "attach",
    "present_or_copy",
    "present_or_copyin",
    "present_or_copyout",
    "present_or_create",
    "pcopy",
    "pcopyin",
    "pcopyout",
    "pcreate",
];

impl Directive {
    /// Reads the text after `acc`.
    pub fn new(text: &str, span: Span) -> Self {
        let mut rest = text.trim();
        let mut name = word(&mut rest).to_ascii_lowercase();
        let mut ahead = rest;
        let second = word(&mut ahead).to_ascii_lowercase();
        if PAIRS.contains(&(name.as_str(), second.as_str())) {
            name = format!("{name} {second}");
            rest = ahead;
        }
        let mut clauses = Vec::new();
        if rest.starts_with('(') {
            clauses.push(Clause { name: String::new(), argument: argument(&mut rest) });
        }
        while !rest.is_empty() {
            let name = word(&mut rest).to_ascii_lowercase();
            if name.is_empty() {
                let skip = rest.chars().next().map_or(1, char::len_utf8);
                rest = rest.get(skip..).unwrap_or("");
                continue;
            }
            clauses.push(Clause { name, argument: argument(&mut rest) });
        }
        Self { span, name, clauses }
    }
}

impl Clause {
    /// Returns the clause as it is written.
    pub fn text(&self) -> String {
        self.argument.as_ref().map_or_else(|| self.name.clone(), |argument| format!("{}({argument})", self.name))
    }

    /// Returns the elements of its list.
    pub fn list(&self) -> Vec<&str> {
        let list = split(self.argument.as_deref().unwrap_or(""), ',');
        list.into_iter().filter(|one| !one.is_empty()).collect()
    }
}

/// The variable that an element of a data clause's list names: `a` of `a[0:n]`, `p` of `p->x`.
pub(crate) fn named(element: &str) -> &str {
    let element = element.trim();
    element.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(element)
}

/// Returns a data clause's name without its older spellings.
pub(crate) fn kind(name: &str) -> &str {
    let short = name.strip_prefix("present_or_").or_else(|| name.strip_prefix('p').filter(|_| name != "present"));
    short.unwrap_or(name)
}

/// Whether a data clause, without an older spelling, makes a variable present.
pub(crate) fn moves(kind: &str) -> bool {
    matches!(kind, "copy" | "copyin" | "copyout" | "create" | "present")
}

/// Returns an element of a data clause's list without its section: `p->x` of `p->x[0:n]`.
pub(crate) fn path(element: &str) -> &str {
    element.split(['(', '[']).next().unwrap_or(element).trim()
}

/// Returns the paths that a `data` construct makes present for everything inside.
pub(crate) fn made_present(directive: &Directive) -> Vec<&str> {
    if directive.name != "data" || directive.clause("if").is_some() {
        return Vec::new();
    }
    let clauses = directive.clauses.iter().filter(|clause| moves(kind(&clause.name)));
    clauses.flat_map(|clause| clause.list()).map(path).collect()
}

/// Returns elements of the construct's data clauses: clause, element.
pub(crate) fn mapped(construct: &Construct) -> Vec<(&str, &str)> {
    let clauses = construct.directive.clauses.iter().filter(|clause| DATA.contains(&clause.name.as_str()));
    clauses.flat_map(|clause| clause.list().into_iter().map(|element| (clause.name.as_str(), element))).collect()
}

/// Whether a data clause of the construct names a variable.
pub(crate) fn has_clause(construct: &Construct, variable: VarId) -> bool {
    let name = &construct.variables[variable.0].name;
    mapped(construct).iter().any(|(_, element)| named(element) == name)
}

/// Takes the next word.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after.trim_start();
    word
}

/// Takes the contents of the parentheses that open here, if any do.
fn argument(rest: &mut &str) -> Option<String> {
    if !rest.starts_with('(') {
        return None;
    }
    let close = closing(rest);
    let text = rest[1..close].trim().to_owned();
    *rest = rest.get(close + 1..).unwrap_or("").trim_start();
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_read() {
        let directive = Directive::new(" KERNELS loop copy(a[0:n], b) Independent, async(f(1))", 0..0);
        let clauses: Vec<String> = directive.clauses.iter().map(Clause::text).collect();
        assert_eq!(
            (directive.name.as_str(), clauses.join(" ").as_str()),
            ("kernels loop", "copy(a[0:n], b) independent async(f(1))")
        );
        assert_eq!(directive.clauses[0].list(), ["a[0:n]", "b"]);
        assert_eq!(named("p->x[0:n]"), "p");
        let directive = Directive::new("kernels if(g(\")\")) copy(a)", 0..0);
        assert_eq!(directive.clause("copy").unwrap().list(), ["a"]);
    }
}

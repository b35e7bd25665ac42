//! A directive's name and clauses.

use accord_kernels::text::{closing, split};
/// A clause: `copy(a, b)`, or a name alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Clause {
    /// The name in lower case.
    pub(super) name: String,
    /// The text in parentheses.
    pub(super) argument: Option<String>,
}

/// The content of a directive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Parsed {
    /// The name in lower case, such as `parallel loop`, `enter data`, `wait`.
    pub(super) name: String,
    /// The text in parentheses directly after the name: `wait(1)`, `cache(a)`, `routine(f)`.
    pub(super) argument: Option<String>,
    /// The clauses, in order.
    pub(super) clauses: Vec<Clause>,
}

/// Clauses about data.
pub(super) const DATA_CLAUSES: &[&str] = &[
    "copy",
    "copyin",
    "copyout",
    "create",
    "present",
    "no_create",
    "present_or_copy",
    "present_or_copyin",
    "present_or_copyout",
    "present_or_create",
    "pcopy",
    "pcopyin",
    "pcopyout",
    "pcreate",
    "delete",
    "host",
    "self",
    "device",
];

/// Directive names of two words.
const PAIRS: &[&str] = &[
    "enter data",
    "exit data",
    "parallel loop",
    "kernels loop",
    "serial loop",
    "end parallel",
    "end kernels",
    "end serial",
    "end data",
    "end host_data",
    "end atomic",
    "atomic read",
    "atomic write",
    "atomic update",
    "atomic capture",
];

impl Clause {
    /// Returns the clause as it is written.
    pub(super) fn text(&self) -> String {
        self.argument.as_ref().map_or_else(|| self.name.clone(), |argument| format!("{}({argument})", self.name))
    }
}

impl Parsed {
    /// Returns the directive as it is written.
    pub(super) fn text(&self) -> String {
        let argument = self.argument.as_ref().map_or_else(String::new, |argument| format!("({argument})"));
        let clauses = self.clauses.iter().map(|clause| format!(" {}", clause.text()));
        format!("{}{argument}{}", self.name, clauses.collect::<String>())
    }

    /// Parses the text after `acc`. Never fails: this is no compiler.
    pub(super) fn new(text: &str) -> Self {
        let mut words = Words { rest: text.trim() };
        let (mut name, mut argument) = words.next().unwrap_or_default();
        if argument.is_none() {
            let mut ahead = Words { rest: words.rest };
            if let Some((second, second_argument)) = ahead.next() {
                let pair = format!("{name} {second}");
                if PAIRS.contains(&pair.as_str()) {
                    (name, argument) = (pair, second_argument);
                    words = ahead;
                }
            }
        }
        let clauses = words.map(|(name, argument)| Clause { name, argument }).collect();
        Self { name, argument, clauses }
    }

    /// Returns the first clause with one of these names.
    pub(super) fn clause(&self, names: &[&str]) -> Option<&Clause> {
        self.clauses.iter().find(|clause| names.contains(&clause.name.as_str()))
    }

    /// Returns the argument of the first clause with one of these names.
    pub(super) fn value(&self, names: &[&str]) -> Option<&str> {
        self.clause(names)?.argument.as_deref()
    }
}

struct Words<'a> {
    rest: &'a str,
}

impl Iterator for Words<'_> {
    type Item = (String, Option<String>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            if self.rest.is_empty() {
                return None;
            }
            if end == 0 {
                // No word, so this can't be a clause.
                let skip = self.rest.chars().next().map_or(1, char::len_utf8);
                self.rest = &self.rest[skip..];
                continue;
            }
            let name = self.rest[..end].to_ascii_lowercase();
            self.rest = self.rest[end..].trim_start();
            let argument = self.rest.starts_with('(').then(|| {
                let close = closing(self.rest);
                let inner = self.rest[1..close].trim().to_owned();
                self.rest = self.rest.get(close + 1..).unwrap_or("");
                inner
            });
            return Some((name, argument));
        }
    }
}

/// Whether a Fortran section skips elements: by a stride, or an index before a range.
pub(super) fn is_scattered(variable: &str) -> bool {
    let Some((_, inside)) = variable.strip_suffix(')').and_then(|variable| variable.split_once('(')) else {
        return false;
    };
    let dimensions: Vec<Vec<&str>> = split(inside, ',').into_iter().map(|dimension| split(dimension, ':')).collect();
    let strided = dimensions.iter().any(|dimension| dimension.len() == 3 && dimension[2] != "1");
    let last_range = dimensions.iter().rposition(|dimension| dimension.len() > 1);
    strided || last_range.is_some_and(|last| dimensions[..last].iter().any(|dimension| dimension.len() == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displayed(text: &str) -> String {
        let parsed = Parsed::new(text);
        let mut out = format!("{}({})", parsed.name, parsed.argument.as_deref().unwrap_or("-"));
        for clause in &parsed.clauses {
            out += &format!(" {}({})", clause.name, clause.argument.as_deref().unwrap_or("-"));
        }
        out
    }

    #[test]
    fn names_arguments_and_clauses_are_told_apart() {
        assert_eq!(
            displayed("PARALLEL loop copy(a[0:n]), Async(1) gang"),
            "parallel loop(-) copy(a[0:n]) async(1) gang(-)"
        );
        assert_eq!(displayed("wait(devnum:f(1,2):queues: 3) async"), "wait(devnum:f(1,2):queues: 3) async(-)");
        assert_eq!(displayed("enter data create (a)"), "enter data(-) create(a)");
        assert_eq!(displayed("wait (1) if(g(\")\"))"), "wait(1) if(g(\")\"))");
        assert_eq!(displayed("set"), "set(-)");
        assert_eq!(displayed(""), "(-)");
        assert_eq!(displayed("init if(x"), "init(-) if(x)");
    }
}

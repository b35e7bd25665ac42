//! References of C++ in reductions, as far as the lines above a directive show them.

use super::Directive;
use super::clause::{DATA_CLAUSES, Parsed};
use super::finding::{Finding, Severity};
use accord_kernels::text::split;

/// Words before a name that do not declare it.
const NO_TYPES: &[&str] = &["return", "else", "case", "goto", "throw", "new", "delete", "sizeof", "in", "do"];

/// Returns all such findings of a source.
pub(super) fn findings(source: &str, all: &[(&Directive, &Parsed)]) -> Vec<Finding> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    // The last construct above in this file.
    let mut around: Option<&Parsed> = None;
    for (directive, parsed) in all.iter().filter(|(directive, _)| directive.file.is_none()) {
        let construct = parsed.name.split(' ').next().unwrap_or("");
        let is_compute = ["parallel", "serial", "kernels"].contains(&construct);
        if is_compute {
            around = Some(parsed);
        }
        let on_parallel = around.filter(|around| around.name == "parallel");
        let (what, remedy): (_, fn(&str) -> String) = match (construct, on_parallel) {
            ("parallel" | "serial", _) => ("GCC maps the reference, not what it names", |name| {
                format!("copy({name}) beside it, or a variable that is stored afterwards")
            }),
            ("loop", Some(_)) => {
                ("GCC's code for GPUs loses the result where the parallel construct has none of it", |name| {
                    format!("the same reduction on the parallel construct, or a variable in place of {name}")
                })
            }
            _ => continue,
        };
        let above = &lines[..lines.len().min((directive.line as usize).saturating_sub(1))];
        for name in reduced(parsed) {
            let is_reported = match on_parallel.filter(|_| construct == "loop") {
                Some(around) => reduced(around).contains(&name),
                None => is_named(parsed, name),
            };
            if !is_reported && is_reference(above, name) {
                let text = format!("reduction of {name}, which is a reference: {what}");
                found.push(Finding::at(directive, Severity::Wrong, text, remedy(name)));
            }
        }
    }
    found
}

/// Returns the variables of a directive's reductions.
fn reduced(parsed: &Parsed) -> Vec<&str> {
    let lists = parsed
        .clauses
        .iter()
        .filter(|clause| clause.name == "reduction")
        .map(|clause| clause.argument.as_deref().unwrap_or("").split_once(':').map_or("", |(_, list)| list));
    lists.flat_map(|list| split(list, ',')).collect()
}

/// Whether a data clause of the directive names a variable.
fn is_named(parsed: &Parsed, name: &str) -> bool {
    let clauses = parsed.clauses.iter().filter(|clause| DATA_CLAUSES.contains(&clause.name.as_str()));
    let mut lists = clauses.map(|clause| clause.argument.as_deref().unwrap_or(""));
    lists.any(|list| split(list.rsplit(':').next().unwrap_or(list), ',').contains(&name))
}

/// Whether the nearest declaration above in the same function makes the name a reference.
fn is_reference(above: &[&str], name: &str) -> bool {
    // A line that begins with a brace ends the previous function.
    let function = above.iter().rev().take_while(|line| !line.starts_with('}'));
    function.map(|line| line.split("//").next().unwrap_or(line)).find_map(|line| declares(line, name)).unwrap_or(false)
}

/// Returns whether a line declares a name as a reference, or `None` if it does not declare it.
fn declares(line: &str, name: &str) -> Option<bool> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).find_map(|(at, _)| {
        let (before, after) = (&line[..at], line[at + name.len()..].trim_start());
        let follows = after.is_empty() || after.starts_with([',', ')', '=', ';', '{', ':']);
        if before.ends_with(is_word) || !follows || after.starts_with("==") {
            return None;
        }
        let declared = before.trim_end();
        if let Some(type_name) = declared.strip_suffix('&') {
            // `a & s` is an operation, `T &s` and `T& s` are declarations.
            let joined = declared.len() == before.len() || !type_name.ends_with(' ');
            let plain = type_name.trim_end().ends_with(|c: char| is_word(c) || c == '>') && !type_name.contains('=');
            return (joined && plain).then_some(true);
        }
        let spaced = declared.len() < before.len();
        let last = declared.rsplit(|c: char| !is_word(c)).next().unwrap_or("");
        let typed =
            declared.ends_with('>') || (!last.is_empty() && !NO_TYPES.contains(&last) && !declared.contains('='));
        (spaced && typed).then_some(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_declaration_counts() {
        let cases = [
            ("void f(double &s, int n)\n{\n", true),
            ("void f(double& s)\n{\n", true),
            ("template <class T> void f(std::vector<T> &s)\n{\n", true),
            ("  auto &s = e;\n", true),
            ("  for (auto &s : all)\n", true),
            ("void f(double &s)\n{\n  s = 1;\n  n = s;\n", true),
            ("void f(double s)\n", false),
            ("void f(double &s)\n{\n}\nvoid g()\n{\n  double a, s;\n", false),
            ("void f(double &s)\n{\n  double s = 0;\n", false),
            ("  x = f(a & s);\n", false),
            ("  if (a & s) b = 1;\n", false),
            ("void f(double &sum)\n", false),
            ("void f(double *s)\n", false),
            ("  return s;\n", false),
        ];
        for (above, expected) in cases {
            let lines: Vec<&str> = above.lines().collect();
            assert_eq!(is_reference(&lines, "s"), expected, "{above}");
        }
    }
}

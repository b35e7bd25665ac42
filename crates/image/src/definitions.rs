//! The kernels and functions that a PTX text defines.

use super::ptx::code;
use std::ops::Range;

/// A kernel or function that a text defines.
pub(super) struct Definition<'a> {
    /// The line with its name and parameters, without comments.
    pub(super) head: &'a str,
    /// Line numbers of its body in the text, braces included.
    pub(super) body: Range<usize>,
}

/// Returns all definitions of a text with these lines, without mere declarations.
pub(super) fn definitions<'a>(lines: &[&'a str]) -> impl Iterator<Item = Definition<'a>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < lines.len() {
            let head = code(lines[at]);
            at += 1;
            if !is_head(head) || head.ends_with(';') {
                continue;
            }
            let (start, mut depth) = (at, 0usize);
            while at < lines.len() {
                let code = code(lines[at]);
                at += 1;
                depth += code.matches('{').count();
                depth = depth.saturating_sub(code.matches('}').count());
                if depth == 0 {
                    break;
                }
            }
            return Some(Definition { head, body: start..at });
        }
        None
    })
}

impl<'a> Definition<'a> {
    /// The name in `.entry name (...)` and `.func (...) name (...)`.
    pub(super) fn name(&self) -> Option<&'a str> {
        let rest = without_linkage(self.head).split_once(' ')?.1.trim_start();
        let rest = if rest.starts_with('(') { rest.split_once(')')?.1.trim_start() } else { rest };
        rest.split([' ', '(', ';']).next().filter(|name| !name.is_empty())
    }

    pub(super) fn is_kernel(&self) -> bool {
        without_linkage(self.head).starts_with(".entry ")
    }
}

fn is_head(code: &str) -> bool {
    [".entry ", ".func "].iter().any(|kind| without_linkage(code).starts_with(kind))
}

fn without_linkage(code: &str) -> &str {
    [".visible ", ".weak "].iter().find_map(|linkage| code.strip_prefix(linkage)).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_functions_are_found_with_their_bodies() {
        let text = ".entry a (.param .u64 %in_ar0);\n.func b (.param .u64 %in_ar0);\n\
                    .visible .entry a (.param .u64 %in_ar0)\n{\n{\nret;\n}\n}\n// .func none\n\
                    .weak .func (.param .u32 %value_out) b (.param .u64 %in_ar0) // says b\n{\nret;\n}\n.func c\n{\n";
        let lines: Vec<&str> = text.lines().collect();
        let found: Vec<_> = definitions(&lines).map(|d| (d.name(), d.is_kernel(), d.body)).collect();
        assert_eq!(found, [(Some("a"), true, 3..8), (Some("b"), false, 10..13), (Some("c"), false, 14..15)]);
    }
}

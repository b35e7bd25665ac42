//! Which kernels update memory that others update too.

use std::collections::HashSet;

/// Kernels of a PTX text with atomic operations: GCC's reductions over gangs, and what programs have in `atomic` regions.
pub(crate) fn with_atomics(text: &str) -> HashSet<&str> {
    let (mut found, mut kernel) = (HashSet::new(), None);
    for line in text.lines() {
        let code = line.trim_start();
        let head = code.strip_prefix(".visible ").unwrap_or(code);
        if let Some(rest) = head.strip_prefix(".entry ") {
            kernel = rest.split([' ', '(']).next();
        } else if head.starts_with(".func ") {
            kernel = None;
        } else if code.split([' ', '\t']).any(|word| word.starts_with("atom.") || word.starts_with("red.")) {
            found.extend(kernel);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_with_atomic_operations_are_found() {
        let text = ".entry first$_omp_fn$0 (.param .u64 %in_ar0);\n.entry none (.param .u64 %in_ar0)\n{\nret;\n}\n\
                    .visible .entry first$_omp_fn$0 (.param .u64 %in_ar0)\n{\n@%r1 atom.cas.b64 %r2,[%r3],%r4,%r5;\n}\n\
                    .func helper\n{\nred.add.f64 [%r1],%r2;\n}\n.entry second(.param .u64 %in_ar0)\n{\n\tred.global.add.u32 [%r1], 1;\n}\n";
        assert_eq!(with_atomics(text), HashSet::from(["first$_omp_fn$0", "second"]));
        assert!(with_atomics(".entry a (.param .u64 p)\n{\nbra $Latom;\n}\n").is_empty());
    }
}

//! Finds kernels with atomic updates.

use std::collections::HashSet;

/// Returns the kernels of an image's PTX texts with atomic operations: GCC's reductions over gangs, and `atomic` constructs. Calls are not followed: if
/// any function has such an operation, every kernel with a call counts.
pub fn with_atomics<'a>(texts: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let (mut found, mut calling, mut in_functions) = (HashSet::new(), HashSet::new(), false);
    for text in texts {
        let mut kernel = None;
        for line in text.lines() {
            let code = line.trim_start();
            let head = code.strip_prefix(".visible ").unwrap_or(code);
            let has = |matches: fn(&str) -> bool| code.split([' ', '\t']).any(matches);
            if let Some(rest) = head.strip_prefix(".entry ") {
                kernel = rest.split([' ', '(']).next();
            } else if head.starts_with(".func ") {
                kernel = None;
            } else if has(|word| word.starts_with("atom.") || word.starts_with("red.")) {
                in_functions |= kernel.is_none();
                found.extend(kernel);
            } else if has(|word| word == "call" || word.starts_with("call.")) {
                calling.extend(kernel);
            }
        }
    }
    if in_functions {
        found.extend(calling);
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
        assert_eq!(with_atomics([text].into_iter()), HashSet::from(["first$_omp_fn$0", "second"]));
        assert!(with_atomics([".entry a (.param .u64 p)\n{\nbra $Latom;\n}\n"].into_iter()).is_empty());
    }

    #[test]
    fn a_kernel_may_get_to_them_by_a_call() {
        let caller =
            ".entry a (.param .u64 p)\n{\n\tcall (%value_in),f,(%out_arg1);\n}\n.entry b (.param .u64 p)\n{\nret;\n}\n";
        let function =
            ".visible .func (.param .f64 %value_out) f (.param .f64 %in_ar0)\n{\natom.add.f64 %r1,[%r2],%r3;\n}\n";
        assert_eq!(with_atomics([caller, function].into_iter()), HashSet::from(["a"]), "in another object");
        assert!(with_atomics([caller].into_iter()).is_empty());
    }
}

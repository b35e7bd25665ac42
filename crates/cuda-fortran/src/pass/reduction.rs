//! Reductions of kernel loops.

use super::types::referred;

/// A scalar that all iterations update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reduction {
    pub(super) variable: String,
    pub(super) kind: String,
    /// The initial value of each thread.
    pub(super) neutral: &'static str,
    /// LLVM's number of the atomic operation.
    pub(super) atomic: u32,
}

/// Returns the reduction of a variable by the operator of this name.
pub(super) fn reduction(variable: &str, kind: &str, operator: &str) -> Option<Reduction> {
    let content = referred(kind)?;
    let (neutral, atomic) = match (operator, content) {
        ("add", "f32" | "f64") => ("0.0", 11),
        ("add", "i32" | "i64") => ("0", 1),
        ("max", "f32") => ("0xFF800000", 13),
        ("max", "f64") => ("0xFFF0000000000000", 13),
        ("max", "i32") => ("-2147483648", 7),
        ("max", "i64") => ("-9223372036854775808", 7),
        ("min", "f32") => ("0x7F800000", 14),
        ("min", "f64") => ("0x7FF0000000000000", 14),
        ("min", "i32") => ("2147483647", 8),
        ("min", "i64") => ("9223372036854775807", 8),
        ("iand", "i32" | "i64") => ("-1", 3),
        ("ior", "i32" | "i64") => ("0", 5),
        ("ieor", "i32" | "i64") => ("0", 6),
        _ => return None,
    };
    Some(Reduction { variable: variable.to_owned(), kind: content.to_owned(), neutral, atomic })
}

//! Operators of reductions.

use crate::ir::{Reduction, VarId};

/// Returns the reduction by an operator of C, if it is one.
pub(super) fn reduction(variable: VarId, operator: &str) -> Option<Reduction> {
    let operator = match operator {
        // A difference is a sum of negated terms.
        "-" => "+",
        "+" | "*" | "&" | "|" | "^" | "&&" | "||" => operator,
        _ => return None,
    };
    Some(Reduction { variable, operator: operator.into() })
}

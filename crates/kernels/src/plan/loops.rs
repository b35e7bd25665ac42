//! Properties of a loop's iterations by its header and directive.

use crate::ir::Loop;

/// Inner loops with fewer iterations than this are too short for a vector of their own.
const TRIPS_MIN: i64 = 16;

/// Fewer iterations than this are too little for gangs without workers.
const GANGS_MIN: i64 = 64;

/// Returns how many loops a directive's `collapse` or `tile` takes.
pub(crate) fn collapse(of: &Loop) -> usize {
    let Some(directive) = &of.directive else { return 1 };
    let collapse = directive.clause("collapse").and_then(|clause| clause.argument.as_ref()?.trim().parse().ok());
    let tile = directive.clause("tile").map(|clause| clause.list().len());
    collapse.or(tile).unwrap_or(1).max(1)
}

/// Returns the distance of a loop's last value from its first, if that is a constant.
fn distance(of: &Loop) -> Option<i64> {
    of.last.as_ref()?.minus(of.lower.as_ref()?)?.as_constant()
}

/// Whether a loop's bounds are constants between which there is nothing.
pub(super) fn has_no_iterations(of: &Loop) -> bool {
    distance(of).is_some_and(|trips| if of.step > 0 { trips < 0 } else { trips > 0 })
}

/// Whether an inner loop without directive has enough iterations for a level of its own.
pub(super) fn has_work(of: &Loop) -> bool {
    distance(of).is_none_or(|trips| trips.abs() >= TRIPS_MIN)
}

/// Whether constant bounds leave two loops together fewer iterations than 31 bits count.
pub(super) fn has_fewer_iterations(outer: &Loop, inner: &Loop) -> bool {
    let count = |of: &Loop| Some(distance(of)?.unsigned_abs().saturating_add(1));
    let product = count(outer).zip(count(inner)).map(|(outer, inner)| outer.saturating_mul(inner));
    product.is_some_and(|product| product < 1 << 31)
}

/// Whether constant bounds leave a loop too few iterations for gangs alone.
pub(crate) fn has_few_iterations(of: &Loop) -> bool {
    distance(of).is_some_and(|distance| distance.abs() < GANGS_MIN)
}

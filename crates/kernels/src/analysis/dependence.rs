//! The dependence test: whether two iterations of a loop may touch the same element.

use super::references::{Range, Reference, References};
use crate::ir::{Construct, Element, VarId};
use crate::poly::Poly;

/// Steps of one proof that a polynomial is not negative.
const PROOF_DEPTH: usize = 4;

/// The loop under test.
#[derive(Clone, Debug)]
pub(super) struct Tested {
    pub(super) variable: VarId,
    pub(super) step: i64,
    /// Least and greatest value of its variable.
    pub(super) bounds: Option<(Poly, Poly)>,
    /// Polynomials of surrounding loops that are not negative where the loop runs.
    pub(super) facts: Vec<Poly>,
}

/// A pair of references.
struct Pair {
    /// The distance of the two iterations, in values of the loop's variable.
    distance: VarId,
    /// Variables with their ranges, inner ones last.
    ranges: Vec<(VarId, (Poly, Poly))>,
    facts: Vec<Poly>,
    step: i64,
    span: Option<Poly>,
}

/// Whether no two different iterations access the same element by these two references of one array.
pub(super) fn independent(
    construct: &Construct,
    tested: &Tested,
    references: &References,
    first: &Reference,
    second: &Reference,
) -> bool {
    let mut next = references.next;
    let mut fresh = || {
        next += 1;
        VarId(next)
    };
    let (distance, other) = (fresh(), fresh());
    let mut pair = Pair::new(construct, tested, distance);
    if let Some(bounds) = &tested.bounds {
        pair.ranges.extend([tested.variable, other].map(|variable| (variable, bounds.clone())));
    }
    // The second reference's inner loops run independently.
    let mut renamed: Vec<(VarId, Poly)> = vec![(tested.variable, Poly::variable(other))];
    for (at, list) in [&first.loops, &second.loops].into_iter().enumerate() {
        for inner in list {
            let Range { symbol, bounds } = &references.inner[*inner];
            let rename = |poly: &Poly, renamed: &[(VarId, Poly)]| {
                renamed.iter().try_fold(poly.clone(), |poly, (from, to)| poly.with(*from, to))
            };
            let (symbol, bounds) = match at {
                0 => (*symbol, bounds.clone()),
                _ => {
                    let new = fresh();
                    let both =
                        bounds.as_ref().and_then(|(low, high)| Some((rename(low, &renamed)?, rename(high, &renamed)?)));
                    renamed.push((*symbol, Poly::variable(new)));
                    (new, both)
                }
            };
            if let Some((low, high)) = bounds {
                pair.facts.extend(high.minus(&low));
                pair.ranges.push((symbol, (low, high)));
            }
        }
    }
    let dimensions = first.subscripts.iter().zip(&second.subscripts);
    dimensions.into_iter().any(|(first, second)| {
        let (Some(first), Some(second)) = (first, second) else { return false };
        let mut moved = Some(second.clone());
        for (from, to) in &renamed[1..] {
            moved = moved.and_then(|poly| poly.with(*from, to));
        }
        let here = Poly::variable(tested.variable).plus(&Poly::variable(distance));
        let difference =
            here.and_then(|here| moved?.with(tested.variable, &here)).and_then(|second| second.minus(first));
        difference.is_some_and(|difference| pair.never_zero(&difference))
    })
}

/// Returns the bounds of the subscript of a one-dimensional reference, over all iterations of the tested loop and of inner ones.
pub(super) fn extent(
    construct: &Construct,
    tested: &Tested,
    references: &References,
    of: &Reference,
) -> Option<(Poly, Poly)> {
    let [Some(subscript)] = &*of.subscripts else { return None };
    let mut pair = Pair::new(construct, tested, VarId(references.next));
    pair.ranges.push((tested.variable, tested.bounds.clone()?));
    for inner in &of.loops {
        let Range { symbol, bounds } = &references.inner[*inner];
        let (low, high) = bounds.clone()?;
        pair.facts.extend(high.minus(&low));
        pair.ranges.push((*symbol, (low, high)));
    }
    let least = pair.greatest(&subscript.times(&Poly::constant(-1))?)?.times(&Poly::constant(-1))?;
    let greatest = pair.greatest(subscript)?;
    let known = |poly: &Poly| poly.variables().iter().all(|variable| variable.0 < construct.variables.len());
    (known(&least) && known(&greatest)).then_some((least, greatest))
}

impl Pair {
    fn new(construct: &Construct, tested: &Tested, distance: VarId) -> Self {
        let mut new =
            Self { distance, ranges: Vec::new(), facts: tested.facts.clone(), step: tested.step.abs(), span: None };
        for (at, variable) in construct.variables.iter().enumerate() {
            if matches!(variable.element, Element::Integer { signed: false, .. }) {
                new.facts.push(Poly::variable(VarId(at)));
            }
        }
        if let Some((low, high)) = &tested.bounds {
            new.span = high.minus(low);
            new.facts.extend(new.span.clone());
        }
        new
    }

    /// Whether the difference of two subscripts is not zero for any distance but zero.
    fn never_zero(&self, difference: &Poly) -> bool {
        let Some((factor, rest)) = difference.split(self.distance) else { return false };
        // A divisor of all coefficients that does not divide the constant.
        let divisor = difference.divisor();
        if divisor > 1 && difference.offset() % divisor != 0 {
            return true;
        }
        self.outweighs(&factor, &rest) || self.out_of_range(&factor, &rest)
    }

    /// Whether `factor` times one step exceeds any possible value of `rest`.
    fn outweighs(&self, factor: &Poly, rest: &Poly) -> bool {
        if factor.variables().iter().any(|variable| self.ranges.iter().any(|(ranged, _)| ranged == variable)) {
            return false;
        }
        let size = factor.times(&Poly::constant(self.step));
        let Some(size) = size else { return false };
        let sizes = [Some(size.clone()), size.times(&Poly::constant(-1))];
        sizes.into_iter().flatten().any(|size| {
            let bound = |sign: i64| -> Option<bool> {
                let greatest = self.greatest(&rest.times(&Poly::constant(sign))?)?;
                Some(self.not_negative(&size.minus(&greatest)?.minus(&Poly::constant(1))?))
            };
            bound(1) == Some(true) && bound(-1) == Some(true)
        })
    }

    /// Whether the difference can't be 0 for any two iterations: it is always greater than zero, or always less.
    fn out_of_range(&self, factor: &Poly, rest: &Poly) -> bool {
        let Some(span) = &self.span else { return false };
        let reach = factor.times(span);
        let Some(reach) = reach.filter(|_| self.not_negative(factor) || self.not_positive(factor)) else {
            return false;
        };
        let reach = if self.not_negative(factor) { Some(reach) } else { reach.times(&Poly::constant(-1)) };
        [1, -1].into_iter().any(|sign| {
            let beyond = || -> Option<bool> {
                // The least value of sign * rest, less the most that the distance can subtract.
                let least = self.greatest(&rest.times(&Poly::constant(-sign))?)?.times(&Poly::constant(-1))?;
                Some(self.not_negative(&least.minus(reach.as_ref()?)?.minus(&Poly::constant(1))?))
            };
            beyond() == Some(true)
        })
    }

    /// Returns an upper bound of a polynomial that contains no variable with a range.
    fn greatest(&self, poly: &Poly) -> Option<Poly> {
        let mut poly = poly.clone();
        for (variable, (low, high)) in self.ranges.iter().rev() {
            let (factor, _) = poly.split(*variable)?;
            if factor == Poly::default() {
                continue;
            }
            let value = if self.not_negative(&factor) {
                high
            } else if self.not_positive(&factor) {
                low
            } else {
                return None;
            };
            poly = poly.with(*variable, value)?;
        }
        let left = poly.variables();
        (!self.ranges.iter().any(|(variable, _)| left.contains(variable))).then_some(poly)
    }

    fn not_positive(&self, poly: &Poly) -> bool {
        poly.times(&Poly::constant(-1)).is_some_and(|poly| self.not_negative(&poly))
    }

    fn not_negative(&self, poly: &Poly) -> bool {
        not_negative(poly, &self.facts, PROOF_DEPTH)
    }
}

/// Whether a polynomial is a sum of facts and a constant that is not negative.
fn not_negative(poly: &Poly, facts: &[Poly], depth: usize) -> bool {
    if let Some(value) = poly.as_constant() {
        return value >= 0;
    }
    if depth == 0 {
        return false;
    }
    facts.iter().any(|fact| {
        fact.terms().filter(|(variables, _)| !variables.is_empty()).any(|(variables, has)| {
            let wanted = poly.terms().find(|(other, _)| *other == variables).map_or(0, |(_, coefficient)| coefficient);
            let times = if has != 0 { wanted / has } else { 0 };
            times > 0
                && wanted % has == 0
                && fact
                    .times(&Poly::constant(times))
                    .and_then(|sum| poly.minus(&sum))
                    .is_some_and(|rest| not_negative(&rest, facts, depth - 1))
        })
    })
}

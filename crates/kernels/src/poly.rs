//! Integer polynomials over scalar variables: subscripts and loop bounds.

use std::collections::{BTreeMap, BTreeSet};

/// A variable of a construct: its index among all that the construct names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VarId(pub usize);

/// Terms of one polynomial; a longer one is not worth a proof.
const TERMS_MAX: usize = 64;
/// Factors of one term.
const DEGREE_MAX: usize = 6;

/// A polynomial with integer coefficients: from the variables of a term, in order and with repetition, to its coefficient. No
/// coefficient is zero. The constant is the term without variables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Poly {
    terms: BTreeMap<Vec<VarId>, i64>,
}

impl Poly {
    /// A constant.
    pub fn constant(value: i64) -> Self {
        let mut new = Self::default();
        if value != 0 {
            new.terms.insert(Vec::new(), value);
        }
        new
    }

    /// A variable.
    pub fn variable(variable: VarId) -> Self {
        Self { terms: BTreeMap::from([(vec![variable], 1)]) }
    }

    /// Returns its terms: variables and coefficient.
    pub fn terms(&self) -> impl Iterator<Item = (&[VarId], i64)> {
        self.terms.iter().map(|(variables, coefficient)| (&**variables, *coefficient))
    }

    /// Returns its value, if it has no variables.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&[][..]).copied(),
            _ => None,
        }
    }

    /// Returns all variables in it.
    pub fn variables(&self) -> BTreeSet<VarId> {
        self.terms.keys().flatten().copied().collect()
    }

    /// Returns the sum; `None` if it is too large.
    pub fn plus(&self, other: &Self) -> Option<Self> {
        let mut new = self.clone();
        for (variables, coefficient) in &other.terms {
            let sum = new.terms.get(variables).copied().unwrap_or(0).checked_add(*coefficient)?;
            match sum {
                0 => new.terms.remove(variables),
                sum => new.terms.insert(variables.clone(), sum),
            };
        }
        (new.terms.len() <= TERMS_MAX).then_some(new)
    }

    /// Returns the difference; `None` if it is too large.
    pub fn minus(&self, other: &Self) -> Option<Self> {
        self.plus(&other.times(&Self::constant(-1))?)
    }

    /// Returns the product; `None` if it is too large.
    pub fn times(&self, other: &Self) -> Option<Self> {
        let mut new = Self::default();
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let mut variables = [&**left, &**right].concat();
                variables.sort_unstable();
                if variables.len() > DEGREE_MAX {
                    return None;
                }
                let term = Self { terms: BTreeMap::from([(variables, a.checked_mul(*b)?)]) };
                new = new.plus(&term)?;
            }
        }
        Some(new)
    }

    /// The polynomial by which `variable` is multiplied, and the rest; `None` if `variable` occurs squared or higher.
    pub fn split(&self, variable: VarId) -> Option<(Self, Self)> {
        let (mut factor, mut rest) = (Self::default(), Self::default());
        for (variables, coefficient) in &self.terms {
            match variables.iter().filter(|one| **one == variable).count() {
                0 => rest.terms.insert(variables.clone(), *coefficient),
                1 => {
                    let others = variables.iter().copied().filter(|one| *one != variable).collect();
                    factor.terms.insert(others, *coefficient)
                }
                _ => return None,
            };
        }
        Some((factor, rest))
    }

    /// Returns the polynomial with `value` instead of `variable`; `None` if it is too large.
    pub fn with(&self, variable: VarId, value: &Self) -> Option<Self> {
        let mut new = Self::default();
        for (variables, coefficient) in &self.terms {
            let mut term = Self::constant(*coefficient);
            for one in variables {
                let factor = if *one == variable { value.clone() } else { Self::variable(*one) };
                term = term.times(&factor)?;
            }
            new = new.plus(&term)?;
        }
        Some(new)
    }

    /// Returns the polynomial with other variables, no two of which become one.
    pub fn renamed(&self, name: impl Fn(VarId) -> VarId) -> Self {
        let term = |(variables, coefficient): (&Vec<VarId>, &i64)| {
            let mut variables: Vec<VarId> = variables.iter().map(|variable| name(*variable)).collect();
            variables.sort_unstable();
            (variables, *coefficient)
        };
        Self { terms: self.terms.iter().map(term).collect() }
    }

    /// Returns the greatest common divisor of all coefficients but the constant's; 0 if there are none.
    pub fn divisor(&self) -> i64 {
        let coefficients = self.terms.iter().filter(|(variables, _)| !variables.is_empty());
        coefficients
            .fold(0, |divisor, (_, coefficient)| gcd(divisor, coefficient.unsigned_abs()))
            .try_into()
            .unwrap_or(1)
    }

    /// Returns the polynomial as an expression of C; `name` has the variables' names.
    pub fn text(&self, name: impl Fn(VarId) -> String) -> String {
        if self.terms.is_empty() {
            return "0".into();
        }
        let term = |(variables, coefficient): (&Vec<VarId>, &i64)| {
            let factors = variables.iter().map(|variable| format!(" * {}", name(*variable)));
            format!("{coefficient}LL{}", factors.collect::<String>())
        };
        self.terms.iter().map(term).collect::<Vec<_>>().join(" + ")
    }

    /// The constant's coefficient.
    pub fn offset(&self) -> i64 {
        self.terms.get(&[][..]).copied().unwrap_or(0)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(at: usize) -> Poly {
        Poly::variable(VarId(at))
    }

    #[test]
    fn products_are_sorted_and_cancel() {
        let sum = v(1).times(&v(0)).unwrap().minus(&v(0).times(&v(1)).unwrap()).unwrap();
        assert_eq!(sum, Poly::default());
        assert_eq!(sum.as_constant(), Some(0));
    }

    #[test]
    fn a_linear_factor_is_split_off() {
        let index = v(0).times(&v(1)).unwrap().plus(&v(2)).unwrap().plus(&Poly::constant(3)).unwrap();
        let (factor, rest) = index.split(VarId(0)).unwrap();
        assert_eq!(factor, v(1));
        assert_eq!(rest, v(2).plus(&Poly::constant(3)).unwrap());
        assert_eq!(v(0).times(&v(0)).unwrap().split(VarId(0)), None);
        assert_eq!(index.with(VarId(2), &Poly::constant(-3)).unwrap(), v(0).times(&v(1)).unwrap());
    }

    #[test]
    fn overflow_yields_nothing() {
        assert_eq!(Poly::constant(i64::MAX).plus(&Poly::constant(1)), None);
        assert_eq!(Poly::constant(i64::MAX).times(&v(0)).unwrap().times(&Poly::constant(2)), None);
        assert_eq!(Poly::constant(6).plus(&v(0).times(&Poly::constant(4)).unwrap()).unwrap().divisor(), 4);
    }
}

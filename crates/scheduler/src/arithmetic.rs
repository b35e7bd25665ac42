//! Arithmetic of the policy: decay, shares, charges. Integers only, so that two coordinators decide alike.

use crate::amount::{Amount, WHOLE};
use crate::class::DeviceClass;

/// One as a fixed-point factor with 64 fractional bits, less the last bit.
const ONE: u64 = u64::MAX;

/// Steps of the decay within a half-life: 2^-32 of it.
const STEPS: usize = 32;

/// 2 to the power of -1/2, -1/4, -1/8 and so on, with 64 fractional bits.
const POWERS: [u64; STEPS] = powers();

/// A share of 1: an account that holds everything, with weight 1.
pub const SHARE_ONE: u64 = 1 << 32;

const fn powers() -> [u64; STEPS] {
    let mut powers = [0; STEPS];
    let mut last = 1u64 << 63;
    let mut at = 0;
    while at < STEPS {
        last = square_root((last as u128) << 64);
        powers[at] = last;
        at += 1;
    }
    powers
}

const fn square_root(of: u128) -> u64 {
    let mut root: u64 = 0;
    let mut bit = 64;
    while bit > 0 {
        bit -= 1;
        let tried = root | 1 << bit;
        if (tried as u128) * (tried as u128) <= of {
            root = tried;
        }
    }
    root
}

fn times(value: u64, factor: u64) -> u64 {
    if factor == ONE {
        return value;
    }
    u64::try_from((u128::from(value) * u128::from(factor)) >> 64).unwrap_or(u64::MAX)
}

/// The remainder of usage after some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decay {
    halvings: u64,
    factor: u64,
}

impl Decay {
    /// The decay over `passed_ms`, of which each `half_life_ms` halves usage.
    #[must_use]
    pub fn over(passed_ms: u64, half_life_ms: u64) -> Self {
        let half_life = half_life_ms.max(1);
        let mut rest = u64::try_from((u128::from(passed_ms % half_life) << STEPS) / u128::from(half_life)).unwrap_or(0);
        let mut factor = ONE;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize;
            factor = times(factor, POWERS[STEPS - 1 - at]);
            rest &= rest - 1;
        }
        Self { halvings: passed_ms / half_life, factor }
    }

    /// Returns what is left of `usage`.
    #[must_use]
    pub fn of(self, usage: u64) -> u64 {
        if self.halvings >= 64 { 0 } else { times(usage >> self.halvings, self.factor) }
    }
}

/// Returns what is left of `usage` after `passed_ms`, of which each `half_life_ms` halves it.
#[must_use]
pub fn decayed(usage: u64, passed_ms: u64, half_life_ms: u64) -> u64 {
    Decay::over(passed_ms, half_life_ms).of(usage)
}

/// Returns an account's share of one class. `held` counts in thousandths of a device now, `used` in thousandths times milliseconds, decayed.
/// An account that holds the whole class for ever has twice [`SHARE_ONE`], one that never held any has 0.
#[must_use]
pub fn share(held: u64, used: u64, devices: u32, half_life_ms: u64) -> u64 {
    if devices == 0 {
        return 0;
    }
    // The mean age of decayed usage is the half-life over ln 2. Past use is counted in 1/1024 of a thousandth.
    let mean_life = half_life_ms.saturating_mul(1_000) / 693;
    let past = used / (mean_life >> 10).max(1);
    let whole = u64::from(devices) * u64::from(WHOLE);
    let now = held.saturating_mul(SHARE_ONE) / whole;
    now.saturating_add(past.saturating_mul(SHARE_ONE >> 10) / whole)
}

/// Returns what a device of `class` is charged at, in thousandths of it: the larger part of its time and memory.
#[must_use]
pub fn charge(amount: Amount, exclusive: bool, class: &DeviceClass) -> u32 {
    if exclusive {
        return WHOLE;
    }
    let memory = u128::from(amount.memory) * u128::from(WHOLE) / u128::from(class.memory.max(1));
    let memory = u32::try_from(memory).unwrap_or(WHOLE);
    memory.max(amount.milli).clamp(1, WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_halves_each_half_life() {
        for half_life in [1, 1_000, 604_800_000] {
            assert_eq!(decayed(1 << 40, half_life, half_life), 1 << 39);
            assert_eq!(decayed(1 << 40, 3 * half_life, half_life), 1 << 37);
            assert_eq!(decayed(12_345, 0, half_life), 12_345);
            assert_eq!(decayed(u64::MAX, 64 * half_life, half_life), 0);
        }
    }

    #[test]
    fn decay_is_close_to_the_exponential() {
        for passed in [1u64, 7, 1_000, 250_000, 999_999] {
            let exact = (1u64 << 50) as f64 * (-(passed as f64) / 1e6).exp2();
            let found = decayed(1 << 50, passed, 1_000_000) as f64;
            assert!((found / exact - 1.0).abs() < 1e-8, "{passed}: {found} of {exact}");
        }
    }

    #[test]
    fn decay_in_two_steps_is_decay_in_one() {
        let (once, twice) =
            (decayed(1 << 50, 777_777, 1_000_000), decayed(decayed(1 << 50, 333_333, 1_000_000), 444_444, 1_000_000));
        assert!(once.abs_diff(twice) < 1 << 22, "{once} {twice}");
    }

    #[test]
    fn a_share_is_held_and_past_use_of_the_class() {
        assert_eq!(share(4_000, 0, 4, 1_000), SHARE_ONE);
        assert_eq!(share(0, 0, 4, 1_000), 0);
        assert_eq!(share(1_000, 0, 0, 1_000), 0);
        let for_ever = share(0, 4_000 * 1_000_000 / 693 * 1_000, 4, 1_000_000);
        assert!(for_ever.abs_diff(SHARE_ONE) < SHARE_ONE / 1_000, "{for_ever}");
    }
}

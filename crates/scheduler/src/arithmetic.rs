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

/// Returns what is left of `usage` after `passed_ms`, of which each `half_life_ms` halves it.
#[must_use]
pub fn decayed(usage: u64, passed_ms: u64, half_life_ms: u64) -> u64 {
    let half_life = half_life_ms.max(1);
    let halvings = passed_ms / half_life;
    if halvings >= 64 {
        return 0;
    }
    let fraction = (u128::from(passed_ms % half_life) << STEPS) / u128::from(half_life);
    let mut factor = ONE;
    for (at, power) in POWERS.iter().enumerate() {
        if fraction >> (STEPS - 1 - at) & 1 == 1 {
            factor = times(factor, *power);
        }
    }
    times(usage >> halvings, factor)
}

/// Returns an account's share of one class. `held` counts in thousandths of a device now, `used` in thousandths times milliseconds, decayed.
/// An account that holds the whole class for ever has twice [`SHARE_ONE`], one that never held any has 0.
#[must_use]
pub fn share(held: u64, used: u64, devices: u32, half_life_ms: u64) -> u64 {
    if devices == 0 {
        return 0;
    }
    // The mean age of decayed usage is the half-life over ln 2.
    let mean_life = (u128::from(half_life_ms.max(1)) * 1_000 / 693).max(1);
    let whole = u128::from(devices) * u128::from(WHOLE);
    let now = u128::from(held) * u128::from(SHARE_ONE) / whole;
    let past = u128::from(used) * u128::from(SHARE_ONE) / (whole * mean_life);
    u64::try_from(now + past).unwrap_or(u64::MAX)
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

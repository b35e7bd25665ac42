//! Arithmetic of the policy: decay, shares and charges, in integers, so that two coordinators decide alike.

use crate::amount::{Amount, WHOLE};
use crate::class::DeviceClass;

/// One, less the last bit, as a fixed-point factor with 64 fractional bits.
const ONE: u64 = u64::MAX;

/// Binary digits of the fraction of a half-life.
const STEPS: usize = 32;

/// 2 to the power of -1/2, -1/4, -1/8 and so on, with 64 fractional bits.
const POWERS: [u64; STEPS] = powers();

/// A share of 1, for an account of weight 1 that holds everything.
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

/// The factor by which usage decays over a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decay {
    halvings: u64,
    factor: u64,
}

impl Decay {
    /// Returns the decay over `passed_ms`. Each `half_life_ms` halves the usage.
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

    /// Returns `usage` after the decay.
    #[must_use]
    pub fn of(self, usage: u64) -> u64 {
        if self.halvings >= 64 { 0 } else { times(usage >> self.halvings, self.factor) }
    }
}

/// Returns `usage` after a decay over `passed_ms`. Each `half_life_ms` halves it.
#[must_use]
pub fn decayed(usage: u64, passed_ms: u64, half_life_ms: u64) -> u64 {
    Decay::over(passed_ms, half_life_ms).of(usage)
}

/// Returns an account's share of a class. `held` is in thousandths of a device, `used` in decayed thousandths times
/// milliseconds. An account that has always held the whole class has twice [`SHARE_ONE`], one that never held any has
/// 0.
#[must_use]
pub fn share(held: u64, used: u64, devices: u32, half_life_ms: u64) -> u64 {
    if devices == 0 {
        return 0;
    }
    // The mean age of decayed usage is the half-life over ln 2. Past usage is in 1/1024 of a thousandth.
    let mean_life = half_life_ms.saturating_mul(1_000) / 693;
    let past = used / (mean_life >> 10).max(1);
    let whole = u64::from(devices) * u64::from(WHOLE);
    let now = held.saturating_mul(SHARE_ONE) / whole;
    now.saturating_add(past.saturating_mul(SHARE_ONE >> 10) / whole)
}

/// Returns the charge for a part of a device of `class`, in thousandths of the device: the larger of its parts of time
/// and memory.
#[must_use]
pub fn charge(amount: Amount, exclusive: bool, class: &DeviceClass) -> u32 {
    if exclusive {
        return WHOLE;
    }
    let memory = u128::from(amount.memory) * u128::from(WHOLE) / u128::from(class.memory.max(1));
    let memory = u32::try_from(memory).unwrap_or(WHOLE);
    memory.max(amount.milli).clamp(1, WHOLE)
}

/// Returns the charge for a device of a job that takes `cores` of its node, in thousandths of the device: `charge` for its time and memory, or if that is
/// more, the part of the node's cores, which are divided among its `devices` of the class.
#[must_use]
pub fn charge_with_cores(charge: u64, cores: u64, of_node: u64, devices: u64) -> u64 {
    let part = u128::from(cores) * u128::from(devices) * u128::from(WHOLE) / u128::from(of_node.max(1));
    charge.max(u64::try_from(part).unwrap_or(u64::MAX))
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
    fn a_charge_is_the_largest_of_the_parts() {
        let class = |memory| DeviceClass {
            kind: accord_types::DeviceType::Nvidia,
            model: "h200".to_owned(),
            memory,
            context: 0,
            compute: (9, 0),
        };
        assert_eq!(charge(Amount { milli: 250, memory: 60 }, false, &class(100)), 600);
        assert_eq!(charge(Amount { milli: 250, memory: 10 }, false, &class(100)), 250);
        assert_eq!(charge(Amount { milli: 250, memory: 10 }, true, &class(100)), 1_000);
        // Of 64 cores and 8 devices, 8 cores are one device's part.
        assert_eq!(charge_with_cores(250, 1_000, 64_000, 8), 250);
        assert_eq!(charge_with_cores(250, 4_000, 64_000, 8), 500);
        assert_eq!(charge_with_cores(1_000, 64_000, 64_000, 8), 8_000);
        assert_eq!(charge_with_cores(1_000, 0, 0, 8), 1_000);
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

//! The time axis, and numbers in readable form.

/// Maps times to positions.
pub(super) struct Scale {
    start_ns: u64,
    per_ns: f64,
    left: f64,
}

impl Scale {
    /// Maps `[start_ns, end_ns]` to `[left, left + width]`.
    pub(super) fn new(start_ns: u64, end_ns: u64, left: f64, width: f64) -> Self {
        let length = end_ns.saturating_sub(start_ns).max(1);
        Self { start_ns, per_ns: width / length as f64, left }
    }

    /// Returns the position of a time.
    pub(super) fn x(&self, ns: u64) -> f64 {
        self.left + ns.saturating_sub(self.start_ns) as f64 * self.per_ns
    }
}

/// Returns the distance between an axis's ticks: 1, 2 or 5 times a power of ten, with at most `most` ticks.
pub(super) fn tick_ns(length_ns: u64, most: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            let tick = power.saturating_mul(factor);
            if length_ns / tick <= most {
                return tick;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Writes a duration with two or three digits.
pub(super) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", short(value))
}

/// Writes a number of bytes with two or three digits.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", short(value))
}

fn short(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(tick_ns(1_000_000, 10), 100_000);
        assert_eq!(tick_ns(1_100_000, 10), 200_000);
        assert_eq!(tick_ns(0, 10), 1);
        for length in [1, 7, 99, 12_345, 86_400_000_000_000, u64::MAX] {
            let ticks = length / tick_ns(length, 12);
            assert!((1..=12).contains(&ticks), "{length}: {ticks}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_500), "1.5 us");
        assert_eq!(duration(812_345_678), "812 ms");
        assert_eq!(bytes(4096), "4.0 KiB");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes(5 << 40), "5.0 TiB");
    }
}

//! The values of `ACCORD_COMPARE`: whether regions are compared with a CPU device, and when their results are equal.

/// Whether each region also runs on a CPU device, whose results are compared with its own.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Compare {
    /// No region does.
    #[default]
    Nothing,
    /// All regions do.
    Regions(Tolerance),
}

/// The largest difference of two floating-point numbers that count as equal. One of the limits suffices.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Difference of numbers of single precision, as a part of the larger one.
    pub single: f64,
    /// Difference of numbers of double precision or more, as a part of the larger one.
    pub double: f64,
    /// Largest absolute difference that counts as equal.
    pub absolute: f64,
    /// Distance in units of the last place.
    pub ulps: u64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { single: 1e-6, double: 1e-12, absolute: 0.0, ulps: 0 }
    }
}

impl Compare {
    /// Parses a value of the setting, or returns `None` if it has no meaning: `off`, `on`, or limits such as `rel=1e-4,abs=1e-9` or `ulp=4`. `rel` and `ulp`
    /// replace the usual limits, to which `abs` adds one.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => return Some(Self::Nothing),
            "on" => return Some(Self::Regions(Tolerance::default())),
            _ => {}
        }
        let is_relative = |limit: &str| ["rel=", "ulp="].iter().any(|name| limit.trim().starts_with(name));
        let mut tolerance = match text.split(',').any(is_relative) {
            true => Tolerance { single: 0.0, double: 0.0, ..Tolerance::default() },
            false => Tolerance::default(),
        };
        for limit in text.split(',') {
            let (name, value) = limit.trim().split_once('=')?;
            let number = || value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
            match name {
                "rel" => (tolerance.single, tolerance.double) = (number()?, number()?),
                "abs" => tolerance.absolute = number()?,
                "ulp" => tolerance.ulps = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(Self::Regions(tolerance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_replace_the_usual_ones() {
        assert_eq!(Compare::parse("off"), Some(Compare::Nothing));
        assert_eq!(Compare::parse(" on\n"), Some(Compare::Regions(Tolerance::default())));
        let limits =
            |single, double, absolute, ulps| Some(Compare::Regions(Tolerance { single, double, absolute, ulps }));
        assert_eq!(Compare::parse("rel=1e-4"), limits(1e-4, 1e-4, 0.0, 0));
        assert_eq!(Compare::parse("ulp=4"), limits(0.0, 0.0, 0.0, 4));
        assert_eq!(Compare::parse("abs=1e-9"), limits(1e-6, 1e-12, 1e-9, 0));
        assert_eq!(Compare::parse("rel=1e-5, abs=1e-9,ulp=2"), limits(1e-5, 1e-5, 1e-9, 2));
    }

    #[test]
    fn values_without_a_meaning_are_refused() {
        for other in [
            "", "1", "yes", "rel", "rel=", "rel=-1", "rel=inf", "abs=nan", "ulp=1.5", "ulp=-1", "tol=1", "rel=1,",
            "on,ulp=4",
        ] {
            assert_eq!(Compare::parse(other), None, "{other}");
        }
    }
}

//! The checks of `ACCORD_CHECK`.

/// Checks of regions beyond those of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// Nothing.
    #[default]
    Nothing,
    /// On CPU devices, whether regions stay within blocks of device memory.
    Bounds,
}

impl Check {
    /// Parses a value of the setting, or returns `None` if it has no meaning.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(Self::Nothing),
            "bounds" => Some(Self::Bounds),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_checks_are_accepted() {
        assert_eq!(Check::parse("off"), Some(Check::Nothing));
        assert_eq!(Check::parse(" bounds\n"), Some(Check::Bounds));
        for other in ["", "1", "bound", "bounds,bounds", "Bounds"] {
            assert_eq!(Check::parse(other), None, "{other}");
        }
    }
}

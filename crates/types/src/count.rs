//! Counted nouns in messages.

use std::fmt;

/// A count with its noun, displayed as `1 device` or `3 devices`.
///
/// ```
/// use accord_types::Count;
/// assert_eq!(Count(1, "device").to_string(), "1 device");
/// assert_eq!(Count(0, "byte").to_string(), "0 bytes");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Count(
    /// The number.
    pub usize,
    /// The noun in the singular; its plural ends in `s`.
    pub &'static str,
);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn count_of_one_is_singular() {
        let all: Vec<String> = [0, 1, 2, 11].map(|n| Count(n, "rank").to_string()).into();
        assert_eq!(all, ["0 ranks", "1 rank", "2 ranks", "11 ranks"]);
    }
}

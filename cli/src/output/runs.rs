//! Lists of numbers.

/// Writes numbers in ascending order, runs shortened: `0-3,8`. Empty for none.
pub(crate) fn runs(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let words =
        runs.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_are_shortened() {
        assert_eq!(runs(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(runs(&[5]), "5");
        assert_eq!(runs(&[u32::MAX, u32::MAX]), "4294967295,4294967295");
        assert_eq!(runs(&[]), "");
    }
}

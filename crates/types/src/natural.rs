//! Natural order of names.

use std::cmp::Ordering;

/// Compares names so that numbers in them count as numbers: `n2` before `n10`. Names that differ only in leading zeros
/// are ordered by their bytes, so only equal names are equal.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let ((head_l, rest_l), (head_r, rest_r)) = (chunk(left), chunk(right));
        let numbers = head_l.starts_with(is_digit) && head_r.starts_with(is_digit);
        let order = if numbers {
            let (l, r) = (head_l.trim_start_matches('0'), head_r.trim_start_matches('0'));
            l.len().cmp(&r.len()).then_with(|| l.cmp(r))
        } else {
            head_l.cmp(head_r)
        };
        if order != Ordering::Equal || (rest_l.is_empty() && rest_r.is_empty()) {
            return order.then_with(|| a.cmp(b));
        }
        (left, right) = (rest_l, rest_r);
    }
}

/// Splits a text after its leading digits, or its leading other characters.
fn chunk(text: &str) -> (&str, &str) {
    let digits = text.starts_with(is_digit);
    let end = text.find(|c| is_digit(c) != digits).unwrap_or(text.len());
    text.split_at(end)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let sorted = [
            "", "a", "gpu-1-2", "gpu-1-10", "gpu-2-1", "n", "n1", "n01", "n2", "n2-ib", "n10", "n10.site", "n100",
            "na", "node",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|a, b| natural_order(a, b));
        let wanted = {
            let mut wanted = sorted;
            // Names that differ only in leading zeros are in byte order.
            wanted.swap(6, 7);
            wanted
        };
        assert_eq!(names, wanted);
    }

    #[test]
    fn only_equal_names_are_equal_and_long_numbers_do_not_overflow() {
        assert_eq!(natural_order("n1", "n1"), Ordering::Equal);
        assert_ne!(natural_order("n01", "n1"), Ordering::Equal);
        let long = |last: &str| format!("n{}{last}", "9".repeat(60));
        assert_eq!(natural_order(&long("1"), &long("2")), Ordering::Less);
    }
}

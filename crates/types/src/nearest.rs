//! Suggestions for misspelt words.

/// Returns the known word with the smallest edit distance, if that is small for the word's length.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 4);
    let changes = known.into_iter().map(|known| (changes(word, known), known));
    changes.filter(|(changes, _)| *changes <= most).min_by_key(|(changes, _)| *changes).map(|(_, known)| known)
}

/// Returns the edit distance: letters inserted, deleted, replaced or swapped with their neighbour.
fn changes(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let (mut before, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=to.len()).collect());
    let mut previous = None;
    for (row, letter) in from.chars().enumerate() {
        let mut next = vec![row + 1];
        for (column, &other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut least = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            if column > 0 && previous == Some(other) && to[column - 1] == letter {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        previous = Some(letter);
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted() {
        for (from, to, count) in [
            ("time", "time", 0),
            ("tiem", "time", 1),
            ("tim", "time", 1),
            ("tame", "time", 1),
            ("", "abc", 3),
            ("abc", "", 3),
        ] {
            assert_eq!(changes(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn only_nearby_data_is_named() {
        let known = ["--time", "--trace", "--timeline", "--json"];
        assert_eq!(nearest("--tiem", known), Some("--time"));
        assert_eq!(nearest("--timelin", known), Some("--timeline"));
        assert_eq!(nearest("--quiet", known), None);
    }
}

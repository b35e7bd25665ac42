//! Shrinks a failing sequence: omits choices as long as the rest still fails.

use std::time::{Duration, Instant};

/// Returns the smallest failing part of `list` that was found within about `limit`.
pub(crate) fn shrink<T: Clone>(list: &[T], limit: Duration, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let begin = Instant::now();
    let mut list = list.to_vec();
    let mut size = list.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let before = list.len();
        while at < list.len() && begin.elapsed() < limit {
            let end = (at + size).min(list.len());
            let left: Vec<T> = list[..at].iter().chain(&list[end..]).cloned().collect();
            if fails(&left) {
                list = left;
            } else {
                at = end;
            }
        }
        // The last round is repeated until nothing more can be omitted.
        size = if size == 1 && list.len() < before && begin.elapsed() < limit { 1 } else { size / 2 };
    }
    list
}

#[test]
fn shrinking_keeps_only_the_relevant_operations() {
    let list: Vec<u32> = (0..100).collect();
    assert_eq!(shrink(&list, Duration::MAX, |part| part.contains(&17) && part.contains(&80)), [17, 80]);
    assert_eq!(shrink(&list, Duration::MAX, |_| true), [0; 0]);
}

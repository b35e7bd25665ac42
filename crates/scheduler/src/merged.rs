//! Merges sorted sequences.

use std::collections::BTreeSet;

/// Returns the items of sorted iterators in ascending order.
pub(crate) fn merged<T: Ord, I: Iterator<Item = T>>(mut sources: Vec<I>) -> impl Iterator<Item = T> {
    let first = sources.iter_mut().enumerate().filter_map(|(at, source)| Some((source.next()?, at)));
    let mut heads: BTreeSet<(T, usize)> = first.collect();
    std::iter::from_fn(move || {
        let (item, at) = heads.pop_first()?;
        heads.extend(sources[at].next().map(|next| (next, at)));
        Some(item)
    })
}

//! Steps of the core: what loops over nodes, sessions, jobs and paths look at.
//!
//! The tables hand out only iterators that count, so that the test sees each loop, also one that is written later. Without the test nothing counts.

/// Counts each item that a loop takes from `items`.
pub(super) fn counted<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    #[cfg(test)]
    let items = items.inspect(|_| tests::step());
    items
}

#[cfg(test)]
pub(super) mod tests;

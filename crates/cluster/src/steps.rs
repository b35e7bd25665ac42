//! Counts the steps of the core: the items that loops over nodes, sessions, jobs and paths visit.
//!
//! Tables return only counting iterators, so that the test sees every loop, including future ones. Only tests count.

/// Counts each item that a loop takes from `items`.
pub(super) fn counted<I: Iterator>(items: I) -> impl Iterator<Item = I::Item> {
    #[cfg(test)]
    let items = items.inspect(|_| tests::step());
    items
}

#[cfg(test)]
pub(super) mod tests;

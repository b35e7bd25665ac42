//! The host table of an object that registers itself, in GCC's layout: its regions and its `declare` variables.

use std::ops::Range;

/// The bit of a variable's size word that marks a `link` clause.
pub(crate) const LINK: usize = 1 << 63;

/// Returns the parts of a host table: its functions and its variables. The table is an array of addresses: start and end of
/// the functions, start and end of the variables (and more from GCC 14 on).
pub(crate) fn parts_of_host_table(table: usize) -> Option<[Range<usize>; 2]> {
    let table = table as *const [usize; 4];
    // SAFETY: a registered host table has at least these four words and lives until it is unregistered.
    let [first, last, start, end] = unsafe { *table };
    (first <= last && start <= end).then_some([first..last, start..end])
}

pub(crate) const WORD: usize = size_of::<usize>();
pub(crate) const PAIR: usize = size_of::<[usize; 2]>();

/// The pairs of address and size word in `range`.
pub(crate) fn variables(range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    (0..range.len() / PAIR).map(move |index| {
        // SAFETY: the range is GCC's variable table in a loaded object.
        let [host, size] = unsafe { *(range.start as *const [usize; 2]).add(index) };
        (host, size)
    })
}

/// Returns the addresses of the functions and the variables of a host table, in its order.
///
/// # Safety
/// The table must be registered, and stay registered during the call.
pub(crate) unsafe fn hosts(table: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    let [functions, variables] = parts_of_host_table(table)?;
    // SAFETY: the parts of a registered table are arrays of words and of pairs of words.
    let read = |address: usize| unsafe { *(address as *const usize) };
    Some((functions.step_by(WORD).map(read).collect(), variables.step_by(PAIR).map(read).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_table_lists_pairs_with_the_link_bit() {
        let pairs = [[0x1000usize, 16], [0x2000, LINK | 400]];
        let start = pairs.as_ptr() as usize;
        let table = [0usize, 0, start, start + size_of_val(&pairs), 0, 0];
        let [functions, range] = parts_of_host_table(table.as_ptr() as usize).unwrap();
        assert!(functions.is_empty());
        let listed: Vec<_> = variables(range).collect();
        assert_eq!(listed, [(0x1000, 16), (0x2000, LINK | 400)]);
    }

    #[test]
    fn a_table_that_ends_before_it_starts_is_refused() {
        let table = [0usize, 0, 16, 8];
        assert!(parts_of_host_table(table.as_ptr() as usize).is_none());
    }
}

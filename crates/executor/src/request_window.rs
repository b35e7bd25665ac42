//! Decides which copies in are requested before their streams reach them, so that a queue does not wait for a round trip per copy. Their bytes are
//! buffered meanwhile, up to a bound. Without I/O or clock.

use accord_types::TransferId;
use std::collections::BTreeMap;

/// Most bytes of copies in that are requested before their streams reach them.
pub const AHEAD_MAX: u64 = 8 << 20;

/// Copies in that wait for their streams. `C` is the caller's value that requests a copy's bytes.
pub struct RequestWindow<C> {
    /// Requested copies, with their lengths; 0 for those that their streams have reached.
    asked: BTreeMap<TransferId, u64>,
    /// Copies not requested for lack of space. In the program's order, which is that of their numbers.
    waiting: BTreeMap<TransferId, (u64, C)>,
    /// Copies longer than the bound.
    long: BTreeMap<TransferId, C>,
    bytes: u64,
    most: u64,
}

impl<C> RequestWindow<C> {
    /// Creates a table with a bound of `most` bytes: [`AHEAD_MAX`], except in simulations.
    pub fn new(most: u64) -> Self {
        Self { asked: BTreeMap::new(), waiting: BTreeMap::new(), long: BTreeMap::new(), bytes: 0, most }
    }

    /// Whether a copy with this number is in the table. A second one with its number would be counted wrongly.
    pub fn is_open(&self, transfer: TransferId) -> bool {
        let Self { asked, waiting, long, .. } = self;
        asked.contains_key(&transfer) || waiting.contains_key(&transfer) || long.contains_key(&transfer)
    }

    /// Adds a copy that was put into a stream. Returns it if it should be requested now.
    #[must_use]
    pub fn put(&mut self, transfer: TransferId, len: u64, copy: C) -> Option<C> {
        if len > self.most {
            self.long.insert(transfer, copy);
            return None;
        }
        self.waiting.insert(transfer, (len, copy));
        // Earlier copies have the first claim to space.
        self.fitting().filter(|next| *next == transfer).and_then(|next| self.take(next))
    }

    /// Records that its stream has reached a copy. Returns the copy if it was not requested before.
    #[must_use]
    pub fn turn(&mut self, transfer: TransferId) -> Option<C> {
        let copy = self.long.remove(&transfer).or_else(|| self.waiting.remove(&transfer).map(|(_, copy)| copy))?;
        self.asked.insert(transfer, 0);
        Some(copy)
    }

    /// Removes a copy that is done or has failed. The caller then calls [`RequestWindow::next_to_ask`].
    pub fn over(&mut self, transfer: TransferId) {
        drop(self.turn(transfer));
        self.bytes -= self.asked.remove(&transfer).unwrap_or_default();
    }

    /// Returns the next copy that should be requested now, if there is space.
    #[must_use]
    pub fn next_to_ask(&mut self) -> Option<C> {
        let next = self.fitting()?;
        self.take(next)
    }

    /// Returns the number of bytes requested and not done.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first waiting copy, if it fits.
    fn fitting(&self) -> Option<TransferId> {
        let (next, (len, _)) = self.waiting.first_key_value()?;
        (self.bytes + len <= self.most).then_some(*next)
    }

    fn take(&mut self, transfer: TransferId) -> Option<C> {
        let (len, copy) = self.waiting.remove(&transfer)?;
        self.bytes += len;
        self.asked.insert(transfer, len);
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn t(number: u64) -> TransferId {
        TransferId(number)
    }

    #[test]
    fn requests_fill_the_window_and_continue_as_copies_complete() {
        let mut ahead = RequestWindow::new(100);
        assert_eq!(ahead.put(t(1), 60, 1), Some(1));
        assert_eq!(ahead.put(t(2), 50, 2), None);
        // The space is reserved for that copy.
        assert_eq!(ahead.put(t(3), 10, 3), None);
        assert_eq!(ahead.next_to_ask(), None);
        assert_eq!(ahead.turn(t(1)), None, "it was asked for");
        ahead.over(t(1));
        assert_eq!((ahead.next_to_ask(), ahead.next_to_ask(), ahead.next_to_ask()), (Some(2), Some(3), None));
        assert_eq!(ahead.bytes(), 60);
    }

    #[test]
    fn a_too_long_copy_is_asked_for_in_its_turn_and_blocks_no_other() {
        let mut ahead = RequestWindow::new(100);
        assert_eq!(ahead.put(t(1), 101, 1), None);
        assert_eq!(ahead.put(t(2), 100, 2), Some(2));
        assert_eq!(ahead.put(t(3), 1, 3), None);
        assert_eq!((ahead.turn(t(1)), ahead.turn(t(3))), (Some(1), Some(3)));
        ahead.over(t(3));
        ahead.over(t(1));
        assert_eq!(ahead.bytes(), 100);
    }

    #[test]
    fn aborted_transfers_are_not_requested() {
        let mut ahead = RequestWindow::new(10);
        assert_eq!(ahead.put(t(1), 10, 1), Some(1));
        assert_eq!(ahead.put(t(2), 10, 2), None);
        ahead.over(t(2));
        ahead.over(t(1));
        ahead.over(t(1));
        assert_eq!((ahead.next_to_ask(), ahead.bytes()), (None, 0));
    }

    #[test]
    fn a_copy_is_open_until_it_is_over_whether_its_turn_has_come_or_not() {
        let mut ahead = RequestWindow::new(10);
        for (number, len) in [(1, 10), (2, 10), (3, 11)] {
            assert!(!ahead.is_open(t(number)));
            let _ = ahead.put(t(number), len, ());
            assert!(ahead.is_open(t(number)));
            let _ = ahead.turn(t(number));
            assert!(ahead.is_open(t(number)));
            ahead.over(t(number));
            assert!(!ahead.is_open(t(number)));
        }
    }

    proptest! {
        /// Each copy is requested at most once, ahead or in its turn, and within the bound.
        #[test]
        fn each_transfer_is_requested_once(lens in prop::collection::vec(1..150_u64, 1..60), order in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut ahead = RequestWindow::new(100);
            let mut asked = vec![0; lens.len()];
            let mut open: Vec<usize> = Vec::new();
            let (mut lens, mut put) = (lens.into_iter().enumerate(), true);
            for choice in order.into_iter().chain(std::iter::repeat_n(1, 1_000)) {
                put &= choice.is_multiple_of(2);
                match put.then(|| lens.next()).flatten() {
                    Some((number, len)) => {
                        open.push(number);
                        ahead.put(t(number as u64), len, number).into_iter().for_each(|number| asked[number] += 1);
                    }
                    None if open.is_empty() => break,
                    None => {
                        let number = open.remove(usize::from(choice) % open.len());
                        // Some fail before their turn.
                        if !choice.is_multiple_of(7) {
                            ahead.turn(t(number as u64)).into_iter().for_each(|number| asked[number] += 1);
                            prop_assert_eq!(asked[number], 1);
                        }
                        ahead.over(t(number as u64));
                        while let Some(number) = ahead.next_to_ask() {
                            asked[number] += 1;
                        }
                    }
                }
                prop_assert!(ahead.bytes() <= 100);
            }
            prop_assert!(asked.iter().all(|times| *times <= 1));
            prop_assert_eq!(ahead.bytes(), 0);
        }
    }
}

//! Which copies in are asked for before their streams are there, so that a queue does not stand still until their bytes have come from
//! afar. Their bytes are kept meanwhile, and there is a bound to that. Without I/O or clock.

use accord_types::TransferId;
use std::collections::BTreeMap;

/// Bytes of copies in that a session's executor has asked for, and whose streams are not there.
pub const AHEAD_MAX: u64 = 8 << 20;

/// Copies in that wait for their streams. `C` is what asks for the bytes of one.
pub struct AskAhead<C> {
    /// Asked for, with their lengths; those whose turn has come with 0.
    asked: BTreeMap<TransferId, u64>,
    /// Not asked for: there is no room. In the order of the program, which numbers them.
    waiting: BTreeMap<TransferId, (u64, C)>,
    /// Longer than all that there may be.
    long: BTreeMap<TransferId, C>,
    bytes: u64,
    most: u64,
}

impl<C> AskAhead<C> {
    /// Creates a table for at most so many bytes: [`AHEAD_MAX`], but for a simulation.
    pub fn new(most: u64) -> Self {
        Self { asked: BTreeMap::new(), waiting: BTreeMap::new(), long: BTreeMap::new(), bytes: 0, most }
    }

    /// Whether a copy with this number was put, and is not over. One more with its number would not be counted as it should.
    pub fn is_open(&self, transfer: TransferId) -> bool {
        let Self { asked, waiting, long, .. } = self;
        asked.contains_key(&transfer) || waiting.contains_key(&transfer) || long.contains_key(&transfer)
    }

    /// A copy of so many bytes was put into a stream. Given back if it is to be asked for now.
    #[must_use]
    pub fn put(&mut self, transfer: TransferId, len: u64, copy: C) -> Option<C> {
        if len > self.most {
            self.long.insert(transfer, copy);
            return None;
        }
        self.waiting.insert(transfer, (len, copy));
        // Those that came before have the first right to room.
        self.fitting().filter(|next| *next == transfer).and_then(|next| self.take(next))
    }

    /// The stream of a copy is there. Given back if it was not asked for before.
    #[must_use]
    pub fn turn(&mut self, transfer: TransferId) -> Option<C> {
        let copy = self.long.remove(&transfer).or_else(|| self.waiting.remove(&transfer).map(|(_, copy)| copy))?;
        self.asked.insert(transfer, 0);
        Some(copy)
    }

    /// A copy is done, or comes to nothing. Next, [`AskAhead::next_to_ask`] is asked.
    pub fn over(&mut self, transfer: TransferId) {
        drop(self.turn(transfer));
        self.bytes -= self.asked.remove(&transfer).unwrap_or_default();
    }

    /// A copy that is to be asked for now, as there is room.
    #[must_use]
    pub fn next_to_ask(&mut self) -> Option<C> {
        let next = self.fitting()?;
        self.take(next)
    }

    /// Bytes that were asked for, and are not done.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first one, if it fits.
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
    fn as_many_are_asked_for_as_there_is_room_and_the_next_when_one_is_done() {
        let mut ahead = AskAhead::new(100);
        assert_eq!(ahead.put(t(1), 60, 1), Some(1));
        assert_eq!(ahead.put(t(2), 50, 2), None);
        // The room is that one's.
        assert_eq!(ahead.put(t(3), 10, 3), None);
        assert_eq!(ahead.next_to_ask(), None);
        assert_eq!(ahead.turn(t(1)), None, "it was asked for");
        ahead.over(t(1));
        assert_eq!((ahead.next_to_ask(), ahead.next_to_ask(), ahead.next_to_ask()), (Some(2), Some(3), None));
        assert_eq!(ahead.bytes(), 60);
    }

    #[test]
    fn a_too_long_copy_is_asked_for_in_its_turn_and_blocks_no_other() {
        let mut ahead = AskAhead::new(100);
        assert_eq!(ahead.put(t(1), 101, 1), None);
        assert_eq!(ahead.put(t(2), 100, 2), Some(2));
        assert_eq!(ahead.put(t(3), 1, 3), None);
        assert_eq!((ahead.turn(t(1)), ahead.turn(t(3))), (Some(1), Some(3)));
        ahead.over(t(3));
        ahead.over(t(1));
        assert_eq!(ahead.bytes(), 100);
    }

    #[test]
    fn what_comes_to_nothing_is_asked_for_no_more() {
        let mut ahead = AskAhead::new(10);
        assert_eq!(ahead.put(t(1), 10, 1), Some(1));
        assert_eq!(ahead.put(t(2), 10, 2), None);
        ahead.over(t(2));
        ahead.over(t(1));
        ahead.over(t(1));
        assert_eq!((ahead.next_to_ask(), ahead.bytes()), (None, 0));
    }

    #[test]
    fn a_copy_is_open_until_it_is_over_whether_its_turn_has_come_or_not() {
        let mut ahead = AskAhead::new(10);
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
        /// Each is asked for once at most, ahead or in its turn, and never more than there may be.
        #[test]
        fn each_is_asked_for_once(lens in prop::collection::vec(1..150_u64, 1..60), order in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut ahead = AskAhead::new(100);
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
                        // Some come to nothing before their turn.
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

//! Short messages on their way to a lane's reader. The lanes' table is most of the time in the cache of the thread that owns MPI: a reader
//! that locks it takes a dozen of its lines along. So short messages are laid here for the reader, which takes them without the table.
//!
//! They are laid here with the table locked, and come before all that the table has of the lane. So who finds nothing here looks again with
//! the table locked before it takes anything from there.

use super::credit::{BASE, cost};
use super::slots::{BYTES_MAX, Slots};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Messages that may lie here.
const MESSAGES_MAX: usize = 8;
/// Most bytes of one.
pub(super) const MESSAGE_MAX: usize = BYTES_MAX;
/// What a reader may have taken from here before it says so: its sender may send on meanwhile.
const UNTOLD_MAX: u64 = BASE / 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    slots: Slots<MESSAGES_MAX>,
    /// None are read any more. Only the reader looks: who lays messages here has it from the table that there is none.
    closed: AtomicBool,
    /// Bytes of the first one that were read.
    at: AtomicUsize,
    /// What was taken counts so much, as far as the table was not told.
    untold: AtomicU64,
}

impl Mailbox {
    /// Lays a message here; false if there is no room. The caller has the table locked.
    pub(super) fn put(&self, bytes: &[u8]) -> bool {
        self.slots.put([bytes])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() || self.closed.load(Ordering::Relaxed)
    }

    /// Copies what is left of the first message, or as much as there is room for; how much. For the lane's reader.
    pub(super) fn read(&self, room: &mut [u8]) -> usize {
        if self.is_empty() {
            return 0;
        }
        let taken = self.slots.take(|bytes| {
            let at = self.at.load(Ordering::Relaxed);
            let left = &bytes[at.min(bytes.len())..];
            let n = room.len().min(left.len());
            room[..n].copy_from_slice(&left[..n]);
            let is_done = n == left.len();
            self.at.store(if is_done { 0 } else { at + n }, Ordering::Relaxed);
            if is_done {
                self.untold.fetch_add(cost(bytes.len()), Ordering::Relaxed);
            }
            (n, is_done)
        });
        taken.unwrap_or(0)
    }

    /// Whether the table should be told by now.
    pub(super) fn owes_much(&self) -> bool {
        self.untold.load(Ordering::Relaxed) >= UNTOLD_MAX
    }

    /// What the table is to be told; it counts as told.
    pub(super) fn tell(&self) -> u64 {
        match self.untold.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.untold.swap(0, Ordering::Relaxed),
        }
    }

    /// Nobody reads any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_parts_in_their_order_and_there_are_few() {
        let mailbox = Mailbox::default();
        for round in 0..3 {
            for number in 0..MESSAGES_MAX as u8 {
                assert!(mailbox.put(&[round, number]));
            }
            assert!(!mailbox.put(&[9]) && !mailbox.is_empty());
            for number in 0..MESSAGES_MAX as u8 {
                let mut bytes = [9; 3];
                assert_eq!(mailbox.read(&mut bytes[..1]), 1);
                assert_eq!(mailbox.read(&mut bytes[1..]), 1);
                assert_eq!(bytes, [round, number, 9]);
            }
            assert!(mailbox.is_empty() && mailbox.read(&mut [0]) == 0);
        }
        assert!(mailbox.put(&[1]));
        mailbox.close();
        assert!(mailbox.is_empty() && mailbox.read(&mut [0]) == 0);
    }

    #[test]
    fn what_was_read_is_told_once_and_before_it_is_much() {
        let mailbox = Mailbox::default();
        let (mut taken, bytes) = (0, [0; MESSAGE_MAX]);
        while !mailbox.owes_much() {
            assert!(mailbox.put(&bytes));
            assert_eq!(mailbox.read(&mut [0; MESSAGE_MAX + 1]), MESSAGE_MAX);
            taken += cost(MESSAGE_MAX);
        }
        // A lane may always have several times this under way, and is given more when half of that is read.
        assert!(taken < BASE / 4);
        assert_eq!((mailbox.tell(), mailbox.tell()), (taken, 0));
        assert!(!mailbox.owes_much());
    }
}

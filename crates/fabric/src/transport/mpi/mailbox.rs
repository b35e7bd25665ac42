//! Short messages, queued for a lane's reader. The thread that owns MPI usually has the lanes' table in its cache, and
//! locking the table on another core moves a dozen cache lines. So the reader takes short messages from here without the
//! table.
//!
//! The producer adds them with the table locked, and they precede all messages of the lane in the table. So a reader that
//! finds no message here checks again with the table locked, before it takes one from the table.

use super::credit::{BASE, cost};
use super::slots::{BYTES_MAX, Slots};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Most queued messages.
const MESSAGES_MAX: usize = 8;
/// Most bytes of one message.
pub(super) const MESSAGE_MAX: usize = BYTES_MAX;
/// Most credit that a reader uses before it reports it. The sender continues meanwhile.
const UNREPORTED_MAX: u64 = BASE / 8;

/// The queue of short messages.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    slots: Slots<MESSAGES_MAX>,
    /// Whether the lane is closed. Only the reader checks it: the producer uses the table.
    closed: AtomicBool,
    /// Bytes of the first message that were read.
    at: AtomicUsize,
    /// Credit of read messages that was not reported to the table yet.
    unreported: AtomicU64,
}

impl Mailbox {
    /// Adds a message. Returns `false` if the queue is full. The caller must hold the table's lock.
    pub(super) fn put(&self, bytes: &[u8]) -> bool {
        self.slots.put([bytes])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() || self.closed.load(Ordering::Relaxed)
    }

    /// Copies the rest of the first message, as far as it fits, and returns the number of bytes. Only for the lane's reader.
    pub(super) fn read(&self, space: &mut [u8]) -> usize {
        if self.is_empty() {
            return 0;
        }
        let taken = self.slots.take(|bytes| {
            let at = self.at.load(Ordering::Relaxed);
            let left = &bytes[at.min(bytes.len())..];
            let n = space.len().min(left.len());
            space[..n].copy_from_slice(&left[..n]);
            let is_done = n == left.len();
            self.at.store(if is_done { 0 } else { at + n }, Ordering::Relaxed);
            if is_done {
                self.unreported.fetch_add(cost(bytes.len()), Ordering::Relaxed);
            }
            (n, is_done)
        });
        taken.unwrap_or(0)
    }

    /// Whether the reader should report its credit now.
    pub(super) fn should_report_credit(&self) -> bool {
        self.unreported.load(Ordering::Relaxed) >= UNREPORTED_MAX
    }

    /// Returns the credit to report, and resets it.
    pub(super) fn notify(&self) -> u64 {
        match self.unreported.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.unreported.swap(0, Ordering::Relaxed),
        }
    }

    /// Records that the lane is closed.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_order_and_in_parts_up_to_a_bound() {
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
    fn credit_is_reported_once_and_in_time() {
        let mailbox = Mailbox::default();
        let (mut taken, bytes) = (0, [0; MESSAGE_MAX]);
        while !mailbox.should_report_credit() {
            assert!(mailbox.put(&bytes));
            assert_eq!(mailbox.read(&mut [0; MESSAGE_MAX + 1]), MESSAGE_MAX);
            taken += cost(MESSAGE_MAX);
        }
        // The limit is well below half the base credit, which must be read before the credit is restored.
        assert!(taken < BASE / 4);
        assert_eq!((mailbox.notify(), mailbox.notify()), (taken, 0));
        assert!(!mailbox.should_report_credit());
    }
}

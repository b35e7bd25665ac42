//! A ring of short messages from one thread to another. Each lies in cache lines of its own, beside the word that says that it is there: who reads
//! it on another core waits for these lines, and for no others.

use super::apart::Apart;
use crate::transport::shared_words::{WORD, gather, load, store};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a slot: the first says which message is there, and how long it is.
const WORDS: usize = 64;
/// Most bytes of a message.
pub(super) const BYTES_MAX: usize = (WORDS - 1) * WORD;
/// Bits of the first word that have the length.
const LENGTH_BITS: u32 = 16;
const _: () = assert!(BYTES_MAX < 1 << LENGTH_BITS);

#[derive(Debug)]
#[repr(align(128))]
struct Slot([AtomicU64; WORDS]);

/// A ring of `N` slots. One thread at a time puts, and one takes; which these are is settled elsewhere.
#[derive(Debug)]
pub(super) struct Slots<const N: usize> {
    slots: Box<[Slot]>,
    putting: Apart<Putting>,
    /// How many were ever taken.
    taken: Apart<AtomicU64>,
}

/// What only those look at who put.
#[derive(Debug, Default)]
struct Putting {
    /// How many were ever put.
    put: AtomicU64,
    /// How many of these were taken when it was last looked at.
    taken: AtomicU64,
}

impl<const N: usize> Default for Slots<N> {
    fn default() -> Self {
        let slot = |_| Slot(array::from_fn(|_| AtomicU64::new(0)));
        Self { slots: (0..N).map(slot).collect(), putting: Apart::default(), taken: Apart::default() }
    }
}

impl<const N: usize> Slots<N> {
    fn slot(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.slots[(number % N as u64) as usize].0
    }

    /// Whether another message has room; for who puts.
    pub(super) fn has_room(&self) -> bool {
        let Putting { put, taken } = &*self.putting;
        let put = put.load(Ordering::Relaxed);
        if put - taken.load(Ordering::Relaxed) < N as u64 {
            return true;
        }
        // What was there has been read.
        taken.store(self.taken.load(Ordering::Acquire), Ordering::Relaxed);
        put - taken.load(Ordering::Relaxed) < N as u64
    }

    /// Puts a message of [`BYTES_MAX`] or fewer bytes, given in parts; false if there is no room.
    pub(super) fn put(&self, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> bool {
        if !self.has_room() {
            return false;
        }
        let mut bytes = [0; BYTES_MAX];
        let Some(len) = gather(parts, &mut bytes) else { return false };
        let number = self.putting.put.load(Ordering::Relaxed);
        let [first, words @ ..] = self.slot(number);
        store(words, &bytes, len);
        self.putting.put.store(number + 1, Ordering::Relaxed);
        // In one order with what sleepers say, see there.
        first.store(first_word(number) | len as u64, Ordering::SeqCst);
        true
    }

    /// The number of the next message and its length, if it is there.
    fn next(&self) -> Option<(u64, usize)> {
        let number = self.taken.load(Ordering::Relaxed);
        let first = self.slot(number)[0].load(Ordering::SeqCst);
        let len = first & ((1 << LENGTH_BITS) - 1);
        (first - len == first_word(number)).then_some((number, len as usize))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next().is_none()
    }

    /// Shows the next message, if there is one, and then forgets it, unless `read` wants it to be left.
    pub(super) fn take<T>(&self, read: impl FnOnce(&[u8]) -> (T, bool)) -> Option<T> {
        let (number, len) = self.next()?;
        let mut bytes = [0; BYTES_MAX];
        load(&self.slot(number)[1..], &mut bytes, len);
        let (result, is_done) = read(&bytes[..len]);
        if is_done {
            self.taken.store(number + 1, Ordering::Release);
        }
        Some(result)
    }
}

/// The first word of a message, but for its length. That of the one before in its slot is another one.
fn first_word(number: u64) -> u64 {
    (number + 1) << LENGTH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn messages_come_out_whole_and_in_their_order_while_others_go_in() {
        let slots = Arc::new(Slots::<4>::default());
        let puts = slots.clone();
        let message = |number: usize| vec![number as u8; number * 7 % (BYTES_MAX + 1)];
        const ALL: usize = 20_000;
        let other = std::thread::spawn(move || {
            for number in 0..ALL {
                let bytes = message(number);
                let (one, other) = bytes.split_at(bytes.len() / 3);
                while !puts.put([one, other]) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..ALL {
            loop {
                // Left the first time.
                if slots.take(|bytes| (assert_eq!(bytes, message(number)), false)).is_some() {
                    break;
                }
                std::thread::yield_now();
            }
            slots.take(|bytes| (assert_eq!(bytes, message(number)), true)).unwrap();
        }
        other.join().unwrap();
        assert!(slots.is_empty());
    }

    #[test]
    fn there_are_few_and_they_are_short() {
        let slots = Slots::<3>::default();
        assert!(!slots.put([[0; BYTES_MAX + 1]]));
        for _ in 0..3 {
            assert!(slots.has_room() && slots.put([[1; BYTES_MAX]]));
        }
        assert!(!slots.has_room() && !slots.put([[1]]));
        assert_eq!(slots.take(|bytes| (bytes.len(), true)), Some(BYTES_MAX));
        assert!(slots.has_room() && slots.put([&[] as &[u8]]) && !slots.has_room());
    }
}

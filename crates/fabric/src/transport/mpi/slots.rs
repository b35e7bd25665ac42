//! A ring of short messages from one thread to another. Each message lies on cache lines of its own, together with the
//! word that marks it as present. So a reader on another core waits for these lines only.

use super::cache_padded::CachePadded;
use crate::transport::shared_words::{WORD, gather, load, store};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a slot: the first holds the message's number and length.
const WORDS: usize = 64;
/// Most bytes of a message.
pub(super) const BYTES_MAX: usize = (WORDS - 1) * WORD;
/// Low bits of the first word, which hold the length.
const LENGTH_BITS: u32 = 16;
const _: () = assert!(BYTES_MAX < 1 << LENGTH_BITS);

#[derive(Debug)]
#[repr(align(128))]
struct Slot([AtomicU64; WORDS]);

/// A ring of `N` slots with one producer and one consumer at a time, which the callers ensure.
#[derive(Debug)]
pub(super) struct Slots<const N: usize> {
    slots: Box<[Slot]>,
    putting: CachePadded<Producer>,
    /// Number of messages ever taken.
    taken: CachePadded<AtomicU64>,
}

/// The producer's state.
#[derive(Debug, Default)]
struct Producer {
    /// Number of messages ever put.
    put: AtomicU64,
    /// The value of `taken` when the producer last loaded it.
    taken: AtomicU64,
}

impl<const N: usize> Default for Slots<N> {
    fn default() -> Self {
        let slot = |_| Slot(array::from_fn(|_| AtomicU64::new(0)));
        Self { slots: (0..N).map(slot).collect(), putting: CachePadded::default(), taken: CachePadded::default() }
    }
}

impl<const N: usize> Slots<N> {
    fn slot(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.slots[(number % N as u64) as usize].0
    }

    /// Whether another message fits. Only for the producer.
    pub(super) fn has_space(&self) -> bool {
        let Producer { put, taken } = &*self.putting;
        let put = put.load(Ordering::Relaxed);
        if put - taken.load(Ordering::Relaxed) < N as u64 {
            return true;
        }
        // Pairs with the consumer's release store: the consumer has read the slot.
        taken.store(self.taken.load(Ordering::Acquire), Ordering::Relaxed);
        put - taken.load(Ordering::Relaxed) < N as u64
    }

    /// Adds a message of at most [`BYTES_MAX`] bytes, given in parts. Returns `false` if the ring is full or the message too
    /// long.
    pub(super) fn put(&self, parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> bool {
        if !self.has_space() {
            return false;
        }
        let mut bytes = [0; BYTES_MAX];
        let Some(len) = gather(parts, &mut bytes) else { return false };
        let number = self.putting.put.load(Ordering::Relaxed);
        let [first, words @ ..] = self.slot(number);
        store(words, &bytes, len);
        self.putting.put.store(number + 1, Ordering::Relaxed);
        // Sequentially consistent, because the consumer sets a flag before it sleeps and then reads this word.
        first.store(first_word(number) | len as u64, Ordering::SeqCst);
        true
    }

    /// Returns the number and length of the next message, if any.
    fn next(&self) -> Option<(u64, usize)> {
        let number = self.taken.load(Ordering::Relaxed);
        let first = self.slot(number)[0].load(Ordering::SeqCst);
        let len = first & ((1 << LENGTH_BITS) - 1);
        (first - len == first_word(number)).then_some((number, len as usize))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next().is_none()
    }

    /// Passes the next message to `read`, and removes it if `read` returns `true`.
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

/// Returns the first word of a message without its length. It differs from that of the slot's previous message.
fn first_word(number: u64) -> u64 {
    (number + 1) << LENGTH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn messages_stay_whole_and_in_order_between_two_threads() {
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
                // Not removed the first time.
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
    fn the_ring_bounds_number_and_length() {
        let slots = Slots::<3>::default();
        assert!(!slots.put([[0; BYTES_MAX + 1]]));
        for _ in 0..3 {
            assert!(slots.has_space() && slots.put([[1; BYTES_MAX]]));
        }
        assert!(!slots.has_space() && !slots.put([[1]]));
        assert_eq!(slots.take(|bytes| (bytes.len(), true)), Some(BYTES_MAX));
        assert!(slots.has_space() && slots.put([&[] as &[u8]]) && !slots.has_space());
    }
}

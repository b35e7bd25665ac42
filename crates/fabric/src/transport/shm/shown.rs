//! Repeats a short write on the cache lines of the word that counts written bytes.
//!
//! A reader on another core first waits for the lines of that word, and only then for those of the bytes. With the
//! repetition a short write arrives together with the word. The bytes in the ring are authoritative: the reader discards
//! repeated ones that are overwritten while it reads them.

use crate::transport::shared_memory::BESIDE;
use crate::transport::shared_words::{WORD, gather, load, store};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most bytes that are repeated: a frame of a command lane, and a little payload.
pub(super) const SHOWN_MAX: usize = (BESIDE - 1) * WORD;
/// Low bits of the first word, which hold the number of bytes. The other bits hold the position of their end.
const LENGTH_BITS: u32 = 8;
const _: () = assert!(SHOWN_MAX < 1 << LENGTH_BITS);

/// Stores a write that ends at `end`, if it is short. The caller then publishes the count of written bytes.
pub(super) fn show(beside: &[AtomicU64; BESIDE], end: u64, parts: &[IoSlice<'_>]) {
    let mut bytes = [0; SHOWN_MAX];
    let Some(len) = gather(parts.iter().map(|part| &**part), &mut bytes) else { return };
    let [first, words @ ..] = beside;
    // A concurrent reader of the previous write sees that it is no longer valid.
    first.store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    store(words, &bytes, len);
    first.store(first_word(end, len), Ordering::Release);
}

/// Copies the repeated bytes of the write that ended at `end`. Returns whether they were valid; if not, `bytes` holds
/// garbage.
pub(super) fn look(beside: &[AtomicU64; BESIDE], end: u64, bytes: &mut [u8]) -> bool {
    let [first, words @ ..] = beside;
    let said = first.load(Ordering::Acquire);
    let len = (said & ((1 << LENGTH_BITS) - 1)) as usize;
    if said != first_word(end, len) || len > SHOWN_MAX || len < bytes.len() {
        return false;
    }
    let mut shown = [0; SHOWN_MAX];
    load(words, &mut shown, len);
    bytes.copy_from_slice(&shown[len - bytes.len()..len]);
    fence(Ordering::Acquire);
    first.load(Ordering::Relaxed) == said
}

fn first_word(end: u64, len: usize) -> u64 {
    (end << LENGTH_BITS) | len as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array;
    use std::sync::Arc;

    fn nothing() -> [AtomicU64; BESIDE] {
        array::from_fn(|_| AtomicU64::new(0))
    }

    /// Bytes that precede `end`, different for each position.
    fn bytes(end: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (end * 31 + at) as u8).collect()
    }

    #[test]
    fn the_end_of_the_last_write_is_repeated() {
        let beside = nothing();
        assert!(!look(&beside, 0, &mut [0]), "nothing was written yet");
        for len in 1..=SHOWN_MAX {
            let (end, all) = (1000 + len as u64, bytes(len as u64, len));
            let (one, other) = all.split_at(len / 3);
            show(&beside, end, &[IoSlice::new(one), IoSlice::new(other)]);
            for n in 1..=len {
                let mut last = vec![0; n];
                assert!(look(&beside, end, &mut last) && last == all[len - n..], "{n} of {len}");
            }
            assert!(!look(&beside, end, &mut vec![0; len + 1]), "what is before them is not shown");
            assert!(!look(&beside, end + 1, &mut [0]), "that was another write");
        }
        let before = bytes(9, 8);
        show(&beside, 2000, &[IoSlice::new(&before)]);
        show(&beside, 2000 + SHOWN_MAX as u64 + 1, &[IoSlice::new(&[0; SHOWN_MAX + 1])]);
        assert!(!look(&beside, 2000 + SHOWN_MAX as u64 + 1, &mut [0]), "too long");
        // A peer may store any word, which is accepted or ignored.
        beside[0].store(first_word(3000, 255), Ordering::Relaxed);
        assert!(!look(&beside, 3000, &mut [0; SHOWN_MAX]));
    }

    #[test]
    fn bytes_overwritten_during_a_read_are_discarded() {
        const ALL: u64 = 200_000;
        let (beside, said) = (Arc::new(nothing()), Arc::new(AtomicU64::new(0)));
        let writer = std::thread::spawn({
            let (beside, said) = (beside.clone(), said.clone());
            move || {
                for end in 1..=ALL {
                    show(&beside, end, &[IoSlice::new(&bytes(end, 80))]);
                    said.store(end, Ordering::Release);
                    if end % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let mut seen = 0;
        loop {
            let end = said.load(Ordering::Acquire);
            let mut last = [0; 80];
            if look(&beside, end, &mut last) {
                assert_eq!(last[..], bytes(end, 80), "{end}");
                seen += 1;
            }
            if end == ALL {
                break;
            }
        }
        writer.join().unwrap();
        assert!(seen > 0);
    }
}

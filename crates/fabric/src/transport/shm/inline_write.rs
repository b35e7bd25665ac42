//! Repeats a short write on the cache lines of the word that counts written bytes.
//!
//! A reader on another core first waits for the lines of that word, and only then for those of the bytes. With the
//! repetition a short write arrives together with the word. The bytes in the ring are authoritative: the reader discards
//! repeated ones that are overwritten while it reads them.

use crate::transport::shared_memory::INLINE_WORDS;
use crate::transport::shared_words::{WORD, gather, load, store};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Most bytes that are repeated: a frame of a command lane, and a little payload.
pub(super) const INLINE_MAX: usize = (INLINE_WORDS - 1) * WORD;
/// Low bits of the first word, which hold the number of bytes. The other bits hold the position of their end.
const LENGTH_BITS: u32 = 8;
const _: () = assert!(INLINE_MAX < 1 << LENGTH_BITS);

/// Stores a write that ends at `end`, if it is short. The caller then publishes the count of written bytes.
pub(super) fn write_inline(inline: &[AtomicU64; INLINE_WORDS], end: u64, parts: &[IoSlice<'_>]) {
    let mut bytes = [0; INLINE_MAX];
    let Some(len) = gather(parts.iter().map(|part| &**part), &mut bytes) else { return };
    let [first, words @ ..] = inline;
    // A concurrent reader of the previous write sees that it is no longer valid.
    first.store(0, Ordering::Relaxed);
    fence(Ordering::Release);
    store(words, &bytes, len);
    first.store(first_word(end, len), Ordering::Release);
}

/// Copies the repeated bytes of the write that ended at `end`. Returns whether they were valid; if not, `bytes` holds
/// garbage.
pub(super) fn read_inline(inline: &[AtomicU64; INLINE_WORDS], end: u64, bytes: &mut [u8]) -> bool {
    let [first, words @ ..] = inline;
    let printed = first.load(Ordering::Acquire);
    let len = (printed & ((1 << LENGTH_BITS) - 1)) as usize;
    if printed != first_word(end, len) || len > INLINE_MAX || len < bytes.len() {
        return false;
    }
    let mut displayed = [0; INLINE_MAX];
    load(words, &mut displayed, len);
    bytes.copy_from_slice(&displayed[len - bytes.len()..len]);
    fence(Ordering::Acquire);
    first.load(Ordering::Relaxed) == printed
}

fn first_word(end: u64, len: usize) -> u64 {
    (end << LENGTH_BITS) | len as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array;
    use std::sync::Arc;

    fn nothing() -> [AtomicU64; INLINE_WORDS] {
        array::from_fn(|_| AtomicU64::new(0))
    }

    /// Bytes that precede `end`, different for each position.
    fn bytes(end: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (end * 31 + at) as u8).collect()
    }

    #[test]
    fn the_end_of_the_last_write_is_repeated() {
        let inline = nothing();
        assert!(!read_inline(&inline, 0, &mut [0]), "nothing was written yet");
        for len in 1..=INLINE_MAX {
            let (end, all) = (1000 + len as u64, bytes(len as u64, len));
            let (one, other) = all.split_at(len / 3);
            write_inline(&inline, end, &[IoSlice::new(one), IoSlice::new(other)]);
            for n in 1..=len {
                let mut last = vec![0; n];
                assert!(read_inline(&inline, end, &mut last) && last == all[len - n..], "{n} of {len}");
            }
            assert!(!read_inline(&inline, end, &mut vec![0; len + 1]), "what is before them is not shown");
            assert!(!read_inline(&inline, end + 1, &mut [0]), "that was another write");
        }
        let before = bytes(9, 8);
        write_inline(&inline, 2000, &[IoSlice::new(&before)]);
        write_inline(&inline, 2000 + INLINE_MAX as u64 + 1, &[IoSlice::new(&[0; INLINE_MAX + 1])]);
        assert!(!read_inline(&inline, 2000 + INLINE_MAX as u64 + 1, &mut [0]), "too long");
        // A peer may store any word, which is accepted or ignored.
        inline[0].store(first_word(3000, 255), Ordering::Relaxed);
        assert!(!read_inline(&inline, 3000, &mut [0; INLINE_MAX]));
    }

    #[test]
    fn bytes_overwritten_during_a_read_are_discarded() {
        const ALL: u64 = 200_000;
        let (inline, printed) = (Arc::new(nothing()), Arc::new(AtomicU64::new(0)));
        let writer = std::thread::spawn({
            let (inline, printed) = (inline.clone(), printed.clone());
            move || {
                for end in 1..=ALL {
                    write_inline(&inline, end, &[IoSlice::new(&bytes(end, 80))]);
                    printed.store(end, Ordering::Release);
                    if end % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let mut seen = 0;
        loop {
            let end = printed.load(Ordering::Acquire);
            let mut last = [0; 80];
            if read_inline(&inline, end, &mut last) {
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

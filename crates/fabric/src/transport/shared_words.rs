//! Bytes in words that another thread, or another process, may look at meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// Parts that were put together, as many bytes as there may be at most.
#[derive(Debug)]
pub(super) struct Gathered<const MOST: usize> {
    bytes: [u8; MOST],
    len: usize,
}

impl<const MOST: usize> Gathered<MOST> {
    /// None if they are more; those before may be any then.
    pub(super) fn of(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Option<Self> {
        let (mut bytes, mut len) = ([0; MOST], 0);
        for part in parts {
            let part = part.as_ref();
            bytes.get_mut(len..len + part.len())?.copy_from_slice(part);
            len += part.len();
        }
        Some(Self { bytes, len })
    }

    /// The `len` bytes that are in `words`, of which there are enough.
    pub(super) fn load(words: &[AtomicU64], len: usize) -> Self {
        let mut bytes = [0; MOST];
        for (word, bytes) in words.iter().zip(bytes[..len.next_multiple_of(WORD)].as_chunks_mut::<WORD>().0) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        Self { bytes, len }
    }

    /// Writes them into `words`, of which there are enough. Whoever looks there learns in another way that they are whole.
    pub(super) fn store(&self, words: &[AtomicU64]) {
        for (word, bytes) in words.iter().zip(self.bytes[..self.len.next_multiple_of(WORD)].as_chunks::<WORD>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array;

    #[test]
    fn bytes_of_any_number_come_out_of_words_as_they_went_in() {
        const MOST: usize = 24;
        let words: [AtomicU64; MOST / WORD] = array::from_fn(|_| AtomicU64::new(u64::MAX));
        let bytes: Vec<u8> = (1..=MOST as u8).collect();
        for len in 0..=MOST {
            let (one, other) = bytes[..len].split_at(len / 3);
            let gathered = Gathered::<MOST>::of([one, other]).unwrap();
            assert_eq!(gathered.bytes(), &bytes[..len]);
            gathered.store(&words);
            assert_eq!(Gathered::<MOST>::load(&words, len).bytes(), &bytes[..len]);
        }
        assert!(Gathered::<MOST>::of([&bytes[..], &[0]]).is_none(), "one more");
    }
}

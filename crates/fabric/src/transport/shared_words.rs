//! Bytes stored in atomic words, which another thread or process may read at the same time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// Concatenates `parts` into `bytes`, and returns their length. Returns `None` if they do not fit; some may be copied then.
pub(super) fn gather(parts: impl IntoIterator<Item = impl AsRef<[u8]>>, bytes: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for part in parts {
        let part = part.as_ref();
        bytes.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

/// Stores the first `len` of `bytes` into `words`, of which there are enough. The length of `bytes` is a multiple of a
/// word's. The caller publishes separately that the words are complete.
pub(super) fn store(words: &[AtomicU64], bytes: &[u8], len: usize) {
    for (word, bytes) in words.iter().zip(bytes[..len.next_multiple_of(WORD)].as_chunks::<WORD>().0) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

/// Loads `len` bytes that [`store`] has stored.
pub(super) fn load(words: &[AtomicU64], bytes: &mut [u8], len: usize) {
    for (word, bytes) in words.iter().zip(bytes[..len.next_multiple_of(WORD)].as_chunks_mut::<WORD>().0) {
        *bytes = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array;

    #[test]
    fn bytes_of_any_length_survive_storing_and_loading() {
        const MOST: usize = 24;
        let words: [AtomicU64; MOST / WORD] = array::from_fn(|_| AtomicU64::new(u64::MAX));
        let bytes: Vec<u8> = (1..=MOST as u8).collect();
        for len in 0..=MOST {
            let (one, other) = bytes[..len].split_at(len / 3);
            let (mut gathered, mut loaded) = ([0; MOST], [0; MOST]);
            assert_eq!(gather([one, other], &mut gathered), Some(len));
            assert_eq!(gathered[..len], bytes[..len]);
            store(&words, &gathered, len);
            load(&words, &mut loaded, len);
            assert_eq!(loaded, gathered);
        }
        assert_eq!(gather([&bytes[..], &[0]], &mut [0; MOST]), None, "one more");
    }
}

//! The parameters of a launch.

/// Gangs, workers and vector length of one launch; 0 means "choose".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LaunchDims {
    /// `num_gangs`.
    pub gangs: u32,
    /// `num_workers`.
    pub workers: u32,
    /// `vector_length`.
    pub vector: u32,
}

/// The note on a region with a loop that GCC has compiled for one thread of a GPU. In `kernels` GCC looks for
/// independent loops itself and disregards clauses.
pub const ONE_THREAD: &str =
    "runs on one thread: GCC found no independent loop, and in kernels it takes no clause's word; write parallel loop";

/// The argument block of a region: first `slots` 64-bit slots, one for each mapped entry,
/// then the bytes of small private values (scalars, pointers, array descriptors) that travel with the launch.
///
/// An 8-byte word whose bit is set in `relative` holds an offset from the block's start. The executor of the region
/// adds the block's final address. So slots point at private values, and private pointers at other private values, such
/// as a Fortran dummy argument's at its descriptor.
#[derive(Clone, Copy, Debug)]
pub struct ArgBlock<'a> {
    /// Slots and private bytes. Private values are 16-byte aligned in it.
    pub bytes: &'a [u8],
    /// Number of slots.
    pub slots: u32,
    /// Bit i of word i/64 is set if the block's 8-byte word i is relative; [`ArgBlock::relative_words`] of the block's bytes.
    pub relative: &'a [u64],
}

impl ArgBlock<'_> {
    /// Largest block that a launch carries, in bytes. CUDA's parameter space holds 4 KiB.
    pub const BYTES_MAX: usize = 4096;
    /// Bytes of a block that one word of `relative` describes.
    const BYTES_PER_WORD: usize = 8 * 64;
    /// Number of words of `relative` for the largest block.
    pub const RELATIVE_WORDS_MAX: usize = Self::relative_words(Self::BYTES_MAX);

    /// Returns the number of words of `relative` for a block of `bytes` bytes.
    pub const fn relative_words(bytes: usize) -> usize {
        bytes.div_ceil(Self::BYTES_PER_WORD)
    }

    /// Returns the number of words of `relative` if those words and the block have `bytes` bytes together.
    pub const fn relative_words_within(bytes: usize) -> usize {
        bytes.div_ceil(Self::BYTES_PER_WORD + 8)
    }

    /// Whether the sizes of the block's parts are consistent.
    pub fn is_sound(&self) -> bool {
        self.bytes.len() <= Self::BYTES_MAX
            && self.slots as usize * 8 <= self.bytes.len()
            && self.relative.len() == Self::relative_words(self.bytes.len())
    }

    /// Decodes the block in a launch's payload, which is not trusted: the words of `relative`, then the block's bytes.
    /// `words` is the buffer for the words. Returns `None` if the sizes are inconsistent.
    pub fn decode<'a>(
        payload: &'a [u8],
        slots: u32,
        words: &'a mut [u64; ArgBlock::RELATIVE_WORDS_MAX],
    ) -> Option<ArgBlock<'a>> {
        let words = words.get_mut(..ArgBlock::relative_words_within(payload.len()))?;
        let (bits, bytes) = payload.split_at_checked(words.len() * 8)?;
        for (word, bits) in words.iter_mut().zip(bits.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bits);
        }
        Some(ArgBlock { bytes, slots, relative: words }).filter(ArgBlock::is_sound)
    }

    /// Returns the offsets of the block's relative words, in order. The block must be sound
    /// ([`is_sound`](Self::is_sound)).
    pub fn relative_offsets(&self) -> impl Iterator<Item = usize> {
        let end = self.bytes.len() / 8 * 8;
        self.relative.iter().enumerate().flat_map(move |(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some((index * 64 + bit) * 8)
            })
            .take_while(move |at| *at < end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_words_follows_from_the_bytes_of_both() {
        for bytes in 0..=ArgBlock::BYTES_MAX {
            let words = ArgBlock::relative_words(bytes);
            assert_eq!(ArgBlock::relative_words_within(bytes + words * 8), words, "{bytes}");
        }
        assert_eq!(ArgBlock::RELATIVE_WORDS_MAX, 8);
    }

    #[test]
    fn relative_words_are_found_up_to_the_blocks_end() {
        let bytes = [0; 1030];
        let block = ArgBlock { bytes: &bytes, slots: 2, relative: &[1 << 63 | 1, 1 << 63, 1 | 2] };
        assert!(block.is_sound());
        // Word 128 is beyond the block's end.
        assert_eq!(block.relative_offsets().collect::<Vec<_>>(), [0, 504, 1016]);
    }
}

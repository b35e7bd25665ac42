//! A launch of a CUDA kernel: grid, block and arguments by value, encoded as one private value of a region's argument block.
//!
//! A CPU device's region decodes it in its worker. A GPU's owner decodes it where it launches the kernel.

use crate::ArgBlock;

/// Indices of the head's words.
const LENGTH: usize = 0;
const GRID: usize = 1;
const BLOCK: usize = 4;
const SHARED: usize = 7;
const WAITS: usize = 8;
const SLOTS: usize = 9;
const ARGUMENTS: usize = 10;
const HEAD: usize = 11;

const WORD: usize = size_of::<u64>();
/// Words of a slot, and of an argument's description.
const PAIR: usize = 2;

/// A launch of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLaunch {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Whether threads of a block wait for each other.
    pub waits: bool,
    /// Variables of the region's object that a CPU device sets before the kernel runs: distances from the region, and values.
    pub slots: Vec<(i64, u64)>,
    /// The kernel's arguments, in order.
    pub arguments: Vec<KernelArgument>,
}

/// An argument of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelArgument {
    /// The bytes of its value.
    pub bytes: Vec<u8>,
    /// Whether the kernel gets the address of the bytes instead of them.
    pub by_address: bool,
}

impl KernelLaunch {
    /// Encodes the launch.
    #[must_use]
    pub fn encode(&self) -> Vec<u64> {
        let mut words = vec![0; HEAD];
        for axis in 0..3 {
            words[GRID + axis] = u64::from(self.grid[axis]);
            words[BLOCK + axis] = u64::from(self.block[axis]);
        }
        words[SHARED] = u64::from(self.shared);
        words[WAITS] = u64::from(self.waits);
        words[SLOTS] = self.slots.len() as u64;
        words[ARGUMENTS] = self.arguments.len() as u64;
        for (distance, value) in &self.slots {
            words.extend([distance.cast_unsigned(), *value]);
        }
        let first = words.len();
        words.resize(first + self.arguments.len() * PAIR, 0);
        for (at, argument) in self.arguments.iter().enumerate() {
            // Values are aligned to 16 bytes, as the launch itself is.
            words.resize(words.len().next_multiple_of(2), 0);
            words[first + at * PAIR] = (words.len() as u64) << 1 | u64::from(argument.by_address);
            words[first + at * PAIR + 1] = argument.bytes.len() as u64;
            for chunk in argument.bytes.chunks(WORD) {
                let mut word = [0; WORD];
                word[..chunk.len()].copy_from_slice(chunk);
                words.push(u64::from_ne_bytes(word));
            }
        }
        words[LENGTH] = words.len() as u64;
        words
    }
}

/// An encoded launch, whose sizes are consistent.
#[derive(Clone, Copy, Debug)]
pub struct EncodedLaunch<'a> {
    bytes: &'a [u8],
}

/// An argument of an encoded launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodedArgument<'a> {
    /// Offset of the value from the launch's first byte.
    pub at: usize,
    /// The bytes of the value.
    pub bytes: &'a [u8],
    /// Whether the kernel gets the address of the bytes instead of them.
    pub by_address: bool,
}

impl<'a> EncodedLaunch<'a> {
    /// Returns the number of bytes of a launch by its first word.
    #[must_use]
    pub fn length(first: u64) -> usize {
        usize::try_from(first).unwrap_or(usize::MAX).saturating_mul(WORD)
    }

    /// Reads a launch from untrusted bytes, which may be followed by others. Returns `None` if its sizes are inconsistent.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let first = bytes.first_chunk::<WORD>()?;
        let launch = Self { bytes: bytes.get(..Self::length(u64::from_ne_bytes(*first)))? };
        let pairs = launch.count(SLOTS)?.checked_add(launch.count(ARGUMENTS)?)?;
        let described = pairs.checked_mul(PAIR)?.checked_add(HEAD)?;
        if launch.bytes.len() / WORD < described {
            return None;
        }
        let fits = |argument: usize| {
            let (place, len) = launch.described(argument);
            let at = usize::try_from(place >> 1).ok()?.checked_mul(WORD)?;
            launch.bytes.get(at..at.checked_add(usize::try_from(len).ok()?)?)
        };
        (0..launch.word(ARGUMENTS) as usize).all(|argument| fits(argument).is_some()).then_some(launch)
    }

    /// Finds the launch in the argument block of a region with one slot, which leads to it. Returns it with its offset in the block, or
    /// `None` if the block contains none.
    #[must_use]
    pub fn of_block(block: &ArgBlock<'a>) -> Option<(usize, Self)> {
        let slot = block.bytes.first_chunk::<WORD>()?;
        if block.slots != 1 || block.relative.first()? & 1 == 0 {
            return None;
        }
        let at = usize::try_from(u64::from_ne_bytes(*slot)).ok()?;
        Some((at, Self::new(block.bytes.get(at..)?)?))
    }

    fn word(&self, index: usize) -> u64 {
        let at = index * WORD;
        self.bytes.get(at..at + WORD).map_or(0, |word| u64::from_ne_bytes(std::array::from_fn(|byte| word[byte])))
    }

    fn count(&self, index: usize) -> Option<usize> {
        (self.bytes.len() >= HEAD * WORD).then(|| usize::try_from(self.word(index)).ok()).flatten()
    }

    fn axes(&self, from: usize) -> [u32; 3] {
        [0, 1, 2].map(|axis| self.word(from + axis) as u32)
    }

    /// Returns the place word of an argument, and its length.
    fn described(&self, argument: usize) -> (u64, u64) {
        let at = HEAD + (self.word(SLOTS) as usize + argument) * PAIR;
        (self.word(at), self.word(at + 1))
    }

    /// Returns the blocks of the grid.
    #[must_use]
    pub fn grid(&self) -> [u32; 3] {
        self.axes(GRID)
    }

    /// Returns the threads of a block.
    #[must_use]
    pub fn block(&self) -> [u32; 3] {
        self.axes(BLOCK)
    }

    /// Returns the bytes of dynamic shared memory.
    #[must_use]
    pub fn shared(&self) -> u32 {
        self.word(SHARED) as u32
    }

    /// Whether threads of a block wait for each other.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.word(WAITS) != 0
    }

    /// Returns the variables of the region's object to set, and their values.
    pub fn slots(self) -> impl Iterator<Item = (i64, u64)> {
        let pair = move |slot: usize| HEAD + slot * PAIR;
        (0..self.word(SLOTS) as usize).map(move |slot| (self.word(pair(slot)).cast_signed(), self.word(pair(slot) + 1)))
    }

    /// Returns the arguments, in order.
    pub fn arguments(self) -> impl Iterator<Item = EncodedArgument<'a>> {
        (0..self.word(ARGUMENTS) as usize).map(move |argument| {
            let (place, len) = self.described(argument);
            let at = (place >> 1) as usize * WORD;
            EncodedArgument { at, bytes: &self.bytes[at..at + len as usize], by_address: place & 1 != 0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> KernelLaunch {
        let argument = |bytes: &[u8], by_address| KernelArgument { bytes: bytes.to_vec(), by_address };
        KernelLaunch {
            grid: [1, 2, 3],
            block: [4, 5, 6],
            shared: 7,
            waits: true,
            slots: vec![(-8, 9)],
            arguments: vec![argument(&[1, 2, 3, 4], false), argument(&[5; 20], true)],
        }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_decoded_launch_equals_the_encoded_one() {
        let words = launch().encode();
        assert_eq!(EncodedLaunch::length(words[0]), words.len() * 8);
        let bytes = bytes(&words);
        let read = EncodedLaunch::new(&bytes).unwrap();
        let arguments =
            read.arguments().map(|one| KernelArgument { bytes: one.bytes.to_vec(), by_address: one.by_address });
        let again = KernelLaunch {
            grid: read.grid(),
            block: read.block(),
            shared: read.shared(),
            waits: read.waits(),
            slots: read.slots().collect(),
            arguments: arguments.collect(),
        };
        assert_eq!(again, launch());
        assert!(read.arguments().all(|argument| argument.at.is_multiple_of(16)));
    }

    #[test]
    fn inconsistent_sizes_are_refused() {
        let words = launch().encode();
        assert!(EncodedLaunch::new(&bytes(&words[..words.len() - 1])).is_none());
        assert!(EncodedLaunch::new(&bytes(&[1])).is_none() && EncodedLaunch::new(&[]).is_none());
        // Every word of the head and of the descriptions, with values that overflow or lead out of the launch.
        for at in 0..HEAD + 6 {
            for value in [u64::MAX, 1 << 60, 1 << 32, 1000] {
                let mut changed = words.clone();
                changed[at] = value;
                let changed = bytes(&changed);
                if let Some(read) = EncodedLaunch::new(&changed) {
                    let read = (read.slots().count(), read.arguments().map(|one| one.bytes.len()).sum::<usize>());
                    assert!(read.1 < 1000, "{at} {value} {read:?}");
                }
            }
        }
    }

    #[test]
    fn a_block_leads_to_its_launch_by_a_relative_slot() {
        let launch = bytes(&launch().encode());
        let mut block = vec![0; 16];
        block[0] = 16;
        block.extend(&launch);
        let found = |slots, relative: &[u64], block: &[u8]| {
            EncodedLaunch::of_block(&ArgBlock { bytes: block, slots, relative }).map(|(at, launch)| (at, launch.grid()))
        };
        assert_eq!(found(1, &[1], &block), Some((16, [1, 2, 3])));
        assert_eq!(found(1, &[0], &block), None);
        assert_eq!(found(2, &[1], &block), None);
        block[0] = 240;
        assert_eq!(found(1, &[1], &block), None);
    }
}

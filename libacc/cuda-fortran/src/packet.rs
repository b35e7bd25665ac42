//! The encoding of a launch: words, so that decoding needs no allocation on the device.

/// Indices of the head's words.
const LENGTH: usize = 0;
const GRID: usize = 1;
const BLOCK: usize = 4;
const WAITS: usize = 7;
const SLOTS: usize = 8;
const PARAMETERS: usize = 9;
const HEAD: usize = 10;

/// A launch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Launch {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Whether threads of a block wait for each other.
    pub(crate) waits: bool,
    /// Distances of slots from the region, and their values.
    pub(crate) slots: Vec<(i64, u64)>,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Argument {
    pub(crate) bytes: Vec<u8>,
    /// Whether the kernel gets the address of the bytes instead of them.
    pub(crate) by_address: bool,
}

impl Launch {
    /// Encodes the launch.
    pub(crate) fn encode(&self) -> Vec<u64> {
        let mut words = vec![0; HEAD];
        for axis in 0..3 {
            words[GRID + axis] = u64::from(self.grid[axis]);
            words[BLOCK + axis] = u64::from(self.block[axis]);
        }
        words[WAITS] = u64::from(self.waits);
        words[SLOTS] = self.slots.len() as u64;
        words[PARAMETERS] = self.arguments.len() as u64;
        for (distance, address) in &self.slots {
            words.extend([distance.cast_unsigned(), *address]);
        }
        let first = words.len();
        words.resize(first + self.arguments.len(), 0);
        for (at, argument) in self.arguments.iter().enumerate() {
            words.resize(words.len().next_multiple_of(2), 0);
            words[first + at] = (words.len() as u64) << 1 | u64::from(argument.by_address);
            for chunk in argument.bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                words.push(u64::from_ne_bytes(word));
            }
        }
        words[LENGTH] = words.len() as u64;
        words
    }

    /// Returns the number of words of a launch, by its first word.
    pub(crate) fn length(first: u64) -> usize {
        first as usize
    }

    /// Decodes a launch without its arguments. Returns for each of them its word, and whether its address is passed.
    pub(crate) fn decode(words: &[u64]) -> Option<(Self, Vec<(usize, bool)>)> {
        let head = words.get(..HEAD)?;
        let axes = |from: usize| [0, 1, 2].map(|axis| head[from + axis] as u32);
        let mut rest = words[HEAD..].iter();
        let mut slots = Vec::new();
        for _ in 0..head[SLOTS] {
            slots.push((rest.next()?.cast_signed(), *rest.next()?));
        }
        let mut parameters = Vec::new();
        for _ in 0..head[PARAMETERS] {
            let word = rest.next()?;
            parameters.push(((word >> 1) as usize, word & 1 != 0));
        }
        if parameters.iter().any(|(at, _)| *at > words.len()) {
            return None;
        }
        let launch =
            Self { grid: axes(GRID), block: axes(BLOCK), waits: head[WAITS] != 0, slots, arguments: Vec::new() };
        Some((launch, parameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_is_what_was_encoded() {
        let argument = |bytes: &[u8], by_address| Argument { bytes: bytes.to_vec(), by_address };
        let launch = Launch {
            grid: [1, 2, 3],
            block: [4, 5, 6],
            waits: true,
            slots: vec![(-8, 9)],
            arguments: vec![argument(&[1, 2, 3, 4], false), argument(&[5; 20], true)],
        };
        let words = launch.encode();
        assert_eq!(Launch::length(words[0]), words.len());
        let (decoded, parameters) = Launch::decode(&words).unwrap();
        assert_eq!(Launch { arguments: launch.arguments.clone(), ..decoded }, launch);
        assert_eq!(words[parameters[0].0].to_ne_bytes()[..4], [1, 2, 3, 4]);
        assert!(parameters[1].1 && parameters[1].0.is_multiple_of(2));
        assert_eq!(words[parameters[1].0 + 2].to_ne_bytes()[..4], [5; 4]);
        assert!(Launch::decode(&words[..5]).is_none() && Launch::decode(&words[..12]).is_none());
    }
}

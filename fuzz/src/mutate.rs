//! Mutates inputs at random. Equal seeds give equal mutations.

use accord_test_tier::splitmix64;

/// A pseudo-random sequence (SplitMix64).
pub(crate) struct Chance(u64);

/// Numbers at which decoders fail often: ends of ranges, and lengths beyond any memory.
const NUMBERS: &[u64] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // The remainder fits into the type.
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Mutates `input` one to eight times. Some mutations insert parts of `other`.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&str], max: usize, chance: &mut Chance) {
    for _ in 0..=chance.below(8) {
        once(input, other, words, chance);
    }
    input.truncate(max);
}

fn once(input: &mut Vec<u8>, other: &[u8], words: &[&str], chance: &mut Chance) {
    let at = chance.below(input.len() + 1);
    let len = chance.below(16.min(input.len() - at) + 1);
    match chance.below(12) {
        0 => flip(input, at, 1 << chance.below(8)),
        1 => flip(input, at, chance.next().to_le_bytes()[0]),
        2 | 3 => number(input, at, chance),
        4 => step(input, at, chance),
        5 => drop(input.drain(at..at + len)),
        6 => input.truncate(at),
        7 => {
            let piece = input[at..at + len].to_vec();
            insert(input, chance.below(input.len() + 1), &piece);
        }
        8 => {
            let from = chance.below(other.len());
            let until = from + chance.below(64.min(other.len() - from) + 1);
            insert(input, at, &other[from..until]);
        }
        9 => {
            // Combines the head of one input with the tail of the other.
            input.truncate(at);
            input.extend_from_slice(&other[chance.below(other.len())..]);
        }
        10 => {
            let bytes = chance.next().to_le_bytes();
            insert(input, at, &bytes[..chance.below(8) + 1]);
        }
        _ => match chance.of(words) {
            Some(word) if chance.below(2) == 0 => insert(input, at, word.as_bytes()),
            Some(word) => overwrite(input, at, word.as_bytes()),
            None => number(input, at, chance),
        },
    }
}

fn flip(input: &mut [u8], at: usize, bits: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bits;
    }
}

/// Writes one of the numbers in one of the widths, half of the time at an aligned position.
fn number(input: &mut [u8], at: usize, chance: &mut Chance) {
    let value = chance.of(NUMBERS).copied().unwrap_or(0);
    let width = 1 << chance.below(4);
    let at = if chance.below(2) == 0 { at } else { at / width * width };
    overwrite(input, at, &value.to_le_bytes()[..width]);
}

/// Adds a small number to the number at a position, or subtracts it.
fn step(input: &mut [u8], at: usize, chance: &mut Chance) {
    let by = chance.below(33) as i64 - 16;
    if let Some(bytes) = input.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *bytes =
            i64::from(u32::from_le_bytes(*bytes)).wrapping_add(by).to_le_bytes()[..4].try_into().unwrap_or_default();
    }
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in input.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

//! Every decoder that sees foreign bytes, fed with changed ones.
//!
//! A [`Target`] is a plain function that takes any bytes. It decodes them, and what it can decode it encodes and decodes
//! again. The driver changes valid inputs by chance, from a seed. Whatever comes, a decoder must not panic, must not take memory
//! for lengths that are only announced, and must come to an end.
//!
//! What an input makes its decoder allocate is a weak sign of how far it got, and serves a test run ([`drive`]). Builds that count which places
//! of the code run go by those ([`coverage`]); what they find beyond the seeds is kept in [`corpus`].

mod allocations;
pub mod corpus;
mod coverage;
mod drive;
mod mutate;
mod targets;

pub use drive::{Budget, CORPUS_BYTES_MAX, CORPUS_MAX, Failure, check, collect, drive};
pub use targets::ALL;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// The seed of a test run's inputs.
pub const TEST_SEED: u64 = 1;

/// One decoder, or several that belong together.
pub struct Target {
    /// Its name, and that of its file in `fuzz/corpus`.
    pub name: &'static str,
    /// Takes any bytes. A panic is a find.
    pub run: fn(&[u8]),
    /// Valid inputs, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What its format has: put into inputs as a whole.
    pub words: &'static [&'static str],
    /// Longest input, in bytes.
    pub input_max: usize,
    /// Memory that one input may take.
    pub memory: Memory,
    /// Inputs of a test run, for about two seconds.
    pub inputs: u32,
}

/// Most memory that is taken at one time: so much, and so much for each byte of input.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes in any case.
    pub fixed: usize,
    /// Bytes for each byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// The bound for an input.
    pub fn bound(self, input: usize) -> usize {
        self.fixed + self.per_byte * input
    }
}

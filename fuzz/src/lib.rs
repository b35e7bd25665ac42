//! Fuzzes every decoder of foreign bytes.
//!
//! A [`Target`] is a function that accepts any bytes. It decodes them, encodes the result, and decodes that again.
//! The driver mutates valid inputs at random, from a seed. For any input a decoder must not panic, must not allocate memory
//! for announced lengths, and must terminate.
//!
//! The allocations of a decoder are a weak measure of its progress, which test runs use ([`drive`]). Builds with coverage counters use the code that
//! was reached ([`coverage`]). Inputs that reach more than the seeds are kept in [`corpus`].

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

/// One decoder, or several related ones.
pub struct Target {
    /// Its name, and that of its file in `fuzz/corpus`.
    pub name: &'static str,
    /// Runs the decoder with any bytes. A panic is a failure.
    pub run: fn(&[u8]),
    /// Returns valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Tokens of the format, which mutations insert as a whole.
    pub words: &'static [&'static str],
    /// Longest input, in bytes.
    pub input_max: usize,
    /// Bound of the memory for one input.
    pub memory: Memory,
    /// Number of inputs of a test run, which takes about two seconds.
    pub inputs: u32,
}

/// The bound of memory at one time: a constant, and a factor of the input's length.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The constant, in bytes.
    pub fixed: usize,
    /// Bytes per byte of input.
    pub per_byte: usize,
}

impl Memory {
    /// Returns the bound for an input.
    pub fn bound(self, input: usize) -> usize {
        self.fixed + self.per_byte * input
    }
}

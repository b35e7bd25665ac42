//! What a launch carries.

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

/// The argument block of a region: first `slots` 64-bit slots, one for each mapped entry,
/// then the bytes of small private values (scalars, pointer cells) that travel with the launch.
///
/// A slot whose bit is set in `relative` holds an offset from the block's start;
/// whoever runs the region adds the block's address to it, wherever the block is then.
#[derive(Clone, Copy, Debug)]
pub struct ArgBlock<'a> {
    /// Slots and private bytes. Private values are 16-byte aligned in it.
    pub bytes: &'a [u8],
    /// Number of slots.
    pub slots: u32,
    /// Bit i of word i/64 is set if slot i is relative; `slots.div_ceil(64)` words.
    pub relative: &'a [u64],
}

impl ArgBlock<'_> {
    /// Largest block that a launch carries, in bytes. CUDA's parameter space holds 4 KiB.
    pub const BYTES_MAX: usize = 4096;
}

//! A region as a device has found it, and the argument block of a launch that waits for its turn.

use super::gangs::Gangs;
use crate::cpu::symbol;
use crate::image::{BlockLayout, GangCount};
use accord_types::ArgBlock;
use cudarc::driver::sys::CUfunction;

/// A region that a device has looked up.
pub(crate) struct Function {
    /// Its name for people.
    pub(crate) name: String,
    /// Where its host version is: object and offset.
    pub(crate) place: (String, u64),
    pub(crate) raw: CUfunction,
    /// How its parameter is laid out, if it takes its block so.
    pub(crate) layout: Option<BlockLayout>,
    /// What the compiler has fixed; 0 is open.
    pub(crate) dims: [u32; 3],
    /// What the code counts on, where the image can't say it.
    pub(crate) count: GangCount,
    /// Largest number of threads of a gang.
    pub(crate) threads_max: u32,
    pub(crate) occupancy: Occupancy,
    /// How many, where that is open.
    pub(crate) gangs: Gangs,
}

// SAFETY: functions may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// `region main._omp_fn.0 (main.c:12, /path/program+0x1234)`
    pub(crate) fn describe(&self) -> String {
        let (path, offset) = &self.place;
        let position = symbol::position(path, *offset).map_or(String::new(), |position| format!("{position}, "));
        format!("region {} ({position}{path}+{offset:#x})", self.name)
    }
}

/// What fills the device, as the driver says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Occupancy {
    /// Gangs, and threads of each.
    pub(crate) grid: u32,
    pub(crate) block: u32,
}

/// A launch's argument block, kept until the launch's turn.
pub(crate) struct OwnedBlock {
    bytes: Vec<u8>,
    slots: u32,
    relative: Vec<u64>,
}

impl OwnedBlock {
    pub(crate) fn new(block: &ArgBlock<'_>) -> Self {
        Self { bytes: block.bytes.to_vec(), slots: block.slots, relative: block.relative.to_vec() }
    }

    pub(crate) fn get(&self) -> ArgBlock<'_> {
        ArgBlock { bytes: &self.bytes, slots: self.slots, relative: &self.relative }
    }
}

//! A region or kernel as the device resolved it, and the argument block of a pending launch.

use super::gangs::Gangs;
use accord_device::cpu::source_position;
use accord_image::{BlockLayout, EntryParameters, GangCount};
use accord_types::ArgBlock;
use accord_types::os_text;
use cudarc::driver::sys::CUfunction;

/// A region or kernel that a device has looked up.
pub(crate) struct Function {
    /// The region's name in messages.
    pub(crate) name: String,
    /// The location of its host version: object and offset.
    pub(crate) place: (String, u64),
    pub(crate) raw: CUfunction,
    pub(crate) parameters: Parameters,
    /// Dimensions fixed by the compiler; 0 if open.
    pub(crate) dims: [u32; 3],
    /// The number of gangs that the code relies on, where the image does not state it.
    pub(crate) count: GangCount,
    /// Most threads of a gang.
    pub(crate) threads_max: u32,
    pub(crate) occupancy: Occupancy,
    /// The blocks that fill the device if several gangs share one; `None` if they can't, or if that does not allow more
    /// gangs.
    pub(crate) blocks: Option<GangBlocks>,
    /// The number of gangs, if it is open.
    pub(crate) gangs: Gangs,
}

/// The form in which a function takes what a launch passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Parameters {
    /// The address of the argument block, in device memory.
    BlockAddress,
    /// The argument block.
    Block(BlockLayout),
    /// The arguments of a CUDA kernel.
    Kernel(KernelParameters),
}

/// The parameters of a CUDA kernel, and the limits of its launches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KernelParameters {
    pub(crate) entry: EntryParameters,
    /// Most bytes of dynamic shared memory.
    pub(crate) shared_max: u32,
}

// SAFETY: functions may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Whether this is a CUDA kernel, whose launches bring their own dimensions.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self.parameters, Parameters::Kernel(_))
    }

    /// Formats `region main._omp_fn.0 (main.c:12, /path/program+0x1234)`.
    pub(crate) fn describe(&self) -> String {
        let (path, offset) = &self.place;
        let position = source_position(path, *offset).map_or(String::new(), |position| format!("{position}, "));
        format!("region {} ({position}{}+{offset:#x})", self.name, os_text::displayed(path))
    }
}

/// The launch that fills the device, by the driver's calculation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Occupancy {
    /// Number of gangs, and threads of each.
    pub(crate) grid: u32,
    pub(crate) block: u32,
}

/// Gangs of one warp in thread blocks of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GangBlocks {
    /// Gangs per block: a power of two.
    pub(crate) each: u32,
    /// Gangs that fit on the device at a time.
    pub(crate) places: u32,
}

impl GangBlocks {
    /// Returns the blocks with which a multiprocessor holds most gangs, or `None` if blocks of one gang hold as many. `fitting` returns how many blocks of so
    /// many gangs fit.
    pub(crate) fn choose(multiprocessors: u32, fitting: impl Fn(u32) -> u32) -> Option<Self> {
        /// The first of the best sizes is chosen. A block leaves when its last gang is done, so that smaller ones precede.
        const SIZES: [u32; 4] = [4, 8, 16, 2];
        let held = SIZES.map(|each| (fitting(each) * each, each));
        let (most, each) =
            held.into_iter().fold((fitting(1), 1), |best, next| if next.0 > best.0 { next } else { best });
        (each > 1).then_some(Self { each, places: most * multiprocessors })
    }

    /// Returns the number of gangs in a block for so many gangs in all, which is a multiple of it.
    pub(crate) fn of(&self, gangs: u32) -> u32 {
        self.each.min(1 << gangs.trailing_zeros().min(31))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_share_blocks_where_a_multiprocessor_then_holds_more() {
        // At most 32 blocks, and so many warps by their registers.
        let holding = |warps: u32| GangBlocks::choose(132, |gangs| (warps / gangs).min(32));
        assert_eq!(holding(64), Some(GangBlocks { each: 4, places: 132 * 64 }));
        assert_eq!(holding(48), Some(GangBlocks { each: 4, places: 132 * 48 }));
        assert_eq!(holding(42), Some(GangBlocks { each: 2, places: 132 * 42 }), "10 blocks of 4 are 40");
        assert_eq!(holding(32), None);
        assert_eq!(holding(24), None);
    }

    #[test]
    fn all_blocks_are_full() {
        let blocks = GangBlocks { each: 4, places: 8448 };
        assert_eq!([16_896, 8448, 4226, 4225, 1].map(|gangs| blocks.of(gangs)), [4, 4, 2, 1, 1]);
    }
}

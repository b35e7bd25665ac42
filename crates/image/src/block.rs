//! The layout of a launch's argument block in a rewritten kernel's parameter space.

use accord_types::ArgBlock;

/// The offsets of a block's parts in the kernel's one parameter:
///
/// ```text
/// 0            slots that the kernel reads, 8 bytes each
/// mask_at      one bit per slot: its value is relative to the parameter's address
/// private_at   small private values, at the same offsets modulo 16 as in the block
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockLayout {
    /// Number of slots that the kernel reads.
    pub slots: u32,
    /// Offset of the mask.
    pub mask_at: u32,
    /// Offset of the private values.
    pub private_at: u32,
    /// Size of the parameter.
    pub bytes: u32,
}

/// The outcome of [`BlockLayout::pack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packed {
    /// The parameter holds the whole block.
    Whole,
    /// The private values don't fit, or contain pointers to each other. The caller copies the block to device memory, with
    /// absolute addresses in its relative words, and packs again with that address.
    BlockApart,
}

impl BlockLayout {
    /// Largest parameter that every driver accepts.
    pub const BYTES_MAX: usize = 4096;
    /// Space for each slot's private value, and least space for all together.
    const PRIVATE_PER_SLOT: u32 = 32;
    const PRIVATE_MIN: u32 = 64;

    /// The layout for a kernel that reads `slots` slots.
    pub fn new(slots: u32) -> Option<Self> {
        if slots as usize > Self::BYTES_MAX / 8 {
            return None;
        }
        let mask_at = slots * 8;
        let private_at = (mask_at + slots.div_ceil(64) * 8).next_multiple_of(16);
        let private = (slots * Self::PRIVATE_PER_SLOT).max(Self::PRIVATE_MIN);
        let bytes = (private_at + private).min(Self::BYTES_MAX as u32);
        (private_at + Self::PRIVATE_MIN <= bytes).then_some(Self { slots, mask_at, private_at, bytes })
    }

    /// Packs `block` into `parameter`, which has at least [`BlockLayout::bytes`]. With `at`, the device address of a copy of the
    /// whole block, relative slots point there. Without it the parameter includes the values. The block must be valid.
    pub fn pack(&self, block: &ArgBlock<'_>, at: Option<u64>, parameter: &mut [u8]) -> Packed {
        let slots = block.slots as usize;
        let read = slots.min(self.slots as usize);
        let (slot_bytes, private) = block.bytes.split_at(slots * 8);
        parameter[..read * 8].copy_from_slice(&slot_bytes[..read * 8]);
        let mask = &mut parameter[self.mask_at as usize..][..(self.slots as usize).div_ceil(64) * 8];
        mask.fill(0);
        if block.relative.iter().all(|word| *word == 0) {
            return Packed::Whole;
        }
        // The part of the block from `origin` on moves to `private_at`: both are multiples of 16.
        let origin = slots * 8 / 16 * 16;
        let to = self.private_at as usize + slots * 8 - origin;
        if at.is_none() {
            // The kernel's first instructions know of slots only.
            if to + private.len() > self.bytes as usize || block.relative_offsets().any(|at| at >= slots * 8) {
                return Packed::BlockApart;
            }
            for (word, bytes) in block.relative.iter().zip(mask.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            parameter[to..to + private.len()].copy_from_slice(private);
        }
        for slot in block.relative_offsets().take_while(|slot| *slot < read * 8) {
            let cell = &mut parameter[slot..slot + 8];
            let mut offset = [0; 8];
            offset.copy_from_slice(cell);
            let offset = u64::from_ne_bytes(offset);
            let value = match at {
                Some(at) => at.wrapping_add(offset),
                None => offset.wrapping_sub(origin as u64).wrapping_add(self.private_at.into()),
            };
            cell.copy_from_slice(&value.to_ne_bytes());
        }
        Packed::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Performs the rewritten kernel's first instructions. Returns the slots that the region sees.
    fn kernel_slots(layout: &BlockLayout, parameter: &[u8], address: u64) -> Vec<u64> {
        let word = |at: usize| u64::from_ne_bytes(parameter[at..at + 8].try_into().unwrap());
        (0..layout.slots as usize)
            .map(|slot| {
                let bit = word(layout.mask_at as usize + slot / 64 * 8) >> (slot % 64) & 1;
                word(slot * 8).wrapping_add(bit * address)
            })
            .collect()
    }

    #[test]
    fn the_parts_dont_overlap() {
        for slots in 0..200 {
            let Some(layout) = BlockLayout::new(slots) else { continue };
            assert!(layout.mask_at >= slots * 8);
            assert!(layout.private_at >= layout.mask_at + slots.div_ceil(64) * 8);
            assert!(layout.bytes <= 4096 && layout.private_at % 16 == 0, "{layout:?}");
        }
        assert!(BlockLayout::new(6).is_some() && BlockLayout::new(1000).is_none());
        // Values as in a damaged PTX text.
        assert!([1 << 29, 1 << 31, u32::MAX].into_iter().all(|slots| BlockLayout::new(slots).is_none()));
    }

    #[test]
    fn private_pointers_need_a_block_with_an_address() {
        // Slot 0 points to the pointer at 16, which points to the value at 24.
        let bytes: Vec<u8> = [16u64, 5, 24, 7].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let block = ArgBlock { bytes: &bytes, slots: 2, relative: &[0b101] };
        let layout = BlockLayout::new(2).unwrap();
        let mut parameter = vec![0xaa; layout.bytes as usize];
        assert_eq!(layout.pack(&block, None, &mut parameter), Packed::BlockApart);
        assert_eq!(layout.pack(&block, Some(1 << 50), &mut parameter), Packed::Whole);
        assert_eq!(kernel_slots(&layout, &parameter, 0x1230), [(1 << 50) + 16, 5]);
    }

    proptest! {
        #[test]
        fn a_region_finds_its_values_wherever_the_parameter_is(
            values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 1..24)), 1..90),
            unread in 0u32..3,
            address in (0u64..1 << 40).prop_map(|a| a * 16),
        ) {
            let slots = values.len();
            let mut bytes = vec![0u8; slots * 8];
            let mut relative = vec![0u64; ArgBlock::relative_words(ArgBlock::BYTES_MAX)];
            for (slot, value) in values.iter().enumerate() {
                let word = match value {
                    None => 0x7000_0000 + slot as u64,
                    Some(value) => {
                        let at = bytes.len().next_multiple_of(16);
                        bytes.resize(at, 0xee);
                        bytes.extend_from_slice(value);
                        relative[slot / 64] |= 1 << (slot % 64);
                        at as u64
                    }
                };
                bytes[slot * 8..][..8].copy_from_slice(&word.to_ne_bytes());
            }
            relative.truncate(ArgBlock::relative_words(bytes.len()));
            let block = ArgBlock { bytes: &bytes, slots: slots as u32, relative: &relative };
            let layout = BlockLayout::new((slots as u32).saturating_sub(unread).max(1)).unwrap();
            let mut parameter = vec![0xaa; layout.bytes as usize];
            let (at, memory): (u64, &[u8]) = match layout.pack(&block, None, &mut parameter) {
                Packed::Whole => (address, &parameter),
                Packed::BlockApart => {
                    prop_assert_eq!(layout.pack(&block, Some(1 << 50), &mut parameter), Packed::Whole);
                    (1 << 50, &bytes)
                }
            };
            for (slot, seen) in kernel_slots(&layout, &parameter, address).into_iter().enumerate() {
                match &values[slot] {
                    None => prop_assert_eq!(seen, 0x7000_0000 + slot as u64),
                    Some(value) => {
                        prop_assert_eq!(seen % 16, 0);
                        prop_assert_eq!(&memory[(seen - at) as usize..][..value.len()], &value[..]);
                    }
                }
            }
        }
    }
}

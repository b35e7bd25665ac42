//! Builds the argument block of a launch, in buffers that are used again and again.

use accord_types::{ArgBlock, Error, ErrorCode, Result};

/// Alignment of private values.
const ALIGN: usize = 16;
/// Bytes of a slot.
const SLOT: usize = 8;

/// See [`ArgBlock`].
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    relative: Vec<u64>,
    slots: usize,
}

impl Block {
    /// Starts a block with `slots` slots, all null.
    ///
    /// # Errors
    /// `acc_error_invalid_argument` if a launch can't carry that many.
    pub(crate) fn begin(&mut self, slots: usize) -> Result<()> {
        if slots * SLOT > ArgBlock::BYTES_MAX {
            let cause = format!("the construct maps {slots} entries; a launch carries {}", ArgBlock::BYTES_MAX / SLOT);
            return Err(Error::new(ErrorCode::InvalidArgument, cause)
                .remedy("put variables into a structure, or the construct's parts into constructs of their own"));
        }
        self.slots = slots;
        self.bytes.clear();
        self.bytes.resize(slots * SLOT, 0);
        self.relative.clear();
        self.relative.resize(slots.div_ceil(64), 0);
        Ok(())
    }

    /// Sets a slot to a device address or a value.
    pub(crate) fn set(&mut self, slot: usize, value: u64) {
        self.bytes[slot * SLOT..][..SLOT].copy_from_slice(&value.to_ne_bytes());
    }

    /// Points a slot at a private value in the block.
    pub(crate) fn set_private(&mut self, slot: usize, at: usize) {
        self.set(slot, at as u64);
        self.relative[slot / 64] |= 1 << (slot % 64);
    }

    /// Room for a private value of `len` bytes: its offset, or none if the block would be too large.
    pub(crate) fn reserve(&mut self, len: usize) -> Option<usize> {
        let at = self.bytes.len().next_multiple_of(ALIGN);
        if at + len > ArgBlock::BYTES_MAX {
            return None;
        }
        self.bytes.resize(at + len, 0);
        Some(at)
    }

    /// The bytes of a private value.
    pub(crate) fn private(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[at..at + len]
    }

    /// What a launch carries.
    pub(crate) fn finish(&self) -> ArgBlock<'_> {
        // `begin` has bounded the number of slots.
        ArgBlock { bytes: &self.bytes, slots: self.slots as u32, relative: &self.relative }
    }
}

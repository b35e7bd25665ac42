//! Builds the argument block of a launch, in buffers that are reused.

use accord_types::{ArgBlock, DevicePtr, Error, ErrorCode, Result};

/// Alignment of private values.
const ALIGN: usize = 16;
/// Bytes of a slot.
const SLOT: usize = 8;

/// A pointer variable or a descriptor of the program, for one launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Private {
    /// Address in the program.
    pub(super) host: usize,
    pub(super) len: usize,
    pub(super) place: ArgLocation,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ArgLocation {
    /// Offset in the block.
    Block(usize),
    /// In device memory, as the block has no space for it.
    Device(DevicePtr),
}

/// The argument block of a launch, see [`ArgBlock`].
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    relative: Vec<u64>,
    slots: usize,
    /// The private values that pointers of the construct may point at.
    pub(super) privates: Vec<Private>,
}

impl Block {
    /// Starts a block with `slots` slots, all null.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if a launch can't carry that many.
    pub(crate) fn begin(&mut self, slots: usize) -> Result<()> {
        if slots * SLOT > ArgBlock::BYTES_MAX {
            let cause = format!("the construct maps {slots} entries; a launch carries {}", ArgBlock::BYTES_MAX / SLOT);
            return Err(Error::new(ErrorCode::InvalidArgument, cause)
                .remedy("put variables into a structure, or the construct's parts into constructs of their own"));
        }
        self.slots = slots;
        self.bytes.clear();
        self.bytes.resize(slots * SLOT, 0);
        self.privates.clear();
        self.relative.clear();
        self.relative.resize(ArgBlock::relative_words(self.bytes.len()), 0);
        Ok(())
    }

    /// Sets a slot to a device address or a value.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, value: u64) {
        self.bytes[slot * SLOT..][..SLOT].copy_from_slice(&value.to_ne_bytes());
    }

    /// Returns the value of a slot, or null.
    pub(super) fn value(&self, slot: usize) -> u64 {
        let bytes = self.bytes.get(slot * SLOT..(slot + 1) * SLOT).unwrap_or(&[0; SLOT]);
        u64::from_ne_bytes(std::array::from_fn(|k| bytes[k]))
    }

    /// Whether a slot was set, to other than null.
    #[inline]
    pub(crate) fn is_set(&self, slot: usize) -> bool {
        self.bytes.get(slot * SLOT..(slot + 1) * SLOT).is_some_and(|slot| slot != [0; SLOT])
    }

    /// Points a slot at a private value in the block.
    pub(crate) fn set_private(&mut self, slot: usize, at: usize) {
        self.point(slot * SLOT, at);
    }

    /// Points the pointer at `pointer`, a multiple of 8, at a private value in the block.
    pub(crate) fn point(&mut self, pointer: usize, at: usize) {
        self.bytes[pointer..][..SLOT].copy_from_slice(&(at as u64).to_ne_bytes());
        let word = pointer / SLOT;
        self.relative[word / 64] |= 1 << (word % 64);
    }

    /// Reserves space for a private value of `len` bytes. Returns its offset, or none if the block would be too large.
    pub(crate) fn reserve(&mut self, len: usize) -> Option<usize> {
        let at = self.bytes.len().next_multiple_of(ALIGN);
        if at + len > ArgBlock::BYTES_MAX {
            return None;
        }
        self.bytes.resize(at + len, 0);
        self.relative.resize(ArgBlock::relative_words(self.bytes.len()), 0);
        Some(at)
    }

    /// The bytes of a private value.
    pub(crate) fn private(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[at..at + len]
    }

    /// Returns the places of relative pointers among `len` bytes from `at` on.
    pub(crate) fn pointers(&self, at: usize, len: usize) -> Vec<usize> {
        let end = at + len;
        self.finish()
            .relative_offsets()
            .skip_while(|pointer| *pointer < at)
            .take_while(|pointer| *pointer < end)
            .collect()
    }

    /// Returns the block for a launch.
    pub(crate) fn finish(&self) -> ArgBlock<'_> {
        // `begin` has bounded the number of slots.
        ArgBlock { bytes: &self.bytes, slots: self.slots as u32, relative: &self.relative }
    }
}

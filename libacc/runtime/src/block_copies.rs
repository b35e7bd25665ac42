//! Copies of blocks for one launch: `construct/unmapped.rs`.
//!
//! The program may use other parts of a block meanwhile, and so may regions of other threads and other devices. So the device gets
//! a copy of the block as of the call, and only bytes that differ from that afterwards are written back.

use crate::device::WaitingCalls;
use crate::plan::BlockCopy;
use crate::ports::{HostMemory, ReadWhen};
use crate::present::Attachment;
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, HostRange, QueueId, Result};
use smallvec::SmallVec;

/// Buffers of earlier launches: a block is usually copied again.
#[derive(Default)]
pub(crate) struct SpareBuffers(ShortLock<Vec<Spare>>);

/// Most buffers that are kept, and most bytes of all of them. Larger copies take long anyway.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 16 << 20;

#[derive(Clone, Copy)]
struct Spare {
    address: usize,
    bytes: usize,
}

impl SpareBuffers {
    /// The smallest that is large enough.
    fn take(&self, bytes: usize) -> Option<Spare> {
        let mut all = self.0.lock();
        let fits = all.iter().enumerate().filter(|(_, one)| one.bytes >= bytes);
        let at = fits.min_by_key(|(_, one)| one.bytes)?.0;
        Some(all.swap_remove(at))
    }

    /// Keeps a buffer; false if there are enough.
    fn keep(&self, one: Spare) -> bool {
        let mut all = self.0.lock();
        let kept: usize = all.iter().map(|one| one.bytes).sum();
        let space = all.len() < SPARE_MAX && one.bytes <= SPARE_BYTES_MAX.saturating_sub(kept);
        if space {
            all.push(one);
        }
        space
    }
}

/// Buffers for the copies of one launch. They are neither reused nor freed if the launch failed: copies may still be running.
pub(crate) struct Buffers<'a> {
    host: &'a dyn HostMemory,
    spare: &'a SpareBuffers,
    copied: SmallVec<[BlockBuffer; BLOCKS_INLINE]>,
}

/// Launches with more blocks allocate a list of them.
const BLOCKS_INLINE: usize = 4;

struct BlockBuffer {
    block_copy: BlockCopy,
    /// The block's bytes at the call, followed by its bytes after the region.
    buffer: usize,
    /// Its length, which may be more than the block takes.
    space: usize,
}

impl<'a> Buffers<'a> {
    /// Copies the blocks' bytes into buffers.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` if there is no memory for a copy.
    pub(crate) fn take(host: &'a dyn HostMemory, spare: &'a SpareBuffers, block_copies: &[BlockCopy]) -> Result<Self> {
        let mut buffers = Self { host, spare, copied: SmallVec::new() };
        for block_copy in block_copies {
            let bytes = block_copy.block.len;
            let space = bytes.saturating_mul(2);
            let known = spare.take(space);
            let Spare { address: buffer, bytes: space } =
                known.unwrap_or_else(|| Spare { address: host.allocate(space), bytes: space });
            if buffer == 0 {
                buffers.free();
                let cause = format!("the program has no memory for two copies of a block of {bytes} bytes");
                return Err(Error::new(ErrorCode::OutOfMemory, cause).remedy(
                    "map what the region needs by a data clause: ACCORD_UNMAPPED=map lends it the whole block",
                ));
            }
            host.copy(buffer, block_copy.block.start, bytes);
            buffers.copied.push(BlockBuffer { block_copy: *block_copy, buffer, space });
        }
        Ok(buffers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.copied.is_empty()
    }

    /// Copies them to the device before the launch.
    ///
    /// # Errors
    /// Returns the errors of [`crate::ports::DeviceClient`].
    pub(crate) fn copy_in(&self, client: &WaitingCalls<'_>, queue: QueueId) -> Result<()> {
        self.copied.iter().try_for_each(|copied| {
            let src = HostRange { start: copied.buffer, len: copied.block_copy.block.len };
            client.copy_in(queue, copied.block_copy.device, src, ReadWhen::InOrder)
        })
    }

    /// Copies them back after the launch.
    ///
    /// # Errors
    /// Returns the errors of [`crate::ports::DeviceClient`].
    pub(crate) fn copy_out(&self, client: &WaitingCalls<'_>, queue: QueueId) -> Result<()> {
        self.copied.iter().try_for_each(|copied| {
            let len = copied.block_copy.block.len;
            client.copy_out(queue, copied.block_copy.device, HostRange { start: copied.buffer + len, len })
        })
    }

    /// Writes back the region's changes after the queue was waited for, but for the pointers at `kept`.
    pub(crate) fn merge(mut self, kept: &[usize]) {
        for BlockBuffer { block_copy: BlockCopy { block, .. }, buffer, .. } in &self.copied {
            for (from, to) in between(*block, kept) {
                let before = buffer + from;
                self.host.merge(block.start + from, before, before + block.len, to - from);
            }
        }
        self.free();
    }

    fn free(&mut self) {
        for copied in self.copied.drain(..) {
            if !self.spare.keep(Spare { address: copied.buffer, bytes: copied.space }) {
                self.host.free(copied.buffer);
            }
        }
    }
}

/// Returns the parts of a block around pointers in it: offsets of their starts and ends. `pointers` of one block are in order.
fn between(block: HostRange, pointers: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let inside = move |pointer: &&usize| pointer.wrapping_sub(block.start) < block.len;
    let offsets = pointers.iter().filter(inside).map(move |pointer| pointer - block.start);
    let mut from = 0;
    offsets.chain([block.len]).filter_map(move |to| {
        let part = (from, to);
        from = to + Attachment::BYTES;
        (part.0 < part.1).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_of_the_program_are_left_alone() {
        let block = HostRange { start: 0x1000, len: 64 };
        let parts = |pointers: &[usize]| between(block, pointers).collect::<Vec<_>>();
        assert_eq!(parts(&[]), [(0, 64)]);
        assert_eq!(parts(&[0x0ff8, 0x1000, 0x1010, 0x1018, 0x1038, 0x1040]), [(8, 16), (32, 56)]);
    }

    #[test]
    fn the_smallest_that_fits_is_used_again_and_not_all_are_kept() {
        let spare = SpareBuffers::default();
        for bytes in [300, 100, 200] {
            assert!(spare.keep(Spare { address: bytes, bytes }));
        }
        assert_eq!(spare.take(150).map(|one| one.address), Some(200));
        assert_eq!(spare.take(150).map(|one| one.address), Some(300));
        assert!(spare.take(150).is_none());
        assert!(spare.keep(Spare { address: 1, bytes: SPARE_BYTES_MAX - 100 }));
        assert!(!spare.keep(Spare { address: 2, bytes: 1 }), "too many bytes");
        assert!(spare.take(SPARE_BYTES_MAX - 100).is_some());
        let kept = (0..).take_while(|n| spare.keep(Spare { address: *n, bytes: 1 })).count();
        assert_eq!(kept, SPARE_MAX - 1);
    }
}

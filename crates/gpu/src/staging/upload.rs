//! Divides a copy of the program's pageable memory to the device into slots, each of which is a transfer. Threads fill the
//! parts of a slot.

use super::progress::{CopyError, PART_MAX, PART_MIN, Tracker};
use super::slot_pool::{IN_SLOT, Slot, SlotPool};
use crate::context::Context;
use crate::driver::DriverError;
use crate::memory_uses::MemoryUses;
use accord_types::short_lock::ShortLock;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Least bytes of a separate transfer to the device, if there are more: the engines pause between two.
const TRANSFER_MIN: usize = 512 << 10;
/// The least number of transfers, so that the first begins early.
const TRANSFERS_MIN: usize = 8;

/// The part of a copy that is not in slots yet.
pub(crate) struct Upload {
    rest: Piece,
    /// Lengths of a transfer and of its parts.
    transfer: usize,
    part: usize,
    slots: Arc<SlotPool>,
    pub(crate) tracker: Arc<Tracker>,
    /// Whether a thread is about to get a slot for the copy.
    taken: bool,
}

/// Bytes of the program, and their target.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    len: usize,
    to: CUdeviceptr,
    stream: CUstream,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

/// A transfer that needs a slot.
pub(crate) struct SlotRequest {
    piece: Piece,
    part: usize,
    slots: Arc<SlotPool>,
    pub(crate) tracker: Arc<Tracker>,
}

/// A slot that is being filled.
pub(crate) struct Filling {
    piece: Piece,
    part: usize,
    memory: usize,
    /// Number of unfilled parts.
    left: AtomicUsize,
    /// The slot, for the thread that completes the last part.
    slot: ShortLock<Option<Slot>>,
    pub(crate) tracker: Arc<Tracker>,
}

impl Upload {
    /// Creates an upload for `width` threads at a time.
    pub(crate) fn new(
        from: usize,
        len: usize,
        to: CUdeviceptr,
        stream: CUstream,
        slots: &Arc<SlotPool>,
        width: usize,
    ) -> Self {
        let transfer = (len / TRANSFERS_MIN).next_multiple_of(PART_MIN).clamp(TRANSFER_MIN, IN_SLOT);
        let part = (transfer / width).next_multiple_of(PART_MIN).clamp(PART_MIN, PART_MAX);
        Self {
            rest: Piece { from, len, to, stream },
            transfer,
            part,
            slots: Arc::clone(slots),
            tracker: Tracker::new(len.div_ceil(transfer)),
            taken: false,
        }
    }

    /// Returns the next transfer, if any, unless a thread is already getting a slot.
    pub(crate) fn take(&mut self) -> Option<SlotRequest> {
        if self.taken || self.rest.len == 0 {
            return None;
        }
        self.taken = true;
        let piece = Piece { len: self.transfer.min(self.rest.len), ..self.rest };
        self.rest = Piece {
            from: self.rest.from + piece.len,
            len: self.rest.len - piece.len,
            to: self.rest.to + piece.len as u64,
            ..self.rest
        };
        Some(SlotRequest { piece, part: self.part, slots: Arc::clone(&self.slots), tracker: Arc::clone(&self.tracker) })
    }

    /// Records that the thread with the last transfer has its slot, or failed to get one.
    pub(crate) fn took(&mut self) {
        self.taken = false;
    }

    /// Whether all bytes are in slots or assigned to one.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.len == 0
    }
}

impl SlotRequest {
    /// Gets the slot, blocking if necessary. The device's context is current.
    pub(crate) fn fill(self) -> Result<Filling, DriverError> {
        let slot = self.slots.take()?;
        Ok(Filling {
            piece: self.piece,
            part: self.part,
            memory: slot.memory().expose_provenance(),
            left: AtomicUsize::new(self.piece.len.div_ceil(self.part)),
            slot: ShortLock::new(Some(slot)),
            tracker: self.tracker,
        })
    }
}

impl Filling {
    /// Returns the offsets of the transfer's parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.piece.len).step_by(self.part)
    }

    /// Fills the part that begins at `offset`. The thread that fills the last one starts the transfer, and returns its
    /// result. The device's context is current.
    pub(crate) fn fill(&self, context: &Context, uses: &MemoryUses, offset: usize) -> Option<Result<(), CopyError>> {
        let len = self.part.min(self.piece.len - offset);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.memory);
        let from = std::ptr::with_exposed_provenance::<u8>(self.piece.from);
        // Through the caches, because the device's engines read from there.
        // SAFETY: by the program's guarantee its memory is readable until it has waited for the copy. The slot is as long as a
        // transfer, and this part has no other writer.
        unsafe { to.add(offset).copy_from_nonoverlapping(from.add(offset), len) };
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        let slot = self.slot.lock().take()?;
        Some(self.send(context, uses, slot))
    }

    fn send(&self, context: &Context, uses: &MemoryUses, slot: Slot) -> Result<(), CopyError> {
        let _use = uses.begin().map_err(|_| CopyError::ShutDown)?;
        let Piece { len, to, stream, .. } = self.piece;
        // SAFETY: the slot is pinned and not touched until the event.
        unsafe { context.driver.cuMemcpyHtoDAsync_v2(to, slot.memory().cast(), len, stream) }?;
        slot.record(stream)?;
        slot.release_after();
        Ok(())
    }
}

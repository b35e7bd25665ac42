//! A copy of the program's pageable memory to the device, divided: into slots, which the device takes whole, and those into
//! parts, which the threads fill.

use super::progress::{CopyError, PART_MAX, PART_MIN, Tracker};
use super::slot_pool::{IN_SLOT, Slot, SlotPool};
use crate::cuda::context::Context;
use crate::cuda::driver::DriverError;
use crate::cuda::memory_uses::MemoryUses;
use accord_types::short_lock::ShortLock;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Least part of a copy that goes to the device by itself, if there is more: the engines pause between two.
const TRANSFER_MIN: usize = 512 << 10;
/// The least number of transfers, so that the first begins early.
const TRANSFERS_MIN: usize = 8;

/// The part of a copy that is not in slots yet.
pub(crate) struct Upload {
    rest: Piece,
    /// Length of a transfer, and of the parts of one.
    transfer: usize,
    part: usize,
    slots: Arc<SlotPool>,
    pub(crate) tracker: Arc<Tracker>,
    /// A thread is about to get a slot for it.
    taken: bool,
}

/// Bytes of the program, and where they go.
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
    /// Parts that are not there yet.
    left: AtomicUsize,
    /// For the thread that completes the last part.
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

    /// The next transfer, if there is one and no thread is about to get a slot already.
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

    /// The thread that got the last transfer has its slot, or none.
    pub(crate) fn took(&mut self) {
        self.taken = false;
    }

    /// All of it is in slots or on its way there.
    pub(crate) fn is_over(&self) -> bool {
        self.rest.len == 0
    }
}

impl SlotRequest {
    /// Gets the slot, waiting for it if need be. The device's context is current.
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
    /// Returns the offsets of its parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.piece.len).step_by(self.part)
    }

    /// Fills the part that begins at `offset`. The thread that fills the last one starts the transfer, and gets its
    /// result. The device's context is current.
    pub(crate) fn fill(&self, context: &Context, uses: &MemoryUses, offset: usize) -> Option<Result<(), CopyError>> {
        let len = self.part.min(self.piece.len - offset);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.memory);
        let from = std::ptr::with_exposed_provenance::<u8>(self.piece.from);
        // By the caches: the device's engines read from there.
        // SAFETY: the program promised that its memory is readable until the copy has been waited for; the slot is as
        // long as a transfer, and this part of it has no other writer.
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

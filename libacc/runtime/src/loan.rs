//! The copies of blocks that are lent to one launch: `construct/unmapped.rs`.
//!
//! The program may use other parts of a block meanwhile, and so may regions of other threads and other devices. So the device gets
//! a copy of what the block held at the call, and only bytes that differ from that afterwards are written back.

use crate::device::WaitingCalls;
use crate::plan::Loan;
use crate::ports::{HostMemory, ReadWhen};
use accord_types::{Error, ErrorCode, HostRange, QueueId, Result};
use smallvec::SmallVec;

/// Buffers for the loans of one launch. They are kept, not freed, if the launch failed: copies may still be under way.
pub(crate) struct Buffers<'a> {
    host: &'a dyn HostMemory,
    lent: SmallVec<[Lent; LENT_INLINE]>,
}

/// Launches with more blocks allocate a list of them.
const LENT_INLINE: usize = 4;

struct Lent {
    loan: Loan,
    /// What the block held at the call, and behind it what it holds after the region.
    buffer: usize,
}

impl<'a> Buffers<'a> {
    /// Takes the blocks' bytes. Allocates nothing if there are none.
    ///
    /// # Errors
    /// `acc_error_out_of_memory`
    pub(crate) fn take(host: &'a dyn HostMemory, loans: &[Loan]) -> Result<Self> {
        let mut buffers = Self { host, lent: SmallVec::new() };
        for loan in loans {
            let bytes = loan.block.len;
            let buffer = bytes.checked_mul(2).map_or(0, |both| host.allocate(both));
            if buffer == 0 {
                buffers.free();
                let cause = format!("the program has no memory for two copies of a block of {bytes} bytes");
                return Err(Error::new(ErrorCode::OutOfMemory, cause).remedy(
                    "map what the region needs by a data clause: ACCORD_UNMAPPED=map lends it the whole block",
                ));
            }
            host.copy(buffer, loan.block.start, bytes);
            buffers.lent.push(Lent { loan: *loan, buffer });
        }
        Ok(buffers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    /// Before the launch.
    ///
    /// # Errors
    /// See [`crate::ports::DeviceClient`].
    pub(crate) fn copy_in(&self, client: &WaitingCalls<'_>, queue: QueueId) -> Result<()> {
        self.lent.iter().try_for_each(|lent| {
            let src = HostRange { start: lent.buffer, len: lent.loan.block.len };
            client.copy_in(queue, lent.loan.device, src, ReadWhen::InOrder)
        })
    }

    /// After the launch.
    ///
    /// # Errors
    /// See [`crate::ports::DeviceClient`].
    pub(crate) fn copy_out(&self, client: &WaitingCalls<'_>, queue: QueueId) -> Result<()> {
        self.lent.iter().try_for_each(|lent| {
            let len = lent.loan.block.len;
            client.copy_out(queue, lent.loan.device, HostRange { start: lent.buffer + len, len })
        })
    }

    /// When the queue was waited for: writes back what the region has changed.
    pub(crate) fn merge(mut self) {
        for Lent { loan: Loan { block, .. }, buffer } in &self.lent {
            self.host.merge(block.start, *buffer, *buffer + block.len, block.len);
        }
        self.free();
    }

    fn free(&mut self) {
        for lent in self.lent.drain(..) {
            self.host.free(lent.buffer);
        }
    }
}

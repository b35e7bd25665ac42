//! Consecutive small copies whose device addresses are a constant distance apart, as in loops over parts of rows
//! (`update device(a[i][0:n]) async(1)`). From the third one on they are held back and merged into one copy of the driver,
//! from or to one pinned slot. The driver takes one to two microseconds per copy, and little more for all of them together.
//!
//! Bytes to the device are read at the call, as for other small copies. Any other operation on the stream, and any wait
//! or query on the device, issues the merged copy first. Synchronous calls hold no copy back: when one returns, the program's
//! other libraries may access the device's memory.

use super::context::Context;
use super::driver::DriverError;
use super::staging::copy_route::Direction;
use super::staging::slot_pool::{SMALL_SLOT, Slot};
use accord_device::CopySink;
use accord_types::HostRange;
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUmemorytype, CUstream};
use std::ptr::{null, null_mut};

/// The number of the first copy of a run that is held back: one or two copies are no run.
pub(super) const HELD_FROM: u32 = 3;
/// The largest distance that every driver accepts.
const DISTANCE_MAX: u64 = i32::MAX as u64;

/// Consecutive copies of one length and direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(super) direction: Direction,
    pub(super) len: usize,
    /// Device address of the last copy.
    pub(super) at: u64,
    /// Position of the last copy in the stream.
    seq: u64,
    /// Distance between two copies; 0 while there is only one.
    pub(super) distance: u64,
    pub(super) rows: u32,
}

impl Run {
    /// Continues the run `before` with a copy, or begins a new one.
    pub(super) fn with(before: Option<Self>, direction: Direction, at: u64, len: usize, seq: u64) -> Self {
        let alone = Self { direction, len, at, seq, distance: 0, rows: 1 };
        let Some(run) = before else { return alone };
        let distance = at.wrapping_sub(run.at);
        let follows = (run.direction, run.len, run.seq + 1) == (direction, len, seq)
            && (len as u64..=DISTANCE_MAX).contains(&distance);
        match follows {
            true if run.distance == distance || run.rows == 1 => {
                Self { distance, rows: run.rows.saturating_add(1), ..alone }
            }
            // The previous copy may be the first of another run.
            true => Self { distance, rows: 2, ..alone },
            false => alone,
        }
    }
}

/// Consecutive small copies of a stream.
#[derive(Default)]
pub(crate) struct Rows {
    pub(super) run: Option<Run>,
    pub(super) held: Option<Held>,
}

/// Copies that are held back: side by side in a slot.
pub(crate) struct Held {
    pub(super) direction: Direction,
    pub(super) len: usize,
    pub(super) first: u64,
    pub(super) first_seq: u64,
    pub(super) distance: u64,
    pub(super) rows: usize,
    pub(super) slot: Slot,
    /// Sinks of copies out, in order.
    pub(super) sinks: Vec<CopySink>,
}

impl Held {
    pub(super) fn has_space(&self) -> bool {
        (self.rows + 1) * self.len <= SMALL_SLOT
    }

    pub(super) fn is_followed_by(&self, run: &Run) -> bool {
        (self.direction, self.len, self.distance) == (run.direction, run.len, run.distance)
            && self.first + self.rows as u64 * self.distance == run.at
    }

    /// Issues the merged copy.
    pub(super) fn copy(&self, context: &Context, stream: CUstream) -> Result<(), DriverError> {
        let (host, device) = (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_DEVICE);
        let mut copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: device,
            srcHost: null(),
            srcDevice: 0,
            srcArray: null_mut(),
            srcPitch: self.len,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: device,
            dstHost: null_mut(),
            dstDevice: 0,
            dstArray: null_mut(),
            dstPitch: self.len,
            WidthInBytes: self.len,
            Height: self.rows,
        };
        match self.direction {
            Direction::In => {
                (copy.srcMemoryType, copy.srcHost) = (host, self.slot.memory().cast_const().cast());
                (copy.dstDevice, copy.dstPitch) = (self.first, self.distance as usize);
            }
            Direction::Out => {
                (copy.dstMemoryType, copy.dstHost) = (host, self.slot.memory().cast());
                (copy.srcDevice, copy.srcPitch) = (self.first, self.distance as usize);
            }
        }
        // SAFETY: the rows are in the slot, which is pinned and not accessed until the device has done the copy. The driver checks the
        // other addresses.
        unsafe { context.driver.cuMemcpy2DAsync_v2(&raw const copy, stream) }
    }
}

impl Rows {
    /// Whether copies that are held back will write a range of the program's memory.
    pub(crate) fn will_write(&self, range: HostRange) -> bool {
        self.held.as_ref().is_some_and(|held| held.sinks.iter().any(|sink| sink.may_write(range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 16;

    fn runs(copies: &[(Direction, u64, u64)]) -> Vec<u32> {
        let mut run = None;
        let with = |(direction, at, seq): &(Direction, u64, u64)| {
            run = Some(Run::with(run, *direction, *at, LEN, *seq));
            run.map_or(0, |run| run.rows)
        };
        copies.iter().map(with).collect()
    }

    #[test]
    fn copies_at_a_constant_distance_are_a_run() {
        use Direction::{In, Out};
        assert_eq!(runs(&[(In, 0, 1), (In, 64, 2), (In, 128, 3), (In, 192, 4)]), [1, 2, 3, 4]);
        // Adjacent copies form a run too. Closer ones would overlap, and a negative distance is not supported.
        assert_eq!(runs(&[(In, 0, 1), (In, 16, 2), (In, 32, 3)]), [1, 2, 3]);
        assert_eq!(runs(&[(In, 0, 1), (In, 8, 2), (In, 16, 3)]), [1, 1, 1]);
        assert_eq!(runs(&[(In, 128, 1), (In, 64, 2), (In, 0, 3)]), [1, 1, 1]);
        // With another distance a run begins with the previous copy. An operation in between, or another direction, begins a new run.
        assert_eq!(runs(&[(In, 0, 1), (In, 64, 2), (In, 96, 3), (In, 128, 4)]), [1, 2, 2, 3]);
        assert_eq!(runs(&[(In, 0, 1), (In, 64, 2), (In, 128, 4)]), [1, 2, 1]);
        assert_eq!(runs(&[(In, 0, 1), (In, 64, 2), (Out, 128, 3)]), [1, 2, 1]);
        assert_eq!(runs(&[(In, 0, 1), (In, 1 << 31, 2)]), [1, 1]);
    }

    #[test]
    fn other_lengths_are_other_runs() {
        let first = Run::with(None, Direction::In, 0, LEN, 1);
        assert_eq!(Run::with(Some(first), Direction::In, 64, LEN + 1, 2).rows, 1);
    }
}

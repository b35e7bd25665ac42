//! Access to the program's memory by its addresses.

use crate::copy_ends::{Sink, Source};
use accord_types::{HostRange, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The program's memory as one end of a copy.
///
/// The addresses come from the program's data clauses and routine arguments. By OpenACC (3.3, 2.16) the program keeps that
/// memory valid, and does not use it, until it has waited for the copy.
pub struct HostMemory {
    range: HostRange,
    done: usize,
    immediate: bool,
}

impl HostMemory {
    /// Creates the end. `immediate`: the copy may run on the calling thread.
    pub fn new(range: HostRange, immediate: bool) -> Self {
        Self { range, done: 0, immediate }
    }

    /// Returns the range.
    pub(crate) fn range(&self) -> HostRange {
        self.range
    }

    /// Whether the copy may run on the calling thread.
    pub(crate) fn is_immediate(&self) -> bool {
        self.immediate
    }
}

impl Source for HostMemory {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        assert!(self.done + piece.len() <= self.range.len, "a device asked for more than the copy has");
        // SAFETY: by the program's guarantee `range` is readable, and the piece is inside, as checked above. A device's memory and
        // the program's don't overlap.
        unsafe {
            let from = std::ptr::with_exposed_provenance::<u8>(self.range.start + self.done);
            piece.as_mut_ptr().copy_from_nonoverlapping(from, piece.len());
        }
        self.done += piece.len();
        Ok(())
    }
}

impl Sink for HostMemory {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        assert!(self.done + piece.len() <= self.range.len, "a device gave more than the copy has");
        // SAFETY: by the program's guarantee `range` is writable. Otherwise as for `fill`.
        unsafe {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(self.range.start + self.done);
            to.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
        }
        self.done += piece.len();
        Ok(())
    }

    fn may_write(&self, range: HostRange) -> bool {
        self.range.overlaps(range)
    }
}

/// Most bytes of the program's memory that are copied aside at a time. Beyond it a copy is waited for.
const TAKEN_MAX: usize = 64 << 20;
/// The bytes that are copied aside at present.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes copied from the program's memory.
pub(crate) struct TakenBytes {
    bytes: Vec<u8>,
    done: usize,
}

impl TakenBytes {
    /// Copies `bytes`. Returns `None` if too many are copied aside already.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        if TAKEN.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len() > TAKEN_MAX {
            TAKEN.fetch_sub(bytes.len(), Ordering::AcqRel);
            return None;
        }
        Some(Self { bytes: bytes.to_vec(), done: 0 })
    }
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.bytes.len(), Ordering::AcqRel);
    }
}

impl Source for TakenBytes {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        piece.copy_from_slice(&self.bytes[self.done..][..piece.len()]);
        self.done += piece.len();
        Ok(())
    }
}

/// Returns the program's memory as bytes, for the duration of a call.
pub fn program_bytes<'a>(range: HostRange) -> &'a [u8] {
    if range.len == 0 {
        return &[];
    }
    // SAFETY: the program promised that `range` is readable during the call; callers don't keep the slice.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(range.start), range.len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_bytes_are_taken_at_a_time() {
        let bytes = vec![0; 1 << 20];
        let mut taken: Vec<_> = std::iter::from_fn(|| TakenBytes::new(&bytes)).collect();
        assert_eq!(taken.len(), TAKEN_MAX / bytes.len());
        taken.pop();
        assert!(TakenBytes::new(&bytes).is_some());
    }
}

//! Memory that a thread lends to the one that owns MPI, and waits until it has it back: see [`super::lane`], which alone lends.

use std::ptr;

/// Bytes to be sent from where they are.
#[derive(Clone, Copy, Debug)]
pub struct LentBytes {
    start: usize,
    len: usize,
}

/// Room for bytes that come.
#[derive(Clone, Copy, Debug)]
pub struct LentRoom {
    start: usize,
    len: usize,
}

impl LentBytes {
    /// Whoever lends them neither changes nor frees them until they are back.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr().expose_provenance(), len: bytes.len() }
    }

    /// Part of them; none that reaches beyond them.
    pub(super) fn part(self, offset: usize, len: usize) -> Option<Self> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        fits.then(|| Self { start: self.start + offset, len })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn as_ptr(self) -> *const u8 {
        ptr::with_exposed_provenance(self.start)
    }
}

impl LentRoom {
    /// Whoever lends it does not look at it until it is back.
    pub(super) fn of(room: &mut [u8]) -> Self {
        Self { start: room.as_mut_ptr().expose_provenance(), len: room.len() }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn as_mut_ptr(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.start)
    }

    /// Copies as many bytes as there is room for, where both are this process's: what a world within one process does.
    pub fn fill(self, bytes: LentBytes) {
        let len = self.len.min(bytes.len);
        // SAFETY: both were slices when they were lent, one of them to be written, and whoever lent them waits until they are back, which
        // is after this.
        unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

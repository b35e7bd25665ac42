//! Memory that a thread lends to the one that owns MPI, and waits until it has it back: see [`super::lane`], which alone lends.

use crate::transport::window::Window;
use accord_types::{NativeContext, NativeRange};
use std::ptr;

/// Bytes to be sent from where they are.
#[derive(Clone, Copy, Debug)]
pub struct LentBytes(Lent);

/// Room for bytes that come.
#[derive(Clone, Copy, Debug)]
pub struct LentRoom(Lent);

#[derive(Clone, Copy, Debug)]
struct Lent {
    start: usize,
    len: usize,
    /// Of a device's own memory: what MPI's thread has to be in.
    context: Option<NativeContext>,
}

impl Lent {
    fn native(range: NativeRange) -> Self {
        Self { start: range.address as usize, len: range.len, context: Some(range.context) }
    }

    fn window(window: Window<'_>) -> Self {
        Self { start: window.start().expose_provenance(), len: window.len(), context: None }
    }

    fn part(self, offset: usize, len: usize) -> Option<Self> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        fits.then(|| Self { start: self.start + offset, len, ..self })
    }

    fn enter(self) -> bool {
        self.context.is_none_or(NativeContext::enter)
    }
}

impl LentBytes {
    /// Whoever lends them neither changes nor frees them until they are back.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Lent { start: bytes.as_ptr().expose_provenance(), len: bytes.len(), context: None })
    }

    /// The same in memory that another process has too.
    pub(super) fn window(bytes: Window<'_>) -> Self {
        Self(Lent::window(bytes))
    }

    /// The same in a device's own memory.
    pub(super) fn native(range: NativeRange) -> Self {
        Self(Lent::native(range))
    }

    /// Part of them; none that reaches beyond them.
    pub(super) fn part(self, offset: usize, len: usize) -> Option<Self> {
        self.0.part(offset, len).map(Self)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Has this thread be where it may name them to MPI; whether that could be done.
    pub fn enter(self) -> bool {
        self.0.enter()
    }

    pub(super) fn as_ptr(self) -> *const u8 {
        ptr::with_exposed_provenance(self.0.start)
    }
}

impl LentRoom {
    /// Whoever lends it does not look at it until it is back.
    pub(super) fn of(room: &mut [u8]) -> Self {
        Self(Lent { start: room.as_mut_ptr().expose_provenance(), len: room.len(), context: None })
    }

    /// The same in memory that another process has too, of which no more than `len` bytes.
    pub(super) fn window(room: Window<'_>, len: usize) -> Self {
        let lent = Lent::window(room);
        Self(Lent { len: lent.len.min(len), ..lent })
    }

    /// The same in a device's own memory.
    pub(super) fn native(range: NativeRange) -> Self {
        Self(Lent::native(range))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// As [`LentBytes::enter`].
    pub fn enter(self) -> bool {
        self.0.enter()
    }

    pub(super) fn as_mut_ptr(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.0.start)
    }

    /// Copies as many bytes as there is room for, where both are this process's: what a world within one process does.
    pub fn fill(self, bytes: LentBytes) {
        let len = self.len().min(bytes.len());
        // SAFETY: both were this process's memory when they were lent, one of them to be written, and whoever lent them waits until they
        // are back, which is after this. A device's own memory is the host's in such a world.
        unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

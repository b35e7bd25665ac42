//! Memory that a thread exposes to the one that owns MPI, until MPI has released it. Only [`super::lane`] and posted
//! receives expose memory.

use crate::transport::window::Window;
use accord_types::{NativeContext, NativeRange};
use std::ptr;

/// Bytes to send in place.
#[derive(Clone, Copy, Debug)]
pub struct SendBuffer(NativeMemory);

/// A buffer to receive into.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBuffer(NativeMemory);

#[derive(Clone, Copy, Debug)]
struct NativeMemory {
    start: usize,
    len: usize,
    /// For device memory: the context that MPI's thread must enter.
    context: Option<NativeContext>,
}

impl NativeMemory {
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

impl SendBuffer {
    /// Exposes `bytes`. The caller must neither change nor free them before they are released.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(NativeMemory { start: bytes.as_ptr().expose_provenance(), len: bytes.len(), context: None })
    }

    /// Exposes bytes in memory shared with another process.
    pub(super) fn window(bytes: Window<'_>) -> Self {
        Self(NativeMemory::window(bytes))
    }

    /// Exposes bytes in device memory.
    pub(super) fn native(range: NativeRange) -> Self {
        Self(NativeMemory::native(range))
    }

    /// Returns a part of the bytes, or `None` if it exceeds them.
    pub(super) fn part(self, offset: usize, len: usize) -> Option<Self> {
        self.0.part(offset, len).map(Self)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Makes this thread enter the context in which MPI can address the bytes. Returns whether that succeeded.
    pub fn enter(self) -> bool {
        self.0.enter()
    }

    pub(super) fn as_ptr(self) -> *const u8 {
        ptr::with_exposed_provenance(self.0.start)
    }
}

impl ReceiveBuffer {
    /// Exposes a buffer. The caller must not access it before it is released.
    pub(super) fn of(space: &mut [u8]) -> Self {
        Self(NativeMemory { start: space.as_mut_ptr().expose_provenance(), len: space.len(), context: None })
    }

    /// Exposes at most `len` bytes of memory shared with another process.
    pub(super) fn window(space: Window<'_>, len: usize) -> Self {
        let exposed = NativeMemory::window(space);
        Self(NativeMemory { len: exposed.len.min(len), ..exposed })
    }

    /// Exposes a buffer in device memory.
    pub(super) fn native(range: NativeRange) -> Self {
        Self(NativeMemory::native(range))
    }

    /// Returns the buffer's length.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Enters the context as [`SendBuffer::enter`].
    pub fn enter(self) -> bool {
        self.0.enter()
    }

    pub(super) fn as_mut_ptr(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.0.start)
    }

    /// Copies as many bytes as fit. Only for a world within one process, where both are this process's memory.
    pub fn fill(self, bytes: SendBuffer) {
        let len = self.len().min(bytes.len());
        // SAFETY: both were this process's memory when they were exposed, and the target is writable. Their owners block until
        // the release, which is after this copy. A device's memory is host memory in such a world.
        unsafe { self.as_mut_ptr().copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
}

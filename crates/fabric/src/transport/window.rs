//! Bytes that are forwarded in place: a relay exposes a ring's own memory to a library that copies it.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// A part of memory that is shared with another process, which may write to it at any time. Accord does not read the
/// bytes; it passes them only to libraries that copy them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a ()>,
}

impl Window<'_> {
    /// Creates a window of `len` bytes from `start` on.
    ///
    /// # Safety
    /// The bytes must stay mapped and writable for the window's lifetime, and no reference may point into them.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, memory: PhantomData }
    }

    /// Returns the address of the first byte.
    pub(super) fn start(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the number of bytes.
    pub(super) fn len(self) -> usize {
        self.len
    }
}

/// Copies as a library would. Only for tests.
#[cfg(test)]
#[allow(unsafe_code)]
impl Window<'_> {
    pub(super) fn copy_out(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: by [`Window::new`]. The tests' other ends write only to the ring's free bytes, which these are not.
        unsafe { std::ptr::copy_nonoverlapping(self.start(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Copies as many bytes as fit, and returns their number.
    pub(super) fn copy_in(self, bytes: &[u8]) -> usize {
        let n = self.len.min(bytes.len());
        // SAFETY: by [`Window::new`]. The tests' other ends read only published bytes, which these are not.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start(), n) };
        n
    }
}

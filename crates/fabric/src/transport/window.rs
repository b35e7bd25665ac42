//! Bytes that are forwarded in place: a relay exposes a ring's own memory to a library that copies it.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Part of memory that is shared with another process, which may write there at any time. Accord does not read the
/// bytes; it passes them only to libraries that copy them.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a ()>,
}

impl Window<'_> {
    /// Creates a window of `len` bytes from `start` on.
    ///
    /// # Safety
    /// The bytes are mapped and writable, and no reference points into them, for the window's lifetime.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, memory: PhantomData }
    }

    /// Returns the address of the first byte.
    pub(super) fn start(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Copies as a library would, for tests.
#[cfg(test)]
#[allow(unsafe_code)]
impl Window<'_> {
    pub(super) fn copy_out(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: by [`Window::new`]; the tests' other ends write only where the ring has free bytes, so not here.
        unsafe { std::ptr::copy_nonoverlapping(self.start(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Copies as many bytes as fit, and returns their number.
    pub(super) fn copy_in(self, bytes: &[u8]) -> usize {
        let n = self.len.min(bytes.len());
        // SAFETY: by [`Window::new`]; the tests' other ends read only bytes that are published, so not these.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start(), n) };
        n
    }
}

/// A lane whose bytes lie in memory that both of its ends map.
pub trait Windows {
    /// Tells the other end that bytes are exposed in place, so that it sends many in one piece, not in chunks.
    fn will_lend(&self);

    /// Passes received bytes to `lend`: at least `least`, contiguous. They count as read when it returns. Returns their
    /// number, or 0 without blocking if fewer are contiguous.
    ///
    /// # Errors
    /// Returns any error of [`super::Lane::read`] or of `lend`; nothing counts as read then.
    fn read_in_place(&self, least: usize, lend: &mut dyn FnMut(Window<'_>) -> io::Result<()>) -> io::Result<usize>;

    /// Blocks until there is room, and has `fill` write at most `most` bytes there. `fill` returns their number, and
    /// they are published then.
    ///
    /// # Errors
    /// Returns any error of [`super::Lane::write`] or of `fill`; nothing counts as written then.
    fn write_in_place(&self, most: usize, fill: &mut dyn FnMut(Window<'_>) -> io::Result<usize>) -> io::Result<()>;
}

/// A lane whose bytes a library moves from memory to memory.
pub trait MovesWindows {
    /// Sends a window's bytes, as [`super::Lane::lend`] does.
    ///
    /// # Errors
    /// Returns the errors of [`super::Lane::lend`].
    fn lend_window(&self, bytes: Window<'_>) -> io::Result<()>;

    /// Receives bytes announced by [`super::NextPiece::Lent`] into `room`; blocks until they are there, and returns
    /// their number.
    ///
    /// # Errors
    /// Returns any error of [`super::Lane::read`], and [`io::ErrorKind::UnexpectedEof`] if the lane ends before.
    fn fill_window(&self, room: Window<'_>) -> io::Result<usize>;
}

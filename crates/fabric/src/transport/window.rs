//! Bytes that are passed on from where they lie: a relay lends a ring's own memory to a library that copies it.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Part of memory that is shared with another process, which may write there at any time: nobody here looks at it, only libraries that
/// copy bytes are given it.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a ()>,
}

impl Window<'_> {
    /// `len` bytes from `start` on.
    ///
    /// # Safety
    /// They are mapped, may be written, and no reference is into them, for as long as the window's lifetime.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, memory: PhantomData }
    }

    /// The address of the first byte.
    pub(super) fn start(self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// What a library does that has been given it.
#[cfg(test)]
#[allow(unsafe_code)]
impl Window<'_> {
    pub(super) fn copy_out(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: by [`Window::new`]; tests' other ends write where the ring says that there is room, and so not here.
        unsafe { std::ptr::copy_nonoverlapping(self.start(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// How many there was room for.
    pub(super) fn copy_in(self, bytes: &[u8]) -> usize {
        let n = self.len.min(bytes.len());
        // SAFETY: by [`Window::new`]; tests' other ends read what the ring says is there, and so not here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start(), n) };
        n
    }
}

/// The side of a lane whose bytes lie in memory that both of its ends see.
pub trait Windows {
    /// Tells the other end that bytes are lent from where they lie: then it sends many as one, not in chunks.
    fn will_lend(&self);

    /// Has `lend` take bytes that have come: `least` or more that lie together. They count as read when it returns. How many; 0 without
    /// waiting if there are not so many.
    ///
    /// # Errors
    /// As for [`super::Lane::read`], and those of `lend`; then nothing counts as read.
    fn read_in_place(&self, least: usize, lend: &mut dyn FnMut(Window<'_>) -> io::Result<()>) -> io::Result<usize>;

    /// Waits for room, and has `fill` put bytes there, `most` of them or fewer: as many as it says. They can be read once it returns.
    ///
    /// # Errors
    /// As for [`super::Lane::write`], and those of `fill`; then nothing counts as written.
    fn write_in_place(&self, most: usize, fill: &mut dyn FnMut(Window<'_>) -> io::Result<usize>) -> io::Result<()>;
}

/// The side of a lane whose bytes a library moves, from memory to memory.
pub trait MovesWindows {
    /// As [`super::Lane::lend`].
    ///
    /// # Errors
    /// As for [`super::Lane::lend`].
    fn lend_window(&self, bytes: Window<'_>) -> io::Result<()>;

    /// Has bytes that [`super::NextPiece::Lent`] has told of come to `room`, and waits for them: how many.
    ///
    /// # Errors
    /// As for [`super::Lane::read`]; [`io::ErrorKind::UnexpectedEof`] if the lane ends before.
    fn fill_window(&self, room: Window<'_>) -> io::Result<usize>;
}

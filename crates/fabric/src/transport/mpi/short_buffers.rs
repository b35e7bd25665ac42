//! Buffers of short messages while MPI uses them, in memory mapped for them.
//!
//! UCX asks the CUDA driver for the kind of a message's memory, unless it knows that the addresses are not a GPU's. The
//! question takes 2 to 3 us at either end. UCX does not know this of pages that were mapped without access when it started.
//! glibc's heaps for threads are such pages: they get access as they grow.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;

/// Longest short message: a lane's command, or a header alone.
pub(super) const SHORT_MAX: usize = 1 << 10;
/// Number of messages that are sent and received at a time.
pub(super) const BUFFERS: usize = 64;

/// The memory, and the numbers of free buffers.
#[derive(Debug)]
pub(super) struct ShortBuffers {
    base: NonNull<u8>,
    free: Vec<usize>,
}

/// A buffer in use, of which the first `len` bytes are used.
#[derive(Debug)]
pub(super) struct ShortBuffer {
    number: usize,
    len: usize,
}

impl ShortBuffers {
    pub(super) fn map() -> io::Result<Self> {
        let len = BUFFERS * SHORT_MAX;
        // SAFETY: a new mapping.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { base, free: (0..BUFFERS).rev().collect() })
    }

    /// Returns a buffer of `len` bytes, or `None` if that is too long or all buffers are in use.
    pub(super) fn take(&mut self, len: usize) -> Option<ShortBuffer> {
        let number = if len <= SHORT_MAX { self.free.pop() } else { None };
        number.map(|number| ShortBuffer { number, len })
    }

    /// Returns a buffer with a copy of `bytes`.
    pub(super) fn filled(&mut self, bytes: &[u8]) -> Option<ShortBuffer> {
        let buffer = self.take(bytes.len())?;
        // SAFETY: a buffer holds `SHORT_MAX` bytes, and this one was just taken.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start(&buffer), bytes.len()) };
        Some(buffer)
    }

    /// Returns the buffer's address.
    pub(super) fn start(&self, buffer: &ShortBuffer) -> *mut u8 {
        self.base.as_ptr().wrapping_add(buffer.number * SHORT_MAX)
    }

    /// Frees a buffer and returns its bytes. MPI must no longer write to it.
    pub(super) fn read(&mut self, buffer: ShortBuffer) -> Vec<u8> {
        // SAFETY: the bytes are mapped and initially zero. The buffer's owner is its only user, and frees it here.
        let bytes = unsafe { std::slice::from_raw_parts(self.start(&buffer), buffer.len) }.to_vec();
        self.give_back(buffer);
        bytes
    }

    /// Frees a buffer that MPI neither reads nor writes any more.
    #[expect(clippy::needless_pass_by_value, reason = "it is not used again")]
    pub(super) fn give_back(&mut self, buffer: ShortBuffer) {
        self.free.push(buffer.number);
    }
}

impl Drop for ShortBuffers {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no buffer is in use any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), BUFFERS * SHORT_MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_short_buffer_has_its_own_bytes_until_release() {
        let mut buffers = ShortBuffers::map().unwrap();
        let text = |number: usize| vec![u8::try_from(number).unwrap(); SHORT_MAX - number];
        let all: Vec<_> = (0..BUFFERS).map(|number| buffers.filled(&text(number)).unwrap()).collect();
        assert!(buffers.take(0).is_none(), "all are taken");
        for (number, buffer) in all.into_iter().enumerate() {
            assert_eq!(buffers.read(buffer), text(number));
        }
        assert!(buffers.take(SHORT_MAX + 1).is_none() && buffers.filled(&[1; SHORT_MAX + 1]).is_none());
        let again: Vec<_> = (0..BUFFERS).map(|_| buffers.take(1).unwrap()).collect();
        again.into_iter().for_each(|buffer| buffers.give_back(buffer));
        assert_eq!(buffers.free.len(), BUFFERS);
    }
}

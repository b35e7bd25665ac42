//! Memory that two processes share: two rings of bytes, one for each direction.
//!
//! ```text
//! ring 0: client to server     ring 1: server to client
//!    0  bytes written so far (u64), by the writer only; the rest of its lines repeats a short write
//!  128  bytes read so far (u64), by the reader only
//!  256  the reader blocks (u64, 0 or 1)
//!  384  the writer blocks (u64, 0 or 1)
//!  512  the writer has finished (u64, 0 or 1)
//!  640  the reader has shut down (u64, 0 or 1)
//! 4096  ROOM bytes
//! ```
//!
//! The size is sealed, so that no access can fault, and each side keeps a private copy of its own position. Data of the
//! other side is untrusted: numbers are checked when they are read, and bytes are copied before they are interpreted.

use super::window::Window;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes that a ring holds; a power of two. A whole chunk of a transfer fits, so that sending a small copy does not
/// block.
pub(super) const SPACE: usize = 2 << 20;
/// Bytes before a ring's data.
const HEADER: usize = 4096;
const LEN: usize = 2 * (HEADER + SPACE);
/// Seals that keep both sides from changing the size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

const _: () = assert!(SPACE.is_power_of_two());

/// One direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    ToServer = 0,
    ToClient = 1,
}

/// A word in a ring's header, each on cache lines of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeaderWord {
    Written = 0,
    Read = 128,
    ReaderSleeps = 256,
    WriterSleeps = 384,
    Finished = 512,
    Unread = 640,
    /// The reader exposes the ring's bytes in place.
    Exposed = 768,
}

/// Number of words that share the cache lines of [`HeaderWord::Written`]: CPUs mostly prefetch lines in pairs.
pub(super) const INLINE_WORDS: usize = 15;

/// The mapping of both rings.
#[derive(Debug)]
pub(super) struct SharedMemory {
    base: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping stays until the value is dropped. All access uses atomics, or copies of bytes that the rings'
// positions order. A peer that violates this corrupts the bytes only.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates memory of zeros.
    ///
    ///
    /// # Errors
    /// Returns the system's error, and `EFBIG` above the process's limit on file sizes, at which `ftruncate` would end the
    /// program by SIGXFSZ.
    pub(super) fn create() -> io::Result<Self> {
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < LEN as u64) {
            return Err(Errno::FBIG.into());
        }
        let file = memfd_create("accord-lane", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LEN as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Self::map(file)
    }

    /// Maps memory that another process has created.
    ///
    /// # Errors
    /// Returns `InvalidData` if the size or the seals differ from those of [`SharedMemory::create`], because the size must not
    /// change later.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the shared memory {why}"));
        if !fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(invalid("has a size that is not sealed"));
        }
        let len = fstat(&file)?.st_size;
        if usize::try_from(len) != Ok(LEN) {
            return Err(invalid(&format!("has {len} bytes, and {LEN} are needed")));
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let map = || {
            // SAFETY: a new mapping of a file whose size can't change.
            let base = unsafe {
                mmap(std::ptr::null_mut(), LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file.as_fd(), 0)?
            };
            NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
        };
        #[cfg(not(accord_tsan))]
        let base = map()?;
        #[cfg(accord_tsan)]
        let base = super::one_mapping::take(&file, map)?;
        Ok(Self { base, file })
    }

    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(super) fn word(&self, ring: Ring, word: HeaderWord) -> &AtomicU64 {
        let at = ring as usize * (HEADER + SPACE) + word as usize;
        // SAFETY: the word is within a ring's header, aligned to 8, mapped while `self` lives, and only used atomically.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Returns the words after [`HeaderWord::Written`].
    pub(super) fn inline(&self, ring: Ring) -> &[AtomicU64; INLINE_WORDS] {
        let at = ring as usize * (HEADER + SPACE) + HeaderWord::Written as usize + size_of::<u64>();
        // SAFETY: the words are within a ring's header before its next word, aligned to 8, mapped while `self` lives, and only used atomically.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// Copies `bytes`, at most [`SPACE`], into the ring from position `at` on.
    pub(super) fn put(&self, ring: Ring, at: u64, bytes: &[u8]) {
        let (start, first) = split(at, bytes.len());
        let data = self.data(ring);
        // SAFETY: `split` returns parts within the ring. `bytes` is not in the ring, because there are no references into the
        // mapping.
        unsafe {
            data.add(start).copy_from_nonoverlapping(bytes.as_ptr(), first);
            data.copy_from_nonoverlapping(bytes.as_ptr().add(first), bytes.len() - first);
        }
    }

    /// Copies bytes out of the ring from position `at` on.
    pub(super) fn take(&self, ring: Ring, at: u64, bytes: &mut [u8]) {
        let (start, first) = split(at, bytes.len());
        let data = self.data(ring);
        // SAFETY: as for `put`. The peer may write meanwhile, but any byte is valid.
        unsafe {
            data.add(start).copy_to_nonoverlapping(bytes.as_mut_ptr(), first);
            data.copy_to_nonoverlapping(bytes.as_mut_ptr().add(first), bytes.len() - first);
        }
    }

    /// Returns the contiguous bytes from position `at` on, at most `most`.
    pub(super) fn window(&self, ring: Ring, at: u64, most: usize) -> Window<'_> {
        let (start, len) = split(at, most.min(SPACE));
        // SAFETY: `split` returns parts within the ring, which is mapped and writable while `self` lives. References into the
        // mapping exist only to the words before its bytes.
        unsafe { Window::new(NonNull::new_unchecked(self.data(ring).add(start)), len) }
    }

    fn data(&self, ring: Ring) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.as_ptr().add(ring as usize * (HEADER + SPACE) + HEADER) }
    }
}

/// Returns a position's offset in a ring, and how many of `len` bytes fit before the ring's end.
fn split(at: u64, len: usize) -> (usize, usize) {
    assert!(len <= SPACE, "more than a ring has room for");
    // The value is below `SPACE`, so that the cast is exact.
    let start = (at % SPACE as u64) as usize;
    (start, len.min(SPACE - start))
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        #[cfg(accord_tsan)]
        if !super::one_mapping::give_back(self.base) {
            return;
        }
        // SAFETY: there are no references into the mapping, because those of `word` borrow `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), LEN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_around_the_end_and_come_back() {
        let here = SharedMemory::create().unwrap();
        let there = SharedMemory::open(here.file().try_clone().unwrap()).unwrap();
        let at = u64::MAX - 5;
        here.put(Ring::ToClient, at, b"0123456789");
        let mut bytes = [0; 10];
        there.take(Ring::ToClient, at, &mut bytes);
        assert_eq!(&bytes, b"0123456789");
        there.take(Ring::ToServer, at, &mut bytes);
        assert_eq!(bytes, [0; 10], "the other ring has them too");
    }

    #[test]
    fn memory_that_could_shrink_or_has_another_size_is_refused() {
        let file = memfd_create("a", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, LEN as u64).unwrap();
        assert!(SharedMemory::open(file.try_clone().unwrap()).unwrap_err().to_string().contains("not sealed"));
        ftruncate(&file, LEN as u64 - 1).unwrap();
        fcntl_add_seals(&file, SEALS).unwrap();
        assert!(SharedMemory::open(file).unwrap_err().to_string().contains("bytes"));
        let pipe = rustix::pipe::pipe().map(|ends| ends.0);
        if let Ok(end) = pipe {
            assert!(SharedMemory::open(end).is_err());
        }
    }
}

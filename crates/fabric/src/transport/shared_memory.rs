//! Memory that two processes share: two rings of bytes, one for each direction.
//!
//! ```text
//! ring 0: client to server     ring 1: server to client
//!    0  bytes written so far (u64), by the writer only; on the rest of its lines a short write once more
//!  128  bytes read so far (u64), by the reader only
//!  256  the reader sleeps (u64, 0 or 1)
//!  384  the writer sleeps (u64, 0 or 1)
//!  512  nothing more will be written (u64, 0 or 1)
//!  640  nobody reads any more (u64, 0 or 1)
//! 4096  ROOM bytes
//! ```
//!
//! Its size is sealed, so that no access can fault, and each side keeps its own position to itself. What the other side writes here is
//! taken for what it is: numbers are checked by whoever reads them, and bytes are copied out before anybody looks at them.

use super::window::Window;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Bytes that a ring holds; a power of two. More than a chunk of a transfer: a small one leaves the hands of whoever sends it at once.
pub(super) const ROOM: usize = 2 << 20;
/// Before the bytes of a ring.
const HEADER: usize = 4096;
const LEN: usize = 2 * (HEADER + ROOM);
/// Neither side changes the size.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

const _: () = assert!(ROOM.is_power_of_two());

/// One direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    ToServer = 0,
    ToClient = 1,
}

/// A number of a ring, each on cache lines of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Written = 0,
    Read = 128,
    ReaderSleeps = 256,
    WriterSleeps = 384,
    Finished = 512,
    Unread = 640,
    /// Whoever reads lends bytes from where they lie.
    Lent = 768,
}

/// Numbers after [`Word::Written`] that lie on its lines: a machine mostly fetches such a pair of lines together.
pub(super) const BESIDE: usize = 15;

/// The mapping.
#[derive(Debug)]
pub(super) struct SharedMemory {
    base: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping stays until the value is dropped. All access goes by atomics, or by copies of bytes whose order the positions
// of the rings give; a peer that keeps to none of that spoils the bytes, and nothing else.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory, all zeros.
    ///
    /// # Errors
    /// If the system refuses. A file above the process's limit is an error here: `ftruncate` would end a program by SIGXFSZ.
    pub(super) fn create() -> io::Result<Self> {
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < LEN as u64) {
            return Err(Errno::FBIG.into());
        }
        let file = memfd_create("accord-lane", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, LEN as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Self::map(file)
    }

    /// Memory that another process has made.
    ///
    /// # Errors
    /// If it is not as [`SharedMemory::create`] makes it: the size may not change later.
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
            // SAFETY: a new mapping, of a file whose size can't change.
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

    pub(super) fn word(&self, ring: Ring, word: Word) -> &AtomicU64 {
        let at = ring as usize * (HEADER + ROOM) + word as usize;
        // SAFETY: within the header of a ring, aligned to 8, mapped as long as `self` is there; only used atomically.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// The numbers beside [`Word::Written`].
    pub(super) fn beside(&self, ring: Ring) -> &[AtomicU64; BESIDE] {
        let at = ring as usize * (HEADER + ROOM) + Word::Written as usize + size_of::<u64>();
        // SAFETY: within the header of a ring and before its next word, aligned to 8, mapped as long as `self` is there; only used atomically.
        unsafe { &*self.base.as_ptr().add(at).cast() }
    }

    /// Writes `bytes`, of which there may be [`ROOM`] at most, from position `at` on.
    pub(super) fn put(&self, ring: Ring, at: u64, bytes: &[u8]) {
        let (start, first) = split(at, bytes.len());
        let data = self.data(ring);
        // SAFETY: `split` gives parts within the ring, and `bytes` is no part of it: nobody else has references into the mapping.
        unsafe {
            data.add(start).copy_from_nonoverlapping(bytes.as_ptr(), first);
            data.copy_from_nonoverlapping(bytes.as_ptr().add(first), bytes.len() - first);
        }
    }

    /// The opposite of [`SharedMemory::put`].
    pub(super) fn take(&self, ring: Ring, at: u64, bytes: &mut [u8]) {
        let (start, first) = split(at, bytes.len());
        let data = self.data(ring);
        // SAFETY: as for `put`. Whatever the peer writes meanwhile, these are bytes.
        unsafe {
            data.add(start).copy_to_nonoverlapping(bytes.as_mut_ptr(), first);
            data.copy_to_nonoverlapping(bytes.as_mut_ptr().add(first), bytes.len() - first);
        }
    }

    /// The bytes from position `at` on that lie together, `most` of them or fewer.
    pub(super) fn window(&self, ring: Ring, at: u64, most: usize) -> Window<'_> {
        let (start, len) = split(at, most.min(ROOM));
        // SAFETY: `split` gives parts within the ring, which is mapped, to be written too, as long as `self` is there; nobody has references into
        // it but to the words before its bytes.
        unsafe { Window::new(NonNull::new_unchecked(self.data(ring).add(start)), len) }
    }

    fn data(&self, ring: Ring) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.base.as_ptr().add(ring as usize * (HEADER + ROOM) + HEADER) }
    }
}

/// Where a position is in a ring, and how many of `len` bytes are there before its end.
fn split(at: u64, len: usize) -> (usize, usize) {
    assert!(len <= ROOM, "more than a ring has room for");
    // Below ROOM, so that it fits.
    let start = (at % ROOM as u64) as usize;
    (start, len.min(ROOM - start))
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        #[cfg(accord_tsan)]
        if !super::one_mapping::give_back(self.base) {
            return;
        }
        // SAFETY: nobody has references into the mapping: those of `word` borrow `self`.
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

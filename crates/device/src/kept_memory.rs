//! Host memory that a node's agent provides before jobs are suspended, in files without names. A process that suspends its work maps
//! the files that the agent passes to it, and finds their pages ready.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::Arc;

/// The distance of writes that make the kernel provide all pages.
const STEP: usize = 4096;

/// A file with all of its pages, for the agent. Dropping it keeps the pages as long as another process has the file.
#[derive(Debug)]
pub struct KeptFile {
    /// Keeps the pages in memory.
    mapping: Mapping,
    file: OwnedFd,
}

impl KeptFile {
    /// Creates a file of `len` bytes, whole large pages, of the kernel's huge pages if enough are free. Its pages are zeros. Takes
    /// long.
    ///
    /// # Errors
    /// Returns the system's error if there is too little memory, or too few descriptors.
    pub fn create(len: u64) -> io::Result<Self> {
        let with_pages = |flags| Self::mapped(len, flags).and_then(|made| made.1.provide().map(|()| made));
        let (file, mapping) = with_pages(libc::MFD_HUGETLB).or_else(|_| with_pages(0))?;
        // SAFETY: the range is the mapping's. Without the right the pages may be swapped out.
        unsafe { libc::mlock(mapping.start, mapping.len) };
        Ok(Self { mapping, file })
    }

    /// Returns a new file and its mapping, whose pages are not there yet.
    fn mapped(len: u64, flags: libc::c_uint) -> io::Result<(OwnedFd, Mapping)> {
        let bytes = libc::off_t::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the name ends with a zero byte. The descriptor is new, or -1.
        let file = unsafe {
            let raw = libc::memfd_create(c"accord-suspended".as_ptr(), libc::MFD_CLOEXEC | flags);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(raw)
        };
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Fails if too few huge pages are free, which are reserved here.
        let mapping = Mapping::of(&file, len)?;
        Ok((file, mapping))
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> u64 {
        self.mapping.len as u64
    }

    /// Returns the descriptor, for the process that is to map the file.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Frees the pages, which no process needs any more, even if one has them mapped.
    pub fn free(self) {
        // SAFETY: the descriptor is open, and this process does not access the pages.
        unsafe { libc::ftruncate(self.file.as_raw_fd(), 0) };
    }
}

/// Files of the agent, mapped by a process that suspends its work.
#[derive(Debug, Default)]
pub struct KeptMemory {
    /// The mappings, with the bytes of each that are taken.
    mappings: Vec<(Arc<Mapping>, usize)>,
}

/// A part of [`KeptMemory`].
#[derive(Debug)]
pub struct KeptPart {
    start: *mut c_void,
    #[allow(dead_code, reason = "it is held")]
    mapping: Arc<Mapping>,
}

// SAFETY: the part has one user, which may be any thread.
unsafe impl Send for KeptPart {}

impl KeptMemory {
    /// Maps files of the agent.
    ///
    /// # Errors
    /// Returns the system's error if a file can't be mapped.
    pub fn map(files: Vec<OwnedFd>) -> io::Result<Self> {
        let mappings = files.into_iter().map(|file| {
            // SAFETY: all-zero is a valid value, and writable.
            let len = unsafe {
                let mut about: libc::stat = std::mem::zeroed();
                if libc::fstat(file.as_raw_fd(), &raw mut about) != 0 {
                    return Err(io::Error::last_os_error());
                }
                u64::try_from(about.st_size).unwrap_or(0)
            };
            Ok((Arc::new(Mapping::of(&file, len)?), 0))
        });
        Ok(Self { mappings: mappings.collect::<io::Result<_>>()? })
    }

    /// Adds mappings.
    pub fn extend(&mut self, more: Self) {
        self.mappings.extend(more.mappings);
    }

    /// Returns the bytes of all mappings.
    pub fn bytes(&self) -> u64 {
        self.mappings.iter().map(|(mapping, _)| mapping.len as u64).sum()
    }

    /// Takes a part of this length, if a mapping has as much left.
    pub fn take(&mut self, len: usize) -> Option<KeptPart> {
        let (mapping, taken) = self.mappings.iter_mut().find(|(mapping, taken)| len <= mapping.len - taken)?;
        // SAFETY: the offset is inside the mapping.
        let start = unsafe { mapping.start.cast::<u8>().add(*taken).cast() };
        *taken += len;
        Some(KeptPart { start, mapping: Arc::clone(mapping) })
    }
}

impl KeptPart {
    /// Returns the first address.
    pub fn start(&self) -> *mut c_void {
        self.start
    }
}

/// A shared mapping of a whole file.
#[derive(Debug)]
struct Mapping {
    start: *mut c_void,
    len: usize,
}

// SAFETY: only raw addresses, which any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn of(file: &OwnedFd, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place.
        let start = unsafe { libc::mmap(null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start, len }) }
    }

    fn provide(&self) -> io::Result<()> {
        // SAFETY: the range is the mapping's, and has no other users.
        unsafe { provide_pages(self.start, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing uses the range any more.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// Makes the kernel provide all pages of a range, large ones if possible.
///
/// # Errors
/// Returns the system's error if it has too little memory.
///
/// # Safety
/// The range is mapped writable. Nothing accesses it meanwhile, and its first bytes of each page are zeros.
pub unsafe fn provide_pages(start: *mut c_void, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise. Without large pages it is slower.
    unsafe {
        libc::madvise(start, len, libc::MADV_HUGEPAGE);
        if libc::madvise(start, len, libc::MADV_POPULATE_WRITE) == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            // A write to a page would end the process.
            return Err(error);
        }
        // Linux before 5.14.
        for at in (0..len).step_by(STEP) {
            start.cast::<u8>().add(at).write_volatile(0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 4 << 20;

    fn mapped(file: &KeptFile) -> KeptMemory {
        KeptMemory::map(vec![file.descriptor().try_clone_to_owned().unwrap()]).unwrap()
    }

    /// Returns the bytes of memory that the file has.
    fn resident(file: &KeptFile) -> i64 {
        // SAFETY: all-zero is a valid value, and writable.
        unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            assert_eq!(libc::fstat(file.descriptor().as_raw_fd(), &raw mut about), 0);
            about.st_blocks * 512
        }
    }

    #[test]
    fn parts_of_files_are_taken_once_and_shared_with_the_agent() {
        let files = [KeptFile::create(LEN).unwrap(), KeptFile::create(LEN).unwrap()];
        assert!(
            files.iter().all(|file| file.bytes() == LEN && resident(file) >= LEN.cast_signed()),
            "not all pages are there"
        );
        let mut memory = mapped(&files[0]);
        memory.extend(mapped(&files[1]));
        assert_eq!(memory.bytes(), 2 * LEN);
        let quarter = LEN as usize / 4;
        let parts: Vec<_> =
            [3 * quarter, 2 * quarter, quarter, 2 * quarter, quarter].map(|len| memory.take(len)).into();
        let starts: Vec<_> = parts.iter().map(|part| part.as_ref().map(|part| part.start() as usize)).collect();
        let [Some(first), Some(second), Some(third), Some(fourth), None] = starts[..] else { panic!("{starts:?}") };
        assert_eq!((third, fourth), (first + 3 * quarter, second + 2 * quarter));
        // SAFETY: the addresses are inside of the mappings.
        unsafe {
            (second as *mut u8).write_volatile(7);
            assert_eq!(files[1].mapping.start.cast::<u8>().read_volatile(), 7);
        }
        // The part keeps its mapping.
        drop(memory);
        // SAFETY: likewise.
        unsafe { assert_eq!((second as *mut u8).read_volatile(), 7) };
    }

    #[test]
    fn freed_pages_go_even_if_a_process_keeps_the_file() {
        let file = KeptFile::create(LEN).unwrap();
        let descriptor = file.descriptor().try_clone_to_owned().unwrap();
        let _kept = mapped(&file);
        file.free();
        assert_eq!(KeptMemory::map(vec![descriptor]).map_or(0, |memory| memory.bytes()), 0);
    }
}

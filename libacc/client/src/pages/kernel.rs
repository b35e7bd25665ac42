//! Queries to the kernel about this process's memory.

use super::mapping::{Access, Mapping, PAGE};
use accord_types::HostRange;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether pages could be made ready for an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ready {
    Yes,
    /// Pages from this address on could not, if known.
    No(Option<usize>),
}

/// Makes the pages of a range ready for an access, as the access itself would.
pub(super) fn make_ready(range: HostRange, access: Access) -> Ready {
    if knows_populate() {
        return match populate(range, access) {
            Ok(()) => Ready::Yes,
            // Pages before the first missing one are ready now.
            Err(libc::EFAULT) => Ready::No(missing(range, access)),
            Err(_) => Ready::No(None),
        };
    }
    touch(range, access)
}

/// Calls `madvise` on all pages of a range (Linux 5.14).
fn populate(range: HostRange, access: Access) -> Result<(), i32> {
    let (start, end) = pages(range);
    let advice = match access {
        Access::Read => libc::MADV_POPULATE_READ,
        Access::Write => libc::MADV_POPULATE_WRITE,
    };
    loop {
        // SAFETY: the advice changes no contents; the kernel checks whether the addresses are mapped.
        let done = unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(start), end - start, advice) };
        match if done == 0 { 0 } else { errno() } {
            0 => return Ok(()),
            libc::EINTR | libc::EAGAIN => {}
            error => return Err(error),
        }
    }
}

/// Returns the first page of a range that can't be made ready.
fn missing(range: HostRange, access: Access) -> Option<usize> {
    let (start, end) = pages(range);
    (start..end).step_by(PAGE).find(|&at| populate(HostRange { start: at, len: 1 }, access).is_err())
}

fn knows_populate() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let byte = 0u8;
        populate(HostRange { start: (&raw const byte).addr(), len: 1 }, Access::Write).is_ok()
    })
}

/// Does the same on older kernels: makes the kernel access a word of each page as a futex without waiters. A write adds
/// 0 atomically, so that no concurrent write is lost.
pub(super) fn touch(range: HostRange, access: Access) -> Ready {
    let (start, end) = pages(range);
    let refused = (start..end).step_by(PAGE).find(|&at| {
        let word = std::ptr::with_exposed_provenance::<u32>(at);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let other = 0u32;
        // SAFETY: the kernel checks whether the word is mapped. It compares it with a number, and the wait ends at
        // once; or it adds 0, and wakes no thread at a word of this frame.
        let done = unsafe {
            match access {
                Access::Read => {
                    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                    libc::syscall(libc::SYS_futex, word, wait, 0u32, &raw const now)
                }
                Access::Write => {
                    let add_nothing = libc::FUTEX_OP_ADD << 28;
                    let (wake, none) = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG, 0usize);
                    libc::syscall(libc::SYS_futex, &raw const other, wake, 0u32, none, word, add_nothing)
                }
            }
        };
        done < 0 && errno() == libc::EFAULT
    });
    match refused {
        None => Ready::Yes,
        at => Ready::No(at),
    }
}

fn pages(range: HostRange) -> (usize, usize) {
    (range.start & !(PAGE - 1), range.start.saturating_add(range.len).next_multiple_of(PAGE))
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev: [u32; 2],
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

const _: () = assert!(size_of::<Query>() == 0x68);

/// Returns a query for single mappings (Linux 6.11): the first that ends above an address. It has no answer on older
/// kernels.
pub(super) fn mapping_by_query() -> impl FnMut(usize) -> Option<Option<Mapping>> {
    /// Flag for the mapping that holds the address, or the next one.
    const OR_NEXT: u64 = 0x10;
    static UNKNOWN: AtomicBool = AtomicBool::new(false);
    // Opened for each use: programs close unknown descriptors, and open files of their own under their numbers.
    let maps = if UNKNOWN.load(Ordering::Relaxed) { None } else { File::open("/proc/thread-self/maps").ok() };
    move |address| {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            query_flags: OR_NEXT,
            query_addr: address as u64,
            ..Query::default()
        };
        // SAFETY: the kernel reads and writes one query, which requests no name.
        let done = unsafe { libc::ioctl(maps.as_ref()?.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if done != 0 {
            let error = errno();
            UNKNOWN.fetch_or(error == libc::ENOTTY, Ordering::Relaxed);
            return (error == libc::ENOENT).then_some(None);
        }
        Some(Some(Mapping {
            start: query.vma_start as usize,
            end: query.vma_end as usize,
            readable: query.vma_flags & READABLE != 0,
            writable: query.vma_flags & WRITABLE != 0,
            file: query.inode != 0,
        }))
    }
}

/// Whether a mapping is part of a loaded object, whose file can't be truncated without ending its programs.
pub(super) fn is_of_loaded_object(mapping: &Mapping) -> bool {
    struct SegmentSearch {
        start: usize,
        end: usize,
        found: bool,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes a valid record; `data` is the question below, which no other code uses during the
        // call.
        let (info, asked) = unsafe { (&*info, &mut *data.cast::<SegmentSearch>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the loader gives the address and number of the object's program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        asked.found = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize).next_multiple_of(PAGE);
            start & !(PAGE - 1) <= asked.start && asked.end <= end
        });
        asked.found.into()
    }
    let mut asked = SegmentSearch { start: mapping.start, end: mapping.end, found: false };
    if mapping.file {
        // SAFETY: the question outlives the call, and the callback neither panics nor calls the loader.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut asked).cast()) };
    }
    asked.found
}

/// Returns all mappings of the process, in order.
pub(super) fn mappings() -> Vec<Mapping> {
    let text = std::fs::read("/proc/thread-self/maps").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Parses a line of the list: `7f00-8000 rw-p 00000000 00:00 0 name`.
pub(super) fn parse(line: &[u8]) -> Option<Mapping> {
    let mut parts = line.split(|byte| *byte == b' ').filter(|part| !part.is_empty());
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (start, end) = text()?.split_once('-')?;
    let access = text()?.as_bytes();
    let (_offset, _device, inode) = (text()?, text()?, text()?);
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        readable: access.first() == Some(&b'r'),
        writable: access.get(1) == Some(&b'w'),
        file: inode != "0",
    })
}

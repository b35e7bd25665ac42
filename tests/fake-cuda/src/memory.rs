//! Device memory: mappings of this process.

use crate::control::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, NOT_SUPPORTED, OUT_OF_MEMORY, lock, setting};
use crate::remains;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

/// Ranges that copies may access: from start to end and device.
static MAPPED: Mutex<BTreeMap<u64, (u64, i32)>> = Mutex::new(BTreeMap::new());
/// Pinned host memory: start to end.
static PINNED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
/// The program's own memory in these, locked later: first byte and length.
static REGISTERED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// Allocated bytes by device.
static TAKEN: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());
/// Pieces by handle.
static PIECES: Mutex<BTreeMap<u64, Piece>> = Mutex::new(BTreeMap::new());

/// Files of allocations that other processes may open, by start.
static FILES: Mutex<BTreeMap<u64, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Allocations of this size have an address range and a file of their own.
const SHAREABLE: usize = 2 << 20;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Alignment of reserved addresses.
const RESERVED_AT: u64 = 2 << 20;

struct Piece {
    /// `None` if another process has created the piece.
    device: Option<i32>,
    len: u64,
    /// The memory itself, if it can be exported to other processes.
    file: Option<OwnedFd>,
    /// The location in the device's memory, if that is modelled.
    place: Option<u64>,
}

pub(crate) fn total() -> u64 {
    setting("FAKE_CUDA_MEMORY", 1 << 30)
}

pub(crate) fn free(device: i32) -> u64 {
    total() - lock(&TAKEN).get(&device).copied().unwrap_or(0)
}

/// Start of the search for an address range, and the number of tries.
const LOWEST: u64 = 0x4_2000_0000;
const PLACES: u64 = 256;

/// Reserves addresses: at `wanted` if that is free and not 0, else at the first free range after an address that is equal in every process, as the driver does.
pub(crate) fn reserve(wanted: u64, len: usize) -> Result<u64, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new inaccessible mapping at unused addresses.
    let map = |at: u64, len: usize, flags: i32| unsafe { libc::mmap(at as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
    // Released ranges are reused.
    let step = (len as u64).next_multiple_of(RESERVED_AT);
    let low = (0..PLACES).map(|place| LOWEST + place * step);
    let found = [wanted]
        .into_iter()
        .chain(low)
        .find(|&at| at != 0 && map(at, len, flags | libc::MAP_FIXED_NOREPLACE) as u64 == at);
    if let Some(at) = found {
        return Ok(at);
    }
    let start = map(0, len + RESERVED_AT as usize, flags);
    if start == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok((start as u64).next_multiple_of(RESERVED_AT)) }
}

pub(crate) fn unreserve(start: u64, len: usize) {
    // SAFETY: the caller releases what `reserve` returned.
    unsafe { libc::munmap(start as *mut _, len) };
}

pub(crate) fn create(device: i32, len: u64, shareable: bool) -> Result<u64, i32> {
    if remains::are_kept() {
        if shareable {
            return Err(NOT_SUPPORTED);
        }
        take(device, len)?;
        let place = Some(remains::take(device, len)?);
        return Ok(add(Piece { device: Some(device), len, file: None, place }));
    }
    take(device, len)?;
    let file = if shareable {
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(c"fake-cuda".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 || libc::ftruncate(file, len as i64) != 0 {
                return Err(OUT_OF_MEMORY);
            }
            OwnedFd::from_raw_fd(file)
        };
        Some(file)
    } else {
        None
    };
    Ok(add(Piece { device: Some(device), len, file, place: None }))
}

fn add(piece: Piece) -> u64 {
    let mut pieces = lock(&PIECES);
    let handle = pieces.keys().next_back().map_or(1, |last| last + 1);
    pieces.insert(handle, piece);
    handle
}

/// Returns a descriptor of a piece, which the caller owns.
pub(crate) fn export(handle: u64) -> Result<i32, i32> {
    let pieces = lock(&PIECES);
    let file = pieces.get(&handle).and_then(|piece| piece.file.as_ref()).ok_or(INVALID_VALUE)?;
    // SAFETY: the descriptor is open.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 { Err(INVALID_VALUE) } else { Ok(copy) }
}

/// Returns the piece of a descriptor, which the caller keeps.
pub(crate) fn import(descriptor: i32) -> Result<u64, i32> {
    // SAFETY: all-zero is a valid value, and writable. A closed descriptor is an error.
    let (file, len) = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        let copy = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0);
        if copy < 0 {
            return Err(INVALID_VALUE);
        }
        let copy = OwnedFd::from_raw_fd(copy);
        // Only such files can be sealed.
        if libc::fcntl(copy.as_raw_fd(), libc::F_GET_SEALS) < 0 || libc::fstat(descriptor, &raw mut about) != 0 {
            return Err(INVALID_VALUE);
        }
        (copy, about.st_size as u64)
    };
    Ok(add(Piece { device: None, len, file: Some(file), place: None }))
}

pub(crate) fn release(handle: u64) -> Result<(), i32> {
    let piece = lock(&PIECES).remove(&handle).ok_or(INVALID_VALUE)?;
    if let Some(device) = piece.device {
        *lock(&TAKEN).entry(device).or_default() -= piece.len;
        if let Some(place) = piece.place {
            remains::give_back(device, place, piece.len);
        }
    }
    Ok(())
}

fn take(device: i32, len: u64) -> Result<(), i32> {
    let mut taken = lock(&TAKEN);
    let taken = taken.entry(device).or_default();
    if *taken + len > total() {
        return Err(OUT_OF_MEMORY);
    }
    *taken += len;
    Ok(())
}

pub(crate) fn map(start: u64, len: u64, handle: u64) -> Result<(), i32> {
    let pieces = lock(&PIECES);
    let piece = pieces.get(&handle).ok_or(INVALID_VALUE)?;
    let (device, size) = (piece.device.unwrap_or(-1), piece.len);
    let mut mapped = lock(&MAPPED);
    let overlaps = mapped.range(..start + len).next_back().is_some_and(|(_, (end, _))| *end > start);
    if size != len || overlaps || !start.is_multiple_of(2 << 20) {
        return Err(INVALID_VALUE);
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the range is the caller's reservation.
    let done = unsafe {
        match &piece.file {
            None if piece.place.is_some() => remains::map(device, piece.place.unwrap_or_default(), start, len),
            None => libc::mprotect(start as *mut _, len as usize, access) == 0,
            Some(file) => {
                let flags = libc::MAP_SHARED | libc::MAP_FIXED;
                libc::mmap(start as *mut _, len as usize, access, flags, file.as_raw_fd(), 0) != libc::MAP_FAILED
            }
        }
    };
    if !done {
        return Err(INVALID_VALUE);
    }
    mapped.insert(start, (start + len, device));
    Ok(())
}

pub(crate) fn unmap(start: u64, len: u64) -> Result<(), i32> {
    // Whole pieces only, as in the driver.
    let mut mapped = lock(&MAPPED);
    if mapped.get(&start).is_none_or(|(end, _)| *end != start + len) {
        return Err(INVALID_VALUE);
    }
    mapped.remove(&start);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: replaces a mapping of the caller.
    unsafe { libc::mmap(start as *mut _, len as usize, libc::PROT_NONE, flags, -1, 0) };
    Ok(())
}

/// Returns whether a range is completely mapped.
pub(crate) fn check(start: u64, len: usize) -> Result<(), i32> {
    let mapped = lock(&MAPPED);
    let (mut at, end) = (start, start + len as u64);
    while at < end {
        match mapped.range(..=at).next_back() {
            Some((_, (until, _))) if *until > at => at = *until,
            _ => return Err(INVALID_VALUE),
        }
    }
    Ok(())
}

/// Allocates memory that is mapped at once: `cuMemAlloc` and variables of modules.
pub(crate) fn allocate(device: i32, len: usize) -> Result<u64, i32> {
    take(device, len as u64)?;
    if len >= SHAREABLE {
        // The file is unnamed until the memory is exported.
        // SAFETY: the name ends with a zero byte; the descriptor is new.
        let file = unsafe {
            let file = libc::memfd_create(c"fake-cuda".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 || libc::ftruncate(file, len as i64) != 0 {
                return Err(OUT_OF_MEMORY);
            }
            OwnedFd::from_raw_fd(file)
        };
        let memory = map_file(&file, len as u64)?;
        lock(&MAPPED).insert(memory, (memory + len as u64, device));
        lock(&FILES).insert(memory, file);
        return Ok(memory);
    }
    let memory = Box::leak(vec![0u128; len.div_ceil(16)].into_boxed_slice()).as_mut_ptr() as u64;
    lock(&MAPPED).insert(memory, (memory + len as u64, device));
    Ok(memory)
}

/// Maps a file at a free address, aligned as the driver's large allocations.
fn map_file(file: &OwnedFd, len: u64) -> Result<u64, i32> {
    let start = reserve(0, len as usize)?;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the range was just reserved.
    let at = unsafe { libc::mmap(start as *mut _, len as usize, access, flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok(start) }
}

/// Returns an allocation's handle for other processes: the location of its file.
pub(crate) fn name(start: u64) -> Result<[u64; 8], i32> {
    let files = lock(&FILES);
    let file = files.get(&start).ok_or(INVALID_VALUE)?;
    let (end, device) = *lock(&MAPPED).get(&start).ok_or(INVALID_VALUE)?;
    let device = u64::from(device.unsigned_abs());
    Ok([u64::from(std::process::id()), file.as_raw_fd() as u64, end - start, device, 0, 0, 0, 0])
}

/// Opens another process's allocation. Like the driver, refuses those of the same process.
pub(crate) fn open([process, file, len, ..]: [u64; 8]) -> Result<u64, i32> {
    if process == u64::from(std::process::id()) || setting("FAKE_CUDA_IMPORT", 1) == 0 {
        return Err(INVALID_VALUE);
    }
    let options = std::fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{process}/fd/{file}"));
    let file = OwnedFd::from(options.map_err(|_| INVALID_VALUE)?);
    let start = map_file(&file, len)?;
    lock(&MAPPED).insert(start, (start + len, -1));
    Ok(start)
}

pub(crate) fn close(start: u64) -> Result<(), i32> {
    let mut mapped = lock(&MAPPED);
    let (end, _) = mapped.get(&start).copied().filter(|(_, device)| *device == -1).ok_or(INVALID_VALUE)?;
    mapped.remove(&start);
    unreserve(start, (end - start) as usize);
    Ok(())
}

pub(crate) fn free_allocation(start: u64) -> Result<(), i32> {
    let (end, device) = lock(&MAPPED).remove(&start).ok_or(INVALID_VALUE)?;
    if lock(&FILES).remove(&start).is_some() {
        unreserve(start, (end - start) as usize);
    }
    *lock(&TAKEN).entry(device).or_default() -= end - start;
    Ok(())
}

pub(crate) fn pin(len: usize) -> u64 {
    let memory = Box::leak(vec![0u128; len.div_ceil(16)].into_boxed_slice()).as_mut_ptr() as u64;
    lock(&PINNED).insert(memory, memory + len as u64);
    memory
}

pub(crate) fn unpin(start: u64) -> Result<(), i32> {
    lock(&PINNED).remove(&start).map(drop).ok_or(INVALID_VALUE)
}

pub(crate) fn is_pinned(address: u64) -> bool {
    lock(&PINNED).range(..=address).next_back().is_some_and(|(_, end)| *end > address)
}

/// Page-locks the program's memory.
pub(crate) fn register(start: u64, len: usize) -> Result<(), i32> {
    let mut pinned = lock(&PINNED);
    let end = start + len as u64;
    if len == 0 {
        return Err(INVALID_VALUE);
    }
    if pinned.range(..end).next_back().is_some_and(|(_, other)| *other > start) {
        return Err(ALREADY_REGISTERED);
    }
    pinned.insert(start, end);
    lock(&REGISTERED).push((start, len as u64));
    mark(start, len, libc::MADV_DONTDUMP);
    Ok(())
}

/// Marks the locked pages. New pages at the same addresses have no mark.
fn mark(start: u64, len: usize, how: i32) {
    let (first, end) = (start.next_multiple_of(PAGE), (start + len as u64) / PAGE * PAGE);
    if first < end {
        // SAFETY: changes only how pages are dumped. Fails on unmapped addresses.
        unsafe { libc::madvise(first as *mut libc::c_void, (end - first) as usize, how) };
    }
}

/// Returns whether a range of registered memory still has the locked pages, which are the only ones that the copy engines access.
pub(crate) fn has_locked_pages(start: u64, len: usize) -> bool {
    let end = start + len as u64;
    let is_registered = |(first, len): &(u64, u64)| *first <= start && end <= first + len;
    if !lock(&REGISTERED).iter().any(is_registered) {
        return true;
    }
    let (mut from, mut to) = (0, 0);
    // Each mapping has a line with its addresses, and a last line with its flags.
    for line in std::fs::read_to_string("/proc/self/smaps").unwrap_or_default().lines() {
        if let Some(marks) = line.strip_prefix("VmFlags:") {
            if from < end && start < to && !marks.split_whitespace().any(|mark| mark == "dd") {
                return false;
            }
        } else if let Some((first, rest)) = line.split(' ').next().and_then(|word| word.split_once('-'))
            && let (Ok(first), Ok(last)) = (u64::from_str_radix(first, 16), u64::from_str_radix(rest, 16))
        {
            (from, to) = (first, last);
        }
    }
    true
}

pub(crate) fn unregister(start: u64) -> Result<(), i32> {
    let mut pinned = lock(&PINNED);
    let mut registered = lock(&REGISTERED);
    let at = registered.iter().position(|(known, _)| *known == start).ok_or(NOT_REGISTERED)?;
    let (first, len) = registered.swap_remove(at);
    mark(first, len as usize, libc::MADV_DODUMP);
    pinned.remove(&start).map(drop).ok_or(NOT_REGISTERED)
}

/// Locked ranges: first byte and length.
pub(crate) fn registered() -> Vec<(u64, u64)> {
    lock(&REGISTERED).clone()
}

/// Returns whether the copy engines can access a host range. A partly accessible range is an error, as in the
/// driver.
pub(crate) fn reaches(start: u64, len: usize) -> Result<bool, i32> {
    let pinned = lock(&PINNED);
    let end = start + len as u64;
    match pinned.range(..=start).next_back() {
        Some((_, until)) if *until > start => {
            if *until >= end {
                Ok(true)
            } else {
                Err(INVALID_VALUE)
            }
        }
        _ => Ok(false),
    }
}

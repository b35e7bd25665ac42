//! Device memory: mappings of this process.

use crate::control::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, NOT_SUPPORTED, OUT_OF_MEMORY, lock, setting};
use crate::remains;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

/// Ranges that copies may touch: start to end and device.
static MAPPED: Mutex<BTreeMap<u64, (u64, i32)>> = Mutex::new(BTreeMap::new());
/// Pinned host memory: start to end.
static PINNED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
/// What of it is the program's own, locked later: first byte, length.
static REGISTERED: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// Bytes taken, by device.
static TAKEN: Mutex<BTreeMap<i32, u64>> = Mutex::new(BTreeMap::new());
/// Pieces by handle.
static PIECES: Mutex<BTreeMap<u64, Piece>> = Mutex::new(BTreeMap::new());

/// Files behind allocations that other processes may open, by their start.
static FILES: Mutex<BTreeMap<u64, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Allocations of this size have a place, and a file, of their own.
const SHAREABLE: usize = 2 << 20;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Reserved addresses begin at multiples of this.
const RESERVED_AT: u64 = 2 << 20;

struct Piece {
    /// None if another process has made it.
    device: Option<i32>,
    len: u64,
    /// The memory itself, if other processes may get it.
    file: Option<OwnedFd>,
    /// Where it lies in the device's memory, if that is modelled.
    place: Option<u64>,
}

pub(crate) fn total() -> u64 {
    setting("FAKE_CUDA_MEMORY", 1 << 30)
}

pub(crate) fn free(device: i32) -> u64 {
    total() - lock(&TAKEN).get(&device).copied().unwrap_or(0)
}

/// Where the search for a place begins, and how many are tried.
const LOWEST: u64 = 0x4_2000_0000;
const PLACES: u64 = 256;

/// At `wanted` if that is free and not 0. Else at the first free place from the same address on in every process, as the driver does.
pub(crate) fn reserve(wanted: u64, len: usize) -> Result<u64, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping that nothing can be done with, where nothing is.
    let map = |at: u64, len: usize, flags: i32| unsafe { libc::mmap(at as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
    // What was given back is given again.
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
    // SAFETY: the caller gives back what `reserve` returned.
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

/// A descriptor of a piece, the caller's.
pub(crate) fn export(handle: u64) -> Result<i32, i32> {
    let pieces = lock(&PIECES);
    let file = pieces.get(&handle).and_then(|piece| piece.file.as_ref()).ok_or(INVALID_VALUE)?;
    // SAFETY: the descriptor is open.
    let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 { Err(INVALID_VALUE) } else { Ok(copy) }
}

/// The piece behind a descriptor, which stays the caller's.
pub(crate) fn import(descriptor: i32) -> Result<u64, i32> {
    // SAFETY: all-zero is a valid value, and valid for writing. A descriptor that is not open is an error.
    let (file, len) = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        let copy = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0);
        if copy < 0 {
            return Err(INVALID_VALUE);
        }
        let copy = OwnedFd::from_raw_fd(copy);
        // Nothing else can be sealed.
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
    // Whole pieces only, as the driver has it.
    let mut mapped = lock(&MAPPED);
    if mapped.get(&start).is_none_or(|(end, _)| *end != start + len) {
        return Err(INVALID_VALUE);
    }
    mapped.remove(&start);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: replaces the caller's own mapping.
    unsafe { libc::mmap(start as *mut _, len as usize, libc::PROT_NONE, flags, -1, 0) };
    Ok(())
}

/// Whether all of a range is mapped.
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

/// Memory that is mapped from the start: `cuMemAlloc`, variables of modules.
pub(crate) fn allocate(device: i32, len: usize) -> Result<u64, i32> {
    take(device, len as u64)?;
    if len >= SHAREABLE {
        // No other process has to know yet that it may open it.
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

/// A mapping of a file where there is room, at a multiple of what the driver has for large allocations.
fn map_file(file: &OwnedFd, len: u64) -> Result<u64, i32> {
    let start = reserve(0, len as usize)?;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: the range was just reserved.
    let at = unsafe { libc::mmap(start as *mut _, len as usize, access, flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(OUT_OF_MEMORY) } else { Ok(start) }
}

/// An allocation's name for other processes: where its file is found.
pub(crate) fn name(start: u64) -> Result<[u64; 8], i32> {
    let files = lock(&FILES);
    let file = files.get(&start).ok_or(INVALID_VALUE)?;
    let (end, device) = *lock(&MAPPED).get(&start).ok_or(INVALID_VALUE)?;
    let device = u64::from(device.unsigned_abs());
    Ok([u64::from(std::process::id()), file.as_raw_fd() as u64, end - start, device, 0, 0, 0, 0])
}

/// Opens another process's allocation. The driver refuses those of the same process.
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

/// Locks the program's own memory.
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

/// Marks the pages that are locked: new pages at the same addresses are not.
fn mark(start: u64, len: usize, how: i32) {
    let (first, end) = (start.next_multiple_of(PAGE), (start + len as u64) / PAGE * PAGE);
    if first < end {
        // SAFETY: how pages are dumped is all that changes. Where there are none, nothing does.
        unsafe { libc::madvise(first as *mut libc::c_void, (end - first) as usize, how) };
    }
}

/// Whether a range in registered memory has the pages that were locked: the engines know no others.
pub(crate) fn has_locked_pages(start: u64, len: usize) -> bool {
    let end = start + len as u64;
    let is_registered = |(first, len): &(u64, u64)| *first <= start && end <= first + len;
    if !lock(&REGISTERED).iter().any(is_registered) {
        return true;
    }
    let (mut from, mut to) = (0, 0);
    // Each mapping has a line with its addresses, and at the end one with its marks.
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

/// Ranges that are locked: first byte, length.
pub(crate) fn registered() -> Vec<(u64, u64)> {
    lock(&REGISTERED).clone()
}

/// Whether the device's engines reach a range of the host. One that they reach only in part is an error, as the
/// driver has it.
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

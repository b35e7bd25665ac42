//! The owner's side of a device's memory: the file, its mapping, and the amount in use.

use super::detach::above_stdio;
use super::globals::Piece;
use super::layout::{
    ARENA_OFFSET, ARENA_STRIDE, CONTROL_BYTES, Control, GUARDED_GRANULE, LAYOUT_VERSION, MAPPED_GRANULE, MAPPED_WORDS,
};
use super::shared_capacity::SharedCapacity;
use crate::file_limit;
use accord_types::short_lock::{ShortLock, ShortRwLock};
use accord_types::{AddressRange, Count, DeviceInfo, DevicePtr, Error, ErrorCode, Result, sandbox, scarce};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// The file's size can't change.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The mapping in this process of pages with `declare` variables, which are in the worker's own data segments.
#[derive(Clone, Copy)]
struct View {
    len: u64,
    at: *mut u8,
}

/// A device's memory file. The owner maps its control part, its arena, and the pages of `declare` variables between them that are in use.
pub(crate) struct Arena {
    fd: OwnedFd,
    /// The control part.
    base: *mut u8,
    /// The arena, mapped at its device address if that is free in this process.
    memory: *mut u8,
    /// Device address and length of the arena.
    start: u64,
    len: u64,
    capacity: u64,
    /// Bytes per bit of mapped memory.
    granule: u64,
    /// The capacity that other sessions share.
    shared: SharedCapacity,
    /// Mapped ranges by start, and their total.
    mapped: ShortLock<(BTreeMap<u64, u64>, u64)>,
    /// Views by device address. They may overlap, and then map the same memory.
    views: ShortRwLock<BTreeMap<u64, View>>,
}

// SAFETY: `base` and the views are shared mappings that live as long as the Arena. The streams order all access to
// their bytes, as they do for device memory.
unsafe impl Send for Arena {}
// SAFETY: as for Send.
unsafe impl Sync for Arena {}

/// Returns how many addresses a device likes to have.
pub(crate) fn addresses_wanted(info: &DeviceInfo) -> u64 {
    // Twice the memory allows for fragmentation, and addresses are cheap. A process may have few of them (`ulimit -v`).
    let small = info.memory.saturating_mul(8).min(1 << 30);
    let wanted = info.memory.saturating_mul(2).max(small).max(AddressRange::PAGE);
    wanted.min(ARENA_STRIDE - ARENA_OFFSET).next_multiple_of(AddressRange::PAGE)
}

/// Returns the default place of a device's memory.
fn usual_place(info: &DeviceInfo) -> AddressRange {
    let start = AddressRange::WINDOW.start.offset(u64::from(info.id.ordinal) * ARENA_STRIDE);
    AddressRange { start, len: addresses_wanted(info) }
}

impl Arena {
    /// A memory file for a device.
    pub(crate) fn new(info: &DeviceInfo, place: Option<AddressRange>) -> Result<Self> {
        let AddressRange { start: DevicePtr(start), len: most } = place.unwrap_or_else(|| usual_place(info));
        if most > MAPPED_WORDS as u64 * 64 * GUARDED_GRANULE {
            let cause = format!("{most} addresses for one device: {ARENA_STRIDE} are possible");
            return Err(Error::new(ErrorCode::DeviceInit, cause)
                .remedy("use more devices (ACCORD_CPU_DEVICES), of less memory each"));
        }
        let least = info.memory.max(1).next_multiple_of(AddressRange::PAGE).min(most);
        let refused = |what: &str, error: std::io::Error| {
            const REMEDY: &str = "allow this process more address space and shared memory (ulimit -v, cgroup memory limit), or set \
                                  ACCORD_CPU_MEMORY to less";
            let error = sandbox::named(what, error);
            Error::new(ErrorCode::DeviceInit, format!("{what} of {least} bytes for device memory: {error}"))
                .remedy_if(sandbox::remedy(&error))
                .remedy(scarce::remedy(&error).filter(|_| error.kind() != ErrorKind::OutOfMemory).unwrap_or(REMEDY))
        };
        let fail = |what: &str| refused(what, std::io::Error::last_os_error());
        // SAFETY: the descriptor is new and has no other owner. mmap at an address that the kernel chooses, or at a free one,
        // changes no existing mapping.
        let (fd, base, memory, len) = unsafe {
            let fd = libc::memfd_create(c"accord-device".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if fd < 0 {
                return Err(fail("memfd_create"));
            }
            let fd = above_stdio(OwnedFd::from_raw_fd(fd)).map_err(|_| fail("memfd_create"))?;
            let map = |at: u64, flags: i32, offset: u64, len: u64| {
                let at = std::ptr::with_exposed_provenance_mut::<libc::c_void>(at as usize);
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | flags;
                let at = libc::mmap(at, len as usize, access, flags, fd.as_raw_fd(), offset as libc::off_t);
                if at != libc::MAP_FAILED {
                    // Device memory is neither part of the program's core dumps nor mapped in a forked child.
                    libc::madvise(at, len as usize, libc::MADV_DONTDUMP);
                    libc::madvise(at, len as usize, libc::MADV_DONTFORK);
                }
                at
            };
            let map_arena = |len: u64| {
                let memory = map(start, libc::MAP_FIXED_NOREPLACE, ARENA_OFFSET, len);
                if memory != libc::MAP_FAILED {
                    return Some((memory, len));
                }
                // If the address is in use, as under valgrind, the memory is mapped elsewhere. Device addresses then have no meaning in
                // this process.
                let memory = map(0, 0, ARENA_OFFSET, len);
                (memory != libc::MAP_FAILED).then_some((memory, len))
            };
            let base = map(0, 0, 0, CONTROL_BYTES as u64);
            if base == libc::MAP_FAILED {
                return Err(fail("mmap"));
            }
            let release = |failed: Error| {
                libc::munmap(base, CONTROL_BYTES);
                failed
            };
            let (memory, len) = map_arena(most).or_else(|| map_arena(least)).ok_or_else(|| release(fail("mmap")))?;
            let release = |failed: Error| {
                libc::munmap(memory, len as usize);
                release(failed)
            };
            let lengthen = || match libc::ftruncate(fd.as_raw_fd(), (ARENA_OFFSET + len) as libc::off_t) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            };
            file_limit::as_error(lengthen).map_err(|error| release(refused("ftruncate", error)))?;
            // The worker has the file too, and could otherwise shorten it, which would make accesses here fault.
            if libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) != 0 {
                return Err(release(fail("F_ADD_SEALS")));
            }
            (fd, base.cast::<u8>(), memory.cast::<u8>(), len)
        };
        let (mapped, views) = (ShortLock::default(), ShortRwLock::default());
        let (capacity, shared) = (info.memory, SharedCapacity::new(info, None));
        let granule = MAPPED_GRANULE;
        let arena = Self { fd, base, memory, start, len, capacity, granule, shared, mapped, views };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        arena.control().header().cores.store(cores as u32, Ordering::Relaxed);
        arena.control().header().granule.store(granule, Ordering::Relaxed);
        arena.control().header().version.store(LAYOUT_VERSION, Ordering::Release);
        Ok(arena)
    }

    /// Counts all memory mapped from now on together with that of other sessions.
    pub(crate) fn sharing(mut self, shared: SharedCapacity) -> Self {
        self.shared = shared;
        self
    }

    /// Lets the worker access mapped memory by the system's pages, so that blocks can have guard pages. Called before the worker starts.
    pub(crate) fn with_guard_pages(mut self) -> Self {
        self.granule = GUARDED_GRANULE;
        self.control().header().granule.store(GUARDED_GRANULE, Ordering::Relaxed);
        self
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns header and streams, which are valid as long as the arena.
    pub(crate) fn control(&self) -> Control {
        // SAFETY: the mapping is the control part; users hold the arena by Arc.
        unsafe { Control::new(self.base) }
    }

    pub(crate) fn addresses(&self) -> (DevicePtr, u64) {
        (DevicePtr(self.start), self.len)
    }

    pub(crate) fn free(&self) -> u64 {
        let others = self.shared.others();
        self.capacity.saturating_sub(self.mapped.lock().1).saturating_sub(others)
    }

    /// Accounts for memory at a range. The file provides pages on first access.
    pub(crate) fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.check_inside(start.0, len)?;
        let total = self.reserve(start, len)?;
        if let Err(error) = self.shared.claim(len, total) {
            let mut mapped = self.mapped.lock();
            mapped.0.remove(&start.0);
            mapped.1 -= len;
            // A neighbour's concurrent unmapping has set their common granule's bit.
            self.show_mapped(&mapped.0, start.0, len);
            return Err(error);
        }
        let mapped = self.mapped.lock();
        self.show_mapped(&mapped.0, start.0, len);
        Ok(())
    }

    /// Counts a range as this session's. Returns the session's previous total.
    fn reserve(&self, start: DevicePtr, len: u64) -> Result<u64> {
        let mut mapped = self.mapped.lock();
        let (ranges, total) = &mut *mapped;
        let before = ranges.range(..start.0 + len).next_back();
        if before.is_some_and(|(&s, &l)| s + l > start.0) {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("device range {start} + {len} is mapped already"),
            ));
        }
        if *total + len > self.capacity {
            return Err(Error::new(
                ErrorCode::OutOfMemory,
                format!("{len} bytes asked for, {total} of {} bytes of device memory in use", self.capacity),
            )
            .remedy("free data on this device, use more devices, or raise ACCORD_CPU_MEMORY"));
        }
        ranges.insert(start.0, len);
        *total += len;
        Ok(*total - len)
    }

    /// Gives pages back to the system. The range may be part of one mapped range, or span several.
    pub(crate) fn unmap(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.check_inside(start.0, len)?;
        let mut mapped = self.mapped.lock();
        let (ranges, total) = &mut *mapped;
        let end = start.0 + len;
        let touched: Vec<(u64, u64)> =
            ranges.range(..end).rev().map(|(&s, &l)| (s, s + l)).take_while(|&(_, e)| e > start.0).collect();
        let inside: u64 = touched.iter().map(|&(s, e)| e.min(end) - s.max(start.0)).sum();
        if inside != len {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                format!("of the device range {start} + {len} only {inside} bytes are mapped"),
            ));
        }
        for (s, e) in touched {
            ranges.remove(&s);
            if s < start.0 {
                ranges.insert(s, start.0 - s);
            }
            if e > end {
                ranges.insert(end, e - end);
            }
        }
        *total -= len;
        self.show_mapped(ranges, start.0, len);
        // SAFETY: only pages of this file are freed, and the range's owner no longer uses them.
        unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                (ARENA_OFFSET + (start.0 - self.start)) as libc::off_t,
                len as libc::off_t,
            );
        }
        drop(mapped);
        self.shared.give_back(len);
        Ok(())
    }

    /// Publishes to the worker which granules of a range have mapped memory. The caller holds the lock.
    fn show_mapped(&self, ranges: &BTreeMap<u64, u64>, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let control = self.control();
        let granules = (start - self.start) / self.granule..=(start + len - 1 - self.start) / self.granule;
        control.header().mapped_words.fetch_max(granules.end() / 64 + 1, Ordering::Relaxed);
        for granule in granules {
            let from = self.start + granule * self.granule;
            let last = ranges.range(..from + self.granule).next_back();
            let (word, bit) = (control.mapped((granule / 64) as usize), 1 << (granule % 64));
            if last.is_some_and(|(&s, &l)| s + l > from) {
                word.fetch_or(bit, Ordering::Relaxed);
            } else {
                word.fetch_and(!bit, Ordering::Relaxed);
            }
        }
        control.header().memory_changes.fetch_add(1, Ordering::Release);
    }

    /// Translates `[start, start + len)` of the device to an address of this process.
    pub(crate) fn translate(&self, start: DevicePtr, len: u64) -> Result<*mut u8> {
        if self.is_inside(start.0, len) {
            // SAFETY: the offset is inside the mapping, as checked above.
            return Ok(unsafe { self.memory.add((start.0 - self.start) as usize) });
        }
        let end = start.0.saturating_add(len);
        let views = self.views.read();
        // The last view that starts at or before the address contains it, unless a longer view does.
        if let Some((&first, view)) = views.range(..=start.0).rev().find(|&(&s, v)| end <= s + v.len) {
            // SAFETY: the offset is inside the view, as checked above.
            return Ok(unsafe { view.at.add((start.0 - first) as usize) });
        }
        Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("device address {start}, with {}, is not in this device's memory", Count(len as usize, "byte")),
        )
        .remedy("pass an address that acc_malloc or acc_deviceptr returned for this device"))
    }

    /// Makes the pages of a variable addressable as one range, though they may be in several pieces of the file. The pieces
    /// are contiguous in the worker.
    pub(crate) fn show(&self, pieces: &[Piece]) -> Result<()> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let (start, len) = (first.start, last.start + last.len - first.start);
        if self.translate(DevicePtr(start), len).is_ok() {
            return Ok(());
        }
        let mut views = self.views.write();
        let at = self.join(pieces, len)?;
        views.insert(start, View { len, at });
        Ok(())
    }

    /// Maps pieces of the file contiguously.
    fn join(&self, pieces: &[Piece], len: u64) -> Result<*mut u8> {
        let map = |at: *mut u8, len: u64, flags: i32, fd: i32, offset: u64| {
            let protection = if fd < 0 { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
            // SAFETY: the address is chosen by the kernel, or inside the range that was reserved for these pieces.
            let at = unsafe {
                libc::mmap(at.cast(), len as usize, protection, flags, fd, offset as libc::off_t).cast::<u8>()
            };
            if at.cast() == libc::MAP_FAILED {
                let error = std::io::Error::last_os_error();
                return Err(Error::new(
                    ErrorCode::System,
                    format!("mmap of {len} bytes of declare variables: {error}"),
                )
                .remedy("allow this process more address space (ulimit -v) and mappings (vm.max_map_count)"));
            }
            Ok(at)
        };
        let reserved =
            map(std::ptr::null_mut(), len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)?;
        for piece in pieces {
            // SAFETY: pieces lie in `[start, start + len)`.
            let at = unsafe { reserved.add((piece.start - pieces[0].start) as usize) };
            let shared = libc::MAP_SHARED | libc::MAP_FIXED;
            if let Err(error) = map(at, piece.len, shared, self.fd.as_raw_fd(), piece.file_offset) {
                // SAFETY: reserved just now, and not published yet.
                unsafe { libc::munmap(reserved.cast(), len as usize) };
                return Err(error);
            }
        }
        // SAFETY: as for the arena. Device memory belongs in no core dump and no forked child.
        unsafe {
            libc::madvise(reserved.cast(), len as usize, libc::MADV_DONTDUMP);
            libc::madvise(reserved.cast(), len as usize, libc::MADV_DONTFORK);
        }
        Ok(reserved)
    }

    #[inline]
    fn is_inside(&self, start: u64, len: u64) -> bool {
        let end = start.checked_add(len);
        start >= self.start && end.is_some_and(|end| end <= self.start + self.len)
    }

    fn check_inside(&self, start: u64, len: u64) -> Result<()> {
        if self.is_inside(start, len) {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("device range {start:#x} + {len} is outside this device's addresses"),
        ))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let views = std::mem::take(self.views.get_mut());
        for view in views.values() {
            // SAFETY: `join` mapped this length, and no user remains after the last Arc is dropped.
            unsafe { libc::munmap(view.at.cast(), view.len as usize) };
        }
        // SAFETY: `new` mapped this length, and no user remains.
        unsafe {
            libc::munmap(self.memory.cast(), self.len as usize);
            libc::munmap(self.base.cast(), CONTROL_BYTES);
        }
        let total = self.mapped.get_mut().1;
        self.shared.give_back(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::globals::PAGE;
    use crate::cpu::layout::GLOBALS_OFFSET;
    use crate::cpu::{CpuConfig, inventory};

    fn arena(memory: u64) -> Arena {
        let config = CpuConfig { devices: Some(3), memory: Some(memory) };
        Arena::new(&inventory(accord_types::NodeId(0), "here", &config)[2], None).expect("address space")
    }

    #[test]
    fn memory_is_counted_and_given_back() {
        let arena = arena(8 << 20);
        let (start, _) = arena.addresses();
        arena.map(start, 6 << 20).expect("fits");
        let error = arena.map(start.offset(6 << 20), 4 << 20).expect_err("too much");
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert_eq!(arena.map(start.offset(1 << 20), 1 << 20).expect_err("twice").code(), ErrorCode::InvalidArgument);
        arena.unmap(start, 6 << 20).expect("was mapped");
        assert_eq!(arena.free(), 8 << 20);
    }

    #[test]
    fn parts_and_neighbours_can_be_unmapped() {
        let arena = arena(64 << 20);
        let (start, _) = arena.addresses();
        let at = |mib: u64| start.offset(mib << 20);
        arena.map(at(0), 10 << 20).expect("fits");
        arena.map(at(10), 10 << 20).expect("fits");
        arena.unmap(at(4), 12 << 20).expect("all of it is mapped");
        assert_eq!(arena.free(), 56 << 20);
        assert!(arena.unmap(at(15), 2 << 20).is_err(), "a part of it is not");
        arena.map(at(4), 12 << 20).expect("free again");
        arena.unmap(at(0), 20 << 20).expect("all three");
        assert_eq!(arena.free(), 64 << 20);
    }

    #[test]
    fn unmapped_memory_comes_back_as_zeros() {
        let arena = arena(4 << 20);
        let (start, _) = arena.addresses();
        arena.map(start, 2 << 20).expect("fits");
        let p = arena.translate(start, 1).expect("inside");
        // SAFETY: mapped memory of this test's own.
        unsafe { p.write(9) };
        arena.unmap(start, 2 << 20).expect("was mapped");
        arena.map(start, 2 << 20).expect("fits again");
        // SAFETY: as above.
        assert_eq!(unsafe { p.read() }, 0);
    }

    #[test]
    fn pieces_of_globals_are_seen_side_by_side() {
        let arena = arena(1 << 20);
        let at = 0x5555_0000_0000u64;
        let piece = |page: u64, pages: u64, file_page: u64| Piece {
            start: at + page * PAGE,
            len: pages * PAGE,
            file_offset: GLOBALS_OFFSET + file_page * PAGE,
        };
        let (left, right, middle) = (piece(0, 1, 0), piece(3, 1, 1), piece(1, 2, 2));
        let translate = |offset: u64, len: u64| arena.translate(DevicePtr(at + offset), len);
        // SAFETY: memory of this test's own, which `translate` has checked.
        let write = |offset, byte| unsafe { translate(offset, 1).expect("shown").write(byte) };
        arena.show(&[left]).expect("address space");
        arena.show(&[right]).expect("address space");
        assert!(translate(PAGE - 1, 2).is_err());
        write(PAGE - 1, 1);
        write(3 * PAGE, 4);
        arena.show(&[left, middle, right]).expect("address space");
        write(2 * PAGE, 2);
        let len = 2 * PAGE + 2;
        let whole = translate(PAGE - 1, len).expect("all three");
        // SAFETY: as above.
        let whole = unsafe { std::slice::from_raw_parts(whole, len as usize) };
        assert_eq!((whole[0], whole[1 + PAGE as usize], whole[1 + 2 * PAGE as usize]), (1, 2, 4));
        assert!(translate(0, 4 * PAGE + 1).is_err());
        assert!(translate(4 * PAGE, 1).is_err());
    }

    #[test]
    fn the_file_can_not_shrink() {
        let arena = arena(1 << 20);
        // SAFETY: a plain call on this test's own descriptor.
        assert_eq!(unsafe { libc::ftruncate(arena.fd().as_raw_fd(), 4096) }, -1);
    }

    #[test]
    fn addresses_outside_are_refused() {
        let arena = arena(1 << 20);
        let (start, len) = arena.addresses();
        assert!(arena.translate(start.offset(len - 1), 1).is_ok());
        assert!(arena.translate(start.offset(len - 1), 2).is_err());
        assert!(arena.translate(DevicePtr(u64::MAX), u64::MAX).is_err());
        assert!(arena.translate(DevicePtr(0), 0).is_err());
    }
}

//! The owner's side of a device's memory: the file, its mapping, and how much of it is in use.

use super::detach::above_stdio;
use super::layout::{
    ARENA_BASE, ARENA_OFFSET, ARENA_STRIDE, CONTROL_BYTES, Control, GLOBALS_BYTES, GLOBALS_OFFSET, LAYOUT_VERSION,
};
use accord_types::{DeviceInfo, DevicePtr, Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, RwLock};

/// Pages of a `declare` variable: device addresses in the worker's own data segment.
#[derive(Clone, Copy)]
struct Segment {
    start: u64,
    len: u64,
    file_offset: u64,
}

/// A device's memory file, mapped as a whole into the owner.
pub(crate) struct Arena {
    fd: OwnedFd,
    base: *mut u8,
    /// Device address and length of the arena.
    start: u64,
    len: u64,
    capacity: u64,
    /// Mapped ranges by start, and their total.
    mapped: Mutex<(BTreeMap<u64, u64>, u64)>,
    segments: RwLock<Vec<Segment>>,
    globals_used: Mutex<u64>,
}

// SAFETY: `base` is a shared mapping that lives as long as the Arena; access to its bytes is ordered by
// the streams, as device memory is.
unsafe impl Send for Arena {}
// SAFETY: as for Send.
unsafe impl Sync for Arena {}

/// First device address and length of the range that a device has, known before it is started.
pub fn addresses(info: &DeviceInfo) -> (DevicePtr, u64) {
    let start = ARENA_BASE + u64::from(info.id.ordinal) * ARENA_STRIDE;
    // Twice the memory leaves room for fragments.
    let len = info.memory.saturating_mul(2).next_multiple_of(1 << 30);
    (DevicePtr(start), len.clamp(1 << 30, ARENA_STRIDE - ARENA_OFFSET))
}

impl Arena {
    /// A memory file for a device.
    pub(crate) fn new(info: &DeviceInfo) -> Result<Self> {
        let (DevicePtr(start), len) = addresses(info);
        let total = ARENA_OFFSET + len;
        let fail = |what: &str| {
            let error = std::io::Error::last_os_error();
            Error::new(ErrorCode::DeviceInit, format!("{what} of {total} bytes for device memory: {error}"))
                .remedy("allow this process more address space and shared memory (ulimit -v, cgroup memory limit)")
        };
        // SAFETY: a fresh descriptor is owned by nobody else; mmap at a place of the kernel's choice
        // touches nothing that exists.
        let (fd, base) = unsafe {
            let fd = libc::memfd_create(c"accord-device".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(fail("memfd_create"));
            }
            let fd = above_stdio(OwnedFd::from_raw_fd(fd)).map_err(|_| fail("memfd_create"))?;
            if libc::ftruncate(fd.as_raw_fd(), total as libc::off_t) != 0 {
                return Err(fail("ftruncate"));
            }
            let base = libc::mmap(
                std::ptr::null_mut(),
                total as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            );
            if base == libc::MAP_FAILED {
                return Err(fail("mmap"));
            }
            // A core dump of the program need not hold device memory, nor a forked child map it.
            libc::madvise(base, total as usize, libc::MADV_DONTDUMP);
            libc::madvise(base, total as usize, libc::MADV_DONTFORK);
            (fd, base.cast::<u8>())
        };
        let arena = Self {
            fd,
            base,
            start,
            len,
            capacity: info.memory,
            mapped: Mutex::default(),
            segments: RwLock::default(),
            globals_used: Mutex::new(0),
        };
        arena.control().header().version.store(LAYOUT_VERSION, Ordering::Release);
        Ok(arena)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Header and streams. Valid as long as the arena.
    pub(crate) fn control(&self) -> Control {
        const { assert!(CONTROL_BYTES as u64 <= ARENA_OFFSET) };
        // SAFETY: the mapping begins with the control part; users hold the arena by Arc.
        unsafe { Control::new(self.base) }
    }

    pub(crate) fn addresses(&self) -> (DevicePtr, u64) {
        (DevicePtr(self.start), self.len)
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.mapped.lock().expect("arena lock").1)
    }

    /// Accounts for memory behind a range; the file gives pages when they are touched.
    pub(crate) fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.check_inside(start.0, len)?;
        let mut mapped = self.mapped.lock().expect("arena lock");
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
        Ok(())
    }

    /// Gives pages back to the system. The range may be a part of what one call mapped, or touch several.
    pub(crate) fn unmap(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.check_inside(start.0, len)?;
        let mut mapped = self.mapped.lock().expect("arena lock");
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
        // SAFETY: only this file's own pages go; nobody uses them, the owner of the range says.
        unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                (ARENA_OFFSET + (start.0 - self.start)) as libc::off_t,
                len as libc::off_t,
            );
        }
        Ok(())
    }

    /// Where `[start, start + len)` of the device is in this process.
    pub(crate) fn translate(&self, start: DevicePtr, len: u64) -> Result<*mut u8> {
        if self.check_inside(start.0, len).is_ok() {
            // SAFETY: inside the mapping, as just checked.
            return Ok(unsafe { self.base.add((ARENA_OFFSET + (start.0 - self.start)) as usize) });
        }
        let segments = self.segments.read().expect("segments lock");
        for s in segments.iter() {
            if start.0 >= s.start && start.0 + len <= s.start + s.len {
                // SAFETY: segments lie in the globals part of the mapping.
                return Ok(unsafe { self.base.add((s.file_offset + (start.0 - s.start)) as usize) });
            }
        }
        Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("{len} bytes at device address {start} are not in this device's memory"),
        )
        .remedy("pass an address that acc_malloc or acc_deviceptr returned for this device"))
    }

    /// Reserves file space for pages of global variables; returns its offset.
    pub(crate) fn reserve_globals(&self, len: u64) -> Result<u64> {
        let mut used = self.globals_used.lock().expect("globals lock");
        if *used + len > GLOBALS_BYTES {
            return Err(Error::new(
                ErrorCode::OutOfMemory,
                format!("declare variables need {} bytes, {GLOBALS_BYTES} are possible", *used + len),
            ));
        }
        let offset = GLOBALS_OFFSET + *used;
        *used += len.next_multiple_of(4096);
        Ok(offset)
    }

    /// The worker has put its pages `[start, start + len)` at `file_offset`.
    pub(crate) fn add_segment(&self, start: u64, len: u64, file_offset: u64) {
        self.segments.write().expect("segments lock").push(Segment { start, len, file_offset });
    }

    fn check_inside(&self, start: u64, len: u64) -> Result<()> {
        let end = start.checked_add(len);
        if start >= self.start && end.is_some_and(|end| end <= self.start + self.len) {
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
        // SAFETY: mapped in `new` with this length; nobody uses it after the last Arc is gone.
        unsafe { libc::munmap(self.base.cast(), (ARENA_OFFSET + self.len) as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{CpuConfig, inventory};

    fn arena(memory: u64) -> Arena {
        let config = CpuConfig { devices: Some(3), memory: Some(memory) };
        Arena::new(&inventory(accord_types::NodeId(0), "here", &config)[2]).expect("address space")
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
    fn addresses_outside_are_refused() {
        let arena = arena(1 << 20);
        let (start, len) = arena.addresses();
        assert!(arena.translate(start.offset(len - 1), 1).is_ok());
        assert!(arena.translate(start.offset(len - 1), 2).is_err());
        assert!(arena.translate(DevicePtr(u64::MAX), u64::MAX).is_err());
        assert!(arena.translate(DevicePtr(0), 0).is_err());
    }
}

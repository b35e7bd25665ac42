//! Restricts a worker to mapped addresses of its device. An access of a region to others faults, as in the program.

use crate::cpu::layout::{Control, GUARDED_GRANULE, MAPPED_GRANULE, MAPPED_WORDS};
use accord_types::short_lock::ShortLock;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The device's addresses, in this process.
pub(super) struct DeviceMemory {
    control: Control,
    start: u64,
    len: u64,
    /// Bytes per bit.
    granule: u64,
    open: ShortLock<Open>,
}

/// The memory that this process may use.
struct Open {
    /// One bit per granule, as in the file.
    words: Box<[u64]>,
    /// The number of changes up to which the bits equal those of the file.
    change: u64,
    /// Whether the system has refused, so that all memory is and stays accessible.
    all: bool,
}

impl DeviceMemory {
    /// Creates the state of the memory at `[start, start + len)`, none of which is accessible yet.
    pub(super) fn new(control: Control, start: u64, len: u64) -> Self {
        let granule = match control.header().granule.load(Ordering::Relaxed) {
            GUARDED_GRANULE => GUARDED_GRANULE,
            _ => MAPPED_GRANULE,
        };
        let words = len.div_ceil(granule).div_ceil(64).min(MAPPED_WORDS as u64) as usize;
        let open = Open { words: vec![0; words].into(), change: 0, all: false };
        Self { control, start, len, granule, open: ShortLock::new(open) }
    }

    /// Makes exactly the mapped memory accessible, if it has changed since `seen`. Called before each operation, whose memory was mapped before the
    /// operation entered the ring.
    #[inline]
    pub(super) fn follow(&self, seen: &mut u64) {
        let change = self.control.header().memory_changes.load(Ordering::Acquire);
        if change != *seen {
            self.change_to(change);
            *seen = change;
        }
    }

    #[cold]
    fn change_to(&self, change: u64) {
        let mut open = self.open.lock();
        // Another stream's thread may have made later changes.
        if open.all || open.change >= change {
            return;
        }
        open.change = change;
        let mut run: Option<(Range<u64>, bool)> = None;
        let used = self.control.header().mapped_words.load(Ordering::Relaxed);
        for word in 0..open.words.len().min(used as usize) {
            let mapped = self.control.mapped(word).load(Ordering::Relaxed);
            let mut changed = mapped ^ open.words[word];
            open.words[word] = mapped;
            while changed != 0 {
                let bit = changed.trailing_zeros();
                changed &= changed - 1;
                let (granule, is_open) = (word as u64 * 64 + u64::from(bit), mapped >> bit & 1 != 0);
                match &mut run {
                    Some((granules, same)) if granules.end == granule && *same == is_open => granules.end += 1,
                    _ => {
                        if let Some((granules, is_open)) = run.replace((granule..granule + 1, is_open)) {
                            open.all |= !self.protect(&granules, is_open);
                        }
                    }
                }
            }
        }
        if let Some((granules, is_open)) = run {
            open.all |= !self.protect(&granules, is_open);
        }
        if open.all {
            // For example there are too many mappings. Regions must have their memory nevertheless.
            self.protect(&(0..self.len.div_ceil(self.granule)), true);
        }
    }

    /// Changes the access to granules. Returns whether the system has done it.
    fn protect(&self, granules: &Range<u64>, is_open: bool) -> bool {
        let [from, to] = [granules.start, granules.end].map(|granule| (granule * self.granule).min(self.len));
        let access = if is_open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        let at = std::ptr::with_exposed_provenance_mut((self.start + from) as usize);
        // SAFETY: the pages are the device's memory, which only regions and operations of the owner use. Neither uses pages that are being unmapped.
        unsafe { libc::mprotect(at, (to - from) as usize, access) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::arena::Arena;
    use crate::cpu::{CpuConfig, inventory};
    use accord_types::{AddressRange, DevicePtr, NodeId};

    /// Whether this process can read the byte at an address, as checked by the kernel.
    fn is_readable(address: u64) -> bool {
        let (byte, pid) = (0u8, std::process::id() as i32);
        let here = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
        let there = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address as usize), iov_len: 1 };
        // SAFETY: the call writes at most one byte, of a local value.
        unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) == 1 }
    }

    #[test]
    fn only_mapped_device_memory_is_accessible() {
        const AT: u64 = 0x3800_0000_0000;
        let config = CpuConfig { devices: None, memory: Some(1 << 30) };
        let info = &inventory(NodeId(0), "here", &config)[0];
        let place = AddressRange { start: DevicePtr(AT), len: 1 << 30 };
        let arena = Arena::new(info, Some(place)).expect("address space");
        assert_eq!(arena.translate(place.start, 1).expect("inside").addr() as u64, AT, "owner and worker in one");
        let memory = DeviceMemory::new(arena.control(), AT, place.len);
        memory.protect(&(0..place.len / MAPPED_GRANULE), false);
        let mut seen = 0;
        let mut readable = |offsets: &[u64]| {
            memory.follow(&mut seen);
            offsets.iter().map(|offset| is_readable(AT + offset)).collect::<Vec<_>>()
        };
        let (page, far) = (MAPPED_GRANULE, 200 * MAPPED_GRANULE);
        assert_eq!(readable(&[0, page, far]), [false; 3]);
        arena.map(DevicePtr(AT), 4096).expect("room");
        arena.map(DevicePtr(AT + far), 2 * page).expect("room");
        assert_eq!(
            readable(&[0, page, far - 1, far, far + page, far + 2 * page]),
            [true, false, false, true, true, false]
        );
        arena.map(DevicePtr(AT + 8192), 4096).expect("room");
        arena.unmap(DevicePtr(AT), 4096).expect("mapped");
        assert_eq!(readable(&[0, far]), [true, true], "a part of the granule is still mapped");
        arena.unmap(DevicePtr(AT + 8192), 4096).expect("mapped");
        arena.unmap(DevicePtr(AT + far), page).expect("mapped");
        assert_eq!(readable(&[0, far, far + page]), [false, false, true]);
    }

    #[test]
    fn guard_pages_between_blocks_are_not_accessible() {
        const AT: u64 = 0x3900_0000_0000;
        const PAGE: u64 = GUARDED_GRANULE;
        let config = CpuConfig { devices: None, memory: Some(1 << 30) };
        let info = &inventory(NodeId(0), "here", &config)[0];
        let place = AddressRange { start: DevicePtr(AT), len: 1 << 30 };
        let arena = Arena::new(info, Some(place)).expect("address space").with_guard_pages();
        let memory = DeviceMemory::new(arena.control(), AT, place.len);
        memory.protect(&(0..place.len / PAGE), false);
        arena.map(DevicePtr(AT + PAGE), PAGE).expect("room");
        arena.map(DevicePtr(AT + 1000 * PAGE), 3 * PAGE).expect("room");
        memory.follow(&mut 0);
        let readable = |pages: &[u64]| pages.iter().map(|page| is_readable(AT + page * PAGE)).collect::<Vec<_>>();
        assert_eq!(readable(&[0, 1, 2, 999, 1000, 1002, 1003]), [false, true, false, false, true, true, false]);
        assert_eq!(arena.free(), (1 << 30) - 4 * PAGE, "guard pages are no memory");
    }
}

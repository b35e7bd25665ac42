//! Memory that CUDA Fortran allocates, and the devices that it belongs to.

use crate::acc;
use crate::descriptor::Descriptor;
use crate::errors::{SourceLine, end};
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::c_char;

/// The kind of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A device's memory.
    Device(i32),
    /// Managed and unified memory, which is host memory here.
    Managed,
    /// Pinned host memory.
    Pinned,
    /// A descriptor of a device array, in host memory.
    Descriptor,
}

/// The owner of a range's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The program allocated it, and frees it.
    Allocation,
    /// It is a variable of a module, which no routine frees.
    Variable,
    /// It is host memory that the program has registered.
    Registration,
}

/// A range of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
}

impl Range {
    fn new(start: usize, bytes: usize, kind: Kind) -> Self {
        Self { start, bytes: bytes.max(1), kind, owner: Owner::Allocation }
    }

    /// Whether the range has so many bytes from this address on, which is in it.
    pub(crate) fn holds(&self, address: usize, bytes: usize) -> bool {
        bytes <= self.bytes - (address - self.start)
    }
}

/// All allocations by their addresses, bounded by the program's own allocations.
static RANGES: ShortLock<BTreeMap<usize, Range>> = ShortLock::new(BTreeMap::new());

/// Alignment of host memory, equal to CUDA's.
const ALIGNMENT: usize = 256;

fn ranges() -> ShortGuard<'static, BTreeMap<usize, Range>> {
    RANGES.lock()
}

/// Returns the allocation that holds an address.
pub(crate) fn find(address: usize) -> Option<Range> {
    let ranges = ranges();
    let (_, range) = ranges.range(..=address).next_back()?;
    (address - range.start < range.bytes).then_some(*range)
}

/// Returns the device whose memory holds an address. The memory may be OpenACC's, as of an array in a `host_data` region.
pub(crate) fn device_of(address: usize) -> Option<i32> {
    match find(address) {
        Some(Range { kind: Kind::Device(device), .. }) => Some(device),
        Some(_) => None,
        None => acc::owner(address),
    }
}

/// Allocates memory of the current device; returns 0 if there is none left.
pub(crate) fn device_memory(bytes: usize) -> usize {
    let device = acc::device();
    let start = acc::allocate(bytes);
    if start != 0 {
        ranges().insert(start, Range::new(start, bytes, Kind::Device(device)));
    }
    start
}

/// Records a variable of a module, or a device's part of one.
pub(crate) fn adopt(start: usize, bytes: usize, kind: Kind) {
    ranges().insert(start, Range { owner: Owner::Variable, ..Range::new(start, bytes, kind) });
}

/// Records the program's own host memory as pinned. Returns `false` if a part of it is in another range.
pub(crate) fn register(start: usize, bytes: usize) -> bool {
    let mut ranges = ranges();
    // The last range that begins before the new one's end.
    let last = ranges.range(..start + bytes).next_back();
    let is_free = last.is_none_or(|(_, range)| range.start + range.bytes <= start);
    if is_free {
        ranges.insert(start, Range { owner: Owner::Registration, ..Range::new(start, bytes, Kind::Pinned) });
    }
    is_free
}

/// Removes a registration by its first address, after work that uses the memory has ended. Returns `false` for other addresses.
pub(crate) fn unregister(start: usize) -> bool {
    let is_registered = |range: &Range| range.owner == Owner::Registration;
    if !ranges().get(&start).is_some_and(is_registered) {
        return false;
    }
    acc::wait_all();
    let mut ranges = ranges();
    // Another thread may have removed it.
    ranges.get(&start).is_some_and(is_registered) && ranges.remove(&start).is_some()
}

/// Removes an allocation by its first address. Returns `None` for other ranges, which stay.
fn remove(start: usize) -> Option<Range> {
    let mut ranges = ranges();
    let is_allocated = ranges.get(&start).is_some_and(|range| range.owner == Owner::Allocation);
    if is_allocated { ranges.remove(&start) } else { None }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()
}

/// Allocates zeroed host memory; returns 0 if there is none left.
pub(crate) fn host_memory(bytes: usize, kind: Kind) -> usize {
    let Some(layout) = layout(bytes) else { return 0 };
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) }.addr();
    if start != 0 {
        ranges().insert(start, Range::new(start, bytes, kind));
    }
    start
}

/// Frees an allocation by its first address, after work that uses it has ended. Returns `false` for other addresses.
pub(crate) fn release(address: usize) -> bool {
    let Some(range) = remove(address) else { return false };
    match range.kind {
        Kind::Device(device) => acc::on_device(device, || {
            acc::wait_all();
            acc::free(address);
        }),
        _ => {
            acc::wait_all();
            if let Some(layout) = layout(range.bytes) {
                // SAFETY: `host_memory` allocated it with this layout, and it was in the table until now.
                unsafe { dealloc(address as *mut u8, layout) };
            }
        }
    }
    true
}

extern "C" fn allocate_pinned(bytes: usize, _stream: *const i64) -> usize {
    host_memory(bytes, Kind::Pinned)
}

extern "C" fn allocate_device(bytes: usize, _stream: *const i64) -> usize {
    device_memory(bytes)
}

extern "C" fn allocate_managed(bytes: usize, _stream: *const i64) -> usize {
    host_memory(bytes, Kind::Managed)
}

extern "C" fn free(address: usize) {
    release(address);
}

/// An entry of flang's table of allocators, whose index a descriptor holds.
#[repr(C)]
struct Allocator {
    allocate: extern "C" fn(usize, *const i64) -> usize,
    free: extern "C" fn(usize),
}

/// Entries of the table: 0 is the host's.
const ALLOCATORS: usize = 7;

unsafe extern "C" {
    #[link_name = "_ZN7Fortran7runtime17allocatorRegistryE"]
    static mut REGISTRY: [Allocator; ALLOCATORS];
}

/// Registers the allocators of pinned, device, managed and unified memory.
#[unsafe(no_mangle)]
extern "C" fn _FortranACUFRegisterAllocator() {
    let all = [allocate_pinned, allocate_device, allocate_managed, allocate_managed];
    for (at, allocate) in all.into_iter().enumerate() {
        // SAFETY: constructors call this before there are threads; flang 22's table has seven entries.
        unsafe { (&raw mut REGISTRY[at + 1]).write(Allocator { allocate, free }) };
    }
}

/// Memory kinds of flang's calls.
const DEVICE: u32 = 0;
const PINNED: u32 = 3;

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFMemAlloc(bytes: usize, kind: u32, file: *const c_char, line: i32) -> usize {
    let start = match kind {
        DEVICE => device_memory(bytes),
        PINNED => host_memory(bytes, Kind::Pinned),
        _ => host_memory(bytes, Kind::Managed),
    };
    if start == 0 {
        let cause = format!("no {bytes} bytes of memory for a device variable");
        end(SourceLine::new(file, line), &cause, "use allocatable arrays with stat=, or smaller ones");
    }
    start
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFMemFree(address: usize, _kind: u32, _file: *const c_char, _line: i32) {
    release(address);
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFAllocDescriptor(bytes: usize, file: *const c_char, line: i32) -> usize {
    let start = host_memory(bytes, Kind::Descriptor);
    if start == 0 {
        end(SourceLine::new(file, line), "no memory for an array's descriptor", "let the program use less memory");
    }
    start
}

#[unsafe(no_mangle)]
extern "C" fn _FortranACUFFreeDescriptor(descriptor: usize, _file: *const c_char, _line: i32) {
    remove(descriptor).map(|range| {
        layout(range.bytes).map(|layout| {
            // SAFETY: `host_memory` allocated it with this layout, and it was in the table until now.
            unsafe { dealloc(descriptor as *mut u8, layout) };
        })
    });
}

type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;

unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn _FortranAAllocatableAllocate(
        descriptor: *mut Descriptor,
        stream: *const i64,
        has_status: bool,
        message: *const Descriptor,
        file: *const c_char,
        line: i32,
        copy: Copy,
    ) -> i32;
    fn _FortranAAllocatableDeallocate(
        descriptor: *mut Descriptor,
        has_status: bool,
        message: *const Descriptor,
        file: *const c_char,
        line: i32,
    ) -> i32;
    fn _FortranAPointerAllocate(
        descriptor: *mut Descriptor,
        has_status: bool,
        message: *const Descriptor,
        file: *const c_char,
        line: i32,
        copy: Copy,
    ) -> i32;
}

/// Allocates the array of an allocatable's descriptor; returns a Fortran status.
pub(crate) fn allocate(
    descriptor: &mut Descriptor,
    has_status: bool,
    message: *const Descriptor,
    file: *const c_char,
    line: i32,
) -> i32 {
    // SAFETY: flang's runtime gets a descriptor that flang has established.
    unsafe { _FortranAAllocatableAllocate(descriptor, std::ptr::null(), has_status, message, file, line, memcpy) }
}

/// Deallocates the array of an allocatable's descriptor; returns a Fortran status.
pub(crate) fn deallocate(
    descriptor: &mut Descriptor,
    has_status: bool,
    message: *const Descriptor,
    file: *const c_char,
    line: i32,
) -> i32 {
    // SAFETY: flang's runtime gets a descriptor that flang has established.
    unsafe { _FortranAAllocatableDeallocate(descriptor, has_status, message, file, line) }
}

/// Allocates the array of a pointer's descriptor; returns a Fortran status.
pub(crate) fn allocate_pointer(
    descriptor: &mut Descriptor,
    has_status: bool,
    message: *const Descriptor,
    file: *const c_char,
    line: i32,
) -> i32 {
    // SAFETY: flang's runtime gets a descriptor that flang has established.
    unsafe { _FortranAPointerAllocate(descriptor, has_status, message, file, line, memcpy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_modules_are_never_freed() {
        adopt(0x1000, 64, Kind::Managed);
        assert_eq!(remove(0x1000), None);
        assert_eq!(find(0x103f).map(|range| (range.start, range.kind)), Some((0x1000, Kind::Managed)));
        ranges().insert(0x2000, Range::new(0x2000, 64, Kind::Pinned));
        assert_eq!(remove(0x2000).map(|range| range.kind), Some(Kind::Pinned));
        assert_eq!((remove(0x2000), find(0x2000)), (None, None));
    }

    #[test]
    fn ranges_end_at_their_last_byte() {
        let range = Range::new(0x1000, 64, Kind::Managed);
        assert!(range.holds(0x1000, 64) && range.holds(0x1030, 16) && range.holds(0x103f, 1));
        assert!(!range.holds(0x1000, 65) && !range.holds(0x1030, 17));
    }
}

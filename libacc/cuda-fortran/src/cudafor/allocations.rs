//! Allocations of device, managed and pinned memory, and queries and hints about them.

use crate::descriptor::{Descriptor, Dimension};
use crate::errors::{INVALID_DEVICE, INVALID_RESOURCE_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, SUCCESS, keep};
use crate::memory::{self, Kind};
use crate::memory_argument::MemoryArgument;
use crate::{acc, streams};

/// Allocates an array with these extents. Its attribute decides the kind of memory.
fn allocate(array: &mut Descriptor, extents: &[i64]) -> i32 {
    if array.base != 0 || extents.iter().any(|extent| *extent < 0) {
        return keep(INVALID_VALUE);
    }
    for (dimension, extent) in array.dimensions_mut().iter_mut().zip(extents) {
        *dimension = Dimension { lower: 1, extent: *extent as isize, stride: 0 };
    }
    let status = memory::allocate(array, true, std::ptr::null(), std::ptr::null(), 0);
    if status == 0 { SUCCESS } else { keep(MEMORY_ALLOCATION) }
}

/// Stores a new allocation's address, or 0 with an error.
fn store(address: &mut usize, new: usize) -> i32 {
    *address = new;
    if new == 0 { keep(MEMORY_ALLOCATION) } else { SUCCESS }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_1(array: &mut Descriptor, count: i32) -> i32 {
    allocate(array, &[i64::from(count)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_2(array: &mut Descriptor, rows: i32, columns: i32) -> i32 {
    allocate(array, &[i64::from(rows), i64::from(columns)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_bytes(address: &mut usize, bytes: usize) -> i32 {
    store(address, memory::device_memory(bytes))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_bytes_i4(address: &mut usize, bytes: i32) -> i32 {
    match usize::try_from(bytes) {
        Ok(bytes) => accord_cuf_malloc_bytes(address, bytes),
        Err(_) => keep(INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_pitch(array: &mut Descriptor, pitch: &mut i32, rows: i32, columns: i32) -> i32 {
    *pitch = rows;
    allocate(array, &[i64::from(rows), i64::from(columns)])
}

/// `cudaExtent`: the width in bytes for memory without a type.
#[repr(C)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
pub(super) struct PitchedPointer {
    pub(super) address: usize,
    /// Bytes from one row to the next.
    pub(super) pitch: usize,
    pub(super) width: usize,
    /// Rows of a plane.
    pub(super) height: usize,
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_3(array: &mut Descriptor, extent: &Extent) -> i32 {
    let extents = [extent.width, extent.height, extent.depth].map(|count| i64::try_from(count).unwrap_or(-1));
    allocate(array, &extents)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_3d(pointer: &mut PitchedPointer, extent: &Extent) -> i32 {
    let bytes = extent.width.checked_mul(extent.height).and_then(|bytes| bytes.checked_mul(extent.depth));
    let Some(bytes) = bytes else { return keep(INVALID_VALUE) };
    (pointer.pitch, pointer.width, pointer.height) = (extent.width, extent.width, extent.height);
    store(&mut pointer.address, memory::device_memory(bytes))
}

/// Allocates managed memory. The flags tell which streams may use it, which all may here.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_managed_1(array: &mut Descriptor, count: i32, flags: i32) -> i32 {
    if !(1..=2).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    allocate(array, &[i64::from(count)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_managed_2(array: &mut Descriptor, rows: i32, columns: i32, flags: i32) -> i32 {
    if !(1..=2).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    allocate(array, &[i64::from(rows), i64::from(columns)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_free(array: &mut Descriptor) -> i32 {
    if array.base == 0 {
        return SUCCESS;
    }
    let status = memory::deallocate(array, true, std::ptr::null(), std::ptr::null(), 0);
    if status == 0 { SUCCESS } else { keep(INVALID_VALUE) }
}

/// Frees an allocation by its first address. A variable of a module is refused.
fn release(address: &mut usize, is_its: fn(Kind) -> bool) -> i32 {
    let start = std::mem::take(address);
    let is_first = memory::find(start).is_some_and(|range| range.start == start && is_its(range.kind));
    if start == 0 || is_first && memory::release(start) { SUCCESS } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_free_bytes(address: &mut usize) -> i32 {
    release(address, |kind| matches!(kind, Kind::Device(_) | Kind::Managed))
}

/// Allocates pinned host memory. All of it is portable; it is not mapped to devices.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_alloc(address: &mut usize, bytes: usize, flags: i32) -> i32 {
    if !(0..=7).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    store(address, memory::host_memory(bytes, Kind::Pinned))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_host_alloc_i4(address: &mut usize, bytes: i32, flags: i32) -> i32 {
    match usize::try_from(bytes) {
        Ok(bytes) => accord_cuf_host_alloc(address, bytes, flags),
        Err(_) => keep(INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_host(address: &mut usize, bytes: usize) -> i32 {
    accord_cuf_host_alloc(address, bytes, 0)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_host_i4(address: &mut usize, bytes: i32) -> i32 {
    accord_cuf_host_alloc_i4(address, bytes, 0)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_free_host(address: &mut usize) -> i32 {
    release(address, |kind| kind == Kind::Pinned)
}

/// `cudaPointerAttributes`.
#[repr(C)]
struct PointerAttributes {
    kind: i32,
    device: i32,
    device_pointer: usize,
    host_pointer: usize,
    is_managed: i32,
}

/// Values of `memoryType`.
const UNREGISTERED: i32 = 0;
const HOST: i32 = 1;
const DEVICE: i32 = 2;
const MANAGED: i32 = 3;

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_pointer_attributes(result: &mut PointerAttributes, argument: &Descriptor) -> i32 {
    let address = MemoryArgument::new(argument).base;
    let current = acc::device();
    let of_openacc = || acc::owner(address).map(Kind::Device);
    let kind = memory::find(address).map(|range| range.kind).or_else(of_openacc);
    let (kind, device, device_pointer, host_pointer) = match kind {
        Some(Kind::Device(device)) => (DEVICE, device, address, 0),
        Some(Kind::Managed) => (MANAGED, current, address, address),
        Some(Kind::Pinned) => (HOST, current, 0, address),
        Some(Kind::Descriptor) | None => (UNREGISTERED, current, 0, address),
    };
    let is_managed = i32::from(kind == MANAGED);
    *result = PointerAttributes { kind, device, device_pointer, host_pointer, is_managed };
    SUCCESS
}

/// `cudaCpuDeviceId`.
const CPU: i32 = -1;

/// Whether managed memory has the `count` elements of a hint.
fn is_managed(argument: &Descriptor, count: i64) -> bool {
    let place = MemoryArgument::new(argument);
    let Some(range) = memory::find(place.base).filter(|range| range.kind == Kind::Managed) else { return false };
    place.bytes(count).is_some_and(|bytes| range.holds(place.base, bytes))
}

fn hint(argument: &Descriptor, count: i64, device: i32) -> i32 {
    if device != CPU && !acc::is_device(device) {
        keep(INVALID_DEVICE)
    } else if !is_managed(argument, count) {
        keep(INVALID_VALUE)
    } else {
        SUCCESS
    }
}

/// Accepts that managed memory will be used on a device. Each launch copies it, so that there is no effect.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_prefetch(argument: &Descriptor, count: i64, device: i32, stream: Option<&i64>) -> i32 {
    if stream.is_some_and(|stream| streams::device(*stream).is_none()) {
        return keep(INVALID_RESOURCE_HANDLE);
    }
    hint(argument, count, device)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_prefetch_i4(argument: &Descriptor, count: i32, device: i32, stream: Option<&i64>) -> i32 {
    accord_cuf_prefetch(argument, i64::from(count), device, stream)
}

/// Accepts advice on the use of managed memory, without an effect.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_advise(argument: &Descriptor, count: i64, advice: i32, device: i32) -> i32 {
    if (1..=6).contains(&advice) { hint(argument, count, device) } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_advise_i4(argument: &Descriptor, count: i32, advice: i32, device: i32) -> i32 {
    accord_cuf_advise(argument, i64::from(count), advice, device)
}

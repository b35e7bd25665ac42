//! The routines of module `cudafor`, as `include/cudafor.cuf` declares them. They return CUDA's codes and never end the program.

use crate::acc::{self, Number};
use crate::descriptor::{Descriptor, Dimension};
use crate::errors::{
    self, INVALID_DEVICE, INVALID_RESOURCE_HANDLE, INVALID_VALUE, MEMORY_ALLOCATION, NOT_READY, SUCCESS, keep,
};
use crate::transfer::{self, Mode};
use crate::{memory, streams};
use std::time::Instant;

/// The reported version: 12.8.
const VERSION: i32 = 12080;

fn is_device(num: i32) -> bool {
    (0..acc::devices()).contains(&num)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_device_count(count: &mut i32) -> i32 {
    *count = acc::devices();
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_device(num: i32) -> i32 {
    if !is_device(num) {
        return keep(INVALID_DEVICE);
    }
    acc::set_device(num);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_device(num: &mut i32) -> i32 {
    *num = acc::device();
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_synchronize() -> i32 {
    streams::finish([None, None]);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_last_error() -> i32 {
    errors::last(false)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_peek_at_last_error() -> i32 {
    errors::last(true)
}

/// The result of a function that returns characters, as flang passes it.
#[repr(C)]
struct Characters {
    start: *mut u8,
    length: i64,
}

fn fill(text: &mut [u8], with: &[u8]) {
    text.fill(b' ');
    let count = with.len().min(text.len());
    text[..count].copy_from_slice(&with[..count]);
}

/// Implements `cudaGetErrorString`: an external function, because its result is no C type.
#[unsafe(no_mangle)]
extern "C" fn cudageterrorstring_(start: *mut u8, length: i64, code: &i32) -> Characters {
    // SAFETY: the caller passes the result's memory and its length.
    let text = unsafe { std::slice::from_raw_parts_mut(start, usize::try_from(length).unwrap_or(0)) };
    fill(text, errors::text(*code).as_bytes());
    Characters { start, length }
}

/// `cudaDeviceProp`, as the module declares it.
#[repr(C)]
struct Properties {
    name: [u8; 256],
    total_memory: usize,
    shared_memory: usize,
    registers: i32,
    warp: i32,
    threads: i32,
    block: [i32; 3],
    grid: [i32; 3],
    clock: i32,
    major: i32,
    minor: i32,
    processors: i32,
    processor_threads: i32,
    memory_clock: i32,
    memory_bus: i32,
    more: [i32; 14],
    sizes: [usize; 5],
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_properties(properties: &mut Properties, num: i32) -> i32 {
    if !is_device(num) {
        return keep(INVALID_DEVICE);
    }
    *properties = Properties {
        name: [b' '; 256],
        total_memory: acc::number(num, Number::Memory),
        shared_memory: 49152,
        registers: 65536,
        warp: 32,
        threads: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX, 65535, 65535],
        clock: 1_000_000,
        major: 7,
        minor: 0,
        processors: 1,
        processor_threads: 1024,
        memory_clock: 1_000_000,
        memory_bus: 64,
        more: [0; 14],
        sizes: [65536, 512, i32::MAX as usize, 49152, 49152],
    };
    fill(&mut properties.name, &acc::name(num));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_mem_info(free: &mut usize, total: &mut usize) -> i32 {
    let device = acc::device();
    (*free, *total) = (acc::number(device, Number::FreeMemory), acc::number(device, Number::Memory));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_version(version: &mut i32) -> i32 {
    *version = VERSION;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_can_access_peer(can: &mut i32, one: i32, other: i32) -> i32 {
    if !is_device(one) || !is_device(other) {
        return keep(INVALID_DEVICE);
    }
    *can = i32::from(one != other);
    SUCCESS
}

/// Enables access to a peer, which copies between devices do not need.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_peer(peer: i32) -> i32 {
    if is_device(peer) { SUCCESS } else { keep(INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_create(stream: &mut i64, flags: i32) -> i32 {
    if !(0..=1).contains(&flags) {
        return keep(INVALID_VALUE);
    }
    *stream = streams::create(flags == 1);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_destroy(stream: i64) -> i32 {
    if streams::destroy(stream) { SUCCESS } else { keep(INVALID_RESOURCE_HANDLE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_synchronize(stream: i64) -> i32 {
    if streams::wait(stream) { SUCCESS } else { keep(INVALID_RESOURCE_HANDLE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_query(stream: i64) -> i32 {
    match streams::is_done(stream) {
        Some(true) => SUCCESS,
        Some(false) => NOT_READY,
        None => keep(INVALID_RESOURCE_HANDLE),
    }
}

/// An event: the host's time in nanoseconds plus 1 at which the stream was done with earlier operations; 0 before it is
/// recorded.
type Event = u64;

fn now() -> Event {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_create(event: &mut Event) -> i32 {
    *event = 0;
    SUCCESS
}

/// Waits for the stream's operations, because OpenACC's queues have no clock.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record(event: &mut Event, stream: i64) -> i32 {
    if !streams::wait(stream) {
        return keep(INVALID_RESOURCE_HANDLE);
    }
    *event = now();
    SUCCESS
}

/// Reports completion: an event's operations are complete when it is recorded.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_done(_event: &Event) -> i32 {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_elapsed(milliseconds: &mut f32, start: &Event, end: &Event) -> i32 {
    if *start == 0 || *end == 0 {
        return keep(INVALID_RESOURCE_HANDLE);
    }
    *milliseconds = ((*end as f64 - *start as f64) * 1e-6) as f32;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_wait_event(stream: i64, _event: &Event, flags: i32) -> i32 {
    match (streams::device(stream), flags) {
        (Some(_), 0) => SUCCESS,
        (Some(_), _) => keep(INVALID_VALUE),
        (None, _) => keep(INVALID_RESOURCE_HANDLE),
    }
}

fn mode(to: usize, from: usize) -> Mode {
    match (memory::device_of(to), memory::device_of(from)) {
        (Some(_), Some(_)) => Mode::DeviceToDevice,
        (None, Some(_)) => Mode::DeviceToHost,
        (_, None) => Mode::HostToDevice,
    }
}

/// Returns the bytes of `count` elements, which both arrays must have.
fn bytes(to: &Descriptor, from: &Descriptor, count: i64) -> Option<usize> {
    let count = usize::try_from(count).ok()?;
    let fits =
        |array: &Descriptor| array.dimensions().last().is_some_and(|last| last.extent < 0) || array.elements() >= count;
    (to.element == from.element && fits(to) && fits(from)).then(|| count * to.element)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy(to: &Descriptor, from: &Descriptor, count: i64) -> i32 {
    let Some(bytes) = bytes(to, from, count) else { return keep(INVALID_VALUE) };
    transfer::bytes(to.base, from.base, bytes, mode(to.base, from.base));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_i4(to: &Descriptor, from: &Descriptor, count: i32, _kind: *const i32) -> i32 {
    accord_cuf_memcpy(to, from, i64::from(count))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_i8(to: &Descriptor, from: &Descriptor, count: i64, _kind: *const i32) -> i32 {
    accord_cuf_memcpy(to, from, count)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_i4(
    to: &Descriptor,
    from: &Descriptor,
    count: i32,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy_in_stream(to, from, i64::from(count), stream.copied().unwrap_or(0))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_i8(
    to: &Descriptor,
    from: &Descriptor,
    count: i64,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy_in_stream(to, from, count, stream.copied().unwrap_or(0))
}

/// Implements the form whose fourth argument is the stream.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_s4(to: &Descriptor, from: &Descriptor, count: i32, stream: i64) -> i32 {
    copy_in_stream(to, from, i64::from(count), stream)
}

fn copy_in_stream(to: &Descriptor, from: &Descriptor, count: i64, stream: i64) -> i32 {
    let Some(bytes) = bytes(to, from, count) else { return keep(INVALID_VALUE) };
    let Some(device) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    let is_its = |address| memory::device_of(address).is_none_or(|one| one == device);
    if bytes > 0 && !(is_its(to.base) && is_its(from.base) && transfer::enqueue(to.base, from.base, bytes, stream)) {
        streams::wait(stream);
        transfer::bytes(to.base, from.base, bytes, mode(to.base, from.base));
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_peer_i4(
    to: &Descriptor,
    to_device: i32,
    from: &Descriptor,
    from_device: i32,
    count: i32,
) -> i32 {
    if !is_device(to_device) || !is_device(from_device) {
        return keep(INVALID_DEVICE);
    }
    accord_cuf_memcpy(to, from, i64::from(count))
}

/// Copies in two dimensions; pitches, width and height count elements, as in CUDA Fortran.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_2d_i4(
    to: &Descriptor,
    to_pitch: i32,
    from: &Descriptor,
    from_pitch: i32,
    width: i32,
    height: i32,
    _kind: *const i32,
) -> i32 {
    let all = [to_pitch, from_pitch, width, height].map(usize::try_from);
    let [Ok(to_pitch), Ok(from_pitch), Ok(width), Ok(height)] = all else { return keep(INVALID_VALUE) };
    if to.element != from.element || width > to_pitch || width > from_pitch {
        return keep(INVALID_VALUE);
    }
    let size = to.element;
    for row in 0..height {
        let (to, from) = (to.base + row * to_pitch * size, from.base + row * from_pitch * size);
        transfer::bytes(to, from, width * size, mode(to, from));
    }
    SUCCESS
}

/// Allocates a device array with these extents.
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

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_1(array: &mut Descriptor, count: i32) -> i32 {
    allocate(array, &[i64::from(count)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_2(array: &mut Descriptor, rows: i32, columns: i32) -> i32 {
    allocate(array, &[i64::from(rows), i64::from(columns)])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_malloc_pitch(array: &mut Descriptor, pitch: &mut i32, rows: i32, columns: i32) -> i32 {
    *pitch = rows;
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

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_peer_enable(peer: i32, flags: i32) -> i32 {
    if flags == 0 { accord_cuf_peer(peer) } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_create_default(stream: &mut i64) -> i32 {
    accord_cuf_stream_create(stream, 0)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_synchronize_i4(stream: i32) -> i32 {
    accord_cuf_stream_synchronize(i64::from(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_create_with_flags(event: &mut Event, flags: i32) -> i32 {
    if (0..=3).contains(&flags) { accord_cuf_event_create(event) } else { keep(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record_i4(event: &mut Event, stream: i32) -> i32 {
    accord_cuf_event_record(event, i64::from(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_event_record_default(event: &mut Event) -> i32 {
    accord_cuf_event_record(event, 0)
}

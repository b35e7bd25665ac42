//! The routines of module `cudafor`, as `include/cudafor.cuf` declares them. They return CUDA's codes and never end the program.

mod allocations;
mod copies;
mod events;
mod kernels;
mod limits;
mod properties;
mod registrations;
mod symbols;
mod three_dimensions;

use crate::acc::{self, Number};
use crate::errors::{self, INVALID_DEVICE, INVALID_RESOURCE_HANDLE, INVALID_VALUE, NOT_READY, SUCCESS, keep};
use crate::streams;

/// The reported version: 12.8.
const VERSION: i32 = 12080;

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_get_device_count(count: &mut i32) -> i32 {
    *count = acc::devices();
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_device(num: i32) -> i32 {
    if !acc::is_device(num) {
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

/// Implements `cudaGetErrorName`.
#[unsafe(no_mangle)]
extern "C" fn cudageterrorname_(start: *mut u8, length: i64, code: &i32) -> Characters {
    // SAFETY: the caller passes the result's memory and its length.
    let text = unsafe { std::slice::from_raw_parts_mut(start, usize::try_from(length).unwrap_or(0)) };
    fill(text, errors::name(*code).as_bytes());
    Characters { start, length }
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
    if !acc::is_device(one) || !acc::is_device(other) {
        return keep(INVALID_DEVICE);
    }
    *can = i32::from(one != other);
    SUCCESS
}

/// Enables access to a peer, which copies between devices do not need.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_peer(peer: i32) -> i32 {
    if acc::is_device(peer) { SUCCESS } else { keep(INVALID_DEVICE) }
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

/// Creates a stream. Its priority is a hint without effect.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_create_with_priority(stream: &mut i64, flags: i32, _priority: i32) -> i32 {
    accord_cuf_stream_create(stream, flags)
}

/// Reports the only priority.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_priority(stream: i64, priority: &mut i32) -> i32 {
    if streams::device(stream).is_none() {
        return keep(INVALID_RESOURCE_HANDLE);
    }
    *priority = 0;
    SUCCESS
}

/// Reports the range of priorities, which has one.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_priority_range(least: &mut i32, greatest: &mut i32) -> i32 {
    (*least, *greatest) = (0, 0);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_stream_flags(stream: i64, flags: &mut i32) -> i32 {
    let Some(is_free) = streams::is_free(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    *flags = i32::from(is_free);
    SUCCESS
}

/// Selects the stream of this thread's launches and copies that name none.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_set_default_stream(stream: i64) -> i32 {
    if streams::select(stream) { SUCCESS } else { keep(INVALID_RESOURCE_HANDLE) }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_default_stream() -> i64 {
    streams::selected()
}

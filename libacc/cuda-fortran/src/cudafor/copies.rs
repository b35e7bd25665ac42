//! Copies between host and devices, and `cudaMemset`.

use crate::descriptor::Descriptor;
use crate::errors::{INVALID_DEVICE, INVALID_RESOURCE_HANDLE, INVALID_VALUE, SUCCESS, keep};
use crate::memory_argument::MemoryArgument;
use crate::transfer::{self, Mode};
use crate::{acc, filling, memory, streams};

pub(super) fn mode(to: usize, from: usize) -> Mode {
    match (memory::device_of(to), memory::device_of(from)) {
        (Some(_), Some(_)) => Mode::DeviceToDevice,
        (None, Some(_)) => Mode::DeviceToHost,
        (_, None) => Mode::HostToDevice,
    }
}

/// Returns the bytes of an element of both sides, in which a copy counts; `None` if they differ.
fn common_element(to: MemoryArgument, from: MemoryArgument) -> Option<usize> {
    if to.is_address || from.is_address { Some(1) } else { (to.element == from.element).then_some(to.element) }
}

/// The two sides of a copy of `count` elements, and its bytes. `None` if a side has fewer, elements of another size, or no memory.
fn sides(to: &Descriptor, from: &Descriptor, count: i64) -> Option<(usize, usize, usize)> {
    let (to, from) = (MemoryArgument::new(to), MemoryArgument::new(from));
    // If a side is an address, both count bytes.
    let element = common_element(to, from)?;
    let bytes = usize::try_from(count).ok()?.checked_mul(element)?;
    (to.has(bytes) && from.has(bytes)).then_some((to.base, from.base, bytes))
}

fn copy(to: &Descriptor, from: &Descriptor, count: i64) -> i32 {
    let Some((to, from, bytes)) = sides(to, from, count) else { return keep(INVALID_VALUE) };
    transfer::bytes(to, from, bytes, mode(to, from));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_i4(to: &Descriptor, from: &Descriptor, count: i32, _kind: *const i32) -> i32 {
    copy(to, from, i64::from(count))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_i8(to: &Descriptor, from: &Descriptor, count: i64, _kind: *const i32) -> i32 {
    copy(to, from, count)
}

/// Returns a stream argument, or the thread's default stream without one.
pub(super) fn stream_or_default(stream: Option<&i64>) -> i64 {
    stream.copied().unwrap_or_else(streams::selected)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_i4(
    to: &Descriptor,
    from: &Descriptor,
    count: i32,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy_in_stream(to, from, i64::from(count), stream_or_default(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_i8(
    to: &Descriptor,
    from: &Descriptor,
    count: i64,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy_in_stream(to, from, count, stream_or_default(stream))
}

/// Implements the form whose fourth argument is the stream.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_async_s4(to: &Descriptor, from: &Descriptor, count: i32, stream: i64) -> i32 {
    copy_in_stream(to, from, i64::from(count), stream)
}

fn copy_in_stream(to: &Descriptor, from: &Descriptor, count: i64, stream: i64) -> i32 {
    let Some((to, from, bytes)) = sides(to, from, count) else { return keep(INVALID_VALUE) };
    let Some(device) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    enqueue(device, stream, to, from, bytes);
    SUCCESS
}

/// Enqueues a copy, or performs it if a participant is not of the stream's device.
pub(super) fn enqueue(device: i32, stream: i64, to: usize, from: usize, bytes: usize) {
    let is_its = |address| memory::device_of(address).is_none_or(|one| one == device);
    if bytes > 0 && !(is_its(to) && is_its(from) && transfer::enqueue(to, from, bytes, stream)) {
        streams::wait(stream);
        transfer::bytes(to, from, bytes, mode(to, from));
    }
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_peer_i4(
    to: &Descriptor,
    to_device: i32,
    from: &Descriptor,
    from_device: i32,
    count: i32,
) -> i32 {
    if !acc::is_device(to_device) || !acc::is_device(from_device) {
        return keep(INVALID_DEVICE);
    }
    copy(to, from, i64::from(count))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_peer_async_i4(
    to: &Descriptor,
    to_device: i32,
    from: &Descriptor,
    from_device: i32,
    count: i32,
    stream: Option<&i64>,
) -> i32 {
    if !acc::is_device(to_device) || !acc::is_device(from_device) {
        return keep(INVALID_DEVICE);
    }
    copy_in_stream(to, from, i64::from(count), stream_or_default(stream))
}

/// A copy in two dimensions, in bytes.
struct Rows {
    to: usize,
    from: usize,
    to_pitch: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
}

/// Returns the elements from the first row's start to the last one's end.
fn extent(pitch: usize, width: usize, height: usize) -> Option<usize> {
    if width == 0 || height == 0 { Some(0) } else { (height - 1).checked_mul(pitch)?.checked_add(width) }
}

impl Rows {
    /// Reads the arguments of a routine. Pitches and width count elements, or bytes of an address. `None` if a side ends before the
    /// last row does.
    fn new(to: &Descriptor, from: &Descriptor, sizes: [i32; 4]) -> Option<Self> {
        let (to, from) = (MemoryArgument::new(to), MemoryArgument::new(from));
        let mut all = sizes.into_iter().map(usize::try_from);
        let mut next = || all.next()?.ok();
        let (to_pitch, from_pitch, width, height) = (next()?, next()?, next()?, next()?);
        if width > to_pitch || width > from_pitch {
            return None;
        }
        let element = common_element(to, from)?;
        let has = |side: MemoryArgument, pitch| {
            let bytes = extent(pitch, width, height).and_then(|count| count.checked_mul(element));
            bytes.is_some_and(|bytes| side.has(bytes))
        };
        if !has(to, to_pitch) || !has(from, from_pitch) {
            return None;
        }
        let [to_pitch, from_pitch, width] = [to_pitch, from_pitch, width].map(|count| count * element);
        let is_whole = width == to_pitch && width == from_pitch;
        let (width, height) = if is_whole { (width * height, 1) } else { (width, height) };
        Some(Self { to: to.base, from: from.base, to_pitch, from_pitch, width, height })
    }

    fn each(&self, mut copy: impl FnMut(usize, usize)) {
        for row in 0..self.height {
            copy(self.to + row * self.to_pitch, self.from + row * self.from_pitch);
        }
    }
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
    let Some(rows) = Rows::new(to, from, [to_pitch, from_pitch, width, height]) else { return keep(INVALID_VALUE) };
    rows.each(|to, from| transfer::bytes(to, from, rows.width, mode(to, from)));
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_2d_async_i4(
    to: &Descriptor,
    to_pitch: i32,
    from: &Descriptor,
    from_pitch: i32,
    width: i32,
    height: i32,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    let Some(rows) = Rows::new(to, from, [to_pitch, from_pitch, width, height]) else { return keep(INVALID_VALUE) };
    let stream = stream_or_default(stream);
    let Some(device) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    rows.each(|to, from| enqueue(device, stream, to, from, rows.width));
    SUCCESS
}

/// Returns the bytes that `cudaMemset` repeats. An address takes the lowest byte of the value; an array or scalar a value of its elements' type.
fn pattern(to: &Descriptor, value: &Descriptor) -> Option<Vec<u8>> {
    let is_address = MemoryArgument::new(to).is_address;
    if value.base == 0 || value.rank() > 0 || !is_address && (value.kind(), value.element) != (to.kind(), to.element) {
        return None;
    }
    // SAFETY: the value is a scalar of this size in host memory.
    let bytes = unsafe { std::slice::from_raw_parts(value.base as *const u8, value.element) };
    Some(if is_address { bytes.get(..1)?.to_vec() } else { bytes.to_vec() })
}

/// Whether one allocation, or a device's memory that OpenACC allocated, has so many bytes from this address on.
pub(super) fn is_allocated(address: usize, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    match memory::find(address) {
        Some(range) => range.holds(address, bytes),
        None => {
            let last = address.checked_add(bytes - 1);
            acc::owner(address).is_some_and(|device| last.and_then(acc::owner) == Some(device))
        }
    }
}

fn set(to: &Descriptor, value: &Descriptor, count: i64, stream: i64) -> i32 {
    let place = MemoryArgument::new(to);
    let bytes = place.bytes(count).filter(|bytes| is_allocated(place.base, *bytes));
    let (Some(bytes), Some(pattern)) = (bytes, pattern(to, value)) else { return keep(INVALID_VALUE) };
    fill(stream, &[place.base], bytes, &pattern)
}

/// Fills rows of `bytes` bytes, which are in one allocation.
pub(super) fn fill(stream: i64, rows: &[usize], bytes: usize, pattern: &[u8]) -> i32 {
    let Some(of_stream) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    let Some(first) = rows.first().filter(|_| bytes > 0) else { return SUCCESS };
    let device = memory::device_of(*first);
    // The default stream is that of the memory's device.
    if device.is_some_and(|device| device != of_stream) && !streams::is_default(stream) {
        return keep(INVALID_VALUE);
    }
    match device {
        Some(device) => filling::enqueue(device, stream, rows, bytes, pattern),
        None => {
            streams::finish([None, None]);
            filling::host(rows, bytes, pattern);
        }
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_i4(to: &Descriptor, value: &Descriptor, count: i32) -> i32 {
    set(to, value, i64::from(count), streams::selected())
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_i8(to: &Descriptor, value: &Descriptor, count: i64) -> i32 {
    set(to, value, count, streams::selected())
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_async_i4(to: &Descriptor, value: &Descriptor, count: i32, stream: Option<&i64>) -> i32 {
    set(to, value, i64::from(count), stream_or_default(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_async_i8(to: &Descriptor, value: &Descriptor, count: i64, stream: Option<&i64>) -> i32 {
    set(to, value, count, stream_or_default(stream))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_2d_i4(to: &Descriptor, pitch: i32, value: &Descriptor, width: i32, height: i32) -> i32 {
    accord_cuf_memset_2d_async_i4(to, pitch, value, width, height, None)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_2d_async_i4(
    to: &Descriptor,
    pitch: i32,
    value: &Descriptor,
    width: i32,
    height: i32,
    stream: Option<&i64>,
) -> i32 {
    let [Ok(pitch), Ok(width), Ok(height)] = [pitch, width, height].map(usize::try_from) else {
        return keep(INVALID_VALUE);
    };
    let place = MemoryArgument::new(to);
    let all = extent(pitch, width, height).and_then(|count| place.bytes(i64::try_from(count).ok()?));
    let fits = width <= pitch && all.is_some_and(|bytes| is_allocated(place.base, bytes));
    let Some(pattern) = pattern(to, value).filter(|_| fits) else { return keep(INVALID_VALUE) };
    let (width, pitch) = (width * place.element, pitch * place.element);
    let (width, height) = if width == pitch { (width * height, 1) } else { (width, height) };
    let rows: Vec<usize> = (0..height).map(|row| place.base + row * pitch).collect();
    fill(stream_or_default(stream), &rows, width, &pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_with_the_last_ones_width() {
        assert_eq!(extent(8, 5, 6), Some(45));
        assert_eq!(extent(8, 8, 1), Some(8));
        assert_eq!((extent(8, 0, 6), extent(8, 5, 0)), (Some(0), Some(0)));
        assert_eq!(extent(usize::MAX, 1, 3), None);
    }
}

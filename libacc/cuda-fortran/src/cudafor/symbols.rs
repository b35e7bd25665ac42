//! Variables of modules by their names (`cudaSymbol`), or as arguments.

use super::copies::{enqueue, stream_or_default};
use crate::descriptor::Descriptor;
use crate::errors::{INVALID_RESOURCE_HANDLE, INVALID_SYMBOL, INVALID_VALUE, SUCCESS, keep};
use crate::memory::{self, Owner};
use crate::memory_argument::MemoryArgument;
use crate::{modules, streams};

/// Bytes of a symbol's name, padded with blanks.
const NAME: usize = 128;
/// flang's name of `type(cudaSymbol)`.
const TYPE: &[u8] = b"cudasymbol";

/// Assigns a name to a symbol.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_symbol_assign(symbol: &mut [u8; NAME], name: &Descriptor) {
    // SAFETY: the argument is a scalar of characters in host memory.
    let name = unsafe { std::slice::from_raw_parts(name.base as *const u8, name.element) };
    super::fill(symbol, name);
}

/// A part of a variable of a module on the current device.
struct Part {
    address: usize,
    bytes: usize,
}

/// Returns the variable that an argument names, or that it is.
fn variable(argument: &Descriptor) -> Option<Part> {
    let (host, bytes) = if argument.type_name() == TYPE {
        // SAFETY: the argument is a symbol in host memory.
        let name = unsafe { std::slice::from_raw_parts(argument.base as *const u8, NAME) };
        modules::variable_named(name.trim_ascii_end())?
    } else {
        let address = argument.base;
        if let Some(range) = memory::find(address).filter(|range| range.owner == Owner::Variable) {
            return Some(Part { address, bytes: range.bytes - (address - range.start) });
        }
        let (start, bytes) = modules::variable_at(address)?;
        (address, bytes - (address - start))
    };
    modules::device_address(host).map(|address| Part { address, bytes })
}

/// Copies between a variable and memory, which counts elements; so does the offset.
fn copy(symbol: &Descriptor, memory: &Descriptor, counts: [i32; 2], is_to_symbol: bool, stream: Option<i64>) -> i32 {
    let Some(part) = variable(symbol) else { return keep(INVALID_SYMBOL) };
    let place = MemoryArgument::new(memory);
    let [count, offset] = counts.map(|count| usize::try_from(count).ok()?.checked_mul(place.element));
    let (Some(bytes), Some(offset)) = (count, offset) else { return keep(INVALID_VALUE) };
    if !place.has(bytes) || offset.checked_add(bytes).is_none_or(|end| end > part.bytes) {
        return keep(INVALID_VALUE);
    }
    let (to, from) =
        if is_to_symbol { (part.address + offset, place.base) } else { (place.base, part.address + offset) };
    match stream {
        None => crate::transfer::bytes(to, from, bytes, super::copies::mode(to, from)),
        Some(stream) => {
            let Some(device) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
            enqueue(device, stream, to, from, bytes);
        }
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_to_symbol(
    symbol: &Descriptor,
    from: &Descriptor,
    count: i32,
    offset: Option<&i32>,
    _kind: *const i32,
) -> i32 {
    copy(symbol, from, [count, offset.copied().unwrap_or(0)], true, None)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_from_symbol(
    to: &Descriptor,
    symbol: &Descriptor,
    count: i32,
    offset: Option<&i32>,
    _kind: *const i32,
) -> i32 {
    copy(symbol, to, [count, offset.copied().unwrap_or(0)], false, None)
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_to_symbol_async(
    symbol: &Descriptor,
    from: &Descriptor,
    count: i32,
    offset: Option<&i32>,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy(symbol, from, [count, offset.copied().unwrap_or(0)], true, Some(stream_or_default(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_from_symbol_async(
    to: &Descriptor,
    symbol: &Descriptor,
    count: i32,
    offset: Option<&i32>,
    _kind: *const i32,
    stream: Option<&i64>,
) -> i32 {
    copy(symbol, to, [count, offset.copied().unwrap_or(0)], false, Some(stream_or_default(stream)))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_symbol_address(address: &mut usize, symbol: &Descriptor) -> i32 {
    let Some(part) = variable(symbol) else { return keep(INVALID_SYMBOL) };
    *address = part.address;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_symbol_size(bytes: &mut usize, symbol: &Descriptor) -> i32 {
    let Some(part) = variable(symbol) else { return keep(INVALID_SYMBOL) };
    *bytes = part.bytes;
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_symbol_size_i4(bytes: &mut i32, symbol: &Descriptor) -> i32 {
    let Some(part) = variable(symbol) else { return keep(INVALID_SYMBOL) };
    match i32::try_from(part.bytes) {
        Ok(size) => {
            *bytes = size;
            SUCCESS
        }
        Err(_) => keep(INVALID_VALUE),
    }
}

//! Reads and writes chunks on lanes.

use crate::frame::transfer::{CHUNK_MAX, Chunk, EXPOSED_MAX, HEADER_LEN};
use crate::stalls::Stalls;
use crate::transport::{Lane, MemoryKind, Source};
use accord_types::short_lock::assert_none_held;
use accord_types::{Error, ErrorCode, NativeRange, Result};
use std::io::{ErrorKind, IoSlice};

/// Least bytes that are sent from an exposed buffer: for fewer the extra round trip takes longer than a copy.
pub(crate) const EXPOSED_MIN: usize = 256 << 10;

/// Returns how many of `bytes` are sent over a lane as one chunk.
pub(super) fn chunk_len(lane: &dyn Lane, bytes: usize) -> usize {
    bytes.min(if is_exposed(lane, bytes) { EXPOSED_MAX } else { CHUNK_MAX })
}

fn is_exposed(lane: &dyn Lane, bytes: usize) -> bool {
    bytes >= EXPOSED_MIN && lane.moves_in_place()
}

/// Reads the next header. Returns `None` at the end of the lane.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the lane fails, or its bytes are not a header.
pub fn read_chunk(lane: &dyn Lane) -> Result<Option<Chunk>> {
    let mut bytes = [0; HEADER_LEN];
    let mut have = 0;
    assert_none_held();
    while have < HEADER_LEN {
        match lane.read(&mut bytes[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(ended()),
            Ok(n) => have += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(lost(&error)),
        }
    }
    Chunk::decode(&bytes).map(Some)
}

/// Reads exactly `bytes.len()` bytes that follow a header.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the lane fails or ends.
pub fn read_bytes(lane: &dyn Lane, bytes: &mut [u8]) -> Result<()> {
    assert_none_held();
    lane.read_exact(bytes).map_err(|error| lost(&error))
}

/// Writes a header and its bytes without raising a signal.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the lane fails.
pub fn write_chunk(lane: &dyn Lane, chunk: Chunk, bytes: &[u8], stalls: &Stalls) -> Result<()> {
    let header = chunk.encode();
    if is_exposed(lane, bytes.len()) {
        let begun = stalls.write_all(lane, &mut [IoSlice::new(&header)]);
        let _stalled = stalls.begin();
        return begun.and_then(|()| lane.send_in_place(bytes)).map_err(|error| lost(&error));
    }
    stalls.write_all(lane, &mut [IoSlice::new(&header), IoSlice::new(bytes)]).map_err(|error| lost(&error))
}

/// Writes a chunk as [`write_chunk`], with bytes in device memory, over a lane that can send from there.
///
/// # Errors
/// Returns the errors of [`write_chunk`].
pub(super) fn write_native_chunk(lane: &dyn Lane, chunk: Chunk, bytes: NativeRange, stalls: &Stalls) -> Result<()> {
    let begun = stalls.write_all(lane, &mut [IoSlice::new(&chunk.encode())]);
    let _stalled = stalls.begin();
    let memory = lane.remote_memory(MemoryKind::Device).ok_or(ErrorKind::Unsupported);
    begun.and_then(|()| memory?.send(Source::Device(bytes))).map_err(|error| lost(&error))
}

/// Reads bytes that follow a header into device memory, and returns their number, or `None` if the host has to read the
/// next bytes.
///
/// # Errors
/// Returns the errors of [`read_bytes`].
pub(super) fn read_native(lane: &dyn Lane, space: NativeRange) -> Result<Option<usize>> {
    assert_none_held();
    match lane.remote_memory(MemoryKind::Device) {
        Some(memory) => memory.receive(space).map_err(|error| lost(&error)),
        None => Ok(None),
    }
}

pub(super) fn broken(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the peer broke the protocol: {cause}"))
}

/// Returns the error of a lane that ends within a transfer.
pub(super) fn ended() -> Error {
    lost(&ErrorKind::UnexpectedEof.into())
}

pub(super) fn lost(error: &std::io::Error) -> Error {
    let why = match error.kind() {
        ErrorKind::UnexpectedEof => "it ended within a transfer".to_owned(),
        _ => error.to_string(),
    };
    Error::new(ErrorCode::DeviceUnavailable, format!("the connection was lost: {why}")).lane_ended()
}

//! Chunks on lanes.

use crate::frame::transfer::{CHUNK_MAX, Chunk, HEADER_LEN, LENT_MAX};
use crate::stalls::Stalls;
use crate::transport::Lane;
use accord_types::short_lock::assert_none_held;
use accord_types::{Error, ErrorCode, NativeRange, Result};
use std::io::{ErrorKind, IoSlice};

/// Fewer bytes are not lent: the other side has to ask for those, which takes longer than to copy so few.
pub(crate) const LENT_MIN: usize = 256 << 10;

/// How many of so many bytes go over a lane as one chunk.
pub(super) fn chunk_len(lane: &dyn Lane, bytes: usize) -> usize {
    bytes.min(if is_lent(lane, bytes) { LENT_MAX } else { CHUNK_MAX })
}

fn is_lent(lane: &dyn Lane, bytes: usize) -> bool {
    bytes >= LENT_MIN && lane.lends()
}

/// Reads the next header; none at the lane's end.
///
/// # Errors
/// `acc_error_device_unavailable` if the lane fails or carries something else.
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
/// `acc_error_device_unavailable` if the lane fails or ends.
pub fn read_bytes(lane: &dyn Lane, bytes: &mut [u8]) -> Result<()> {
    assert_none_held();
    lane.read_exact(bytes).map_err(|error| lost(&error))
}

/// Writes a header and its bytes, never raising a signal.
///
/// # Errors
/// `acc_error_device_unavailable` if the lane fails.
pub fn write_chunk(lane: &dyn Lane, chunk: Chunk, bytes: &[u8], stalls: &Stalls) -> Result<()> {
    let header = chunk.encode();
    if is_lent(lane, bytes.len()) {
        let begun = stalls.write_all(lane, &mut [IoSlice::new(&header)]);
        let _stalled = stalls.begin();
        return begun.and_then(|()| lane.lend(bytes)).map_err(|error| lost(&error));
    }
    stalls.write_all(lane, &mut [IoSlice::new(&header), IoSlice::new(bytes)]).map_err(|error| lost(&error))
}

/// The same with bytes in a device's own memory, over a lane that lends such.
///
/// # Errors
/// As for [`write_chunk`].
pub(super) fn write_native_chunk(lane: &dyn Lane, chunk: Chunk, bytes: NativeRange, stalls: &Stalls) -> Result<()> {
    let begun = stalls.write_all(lane, &mut [IoSlice::new(&chunk.encode())]);
    let _stalled = stalls.begin();
    begun.and_then(|()| lane.lend_native(bytes)).map_err(|error| lost(&error))
}

/// Reads bytes that follow a header into a device's own memory: how many; none if the next ones have to be read by the host.
///
/// # Errors
/// As for [`read_bytes`].
pub(super) fn read_native(lane: &dyn Lane, room: NativeRange) -> Result<Option<usize>> {
    assert_none_held();
    lane.read_native(room).map_err(|error| lost(&error))
}

pub(super) fn broken(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the peer broke the protocol: {cause}"))
}

/// Where more had to come.
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

//! Chunks on lanes.

use crate::frame::transfer::{Chunk, HEADER_LEN};
use crate::stalls::Stalls;
use crate::transport::Lane;
use accord_types::short_lock::assert_none_held;
use accord_types::{Error, ErrorCode, Result};
use std::io::{ErrorKind, IoSlice};

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
            Ok(0) => return Err(broken("a lane ended within a chunk")),
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
    lane.read_exact(bytes).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => broken("a lane ended within a chunk"),
        _ => lost(&error),
    })
}

/// Writes a header and its bytes, never raising a signal.
///
/// # Errors
/// `acc_error_device_unavailable` if the lane fails.
pub fn write_chunk(lane: &dyn Lane, chunk: Chunk, bytes: &[u8], stalls: &Stalls) -> Result<()> {
    let header = chunk.encode();
    stalls.write_all(lane, &mut [IoSlice::new(&header), IoSlice::new(bytes)]).map_err(|error| lost(&error))
}

pub(super) fn broken(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the peer broke the protocol: {cause}"))
}

fn lost(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the connection was lost: {error}"))
}

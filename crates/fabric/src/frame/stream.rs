//! Frames of a command lane: a header, one record, and payload padded to 16 bytes.
//!
//! ```text
//!  0   length of the whole frame, header included (u64)
//!  8   bytes of payload, without padding (u32)
//! 12   kind (u8), flags (u8, 0), reserved (u16, 0)
//! 16   record (RECORD_LEN bytes)
//!  …   payload, padded with zeros to a multiple of 16
//! ```
//! All numbers are little-endian.

use crate::frame::{Command, Event};
use accord_types::{Error, ErrorCode, Result};
use rkyv::api::low::{LowDeserializer, LowValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::{Failure, Strategy};
use rkyv::ser::writer::Buffer;
use rkyv::{Archive, Deserialize, Portable};
use std::io;

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;
/// Bytes of a record.
pub const RECORD_LEN: usize = 64;
/// Most bytes of payload.
pub const PAYLOAD_MAX: usize = 64 << 10;
/// Most bytes of a frame.
pub const FRAME_MAX: usize = HEADER_LEN + RECORD_LEN + PAYLOAD_MAX;
/// Bytes that a reader buffers, so that one read returns several frames.
const BUFFER_LEN: usize = 2 * FRAME_MAX;

const _: () = assert!(size_of::<Header>() == HEADER_LEN);
const _: () = assert!(size_of::<<Command as Archive>::Archived>() <= RECORD_LEN);
const _: () = assert!(size_of::<<Event as Archive>::Archived>() <= RECORD_LEN);
const _: () = assert!(align_of::<<Command as Archive>::Archived>() <= 16);
const _: () = assert!(align_of::<<Event as Archive>::Archived>() <= 16);
const _: () = assert!(PAYLOAD_MAX.is_multiple_of(16) && RECORD_LEN.is_multiple_of(16));

/// The wire form of a header.
#[repr(C)]
struct Header {
    length: u64,
    payload: u32,
    kind: u8,
    flags: u8,
    reserved: u16,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload.to_le_bytes());
        bytes[12] = self.kind;
        bytes[13] = self.flags;
        bytes[14..].copy_from_slice(&self.reserved.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[..8]);
        let mut payload = [0; 4];
        payload.copy_from_slice(&bytes[8..12]);
        let header = Self {
            length: u64::from_le_bytes(length),
            payload: u32::from_le_bytes(payload),
            kind: bytes[12],
            flags: bytes[13],
            reserved: u16::from_le_bytes([bytes[14], bytes[15]]),
        };
        let padded = u64::from(header.payload).next_multiple_of(16);
        if header.length > FRAME_MAX as u64 {
            return Err(broken(format!("a frame of {} bytes was announced; {FRAME_MAX} are allowed", header.length)));
        }
        if header.length != (HEADER_LEN + RECORD_LEN) as u64 + padded {
            return Err(broken(format!(
                "a frame of {} bytes was announced with {} bytes of payload",
                header.length, header.payload
            )));
        }
        if header.flags != 0 || header.reserved != 0 {
            return Err(broken("a frame with unknown flags came".to_owned()));
        }
        Ok(header)
    }
}

/// A record that a command lane carries in one direction.
pub trait Record: Copy + Archive {
    /// The number of the record's kind in headers.
    const KIND: u8;

    /// Writes the record into `bytes`.
    fn encode(&self, bytes: &mut Aligned);

    /// Decodes and checks the record in `bytes`. Returns `None` if it is invalid.
    fn decode(bytes: &Aligned) -> Option<Self>;
}

/// Space for one record, aligned for it.
#[repr(C, align(16))]
pub struct Aligned([u8; RECORD_LEN]);

macro_rules! record {
    ($type:ty, $kind:literal) => {
        impl Record for $type {
            const KIND: u8 = $kind;

            fn encode(&self, bytes: &mut Aligned) {
                let mut writer = Buffer::from(&mut bytes.0[..]);
                // This can't fail: the space is large enough, as asserted above.
                let _ = rkyv::api::serialize_using::<_, Failure>(self, &mut writer);
            }

            fn decode(bytes: &Aligned) -> Option<Self> {
                decode(&bytes.0[..size_of::<<$type as Archive>::Archived>()])
            }
        }
    };
}

record!(Command, 1);
record!(Event, 2);

fn decode<T>(bytes: &[u8]) -> Option<T>
where
    T: Archive,
    T::Archived: Portable + for<'a> CheckBytes<LowValidator<'a, Failure>> + Deserialize<T, LowDeserializer<Failure>>,
{
    let archived = rkyv::api::low::access::<T::Archived, Failure>(bytes).ok()?;
    archived.deserialize(Strategy::<(), Failure>::wrap(&mut ())).ok()
}

/// Appends a frame to `out`. Returns its length.
///
/// # Errors
/// Returns `acc_error_implementation_defined` if the payload is longer than [`PAYLOAD_MAX`].
pub fn put<R: Record>(out: &mut Vec<u8>, record: &R, payload: &[&[u8]]) -> Result<usize> {
    let payload_len: usize = payload.iter().map(|part| part.len()).sum();
    if payload_len > PAYLOAD_MAX {
        return Err(Error::new(
            ErrorCode::ImplementationDefined,
            format!("a payload of {payload_len} bytes is too long for a frame"),
        ));
    }
    let length = HEADER_LEN + RECORD_LEN + payload_len.next_multiple_of(16);
    let header = Header {
        length: length as u64,
        payload: u32::try_from(payload_len).unwrap_or(u32::MAX),
        kind: R::KIND,
        flags: 0,
        reserved: 0,
    };
    out.reserve(length);
    let start = out.len();
    let mut bytes = Aligned([0; RECORD_LEN]);
    record.encode(&mut bytes);
    let mut first = [0; HEADER_LEN + RECORD_LEN];
    first[..HEADER_LEN].copy_from_slice(&header.encode());
    first[HEADER_LEN..].copy_from_slice(&bytes.0);
    out.extend_from_slice(&first);
    for part in payload {
        out.extend_from_slice(part);
    }
    out.resize(start + length, 0);
    Ok(length)
}

/// Splits a byte stream into frames, several per read. Buffers at most [`BUFFER_LEN`] bytes.
pub struct FrameReader {
    buffer: Box<[u8]>,
    /// Start of the bytes that were read and not yet returned.
    start: usize,
    end: usize,
}

/// One frame, borrowed from the reader.
pub struct Frame<'a, R> {
    /// The record.
    pub record: R,
    /// The payload, without padding.
    pub payload: &'a [u8],
    /// Bytes of the whole frame.
    pub length: usize,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self { buffer: vec![0; BUFFER_LEN].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl FrameReader {
    /// Returns the next frame, or `None` if it is incomplete.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the bytes are not a frame with a valid record.
    pub fn take<R: Record>(&mut self) -> Result<Option<Frame<'_, R>>> {
        let here = &self.buffer[self.start..self.end];
        if here.len() < HEADER_LEN {
            return Ok(None);
        }
        let header = Header::decode(&here[..HEADER_LEN])?;
        if header.kind != R::KIND {
            return Err(broken(format!("a frame of kind {} came on a lane for kind {}", header.kind, R::KIND)));
        }
        // Bounded by `Header::decode`.
        let length = usize::try_from(header.length).unwrap_or(FRAME_MAX);
        if here.len() < length {
            return Ok(None);
        }
        let mut bytes = Aligned([0; RECORD_LEN]);
        bytes.0.copy_from_slice(&here[HEADER_LEN..HEADER_LEN + RECORD_LEN]);
        let record = R::decode(&bytes).ok_or_else(|| broken("a frame with a malformed record came".to_owned()))?;
        let at = self.start + HEADER_LEN + RECORD_LEN;
        self.start += length;
        Ok(Some(Frame { record, payload: &self.buffer[at..at + header.payload as usize], length }))
    }

    /// Calls `read` once, which fills the given buffer and returns how many bytes it has read. Returns `false` at the lane's
    /// end.
    ///
    /// # Errors
    /// Returns the error of `read`; the reader is unchanged then.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.start < FRAME_MAX {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let received = read(&mut self.buffer[self.end..])?;
        self.end += received;
        Ok(received > 0)
    }
}

fn broken(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the peer broke the protocol: {cause}"))
        .remedy("install the same version on both sides")
}

#[cfg(test)]
mod tests;

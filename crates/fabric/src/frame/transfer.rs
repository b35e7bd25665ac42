//! Chunks: a header of 32 bytes, then the bytes. The header is length (u64), kind (u8, then 7 bytes of 0), transfer (u64)
//! and offset in the transfer (u64), all little-endian.

use accord_types::{Error, ErrorCode, Result, TransferId};

/// Most bytes of one chunk that a lane buffers.
pub const CHUNK_MAX: usize = 1 << 20;
/// Most bytes of one chunk that a lane sends from the sender's memory.
pub const EXPOSED_MAX: usize = 1 << 30;
/// Longest text of an error on a lane.
pub const TEXT_MAX: usize = 16 << 10;
/// Longest memory handle that a target may offer with [`ChunkKind::Ready`].
pub const HANDLE_MAX: usize = 64 << 10;
/// Longest list of devices of [`ChunkKind::Ask`] and [`ChunkKind::ConnectionLiveness`], in bytes: 256 devices.
pub const DEVICES_BYTES_MAX: usize = 256 * 12;
/// Bytes of a chunk's header.
pub const HEADER_LEN: usize = 32;

/// The kind of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ChunkKind {
    /// Bytes of the transfer.
    Data = 1,
    /// Ends the transfer early: the sender failed, or has moved the bytes another way.
    Abort = 2,
    /// Permits the sender to send. Like all kinds below it goes against the direction of the bytes. The bytes that follow
    /// locate the target's memory, for a sender that can access it.
    Ready = 3,
    /// Reports that the transfer has landed.
    Landed = 4,
    /// Refuses the transfer, in place of [`ChunkKind::Ready`]. The bytes are the error.
    Refused = 5,
    /// Asks the executor whether it lives, for a program that waits. The bytes are the ordinals (u32) of devices that the program gives up.
    Ask = 6,
    /// Answers [`ChunkKind::Ask`]. The bytes are the executor's devices: ordinal (u32) and the count of its worker's heartbeats (u64).
    Alive = 7,
    /// Reports that a program has lost another executor, or given it up. The transfer's field holds its [`crate::peer::PeerId`]; the bytes are the error.
    Lost = 8,
    /// Reports that a permitted transfer did not land. The bytes are the error.
    Failed = 9,
    /// As [`ChunkKind::Ready`], with a receive that is posted for the whole transfer as one message. The offset's field holds the receive's number. The
    /// sender uses that receive, or a lane.
    Room = 10,
}

/// Header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// The kind of the bytes that follow.
    pub kind: ChunkKind,
    /// The transfer of the bytes.
    pub transfer: TransferId,
    /// Their offset in the transfer.
    pub offset: u64,
    /// Number of bytes that follow.
    pub len: usize,
}

impl Chunk {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&(self.len as u64).to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[16..24].copy_from_slice(&self.transfer.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Decodes the output of [`Chunk::encode`].
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the header is malformed, or its length exceeds that of its kind.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self> {
        let number = |at: usize| {
            let mut out = [0; 8];
            out.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(out)
        };
        let kind = match (number(8) & 0xff, number(8) >> 8) {
            (1, 0) => ChunkKind::Data,
            (2, 0) => ChunkKind::Abort,
            (3, 0) => ChunkKind::Ready,
            (4, 0) => ChunkKind::Landed,
            (5, 0) => ChunkKind::Refused,
            (6, 0) => ChunkKind::Ask,
            (7, 0) => ChunkKind::Alive,
            (8, 0) => ChunkKind::Lost,
            (9, 0) => ChunkKind::Failed,
            (10, 0) => ChunkKind::Room,
            _ => return Err(broken("a chunk of unknown kind came")),
        };
        let max = match kind {
            ChunkKind::Data => EXPOSED_MAX,
            ChunkKind::Refused | ChunkKind::Lost | ChunkKind::Failed => TEXT_MAX,
            ChunkKind::Ready => HANDLE_MAX,
            ChunkKind::Ask | ChunkKind::Alive => DEVICES_BYTES_MAX,
            _ => 0,
        };
        match usize::try_from(number(0)) {
            Ok(len) if len <= max => Ok(Self { kind, transfer: TransferId(number(16)), offset: number(24), len }),
            _ => Err(broken(&format!("a chunk of {} bytes was announced; {max} are allowed", number(0)))),
        }
    }
}

fn broken(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("the peer broke the protocol: {cause}"))
}

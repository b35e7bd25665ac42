//! How a client introduces itself.

use super::io;
use crate::peer::PeerId;
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use std::time::Duration;

/// First bytes of every connection; no HTTP/2 preface begins so.
pub const MAGIC: [u8; 8] = *b"ACCORD\r\n";
/// Version of everything that is said on a connection. It goes up with every change of a byte or of its meaning, once a release:
/// docs/reference/protocol.md.
pub const VERSION: u32 = 2;
/// Bytes of a [`Hello`] on the wire.
pub const HELLO_LEN: usize = 68;

/// The same of its beginning, which no version changes: magic and version.
pub(super) const HELLO_BEGINNING_LEN: usize = 12;

pub(super) const NONCE_LEN: usize = 32;
/// Offset of the byte that says what follows the handshake.
const SECURE_AT: usize = 13;
/// Offset of the node that it is for.
const TO_AT: usize = 28;
/// Offset of the lane's number among those that the two have had.
const LANE_AT: usize = 32;
/// Offset of the nonce, its last part.
const NONCE_AT: usize = HELLO_LEN - NONCE_LEN;
/// The number for any node that gets it.
const ANY_NODE: u32 = u32::MAX;

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Purpose {
    /// Commands of a program to an executor, events back.
    Command = 1,
    /// Chunks of transfers between a program and an executor.
    Bulk = 2,
    /// Chunks of transfers from one executor to another.
    Peer = 3,
    /// A program at the coordinator's session endpoint.
    Session = 4,
    /// Control messages about transfers between a program and an executor.
    Control = 5,
    /// A measurement of the path between two agents, which has the place of a session.
    Measure = 6,
    /// Claims of a program that drives its own node's devices on these devices' memory, which the agent counts.
    Memory = 7,
    /// A program that drives its own node's devices itself, at the node's agent. The lane carries nothing, and lasts as long as the program drives them.
    Driver = 8,
}

/// The limit for peers that always read at once. After a cut of 2 s TCP's next try comes after 3 s at most.
const READ_AT_ONCE: Duration = Duration::from_secs(6);
/// The limit for executors, which read at once too, but may be stopped for as long as programs bear it (30 s if nothing
/// else is set).
const READ_BY_EXECUTORS: Duration = Duration::from_secs(40);

impl Purpose {
    fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Command,
            2 => Self::Bulk,
            3 => Self::Peer,
            4 => Self::Session,
            5 => Self::Control,
            6 => Self::Measure,
            7 => Self::Memory,
            8 => Self::Driver,
            _ => return None,
        })
    }

    /// Returns how long bytes of one side may stay unread on such a lane; `None`: for ever. Programs may sit in a
    /// debugger, and executors behind a full stream.
    pub fn unread_max(self) -> Option<Duration> {
        match self {
            Self::Session | Self::Measure => Some(READ_AT_ONCE),
            Self::Peer => Some(READ_BY_EXECUTORS),
            Self::Command | Self::Bulk | Self::Control | Self::Memory | Self::Driver => None,
        }
    }

    /// Whether a program waits for what comes, mostly: not for chunks of transfers, for which its engines and threads wait.
    pub(crate) fn is_waited_for(self) -> bool {
        matches!(self, Self::Command | Self::Peer | Self::Control)
    }

    /// Returns the server of such connections, for messages.
    pub(super) fn server(self) -> &'static str {
        match self {
            Self::Session => "coordinator",
            _ => "agent",
        }
    }
}

/// The first message of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Its protocol version: [`VERSION`].
    pub version: u32,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The session that it belongs to; 0 at the session endpoint.
    pub session: SessionId,
    /// Number among the session's lanes of its kind, from 0. Of a command lane and a peer lane the number of the executor that
    /// it is for, see [`PeerId::incarnation`].
    pub index: u16,
    /// The connecting process; of a peer lane with its number, see [`PeerId::on_lane`].
    pub from: PeerId,
    /// The node of the executor that it is for; `None`: any node that takes it.
    pub to: Option<NodeId>,
    /// TLS follows the handshake.
    pub secure: bool,
}

impl Hello {
    /// A hello in this program's version.
    pub fn new(purpose: Purpose, session: SessionId, index: u16, from: PeerId) -> Self {
        Self { version: VERSION, purpose, session, index, from, to: None, secure: false }
    }

    /// The hello as bytes, with what makes it one of a kind.
    pub fn encode(&self, nonce: &[u8; NONCE_LEN]) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12] = self.purpose as u8;
        bytes[SECURE_AT] = u8::from(self.secure);
        bytes[14..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.session.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.from.raw().to_le_bytes());
        bytes[TO_AT..LANE_AT].copy_from_slice(&self.to.map_or(ANY_NODE, |to| to.0).to_le_bytes());
        bytes[LANE_AT..NONCE_AT].copy_from_slice(&self.from.lane().to_le_bytes());
        bytes[NONCE_AT..].copy_from_slice(nonce);
        bytes
    }

    /// Decodes the output of [`Hello::encode`].
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if it is none, or of another version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self> {
        let version = u32::from_le_bytes(io::take(bytes, 8));
        if bytes[..8] != MAGIC {
            return Err(malformed("it does not begin with Accord's magic bytes"));
        }
        if version != VERSION {
            return Err(version_differs(version));
        }
        let purpose = Purpose::from_raw(bytes[12]).ok_or_else(|| malformed("it names no lane"))?;
        let secure = match bytes[SECURE_AT] {
            0 => false,
            1 => true,
            _ => return Err(malformed("it does not say whether TLS follows")),
        };
        let to = Some(u32::from_le_bytes(io::take(bytes, TO_AT))).filter(|to| *to != ANY_NODE);
        Ok(Self {
            version,
            purpose,
            session: SessionId(u64::from_le_bytes(io::take(bytes, 16))),
            index: u16::from_le_bytes(io::take(bytes, 14)),
            from: PeerId::from_raw(u32::from_le_bytes(io::take(bytes, 24)))
                .on_lane(u32::from_le_bytes(io::take(bytes, LANE_AT))),
            to: to.map(NodeId),
            secure,
        })
    }
}

pub(super) fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

pub(super) fn malformed(why: &str) -> Error {
    unavailable(format!("no Accord introduction: {why}"))
}

pub(super) fn version_differs(version: u32) -> Error {
    unavailable(format!("protocol {version} was spoken, {VERSION} is needed"))
        .remedy("install the same version on both")
}

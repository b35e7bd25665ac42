//! A client's first message.

use super::io;
use crate::peer::PeerId;
use accord_types::protocol_version::{ProtocolVersion, UPGRADE};
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use std::time::Duration;

/// First bytes of every connection; no HTTP/2 preface begins so.
pub const MAGIC: [u8; 8] = *b"ACCORD\r\n";
/// Version of all bytes on a connection. It goes up with every change of a byte or of its meaning, once a release:
/// docs/reference/protocol.md.
pub const VERSION: u32 = 2;
/// The versions of peers that are served. A hello has the same form in neighbouring releases.
pub const VERSIONS: ProtocolVersion = ProtocolVersion::new(VERSION, 2);
/// Bytes of a [`Hello`] on the wire.
pub const HELLO_LEN: usize = 68;

/// Bytes of the beginning of a [`Hello`], which no version changes: magic and version.
pub(super) const HELLO_BEGINNING_LEN: usize = 12;

pub(super) const NONCE_LEN: usize = 32;
/// Offset of the byte that tells whether TLS follows the handshake.
const SECURE_AT: usize = 13;
/// Offset of the addressed node's number.
const TO_AT: usize = 28;
/// Offset of the lane's number, see [`PeerId::lane`].
const LANE_AT: usize = 32;
/// Offset of the nonce, the last part.
const NONCE_AT: usize = HELLO_LEN - NONCE_LEN;
/// The node number that addresses whichever node is connected.
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
    /// A measurement of the path between two agents. Its number is in the session's field.
    Measure = 6,
    /// A program that drives its own node's devices and claims their memory at the agent.
    Memory = 7,
    /// A program that drives its own node's devices, at the node's agent. The lane carries no bytes, and lasts as long as the program drives them.
    Driver = 8,
    /// A process that drives a node's devices and takes turns with others, at the node's agent.
    Turns = 9,
}

/// The limit for peers that always read at once. After an interruption of 2 s TCP retransmits after 3 s at most.
const READ_AT_ONCE: Duration = Duration::from_secs(6);
/// The limit for executors, which also read at once but may be stopped for as long as programs tolerate (30 s by
/// default).
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
            9 => Self::Turns,
            _ => return None,
        })
    }

    /// Returns how long bytes may stay unread on such a lane, or `None` for no limit. A program may be stopped in a debugger,
    /// and an executor may wait for a full stream.
    pub fn unread_max(self) -> Option<Duration> {
        match self {
            Self::Session | Self::Measure => Some(READ_AT_ONCE),
            Self::Peer => Some(READ_BY_EXECUTORS),
            Self::Command | Self::Bulk | Self::Control | Self::Memory | Self::Driver | Self::Turns => None,
        }
    }

    /// Whether a program usually waits for the bytes of such a lane. Engines and threads wait for chunks of transfers instead.
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
    /// The client's protocol version.
    pub version: u32,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The session of the connection; 0 at the session endpoint.
    pub session: SessionId,
    /// The number among the session's lanes of its kind, from 0. For command and peer lanes it is the addressed executor's number, see
    /// [`PeerId::incarnation`].
    pub index: u16,
    /// The connecting process; for a peer lane with the lane's number, see [`PeerId::on_lane`].
    pub from: PeerId,
    /// The node of the addressed executor; `None`: whichever node is connected.
    pub to: Option<NodeId>,
    /// Whether TLS follows the handshake.
    pub secure: bool,
}

impl Hello {
    /// Creates a hello in this program's version.
    pub fn new(purpose: Purpose, session: SessionId, index: u16, from: PeerId) -> Self {
        Self { version: VERSIONS.own(), purpose, session, index, from, to: None, secure: false }
    }

    /// Encodes the hello with `nonce`, which makes it unique.
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
    /// Returns `acc_error_device_unavailable` if the bytes are malformed, or of another version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self> {
        let version = u32::from_le_bytes(io::take(bytes, 8));
        if bytes[..8] != MAGIC {
            return Err(malformed("it does not begin with Accord's magic bytes"));
        }
        if !VERSIONS.serves(version) {
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
    unavailable(format!("the client speaks protocol {version}, this side {}", VERSIONS.own())).remedy(UPGRADE)
}

//! The first bytes of every connection: who is there, in which version, with the same key.
//!
//! ```text
//! client                                   server
//!   Hello (64 bytes)                 ->
//!                                    <-    Answer: refusal, or nonce + server's proof
//!   client's proof (32 bytes)        ->
//!                                    <-    Answer: welcome, or refusal
//! ```
//!
//! The first 12 bytes of a hello (magic, version) and the first 16 of an answer (magic, version,
//! verdict, length of the rest) are the same in every version, so that two versions can still
//! tell each other that they differ. Both sides prove that they have the key, over both nonces;
//! nothing after the handshake is signed. Which key that is follows from the hello: at the session endpoint the cluster's,
//! on lanes that of their session.

pub(crate) mod io;

use crate::key::{self, Key, MAC_LEN};
use crate::peer::PeerId;
use crate::route::Route;
use crate::transport::{self, Lane, PeerAddress, SharedLane};
use accord_types::{Error, ErrorCode, Result, SessionId};
pub(crate) use io::Deadline;
use std::time::Duration;

/// First bytes of every connection; no HTTP/2 preface begins so.
pub const MAGIC: [u8; 8] = *b"ACCORD\r\n";
/// Version of everything that is said on a connection. It goes up with every change of a byte or of its meaning, once a release:
/// docs/reference/protocol.md.
pub const VERSION: u32 = 2;
/// Bytes of a [`Hello`] on the wire.
pub const HELLO_LEN: usize = 64;

const NONCE_LEN: usize = 32;
const ANSWER_LEN: usize = 16;
const CHALLENGE_LEN: usize = NONCE_LEN + MAC_LEN;
/// Longest text of a refusal.
const REFUSAL_MAX: usize = 1024;

const CLIENT: &[u8] = b"accord client";
const SERVER: &[u8] = b"accord server";

/// What a connection is for.
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
}

impl Purpose {
    fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Command,
            2 => Self::Bulk,
            3 => Self::Peer,
            4 => Self::Session,
            5 => Self::Control,
            _ => return None,
        })
    }

    /// Whether both sides of such a lane always read at once. Programs may sit in a debugger, and executors behind a full stream.
    pub fn reads_at_once(self) -> bool {
        matches!(self, Self::Peer | Self::Session)
    }

    /// Who serves such connections, for messages.
    fn server(self) -> &'static str {
        match self {
            Self::Session => "coordinator",
            _ => "agent",
        }
    }
}

/// How a client introduces itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Its protocol version: [`VERSION`].
    pub version: u32,
    /// What the connection is for.
    pub purpose: Purpose,
    /// The session that it belongs to; 0 at the session endpoint.
    pub session: SessionId,
    /// Number among the session's lanes of its kind, from 0. Of a command lane and a peer lane the number of the executor that
    /// it is for, see [`PeerId::incarnation`].
    pub index: u16,
    /// Who connects.
    pub from: PeerId,
}

impl Hello {
    /// A hello in this program's version.
    pub fn new(purpose: Purpose, session: SessionId, index: u16, from: PeerId) -> Self {
        Self { version: VERSION, purpose, session, index, from }
    }

    /// The hello as bytes, with what makes it one of a kind.
    pub fn encode(&self, nonce: &[u8; NONCE_LEN]) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12] = self.purpose as u8;
        bytes[14..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.session.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.from.raw().to_le_bytes());
        bytes[32..].copy_from_slice(nonce);
        bytes
    }

    /// What [`Hello::encode`] wrote.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` if it is none, or of another version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self> {
        let version = u32::from_le_bytes(io::take(bytes, 8));
        if bytes[..8] != MAGIC {
            return Err(malformed("it does not begin with Accord's magic bytes"));
        }
        if version != VERSION {
            return Err(version_differs(version));
        }
        let purpose = Purpose::from_raw(bytes[12]).ok_or_else(|| malformed("it names no lane"))?;
        if bytes[13] != 0 || bytes[28..32] != [0; 4] {
            return Err(malformed("its reserved bytes are not 0"));
        }
        Ok(Self {
            version,
            purpose,
            session: SessionId(u64::from_le_bytes(io::take(bytes, 16))),
            index: u16::from_le_bytes(io::take(bytes, 14)),
            from: PeerId::from_raw(u32::from_le_bytes(io::take(bytes, 24))),
        })
    }
}

/// Connects by TCP, see [`connect_by`].
///
/// # Errors
/// As for [`connect_by`].
pub fn connect(to: &PeerAddress, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    connect_by(&Route::tcp(to.clone()), hello, key, timeout)
}

/// Connects to the server as `route` says and introduces itself. `timeout` bounds the whole of it.
///
/// # Errors
/// `acc_error_device_unavailable`, with the reason: nobody there, another key or version, refused.
pub fn connect_by(route: &Route, hello: &Hello, key: &Key, timeout: Duration) -> Result<SharedLane> {
    let deadline = Deadline::after(timeout);
    let name = hello.purpose.server();
    let remedy = match hello.purpose {
        Purpose::Session => "set ACCORD_COORDINATOR to host:port",
        _ => "check the name; it must be host:port",
    };
    let server = format!("the {name} at {}", route.endpoint);
    transport::connect(route, name, remedy, timeout, |lane| {
        introduce(lane, hello, key, deadline, &server)?;
        lane.introduced(hello.purpose.reads_at_once()).map_err(|error| unavailable(format!("{server}: {error}")))
    })
}

fn introduce(lane: &dyn Lane, hello: &Hello, key: &Key, deadline: Deadline, server: &str) -> Result<()> {
    let broken = |error: std::io::Error| unavailable(format!("{server} broke the handshake off: {error}"));
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce)?;
    let hello = hello.encode(&nonce);
    io::write(lane, &hello, deadline).map_err(broken)?;
    let length = read_answer(lane, deadline, server)?;
    if length != CHALLENGE_LEN {
        return Err(unavailable(format!("{server} does not follow the protocol: a challenge of {length} bytes")));
    }
    let mut challenge = [0; CHALLENGE_LEN];
    io::read(lane, &mut challenge, deadline).map_err(broken)?;
    let (server_nonce, proof) = challenge.split_at(NONCE_LEN);
    if !key.proves(&[SERVER, &hello, server_nonce], &io::take(proof, 0)) {
        return Err(unavailable(format!("{server} has another key"))
            .remedy("check that it is the agent of this cluster, and start the program again"));
    }
    let proof = key.prove(&[CLIENT, &hello, server_nonce]);
    io::write(lane, &proof, deadline).map_err(broken)?;
    match read_answer(lane, deadline, server)? {
        0 => Ok(()),
        length => Err(unavailable(format!("{server} does not follow the protocol: a welcome of {length} bytes"))),
    }
}

/// Reads the fixed part of an answer, and the rest if it is a refusal. Returns the length of the rest.
fn read_answer(lane: &dyn Lane, deadline: Deadline, server: &str) -> Result<usize> {
    let broken = |error: std::io::Error| unavailable(format!("{server} broke the handshake off: {error}"));
    let mut answer = [0; ANSWER_LEN];
    io::read(lane, &mut answer, deadline).map_err(broken)?;
    if answer[..8] != MAGIC {
        return Err(unavailable(format!("{server} does not speak Accord's protocol")).remedy("check the port"));
    }
    let version = u32::from_le_bytes(io::take(&answer, 8));
    if version != VERSION {
        return Err(unavailable(format!("{server} speaks protocol {version}, this program {VERSION}"))
            .remedy("install the same version on both"));
    }
    let refused = u16::from_le_bytes(io::take(&answer, 12));
    let length = usize::from(u16::from_le_bytes(io::take(&answer, 14)));
    if refused == 0 {
        return Ok(length);
    }
    let mut text = vec![0; length.min(REFUSAL_MAX)];
    io::read(lane, &mut text, deadline).map_err(broken)?;
    Err(unavailable(format!("{server} refused the connection: {}", String::from_utf8_lossy(&text))))
}

/// Takes a client's introduction. Reads nothing that comes after it. A client that does not fit
/// is told why before the error comes back; the connection is of no use then.
///
/// # Errors
/// With the reason why the client was refused; `acc_error_device_shutdown` if it has left without a word.
pub fn accept(lane: &dyn Lane, key: &Key, timeout: Duration) -> Result<Hello> {
    accept_if(lane, timeout, |_| Ok(key.clone()), |_| Ok(()))
}

/// As [`accept`], with the key that `key_of` finds for a hello, which may be anybody's, and a further condition on one that was
/// proven. The causes of their errors are told to the client. The time that the condition takes does not count, but the client
/// waits for it.
///
/// # Errors
/// With the reason why the client was refused.
pub fn accept_if(
    lane: &dyn Lane,
    timeout: Duration,
    key_of: impl FnOnce(&Hello) -> Result<Key>,
    condition: impl FnOnce(&Hello) -> Result<()>,
) -> Result<Hello> {
    let outcome = examine(lane, timeout, key_of, condition);
    if let Err(error) = &outcome {
        let deadline = Deadline::after(timeout);
        let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let text = format!("{}{remedy}", error.cause());
        let text = &text.as_bytes()[..text.len().min(REFUSAL_MAX)];
        // The client may be gone already.
        let _ = io::write(lane, &[&answer(1, text.len())[..], text].concat(), deadline);
        io::close_gently(lane, deadline);
    }
    let hello = outcome?;
    let untunable = |error: std::io::Error| unavailable(format!("cannot tune the connection: {error}"));
    lane.introduced(hello.purpose.reads_at_once()).map_err(untunable)?;
    Ok(hello)
}

fn examine(
    lane: &dyn Lane,
    timeout: Duration,
    key_of: impl FnOnce(&Hello) -> Result<Key>,
    condition: impl FnOnce(&Hello) -> Result<()>,
) -> Result<Hello> {
    let deadline = Deadline::after(timeout);
    let broken = |error: std::io::Error| malformed(&error.to_string());
    let mut bytes = [0; HELLO_LEN];
    // Magic and version first: another version's hello may be shorter than ours.
    io::read(lane, &mut bytes[..12], deadline).map_err(|error| match error.kind() {
        // Somebody has only looked whether anybody is here.
        std::io::ErrorKind::UnexpectedEof => Error::new(ErrorCode::DeviceShutdown, error.to_string()),
        _ => broken(error),
    })?;
    if bytes[..8] != MAGIC {
        return Err(malformed("it does not begin with Accord's magic bytes"));
    }
    let version = u32::from_le_bytes(io::take(&bytes, 8));
    if version != VERSION {
        return Err(version_differs(version));
    }
    io::read(lane, &mut bytes[12..], deadline).map_err(broken)?;
    let hello = Hello::decode(&bytes)?;
    let key = key_of(&hello)?;
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce)?;
    let proof = key.prove(&[SERVER, &bytes, &nonce]);
    io::write(lane, &[&answer(0, CHALLENGE_LEN)[..], &nonce, &proof].concat(), deadline).map_err(broken)?;
    let mut proof = [0; MAC_LEN];
    io::read(lane, &mut proof, deadline).map_err(broken)?;
    if !key.proves(&[CLIENT, &bytes, &nonce], &proof) {
        return Err(unavailable("the keys differ".to_owned()));
    }
    condition(&hello)?;
    io::write(lane, &answer(0, 0), Deadline::after(timeout)).map_err(broken)?;
    Ok(hello)
}

fn answer(refused: u16, length: usize) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..14].copy_from_slice(&refused.to_le_bytes());
    bytes[14..].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    bytes
}

fn unavailable(cause: String) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

fn malformed(why: &str) -> Error {
    unavailable(format!("no Accord introduction: {why}"))
}

fn version_differs(version: u32) -> Error {
    unavailable(format!("protocol {version} was spoken, {VERSION} is needed"))
        .remedy("install the same version on both")
}

#[cfg(test)]
mod tests;

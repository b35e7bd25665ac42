//! Direct connections between processes of one session on one machine, apart from lanes: their addresses and
//! authentication.
//!
//! An executor listens on an abstract UNIX socket, whose name only holders of the session's key can derive. Such names are
//! scoped to a network namespace, so that containers with namespaces of their own do not connect. The socket preserves
//! message boundaries (`SOCK_SEQPACKET`).
//!
//! ```text
//! connects                                       listens
//!   hello (64 bytes)                         ->
//!                                            <-  nonce + proof (64 bytes)
//!   proof (32 bytes)                         ->
//!                                            <-  welcome (1 byte), once the connection is in use
//! ```

use crate::handshake::{MAGIC, VERSION};
use crate::key::{self, Key, MAC_LEN};
use crate::peer::PeerId;
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect as connect_socket, listen, recv, send, shutdown, socket_with,
};
use rustix::process::geteuid;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The time limit of each step of the introduction.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 64;
const HELLO_LEN: usize = 64;
const NONCE_LEN: usize = 32;
const WELCOME: &[u8] = &[1];

const NAME: &[u8] = b"accord local name";
const CLIENT: &[u8] = b"accord local client";
const SERVER: &[u8] = b"accord local server";

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Role {
    /// The connecting process imports memory of the other side.
    Import = 1,
    /// The connecting process exports memory to the other side.
    Export = 2,
}

/// The connecting process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// A node's executor, or the program ([`PeerId::PROGRAM`]).
    pub from: PeerId,
    /// The purpose of the connection.
    pub role: Role,
}

/// The socket at which other processes of a session reach an executor.
pub struct Listener {
    socket: OwnedFd,
    session: SessionId,
    key: Key,
}

impl Listener {
    /// Listens for processes of `session` that connect to the executor of `node`.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the socket can't be bound, for example because another executor of the same session and
    /// node has bound it.
    pub fn bind(session: SessionId, node: NodeId, key: &Key) -> Result<Self> {
        let failed = |error: rustix::io::Errno| {
            Error::new(ErrorCode::System, format!("cannot listen for processes of this machine: {error}"))
        };
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
        bind(&socket, &name(session, node, key).map_err(failed)?).map_err(failed)?;
        listen(&socket, BACKLOG).map_err(failed)?;
        Ok(Self { socket, session, key: key.clone() })
    }

    /// Passes every authenticated connection to `take`, until [`Listener::close`].
    pub fn serve(&self, mut take: impl FnMut(Caller, OwnedFd)) {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let Some(caller) = examine(&socket, self.session, &self.key) else { continue };
                    let Ok(welcome) = socket.try_clone() else { continue };
                    take(caller, socket);
                    // If the client has gone, the owner of the connection reads the end.
                    let _ = send(&welcome, WELCOME, SendFlags::NOSIGNAL);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                // Out of descriptors or memory: retries after a pause.
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                    std::thread::sleep(STEP_TIMEOUT);
                }
                Err(_) => return,
            }
        }
    }

    /// Stops accepting connections.
    pub fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// Connects to the executor of `node`, if it runs on this machine and as this user.
pub fn connect(session: SessionId, node: NodeId, caller: Caller, key: &Key) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
    limit(&socket)?;
    connect_socket(&socket, &name(session, node, key).ok()?).ok()?;
    introduce(&socket, session, caller, key)?;
    Some(socket)
}

/// Authenticates as the client. Returns `None` if the other side fails to prove the key, or does not accept the
/// connection.
pub fn introduce(socket: &OwnedFd, session: SessionId, caller: Caller, key: &Key) -> Option<()> {
    is_own(socket)?;
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce).ok()?;
    let hello = encode(session, caller, &nonce);
    send_message(socket, &hello)?;
    let challenge: [u8; NONCE_LEN + MAC_LEN] = receive_message(socket)?;
    let (theirs, proof) = challenge.split_first_chunk::<NONCE_LEN>()?;
    if !key.proves(&[SERVER, &hello, theirs], proof.first_chunk()?) {
        return None;
    }
    send_message(socket, &key.prove(&[CLIENT, &hello, theirs]))?;
    let welcome: [u8; 1] = receive_message(socket)?;
    (welcome == WELCOME).then_some(())
}

/// Authenticates the client. Returns `None` if it belongs to another user or session, or fails to prove the key.
pub fn examine(socket: &OwnedFd, session: SessionId, key: &Key) -> Option<Caller> {
    limit(socket)?;
    is_own(socket)?;
    let hello: [u8; HELLO_LEN] = receive_message(socket)?;
    let caller = decode(&hello, session)?;
    let mut nonce = [0; NONCE_LEN];
    key::fill_random(&mut nonce).ok()?;
    send_message(socket, &[nonce, key.prove(&[SERVER, &hello, &nonce])].concat())?;
    let proof: [u8; MAC_LEN] = receive_message(socket)?;
    key.proves(&[CLIENT, &hello, &nonce], &proof).then_some(caller)
}

fn name(session: SessionId, node: NodeId, key: &Key) -> rustix::io::Result<SocketAddrUnix> {
    let mac = key.prove(&[NAME, &session.0.to_le_bytes(), &node.0.to_le_bytes()]);
    let digits: String = mac[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    SocketAddrUnix::new_abstract_name(format!("accord-{digits}").as_bytes())
}

fn encode(session: SessionId, caller: Caller, nonce: &[u8; NONCE_LEN]) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = caller.role as u8;
    bytes[16..24].copy_from_slice(&session.0.to_le_bytes());
    bytes[24..28].copy_from_slice(&caller.from.raw().to_le_bytes());
    bytes[32..].copy_from_slice(nonce);
    bytes
}

fn decode(bytes: &[u8; HELLO_LEN], session: SessionId) -> Option<Caller> {
    let role = match bytes[12] {
        1 => Role::Import,
        2 => Role::Export,
        _ => return None,
    };
    let from = PeerId::from_raw(u32::from_le_bytes(*bytes[24..].first_chunk()?));
    // All other bytes must equal those of a hello encoded here.
    let expected = encode(session, Caller { from, role }, bytes.last_chunk()?);
    (*bytes == expected).then_some(Caller { from, role })
}

/// Whether the peer's process runs as this user.
fn is_own(socket: &OwnedFd) -> Option<()> {
    (sockopt::socket_peercred(socket).ok()?.uid == geteuid()).then_some(())
}

fn limit(socket: &OwnedFd) -> Option<()> {
    sockopt::set_socket_timeout(socket, Timeout::Recv, Some(STEP_TIMEOUT)).ok()?;
    sockopt::set_socket_timeout(socket, Timeout::Send, Some(STEP_TIMEOUT)).ok()
}

fn send_message(socket: impl AsFd, message: &[u8]) -> Option<()> {
    let sent = rustix::io::retry_on_intr(|| send(&socket, message, SendFlags::NOSIGNAL)).ok()?;
    (sent == message.len()).then_some(())
}

fn receive_message<const LEN: usize>(socket: &OwnedFd) -> Option<[u8; LEN]> {
    let mut message = [0; LEN];
    // `TRUNC` makes this the whole message's length, even if it exceeds the buffer.
    let (_, len) = rustix::io::retry_on_intr(|| recv(socket, &mut message[..], RecvFlags::TRUNC)).ok()?;
    (len == LEN).then_some(message)
}

#[cfg(test)]
mod tests;

//! Sets up lanes of shared memory. A UNIX socket without a file carries the handshake; then the client sends the memory and a second
//! doorbell. The socket's name follows from the agent's address and is no secret. A process that binds it before the agent gets
//! connections of its own user only, and can't prove a session's key to them.
//!
//! Such names belong to a network namespace, so that hosts simulated by namespaces do not conflict.

use super::lane::{Lane as _, LocalClient, SharedLane};
use super::offered_memory::OFFER;
use super::shared_memory::SharedMemory;
use super::shm::{Shm, Side};
use super::socket::{self, Socket};
use crate::route::{Endpoint, GatewayName};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, sendmsg, socket_with, sockopt,
};
use rustix::process::{Uid, geteuid};
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 64;
const NAME: &[u8] = b"accord agent on this machine";

/// The name at which processes of this machine reach an agent.
#[derive(Clone, Debug)]
pub(super) struct LocalName(SocketAddrUnix);

impl LocalName {
    /// Returns the name of this agent. Clusters on one machine may use the same node numbers, but not the same addresses.
    pub(super) fn new(agent: &Endpoint) -> io::Result<Self> {
        let mut hash = Sha256::new();
        hash.update(NAME);
        hash.update(agent.node.0.to_le_bytes());
        hash.update(agent.as_str());
        let digits: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self(SocketAddrUnix::new_abstract_name(format!("accord-agent-{digits}").as_bytes())?))
    }

    /// Returns the name of a gateway.
    pub(super) fn of_gateway(gateway: &GatewayName) -> io::Result<Self> {
        Ok(Self(SocketAddrUnix::new_abstract_name(format!("accord-gateway-{gateway}").as_bytes())?))
    }

    pub(super) fn listen(&self) -> io::Result<OwnedFd> {
        let socket = new_socket()?;
        bind(&socket, &self.0)?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// Connects if the agent listens and belongs to this user or root.
    pub(super) fn connect(&self) -> io::Result<OwnedFd> {
        let socket = new_socket()?;
        connect(&socket, &self.0)?;
        let agent = peer_user(&socket)?;
        if agent == geteuid() || agent.is_root() { Ok(socket) } else { Err(ErrorKind::PermissionDenied.into()) }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Returns the user of the peer's process, as the kernel reports it.
fn peer_user(socket: &OwnedFd) -> io::Result<Uid> {
    Ok(sockopt::socket_peercred(socket)?.uid)
}

/// Accepts the next connection, from this user's processes only, before its introduction. Root accepts all users: the lane's client is later
/// compared with the session's user.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Socket> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC)?;
    let peer = sockopt::socket_peercred(&socket)?;
    if peer.uid != geteuid() && !geteuid().is_root() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let client = LocalClient { user: peer.uid.as_raw(), process: peer.pid.as_raw_nonzero().get() };
    Ok(socket::of_client(socket, client))
}

/// Returns the client's end for the handshake.
pub(super) fn begin(socket: OwnedFd) -> Socket {
    socket::plain(socket)
}

/// Sends memory and doorbell after the handshake. Returns the client's end.
pub(super) fn offer(socket: Socket) -> io::Result<SharedLane> {
    let memory = SharedMemory::create()?;
    let (doorbell, theirs) = UnixStream::pair()?;
    let descriptors = [theirs.as_fd(), memory.file().as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::io::retry_on_intr(|| sendmsg(socket.as_fd(), &[IoSlice::new(OFFER)], &mut ancillary, SendFlags::NOSIGNAL))?;
    let lane = Shm::new(memory, Side::Client, socket.into_fd(), doorbell.into());
    lane.limit(None)?;
    Ok(Arc::new(lane))
}

/// Returns the reason why this process can have no lane of shared memory, or `None` if it can.
pub(super) fn refusal() -> Option<&'static str> {
    let why = |error: &io::Error, call| match error.raw_os_error() {
        Some(libc::EFBIG) => "same machine, but ulimit -f is below what shared memory takes",
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => call,
        _ => "same machine, but there is no more shared memory",
    };
    let memory = SharedMemory::create().err();
    let memory = memory.map(|error| why(&error, "same machine, but memfd_create is refused"));
    let pair = || UnixStream::pair().err().map(|error| why(&error, "same machine, but socketpair is refused"));
    memory.or_else(pair)
}

/// Receives the client's memory. Returns the lane of the accepted connection, for use in this process.
pub(super) fn share_memory(accepted: Socket) -> io::Result<Arc<Shm>> {
    let (socket, [doorbell, memory]) = accepted.into_offered().ok_or(ErrorKind::NotConnected)?;
    received(socket, doorbell, memory)
}

/// Returns the lane of an end that was handed over.
pub(super) fn received(socket: OwnedFd, doorbell: OwnedFd, memory: OwnedFd) -> io::Result<Arc<Shm>> {
    Ok(Arc::new(Shm::new(SharedMemory::open(memory)?, Side::Server, socket, doorbell)))
}

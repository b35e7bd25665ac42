//! How a lane of shared memory comes about: a UNIX socket without a file carries the handshake; then the client sends the memory
//! and a second doorbell. Its name follows from the agent's place in the cluster and is no secret: who takes it before the agent
//! gets connections of its own user only, and can't prove a session's key to these.
//!
//! Such names belong to a network namespace: hosts that are made of these do not meet.

use super::lane::{Lane, SharedLane, Transport};
use super::remote_memory::{MemoryKind, RemoteMemory};
use super::shared_memory::SharedMemory;
use super::shm::{Shm, Side};
use super::socket::{self, Socket};
use crate::route::{Endpoint, GatewayName};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::process::{Uid, geteuid};
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
const NAME: &[u8] = b"accord agent on this machine";
/// The byte that comes with the memory.
const OFFER: &[u8] = &[1];

/// The name at which processes of a machine reach an agent.
#[derive(Clone, Debug)]
pub(super) struct LocalName(SocketAddrUnix);

impl LocalName {
    /// Returns the name of this agent. Clusters on one machine may have the same numbers of nodes, but no address
    /// twice.
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

    /// Connects, if the agent is there, and is this user's or root's.
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

/// Returns the user of the peer's process, by the system's word.
fn peer_user(socket: &OwnedFd) -> io::Result<Uid> {
    Ok(sockopt::socket_peercred(socket)?.uid)
}

/// The next process that connects, if it is this user's; it may not introduce itself else. Root takes everybody's: a session's user is
/// compared with [`Lane::peer_user`] then.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Accepted> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC)?;
    let peer = sockopt::socket_peercred(&socket)?;
    if peer.uid != geteuid() && !geteuid().is_root() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let process = peer.pid.as_raw_nonzero().get();
    Ok(Accepted { socket: socket::plain(socket), user: peer.uid, process, offered: OnceLock::new() })
}

/// The client's end, for the handshake.
pub(super) fn begin(socket: OwnedFd) -> Socket {
    socket::plain(socket)
}

/// The client's end, after the handshake.
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

/// Returns the reason why this process can have no lane of shared memory; `None` if it can.
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

/// The server's end, before it is handed over, and the memory in it.
#[derive(Debug)]
pub(super) struct Accepted {
    socket: Socket,
    /// Whose process has connected.
    user: Uid,
    /// Number of that process.
    process: i32,
    /// The second doorbell and the memory.
    offered: OnceLock<[OwnedFd; 2]>,
}

impl Accepted {
    /// The lane, for this process itself; once the memory has come.
    pub(super) fn into_lane(self) -> io::Result<Arc<Shm>> {
        let [doorbell, memory] = self.offered.into_inner().ok_or(ErrorKind::NotConnected)?;
        received(self.socket.into_fd(), doorbell, memory)
    }
}

/// The lane of an end that was handed over.
pub(super) fn received(socket: OwnedFd, doorbell: OwnedFd, memory: OwnedFd) -> io::Result<Arc<Shm>> {
    Ok(Arc::new(Shm::new(SharedMemory::open(memory)?, Side::Server, socket, doorbell)))
}

impl Lane for Accepted {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.read(bytes)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.try_read(bytes)
    }

    fn is_readable(&self) -> bool {
        self.socket.is_readable()
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write(parts)
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.try_write(parts)
    }

    fn moves_in_place(&self) -> bool {
        false
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn finish(&self) -> io::Result<()> {
        self.socket.finish()
    }

    fn shutdown(&self) {
        self.socket.shutdown();
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket.limit(time)
    }

    /// Takes the memory, within the time of the limit.
    fn introduced(&self, _unread_max: Option<Duration>) -> io::Result<()> {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let came = rustix::io::retry_on_intr(|| {
            recvmsg(self.socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        if came.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE.into());
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let offered = <[OwnedFd; 2]>::try_from(descriptors).ok().filter(|_| came.bytes == OFFER.len() && byte == OFFER);
        let offered =
            offered.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no shared memory came with the lane"))?;
        let _ = self.offered.set(offered);
        self.socket.limit(None)
    }

    fn leaves_machine(&self) -> bool {
        false
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }

    fn peer_user(&self) -> Option<u32> {
        Some(self.user.as_raw())
    }

    fn peer_process(&self) -> Option<i32> {
        Some(self.process)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let offered = self.offered.get().into_iter().flatten().map(AsFd::as_fd);
        std::iter::once(self.socket.as_fd()).chain(offered).collect()
    }
}

//! Lanes that are a socket of the system: TCP connections, and what carries the handshake of shared memory.

use super::address::{PeerAddress, is_loopback};
use super::lane::{Lane, SharedLane, Transport};
use super::retransmit;
use accord_types::short_lock::assert_none_held;
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Silence before the first keep-alive probe, and between probes.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Unanswered probes that end a silent connection. A link that is cut for 2 s must not.
const KEEP_ALIVE_PROBES: u32 = 5;
/// How long sent bytes may stay unacknowledged during handshakes. After a cut of 2 s TCP's next try comes after 3 s at most.
///
/// It also ends connections whose peer is well but does not read, so each lane has its own afterwards, and lanes to programs do
/// without. There are several of them, and one that is silent at the time finds a dead host by its probes.
const USER_TIMEOUT: Duration = Duration::from_secs(6);

/// Silence of a host after which a connection of [`find_dead_host_soon`] ends. A little less than the second of two probes takes.
const HOST_SILENT: Duration = Duration::from_millis(1_800);

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    /// Of TCP, and tuned as such.
    tcp: bool,
}

/// A lane over a TCP connection that somebody else has made. It has no delay and keep-alive then: a dead host is found within
/// about 6 s. What is lost is sent again within a second, where Linux can be told so (6.15 on).
///
/// # Errors
/// If the socket is none of TCP, or the system refuses.
pub fn adopt(connection: OwnedFd) -> io::Result<SharedLane> {
    let socket = SockRef::from(&connection);
    socket.set_tcp_nodelay(true)?;
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE).with_retries(KEEP_ALIVE_PROBES);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    // Better with it, but as good as ever without.
    let _ = retransmit::at_least_once_a_second(&connection);
    Ok(Arc::new(Socket { fd: connection, tcp: true }))
}

/// Has a connection end 2 s after its peer's machine, or the way there, has gone silent. A process that stands still is not silent: its
/// machine's system answers. For connections that are easily made anew.
///
/// # Errors
/// If the socket is none of TCP, or the system refuses.
pub fn find_dead_host_soon(connection: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(connection);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(HOST_SILENT))
}

/// What to do about a server that can't be reached.
pub(super) const UNREACHED: &str = "check that it runs and that the address is right";

/// Connects to the first address of `to` that answers. `server` is who should be there, for messages.
pub(crate) fn connect(to: &PeerAddress, server: &str, remedy: &'static str, timeout: Duration) -> Result<SharedLane> {
    let end = Instant::now() + timeout;
    let mut last = None;
    for addr in to.resolve(server, remedy)? {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&addr, left).and_then(|stream| adopt(stream.into())) {
            Ok(lane) => return Ok(lane),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| ErrorKind::NotFound.into());
    Err(Error::new(ErrorCode::DeviceUnavailable, format!("cannot connect to the {server} at {to}: {error}"))
        .remedy(scarce::remedy(&error).unwrap_or(UNREACHED)))
}

/// Two ends of one lane, over this machine's TCP.
///
/// # Errors
/// If the system refuses.
pub fn pair() -> io::Result<(SharedLane, SharedLane)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    Ok((adopt(near.into())?, adopt(far.into())?))
}

/// A lane whose descriptor has come from another process, which has adopted it before.
pub(super) fn received(fd: OwnedFd) -> SharedLane {
    Arc::new(Socket { fd, tcp: true })
}

/// A lane over a stream socket that is none of TCP.
pub(super) fn plain(fd: OwnedFd) -> Socket {
    Socket { fd, tcp: false }
}

impl Socket {
    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    fn write_with(&self, parts: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
        Ok(match parts {
            [part] => send(&self.fd, part, flags)?,
            _ => sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), flags)?,
        })
    }
}

impl Lane for Socket {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        assert_none_held();
        Ok(recv(&self.fd, bytes, RecvFlags::empty())?.1)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.fd, bytes, RecvFlags::DONTWAIT)?.1)
    }

    fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        assert_none_held();
        while !bytes.is_empty() {
            match recv(&self.fd, &mut *bytes, RecvFlags::WAITALL) {
                Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((_, n)) => bytes = &mut bytes[n..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn is_readable(&self) -> bool {
        let looked = recv(&self.fd, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        !matches!(looked, Err(Errno::AGAIN | Errno::INTR))
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        assert_none_held();
        self.write_with(parts, SendFlags::NOSIGNAL)
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(parts, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn finish(&self) -> io::Result<()> {
        Ok(shutdown(&self.fd, Shutdown::Write)?)
    }

    fn shutdown(&self) {
        // It is over already if this fails.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        set_socket_timeout(&self.fd, Timeout::Recv, time)?;
        Ok(set_socket_timeout(&self.fd, Timeout::Send, time)?)
    }

    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()> {
        if self.tcp {
            // With a time-out the system gives up by nothing else, be it probes that nobody answers. Where lost bytes are sent again each second it
            // needs none: it tries 15 times, and who is well answers.
            let waits =
                unread_max.filter(|max| *max <= USER_TIMEOUT || !retransmit::is_at_least_once_a_second(&self.fd));
            SockRef::from(&self.fd).set_tcp_user_timeout(waits)?;
        }
        self.limit(None)
    }

    fn transport(&self) -> Transport {
        if self.tcp { Transport::Tcp } else { Transport::Shm }
    }

    fn leaves_machine(&self) -> bool {
        let peer = || SockRef::from(&self.fd).peer_addr().ok()?.as_socket();
        self.tcp && !peer().is_some_and(|peer| is_loopback(peer.ip()))
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.fd.as_fd()]
    }
}

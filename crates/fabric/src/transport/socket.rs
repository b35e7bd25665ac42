//! Lanes over a socket: TCP connections, and the UNIX sockets that carry the handshake of shared memory.

use super::address::{PeerAddress, is_loopback};
use super::lane::{Lane, LaneDescriptors, LaneProperties, LocalClient, SharedLane, Transport};
use super::offered_memory::OfferedMemory;
use super::remote_memory::{MemoryKind, RemoteMemory};
use super::retransmit;
use accord_types::short_lock::assert_none_held;
use accord_types::signal::SharedSpinPolicy;
use accord_types::spin_policy::SpinPolicy;
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Silence before the first keep-alive probe, and between probes.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Unanswered probes that end a silent connection. A link must survive an outage of 2 s.
const KEEP_ALIVE_PROBES: u32 = 5;
/// The time for which sent bytes may stay unacknowledged during handshakes. After an outage of 2 s TCP retransmits within
/// 3 s.
///
/// The limit also ends connections whose peer is alive but does not read. So each lane gets its own limit after the
/// handshake, and lanes to programs have none. A session has several lanes, and a silent one notices a dead host by its
/// probes.
const USER_TIMEOUT: Duration = Duration::from_secs(6);

/// Silence of a host that ends a connection of [`find_dead_host_soon`]. Slightly less than two probes take.
const HOST_SILENT: Duration = Duration::from_millis(1_800);

/// Silence before the first keep-alive probe of a connection with a waiting request, see [`probe_seldom`]. A probe and its
/// answer have 132 bytes, so that both ends together send less than 100 a minute.
const SELDOM: Duration = Duration::from_secs(180);
/// Time between unanswered probes of such a connection.
const SELDOM_AGAIN: Duration = Duration::from_secs(15);

/// Shortest and longest silence before a keep-alive probe that the system accepts, for [`find_dead_host`].
const PROBE_MIN: Duration = Duration::from_secs(1);
const PROBE_MAX: Duration = Duration::from_secs(32_767);
/// Longest time-out that is set: the system counts milliseconds in 31 bits.
const USER_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    kind: Kind,
    /// The spin policy of reads, if [`Lane::spin_long`] has set one.
    spin: OnceLock<SharedSpinPolicy>,
}

/// The use of a [`Socket`].
#[derive(Debug)]
enum Kind {
    /// TCP, with TCP's options set.
    Tcp { leaves_machine: bool },
    /// A UNIX socket for a handshake, or the client's end of one over which it sends memory.
    Unix,
    /// The accepted end of a UNIX socket whose client sends memory after the handshake.
    OffersMemory(OfferedMemory),
}

/// Creates a lane from a connected TCP socket. Sets no-delay and keep-alive, so that a dead host is noticed within about 6
/// s, and retransmission within a second on Linux 6.15 or later.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP, or an option is refused.
pub fn adopt(connection: OwnedFd) -> io::Result<SharedLane> {
    let socket = SockRef::from(&connection);
    socket.set_tcp_nodelay(true)?;
    probe_often(&connection)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    // An improvement that older systems lack.
    let _ = retransmit::at_least_once_a_second(&connection);
    Ok(Arc::new(Socket::tcp(connection)))
}

/// Makes a connection notice within about 6 s that its peer's machine is gone.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP, or an option is refused.
pub(crate) fn probe_often(connection: &impl AsFd) -> io::Result<()> {
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    SockRef::from(connection).set_tcp_keepalive(&keep_alive.with_retries(KEEP_ALIVE_PROBES))
}

/// Makes a connection almost free of traffic while a request waits on it. The connection ends only after minutes of silence
/// of its peer's machine; the coordinator keeps the request's place for as long.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP, or an option is refused.
pub fn probe_seldom(connection: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(connection);
    let keep_alive = TcpKeepalive::new().with_time(SELDOM).with_interval(SELDOM_AGAIN);
    socket.set_tcp_keepalive(&keep_alive.with_retries(KEEP_ALIVE_PROBES))?;
    // With a user time-out the first unanswered probe would end the connection.
    socket.set_tcp_user_timeout(None)
}

/// Makes a connection end 2 s after its peer's machine, or the path to it, has gone silent. A stopped process does not
/// count as silent, because its machine's system answers. For connections that are easily restored.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP, or an option is refused.
pub fn find_dead_host_soon(connection: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(connection);
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    socket.set_tcp_keepalive(&keep_alive)?;
    socket.set_tcp_user_timeout(Some(HOST_SILENT))
}

/// Makes a connection end once its peer's machine, or the path to it, has been silent for `after`, whether or not bytes
/// are in flight. A stopped process does not count as silent while its machine's buffers accept the sent bytes.
///
/// # Errors
/// Returns the system's error if the socket does not use TCP, or an option is refused.
pub fn find_dead_host(connection: &impl AsFd, after: Duration) -> io::Result<()> {
    let time = (after / 3).clamp(PROBE_MIN, PROBE_MAX);
    let interval = (after / 6).clamp(PROBE_MIN, PROBE_MAX);
    let socket = SockRef::from(connection);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(time).with_interval(interval))?;
    // With a user time-out only its end counts, not the number of probes.
    socket.set_tcp_user_timeout(Some(after.min(USER_TIMEOUT_MAX)))
}

/// The remedy for a server that can't be reached.
pub(super) const UNREACHED: &str = "check that it runs and that the address is right";

/// Connects to the first address of `to` that answers. `server` names the peer in messages.
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

/// Creates the two ends of a lane over the loopback's TCP.
///
/// # Errors
/// Returns the system's error if the connection can't be made.
pub fn pair() -> io::Result<(SharedLane, SharedLane)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    Ok((adopt(near.into())?, adopt(far.into())?))
}

/// Creates the two ends of a lane over a UNIX socket, which also carries descriptors.
///
/// # Errors
/// Returns the system's error if it has no socket.
pub fn local_pair() -> io::Result<(SharedLane, SharedLane)> {
    let (near, far) = UnixStream::pair()?;
    Ok((Arc::new(plain(near.into())), Arc::new(plain(far.into()))))
}

/// Creates a lane from a socket received from another process, which has set its options.
pub(super) fn received(fd: OwnedFd) -> SharedLane {
    let is_local = SockRef::from(&fd).local_addr().is_ok_and(|address| address.is_unix());
    Arc::new(if is_local { plain(fd) } else { Socket::tcp(fd) })
}

/// Creates a lane from a stream socket that does not use TCP.
pub(crate) fn plain(fd: OwnedFd) -> Socket {
    Socket::new(fd, Kind::Unix)
}

/// Creates a lane from an accepted UNIX socket, whose client sends memory after the handshake.
pub(super) fn of_client(fd: OwnedFd, client: LocalClient) -> Socket {
    Socket::new(fd, Kind::OffersMemory(OfferedMemory::new(client)))
}

impl Socket {
    fn new(fd: OwnedFd, kind: Kind) -> Self {
        Self { fd, kind, spin: OnceLock::new() }
    }

    fn tcp(fd: OwnedFd) -> Self {
        let peer = SockRef::from(&fd).peer_addr().ok().and_then(|peer| peer.as_socket());
        let leaves_machine = !peer.is_some_and(|peer| is_loopback(peer.ip()));
        Self::new(fd, Kind::Tcp { leaves_machine })
    }

    /// Spins until the first of `wanted` bytes, or the end, before a read blocks: waking a thread takes longer than a round
    /// trip. Returns at once unless [`Lane::spin_long`] has set a policy.
    ///
    /// # Errors
    /// Returns `WouldBlock` if the read's limit passes first. The read itself reports all other errors.
    fn await_first(&self, wanted: usize) -> io::Result<()> {
        let Some(spin) = self.spin.get().filter(|_| wanted > 0) else { return Ok(()) };
        let start = Instant::now();
        if !spin.spin_until(|| self.is_readable())
            && recv(&self.fd, &mut [0u8; 1], RecvFlags::PEEK) == Err(Errno::AGAIN)
        {
            return Err(ErrorKind::WouldBlock.into());
        }
        spin.waited(start);
        Ok(())
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Returns the socket, and the second doorbell and the memory if its client has sent them.
    pub(super) fn into_offered(self) -> Option<(OwnedFd, [OwnedFd; 2])> {
        match self.kind {
            Kind::OffersMemory(offered) => Some((self.fd, offered.into_received()?)),
            Kind::Tcp { .. } | Kind::Unix => None,
        }
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
        self.await_first(bytes.len())?;
        Ok(recv(&self.fd, bytes, RecvFlags::empty())?.1)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.fd, bytes, RecvFlags::DONTWAIT)?.1)
    }

    fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        assert_none_held();
        self.await_first(bytes.len())?;
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

    fn spin_long(&self) {
        if let Some(policy) = SpinPolicy::where_cores_abound() {
            let _ = self.spin.set(policy.into());
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        assert_none_held();
        self.write_with(parts, SendFlags::NOSIGNAL)
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_with(parts, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn moves_in_place(&self) -> bool {
        false
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn finish(&self) -> io::Result<()> {
        Ok(shutdown(&self.fd, Shutdown::Write)?)
    }

    fn shutdown(&self) {
        // A failure means that the socket is closed already.
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        set_socket_timeout(&self.fd, Timeout::Recv, time)?;
        Ok(set_socket_timeout(&self.fd, Timeout::Send, time)?)
    }

    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp { .. } => {
                // With a user time-out the system gives up only by that, not by unanswered probes. A socket that retransmits each second
                // needs none: the system retries 15 times, and a live peer answers.
                let waits =
                    unread_max.filter(|max| *max <= USER_TIMEOUT || !retransmit::is_at_least_once_a_second(&self.fd));
                SockRef::from(&self.fd).set_tcp_user_timeout(waits)?;
            }
            Kind::OffersMemory(offered) => offered.receive(&self.fd)?,
            Kind::Unix => {}
        }
        self.limit(None)
    }

    fn properties(&self) -> LaneProperties {
        match &self.kind {
            Kind::Tcp { leaves_machine } => LaneProperties::new(Transport::Tcp, *leaves_machine),
            Kind::Unix => LaneProperties::new(Transport::Shm, false),
            Kind::OffersMemory(offered) => {
                LaneProperties { client: Some(offered.client()), ..LaneProperties::new(Transport::Shm, false) }
            }
        }
    }

    fn descriptors(&self) -> LaneDescriptors<'_> {
        let offered = match &self.kind {
            Kind::OffersMemory(offered) => Some(offered.descriptors()),
            Kind::Tcp { .. } | Kind::Unix => None,
        };
        let handed_over = std::iter::once(self.fd.as_fd()).chain(offered.into_iter().flatten()).collect();
        let is_local = !matches!(self.kind, Kind::Tcp { .. });
        LaneDescriptors { handed_over, sockets: is_local.then(|| [self.fd.as_fd(); 2]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Returns two ends, of which the first spins even with few cores.
    fn long_spin_pair() -> (Socket, Socket) {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = (plain(near.into()), plain(far.into()));
        near.spin.set(SpinPolicy::new(8).into()).unwrap();
        (near, far)
    }

    #[test]
    fn a_spinning_read_returns_early_and_late_bytes() {
        let (near, far) = long_spin_pair();
        let answers = thread::spawn(move || {
            let mut message = [0; 4];
            for round in 0..2_000_u32 {
                // Occasionally so late that the reader blocks.
                if round % 500 == 499 {
                    thread::sleep(Duration::from_millis(5));
                }
                (&far as &dyn Lane).send(&round.to_le_bytes()).unwrap();
                far.read_exact(&mut message).unwrap();
                assert_eq!(u32::from_le_bytes(message), round);
            }
            far
        });
        let mut message = [0; 4];
        for round in 0..2_000_u32 {
            if round % 2 == 0 {
                near.read_exact(&mut message).unwrap();
            } else {
                assert_eq!(near.read(&mut message).unwrap(), 4);
            }
            assert_eq!(u32::from_le_bytes(message), round);
            (&near as &dyn Lane).send(&message).unwrap();
        }
        drop(answers.join().unwrap());
        assert_eq!(near.read(&mut message).unwrap(), 0, "the end");
        assert_eq!(near.read_exact(&mut message).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_spinning_read_keeps_its_limit_and_returns_at_once_for_no_bytes() {
        let (near, _far) = long_spin_pair();
        near.read_exact(&mut []).unwrap();
        near.limit(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(near.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(near.try_read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

//! The interface of all transports.

use super::descriptors;
use super::remote_memory::{MemoryKind, RemoteMemory, Source};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The transport of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Buffers within a process.
    Inproc,
    /// Memory that two processes of one machine share.
    Shm,
    /// A TCP connection.
    Tcp,
    /// A TCP connection with TLS.
    Tls,
    /// Messages between the agents of a job, over MPI.
    Mpi,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inproc => "inproc",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Mpi => "mpi",
        })
    }
}

/// Properties of a lane that do not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneProperties {
    /// The transport.
    pub transport: Transport,
    /// Whether the bytes go to another machine, or might.
    pub leaves_machine: bool,
    /// The connected process, if the kernel attests it: only on this machine.
    pub client: Option<LocalClient>,
    /// Number of polls between two yields of a waiter's core, chosen so that both take about as long.
    pub polls_per_yield: u32,
}

impl LaneProperties {
    /// Creates the properties of a lane whose polls take as long as a yield, and whose client is not attested.
    pub(super) fn new(transport: Transport, leaves_machine: bool) -> Self {
        Self { transport, leaves_machine, client: None, polls_per_yield: 1 }
    }
}

/// A connected process of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalClient {
    /// The number of its user.
    pub user: u32,
    /// The number of the process.
    pub process: i32,
}

/// One connection of a link, for one purpose: an ordered stream of bytes in each direction.
///
/// Bytes arrive once and in order, or the lane fails. At most one thread reads at a time, and at most one writes; both may do so at once.
/// Any thread may call [`Lane::shutdown`] and [`Lane::is_readable`] at any time.
pub trait Lane: fmt::Debug + Send + Sync {
    /// Blocks until bytes have arrived, and reads at least one of them. Returns 0 at the end: the peer has finished or gone.
    ///
    /// # Errors
    /// Returns an error if the lane fails, and [`ErrorKind::WouldBlock`] after the time of [`Lane::limit`].
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Reads as [`Lane::read`], without blocking.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`], and [`ErrorKind::WouldBlock`] if no byte has arrived.
    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Fills all of `bytes`.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`], and [`ErrorKind::UnexpectedEof`] if the lane ends first.
    fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read(bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => bytes = &mut bytes[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether [`Lane::read`] would not block, because bytes or the end have arrived. On a lane of records a part of one suffices, for which
    /// [`Lane::try_read`] may return no byte yet.
    fn is_readable(&self) -> bool;

    /// Marks the lane as one that is read on the program's behalf. Its reader spins longer before it blocks, if there are
    /// enough cores and a poll is no system call. See [`accord_types::spin_policy::SpinPolicy::long_spin`].
    fn spin_long(&self);

    /// Blocks until there is space, and writes as much of `parts`, in their order, as fits, at least a byte. Never raises a signal, which the
    /// program may not ignore.
    ///
    /// # Errors
    /// Returns an error if the lane fails, and [`ErrorKind::WouldBlock`] after the time of [`Lane::limit`]. The next write
    /// must then begin with the same bytes, because some of them may be in flight.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes as [`Lane::write`], without blocking.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`], and [`ErrorKind::WouldBlock`] if there is no space.
    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether this lane, or a later one on the bytes' way, moves long runs of bytes directly from the sender's memory. The
    /// sender should then send them at once, by `send_in_place`.
    fn moves_in_place(&self) -> bool;

    /// Returns the capability to move bytes between memory of this kind at both ends. It does not change during the lane's life.
    fn remote_memory(&self, kind: MemoryKind) -> Option<&dyn RemoteMemory>;

    /// Ends writing. Bytes written before still arrive.
    ///
    /// # Errors
    /// Returns an error if the lane has failed.
    fn finish(&self) -> io::Result<()>;

    /// Ends both directions, from any thread. Blocked reads and writes return here, and blocked reads at the peer. The peer's
    /// writes may stay blocked until the lane is dropped here, because TCP reports the end only then if it can't buffer their
    /// bytes.
    fn shutdown(&self);

    /// Limits the time that reads and writes block. `None` removes the limit.
    ///
    /// # Errors
    /// Returns an error if the time is 0 or the system refuses.
    fn limit(&self, time: Option<Duration>) -> io::Result<()>;

    /// Marks the handshake as over. From now on the peer counts as dead once sent bytes stay unread for `unread_max`, see
    /// [`crate::handshake::Purpose::unread_max`].
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()>;

    /// Returns the lane's properties.
    fn properties(&self) -> LaneProperties;

    /// Returns the lane's descriptors.
    #[doc(hidden)]
    fn descriptors(&self) -> LaneDescriptors<'_>;
}

/// A lane's descriptors.
#[derive(Default)]
pub struct LaneDescriptors<'a> {
    /// The descriptors of [`super::Handover`]. Empty if the lane can't leave this process.
    pub handed_over: Vec<BorrowedFd<'a>>,
    /// The sockets over which descriptors pass to the peer, a process of this machine, and come from it.
    pub(super) sockets: Option<[BorrowedFd<'a>; 2]>,
}

impl LaneDescriptors<'_> {
    /// Whether the lane carries descriptors.
    pub fn can_pass(&self) -> bool {
        self.sockets.is_some()
    }

    /// Sends up to [`super::DESCRIPTORS_MAX`] descriptors to the peer, without blocking. The peer receives them as soon as it has read the bytes
    /// that were written before.
    ///
    /// # Errors
    /// Returns the system's error, and `Unsupported` if the lane carries bytes only.
    pub fn send(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let [to, _] = self.sockets.ok_or(ErrorKind::Unsupported)?;
        descriptors::send(to, descriptors)
    }

    /// Blocks until the next descriptors have arrived.
    ///
    /// # Errors
    /// Returns the system's error, `UnexpectedEof` once the peer has gone, and `Unsupported` if the lane carries bytes only.
    pub fn receive(&self) -> io::Result<Vec<OwnedFd>> {
        let [_, from] = self.sockets.ok_or(ErrorKind::Unsupported)?;
        descriptors::receive(from)
    }
}

/// A shared lane.
pub type SharedLane = Arc<dyn Lane>;

impl dyn Lane + '_ {
    /// Returns the transport.
    pub fn transport(&self) -> Transport {
        self.properties().transport
    }

    /// Writes all of `parts`.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`].
    pub fn write_all(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match self.write(parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut parts, n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes contiguous bytes as [`Lane::write_all`].
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(&mut [IoSlice::new(bytes)])
    }

    /// Writes all of `bytes`, directly from the caller's memory if the lane supports it. Returns when the memory may be reused.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`].
    pub fn send_in_place(&self, bytes: &[u8]) -> io::Result<()> {
        match self.remote_memory(MemoryKind::Host) {
            Some(memory) => memory.send(Source::Host(bytes)),
            None => self.send(bytes),
        }
    }

    /// Reads to the lane's end and appends to `to`.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`].
    pub fn read_to_end(&self, to: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = [0; 4096];
        loop {
            match self.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(n) => to.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

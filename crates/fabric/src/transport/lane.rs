//! What all transports have in common.

use super::remote_memory::{MemoryKind, RemoteMemory, Source};
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
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
    /// A TCP connection whose bytes no third party can read or change.
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
    /// Whether its bytes go to another machine, or might.
    pub leaves_machine: bool,
    /// The process that has connected, where the kernel attests it: on this machine.
    pub client: Option<LocalClient>,
    /// Number of polls after which a waiter yields its core once: as many as take about as long as a yield.
    pub polls_per_yield: u32,
}

impl LaneProperties {
    /// Creates the properties of a lane whose polls take as long as a yield, and whose client is not attested.
    pub(super) fn new(transport: Transport, leaves_machine: bool) -> Self {
        Self { transport, leaves_machine, client: None, polls_per_yield: 1 }
    }
}

/// A process of this machine that has connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalClient {
    /// The number of its user.
    pub user: u32,
    /// The number of the process.
    pub process: i32,
}

/// One connection of a link, for one purpose: an ordered stream of bytes in each direction.
///
/// Bytes arrive in order and once, or the lane fails; none is lost in between. At most one thread reads at a time, and at most
/// one writes; both may do so at once. [`Lane::shutdown`] and [`Lane::is_readable`] may come from any thread at any time.
pub trait Lane: fmt::Debug + Send + Sync {
    /// Reads what is there, at least a byte, and waits for that. 0 at the end: the other side has finished or gone.
    ///
    /// # Errors
    /// Returns an error if the lane fails. [`ErrorKind::WouldBlock`] after the time of [`Lane::limit`].
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Reads as [`Lane::read`], without waiting.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`]; [`ErrorKind::WouldBlock`] if nothing is there.
    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Fills all of `bytes`.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::read`]; [`ErrorKind::UnexpectedEof`] if the lane ends before.
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

    /// Whether [`Lane::read`] would not wait: there is something to read, be it the end. Where the peer's bytes come in records, also when
    /// the beginning of one is there; then [`Lane::try_read`] may find nothing yet.
    fn is_readable(&self) -> bool;

    /// Marks the lane as one that is read on the program's behalf: its reader spins longer before it blocks, where
    /// there are cores enough and a poll is no system call. See [`accord_types::spin_policy::SpinPolicy::patient`].
    fn spin_long(&self);

    /// Writes as much of `parts`, in their order, as there is room for, at least a byte, and waits for that. Never raises a signal:
    /// a program may not have it ignored.
    ///
    /// # Errors
    /// Returns an error if the lane fails. [`ErrorKind::WouldBlock`] after the time of [`Lane::limit`]: what is written
    /// next has to begin with the same bytes, as some of them may be on their way.
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes as [`Lane::write`], without waiting.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`]; [`ErrorKind::WouldBlock`] if there is no room.
    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether the lane moves long runs of bytes from where they are, here or at a later lane on their way. Then they
    /// are best sent at once, by `send_in_place`.
    fn moves_in_place(&self) -> bool;

    /// Returns the capability to move bytes between memory of this kind at both ends. A lane that has it keeps it.
    fn remote_memory(&self, kind: MemoryKind) -> Option<&dyn RemoteMemory>;

    /// Ends writing. What was written arrives.
    ///
    /// # Errors
    /// Returns an error if the lane has failed.
    fn finish(&self) -> io::Result<()>;

    /// Ends both directions, from any thread: blocked reads and writes return here, and blocked reads on the other
    /// side. The other side's writes end when the lane is dropped here: TCP does not tell them before, if their bytes
    /// have no room.
    fn shutdown(&self);

    /// Limits the waits of reads and writes; `None`: for ever.
    ///
    /// # Errors
    /// Returns an error if the system refuses; a time of 0 is refused.
    fn limit(&self, time: Option<Duration>) -> io::Result<()>;

    /// The handshake is over. What was sent may stand unread for `unread_max`, see [`crate::handshake::Purpose::unread_max`]; after that the peer is
    /// dead.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()>;

    /// Returns the lane's properties.
    fn properties(&self) -> LaneProperties;

    /// Returns the lane's descriptors for [`super::Handover`]; `None` if it can only be this process's.
    #[doc(hidden)]
    fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>>;
}

/// A lane that several hold.
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

    /// Writes all of `bytes`, from where they are if the lane can move them so. Returns when they may be reused.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`].
    pub fn send_in_place(&self, bytes: &[u8]) -> io::Result<()> {
        match self.remote_memory(MemoryKind::Host) {
            Some(memory) => memory.send(Source::Host(bytes)),
            None => self.send(bytes),
        }
    }

    /// Appends all that comes until the lane's end.
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

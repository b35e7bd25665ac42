//! Lanes through memory that two processes of one machine share.
//!
//! Each direction has a ring of bytes and a doorbell, which is a socket. A waiter spins, sets its sleep flag in the
//! ring, and blocks on the doorbell. The other side writes a byte to the doorbell only if the flag is set. The system
//! closes the doorbells of a process that dies, which wakes the other side. Both sides keep private copies of their
//! positions, and trust no value in the ring.

mod inline_write;
mod windows;

use super::lane::{Lane, LaneDescriptors, LaneProperties, SharedLane, Transport};
use super::remote_memory::{MemoryKind, RemoteMemory};
use super::shared_memory::{HeaderWord, Ring, SPACE, SharedMemory};
use accord_types::spin_policy::{POLLS_PER_YIELD, SpinPolicy};
use accord_types::turn_lock::TurnLock;
use inline_write::INLINE_MAX;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

/// Bytes that are copied before they are published, so that both sides copy concurrently.
const STEP: usize = 64 << 10;
/// Free bytes from which on a blocked writer is woken.
const WAKE_SPACE: usize = SPACE / 4;

/// The end of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

/// One end of a lane.
#[derive(Debug)]
pub(super) struct Shm {
    memory: SharedMemory,
    side: Side,
    incoming: Ring,
    outgoing: Ring,
    /// The doorbells of the two rings.
    in_doorbell: OwnedFd,
    out_doorbell: OwnedFd,
    reader: TurnLock<Position>,
    writer: TurnLock<Position>,
    /// Set once this side has shut the lane down.
    closed: AtomicBool,
}

#[derive(Debug)]
struct Position {
    /// Bytes read or written so far.
    at: u64,
    /// For a writer: the reader's position when last loaded. Its cache line belongs to another core, and loading it takes
    /// about as long as the rest of a small write.
    read: u64,
    spin: SpinPolicy,
    /// Set once the doorbell shows that the other side has gone.
    alone: bool,
    /// When a thread that does not block has last checked the doorbell.
    asked: Option<Instant>,
}

impl Shm {
    /// Creates an end with the doorbells `to_server` and `to_client`.
    pub(super) fn new(memory: SharedMemory, side: Side, to_server: OwnedFd, to_client: OwnedFd) -> Self {
        let position =
            || TurnLock::new(Position { at: 0, read: 0, spin: SpinPolicy::default(), alone: false, asked: None });
        let (incoming, outgoing, in_doorbell, out_doorbell) = match side {
            Side::Client => (Ring::ToClient, Ring::ToServer, to_client, to_server),
            Side::Server => (Ring::ToServer, Ring::ToClient, to_server, to_client),
        };
        let (reader, writer) = (position(), position());
        Self {
            memory,
            side,
            incoming,
            outgoing,
            in_doorbell,
            out_doorbell,
            reader,
            writer,
            closed: AtomicBool::new(false),
        }
    }

    fn is(&self, ring: Ring, word: HeaderWord) -> bool {
        self.memory.word(ring, word).load(Ordering::Acquire) != 0
    }

    fn set(&self, ring: Ring, word: HeaderWord, value: u64) {
        self.memory.word(ring, word).store(value, Ordering::SeqCst);
    }

    /// Returns the number of bytes to read.
    fn available(&self, at: u64) -> io::Result<usize> {
        let written = self.memory.word(self.incoming, HeaderWord::Written).load(Ordering::Acquire);
        check_ring_distance(written.wrapping_sub(at))
    }

    /// Returns the number of bytes that may be written.
    fn space(&self, at: u64) -> io::Result<usize> {
        let read = self.memory.word(self.outgoing, HeaderWord::Read).load(Ordering::Acquire);
        Ok(SPACE - check_ring_distance(at.wrapping_sub(read))?)
    }

    /// Returns `wanted`, or the number of bytes that may be written if that is less. Loads the reader's position only if the
    /// last loaded one does not suffice.
    fn space_for(&self, writer: &mut Position, wanted: usize) -> io::Result<usize> {
        let known = SPACE - check_ring_distance(writer.at.wrapping_sub(writer.read))?;
        if known >= wanted {
            return Ok(wanted);
        }
        let space = self.space(writer.at)?;
        writer.read = writer.at.wrapping_sub((SPACE - space) as u64);
        Ok(space.min(wanted))
    }

    /// Reads the available bytes. Returns 0 at the end of the stream, and `None` if more may follow.
    fn take(&self, reader: &mut Position, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(Some(0));
        }
        // Checked before the bytes, so that all bytes written before the end are read.
        let over = reader.alone || self.is(self.incoming, HeaderWord::Finished);
        let available = self.available(reader.at)?;
        let n = available.min(bytes.len()).min(STEP);
        if n == 0 {
            return Ok(over.then_some(0));
        }
        let end = reader.at.wrapping_add(n as u64);
        let is_displayed = n == available
            && n <= INLINE_MAX
            && inline_write::read_inline(self.memory.inline(self.incoming), end, &mut bytes[..n]);
        if !is_displayed {
            self.memory.take(self.incoming, reader.at, &mut bytes[..n]);
        }
        self.has_read(reader, n)?;
        Ok(Some(n))
    }

    /// Advances the reader's position, and wakes a blocked writer.
    fn has_read(&self, reader: &mut Position, n: usize) -> io::Result<()> {
        reader.at = reader.at.wrapping_add(n as u64);
        self.memory.word(self.incoming, HeaderWord::Read).store(reader.at, Ordering::Release);
        // The writer checks for free bytes after it has set its sleep flag.
        fence(Ordering::SeqCst);
        if self.is(self.incoming, HeaderWord::WriterSleeps) && SPACE - self.available(reader.at)? >= WAKE_SPACE {
            self.ring(self.incoming, HeaderWord::WriterSleeps, &self.in_doorbell);
        }
        Ok(())
    }

    /// Writes as much as fits. Returns `None` if the ring is full.
    fn put(&self, writer: &mut Position, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.check_read(writer)?;
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().min(STEP);
        let space = self.space_for(writer, wanted)?;
        let mut written = 0;
        for part in parts {
            let n = part.len().min(space - written);
            self.memory.put(self.outgoing, writer.at, &part[..n]);
            writer.at = writer.at.wrapping_add(n as u64);
            written += n;
        }
        if written == 0 {
            return Ok((wanted == 0).then_some(0));
        }
        if written == wanted && written <= INLINE_MAX {
            inline_write::write_inline(self.memory.inline(self.outgoing), writer.at, parts);
        }
        self.has_written(writer);
        Ok(Some(written))
    }

    /// Returns `BrokenPipe` if either end has closed the lane.
    fn check_read(&self, writer: &Position) -> io::Result<()> {
        let is_over = self.closed.load(Ordering::Acquire) || writer.alone || self.is(self.outgoing, HeaderWord::Unread);
        if is_over { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// Publishes all bytes before the writer's position, and wakes a blocked reader.
    fn has_written(&self, writer: &Position) {
        self.memory.word(self.outgoing, HeaderWord::Written).store(writer.at, Ordering::Release);
        // The reader checks for bytes after it has set its sleep flag.
        fence(Ordering::SeqCst);
        if self.is(self.outgoing, HeaderWord::ReaderSleeps) {
            self.ring(self.outgoing, HeaderWord::ReaderSleeps, &self.out_doorbell);
        }
    }

    /// Wakes the other side, at most once for each time that it blocks.
    fn ring(&self, ring: Ring, sleeps: HeaderWord, doorbell: &OwnedFd) {
        if self.memory.word(ring, sleeps).swap(0, Ordering::SeqCst) != 0 {
            // A full doorbell wakes the waiter as well, and a broken one makes it return.
            let _ = send(doorbell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Blocks until `step` returns a value: spins first, then waits for the doorbell.
    fn wait<T>(
        &self,
        position: &mut Position,
        (ring, sleeps, doorbell): (Ring, HeaderWord, &OwnedFd),
        has_update: impl Fn(u64) -> bool,
        mut step: impl FnMut(&mut Position) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        if let Some(done) = step(position)? {
            return Ok(done);
        }
        let at = position.at;
        if position.spin.quickly(|| has_update(at).then_some(())).is_some()
            && let Some(done) = step(position)?
        {
            return Ok(done);
        }
        let start = Instant::now();
        position.spin.spin(start, POLLS_PER_YIELD, || has_update(at).then_some(()));
        loop {
            if let Some(done) = step(position)? {
                position.spin.waited(start.elapsed());
                return Ok(done);
            }
            self.set(ring, sleeps, 1);
            fence(Ordering::SeqCst);
            let rung = if has_update(position.at) {
                Ok((0, 1))
            } else {
                recv(doorbell, &mut [0u8; 64][..], RecvFlags::empty())
            };
            self.set(ring, sleeps, 0);
            match rung {
                Ok((_, 0)) | Err(Errno::CONNRESET) => position.alone = true,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether there are bytes to read, or the end of the stream.
    fn has_news(&self, at: u64) -> bool {
        !matches!(self.available(at), Ok(0))
            || self.is(self.incoming, HeaderWord::Finished)
            || self.closed.load(Ordering::Acquire)
    }

    /// Whether a large piece fits or the lane has ended.
    fn has_space(&self, at: u64) -> bool {
        !matches!(self.space(at), Ok(space) if space < WAKE_SPACE)
            || self.is(self.outgoing, HeaderWord::Unread)
            || self.closed.load(Ordering::Acquire)
    }

    /// Checks at intervals, by the doorbell, whether the other side has gone.
    fn ask(&self, reader: &mut Position) {
        /// The interval between checks.
        const PAUSE: Duration = Duration::from_millis(1);
        if reader.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return;
        }
        reader.asked = Some(Instant::now());
        let received = recv(&self.in_doorbell, &mut [0u8; 64][..], RecvFlags::DONTWAIT);
        reader.alone |= matches!(received, Ok((_, 0)) | Err(Errno::CONNRESET));
    }
}

/// Validates a difference of positions, to which a faulty peer can give any value.
fn check_ring_distance(difference: u64) -> io::Result<usize> {
    usize::try_from(difference).ok().filter(|&n| n <= SPACE).ok_or_else(|| {
        io::Error::new(
            ErrorKind::InvalidData,
            format!("the peer says that {difference} bytes are in a ring for {SPACE}"),
        )
    })
}

/// Creates the two ends of a lane.
///
/// # Errors
/// Returns the system's error if the memory or the doorbells can't be created.
pub fn shm_pair() -> io::Result<(SharedLane, SharedLane)> {
    let memory = SharedMemory::create()?;
    let same = SharedMemory::open(memory.file().try_clone()?)?;
    let (up, up_there) = UnixStream::pair()?;
    let (down, down_there) = UnixStream::pair()?;
    let near = Shm::new(memory, Side::Client, up.into(), down.into());
    Ok((Arc::new(near), Arc::new(Shm::new(same, Side::Server, up_there.into(), down_there.into()))))
}

impl Lane for Shm {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut reader = self.reader.take();
        let doorbell = (self.incoming, HeaderWord::ReaderSleeps, &self.in_doorbell);
        self.wait(&mut reader, doorbell, |at| self.has_news(at), |reader| self.take(reader, bytes))
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut reader = self.reader.take();
        if let Some(n) = self.take(&mut reader, bytes)? {
            return Ok(n);
        }
        self.ask(&mut reader);
        self.take(&mut reader, bytes)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn moves_in_place(&self) -> bool {
        self.is(self.outgoing, HeaderWord::Exposed)
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn is_readable(&self) -> bool {
        // A lane that another thread is reading counts as not readable.
        self.reader.try_take().is_some_and(|reader| self.has_news(reader.at) || reader.alone)
    }

    fn spin_long(&self) {
        // A thread that is reading keeps its policy.
        if let Some(mut reader) = self.reader.try_take() {
            reader.spin = SpinPolicy::long_spin();
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut writer = self.writer.take();
        let doorbell = (self.outgoing, HeaderWord::WriterSleeps, &self.out_doorbell);
        self.wait(&mut writer, doorbell, |at| self.has_space(at), |writer| self.put(writer, parts))
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // Another thread is writing, and may be blocked.
        let Some(mut writer) = self.writer.try_take() else { return Err(ErrorKind::WouldBlock.into()) };
        self.put(&mut writer, parts)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn finish(&self) -> io::Result<()> {
        self.set(self.outgoing, HeaderWord::Finished, 1);
        self.ring(self.outgoing, HeaderWord::ReaderSleeps, &self.out_doorbell);
        Ok(())
    }

    fn shutdown(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.set(self.outgoing, HeaderWord::Finished, 1);
        self.set(self.incoming, HeaderWord::Unread, 1);
        for doorbell in [&self.in_doorbell, &self.out_doorbell] {
            // A failure means that the socket is closed already.
            let _ = shutdown(doorbell, Shutdown::Both);
        }
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        for doorbell in [&self.in_doorbell, &self.out_doorbell] {
            set_socket_timeout(doorbell, Timeout::Recv, time)?;
        }
        Ok(())
    }

    fn introduced(&self, _unread_max: Option<Duration>) -> io::Result<()> {
        self.limit(None)
    }

    fn properties(&self) -> LaneProperties {
        LaneProperties { polls_per_yield: POLLS_PER_YIELD, ..LaneProperties::new(Transport::Shm, false) }
    }

    fn descriptors(&self) -> LaneDescriptors<'_> {
        // A lane can be passed on only before its first byte, because the positions are private to this process.
        let is_new = |position: &TurnLock<Position>| position.try_take().is_some_and(|position| position.at == 0);
        let handed_over = match self.side {
            Side::Server if is_new(&self.reader) && is_new(&self.writer) => {
                vec![self.in_doorbell.as_fd(), self.out_doorbell.as_fd(), self.memory.file().as_fd()]
            }
            Side::Server | Side::Client => Vec::new(),
        };
        LaneDescriptors { handed_over, sockets: Some([self.in_doorbell.as_fd(), self.out_doorbell.as_fd()]) }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // An end that was passed on continues in the other process, which keeps the doorbells open.
        if !self.closed.load(Ordering::Acquire) && self.side == Side::Client {
            self.shutdown();
        }
    }
}

#[cfg(test)]
mod tests;

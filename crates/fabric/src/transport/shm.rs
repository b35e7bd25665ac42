//! Lanes through memory that two processes of one machine share.
//!
//! Each direction has a ring of bytes and a doorbell, which is a socket: whoever waits looks for a moment, then says in the ring that it
//! sleeps, and sleeps on the doorbell; the other side writes a byte to the doorbell only then. A side that dies closes its doorbells, so that nobody
//! sleeps on. Both sides keep their positions to themselves, and believe nothing that stands in the ring.

mod shown;
mod windows;

use super::lane::{Lane, NextPiece, Piece, SharedLane, Transport};
use super::shared_memory::{ROOM, Ring, SharedMemory, Word};
use super::window::Windows;
use accord_types::spin_policy::{LOOKS, Looked, SpinPolicy, look};
use accord_types::turn_lock::TurnLock;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use shown::SHOWN_MAX;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

/// Bytes that are copied before the other side learns of them, so that both copy at once.
const STEP: usize = 64 << 10;
/// A writer that sleeps is woken for so much room.
const WAKE_ROOM: usize = ROOM / 4;

/// Which end of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

/// One end.
#[derive(Debug)]
pub(super) struct Shm {
    memory: SharedMemory,
    side: Side,
    incoming: Ring,
    outgoing: Ring,
    /// The doorbell of each ring.
    in_doorbell: OwnedFd,
    out_doorbell: OwnedFd,
    reader: TurnLock<Position>,
    writer: TurnLock<Position>,
    /// This side has shut it down.
    closed: AtomicBool,
}

#[derive(Debug)]
struct Position {
    /// Bytes read or written so far.
    at: u64,
    /// A writer's: bytes that the other side had read when it was last asked. Its count is on a line of another core, which takes about
    /// as long to come as all the rest of a small write.
    read: u64,
    spin: SpinPolicy,
    /// The doorbell says that the other side is gone.
    alone: bool,
    /// When that was last asked for by somebody who does not wait.
    asked: Option<Instant>,
}

impl Shm {
    /// An end that has `to_server` and `to_client` as doorbells of the rings.
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

    fn is(&self, ring: Ring, word: Word) -> bool {
        self.memory.word(ring, word).load(Ordering::Acquire) != 0
    }

    fn set(&self, ring: Ring, word: Word, value: u64) {
        self.memory.word(ring, word).store(value, Ordering::SeqCst);
    }

    /// Bytes to read.
    fn available(&self, at: u64) -> io::Result<usize> {
        let written = self.memory.word(self.incoming, Word::Written).load(Ordering::Acquire);
        within_room(written.wrapping_sub(at))
    }

    /// Room to write.
    fn room(&self, at: u64) -> io::Result<usize> {
        let read = self.memory.word(self.outgoing, Word::Read).load(Ordering::Acquire);
        Ok(ROOM - within_room(at.wrapping_sub(read))?)
    }

    /// Room for `wanted` bytes, or less if there is not so much. The other side is asked only if it matters.
    fn room_for(&self, writer: &mut Position, wanted: usize) -> io::Result<usize> {
        let known = ROOM - within_room(writer.at.wrapping_sub(writer.read))?;
        if known >= wanted {
            return Ok(wanted);
        }
        let room = self.room(writer.at)?;
        writer.read = writer.at.wrapping_sub((ROOM - room) as u64);
        Ok(room.min(wanted))
    }

    /// Reads what is there; 0 at the end, none if something may come.
    fn take(&self, reader: &mut Position, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(Some(0));
        }
        // Asked first: what was written before the end is read.
        let over = reader.alone || self.is(self.incoming, Word::Finished);
        let available = self.available(reader.at)?;
        let n = available.min(bytes.len()).min(STEP);
        if n == 0 {
            return Ok(over.then_some(0));
        }
        let end = reader.at.wrapping_add(n as u64);
        let is_shown =
            n == available && n <= SHOWN_MAX && shown::look(self.memory.beside(self.incoming), end, &mut bytes[..n]);
        if !is_shown {
            self.memory.take(self.incoming, reader.at, &mut bytes[..n]);
        }
        self.has_read(reader, n)?;
        Ok(Some(n))
    }

    /// The next bytes are not needed here any more.
    fn has_read(&self, reader: &mut Position, n: usize) -> io::Result<()> {
        reader.at = reader.at.wrapping_add(n as u64);
        self.memory.word(self.incoming, Word::Read).store(reader.at, Ordering::Release);
        // The writer looks for room after it has said that it sleeps.
        fence(Ordering::SeqCst);
        if self.is(self.incoming, Word::WriterSleeps) && ROOM - self.available(reader.at)? >= WAKE_ROOM {
            self.ring(self.incoming, Word::WriterSleeps, &self.in_doorbell);
        }
        Ok(())
    }

    /// Writes as much as there is room for; none if there may be later.
    fn put(&self, writer: &mut Position, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.check_read(writer)?;
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().min(STEP);
        let room = self.room_for(writer, wanted)?;
        let mut written = 0;
        for part in parts {
            let n = part.len().min(room - written);
            self.memory.put(self.outgoing, writer.at, &part[..n]);
            writer.at = writer.at.wrapping_add(n as u64);
            written += n;
        }
        if written == 0 {
            return Ok((wanted == 0).then_some(0));
        }
        if written == wanted && written <= SHOWN_MAX {
            shown::show(self.memory.beside(self.outgoing), writer.at, parts);
        }
        self.has_written(writer);
        Ok(Some(written))
    }

    /// Whether anybody reads what is written.
    fn check_read(&self, writer: &Position) -> io::Result<()> {
        let is_over = self.closed.load(Ordering::Acquire) || writer.alone || self.is(self.outgoing, Word::Unread);
        if is_over { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// All bytes before the writer's position are there.
    fn has_written(&self, writer: &Position) {
        self.memory.word(self.outgoing, Word::Written).store(writer.at, Ordering::Release);
        // The reader looks for bytes after it has said that it sleeps.
        fence(Ordering::SeqCst);
        if self.is(self.outgoing, Word::ReaderSleeps) {
            self.ring(self.outgoing, Word::ReaderSleeps, &self.out_doorbell);
        }
    }

    /// Wakes the other side, once for each time that it sleeps.
    fn ring(&self, ring: Ring, sleeps: Word, doorbell: &OwnedFd) {
        if self.memory.word(ring, sleeps).swap(0, Ordering::SeqCst) != 0 {
            // If the doorbell is full it has been heard; if it is broken, whoever waits sees that.
            let _ = send(doorbell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Does `step` as soon as it gives something.
    fn wait<T>(
        &self,
        position: &mut Position,
        (ring, sleeps, doorbell): (Ring, Word, &OwnedFd),
        is_news: impl Fn(u64) -> bool,
        mut step: impl FnMut(&mut Position) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        if let Some(done) = step(position)? {
            return Ok(done);
        }
        let at = position.at;
        if position.spin.quickly(|| is_news(at).then_some(())).is_some()
            && let Some(done) = step(position)?
        {
            return Ok(done);
        }
        let start = Instant::now();
        if position.spin.limit() > Duration::ZERO {
            match look(start, position.spin.limit(), || is_news(at)) {
                Looked::Crowded => position.spin.crowded(),
                Looked::Ready | Looked::Late => {}
            }
        }
        loop {
            if let Some(done) = step(position)? {
                position.spin.waited(start.elapsed());
                return Ok(done);
            }
            self.set(ring, sleeps, 1);
            fence(Ordering::SeqCst);
            let rung =
                if is_news(position.at) { Ok((0, 1)) } else { recv(doorbell, &mut [0u8; 64][..], RecvFlags::empty()) };
            self.set(ring, sleeps, 0);
            match rung {
                Ok((_, 0)) | Err(Errno::CONNRESET) => position.alone = true,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Something to read, or the end.
    fn has_news(&self, at: u64) -> bool {
        !matches!(self.available(at), Ok(0))
            || self.is(self.incoming, Word::Finished)
            || self.closed.load(Ordering::Acquire)
    }

    /// Room for a good piece, or nobody who reads.
    fn has_room(&self, at: u64) -> bool {
        !matches!(self.room(at), Ok(room) if room < WAKE_ROOM)
            || self.is(self.outgoing, Word::Unread)
            || self.closed.load(Ordering::Acquire)
    }

    /// Asks the doorbell whether the other side is there, now and then.
    fn ask(&self, reader: &mut Position) {
        /// How often.
        const PAUSE: Duration = Duration::from_millis(1);
        if reader.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return;
        }
        reader.asked = Some(Instant::now());
        let heard = recv(&self.in_doorbell, &mut [0u8; 64][..], RecvFlags::DONTWAIT);
        reader.alone |= matches!(heard, Ok((_, 0)) | Err(Errno::CONNRESET));
    }
}

/// A difference of positions, if it is one: the other side may say anything.
fn within_room(difference: u64) -> io::Result<usize> {
    usize::try_from(difference).ok().filter(|&n| n <= ROOM).ok_or_else(|| {
        io::Error::new(
            ErrorKind::InvalidData,
            format!("the peer says that {difference} bytes are in a ring for {ROOM}"),
        )
    })
}

/// Two ends of one lane.
///
/// # Errors
/// If the system refuses.
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
        let doorbell = (self.incoming, Word::ReaderSleeps, &self.in_doorbell);
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

    /// All that is there, up to a whole message: whoever passes it on pays for each.
    fn read_piece(&self, piece: &mut Piece) -> io::Result<NextPiece> {
        if piece.fill(|room| self.read(room))? == 0 {
            return Ok(NextPiece::End);
        }
        let mut reader = self.reader.take();
        piece.fill_up(|room| Ok(self.take(&mut reader, room)?.unwrap_or(0)));
        Ok(NextPiece::Here)
    }

    fn windows(&self) -> Option<&dyn Windows> {
        Some(self)
    }

    fn lends(&self) -> bool {
        self.is(self.outgoing, Word::Lent)
    }

    fn is_readable(&self) -> bool {
        // Somebody who reads has it: then it is as good as not readable.
        self.reader.try_take().is_some_and(|reader| self.has_news(reader.at) || reader.alone)
    }

    fn looks(&self) -> u32 {
        LOOKS
    }

    fn be_patient(&self) {
        // Somebody reads already: then it stays as it is.
        if let Some(mut reader) = self.reader.try_take() {
            reader.spin = SpinPolicy::patient();
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut writer = self.writer.take();
        let doorbell = (self.outgoing, Word::WriterSleeps, &self.out_doorbell);
        self.wait(&mut writer, doorbell, |at| self.has_room(at), |writer| self.put(writer, parts))
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // Somebody who writes waits for room, then.
        let Some(mut writer) = self.writer.try_take() else { return Err(ErrorKind::WouldBlock.into()) };
        self.put(&mut writer, parts)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn finish(&self) -> io::Result<()> {
        self.set(self.outgoing, Word::Finished, 1);
        self.ring(self.outgoing, Word::ReaderSleeps, &self.out_doorbell);
        Ok(())
    }

    fn shutdown(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.set(self.outgoing, Word::Finished, 1);
        self.set(self.incoming, Word::Unread, 1);
        for doorbell in [&self.in_doorbell, &self.out_doorbell] {
            // It is over already if this fails.
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

    fn leaves_machine(&self) -> bool {
        false
    }

    fn transport(&self) -> Transport {
        Transport::Shm
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        // How far it was read and written is known here only.
        let is_new = |position: &TurnLock<Position>| position.try_take().is_some_and(|position| position.at == 0);
        match self.side {
            Side::Server if is_new(&self.reader) && is_new(&self.writer) => {
                vec![self.in_doorbell.as_fd(), self.out_doorbell.as_fd(), self.memory.file().as_fd()]
            }
            Side::Server | Side::Client => Vec::new(),
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        // An end that was handed over lives on elsewhere; its doorbells tell the rest.
        if !self.closed.load(Ordering::Acquire) && self.side == Side::Client {
            self.shutdown();
        }
    }
}

#[cfg(test)]
mod tests;

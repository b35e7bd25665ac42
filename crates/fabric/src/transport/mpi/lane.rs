//! What a lane over messages promises, for the threads that read and write.

use super::intake::{self, Roomy};
use super::lent::{LentBytes, LentRoom};
use super::loan::Loan;
use super::message::{DATA_MAX, HEADER_LEN, LaneKey};
use super::shared::{Counters, LaneTable, Shared};
use super::spare;
use super::streams::{Next, Streams};
use crate::transport::lane::{Lane, NextPiece, Piece, SharedLane, Transport};
use crate::transport::time_limit::TimeLimit;
use crate::transport::window::{MovesWindows, Window};
use accord_types::NativeRange;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::{SharedSpinPolicy, Signal};
use accord_types::spin_policy::SpinPolicy;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most that one write takes.
const STEP: usize = DATA_MAX;
/// Fewer bytes are gathered in messages: they are copied while others wait for the lock.
const GATHERED_MAX: usize = intake::WRITE_MAX;
const _: () = assert!(Piece::BEFORE == HEADER_LEN && Piece::MAX == DATA_MAX, "pieces are messages");

/// This rank's end.
#[derive(Debug)]
pub(super) struct MpiLane {
    shared: Arc<Shared>,
    key: LaneKey,
    changed: Arc<Signal>,
    roomy: Arc<Roomy>,
    limit: TimeLimit,
    reading: ShortLock<Reading>,
    /// Whether that has something left.
    has_left: AtomicBool,
    /// How long reads wait, room that is lent, and bytes that are.
    reads: SharedSpinPolicy,
    rooms: SharedSpinPolicy,
    loans: SharedSpinPolicy,
}

/// The message that the reader is at.
#[derive(Debug, Default)]
struct Reading {
    message: Vec<u8>,
    at: usize,
}

impl Reading {
    fn copy(&mut self, bytes: &mut [u8]) -> usize {
        let n = bytes.len().min(self.message.len() - self.at);
        bytes[..n].copy_from_slice(&self.message[self.at..self.at + n]);
        self.at += n;
        if self.at == self.message.len() {
            self.at = 0;
            spare::done(std::mem::take(&mut self.message));
        }
        n
    }

    fn is_over(&self) -> bool {
        self.message.is_empty()
    }
}

/// What the reader goes on with.
enum Goes {
    On(Vec<u8>),
    Into(usize),
    End,
}

impl MpiLane {
    pub(super) fn new(shared: Arc<Shared>, key: LaneKey, changed: Arc<Signal>, roomy: Arc<Roomy>) -> Self {
        let (limit, reading, has_left) = (TimeLimit::default(), ShortLock::default(), AtomicBool::new(false));
        // Lent bytes are about as fast as a device copies, which takes longer than a message: to be woken up would cost a fourth of that.
        let [rooms, loans] = std::array::from_fn(|_| SharedSpinPolicy::from(SpinPolicy::patient()));
        let reads = SharedSpinPolicy::default();
        Self { shared, key, changed, roomy, limit, reading, has_left, reads, rooms, loans }
    }

    fn reading(&self) -> ShortGuard<'_, Reading> {
        self.reading.lock()
    }

    /// Does `work` as soon as it gives something; gives up at `end`.
    fn wait<T>(
        &self,
        end: Option<Instant>,
        spin: Option<&SharedSpinPolicy>,
        mut work: impl FnMut(&mut LaneTable, LaneKey) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut state = self.shared.lock();
        if let Some(done) = work(&mut state, self.key)? {
            self.shared.has_changed(state);
            return Ok(done);
        }
        let start = Instant::now();
        if let Some(spin) = spin.filter(|spin| spin.has_any() && end.is_none_or(|end| end > start)) {
            let seen = self.changed.raised();
            drop(state);
            self.changed.look(seen, spin);
            state = self.shared.lock();
        }
        loop {
            if let Some(done) = work(&mut state, self.key)? {
                self.shared.has_changed(state);
                if let Some(spin) = spin {
                    spin.waited(start);
                }
                return Ok(done);
            }
            state = self.changed.wait(state, end)?;
        }
    }

    fn take(&self, bytes: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let read = self.copy_left(bytes);
        if read > 0 {
            return Ok(read);
        }
        match self.await_next(end, bytes.len(), |len| LentRoom::of(&mut bytes[..len]))? {
            Goes::On(message) => {
                *self.reading() = Reading { message, at: HEADER_LEN };
                Ok(self.copy_left(bytes))
            }
            Goes::Into(len) => self.await_room(len),
            Goes::End => Ok(0),
        }
    }

    /// Waits for what comes next. `room` is asked where lent bytes go, of which `most` are wanted.
    fn await_next(
        &self,
        end: Option<Instant>,
        most: usize,
        mut room: impl FnMut(usize) -> LentRoom,
    ) -> io::Result<Goes> {
        self.wait(end, Some(&self.reads), |state, key| {
            Ok(match state.streams.next(key) {
                Next::Message(message) => Some(Goes::On(message)),
                Next::Offered(_) => state.streams.ask(key, most).map(|(_, len)| {
                    state.rooms.insert(key, room(len));
                    Goes::Into(len)
                }),
                Next::Nothing => None,
                Next::End => Some(Goes::End),
            })
        })
    }

    /// Copies what is left of a message. The thread that owns MPI goes on meanwhile.
    fn copy_left(&self, bytes: &mut [u8]) -> usize {
        let mut reading = self.reading();
        if reading.is_over() {
            return 0;
        }
        let n = reading.copy(bytes);
        Counters::add(&self.shared.counts.copied_bytes, n);
        self.has_left.store(!reading.is_over(), Ordering::Release);
        n
    }

    /// Waits until lent room is this side's again, however long that takes: MPI may be writing there.
    fn await_room(&self, len: usize) -> io::Result<usize> {
        let filled = self.wait(None, Some(&self.rooms), |state, key| {
            let filled = state.streams.filled(key);
            if filled.is_some() {
                state.rooms.remove(&key);
            }
            Ok(filled)
        })?;
        Ok(if filled { len } else { 0 })
    }

    /// Has lent bytes come to `room`, which is asked for `most` of them or fewer: how many. None if something else comes next, which is kept.
    fn fill(&self, most: usize, room: impl FnMut(usize) -> LentRoom) -> io::Result<Option<usize>> {
        match self.await_next(None, most, room)? {
            Goes::On(message) => {
                *self.reading() = Reading { message, at: HEADER_LEN };
                self.has_left.store(true, Ordering::Release);
                Ok(None)
            }
            Goes::Into(len) => match self.await_room(len)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                len => Ok(Some(len)),
            },
            Goes::End => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn put(&self, parts: &[IoSlice<'_>], end: Option<Instant>) -> io::Result<usize> {
        let all: usize = parts.iter().map(|part| part.len()).sum();
        if all < GATHERED_MAX {
            Counters::add(&self.shared.counts.copied_bytes, all);
            if self.hand_in(parts, all) {
                return Ok(all);
            }
            return self.wait_for_room(end, |streams, key| streams.write(key, parts));
        }
        let room = self.wait_for_room(end, Streams::room)?;
        // The thread that owns MPI goes on meanwhile. There is no less room afterwards: nobody else writes.
        let len = all.min(STEP).min(room);
        let mut message = spare::empty(HEADER_LEN + len);
        message.extend_from_slice(&[0; HEADER_LEN]);
        for part in parts {
            let left = HEADER_LEN + len - message.len();
            message.extend_from_slice(&part[..part.len().min(left)]);
        }
        Counters::add(&self.shared.counts.copied_bytes, len);
        self.put_message(message)
    }

    /// Whether a short write was handed in.
    fn hand_in(&self, parts: &[IoSlice<'_>], len: usize) -> bool {
        if !self.roomy.get() {
            return false;
        }
        let mut message = spare::empty(HEADER_LEN + len);
        message.extend_from_slice(&[0; HEADER_LEN]);
        parts.iter().for_each(|part| message.extend_from_slice(part));
        self.shared.hand_in(self.key, message).is_none()
    }

    fn put_message(&self, message: Vec<u8>) -> io::Result<usize> {
        let len = message.len() - HEADER_LEN;
        let mut state = self.shared.lock_to_write();
        state.streams.write_message(self.key, message)?;
        self.shared.has_changed(state);
        Ok(len)
    }

    /// Does `work` as soon as it gives something. Whoever has waited goes on when there is room for a good piece.
    fn wait_for_room(
        &self,
        end: Option<Instant>,
        mut work: impl FnMut(&mut Streams, LaneKey) -> io::Result<Option<usize>>,
    ) -> io::Result<usize> {
        let mut waited = false;
        self.wait(end, None, |state, key| {
            // They go before.
            state.take_in(&self.shared.intake);
            let LaneTable { streams, roomy, .. } = state;
            if waited && !streams.has_room(key) {
                return Ok(None);
            }
            waited = true;
            let done = work(streams, key)?;
            if let Some(roomy) = roomy.get(&key) {
                roomy.set(streams.queued(key));
            }
            Ok(done)
        })
    }

    fn lend_all(&self, bytes: LentBytes) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock_to_write();
        state.streams.lend(self.key, bytes.len() as u64)?;
        state.lent.insert(self.key, bytes);
        self.shared.has_changed(state);
        // However long that takes: MPI may be reading there.
        let loan = self.wait(None, Some(&self.loans), |state, key| {
            let loan = state.streams.loan(key);
            Ok((loan != Loan::UnderWay).then_some(loan))
        });
        self.shared.lock().lent.remove(&self.key);
        match loan? {
            Loan::Done => Ok(()),
            Loan::UnderWay | Loan::Over => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Says that no more is written, after what was.
    fn tell(&self, tell: impl FnOnce(&mut Streams, LaneKey)) {
        let mut state = self.shared.lock_to_write();
        self.roomy.set(None);
        tell(&mut state.streams, self.key);
        self.shared.has_changed(state);
    }
}

impl Lane for MpiLane {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.take(bytes, self.limit.end())
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.take(bytes, Some(Instant::now()))
    }

    fn is_readable(&self) -> bool {
        self.has_left.load(Ordering::Acquire) || self.shared.lock().streams.is_readable(self.key)
    }

    fn be_patient(&self) {
        self.reads.set(SpinPolicy::patient());
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, self.limit.end())
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, Some(Instant::now()))
    }

    fn read_piece(&self, piece: &mut Piece) -> io::Result<NextPiece> {
        let end = self.limit.end();
        if self.has_left.load(Ordering::Acquire) {
            piece.fill(|room| self.take(room, end))?;
            return Ok(NextPiece::Here);
        }
        self.wait(end, Some(&self.reads), |LaneTable { streams, .. }, key| {
            Ok(match streams.next(key) {
                Next::Message(message) => {
                    spare::done(piece.replace(message));
                    Some(NextPiece::Here)
                }
                Next::Offered(len) => Some(NextPiece::Lent(usize::try_from(len).unwrap_or(usize::MAX))),
                Next::Nothing => None,
                Next::End => Some(NextPiece::End),
            })
        })
    }

    fn write_piece(&self, piece: &mut Piece) -> io::Result<()> {
        let mut all = piece.bytes();
        if all.len() >= GATHERED_MAX && self.wait_for_room(None, Streams::room)? >= all.len() {
            let message = piece.replace(spare::filled(HEADER_LEN + DATA_MAX));
            return self.put_message(message).map(drop);
        }
        while !all.is_empty() {
            all = &all[self.put(&[IoSlice::new(all)], None)?..];
        }
        Ok(())
    }

    fn lends(&self) -> bool {
        true
    }

    fn lend(&self, bytes: &[u8]) -> io::Result<()> {
        self.lend_all(LentBytes::of(bytes))
    }

    fn lends_native(&self) -> bool {
        self.shared.takes_native()
    }

    fn lend_native(&self, bytes: NativeRange) -> io::Result<()> {
        if !self.lends_native() {
            return Err(ErrorKind::Unsupported.into());
        }
        self.lend_all(LentBytes::native(bytes))
    }

    fn reads_native(&self) -> bool {
        self.shared.takes_native()
    }

    fn read_native(&self, room: NativeRange) -> io::Result<Option<usize>> {
        if !self.reads_native() || self.has_left.load(Ordering::Acquire) {
            return Ok(None);
        }
        // The lane gives no more than is wanted.
        self.fill(room.len, |len| LentRoom::native(NativeRange { len: room.len.min(len), ..room }))
    }

    fn pass_on_to(&self, to: &SharedLane) {
        let mut state = self.shared.lock();
        state.onward.insert(self.key, Arc::downgrade(to));
        state.streams.pass_on(self.key);
    }

    fn moves_windows(&self) -> Option<&dyn MovesWindows> {
        Some(self)
    }

    fn finish(&self) -> io::Result<()> {
        self.tell(Streams::finish);
        Ok(())
    }

    fn shutdown(&self) {
        self.tell(Streams::close);
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.limit.set(time)
    }

    fn introduced(&self, _unread_max: Option<Duration>) -> io::Result<()> {
        self.limit(None)
    }

    fn transport(&self) -> Transport {
        Transport::Mpi
    }

    fn leaves_machine(&self) -> bool {
        true
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

impl MovesWindows for MpiLane {
    fn lend_window(&self, bytes: Window<'_>) -> io::Result<()> {
        self.lend_all(LentBytes::window(bytes))
    }

    fn fill_window(&self, room: Window<'_>) -> io::Result<usize> {
        let none = || io::Error::new(ErrorKind::InvalidInput, "bytes come that were not lent");
        self.fill(room.len(), |len| LentRoom::window(room, len))?.ok_or_else(none)
    }
}

impl Drop for MpiLane {
    fn drop(&mut self) {
        let mut state = self.shared.lock_to_write();
        state.streams.close(self.key);
        state.changed.remove(&self.key);
        state.roomy.remove(&self.key);
        state.onward.remove(&self.key);
        self.shared.has_changed(state);
    }
}

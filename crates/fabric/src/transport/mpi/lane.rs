//! Implements `Lane` over messages.

mod forwards;
mod reads;

use super::intake;
use super::lent::{LentBytes, LentRoom};
use super::loan::Loan;
use super::message::{DATA_MAX, HEADER_LEN, LaneKey};
use super::reading::Reading;
use super::shared::{Counters, LaneEnd, LaneTable, Shared};
use super::spare;
use super::streams::Streams;
use crate::transport::lane::{Lane, LaneProperties, Transport};
use crate::transport::remote_memory::{MemoryKind, PostedReceive, PostedSend, ReceiveEnded, RemoteMemory, Source};
use crate::transport::time_limit::TimeLimit;
use accord_types::NativeRange;
use accord_types::signal::SharedSpinPolicy;
use accord_types::spin_policy::SpinPolicy;
use std::io::{self, ErrorKind, IoSlice};
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of one write.
const STEP: usize = DATA_MAX;
/// Shorter writes are gathered into messages and copied with the table locked.
const GATHERED_MAX: usize = 4 << 10;

/// This rank's end of a lane.
#[derive(Debug)]
pub(in crate::transport) struct MpiLane {
    shared: Arc<Shared>,
    key: LaneKey,
    end: Arc<LaneEnd>,
    limit: TimeLimit,
    reading: Reading,
    /// Spin policies of the waits for receive buffers and for exposed buffers.
    rooms: SharedSpinPolicy,
    loans: Arc<SharedSpinPolicy>,
}

impl MpiLane {
    pub(super) fn new(shared: Arc<Shared>, key: LaneKey, end: Arc<LaneEnd>) -> Self {
        // Exposed bytes move about as fast as a device copies, which takes longer than a message. A wake-up would add a fourth
        // to that.
        let [rooms, loans] = std::array::from_fn(|_| SharedSpinPolicy::from(SpinPolicy::patient()));
        let (limit, reading, loans) = (TimeLimit::default(), Reading::default(), Arc::new(loans));
        Self { shared, key, end, limit, reading, rooms, loans }
    }

    /// Blocks until `work` returns a value, or until `end`.
    fn wait<T>(
        &self,
        end: Option<Instant>,
        spin: Option<&SharedSpinPolicy>,
        work: impl FnMut(&mut LaneTable, LaneKey) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        self.wait_or(end, spin, || None, work)
    }

    /// Waits as [`MpiLane::wait`]; `quick` may return a value without the table.
    fn wait_or<T>(
        &self,
        end: Option<Instant>,
        spin: Option<&SharedSpinPolicy>,
        quick: impl Fn() -> Option<T>,
        mut work: impl FnMut(&mut LaneTable, LaneKey) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut state = self.shared.lock();
        if let Some(done) = work(&mut state, self.key)? {
            self.shared.has_changed(state);
            return Ok(done);
        }
        let seen = self.end.changed.raised();
        drop(state);
        self.wait_since(seen, end, spin, quick, work)
    }

    /// Waits as [`MpiLane::wait_or`]. The signal had been raised `seen` times before the attempt that failed.
    fn wait_since<T>(
        &self,
        seen: u32,
        end: Option<Instant>,
        spin: Option<&SharedSpinPolicy>,
        quick: impl Fn() -> Option<T>,
        mut work: impl FnMut(&mut LaneTable, LaneKey) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let start = Instant::now();
        if let Some(spin) = spin.filter(|spin| spin.has_any() && end.is_none_or(|end| end > start)) {
            spin.look(|| self.end.changed.raised() != seen || quick().is_some());
            if let Some(done) = quick() {
                spin.waited(start);
                return Ok(done);
            }
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(done) = work(&mut state, self.key)? {
                self.shared.has_changed(state);
                if let Some(spin) = spin {
                    spin.waited(start);
                }
                return Ok(done);
            }
            state = self.end.changed.wait(state, end)?;
        }
    }

    fn put(&self, parts: &[IoSlice<'_>], end: Option<Instant>) -> io::Result<usize> {
        let all: usize = parts.iter().map(|part| part.len()).sum();
        if all < GATHERED_MAX {
            Counters::add(&self.shared.counts.copied_bytes, all);
            if all <= intake::WRITE_MAX && self.end.roomy.get() && self.shared.hand_in(self.key, parts) {
                return Ok(all);
            }
            return self.wait_for_room(end, |streams, key| streams.write(key, parts));
        }
        let room = self.wait_for_room(end, Streams::room)?;
        // Copied without the lock, so that the thread that owns MPI continues. The space can't shrink meanwhile, because a lane
        // has one writer.
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

    fn put_message(&self, message: Vec<u8>) -> io::Result<usize> {
        let len = message.len() - HEADER_LEN;
        let mut state = self.shared.lock_to_write();
        state.streams.write_message(self.key, message)?;
        self.shared.has_changed(state);
        Ok(len)
    }

    /// Blocks until `work` returns a value. After a wait, calls it only once there is space for a large piece.
    fn wait_for_room(
        &self,
        end: Option<Instant>,
        mut work: impl FnMut(&mut Streams, LaneKey) -> io::Result<Option<usize>>,
    ) -> io::Result<usize> {
        let mut waited = false;
        self.wait(end, None, |state, key| {
            // Queued short writes precede this one.
            state.take_in(&self.shared.intake);
            let LaneTable { streams, ends, .. } = state;
            if waited && !streams.has_room(key) {
                return Ok(None);
            }
            waited = true;
            let done = work(streams, key)?;
            if let Some(end) = ends.get(&key) {
                end.roomy.set(streams.queued(key));
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
        // Without a time limit, because MPI may be reading the bytes.
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

    /// Exposes bytes in device memory, if MPI supports it.
    fn native_bytes(&self, range: NativeRange) -> io::Result<LentBytes> {
        if self.shared.takes_native() { Ok(LentBytes::native(range)) } else { Err(ErrorKind::Unsupported.into()) }
    }

    /// Ends the direction, after all written bytes.
    fn tell(&self, tell: impl FnOnce(&mut Streams, LaneKey)) {
        let mut state = self.shared.lock_to_write();
        self.end.roomy.set(None);
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
        self.finds_something()
    }

    fn spin_long(&self) {
        self.reading.waits.set(SpinPolicy::patient());
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, self.limit.end())
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, Some(Instant::now()))
    }

    fn moves_in_place(&self) -> bool {
        true
    }

    fn remote_memory(&self, kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        match kind {
            MemoryKind::Host => Some(self),
            MemoryKind::Device => self.shared.takes_native().then_some(self),
        }
    }

    fn finish(&self) -> io::Result<()> {
        self.tell(Streams::finish);
        Ok(())
    }

    fn shutdown(&self) {
        self.tell(|streams, key| {
            streams.close(key);
            self.end.mailbox.close();
        });
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.limit.set(time)
    }

    fn introduced(&self, _unread_max: Option<Duration>) -> io::Result<()> {
        self.limit(None)
    }

    fn properties(&self) -> LaneProperties {
        LaneProperties::new(Transport::Mpi, true)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

impl RemoteMemory for MpiLane {
    fn send(&self, bytes: Source<'_>) -> io::Result<()> {
        self.lend_all(match bytes {
            Source::Host(bytes) => LentBytes::of(bytes),
            Source::Device(range) => self.native_bytes(range)?,
        })
    }

    fn receive(&self, room: NativeRange) -> io::Result<Option<usize>> {
        if !self.shared.takes_native() || self.reading.has_left() {
            return Ok(None);
        }
        // A lane never reads more than requested.
        self.fill(room.len, |len| LentRoom::native(NativeRange { len: room.len.min(len), ..room }))
    }

    fn post(&self, room: NativeRange, ended: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        self.shared.post(self.key, room, ended)
    }

    fn send_posted(&self, key: NonZeroU16, bytes: NativeRange) -> io::Result<Box<dyn PostedSend>> {
        let bytes = self.native_bytes(bytes)?;
        Ok(Box::new(self.shared.send_posted(self.key, key.get(), bytes, &self.loans)?))
    }
}

impl Drop for MpiLane {
    fn drop(&mut self) {
        let mut state = self.shared.lock_to_write();
        state.streams.close(self.key);
        state.ends.remove(&self.key);
        state.onward.remove(&self.key);
        self.shared.has_changed(state);
    }
}

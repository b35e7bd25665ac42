//! Implements `Lane` over messages.

mod forwards;
mod reads;

use super::exposed_buffers::ExposureState;
use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use super::intake;
use super::message::{DATA_MAX, HEADER_LEN, LaneKey};
use super::reading::Reading;
use super::shared::{Counters, LaneEnd, LaneTable, Shared};
use super::spare;
use super::streams::Streams;
use crate::transport::lane::{Lane, LaneDescriptors, LaneProperties, Transport};
use crate::transport::remote_memory::{MemoryKind, PostedReceive, PostedSend, ReceiveEnded, RemoteMemory, Source};
use crate::transport::time_limit::TimeLimit;
use accord_types::NativeRange;
use accord_types::signal::SharedSpinPolicy;
use accord_types::spin_policy::SpinPolicy;
use std::io::{self, ErrorKind, IoSlice};
use std::num::NonZeroU16;
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
    receives: SharedSpinPolicy,
    exposures: Arc<SharedSpinPolicy>,
}

impl MpiLane {
    pub(super) fn new(shared: Arc<Shared>, key: LaneKey, end: Arc<LaneEnd>) -> Self {
        // Exposed bytes move about as fast as a device copies, which takes longer than a message. A wake-up would add a fourth
        // to that.
        let [receives, exposures] = std::array::from_fn(|_| SharedSpinPolicy::from(SpinPolicy::long_spin()));
        let (limit, reading, exposures) = (TimeLimit::default(), Reading::default(), Arc::new(exposures));
        Self { shared, key, end, limit, reading, receives, exposures }
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
            spin.spin_until(|| self.end.changed.raised() != seen || quick().is_some());
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
            return self.wait_for_space(end, |streams, key| streams.write(key, parts));
        }
        let space = self.wait_for_space(end, Streams::space)?;
        // Copied without the lock, so that the thread that owns MPI continues. The space can't shrink meanwhile, because a lane
        // has one writer.
        let len = all.min(STEP).min(space);
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
    fn wait_for_space(
        &self,
        end: Option<Instant>,
        mut work: impl FnMut(&mut Streams, LaneKey) -> io::Result<Option<usize>>,
    ) -> io::Result<usize> {
        let mut waited = false;
        self.wait(end, None, |state, key| {
            // Queued short writes precede this one.
            state.take_in(&self.shared.intake);
            let LaneTable { streams, ends, .. } = state;
            if waited && !streams.has_space(key) {
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

    fn expose_all(&self, bytes: SendBuffer) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.shared.lock_to_write();
        state.streams.expose(self.key, bytes.len() as u64)?;
        state.exposed.insert(self.key, bytes);
        self.shared.has_changed(state);
        // Without a time limit, because MPI may be reading the bytes.
        let exposure = self.wait(None, Some(&self.exposures), |state, key| {
            let exposure = state.streams.exposure(key);
            Ok((exposure != ExposureState::UnderWay).then_some(exposure))
        });
        self.shared.lock().exposed.remove(&self.key);
        match exposure? {
            ExposureState::Done => Ok(()),
            ExposureState::UnderWay | ExposureState::Over => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Exposes bytes in device memory, if MPI supports it.
    fn native_bytes(&self, range: NativeRange) -> io::Result<SendBuffer> {
        if self.shared.takes_native() { Ok(SendBuffer::native(range)) } else { Err(ErrorKind::Unsupported.into()) }
    }

    /// Ends the direction, after all written bytes.
    fn notify(&self, notify: impl FnOnce(&mut Streams, LaneKey)) {
        let mut state = self.shared.lock_to_write();
        self.end.roomy.set(None);
        notify(&mut state.streams, self.key);
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
        self.reading.waits.set(SpinPolicy::long_spin());
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
        self.notify(Streams::finish);
        Ok(())
    }

    fn shutdown(&self) {
        self.notify(|streams, key| {
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

    fn descriptors(&self) -> LaneDescriptors<'_> {
        LaneDescriptors::default()
    }
}

impl RemoteMemory for MpiLane {
    fn send(&self, bytes: Source<'_>) -> io::Result<()> {
        self.expose_all(match bytes {
            Source::Host(bytes) => SendBuffer::of(bytes),
            Source::Device(range) => self.native_bytes(range)?,
        })
    }

    fn receive(&self, space: NativeRange) -> io::Result<Option<usize>> {
        if !self.shared.takes_native() || self.reading.has_left() {
            return Ok(None);
        }
        // A lane never reads more than requested.
        self.fill(space.len, |len| ReceiveBuffer::native(NativeRange { len: space.len.min(len), ..space }))
    }

    fn post(&self, space: NativeRange, ended: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        self.shared.post(self.key, space, ended)
    }

    fn send_posted(&self, key: NonZeroU16, bytes: NativeRange) -> io::Result<Box<dyn PostedSend>> {
        let bytes = self.native_bytes(bytes)?;
        Ok(Box::new(self.shared.send_posted(self.key, key.get(), bytes, &self.exposures)?))
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

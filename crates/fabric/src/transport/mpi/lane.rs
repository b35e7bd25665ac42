//! What a lane over messages promises, for the threads that read and write.

use super::message::DATA_MAX;
use super::shared::Shared;
use super::streams::{LaneKey, Streams};
use crate::transport::lane::{Lane, Transport};
use crate::transport::time_limit::{TimeLimit, wait_until};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Bytes that are copied in one turn: others wait for its lock.
const STEP: usize = DATA_MAX;

/// This rank's end.
#[derive(Debug)]
pub(super) struct MpiLane {
    shared: Arc<Shared>,
    key: LaneKey,
    changed: Arc<Condvar>,
    limit: TimeLimit,
}

impl MpiLane {
    pub(super) fn new(shared: Arc<Shared>, key: LaneKey, changed: Arc<Condvar>) -> Self {
        Self { shared, key, changed, limit: TimeLimit::default() }
    }

    /// Does `work` as soon as it gives something; gives up at `end`.
    fn wait<T>(
        &self,
        end: Option<Instant>,
        mut work: impl FnMut(&mut Streams, LaneKey) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut state = self.shared.lock();
        loop {
            if let Some(done) = work(&mut state.streams, self.key)? {
                self.shared.has_changed(state);
                return Ok(done);
            }
            state = wait_until(&self.changed, state, end)?;
        }
    }

    fn take(&self, bytes: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
        let step = bytes.len().min(STEP);
        self.wait(end, |streams, key| Ok(streams.read(key, &mut bytes[..step])))
    }

    fn put(&self, parts: &[IoSlice<'_>], end: Option<Instant>) -> io::Result<usize> {
        // Whoever has waited goes on when there is room for a good piece.
        let mut waited = false;
        self.wait(end, |streams, key| {
            if waited && !streams.has_room(key) {
                return Ok(None);
            }
            waited = true;
            match parts.iter().find(|part| !part.is_empty()) {
                Some(part) if part.len() >= STEP => streams.write(key, &[IoSlice::new(&part[..STEP])]),
                _ => streams.write(key, parts),
            }
        })
    }

    fn tell(&self, tell: impl FnOnce(&mut Streams, LaneKey)) {
        let mut state = self.shared.lock();
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
        self.shared.lock().streams.is_readable(self.key)
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, self.limit.end())
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.put(parts, Some(Instant::now()))
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

    fn introduced(&self, _reads_at_once: bool) -> io::Result<()> {
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

impl Drop for MpiLane {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.streams.close(self.key);
        state.changed.remove(&self.key);
        self.shared.has_changed(state);
    }
}

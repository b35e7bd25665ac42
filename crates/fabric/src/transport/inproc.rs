//! Lanes within a process: two bounded buffers. For tests and simulations, and as the simplest implementation of
//! [`Lane`].

use super::lane::{Lane, LaneDescriptors, LaneProperties, SharedLane, Transport};
use super::remote_memory::{MemoryKind, RemoteMemory};
use super::time_limit::TimeLimit;
use crate::frame::transfer::{CHUNK_MAX, HEADER_LEN};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::wait_until;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// Bytes that one direction buffers; a writer blocks while it is full.
const SPACE: usize = 2 << 20;
/// A chunk with its header fits, so that sending a small copy does not block.
const _: () = assert!(SPACE > HEADER_LEN + CHUNK_MAX);

/// One end of a lane.
#[derive(Debug)]
struct Inproc {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    limit: TimeLimit,
}

/// One direction of a lane.
#[derive(Debug, Default)]
struct Pipe {
    state: ShortLock<Contents>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Contents {
    bytes: VecDeque<u8>,
    /// Whether the writer has finished.
    finished: bool,
    /// Whether the reader has shut this direction down.
    unread: bool,
}

/// Creates the two ends of a lane.
pub fn inproc_pair() -> (SharedLane, SharedLane) {
    let (one, other) = (Arc::<Pipe>::default(), Arc::<Pipe>::default());
    let near = Inproc { incoming: one.clone(), outgoing: other.clone(), limit: TimeLimit::default() };
    (Arc::new(near), Arc::new(Inproc { incoming: other, outgoing: one, limit: TimeLimit::default() }))
}

impl Pipe {
    fn lock(&self) -> ShortGuard<'_, Contents> {
        self.state.lock()
    }

    fn change(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Blocks until `work` returns a value, or until `end`.
    fn wait<T>(&self, end: Option<Instant>, mut work: impl FnMut(&mut Contents) -> Option<T>) -> io::Result<T> {
        let mut state = self.lock();
        loop {
            if let Some(done) = work(&mut state) {
                drop(state);
                self.changed.notify_all();
                return Ok(done);
            }
            state = wait_until(&self.changed, state, end)?;
        }
    }

    fn read(&self, bytes: &mut [u8], end: Option<Instant>) -> io::Result<usize> {
        self.wait(end, |state| {
            if state.unread {
                return Some(Ok(0));
            }
            (state.finished || !state.bytes.is_empty()).then(|| state.bytes.read(bytes))
        })?
    }

    fn write(&self, parts: &[IoSlice<'_>], end: Option<Instant>) -> io::Result<usize> {
        self.wait(end, |state| {
            if state.finished || state.unread {
                return Some(Err(ErrorKind::BrokenPipe.into()));
            }
            let mut space = SPACE - state.bytes.len();
            let mut written = 0;
            for part in parts {
                let now = part.len().min(space - written);
                state.bytes.extend(&part[..now]);
                written += now;
            }
            space -= written;
            (written > 0 || space > 0).then_some(Ok(written))
        })?
    }
}

impl Lane for Inproc {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(bytes, self.limit.end())
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.incoming.read(bytes, Some(Instant::now()))
    }

    fn is_readable(&self) -> bool {
        let state = self.incoming.lock();
        state.finished || state.unread || !state.bytes.is_empty()
    }

    fn spin_long(&self) {
        // Reads never spin.
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.outgoing.write(parts, self.limit.end())
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.outgoing.write(parts, Some(Instant::now()))
    }

    fn moves_in_place(&self) -> bool {
        false
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn finish(&self) -> io::Result<()> {
        self.outgoing.change(|state| state.finished = true);
        Ok(())
    }

    fn shutdown(&self) {
        self.outgoing.change(|state| state.finished = true);
        self.incoming.change(|state| state.unread = true);
    }

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.limit.set(time)
    }

    fn introduced(&self, _unread_max: Option<Duration>) -> io::Result<()> {
        self.limit(None)
    }

    fn properties(&self) -> LaneProperties {
        LaneProperties::new(Transport::Inproc, false)
    }

    fn descriptors(&self) -> LaneDescriptors<'_> {
        LaneDescriptors::default()
    }
}

impl Drop for Inproc {
    fn drop(&mut self) {
        self.shutdown();
    }
}

//! The sending side of lanes.

use super::chunk_io::{chunk_len, lost, write_chunk, write_native_chunk};
use super::lane_pool::LanePool;
use crate::copy_way::CopyWay;
use crate::frame::transfer::{Chunk, ChunkKind, EXPOSED_MAX, HEADER_LEN};
use crate::stalls::Stalls;
use crate::stats::LinkStats;
use crate::transport::{Lane, MemoryKind, PostedSend, SharedLane};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DeviceId, Error, ErrorCode, NativeRange, Result, StreamId, TransferId};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, OnceLock};
use std::time::Instant;

/// The lanes to one peer, each used by one transfer at a time.
pub struct Outbox {
    state: ShortLock<PooledLanes>,
    changed: Condvar,
    /// The peer's name in errors.
    peer_name: OnceLock<String>,
    /// Called at the first loss, before a transfer fails because of it.
    reported: ShortLock<Option<Box<dyn FnOnce() + Send>>>,
    pub(super) stats: Arc<LinkStats>,
}

#[derive(Default)]
struct PooledLanes {
    lanes: Vec<SharedLane>,
    pool: LanePool,
    /// Transfers that wait for a lane.
    waiting: usize,
    /// Streams with bytes in flight that their later bytes must not overtake.
    on_way: HashMap<PushingStream, PushesInFlight>,
}

/// The stream of a device whose bytes are pushed.
pub type PushingStream = (DeviceId, StreamId);

/// The pushes of a stream that were sent and have not landed.
struct PushesInFlight {
    /// The lane that all of them use.
    lane: usize,
    count: usize,
}

impl Outbox {
    /// Creates an outbox without lanes: transfers wait for the first.
    pub fn new(stats: Arc<LinkStats>) -> Arc<Self> {
        Arc::new(Self {
            state: ShortLock::default(),
            changed: Condvar::new(),
            peer_name: OnceLock::new(),
            reported: ShortLock::default(),
            stats,
        })
    }

    /// Sets the peer's name for errors.
    pub fn name_peer(&self, name: String) {
        let _ = self.peer_name.set(name);
    }

    /// Registers `reported`, which is called once a lane has failed, before the transfer that noticed it fails.
    pub fn notify_loss(&self, reported: impl FnOnce() + Send + 'static) {
        *self.reported.lock() = Some(Box::new(reported));
    }

    /// Calls the callback of [`Outbox::notify_loss`], unless it was called before.
    pub fn report_loss(&self) {
        let reported = self.reported.lock().take();
        if let Some(reported) = reported {
            reported();
        }
    }

    /// Returns the error for a lane that fails: that of [`Outbox::close`], if it was called.
    fn lost(&self, error: Error) -> Error {
        self.report_loss();
        self.closed().unwrap_or_else(|| self.name_loss(error))
    }

    /// Adds the peer's name, if it has one here, and the remedy to the error of a connection that ended.
    pub fn name_loss(&self, error: Error) -> Error {
        match self.peer_name.get() {
            Some(name) => error
                .in_front(name)
                .remedy("the nodes have lost each other; later copies between them take a new connection"),
            None => error,
        }
    }

    /// Adds a lane.
    pub fn add(&self, lane: SharedLane) {
        let mut state = self.lock();
        if state.pool.closed().is_some() {
            lane.shutdown();
        }
        state.lanes.push(lane);
        state.pool.add();
        drop(state);
        self.changed.notify_all();
    }

    /// Closes all lanes; transfers in flight and later ones fail with `error`.
    pub fn close(&self, error: &Error) {
        let mut state = self.lock();
        state.pool.close(error);
        for lane in &state.lanes {
            lane.shutdown();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether there are lanes.
    pub fn is_connected(&self) -> bool {
        !self.lock().pool.is_empty()
    }

    /// Whether a lane may be able to send from device memory: also `true` before the first lane.
    pub(super) fn may_send_native(&self) -> bool {
        self.lock().lanes.first().is_none_or(|lane| lane.remote_memory(MemoryKind::Device).is_some())
    }

    /// Whether a lane can send from device memory.
    pub(super) fn sends_native(&self) -> bool {
        self.lock().lanes.first().is_some_and(|lane| lane.remote_memory(MemoryKind::Device).is_some())
    }

    /// Sends bytes from device memory to a receive that the peer has posted. [`Outbox::await_posted`] follows.
    ///
    /// # Errors
    /// Returns an error if the peer is gone.
    pub(super) fn send_posted(&self, number: NonZeroU16, bytes: NativeRange) -> Result<Box<dyn PostedSend>> {
        let lane = self.lock().lanes.first().cloned();
        let memory = lane.as_ref().and_then(|lane| lane.remote_memory(MemoryKind::Device));
        let sent =
            memory.map_or_else(|| Err(ErrorKind::NotConnected.into()), |memory| memory.send_posted(number, bytes));
        sent.map_err(|error| self.lost(lost(&error)))
    }

    /// Blocks until the `len` bytes, which were sent since `begin`, are released. Returns whether they have landed, see
    /// [`PostedSend::wait`].
    ///
    /// # Errors
    /// Returns the errors of [`Outbox::send_posted`].
    pub(super) fn await_posted(&self, mut bytes: Box<dyn PostedSend>, len: u64, begin: Instant) -> Result<bool> {
        let _stalled = self.stats.stalls.begin();
        let landed = bytes.wait().map_err(|error| self.lost(lost(&error)))?;
        LinkStats::add_since(&self.stats.bulk_sent_ns, begin);
        LinkStats::add(&self.stats.bulk_sent, len);
        Ok(landed)
    }

    /// Returns the error with which the outbox was closed, if it was.
    pub fn closed(&self) -> Option<Error> {
        self.lock().pool.closed().cloned()
    }

    /// Takes a lane for a transfer of `len` bytes; blocks until one is free.
    ///
    /// # Errors
    /// Returns the outbox's error once it is closed.
    pub fn begin(self: &Arc<Self>, transfer: TransferId, len: u64) -> Result<Outgoing> {
        self.begin_ordered(transfer, len, None)
    }

    /// Begins a transfer as [`Outbox::begin`]. It must not overtake its stream's bytes [in flight](Outgoing::sent).
    ///
    /// # Errors
    /// Returns the errors of [`Outbox::begin`].
    pub(super) fn begin_ordered(
        self: &Arc<Self>,
        transfer: TransferId,
        len: u64,
        stream: Option<PushingStream>,
    ) -> Result<Outgoing> {
        let mut state = self.lock();
        loop {
            let PooledLanes { pool, on_way, .. } = &mut *state;
            let exposed = match stream.and_then(|stream| on_way.get(&stream)) {
                Some(PushesInFlight { lane, .. }) => pool.acquire_lane(*lane)?.then_some(*lane),
                None => pool.acquire()?,
            };
            if let Some(index) = exposed {
                return Ok(self.outgoing(&state, index, transfer, len));
            }
            state.waiting += 1;
            state = ShortGuard::wait(state, &self.changed);
            state.waiting -= 1;
        }
    }

    /// Takes a lane if one is free now.
    ///
    /// # Errors
    /// Returns the errors of [`Outbox::begin`].
    pub fn try_begin(self: &Arc<Self>, transfer: TransferId, len: u64) -> Result<Option<Outgoing>> {
        let mut state = self.lock();
        let index = state.pool.acquire()?;
        Ok(index.map(|index| self.outgoing(&state, index, transfer, len)))
    }

    fn outgoing(self: &Arc<Self>, state: &PooledLanes, index: usize, transfer: TransferId, len: u64) -> Outgoing {
        let lane = state.lanes[index].clone();
        Outgoing { lane, outbox: self.clone(), index, transfer, len, sent: 0, failed: None }
    }

    fn lock(&self) -> ShortGuard<'_, PooledLanes> {
        self.state.lock()
    }
}

/// A transfer that was sent and has not landed. Until it is dropped, the stream's next transfers use its lane, which keeps
/// their order.
pub(super) struct Sent {
    outbox: Arc<Outbox>,
    stream: Option<PushingStream>,
}

impl Drop for Sent {
    fn drop(&mut self) {
        let Some(stream) = self.stream else { return };
        let mut state = self.outbox.lock();
        if let Some(on_way) = state.on_way.get_mut(&stream) {
            on_way.count -= 1;
            if on_way.count == 0 {
                state.on_way.remove(&stream);
            }
        }
    }
}

/// A transfer being sent. It occupies its lane until it is dropped. A drop before its last byte sends an abort.
pub struct Outgoing {
    lane: SharedLane,
    outbox: Arc<Outbox>,
    index: usize,
    transfer: TransferId,
    len: u64,
    sent: u64,
    failed: Option<Error>,
}

impl Outgoing {
    /// Sends the next bytes.
    ///
    /// # Errors
    /// Returns an error if the lane fails, or the bytes exceed the announced length.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let longest = chunk_len(&*self.lane, bytes.len()).max(1);
        let mut pieces = bytes.chunks(longest);
        pieces.try_for_each(|piece| {
            self.send_chunk(piece.len(), |lane, chunk, stalls| write_chunk(lane, chunk, piece, stalls))
        })
    }

    /// Whether all bytes were sent.
    pub(super) fn is_complete(&self) -> bool {
        self.sent == self.len
    }

    /// Releases the lane after all bytes were sent.
    pub(super) fn sent(self, stream: Option<PushingStream>) -> Sent {
        let outbox = self.outbox.clone();
        if let Some(stream) = stream {
            let on_way = &mut outbox.lock().on_way;
            on_way.entry(stream).or_insert(PushesInFlight { lane: self.index, count: 0 }).count += 1;
        }
        Sent { outbox, stream }
    }

    /// Whether [`Outgoing::send_native`] can send the rest, and is the fastest way.
    pub fn sends_native(&self) -> bool {
        CopyWay::DeviceMpi.takes_offered(self.len - self.sent) && self.lane.remote_memory(MemoryKind::Device).is_some()
    }

    /// Sends the next bytes from device memory, over a lane that supports this.
    ///
    /// # Errors
    /// Returns the errors of [`Outgoing::send`].
    pub fn send_native(&mut self, bytes: NativeRange) -> Result<()> {
        let pieces = (0..bytes.len).step_by(EXPOSED_MAX);
        for piece in pieces.filter_map(|offset| bytes.part(offset, EXPOSED_MAX.min(bytes.len - offset))) {
            self.send_chunk(piece.len, |lane, chunk, stalls| write_native_chunk(lane, chunk, piece, stalls))?;
        }
        Ok(())
    }

    fn send_chunk(&mut self, len: usize, write: impl FnOnce(&dyn Lane, Chunk, &Stalls) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.sent + len as u64 > self.len {
            return Err(Error::new(ErrorCode::ImplementationDefined, "a transfer sent too many bytes"));
        }
        let chunk = Chunk { kind: ChunkKind::Data, transfer: self.transfer, offset: self.sent, len };
        let begin = Instant::now();
        let written = write(&*self.lane, chunk, &self.outbox.stats.stalls);
        LinkStats::add_since(&self.outbox.stats.bulk_sent_ns, begin);
        if let Err(error) = written {
            let error = self.outbox.lost(error);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.sent += len as u64;
        LinkStats::add(&self.outbox.stats.bulk_sent, (len + HEADER_LEN) as u64);
        Ok(())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if self.failed.is_none() && self.sent < self.len {
            let chunk = Chunk { kind: ChunkKind::Abort, transfer: self.transfer, offset: self.sent, len: 0 };
            // If this fails the receiver is gone.
            let _ = write_chunk(&*self.lane, chunk, &[], &self.outbox.stats.stalls);
        }
        let mut state = self.outbox.lock();
        state.pool.give_back(self.index);
        // Notifying costs a system call even if no thread waits.
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            // A waiter may need this particular lane, so that all are woken.
            self.outbox.changed.notify_all();
        }
    }
}

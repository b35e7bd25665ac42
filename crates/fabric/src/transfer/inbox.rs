//! The receiving side of lanes. A thread per lane reads headers. A transfer's receiver reads its bytes from the socket
//! straight to their destination, while the lane's thread waits.

use super::chunk_io::{broken, ended, read_bytes, read_chunk, read_native};
use crate::copy_way::CopyWay;
use crate::frame::transfer::{CHUNK_MAX, Chunk, ChunkKind, HEADER_LEN};
use crate::stats::LinkStats;
use crate::transport::{Lane, MemoryKind, SharedLane};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::Signal;
use accord_types::spin_policy::SpinPolicy;
use accord_types::{Error, ErrorCode, NativeRange, Result, TransferId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar};
use std::time::Instant;

/// Most transfers whose bytes are discarded if they arrive. Most never do, because their stream has failed before. Beyond
/// this the oldest is removed, and bytes of it break the protocol.
const DISCARDED_MAX: usize = 1 << 16;

/// Called with a transfer when its first chunk has arrived, on the lane's thread. The callee may read the bytes at once, or
/// pass the transfer to another thread. The lane waits until the transfer is dropped.
pub type Receive = Box<dyn FnOnce(Incoming) + Send>;

/// The transfers expected from one peer.
pub struct Inbox {
    state: ShortLock<Posted>,
    posted: Condvar,
    stats: Arc<LinkStats>,
    /// Whether a chunk may arrive before its transfer is posted.
    long_spin: bool,
}

#[derive(Default)]
struct Posted {
    transfers: HashMap<TransferId, (u64, Receive)>,
    /// The transfers of `transfers` that are discarded: at most [`DISCARDED_MAX`].
    discarded: BTreeSet<TransferId>,
    closed: bool,
    /// Number of lanes that wait for a transfer to be posted.
    waiting: usize,
}

impl Inbox {
    /// Creates an empty inbox. With `long_spin` a lane waits for its transfer to be posted; without it a chunk of an
    /// unknown transfer breaks the protocol.
    pub fn new(stats: Arc<LinkStats>, long_spin: bool) -> Arc<Self> {
        Arc::new(Self { state: ShortLock::default(), posted: Condvar::new(), stats, long_spin })
    }

    /// Expects a transfer of `len` bytes, more than 0. Does nothing once the inbox is closed.
    pub fn post(&self, transfer: TransferId, len: u64, receive: Receive) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.transfers.insert(transfer, (len, receive));
        // Notifying costs a system call even if no thread waits.
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.posted.notify_all();
        }
    }

    /// Removes a transfer of which no byte was or will be sent.
    pub fn forget(&self, transfer: TransferId) {
        let mut state = self.lock();
        state.discarded.remove(&transfer);
        let forgotten = state.transfers.remove(&transfer);
        drop(state);
        // Dropped without the lock, because it may hold the last reference to its device.
        drop(forgotten);
    }

    /// Removes a transfer of which `bytes` bytes have arrived by other means than a lane.
    pub fn complete_without_lane(&self, transfer: TransferId, bytes: u64) {
        self.forget(transfer);
        LinkStats::add(&self.stats.bulk_received, bytes);
    }

    /// Discards the transfer's bytes if they arrive.
    pub fn discard(&self, transfer: TransferId) {
        let mut state = self.lock();
        let Posted { transfers, discarded, .. } = &mut *state;
        let Some((_, receive)) = transfers.get_mut(&transfer) else { return };
        let no_more = std::mem::replace(receive, Box::new(drop));
        discarded.insert(transfer);
        if discarded.len() > DISCARDED_MAX
            && let Some(oldest) = discarded.pop_first()
        {
            transfers.remove(&oldest);
        }
        drop(state);
        drop(no_more);
    }

    /// Ends the waits of lanes, and drops expected transfers.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.transfers);
        drop(state);
        drop(dropped);
        self.posted.notify_all();
    }

    /// Returns the number of expected transfers.
    pub fn len(&self) -> usize {
        self.lock().transfers.len()
    }

    /// Whether no transfer is expected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a lane until it ends.
    ///
    /// # Errors
    /// Returns an error if the lane fails or the peer breaks the protocol.
    pub fn serve(&self, lane: &SharedLane) -> Result<()> {
        let mut spin = SpinPolicy::default();
        while let Some(chunk) = read_chunk(&**lane)? {
            if !matches!(chunk.kind, ChunkKind::Data | ChunkKind::Abort) || chunk.offset != 0 {
                return Err(broken("a transfer did not begin with its first chunk"));
            }
            let Some((len, receive)) = self.take(chunk.transfer)? else { return Ok(()) };
            let lane_return = Arc::new(LaneReturn::default());
            let mut incoming = Incoming {
                lane: lane.clone(),
                lane_return: lane_return.clone(),
                progress: Progress { transfer: chunk.transfer, len, received: 0, chunk_left: 0, aborted: false },
                stats: self.stats.clone(),
                failed: None,
            };
            incoming.begin(chunk)?;
            receive(incoming);
            lane_return.wait(&mut spin)?.discard(&**lane, &self.stats)?;
        }
        Ok(())
    }

    /// Returns the receiver of a transfer, or `None` if the inbox was closed meanwhile.
    fn take(&self, transfer: TransferId) -> Result<Option<(u64, Receive)>> {
        let mut state = self.lock();
        loop {
            if let Some(found) = state.transfers.remove(&transfer) {
                state.discarded.remove(&transfer);
                return Ok(Some(found));
            }
            if state.closed {
                return Ok(None);
            }
            if !self.long_spin {
                return Err(broken(&format!("bytes of an unknown transfer {transfer} came")));
            }
            state.waiting += 1;
            state = ShortGuard::wait(state, &self.posted);
            state.waiting -= 1;
        }
    }

    fn lock(&self) -> ShortGuard<'_, Posted> {
        self.state.lock()
    }
}

/// The part of a transfer that has arrived on its lane.
struct Progress {
    transfer: TransferId,
    len: u64,
    received: u64,
    /// Bytes of the current chunk that were not read yet.
    chunk_left: usize,
    aborted: bool,
}

impl Progress {
    /// Applies a header, which must be the transfer's next.
    fn next(&mut self, chunk: Chunk) -> Result<()> {
        if chunk.transfer != self.transfer || chunk.offset != self.received {
            return Err(broken(&format!("a chunk of transfer {} came within {}", chunk.transfer, self.transfer)));
        }
        match chunk.kind {
            ChunkKind::Data if chunk.len > 0 && chunk.len as u64 <= self.len - self.received => {
                self.chunk_left = chunk.len;
                Ok(())
            }
            ChunkKind::Abort => {
                self.aborted = true;
                Ok(())
            }
            _ => Err(broken("a chunk does not fit its transfer")),
        }
    }

    /// Reads the rest of the transfer and discards it.
    fn discard(mut self, lane: &dyn Lane, stats: &LinkStats) -> Result<()> {
        let mut waste = Vec::new();
        while self.received < self.len && !self.aborted {
            if self.chunk_left == 0 {
                let chunk = read_chunk(lane)?.ok_or_else(ended)?;
                LinkStats::add(&stats.bulk_received, HEADER_LEN as u64);
                self.next(chunk)?;
                continue;
            }
            let piece = self.chunk_left.min(CHUNK_MAX);
            waste.resize(piece, 0);
            read_bytes(lane, &mut waste)?;
            LinkStats::add(&stats.bulk_received, piece as u64);
            self.received += piece as u64;
            self.chunk_left -= piece;
        }
        Ok(())
    }
}

/// Gives a lane back to its thread.
#[derive(Default)]
struct LaneReturn {
    back: ShortLock<Option<Result<Progress>>>,
    returned: Signal,
}

impl LaneReturn {
    fn wait(&self, spin: &mut SpinPolicy) -> Result<Progress> {
        let mut back = self.back.lock();
        loop {
            if let Some(progress) = back.take() {
                return progress;
            }
            back = self.returned.spin_then_wait(&self.back, back, None, spin);
        }
    }
}

/// A transfer being received. It occupies its lane until it is dropped.
pub struct Incoming {
    lane: SharedLane,
    lane_return: Arc<LaneReturn>,
    progress: Progress,
    stats: Arc<LinkStats>,
    failed: Option<Error>,
}

impl Incoming {
    /// Returns the number of bytes of the transfer.
    pub fn total(&self) -> u64 {
        self.progress.len
    }

    /// Whether the sender has aborted the transfer.
    pub fn aborted(&self) -> bool {
        self.progress.aborted
    }

    /// Reads the next bytes into `piece`.
    ///
    /// # Errors
    /// Returns an error if the lane fails, the sender aborts, or `piece` exceeds the transfer.
    pub fn fill(&mut self, mut piece: &mut [u8]) -> Result<()> {
        while !piece.is_empty() {
            let n = self.next_bytes()?.min(piece.len());
            let (now, later) = std::mem::take(&mut piece).split_at_mut(n);
            piece = later;
            self.read(|lane| read_bytes(lane, now).map(|()| n))?;
        }
        Ok(())
    }

    /// Whether [`Incoming::fill_native`] may receive bytes.
    pub fn fills_native(&self) -> bool {
        CopyWay::DeviceMpi.takes_offered(self.progress.len) && self.lane.remote_memory(MemoryKind::Device).is_some()
    }

    /// Reads the next contiguous bytes into device memory, and returns their number, or 0 if [`Incoming::fill`] has to read
    /// them.
    ///
    /// # Errors
    /// Returns the errors of [`Incoming::fill`].
    pub fn fill_native(&mut self, space: NativeRange) -> Result<usize> {
        let n = self.next_bytes()?.min(space.len);
        self.read(|lane| Ok(read_native(lane, NativeRange { len: n, ..space })?.unwrap_or(0)))
    }

    /// Returns the number of bytes left in the current chunk, or in the next one if there are none.
    fn next_bytes(&mut self) -> Result<usize> {
        loop {
            if self.progress.aborted {
                return Err(Error::new(ErrorCode::Execution, "the sender of a copy failed"));
            }
            if self.progress.received == self.progress.len {
                return Err(Error::new(ErrorCode::ImplementationDefined, "a copy wants more than its transfer has"));
            }
            if self.progress.chunk_left > 0 {
                return Ok(self.progress.chunk_left);
            }
            let chunk = read_chunk(&*self.lane).and_then(|chunk| chunk.ok_or_else(ended));
            let begun = chunk.and_then(|chunk| self.begin(chunk));
            self.failing(begun)?;
        }
    }

    /// Calls `read` for bytes of the current chunk; returns how many it has read.
    fn read(&mut self, read: impl FnOnce(&dyn Lane) -> Result<usize>) -> Result<usize> {
        let begin = Instant::now();
        let n = read(&*self.lane);
        let n = self.failing(n)?;
        LinkStats::add_since(&self.stats.bulk_received_ns, begin);
        self.progress.chunk_left -= n;
        self.progress.received += n as u64;
        LinkStats::add(&self.stats.bulk_received, n as u64);
        Ok(n)
    }

    /// Keeps an error for the lane's thread as well.
    fn failing<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.failed.get_or_insert_with(|| error.clone());
        }
        outcome
    }

    fn begin(&mut self, chunk: Chunk) -> Result<()> {
        LinkStats::add(&self.stats.bulk_received, HEADER_LEN as u64);
        self.progress.next(chunk)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Progress { transfer, len, received, chunk_left, aborted } = self.progress;
        let back = match self.failed.take() {
            None => Ok(Progress { transfer, len, received, chunk_left, aborted }),
            Some(error) => Err(error),
        };
        let mut returned = self.lane_return.back.lock();
        *returned = Some(back);
        self.lane_return.returned.raise();
        drop(returned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may repeatedly shut devices down while their bytes are expected.
    #[test]
    fn discarded_transfers_are_bounded() {
        let inbox = Inbox::new(Arc::default(), false);
        let most = DISCARDED_MAX as u64;
        for transfer in (0..most + 5).map(TransferId) {
            inbox.post(transfer, 1, Box::new(drop));
            inbox.discard(transfer);
        }
        assert_eq!(inbox.len(), DISCARDED_MAX);
        // Expected transfers stay, and those received no longer count.
        inbox.post(TransferId(1), 1, Box::new(drop));
        assert!(inbox.take(TransferId(0)).is_err() && inbox.take(TransferId(5)).is_ok());
        inbox.post(TransferId(most + 5), 1, Box::new(drop));
        inbox.discard(TransferId(most + 5));
        assert!(inbox.take(TransferId(1)).is_ok() && inbox.take(TransferId(6)).is_ok());
    }
}

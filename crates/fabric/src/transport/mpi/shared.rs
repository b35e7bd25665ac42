//! State shared by the lanes of a rank and the thread that owns MPI.

use super::cache_padded::CachePadded;
use super::exposed_buffers::ExposedPart;
use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use super::intake::{Intake, ShortWriteSpace};
use super::mailbox::Mailbox;
use super::message::LaneKey;
use super::posts::Posts;
use super::streams::Streams;
use crate::transport::lane::{Lane, SharedLane};
use accord_types::NodeId;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::signal::Signal;
use accord_types::spin_policy::SpinPolicy;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Most nodes that one rank may announce, because successive coordinators may number it differently.
const NODES_OF_A_RANK_MAX: usize = 16;

/// State shared by the lanes and the thread.
#[derive(Debug)]
pub(super) struct Shared {
    state: ShortLock<LaneTable>,
    /// Raised when there is something to send, or the thread has to stop.
    pub(super) work: Signal,
    /// Set with `work`. The thread clears it before it reads the queues.
    pub(super) has_work: CachePadded<AtomicBool>,
    /// Whether the thread sleeps, or is about to. Changed with the table locked.
    pub(super) sleeps: CachePadded<AtomicBool>,
    pub(super) intake: Intake,
    /// Raised when another rank has opened a lane, a rank has announced its node, or the world has ended.
    pub(super) news: Signal,
    pub(super) counts: Counters,
    /// Whether device memory may be passed to MPI.
    native: AtomicBool,
}

/// Counters for tests and for diagnosis.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) messages: AtomicU64,
    pub(super) exposed_messages: AtomicU64,
    pub(super) exposed_bytes: AtomicU64,
    pub(super) news: AtomicU64,
    pub(super) passed: AtomicU64,
    pub(super) handed: AtomicU64,
    /// Bytes copied. On cache lines of their own, because the lanes' threads update them.
    pub(super) copied_bytes: CachePadded<AtomicU64>,
}

/// The values of a rank's counters at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages sent, without those of exposed buffers.
    pub messages: u64,
    /// Messages of exposed buffers sent.
    pub exposed_messages: u64,
    /// Bytes of these messages.
    pub exposed_bytes: u64,
    /// Bytes that lanes have copied into messages or out of them.
    pub copied_bytes: u64,
    /// Wake-ups of threads that wait for a lane or for a rank's node.
    pub news: u64,
    /// Messages that the receiving thread has forwarded to another lane.
    pub passed: u64,
    /// Messages that bypassed the table on the way to a lane's reader.
    pub handed: u64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            messages: read(&self.messages),
            exposed_messages: read(&self.exposed_messages),
            exposed_bytes: read(&self.exposed_bytes),
            copied_bytes: read(&self.copied_bytes),
            news: read(&self.news),
            passed: read(&self.passed),
            handed: read(&self.handed),
        }
    }
}

/// The part of a lane's state that is used without the table.
#[derive(Debug, Default)]
pub(super) struct LaneEnd {
    /// Wakes the lane's reader and writer.
    pub(super) changed: Signal,
    /// Whether short writes may bypass the table.
    pub(super) roomy: ShortWriteSpace,
    pub(super) mailbox: Mailbox,
}

#[derive(Debug)]
pub(super) struct LaneTable {
    pub(super) streams: Streams,
    /// The state that lanes' readers and writers use without the table.
    pub(super) ends: BTreeMap<LaneKey, Arc<LaneEnd>>,
    /// Exposed buffers of lanes' writers.
    pub(super) exposed: BTreeMap<LaneKey, SendBuffer>,
    /// Receive buffers of lanes' readers. By lane, not by tag: a tag may belong to another lane before the reader learns that
    /// its buffer is filled.
    pub(super) receives: BTreeMap<LaneKey, ReceiveBuffer>,
    /// Posted receives, and sends to those of other ranks.
    pub(super) posts: Posts,
    /// The lanes to which all bytes of a lane are forwarded, in order.
    pub(super) onward: BTreeMap<LaneKey, Weak<dyn Lane>>,
    /// The rank of each announced node: at most [`NODES_OF_A_RANK_MAX`] nodes of one rank.
    pub(super) ranks: BTreeMap<NodeId, u32>,
    /// Lanes from this machine to this rank that were not accepted yet.
    pub(super) brought: VecDeque<SharedLane>,
    pub(super) stopping: bool,
    pub(super) ended: Option<String>,
    pub(super) has_left: bool,
}

impl Shared {
    pub(super) fn new() -> Self {
        let state = LaneTable {
            streams: Streams::default(),
            ends: BTreeMap::new(),
            exposed: BTreeMap::new(),
            receives: BTreeMap::new(),
            posts: Posts::default(),
            onward: BTreeMap::new(),
            ranks: BTreeMap::new(),
            brought: VecDeque::new(),
            stopping: false,
            ended: None,
            has_left: false,
        };
        Self {
            state: ShortLock::new(state),
            work: Signal::default(),
            has_work: CachePadded::default(),
            sleeps: CachePadded::default(),
            intake: Intake::default(),
            news: Signal::default(),
            counts: Counters::default(),
            native: AtomicBool::new(false),
        }
    }

    pub(super) fn take_native(&self) {
        self.native.store(true, Ordering::Release);
    }

    pub(super) fn takes_native(&self) -> bool {
        self.native.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> ShortGuard<'_, LaneTable> {
        self.state.lock()
    }

    /// Waits as [`Signal::spin_then_wait`].
    pub(super) fn spin_then_wait<'a>(
        &'a self,
        signal: &Signal,
        table: ShortGuard<'a, LaneTable>,
        spin: &mut SpinPolicy,
    ) -> ShortGuard<'a, LaneTable> {
        signal.spin_then_wait(&self.state, table, None, spin)
    }

    /// Locks the table, and applies all queued short writes. For callers that write more or end a lane.
    pub(super) fn lock_to_write(&self) -> ShortGuard<'_, LaneTable> {
        let mut state = self.lock();
        state.take_in(&self.intake);
        state
    }

    /// Wakes the waiters of changed lanes, and the thread.
    pub(super) fn has_changed(&self, mut state: ShortGuard<'_, LaneTable>) {
        state.wake();
        if !self.has_work.swap(true, Ordering::SeqCst) {
            self.work.raise();
        }
        drop(state);
    }

    /// Queues a short write that bypasses the table. Returns `false` if the caller must write it with the table locked.
    pub(super) fn hand_in(&self, key: LaneKey, parts: &[IoSlice<'_>]) -> bool {
        let taken = self.intake.put(key, parts);
        // The thread sets `sleeps` before its last check of the queue.
        if taken && self.sleeps.load(Ordering::SeqCst) {
            let state = self.lock();
            self.work.raise();
            drop(state);
        }
        taken
    }
}

impl LaneTable {
    /// Applies the queued short writes to their lanes.
    pub(super) fn take_in(&mut self, intake: &Intake) {
        let Self { streams, ends, .. } = self;
        intake.take_each(|key, message| {
            // The next write returns any error.
            let taken = streams.take_write(key, message);
            if let Some(end) = ends.get(&key) {
                end.roomy.set(taken.ok().and_then(|()| streams.queued(key)));
            }
        });
    }

    /// Wakes the readers and writers of changed lanes, and the owners of released buffers.
    pub(super) fn wake(&mut self) {
        self.end_posts();
        for key in self.streams.take_woken() {
            if let Some(end) = self.ends.get(&key) {
                end.changed.raise();
            }
        }
    }

    /// Moves the message that was just received to its reader's mailbox, if it is short enough.
    pub(super) fn hand_over(&mut self, counts: &Counters) {
        let Self { streams, ends, .. } = self;
        streams.hand_over(|key, bytes| {
            let Some(end) = ends.get(&key).filter(|end| end.mailbox.put(bytes)) else { return false };
            end.changed.wake();
            Counters::add(&counts.handed, 1);
            true
        });
    }

    /// Returns the address of bytes to send.
    pub(super) fn bytes_of(&self, part: &ExposedPart) -> Option<SendBuffer> {
        if part.is_posted {
            return self.posts.bytes_of(part.id);
        }
        self.exposed.get(&part.lane)?.part(part.offset, part.len)
    }

    /// Records that a rank has announced its node.
    ///
    /// # Errors
    /// Returns `InvalidData` if the rank has announced too many nodes.
    pub(super) fn is_node(&mut self, rank: u32, node: NodeId) -> io::Result<()> {
        let known = self.ranks.values().filter(|known| **known == rank).count();
        if known >= NODES_OF_A_RANK_MAX && self.ranks.get(&node) != Some(&rank) {
            return Err(io::Error::new(ErrorKind::InvalidData, "a rank says to be one node after the other"));
        }
        self.ranks.insert(node, rank);
        Ok(())
    }

    pub(super) fn check(&self) -> io::Result<()> {
        self.ended.as_ref().map_or(Ok(()), |why| Err(io::Error::new(ErrorKind::BrokenPipe, why.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_no_more_nodes_than_it_may_be() {
        let shared = Shared::new();
        let mut table = shared.lock();
        let most = u32::try_from(NODES_OF_A_RANK_MAX).unwrap();
        for rank in 0..3 {
            (0..most).for_each(|node| table.is_node(rank, NodeId(rank * most + node)).unwrap());
        }
        // Repeated announcements are allowed, also for a node that another rank has taken over.
        table.is_node(1, NodeId(most)).unwrap();
        assert!(table.is_node(1, NodeId(0)).is_err() && table.is_node(2, NodeId(1 << 19)).is_err());
        assert_eq!(table.ranks.len(), 3 * NODES_OF_A_RANK_MAX);
    }
}

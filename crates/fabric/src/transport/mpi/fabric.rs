//! The thread that owns MPI's world of ranks, and the calls that other threads make to it.

use super::backoff::{Backoff, Pause};
use super::lane::MpiLane;
use super::message::{HEADER_LEN, LaneKey};
use super::shared::{Counters, Counts, LaneEnd, LaneTable, Shared};
use super::streams::OPENED_MAX;
use super::world::{ReceivedItem, World};
use crate::transport::lane::SharedLane;
use accord_types::NodeId;
use accord_types::short_lock::ShortGuard;
use accord_types::threads;
use std::io::{self, ErrorKind, IoSlice};
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// Most messages in flight from this rank.
const SENDS_MAX: usize = 32;
/// Most messages of exposed buffers in flight from this rank.
const EXPOSED_SENDS_MAX: usize = 32;
/// Most messages that are received before the thread does other work.
const BATCH: usize = 32;
/// Polls per yield of the core, which takes longer than a poll.
const POLLS: u32 = 8;
/// The slack by which the system may end the thread's sleeps late.
const TIMER_SLACK_NS: u64 = 1_000;
/// Longest wait for leaving the world, which other ranks may delay.
const STOP_MAX: Duration = Duration::from_millis(400);
/// Longest time to send queued messages when the fabric stops.
const DRAIN_MAX: Duration = Duration::from_millis(200);

/// This process's rank in a world. Its lanes live as long as it does.
#[derive(Debug)]
pub struct MpiFabric {
    shared: Arc<Shared>,
    rank: u32,
    size: u32,
}

/// The world of which this process is a rank. There is at most one, as with MPI itself.
static OWN: OnceLock<Arc<MpiFabric>> = OnceLock::new();

/// Makes this process open its lanes to other nodes from this rank.
pub fn belong_to(fabric: &Arc<MpiFabric>) {
    // The first call wins.
    let _ = OWN.set(fabric.clone());
}

/// Returns the fabric set by [`belong_to`].
pub(in crate::transport) fn own() -> Option<&'static Arc<MpiFabric>> {
    OWN.get()
}

impl MpiFabric {
    /// Starts the thread that owns MPI and joins the world by `open`.
    ///
    /// # Errors
    /// Returns the error of `open`, or the system's if it can't start a thread.
    pub fn start(open: impl FnOnce() -> io::Result<Box<dyn World>> + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::new());
        let (opened, is_open) = mpsc::channel();
        let of_thread = shared.clone();
        threads::spawn("accord-mpi", move || match open() {
            Ok(mut world) => {
                // The caller of `start` waits for this message.
                let _ = opened.send(Ok((world.rank(), world.size())));
                let why = match threads::caught(|| of_thread.drive(&mut *world)) {
                    Ok(Ok(())) => "it was stopped".to_owned(),
                    Ok(Err(error)) => error.to_string(),
                    // Without the call of `end` below, lanes would block for ever.
                    Err(panic) => panic.to_string(),
                };
                of_thread.end(&why);
                drop(world);
                of_thread.has_left();
            }
            Err(error) => drop(opened.send(Err(error))),
        })?;
        let (rank, size) = is_open.recv().map_err(|_| io::Error::from(ErrorKind::BrokenPipe))??;
        Ok(Self { shared, rank, size })
    }

    /// Allows device memory to be passed to MPI. The caller has tested that MPI supports it.
    pub fn take_native(&self) {
        self.shared.take_native();
    }

    /// Whether device memory may be passed to MPI.
    pub fn takes_native(&self) -> bool {
        self.shared.takes_native()
    }

    /// Returns this process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the counts of messages sent and bytes copied so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts.read()
    }

    /// Opens a lane to a rank. A rank that is gone is noticed only when the lane is used.
    ///
    /// # Errors
    /// Returns an error if there are too many lanes, or the world has ended.
    pub fn connect(&self, rank: u32) -> io::Result<SharedLane> {
        Ok(self.open(rank)?)
    }

    /// Opens a lane as [`MpiFabric::connect`].
    pub(in crate::transport) fn open(&self, rank: u32) -> io::Result<Arc<MpiLane>> {
        if rank >= self.size {
            return Err(io::Error::new(ErrorKind::NotFound, format!("there is no rank {rank}")));
        }
        let mut state = self.shared.lock();
        state.check()?;
        let key = state.streams.open(rank)?;
        let lane = self.lane(&mut state, key);
        self.shared.has_changed(state);
        Ok(lane)
    }

    /// Queues a lane from a process of this machine to this rank. [`MpiFabric::accept`] returns it as it does a rank's lane.
    ///
    /// # Errors
    /// Returns `WouldBlock` if too many such lanes are queued, and an error if the world has ended.
    pub fn bring(&self, lane: SharedLane) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.check()?;
        if state.brought.len() >= OPENED_MAX {
            return Err(io::Error::new(ErrorKind::WouldBlock, "too many lanes wait for this node's agent"));
        }
        state.brought.push_back(lane);
        self.shared.news.raise();
        drop(state);
        Ok(())
    }

    /// Blocks until another rank opens a lane, and returns the lane and the rank.
    ///
    /// # Errors
    /// Returns an error if the world has ended.
    pub fn accept(&self) -> io::Result<(SharedLane, u32)> {
        let mut state = self.shared.lock();
        loop {
            if let Some(lane) = state.brought.pop_front() {
                return Ok((lane, self.rank));
            }
            if let Some(key) = state.streams.next_opened() {
                return Ok((self.lane(&mut state, key), key.peer));
            }
            state.check()?;
            state = self.shared.news.wait(state, None)?;
        }
    }

    fn lane(&self, state: &mut LaneTable, key: LaneKey) -> Arc<MpiLane> {
        let end = Arc::<LaneEnd>::default();
        state.ends.insert(key, end.clone());
        Arc::new(MpiLane::new(self.shared.clone(), key, end))
    }

    /// Sends this rank's node to all ranks.
    pub fn announce(&self, node: NodeId) {
        let mut state = self.shared.lock();
        for rank in 0..self.size {
            state.streams.notify_node(rank, node.0);
        }
        self.shared.has_changed(state);
    }

    /// Returns the rank of a node. Blocks for at most `limit` until the rank announces its node.
    pub fn rank_of(&self, node: NodeId, limit: Duration) -> Option<u32> {
        let known = |state: &LaneTable| state.ranks.contains_key(&node) || state.ended.is_some();
        self.await_update(limit, known).ranks.get(&node).copied()
    }

    /// Blocks for at most `limit` until a rank announces its node. Returns whether it has.
    pub fn await_rank(&self, rank: u32, limit: Duration) -> bool {
        let known = |state: &LaneTable| state.ranks.values().any(|known| *known == rank);
        known(&self.await_update(limit, |state| known(state) || state.ended.is_some()))
    }

    /// Blocks until each rank has announced its node, or the world has ended.
    pub fn await_ranks(&self) {
        let mut state = self.shared.lock();
        while state.ranks.len() < self.size as usize && state.ended.is_none() {
            match self.shared.news.wait(state, None) {
                Ok(news) => state = news,
                Err(_) => return,
            }
        }
    }

    /// Returns the locked table once `wanted` holds, or after `limit`.
    fn await_update(&self, limit: Duration, wanted: impl Fn(&LaneTable) -> bool) -> ShortGuard<'_, LaneTable> {
        let end = Some(Instant::now() + limit);
        loop {
            let state = self.shared.lock();
            if wanted(&state) {
                return state;
            }
            match self.shared.news.wait(state, end) {
                Ok(state) if wanted(&state) => return state,
                Ok(_) => {}
                Err(_) => return self.shared.lock(),
            }
        }
    }

    /// Sends queued messages and leaves the world. Blocks until that is done, or for a bounded time.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.has_changed(state);
        drop(self.await_update(STOP_MAX, |state| state.has_left));
    }
}

impl Drop for MpiFabric {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The result of a pass that sends queued messages.
#[derive(Clone, Copy, Default)]
struct SendPass {
    sent: bool,
    /// Whether more may be queued than could be sent.
    full: bool,
    stopping: bool,
}

impl Shared {
    /// Sends and receives until the fabric is stopped.
    fn drive(&self, world: &mut dyn World) -> io::Result<()> {
        // By default the system doubles the shortest sleeps. If it refuses, they stay so.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
        let (mut last, mut backoff) = (Instant::now(), Backoff::default());
        let mut swept = false;
        let mut stop_at: Option<Instant> = None;
        // Set by conditions that create work without a notification.
        let mut asks = true;
        let mut looks = 0;
        loop {
            let turn = if asks || self.has_work() { self.send(world)? } else { SendPass::default() };
            let received = self.receive(world)?;
            asks = received || turn.full || turn.stopping;
            if turn.stopping {
                let end = *stop_at.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
                if (!turn.sent && world.sending() == (0, 0)) || Instant::now() >= end {
                    return Ok(());
                }
            }
            if turn.sent || received {
                let now = Instant::now();
                backoff.ends(now - last);
                last = now;
                swept = false;
                continue;
            }
            let now = Instant::now();
            match backoff.pause(now - last, world.moves_exposed()) {
                Pause::Yield => {
                    looks += 1;
                    if looks % POLLS != 0 {
                        continue;
                    }
                    std::thread::yield_now();
                    backoff.has_yielded(now.elapsed());
                }
                Pause::Sleep(time) => {
                    let mut state = self.lock();
                    if !std::mem::replace(&mut swept, true) {
                        state.streams.sweep();
                        asks = true;
                        continue;
                    }
                    self.sleeps.store(true, Ordering::SeqCst);
                    if !self.has_work() {
                        // The thread polls after the sleep and after a notification alike.
                        drop(self.work.wait(state, Some(Instant::now() + time)));
                    }
                    self.sleeps.store(false, Ordering::SeqCst);
                }
            }
        }
    }

    fn has_work(&self) -> bool {
        self.has_work.load(Ordering::SeqCst) || !self.intake.is_empty()
    }

    /// Sends as many messages as the bounds allow.
    fn send(&self, world: &mut dyn World) -> io::Result<SendPass> {
        let (sending, of_exposed) = world.sending();
        let (space, receive_buffer) =
            (SENDS_MAX.saturating_sub(sending - of_exposed), EXPOSED_SENDS_MAX.saturating_sub(of_exposed));
        let (mut messages, mut exposed) = (Vec::new(), Vec::new());
        // Cleared before the queues are read, so that later writes are noticed.
        self.has_work.store(false, Ordering::SeqCst);
        let mut state = self.lock_to_write();
        // Requested bytes of exposed buffers precede the message that ends their lane.
        while exposed.len() < receive_buffer
            && let Some(part) = state.streams.next_exposed()
        {
            let bytes = state
                .bytes_of(&part)
                .ok_or_else(|| io::Error::other("a lane has exposed memory that it does not have"))?;
            exposed.push((part, bytes));
        }
        while messages.len() < space
            && let Some(message) = state.streams.next_message()
        {
            messages.push(message);
        }
        state.wake();
        let stopping = state.stopping;
        drop(state);
        let full = messages.len() == space || exposed.len() == receive_buffer;
        let sent = !messages.is_empty() || !exposed.is_empty();
        Counters::add(&self.counts.messages, messages.len());
        for (part, bytes) in exposed {
            Counters::add(&self.counts.exposed_messages, 1);
            Counters::add(&self.counts.exposed_bytes, bytes.len());
            world.send_exposed(part.to, part.tag, bytes, part.id)?;
        }
        for outgoing in messages {
            world.send(outgoing.to, outgoing.message)?;
        }
        Ok(SendPass { sent, full, stopping })
    }

    /// Receives messages that have arrived. Returns whether there were any. Wakes a message's waiter before the next poll of MPI.
    fn receive(&self, world: &mut dyn World) -> io::Result<bool> {
        for taken in 0..BATCH {
            let Some(received) = world.receive(&mut |from, tag, len| self.lock().space_for(from, tag, len))? else {
                return Ok(taken > 0);
            };
            let mut state = self.lock();
            let mut has_update = false;
            match received {
                ReceivedItem::Filled(tag) => {
                    state.streams.received(tag);
                    state.posts.received(tag);
                }
                ReceivedItem::Sent(id) => state.streams.was_sent(id),
                ReceivedItem::Message(from, message) => {
                    if let Some(node) = state.streams.receive(from, message)? {
                        state.is_node(from, NodeId(node))?;
                        has_update = true;
                    }
                }
            }
            state.hand_over(&self.counts);
            state.wake();
            // Not raised for each message: the thread that accepts lanes always waits, and waking it takes longer than all other
            // work here.
            if has_update || state.streams.has_opened() {
                Counters::add(&self.counts.news, 1);
                self.news.raise();
            }
            let passable = state.streams.take_to_pass();
            let onward = passable.as_ref().and_then(|(key, _)| state.onward.get(key)?.upgrade());
            drop(state);
            if let Some((key, message)) = passable {
                self.forward(key, message, onward);
            }
        }
        Ok(true)
    }

    /// Writes a received message to another lane without blocking. The lane's reader handles the rest, and any error.
    fn forward(&self, key: LaneKey, message: Vec<u8>, onward: Option<SharedLane>) {
        let bytes = &message[HEADER_LEN..];
        let written = onward.and_then(|onward| onward.try_write(&[IoSlice::new(bytes)]).ok()).unwrap_or(0);
        let left = bytes.len() - written.min(bytes.len());
        if left == 0 {
            Counters::add(&self.counts.passed, 1);
        }
        let mut state = self.lock();
        state.streams.passed(key, message, left);
        state.wake();
        drop(state);
    }

    /// Records that the thread no longer calls MPI.
    fn has_left(&self) {
        let mut state = self.lock();
        state.has_left = true;
        state.streams.left();
        state.posts.changed.raise();
        state.wake();
        self.news.raise();
        drop(state);
    }

    fn end(&self, why: &str) {
        self.intake.close();
        let mut state = self.lock();
        state.ended = Some(format!("the MPI world has ended: {why}"));
        state.streams.end();
        state.wake();
        self.news.raise();
        drop(state);
    }
}

//! The thread that owns a world of ranks, and what others ask of it.

use super::backoff::{Backoff, Pause};
use super::lane::MpiLane;
use super::message::{HEADER_LEN, LaneKey};
use super::shared::{Counters, Counts, LaneEnd, LaneTable, Shared};
use super::streams::OPENED_MAX;
use super::world::{Came, World};
use crate::transport::lane::SharedLane;
use accord_types::NodeId;
use accord_types::short_lock::ShortGuard;
use accord_types::threads;
use std::io::{self, ErrorKind, IoSlice};
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// Messages that are under way from this rank at one time.
const SENDS_MAX: usize = 32;
/// Of lent bytes.
const LENT_SENDS_MAX: usize = 32;
/// Messages that are taken before others get their turn.
const BATCH: usize = 32;
/// Looks before the core is given away once, which takes longer than one of them.
const LOOKS: u32 = 8;
/// How late the thread may wake up.
const TIMER_SLACK_NS: u64 = 1_000;
/// How long leaving may take: other ranks may not let this one go.
const STOP_MAX: Duration = Duration::from_millis(400);
/// How long what was written has to leave when the fabric stops.
const DRAIN_MAX: Duration = Duration::from_millis(200);

/// This process's place in a world of ranks. Lanes go on for as long as it is there.
#[derive(Debug)]
pub struct MpiFabric {
    shared: Arc<Shared>,
    rank: u32,
    size: u32,
}

/// The world that this process is a rank of. There is one at most, as with MPI itself.
static OWN: OnceLock<Arc<MpiFabric>> = OnceLock::new();

/// From now on this process's lanes to other nodes begin at this rank.
pub fn belong_to(fabric: &Arc<MpiFabric>) {
    // The first one stays.
    let _ = OWN.set(fabric.clone());
}

/// What [`belong_to`] was told.
pub(in crate::transport) fn own() -> Option<&'static Arc<MpiFabric>> {
    OWN.get()
}

impl MpiFabric {
    /// Has `open` join the world, on the thread that has it from then on.
    ///
    /// # Errors
    /// Those of `open`; when the system has no thread.
    pub fn start(open: impl FnOnce() -> io::Result<Box<dyn World>> + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::new());
        let (opened, is_open) = mpsc::channel();
        let of_thread = shared.clone();
        threads::spawn("accord-mpi", move || match open() {
            Ok(mut world) => {
                // Whoever asked waits for it.
                let _ = opened.send(Ok((world.rank(), world.size())));
                let why = match threads::caught(|| of_thread.drive(&mut *world)) {
                    Ok(Ok(())) => "it was stopped".to_owned(),
                    Ok(Err(error)) => error.to_string(),
                    // Whoever has a lane would wait for ever.
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

    /// MPI copies from and to devices' own memory: whoever says so has tried it. It stays so.
    pub fn take_native(&self) {
        self.shared.take_native();
    }

    /// Whether it does.
    pub fn takes_native(&self) -> bool {
        self.shared.takes_native()
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What has gone from here so far, and what lanes have copied for it and for what has come.
    pub fn counts(&self) -> Counts {
        self.shared.counts.read()
    }

    /// Opens a lane to a rank. Whether it is there shows when the lane is used.
    ///
    /// # Errors
    /// When there are too many lanes, or the world has ended.
    pub fn connect(&self, rank: u32) -> io::Result<SharedLane> {
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

    /// Brings a lane of this machine that is for this rank: [`MpiFabric::accept`] gives it as one of its own.
    ///
    /// # Errors
    /// When nobody takes those that were brought before, or the world has ended.
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

    /// Waits for the next lane that a rank opens; and which rank.
    ///
    /// # Errors
    /// When the world has ended.
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

    fn lane(&self, state: &mut LaneTable, key: LaneKey) -> SharedLane {
        let end = Arc::<LaneEnd>::default();
        state.ends.insert(key, end.clone());
        Arc::new(MpiLane::new(self.shared.clone(), key, end))
    }

    /// Tells all ranks which node this one is.
    pub fn announce(&self, node: NodeId) {
        let mut state = self.shared.lock();
        for rank in 0..self.size {
            state.streams.tell_node(rank, node.0);
        }
        self.shared.has_changed(state);
    }

    /// The rank of a node, which may say so within `limit` only.
    pub fn rank_of(&self, node: NodeId, limit: Duration) -> Option<u32> {
        let known = |state: &LaneTable| state.ranks.contains_key(&node) || state.ended.is_some();
        self.await_news(limit, known).ranks.get(&node).copied()
    }

    /// Waits until a rank has said which node it is; whether it has.
    pub fn await_rank(&self, rank: u32, limit: Duration) -> bool {
        let known = |state: &LaneTable| state.ranks.values().any(|known| *known == rank);
        known(&self.await_news(limit, |state| known(state) || state.ended.is_some()))
    }

    /// Waits until each rank has said which node it is, or the world has ended.
    pub fn await_ranks(&self) {
        let mut state = self.shared.lock();
        while state.ranks.len() < self.size as usize && state.ended.is_none() {
            match self.shared.news.wait(state, None) {
                Ok(news) => state = news,
                Err(_) => return,
            }
        }
    }

    /// The table once it is as `wanted`, or after `limit`.
    fn await_news(&self, limit: Duration, wanted: impl Fn(&LaneTable) -> bool) -> ShortGuard<'_, LaneTable> {
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

    /// Sends what was written and leaves the world; returns when it has, or after a while.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.has_changed(state);
        drop(self.await_news(STOP_MAX, |state| state.has_left));
    }
}

impl Drop for MpiFabric {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a look for things to send has brought.
#[derive(Clone, Copy, Default)]
struct Turn {
    sent: bool,
    /// There may be more than could be sent.
    full: bool,
    stopping: bool,
}

impl Shared {
    /// Sends and receives until the fabric is stopped.
    fn drive(&self, world: &mut dyn World) -> io::Result<()> {
        // Else the system would make its shortest sleeps twice as long. Where it does not listen they are.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
        let (mut last, mut backoff) = (Instant::now(), Backoff::default());
        let mut swept = false;
        let mut stop_at: Option<Instant> = None;
        // Nobody says what there is to send after these.
        let mut asks = true;
        let mut looks = 0;
        loop {
            let turn = if asks || self.has_work() { self.send(world)? } else { Turn::default() };
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
            match backoff.pause(now - last, world.moves_lent()) {
                Pause::Yield => {
                    looks += 1;
                    if looks % LOOKS != 0 {
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
                        // It looks again then, as when it is told.
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

    /// Sends what may be sent.
    fn send(&self, world: &mut dyn World) -> io::Result<Turn> {
        let (sending, of_lent) = world.sending();
        let (room, lent_room) = (SENDS_MAX.saturating_sub(sending - of_lent), LENT_SENDS_MAX.saturating_sub(of_lent));
        let (mut messages, mut lent) = (Vec::new(), Vec::new());
        // Before anything is looked at.
        self.has_work.store(false, Ordering::SeqCst);
        let mut state = self.lock_to_write();
        // What was asked for goes before an end that is said.
        while lent.len() < lent_room
            && let Some(part) = state.streams.next_lent()
        {
            let bytes =
                state.bytes_of(&part).ok_or_else(|| io::Error::other("a lane has lent what it does not have"))?;
            lent.push((part, bytes));
        }
        while messages.len() < room
            && let Some(message) = state.streams.next_message()
        {
            messages.push(message);
        }
        state.wake();
        let stopping = state.stopping;
        drop(state);
        let full = messages.len() == room || lent.len() == lent_room;
        let sent = !messages.is_empty() || !lent.is_empty();
        Counters::add(&self.counts.messages, messages.len());
        for (part, bytes) in lent {
            Counters::add(&self.counts.lent_messages, 1);
            Counters::add(&self.counts.lent_bytes, bytes.len());
            world.send_lent(part.to, part.tag, bytes, part.id)?;
        }
        for outgoing in messages {
            world.send(outgoing.to, outgoing.message)?;
        }
        Ok(Turn { sent, full, stopping })
    }

    /// Takes what has come; whether there was something. Whoever waits for it is told before MPI is asked for more.
    fn receive(&self, world: &mut dyn World) -> io::Result<bool> {
        for taken in 0..BATCH {
            let Some(came) = world.receive(&mut |from, tag, len| self.lock().room_for(from, tag, len))? else {
                return Ok(taken > 0);
            };
            let mut state = self.lock();
            let mut is_news = false;
            match came {
                Came::Filled(tag) => {
                    state.streams.came(tag);
                    state.posts.came(tag);
                }
                Came::Sent(id) => state.streams.was_sent(id),
                Came::Message(from, message) => {
                    if let Some(node) = state.streams.receive(from, message)? {
                        state.is_node(from, NodeId(node))?;
                        is_news = true;
                    }
                }
            }
            state.hand_over(&self.counts);
            state.wake();
            // Not for each message: somebody always waits for lanes, and to wake that thread takes longer than all else here.
            if is_news || state.streams.has_opened() {
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

    /// Writes a message that has just come to another lane, without waiting. What is left is the lane's reader's, and so are errors.
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

    /// MPI is not called any more.
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

//! The thread that owns a world of ranks, and what others ask of it.

use super::backoff::{Pause, pause};
use super::lane::MpiLane;
use super::shared::{LaneTable, Shared};
use super::streams::LaneKey;
use super::world::World;
use crate::transport::lane::SharedLane;
use accord_types::NodeId;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Messages that are under way from this rank at one time.
const SENDS_MAX: usize = 32;
/// Messages that are taken before others get their turn.
const BATCH: usize = 32;
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
        std::thread::Builder::new().name("accord-mpi".into()).spawn(move || match open() {
            Ok(mut world) => {
                // Whoever asked waits for it.
                let _ = opened.send(Ok((world.rank(), world.size())));
                let why = match catch_unwind(AssertUnwindSafe(|| of_thread.drive(&mut *world))) {
                    Ok(Ok(())) => "it was stopped".to_owned(),
                    Ok(Err(error)) => error.to_string(),
                    // Whoever has a lane would wait for ever.
                    Err(_) => "its thread has panicked; its output says why".to_owned(),
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

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
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

    /// Waits for the next lane that a rank opens; and which rank.
    ///
    /// # Errors
    /// When the world has ended.
    pub fn accept(&self) -> io::Result<(SharedLane, u32)> {
        let mut state = self.shared.lock();
        loop {
            if let Some(key) = state.streams.next_opened() {
                return Ok((self.lane(&mut state, key), key.peer));
            }
            state.check()?;
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lane(&self, state: &mut LaneTable, key: LaneKey) -> SharedLane {
        let changed = Arc::<Condvar>::default();
        state.changed.insert(key, changed.clone());
        Arc::new(MpiLane::new(self.shared.clone(), key, changed))
    }

    /// Tells all ranks which node this one is.
    pub fn announce(&self, node: NodeId) {
        let mut state = self.shared.lock();
        for rank in 0..self.size {
            state.streams.tell_node(rank, node.0);
        }
        self.shared.has_changed(state);
    }

    /// The rank of a node, which may say so within `patience` only.
    pub fn rank_of(&self, node: NodeId, patience: Duration) -> Option<u32> {
        let unknown = |state: &mut LaneTable| !state.ranks.contains_key(&node) && state.ended.is_none();
        let (state, _) = self
            .shared
            .news
            .wait_timeout_while(self.shared.lock(), patience, unknown)
            .unwrap_or_else(PoisonError::into_inner);
        state.ranks.get(&node).copied()
    }

    /// Waits until a rank has said which node it is; whether it has.
    pub fn await_rank(&self, rank: u32, patience: Duration) -> bool {
        let known = |state: &LaneTable| state.ranks.values().any(|known| *known == rank);
        let (state, _) = self
            .shared
            .news
            .wait_timeout_while(self.shared.lock(), patience, |state| !known(state) && state.ended.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        known(&state)
    }

    /// Sends what was written and leaves the world; returns when it has, or after a while.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.has_changed(state);
        let goes_on = |state: &mut LaneTable| !state.has_left;
        drop(self.shared.news.wait_timeout_while(self.shared.lock(), STOP_MAX, goes_on));
    }
}

impl Drop for MpiFabric {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Sends and receives until the fabric is stopped.
    fn drive(&self, world: &mut dyn World) -> io::Result<()> {
        let mut last = Instant::now();
        let mut swept = false;
        let mut stop_at: Option<Instant> = None;
        loop {
            let (sent, stopping) = self.send(world)?;
            let received = self.receive(world)?;
            if stopping {
                let end = *stop_at.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
                if (!sent && world.sending() == 0) || Instant::now() >= end {
                    return Ok(());
                }
            }
            if sent || received {
                last = Instant::now();
                swept = false;
                continue;
            }
            match pause(last.elapsed()) {
                Pause::Yield => std::thread::yield_now(),
                Pause::Sleep(time) => {
                    let mut state = self.lock();
                    if !std::mem::replace(&mut swept, true) {
                        state.streams.sweep();
                        continue;
                    }
                    if !state.has_work {
                        drop(self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        }
    }

    /// Sends what may be sent; whether there was something, and whether it is time to stop.
    fn send(&self, world: &mut dyn World) -> io::Result<(bool, bool)> {
        let room = SENDS_MAX.saturating_sub(world.sending());
        let mut messages = Vec::new();
        let mut state = self.lock();
        state.has_work = false;
        while messages.len() < room
            && let Some(message) = state.streams.next_message()
        {
            messages.push(message);
        }
        state.wake();
        let stopping = state.stopping;
        drop(state);
        let sent = !messages.is_empty();
        for outgoing in messages {
            world.send(outgoing.to, outgoing.message)?;
        }
        Ok((sent, stopping))
    }

    /// Takes what has come; whether there was something.
    fn receive(&self, world: &mut dyn World) -> io::Result<bool> {
        let mut came = Vec::new();
        while came.len() < BATCH
            && let Some(message) = world.receive()?
        {
            came.push(message);
        }
        if came.is_empty() {
            return Ok(false);
        }
        let mut state = self.lock();
        for (from, message) in came {
            if let Some(node) = state.streams.receive(from, message)? {
                state.ranks.insert(NodeId(node), from);
            }
        }
        state.wake();
        drop(state);
        self.news.notify_all();
        Ok(true)
    }

    /// MPI is not called any more.
    fn has_left(&self) {
        self.lock().has_left = true;
        self.news.notify_all();
    }

    fn end(&self, why: &str) {
        let mut state = self.lock();
        state.ended = Some(format!("the MPI world has ended: {why}"));
        state.streams.end();
        state.wake();
        drop(state);
        self.news.notify_all();
    }
}

//! What the lanes of a rank and the thread that owns MPI share.

use super::streams::{LaneKey, Streams};
use accord_types::NodeId;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What lanes and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<LaneTable>,
    /// The thread has something to send, or is to stop.
    pub(super) work: Condvar,
    /// A lane was opened by another rank, a node has said which rank it is, or the world has ended.
    pub(super) news: Condvar,
}

#[derive(Debug)]
pub(super) struct LaneTable {
    pub(super) streams: Streams,
    /// Who reads or writes a lane waits here.
    pub(super) changed: BTreeMap<LaneKey, Arc<Condvar>>,
    pub(super) ranks: BTreeMap<NodeId, u32>,
    pub(super) has_work: bool,
    pub(super) stopping: bool,
    pub(super) ended: Option<String>,
    pub(super) has_left: bool,
}

impl Shared {
    pub(super) fn new() -> Self {
        let state = LaneTable {
            streams: Streams::default(),
            changed: BTreeMap::new(),
            ranks: BTreeMap::new(),
            has_work: false,
            stopping: false,
            ended: None,
            has_left: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), news: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LaneTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lanes were read, written or ended: wakes whom that concerns, and the thread.
    pub(super) fn has_changed(&self, mut state: MutexGuard<'_, LaneTable>) {
        state.wake();
        if !std::mem::replace(&mut state.has_work, true) {
            drop(state);
            self.work.notify_one();
        }
    }
}

impl LaneTable {
    /// Wakes those whose lanes have something for them.
    pub(super) fn wake(&mut self) {
        for key in self.streams.take_woken() {
            if let Some(changed) = self.changed.get(&key) {
                changed.notify_all();
            }
        }
    }

    pub(super) fn check(&self) -> io::Result<()> {
        self.ended.as_ref().map_or(Ok(()), |why| Err(io::Error::new(ErrorKind::BrokenPipe, why.clone())))
    }
}

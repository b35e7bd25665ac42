//! One stream of a fake device: a thread and its operations.

use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use accord_types::{Error, ErrorCode, QueueId, Result, Seq};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar};

/// The work of an operation.
pub(super) type HostOp = Box<dyn FnOnce() -> Result<()> + Send>;

type Done = Box<dyn FnOnce(Result<()>) + Send>;

pub(super) struct Stream {
    pub(super) queue: QueueId,
    state: ShortLock<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    put: u64,
    reached: u64,
    ops: VecDeque<HostOp>,
    notifies: Vec<(u64, Done)>,
    failure: Option<Error>,
}

impl Stream {
    pub(super) fn start(queue: QueueId) -> Result<Arc<Self>> {
        let stream = Arc::new(Self { queue, state: ShortLock::default(), changed: Condvar::new() });
        let of_thread = stream.clone();
        threads::spawn(format!("fake-{queue}"), move || of_thread.run())
            .map_err(|error| Error::new(ErrorCode::System, format!("starting a thread: {error}")))?;
        Ok(stream)
    }

    pub(super) fn pending(&self) -> usize {
        lock(&self.state).ops.len()
    }

    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let op = loop {
                if state.failure.is_some() {
                    return;
                }
                if let Some(op) = state.ops.pop_front() {
                    break op;
                }
                state = ShortGuard::wait(state, &self.changed);
            };
            drop(state);
            if let Err(error) = op() {
                return self.fail(&error.queue(self.queue));
            }
            let mut state = lock(&self.state);
            state.reached += 1;
            let reached = state.reached;
            let (due, later) = std::mem::take(&mut state.notifies).into_iter().partition(|(seq, _)| *seq <= reached);
            state.notifies = later;
            drop(state);
            self.changed.notify_all();
            let due: Vec<(u64, Done)> = due;
            due.into_iter().for_each(|(_, done)| done(Ok(())));
        }
    }

    pub(super) fn fail(&self, error: &Error) {
        let mut state = lock(&self.state);
        let error = state.failure.get_or_insert_with(|| error.clone()).clone();
        let due = std::mem::take(&mut state.notifies);
        let ops = std::mem::take(&mut state.ops);
        drop(state);
        self.changed.notify_all();
        drop(ops);
        due.into_iter().for_each(|(_, done)| done(Err(error.clone())));
    }

    pub(super) fn put(&self, op: HostOp) -> Result<Seq> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        state.put += 1;
        state.ops.push_back(op);
        let seq = Seq(state.put);
        drop(state);
        self.changed.notify_all();
        Ok(seq)
    }

    pub(super) fn reached(&self, seq: Seq) -> Result<bool> {
        let state = lock(&self.state);
        match &state.failure {
            Some(error) => Err(error.clone()),
            None => Ok(state.reached >= seq.0),
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        let state = lock(&self.state);
        state.failure.is_none() && state.reached < state.put
    }

    pub(super) fn last(&self) -> u64 {
        lock(&self.state).put
    }

    pub(super) fn synchronize(&self, seq: Seq) -> Result<()> {
        let mut state = lock(&self.state);
        loop {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            if state.reached >= seq.0 {
                return Ok(());
            }
            state = ShortGuard::wait(state, &self.changed);
        }
    }

    pub(super) fn notify(&self, seq: Seq, done: Done) {
        let mut state = lock(&self.state);
        let outcome = match &state.failure {
            Some(error) => Err(error.clone()),
            None if state.reached >= seq.0 => Ok(()),
            None => {
                state.notifies.push((seq.0, done));
                return;
            }
        };
        drop(state);
        done(outcome);
    }
}

pub(super) fn lock<T>(mutex: &ShortLock<T>) -> ShortGuard<'_, T> {
    mutex.lock()
}

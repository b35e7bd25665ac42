//! Performs and queries the host's remaining work for a stream.

use super::completion::{COMPLETIONS_MAX, Completion};
use super::device_stream::DeviceStream;
use super::stream::{Stream, StreamProgress};
use accord_types::{HostRange, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

impl Stream {
    /// Completes the host's work for operations up to `seq` that the device has done. Returns `false` if some are not done and
    /// `wait` is not set.
    pub(super) fn complete(&self, seq: u64, wait: bool) -> Result<bool> {
        self.complete_from(self.lock(), seq, wait)
    }

    /// Completes operations as `complete`, for a caller that holds the lock.
    pub(super) fn complete_from<'a>(
        &'a self,
        mut state: MutexGuard<'a, StreamProgress>,
        seq: u64,
        wait: bool,
    ) -> Result<bool> {
        loop {
            let Some((at, completion)) = state.completions.front() else { return Ok(true) };
            if *at > seq {
                return Ok(true);
            }
            let at = *at;
            let result = match completion {
                Completion::Small { .. } => {
                    // Under the lock, so that no second waiter takes it for done. The work is short.
                    let Some((_, Completion::Small { mut slot, len, mut sink })) = state.completions.pop_front() else {
                        continue;
                    };
                    let landed = sink.drain(slot.bytes(len)).and_then(|()| sink.finish());
                    if landed.is_ok() {
                        continue;
                    }
                    drop(state);
                    landed
                }
                Completion::Rows { .. } => {
                    let Some((_, Completion::Rows { mut slot, len, sinks })) = state.completions.pop_front() else {
                        continue;
                    };
                    let rows = slot.bytes(len * sinks.len()).chunks(len);
                    let mut all = sinks.into_iter().zip(rows);
                    let landed = all.try_for_each(|(mut sink, row)| sink.drain(row).and_then(|()| sink.finish()));
                    if landed.is_ok() {
                        continue;
                    }
                    drop(state);
                    landed
                }
                Completion::Moved(tracker, _) if tracker.is_done() => {
                    let moved = tracker.result();
                    state.completions.pop_front();
                    drop(state);
                    moved.map_err(|error| self.shared.copy_failed(error, Some(self.queue)))
                }
                Completion::Moved(tracker, _) => {
                    let tracker = Arc::clone(tracker);
                    drop(state);
                    let pool = &self.shared.copy_pool;
                    if !wait && !pool.test(&tracker) {
                        return Ok(false);
                    }
                    pool.wait(&tracker).map_err(|error| self.shared.copy_failed(error, Some(self.queue)))
                }
                Completion::Other(other, other_seq) => {
                    let (other, other_seq) = (Arc::clone(other), *other_seq);
                    drop(state);
                    // The stream may be another device's.
                    let entered = other.shared.context.enter();
                    let _current = entered.map_err(|error| other.shared.driver_failed(error, Some(other.queue)))?;
                    let there =
                        if wait { other.synchronize(other_seq).map(|()| true) } else { other.reached(other_seq) };
                    if there == Ok(false) {
                        return Ok(false);
                    }
                    let mut state = self.lock();
                    if matches!(state.completions.front(), Some((first, Completion::Other(..))) if *first == at) {
                        state.completions.pop_front();
                    }
                    there.map(drop)
                }
            };
            if let Err(error) = result {
                let error = error.queue(self.queue);
                self.lock().failure.get_or_insert(error.clone());
                self.failed.store(true, Ordering::Release);
                return Err(error);
            }
            state = self.lock();
        }
    }

    /// Blocks until the driver has done its operations, before a failure is reported: they must not write into memory that is reused by then. Without a
    /// device there is no wait.
    pub(super) fn end_what_was_issued(&self) {
        if self.shared.failure.check().is_ok()
            && let Ok(_current) = self.shared.context.enter()
        {
            self.drain();
        }
    }

    /// Whether the host may still write to a range of the program's memory for operations in the stream.
    pub(crate) fn may_write(&self, range: HostRange) -> bool {
        let state = self.lock();
        !state.is_idle() || state.will_write(range)
    }

    /// Whether the host will write to a range for operations that the driver already has, see [`StreamProgress::will_write`].
    pub(crate) fn will_write(&self, range: HostRange) -> bool {
        self.lock().will_write(range)
    }

    /// Whether an operation up to `seq` may still write to the program's memory.
    pub(crate) fn is_completing(&self, seq: u64) -> bool {
        self.lock().completions.front().is_some_and(|(at, _)| *at <= seq)
    }

    /// Blocks until few enough completions remain. The context is current.
    pub(super) fn make_room(&self) -> Result<()> {
        loop {
            let state = self.lock();
            let Some(&(first, _)) = state.completions.front().filter(|_| state.completions.len() >= COMPLETIONS_MAX)
            else {
                return Ok(());
            };
            drop(state);
            self.synchronize(first)?;
        }
    }

    /// Adds work on the host for the operation at `seq`.
    pub(crate) fn add_completion(&self, seq: u64, completion: Completion<Self>) {
        self.lock().completions.push_back((seq, completion));
    }
}

impl StreamProgress {
    /// Whether the host has yet to write to a range of the program's memory. Until then neither the host nor the device may
    /// read it, and no other operation may write to it.
    pub(crate) fn will_write(&self, range: HostRange) -> bool {
        let completing = self.completions.iter().any(|(_, completion)| match completion {
            Completion::Small { sink, .. } => sink.may_write(range),
            Completion::Rows { sinks, .. } => sinks.iter().any(|sink| sink.may_write(range)),
            Completion::Moved(_, target) => target.overlaps(range),
            // The answer would need another stream's lock.
            Completion::Other(..) => true,
        });
        completing || self.rows.will_write(range)
    }

    /// Adds work on the host for the operation being enqueued.
    pub(crate) fn push_completion(&mut self, completion: Completion<Stream>) {
        let seq = self.next();
        self.completions.push_back((seq, completion));
    }
}

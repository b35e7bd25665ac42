//! Performs and queries the host's remaining work for a stream.

use super::completion::Completion;
use super::device_stream::DeviceStream;
use super::stream::{Stream, StreamProgress};
use accord_device::stream::NextWork;
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
            let result = match state.core.next_work(seq) {
                NextWork::None => return Ok(true),
                NextWork::Failed(error) => return Err(error),
                NextWork::Failing if wait => {
                    state = self.sleep(state);
                    continue;
                }
                NextWork::Failing => return Ok(false),
                // Under the lock, so that no second waiter takes it for done. The work is short.
                NextWork::Run(work) => match self.finish(work) {
                    Ok(()) => continue,
                    Err(error) => Err((error, state)),
                },
                NextWork::Await(_, Completion::Moved(tracker, _)) => {
                    let tracker = Arc::clone(tracker);
                    drop(state);
                    let pool = &self.shared.copy_pool;
                    if !wait && !pool.test(&tracker) {
                        return Ok(false);
                    }
                    let waited = pool.wait(&tracker);
                    waited.map_err(|error| (self.shared.copy_failed(error, Some(self.queue)), self.lock()))
                }
                NextWork::Await(at, Completion::Other(other, other_seq)) => {
                    let (other, other_seq) = (Arc::clone(other), *other_seq);
                    drop(state);
                    // The stream may be another device's.
                    let entered = other.shared.context.enter();
                    let _current = entered.map_err(|error| other.shared.driver_failed(error, Some(other.queue)))?;
                    let there =
                        if wait { other.synchronize(other_seq).map(|()| true) } else { other.reached(other_seq) };
                    match there {
                        Ok(false) => return Ok(false),
                        Ok(true) => {
                            self.lock().core.work_awaited(at);
                            Ok(())
                        }
                        Err(error) => Err((error, self.lock())),
                    }
                }
                // These are never elsewhere.
                NextWork::Await(_, Completion::Small { .. } | Completion::Rows { .. }) => return Ok(false),
            };
            if let Err((error, mut state)) = result {
                let error = error.queue(self.queue);
                state.core.fail(error.clone());
                drop(state);
                self.end_what_was_issued();
                self.lock().core.drained();
                self.signals.failed.store(true, Ordering::Release);
                self.wake();
                return Err(error);
            }
            state = self.lock();
        }
    }

    /// Does work on the host whose bytes are there, or reads the outcome of such work.
    fn finish(&self, work: Completion<Self>) -> Result<()> {
        match work {
            Completion::Small { mut slot, len, mut sink } => sink.drain(slot.bytes(len)).and_then(|()| sink.finish()),
            Completion::Rows { mut slot, len, sinks } => {
                let rows = slot.bytes(len * sinks.len()).chunks(len);
                sinks.into_iter().zip(rows).try_for_each(|(mut sink, row)| sink.drain(row).and_then(|()| sink.finish()))
            }
            Completion::Moved(tracker, _) => {
                tracker.result().map_err(|error| self.shared.copy_failed(error, Some(self.queue)))
            }
            // Its stream is waited for.
            Completion::Other(..) => Ok(()),
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
        !state.core.is_idle() || state.will_write(range)
    }

    /// Whether the host will write to a range for operations that the driver already has, see [`StreamProgress::will_write`].
    pub(crate) fn will_write(&self, range: HostRange) -> bool {
        self.lock().will_write(range)
    }

    /// Whether an operation up to `seq` may still write to the program's memory.
    pub(crate) fn is_completing(&self, seq: u64) -> bool {
        self.lock().core.is_completing(seq)
    }

    /// Blocks until few enough completions remain. The context is current.
    pub(super) fn make_space(&self) -> Result<()> {
        loop {
            let first = self.lock().core.excess_work();
            let Some(first) = first else { return Ok(()) };
            self.synchronize(first)?;
        }
    }

    /// Adds work on the host for the operation at `seq`.
    pub(crate) fn add_completion(&self, seq: u64, completion: Completion<Self>) {
        self.lock().core.add_work(seq, completion);
    }
}

impl StreamProgress {
    /// Whether the host has yet to write to a range of the program's memory. Until then neither the host nor the device may
    /// read it, and no other operation may write to it.
    pub(crate) fn will_write(&self, range: HostRange) -> bool {
        self.core.will_write(range) || self.rows.will_write(range)
    }

    /// Adds work on the host for the operation being enqueued.
    pub(crate) fn push_completion(&mut self, completion: Completion<Stream>) {
        let seq = self.core.next();
        self.core.add_work(seq, completion);
    }
}

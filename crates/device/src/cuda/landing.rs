//! What is left to do on the host after the device has got somewhere in a stream.

use super::movers::Tracker;
use super::pinned::Slot;
use super::stream::{State, Stream};
use crate::Sink;
use accord_types::{HostRange, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is left to do on the host when the device has got to a position.
pub(crate) enum Landing {
    /// Bytes go from a slot to their sink, on whichever thread waits for them first.
    Small { slot: Slot, len: usize, sink: Box<dyn Sink> },
    /// The copying threads are at it.
    Moved(Arc<Tracker>, HostRange),
    /// This stream waits for that one, whose own landings therefore come first.
    Other(Arc<Stream>, u64),
}

impl Stream {
    /// Ends the host's part of what the device has done up to `seq`. With `wait` unset returns false if
    /// some of it is not done.
    pub(super) fn land(&self, seq: u64, wait: bool) -> Result<bool> {
        loop {
            let mut state = self.lock();
            let Some((at, landing)) = state.landings.front() else { return Ok(true) };
            if *at > seq {
                return Ok(true);
            }
            let at = *at;
            let result = match landing {
                Landing::Small { .. } => {
                    // With the lock held, so that no second waiter believes it done. It is short.
                    let Some((_, Landing::Small { mut slot, len, mut sink })) = state.landings.pop_front() else {
                        continue;
                    };
                    let landed = sink.drain(slot.bytes(len)).and_then(|()| sink.finish());
                    drop(state);
                    landed
                }
                Landing::Moved(tracker, _) if tracker.is_done() => {
                    let moved = tracker.result();
                    state.landings.pop_front();
                    drop(state);
                    moved.map_err(|error| self.shared.driver_failed(error, Some(self)))
                }
                Landing::Moved(tracker, _) => {
                    let tracker = Arc::clone(tracker);
                    drop(state);
                    if !wait {
                        return Ok(false);
                    }
                    self.shared.movers.wait(&tracker).map_err(|error| self.shared.driver_failed(error, Some(self)))
                }
                Landing::Other(other, other_seq) => {
                    let (other, other_seq) = (Arc::clone(other), *other_seq);
                    drop(state);
                    // It may be another device's.
                    let entered = other.shared.context.enter();
                    let _current = entered.map_err(|error| other.shared.driver_failed(error, Some(&other)))?;
                    let there =
                        if wait { other.synchronize(other_seq).map(|()| true) } else { other.reached(other_seq) };
                    if let Ok(false) = there {
                        return Ok(false);
                    }
                    let mut state = self.lock();
                    if matches!(state.landings.front(), Some((first, Landing::Other(..))) if *first == at) {
                        state.landings.pop_front();
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
        }
    }

    /// Whether the host may still write a range of the program's memory for what is in the stream.
    pub(crate) fn may_write(&self, range: HostRange) -> bool {
        let state = self.lock();
        !state.is_idle() || state.lands_in(range)
    }

    /// The same for what is in the driver's stream.
    pub(crate) fn lands_in(&self, range: HostRange) -> bool {
        self.lock().lands_in(range)
    }

    /// Whether something up to `seq` may still write the program's memory.
    pub(crate) fn is_landing(&self, seq: u64) -> bool {
        self.lock().landings.front().is_some_and(|(at, _)| *at <= seq)
    }

    /// Something is left to do on the host for the operation at `seq`.
    pub(crate) fn add_landing(&self, seq: u64, landing: Landing) {
        self.lock().landings.push_back((seq, landing));
    }
}

impl State {
    /// Whether the host has still to write a range of the program's memory: neither it nor the device may read it
    /// before, and nothing else may write it.
    pub(crate) fn lands_in(&self, range: HostRange) -> bool {
        self.landings.iter().any(|(_, landing)| match landing {
            Landing::Small { sink, .. } => sink.may_write(range),
            Landing::Moved(_, target) => target.overlaps(range),
            // Finding out takes another stream's lock.
            Landing::Other(..) => true,
        })
    }

    /// For the operation that is put in now.
    pub(crate) fn push_landing(&mut self, landing: Landing) {
        let seq = self.next();
        self.landings.push_back((seq, landing));
    }
}

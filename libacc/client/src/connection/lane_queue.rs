//! Queues of transfers for lanes, and the threads that send them: decisions only.
//!
//! The first transfer in the queue gets the next lane, whatever the number of threads: a thread takes a transfer only
//! when the previous one has its lane. So no transfer ever has a lane while an earlier one has none.

use std::collections::VecDeque;

/// A queue of transfers, for a number of lanes and at most as many threads.
pub(super) struct LaneQueue<J> {
    waiting: VecDeque<J>,
    /// Whether a thread has taken a transfer that has no lane yet.
    acquiring: bool,
    lanes: usize,
    threads: usize,
    /// Number of threads without a transfer.
    idle: usize,
}

/// The thread to call for a transfer that can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// Wake a thread.
    Wake,
    /// Start another thread.
    Start,
}

impl<J> LaneQueue<J> {
    /// Creates an empty queue for `lanes` lanes, without threads.
    pub(super) fn new(lanes: usize) -> Self {
        Self { waiting: VecDeque::new(), acquiring: false, lanes, threads: 0, idle: 0 }
    }

    /// Appends a transfer; [`LaneQueue::call`] follows.
    pub(super) fn join(&mut self, job: J) {
        self.waiting.push_back(job);
    }

    /// Number of transfers that no thread has taken.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether every transfer has its lane, so that a caller may use a free lane without queueing.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.acquiring
    }

    /// Takes the next transfer, for a thread that has none. The thread acquires a lane for it and then calls
    /// [`LaneQueue::has_lane`]; [`LaneQueue::call`] follows.
    pub(super) fn take(&mut self) -> Option<J> {
        if self.acquiring {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.acquiring = true;
        self.idle -= 1;
        Some(job)
    }

    /// Records that the last taken transfer has a lane, or will never have one.
    pub(super) fn has_lane(&mut self) {
        self.acquiring = false;
    }

    /// Records that a thread is done with its transfer; it calls [`LaneQueue::take`] before it waits.
    pub(super) fn ended(&mut self) {
        self.idle += 1;
    }

    /// Returns whether to wake or start a thread for the next transfer. If `None`, a thread that ends its transfer or
    /// gets its lane calls this again.
    pub(super) fn call(&mut self) -> Option<Call> {
        if self.acquiring || self.waiting.is_empty() {
            return None;
        }
        if self.idle > 0 {
            return Some(Call::Wake);
        }
        if self.threads == self.lanes {
            return None;
        }
        self.threads += 1;
        self.idle += 1;
        Some(Call::Start)
    }

    /// Returns the transfers that no thread has taken.
    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.waiting.iter_mut()
    }

    /// Removes and returns all transfers that no thread has taken.
    pub(super) fn leave(&mut self) -> impl Iterator<Item = J> {
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests;

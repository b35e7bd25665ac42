//! Transfers that stand in line for lanes, and the threads that send them: decisions only.
//!
//! The first transfer in line gets the next lane, whatever the number of threads: a thread takes a transfer out of the
//! line only when the one before has its lane. So no transfer ever has a lane while one that was put in before has
//! none.

use std::collections::VecDeque;

/// Transfers in line, for so many lanes and at most as many threads.
pub(super) struct LaneQueue<J> {
    waiting: VecDeque<J>,
    /// A thread has taken a transfer that has no lane yet.
    acquiring: bool,
    lanes: usize,
    threads: usize,
    /// Threads that have no transfer.
    idle: usize,
}

/// The thread to call for a transfer that can be taken out of the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// Wake a thread.
    Wake,
    /// Start one more.
    Start,
}

impl<J> LaneQueue<J> {
    /// An empty line for `lanes` lanes, without threads.
    pub(super) fn new(lanes: usize) -> Self {
        Self { waiting: VecDeque::new(), acquiring: false, lanes, threads: 0, idle: 0 }
    }

    /// A transfer joins; [`LaneQueue::call`] follows.
    pub(super) fn join(&mut self, job: J) {
        self.waiting.push_back(job);
    }

    /// Number of transfers that no thread has taken.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no transfer is without a lane: then one that does not join may take a lane, if that is free.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.acquiring
    }

    /// The next transfer, for a thread of this line that has none. The thread gets a lane for it, and says
    /// [`LaneQueue::has_lane`] then; [`LaneQueue::call`] follows.
    pub(super) fn take(&mut self) -> Option<J> {
        if self.acquiring {
            return None;
        }
        let job = self.waiting.pop_front()?;
        self.acquiring = true;
        self.idle -= 1;
        Some(job)
    }

    /// The transfer that was taken last has a lane, or will never have one.
    pub(super) fn has_lane(&mut self) {
        self.acquiring = false;
    }

    /// A thread is done with its transfer, and takes the next one before it waits.
    pub(super) fn ended(&mut self) {
        self.idle += 1;
    }

    /// Whether a thread is to be woken or started, as the next transfer can be taken. If neither is, a thread that ends
    /// its transfer, or says that it has its lane, looks again.
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

    /// Takes all transfers that no thread has taken.
    pub(super) fn leave(&mut self) -> impl Iterator<Item = J> {
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests;

//! Questions about queues that the program will most likely wait for. A program that keeps several queues busy waits
//! for one after the other, and would wait for a remote answer each time.

use accord_types::QueueId;

/// Most unanswered questions asked ahead.
const QUESTIONS_MAX: usize = 1 << 10;

/// Unanswered questions asked ahead: at most [`QUESTIONS_MAX`], at most one per queue, and those of devices that were
/// shut down since.
#[derive(Default)]
pub(super) struct QueriesAhead(Vec<Question>);

/// A question whether a queue has reached a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) ticket: u64,
    pub(super) device: u32,
    pub(super) queue: QueueId,
    pub(super) seq: u64,
    /// Whether the device was shut down since. Its later positions have nothing to do with the question.
    over: bool,
}

impl QueriesAhead {
    pub(super) fn ask(&mut self, ticket: u64, device: u32, queue: QueueId, seq: u64) {
        self.0.push(Question { ticket, device, queue, seq, over: false });
    }

    /// Whether nothing more may be asked.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= QUESTIONS_MAX
    }

    /// Whether a question about a queue is unanswered.
    pub(super) fn is_open(&self, device: u32, queue: QueueId) -> bool {
        self.open(device, queue).is_some()
    }

    /// Removes the question about exactly this position and returns its ticket: the caller's wait takes it over.
    pub(super) fn take(&mut self, device: u32, queue: QueueId, seq: u64) -> Option<u64> {
        let at = self.open(device, queue).filter(|&at| self.0[at].seq == seq)?;
        Some(self.0.swap_remove(at).ticket)
    }

    /// Removes and returns the question that a reply answers, or `None` if it answers another one.
    pub(super) fn answered(&mut self, ticket: u64) -> Option<Question> {
        let at = self.0.iter().position(|question| question.ticket == ticket)?;
        Some(self.0.swap_remove(at))
    }

    /// Marks the questions of a device that is shut down.
    pub(super) fn close(&mut self, device: u32) {
        self.0.iter_mut().filter(|question| question.device == device).for_each(|question| question.over = true);
    }

    fn open(&self, device: u32, queue: QueueId) -> Option<usize> {
        let is_it = |question: &Question| (question.device, question.queue, question.over) == (device, queue, false);
        self.0.iter().position(is_it)
    }
}

impl Question {
    /// Whether the answer is still meaningful.
    pub(super) fn counts(&self) -> bool {
        !self.over
    }
}

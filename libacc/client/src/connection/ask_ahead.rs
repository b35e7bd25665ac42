//! Waits that the program will most likely come to, asked about before: a program that keeps several queues busy waits for one after the
//! other, and would wait for an answer from afar each time.

use accord_types::QueueId;

/// Questions that an executor may owe the answers to. Beyond that nothing is asked ahead.
const QUESTIONS_MAX: usize = 1 << 10;

/// Unanswered questions asked ahead: [`QUESTIONS_MAX`] at most, one of a queue at most, and those of devices that were
/// shut down since.
#[derive(Default)]
pub(super) struct AskedAhead(Vec<Question>);

/// Whether a queue has got to a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) ticket: u64,
    pub(super) device: u32,
    pub(super) queue: QueueId,
    pub(super) seq: u64,
    /// The device was shut down since. What it counts from then on has nothing to do with it.
    over: bool,
}

impl AskedAhead {
    pub(super) fn ask(&mut self, ticket: u64, device: u32, queue: QueueId, seq: u64) {
        self.0.push(Question { ticket, device, queue, seq, over: false });
    }

    /// Whether nothing more may be asked.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= QUESTIONS_MAX
    }

    /// Whether something of a queue was asked that is not answered.
    pub(super) fn is_open(&self, device: u32, queue: QueueId) -> bool {
        self.open(device, queue).is_some()
    }

    /// The program waits for just that: the question is its own now.
    pub(super) fn take(&mut self, device: u32, queue: QueueId, seq: u64) -> Option<u64> {
        let at = self.open(device, queue).filter(|&at| self.0[at].seq == seq)?;
        Some(self.0.swap_remove(at).ticket)
    }

    /// An answer has come. None if it is none to these.
    pub(super) fn answered(&mut self, ticket: u64) -> Option<Question> {
        let at = self.0.iter().position(|question| question.ticket == ticket)?;
        Some(self.0.swap_remove(at))
    }

    /// A device is shut down.
    pub(super) fn close(&mut self, device: u32) {
        self.0.iter_mut().filter(|question| question.device == device).for_each(|question| question.over = true);
    }

    fn open(&self, device: u32, queue: QueueId) -> Option<usize> {
        let is_it = |question: &Question| (question.device, question.queue, question.over) == (device, queue, false);
        self.0.iter().position(is_it)
    }
}

impl Question {
    /// Whether the answer still says something.
    pub(super) fn counts(&self) -> bool {
        !self.over
    }
}

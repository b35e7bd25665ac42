//! Holds back the effects of the core's decisions until their records are durable.
//!
//! Decisions that arrive while a batch is written form the next batch.

use crate::store::Changes;
use accord_cluster::{ClientId, Effect, LinkId, Step};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Most decisions that wait while the state file can't be written. With more the coordinator ends.
pub(super) const DECISIONS_MAX: usize = 1 << 18;

/// The connection that an effect goes to. Effects for one connection keep their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Recipient {
    Agent(LinkId),
    Program(ClientId),
}

#[derive(Debug)]
struct Decision {
    step: Step,
    effects: Vec<Effect>,
}

/// The handling of further decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Open,
    /// The writer ends once all is written.
    Closing,
    /// Another coordinator leads: nothing is written any more.
    Superseded,
}

/// The decisions that are not carried out yet.
#[derive(Debug)]
pub(super) struct Journal {
    /// Decisions in order: first durable ones, then those being written, then new ones.
    decisions: VecDeque<Decision>,
    /// Number of decisions that are being written.
    writing: usize,
    /// Number of durable decisions whose effects have not been carried out.
    ready: usize,
    /// Number of decisions' effects that wait for each recipient.
    waiting: BTreeMap<Recipient, usize>,
    /// Number of all decisions.
    pub(super) taken: u64,
    /// Number of durable decisions.
    pub(super) durable: u64,
    /// The reason why the file can't be written now; `None` if it can.
    pub(super) failure: Option<String>,
    pub(super) phase: Phase,
    wake: SyncSender<()>,
}

impl Journal {
    /// Creates a journal, and the receiver that wakes its writer.
    pub(super) fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = sync_channel(1);
        let journal = Self {
            decisions: VecDeque::new(),
            writing: 0,
            ready: 0,
            waiting: BTreeMap::new(),
            taken: 0,
            durable: 0,
            failure: None,
            phase: Phase::Open,
            wake,
        };
        (journal, woken)
    }

    /// Adds a decision. Returns the effects that may be carried out at once.
    pub(super) fn take(&mut self, step: Step, effects: Vec<Effect>) -> Vec<Effect> {
        let is_free = |effect: &Effect| recipient(effect).is_none_or(|to| !self.waiting.contains_key(&to));
        let waits_for_others = !self.decisions.is_empty() && (step.concerns_jobs || !effects.iter().all(is_free));
        if step.records.is_empty() && !waits_for_others {
            return effects;
        }
        for to in effects.iter().filter_map(recipient) {
            *self.waiting.entry(to).or_default() += 1;
        }
        self.decisions.push_back(Decision { step, effects });
        self.taken += 1;
        self.wake_writer();
        Vec::new()
    }

    /// Whether more than [`DECISIONS_MAX`] decisions wait.
    pub(super) fn is_full(&self) -> bool {
        self.decisions.len() > DECISIONS_MAX
    }

    fn wake_writer(&self) {
        // A full channel wakes the writer as well.
        let _ = self.wake.try_send(());
    }

    /// Lets the writer end once all decisions are written.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closing;
        self.wake_writer();
    }

    /// Adds the records of new decisions to changes that could not be written before. Returns whether there is anything
    /// to write.
    pub(super) fn gather(&mut self, changes: &mut Changes) -> bool {
        for decision in self.decisions.iter_mut().skip(self.writing) {
            let records = std::mem::take(&mut decision.step.records);
            changes.extend(records.into_iter().map(|record| (record.key, record.value)));
        }
        self.writing = self.decisions.len();
        self.writing > 0
    }

    /// Notes that the decisions being written are durable.
    pub(super) fn written(&mut self) {
        self.failure = None;
        self.ready = std::mem::take(&mut self.writing);
    }

    /// Returns the effects of the next durable decision. They must be carried out before the journal takes another
    /// decision.
    pub(super) fn next_durable(&mut self) -> Option<Vec<Effect>> {
        self.ready = self.ready.checked_sub(1)?;
        let decision = self.decisions.pop_front()?;
        self.durable += 1;
        for to in decision.effects.iter().filter_map(recipient) {
            if let Some(waiting) = self.waiting.get_mut(&to) {
                *waiting -= 1;
                if *waiting == 0 {
                    self.waiting.remove(&to);
                }
            }
        }
        Some(decision.effects)
    }
}

fn recipient(effect: &Effect) -> Option<Recipient> {
    match effect {
        Effect::ToAgent(link, _) | Effect::RefuseAgent(link, _) | Effect::DropLink(link) => {
            Some(Recipient::Agent(*link))
        }
        Effect::ToClient(client, _) | Effect::CloseClient(client) => Some(Recipient::Program(*client)),
        Effect::MeasurePath(_) | Effect::Changed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_cluster::{ClientPush, Record};

    fn records(key: &str) -> Step {
        Step { records: vec![Record { key: key.to_owned(), value: Some(vec![1]) }], concerns_jobs: true }
    }

    fn warning(client: u64, text: &str) -> Vec<Effect> {
        vec![Effect::ToClient(ClientId(client), ClientPush::Warning(text.to_owned()))]
    }

    fn durable(journal: &mut Journal) -> Vec<Vec<Effect>> {
        std::iter::from_fn(|| journal.next_durable()).collect()
    }

    #[test]
    fn effects_wait_for_their_records_and_keep_their_order_for_each_recipient() {
        let (mut journal, _woken) = Journal::new();
        assert_eq!(journal.take(Step::default(), warning(1, "free")), warning(1, "free"));
        assert!(journal.take(records("a"), warning(1, "first")).is_empty());
        assert!(journal.take(Step::default(), warning(1, "behind it")).is_empty());
        assert_eq!(journal.take(Step::default(), warning(2, "to another program")), warning(2, "to another program"));
        assert!(journal.take(Step { concerns_jobs: true, ..Step::default() }, warning(2, "of a job")).is_empty());

        let mut changes = Changes::new();
        assert!(journal.gather(&mut changes));
        assert_eq!(changes.len(), 1);
        assert!(journal.next_durable().is_none());
        // A decision made while a batch is written belongs to the next batch.
        assert!(journal.take(records("b"), warning(1, "later")).is_empty());
        journal.written();
        assert_eq!(journal.next_durable(), Some(warning(1, "first")));
        assert!(journal.take(Step::default(), warning(1, "last")).is_empty());
        assert_eq!(durable(&mut journal), [warning(1, "behind it"), warning(2, "of a job")]);
        changes.clear();
        assert!(journal.gather(&mut changes));
        journal.written();
        assert_eq!(durable(&mut journal), [warning(1, "later"), warning(1, "last")]);
        assert_eq!((journal.taken, journal.durable), (5, 5));
        assert_eq!(journal.take(Step::default(), warning(1, "free")), warning(1, "free"));
    }

    #[test]
    fn a_batch_that_can_not_be_written_is_written_with_the_next_one() {
        let (mut journal, _woken) = Journal::new();
        let mut changes = Changes::new();
        let _ = journal.take(records("a"), warning(1, "first"));
        assert!(journal.gather(&mut changes));
        let _ = journal.take(records("b"), warning(1, "second"));
        assert!(journal.gather(&mut changes));
        assert_eq!(changes.keys().collect::<Vec<_>>(), ["a", "b"]);
        journal.written();
        assert_eq!(durable(&mut journal), [warning(1, "first"), warning(1, "second")]);
    }
}

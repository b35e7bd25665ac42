//! The waiters, and the reader among them. One waiting thread at a time reads the events of the command lane, handles
//! them for all, and hands over when its own has arrived. So a wait needs no hop between threads.

use super::effects::{Effect, Effects};
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::collections::BTreeSet;

/// Most outstanding replies to threads that have given up. The executor replies when the queues are done, or fail.
const UNANSWERED_MAX: usize = 1 << 16;

/// The reply to a ticket.
#[derive(Debug, Default)]
pub struct Reply {
    /// Its value, as the command defines it.
    pub value: u64,
    /// A second value, as the command defines it.
    pub extra: u64,
    /// Its bytes, as the command defines them.
    pub payload: Vec<u8>,
}

/// An event that a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedEvent {
    /// The reply to a ticket.
    Reply(u64),
    /// More credit.
    Credit,
    /// A copy out is complete or cancelled.
    Landed(TransferId),
    /// The bytes of a copy in were read from the program's memory, or never will be.
    Sent(TransferId),
    /// No thread reads a copy in from the program's memory any more.
    LetGo(TransferId),
    /// Room for another copy.
    Room,
}

impl AwaitedEvent {
    /// Whether the command lane delivers it, so that its waiter may be the reader. Other lanes have threads of their
    /// own, which could not wake a reader that blocks on the command lane.
    fn is_read(self) -> bool {
        matches!(self, Self::Reply(_) | Self::Credit)
    }

    /// Whether the wait ends when the connection is lost. Another thread may still read or write the program's memory
    /// then, and the program must not get it back before.
    fn ends_with_the_connection(self) -> bool {
        !matches!(self, Self::Landed(_) | Self::Sent(_) | Self::LetGo(_))
    }
}

/// Identifies a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitId(u64);

/// The next step of a waiting thread.
#[derive(Debug)]
pub enum WaitStep {
    /// The event has arrived, and the wait is removed.
    Done(Result<Reply>),
    /// The thread becomes the reader for all.
    Read,
    /// The thread sleeps until it is woken, then calls again.
    Sleep,
}

/// The reader of the command lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    Waiter(WaitId),
    /// The watcher, which reads events that no waiter waits for.
    Watcher,
}

struct Waiter<W> {
    id: WaitId,
    want: AwaitedEvent,
    waker: W,
    outcome: Option<Result<Reply>>,
}

/// The waiters and the reader. `W` identifies a thread to wake.
pub(super) struct Waits<W> {
    waiters: Vec<Waiter<W>>,
    reader: Option<Reader>,
    next_id: u64,
    lost: Option<Error>,
    /// Tickets of threads that gave up: at most [`UNANSWERED_MAX`].
    unanswered: BTreeSet<u64>,
}

impl<W> Default for Waits<W> {
    fn default() -> Self {
        Self { waiters: Vec::new(), reader: None, next_id: 0, lost: None, unanswered: BTreeSet::new() }
    }
}

impl<W: Clone> Waits<W> {
    /// Registers a wait. Call this before the awaited event can arrive.
    pub(super) fn register(&mut self, want: AwaitedEvent, waker: W) -> WaitId {
        self.next_id += 1;
        let id = WaitId(self.next_id);
        let outcome = self.lost.clone().filter(|_| want.ends_with_the_connection()).map(Err);
        self.waiters.push(Waiter { id, want, waker, outcome });
        id
    }

    /// Returns the waiter's next step. [`WaitStep::Done`] removes the wait.
    pub(super) fn turn(&mut self, id: WaitId) -> WaitStep {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.id == id) else {
            return WaitStep::Done(Err(Error::new(ErrorCode::ImplementationDefined, "a wait was lost")));
        };
        if let Some(outcome) = self.waiters[at].outcome.take() {
            self.waiters.swap_remove(at);
            return WaitStep::Done(outcome);
        }
        if self.reader.is_some() || !self.waiters[at].want.is_read() {
            return WaitStep::Sleep;
        }
        self.reader = Some(Reader::Waiter(id));
        WaitStep::Read
    }

    /// Whether the waiter's event has arrived.
    pub(super) fn is_done(&self, id: WaitId) -> bool {
        self.waiters.iter().find(|waiter| waiter.id == id).is_none_or(|waiter| waiter.outcome.is_some())
    }

    /// Removes a waiter.
    pub(super) fn unregister(&mut self, id: WaitId, effects: &mut Effects<W>) {
        if let Some(at) = self.waiters.iter().position(|waiter| waiter.id == id) {
            let Waiter { want, outcome, .. } = self.waiters.swap_remove(at);
            if let (AwaitedEvent::Reply(ticket), None) = (want, outcome) {
                self.unanswered.insert(ticket);
                if self.unanswered.len() > UNANSWERED_MAX {
                    // A reply to that ticket then counts as unexpected.
                    self.unanswered.pop_first();
                }
            }
        }
        // This waiter may have been woken to read.
        self.wake_reader(effects);
    }

    /// Makes the watcher the reader if there is none and, unless it is `urgent`, no waiter is about to be. That waiter
    /// may still be sending, to an executor that reads only after this side has read.
    pub(super) fn try_read(&mut self, urgent: bool) -> bool {
        let free = self.reader.is_none() && (urgent || !self.is_wanted());
        if free {
            self.reader = Some(Reader::Watcher);
        }
        free
    }

    /// Ends the reader's turn; the next waiter becomes the reader.
    pub(super) fn hand_over(&mut self, effects: &mut Effects<W>) {
        self.reader = None;
        self.wake_reader(effects);
    }

    pub(super) fn reader(&self) -> Option<Reader> {
        self.reader
    }

    /// Whether a waiter wants to read.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.want.is_read() && waiter.outcome.is_none())
    }

    /// Whether a waiter waits for space for a command while there may be no reader to receive the event.
    pub(super) fn is_space_wanted(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.want == AwaitedEvent::Room && waiter.outcome.is_none())
    }

    /// Ends the wait for an event that has arrived.
    pub(super) fn received(
        &mut self,
        want: AwaitedEvent,
        outcome: impl FnOnce() -> Result<Reply>,
        effects: &mut Effects<W>,
    ) {
        // Without a waiter, the thread has given up.
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.want == want && waiter.outcome.is_none()) {
            finish(waiter, self.reader, outcome(), effects);
        }
    }

    /// Ends the wait for the reply to a ticket.
    ///
    /// # Errors
    /// Returns an error if the ticket is unknown or was answered before: then the peer's other messages can't be
    /// trusted either.
    pub(super) fn replied(&mut self, ticket: u64, outcome: Result<Reply>, effects: &mut Effects<W>) -> Result<()> {
        let want = AwaitedEvent::Reply(ticket);
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.want == want && waiter.outcome.is_none()) {
            finish(waiter, self.reader, outcome, effects);
        } else if !self.unanswered.remove(&ticket) {
            let why = format!("the peer broke the protocol: reply {ticket} came, which is not awaited");
            return Err(Error::new(ErrorCode::DeviceUnavailable, why));
        }
        Ok(())
    }

    /// Ends all waits for an event.
    pub(super) fn complete_all(&mut self, want: AwaitedEvent, effects: &mut Effects<W>) {
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.want == want) {
            finish(waiter, self.reader, Ok(Reply::default()), effects);
        }
    }

    /// Ends all waits for the command lane, now and later, because the connection is lost. Waits for the program's
    /// memory end when no thread reads or writes it any more.
    pub(super) fn lose(&mut self, error: &Error, effects: &mut Effects<W>) {
        self.lost.get_or_insert_with(|| error.clone());
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.want.ends_with_the_connection()) {
            finish(waiter, self.reader, Err(error.clone()), effects);
        }
    }

    /// Number of waits so far.
    pub(super) fn registered(&self) -> u64 {
        self.next_id
    }

    /// Number of waiters.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    fn wake_reader(&self, effects: &mut Effects<W>) {
        if self.reader.is_none()
            && let Some(next) = self.waiters.iter().find(|waiter| waiter.outcome.is_none() && waiter.want.is_read())
        {
            effects.push(Effect::Wake(next.waker.clone()));
        }
    }
}

fn finish<W: Clone>(waiter: &mut Waiter<W>, reader: Option<Reader>, outcome: Result<Reply>, effects: &mut Effects<W>) {
    if waiter.outcome.is_none() {
        waiter.outcome = Some(outcome);
        // The reader checks its own wait after each event.
        if reader != Some(Reader::Waiter(waiter.id)) {
            effects.push(Effect::Wake(waiter.waker.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_role_passes_to_the_next_waiter() {
        let mut waits = Waits::default();
        let mut effects = Effects::new();
        let (first, second) =
            (waits.register(AwaitedEvent::Reply(1), 'a'), waits.register(AwaitedEvent::Reply(2), 'b'));
        assert!(matches!(waits.turn(first), WaitStep::Read));
        assert!(matches!(waits.turn(second), WaitStep::Sleep));
        assert!(!waits.try_read(false));
        waits.replied(1, Ok(Reply { value: 7, ..Reply::default() }), &mut effects).unwrap();
        assert!(effects.is_empty(), "it reads, and sees it");
        assert!(waits.is_done(first) && !waits.is_done(second));
        waits.hand_over(&mut effects);
        assert_eq!(effects.as_slice(), [Effect::Wake('b')]);
        assert!(matches!(waits.turn(first), WaitStep::Done(Ok(Reply { value: 7, .. }))));
        assert!(matches!(waits.turn(second), WaitStep::Read));
        waits.hand_over(&mut effects);
        waits.unregister(second, &mut effects);
        assert!(waits.try_read(false));
    }

    #[test]
    fn a_reply_is_taken_once_and_only_if_it_was_asked_for() {
        let mut waits = Waits::default();
        let mut effects = Effects::new();
        assert!(waits.replied(1, Ok(Reply::default()), &mut effects).is_err());
        let (stays, leaves) =
            (waits.register(AwaitedEvent::Reply(1), 'a'), waits.register(AwaitedEvent::Reply(2), 'b'));
        waits.unregister(leaves, &mut effects);
        waits.replied(2, Ok(Reply::default()), &mut effects).unwrap();
        assert!(waits.replied(2, Ok(Reply::default()), &mut effects).unwrap_err().cause().contains("reply 2"));
        waits.replied(1, Ok(Reply { value: 7, ..Reply::default() }), &mut effects).unwrap();
        assert!(waits.replied(1, Ok(Reply::default()), &mut effects).is_err(), "it was answered before");
        assert!(matches!(waits.turn(stays), WaitStep::Done(Ok(Reply { value: 7, .. }))));
        waits.unregister(stays, &mut effects);
        assert!(waits.replied(1, Ok(Reply::default()), &mut effects).is_err(), "nor was it given up");
    }

    #[test]
    fn unanswered_queries_of_an_executor_are_bounded() {
        let mut waits = Waits::default();
        let mut effects = Effects::new();
        for ticket in 0..=UNANSWERED_MAX as u64 {
            let id = waits.register(AwaitedEvent::Reply(ticket), 'a');
            waits.unregister(id, &mut effects);
        }
        assert_eq!(waits.unanswered.len(), UNANSWERED_MAX);
        waits.replied(1, Ok(Reply::default()), &mut effects).unwrap();
        assert!(waits.replied(0, Ok(Reply::default()), &mut effects).is_err());
    }

    #[test]
    fn a_wait_for_memory_does_not_read() {
        let mut waits = Waits::default();
        let mut effects = Effects::new();
        let landed = waits.register(AwaitedEvent::Landed(TransferId(1)), 'a');
        assert!(matches!(waits.turn(landed), WaitStep::Sleep));
        assert!(waits.try_read(false), "so the watcher may");
        waits.hand_over(&mut effects);
        assert!(effects.is_empty());
        waits.lose(&Error::new(ErrorCode::DeviceUnavailable, "gone"), &mut effects);
        assert!(!waits.is_done(landed), "its memory may still be written");
        waits.complete_all(AwaitedEvent::Landed(TransferId(1)), &mut effects);
        assert_eq!(effects.as_slice(), [Effect::Wake('a')]);
        assert!(matches!(waits.turn(landed), WaitStep::Done(Ok(_))));
    }

    #[test]
    fn a_lost_connection_ends_every_wait_for_the_command_lane() {
        let mut waits = Waits::default();
        let mut effects = Effects::new();
        let id = waits.register(AwaitedEvent::Credit, 'a');
        waits.lose(&Error::new(ErrorCode::DeviceUnavailable, "gone"), &mut effects);
        assert!(matches!(waits.turn(id), WaitStep::Done(Err(_))));
        let late = waits.register(AwaitedEvent::Reply(1), 'a');
        assert!(matches!(waits.turn(late), WaitStep::Done(Err(_))));
    }
}

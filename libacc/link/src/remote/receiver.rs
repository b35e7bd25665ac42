//! Whoever waits reads: one of the waiting threads at a time takes the events off the command
//! lane, handles them for all, and hands over when its own has come.

use accord_types::{Error, ErrorCode, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// What came back for a ticket.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) value: u64,
    pub(super) extra: u64,
    pub(super) payload: Vec<u8>,
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// The reply to a ticket.
    Reply(u64),
    /// More credit.
    Credit,
}

struct Waiter {
    id: u64,
    want: Want,
    thread: Thread,
    outcome: Option<Result<Reply>>,
}

/// Who waits and who reads.
#[derive(Default)]
pub(super) struct Receiver {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reading: bool,
    waiters: Vec<Waiter>,
    next_id: u64,
    lost: Option<Error>,
}

/// What a waiting thread does now.
pub(super) enum Turn {
    /// Its event has come.
    Done(Result<Reply>),
    /// It reads for all.
    Read,
    /// Somebody else reads: sleep until woken, then ask again.
    Sleep,
}

impl Receiver {
    /// The calling thread is going to wait. To be called before what it waits for can come.
    pub(super) fn register(&self, want: Want) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        let id = state.next_id;
        let outcome = state.lost.clone().map(Err);
        state.waiters.push(Waiter { id, want, thread: std::thread::current(), outcome });
        id
    }

    /// What the waiter does now. After [`Turn::Done`] it is no waiter any more.
    pub(super) fn turn(&self, id: u64) -> Turn {
        let mut state = self.lock();
        let Some(at) = state.waiters.iter().position(|waiter| waiter.id == id) else {
            return Turn::Done(Err(Error::new(ErrorCode::ImplementationDefined, "a wait was lost")));
        };
        if let Some(outcome) = state.waiters[at].outcome.take() {
            state.waiters.swap_remove(at);
            return Turn::Done(outcome);
        }
        if state.reading {
            return Turn::Sleep;
        }
        state.reading = true;
        Turn::Read
    }

    /// Whether the waiter's event has come.
    pub(super) fn is_done(&self, id: u64) -> bool {
        let state = self.lock();
        state.waiters.iter().find(|waiter| waiter.id == id).is_none_or(|waiter| waiter.outcome.is_some())
    }

    /// The calling thread waits no more.
    pub(super) fn unregister(&self, id: u64) {
        let mut state = self.lock();
        state.waiters.retain(|waiter| waiter.id != id);
        // It may have been woken to read.
        state.wake_reader();
    }

    /// Takes the reading side if nobody has it and nobody waits.
    pub(super) fn try_read(&self) -> bool {
        let mut state = self.lock();
        let free = !state.reading && state.waiters.is_empty();
        if free {
            state.reading = true;
        }
        free
    }

    /// Gives the reading side back; the next waiter takes it.
    pub(super) fn hand_over(&self) {
        let mut state = self.lock();
        state.reading = false;
        state.wake_reader();
    }

    /// The reply to a ticket has come.
    pub(super) fn reply(&self, ticket: u64, outcome: Result<Reply>) {
        let mut state = self.lock();
        // Without a waiter its thread has given up.
        if let Some(waiter) = state.waiters.iter_mut().find(|waiter| waiter.want == Want::Reply(ticket)) {
            waiter.finish(outcome);
        }
    }

    /// More credit has come.
    pub(super) fn credit(&self) {
        for waiter in &mut self.lock().waiters {
            if waiter.want == Want::Credit {
                waiter.finish(Ok(Reply::default()));
            }
        }
    }

    /// The link is gone: all waits end, now and later.
    pub(super) fn lose(&self, error: &Error) {
        let mut state = self.lock();
        state.lost.get_or_insert_with(|| error.clone());
        for waiter in &mut state.waiters {
            waiter.finish(Err(error.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_reader(&self) {
        if !self.reading
            && let Some(next) = self.waiters.iter().find(|waiter| waiter.outcome.is_none())
        {
            next.thread.unpark();
        }
    }
}

impl Waiter {
    fn finish(&mut self, outcome: Result<Reply>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            if self.thread.id() != std::thread::current().id() {
                self.thread.unpark();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reads_and_hands_over() {
        let receiver = Receiver::default();
        let (first, second) = (receiver.register(Want::Reply(1)), receiver.register(Want::Reply(2)));
        assert!(matches!(receiver.turn(first), Turn::Read));
        assert!(matches!(receiver.turn(second), Turn::Sleep));
        assert!(!receiver.try_read());
        receiver.reply(1, Ok(Reply { value: 7, ..Reply::default() }));
        assert!(receiver.is_done(first) && !receiver.is_done(second));
        receiver.hand_over();
        assert!(matches!(receiver.turn(first), Turn::Done(Ok(Reply { value: 7, .. }))));
        assert!(matches!(receiver.turn(second), Turn::Read));
        receiver.hand_over();
        receiver.unregister(second);
        assert!(receiver.try_read());
    }

    #[test]
    fn a_lost_link_ends_every_wait() {
        let receiver = Receiver::default();
        let id = receiver.register(Want::Credit);
        receiver.lose(&Error::new(ErrorCode::DeviceUnavailable, "gone"));
        assert!(matches!(receiver.turn(id), Turn::Done(Err(_))));
        let late = receiver.register(Want::Reply(1));
        assert!(matches!(receiver.turn(late), Turn::Done(Err(_))));
    }
}

//! The host's remaining work after the device has reached positions of a stream, in the stream's order.

use accord_types::{Error, HostRange};
use std::collections::VecDeque;

/// Most completions kept for a stream. Beyond it, a caller that makes the stream wait for another one handles the first
/// completions: a program that never waits could enqueue any number. This always ends, because all of them are in the
/// driver's streams, which never wait for the host.
pub const COMPLETIONS_MAX: usize = 4096;

/// Work on the host once the device has reached a position.
pub trait HostWork {
    /// Returns how far the work is.
    fn stage(&self) -> Stage;

    /// Whether the work may write to a range of the program's memory.
    fn may_write(&self, range: HostRange) -> bool;
}

/// The progress of the host's work for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The thread that waits for the operation does the work, or reads its outcome.
    Ready,
    /// Other threads or another stream have yet to do it.
    Elsewhere,
}

/// The next work that a waiter for a position needs done.
#[derive(Debug)]
pub enum NextWork<'a, C> {
    /// All of it is done.
    None,
    /// The stream has failed, and the failure is not reported yet: ask again later.
    Failing,
    /// The stream has failed.
    Failed(Error),
    /// This work was removed. The caller does it before another thread asks.
    Run(C),
    /// Work of the operation at a position, to wait for.
    Await(u64, &'a C),
}

/// Completions of a stream, with their positions.
pub(super) struct Completions<C>(VecDeque<(u64, C)>);

impl<C> Default for Completions<C> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<C: HostWork> Completions<C> {
    pub(super) fn push(&mut self, seq: u64, work: C) {
        self.0.push_back((seq, work));
    }

    /// Whether work remains for an operation up to `seq`.
    pub(super) fn remain(&self, seq: u64) -> bool {
        self.0.front().is_some_and(|(at, _)| *at <= seq)
    }

    /// Returns the position of the first work if there are `most` or more.
    pub(super) fn first_of(&self, most: usize) -> Option<u64> {
        self.0.front().filter(|_| self.0.len() >= most).map(|(at, _)| *at)
    }

    pub(super) fn may_write(&self, range: HostRange) -> bool {
        self.0.iter().any(|(_, work)| work.may_write(range))
    }

    pub(super) fn next(&mut self, seq: u64) -> NextWork<'_, C> {
        let stage = self.0.front().filter(|(at, _)| *at <= seq).map(|(_, work)| work.stage());
        let run = if stage == Some(Stage::Ready) { self.0.pop_front() } else { None };
        match (run, stage.and(self.0.front())) {
            (Some((_, work)), _) => NextWork::Run(work),
            (None, Some((at, work))) => NextWork::Await(*at, work),
            (None, None) => NextWork::None,
        }
    }

    /// Removes the work at `seq` that was awaited. Another thread may have removed it.
    pub(super) fn awaited(&mut self, seq: u64) {
        if self.0.front().is_some_and(|(at, work)| *at == seq && work.stage() == Stage::Elsewhere) {
            self.0.pop_front();
        }
    }
}

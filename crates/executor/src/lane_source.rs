//! The source of a session's lanes: an agent in another process, or one that hosts the session itself.

use accord_fabric::handshake::Introduced;
use accord_fabric::transport::{Handover, HandoverMessage, SharedLane};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// Most lanes that were handed over and not received yet.
const WAITING_MAX: usize = 1_024;

/// The channel from an agent to an executor in the same process.
#[derive(Debug, Default)]
pub struct LaneChannel {
    state: ShortLock<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lanes: VecDeque<(SharedLane, Introduced)>,
    closed: bool,
}

impl LaneChannel {
    /// Hands a lane over. No byte may have been read from it after its handshake.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the executor ends, or the channel is full.
    pub fn send(&self, lane: SharedLane, client: Introduced) -> Result<()> {
        let mut state = self.lock();
        let refused = |why: &str| Err(Error::new(ErrorCode::System, format!("the executor {why}")));
        if state.closed {
            return refused("is about to end");
        }
        if state.lanes.len() >= WAITING_MAX {
            return refused("does not take its connections");
        }
        state.lanes.push_back((lane, client));
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Ends the executor, from any thread.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        // The peers see that the lanes end.
        let left = std::mem::take(&mut state.lanes);
        drop(state);
        drop(left);
        self.changed.notify_all();
    }

    /// Returns the next lane, or `None` when the channel is closed or no lane arrives within `limit`.
    fn receive(&self, limit: Option<Duration>) -> Option<(SharedLane, Introduced)> {
        let nothing = |state: &mut Waiting| state.lanes.is_empty() && !state.closed;
        let state = self.lock();
        let mut state = match limit {
            None => ShortGuard::wait_while(state, &self.changed, nothing),
            Some(limit) => ShortGuard::wait_timeout_while(state, &self.changed, limit, nothing).0,
        };
        state.lanes.pop_front()
    }

    fn lock(&self) -> ShortGuard<'_, Waiting> {
        self.state.lock()
    }
}

/// The result of waiting for a lane for a time.
pub(crate) enum Received {
    /// A lane, or the reason why the executor must end.
    Handed(HandoverMessage),
    /// No message arrived.
    Nothing,
    /// The agent has closed the connection.
    End,
}

/// The source of a session's lanes.
pub(crate) enum LaneSource {
    /// The agent is another process.
    Agent(Handover),
    /// An agent in this process.
    Here(Arc<LaneChannel>),
}

impl LaneSource {
    /// Duplicates the handle of the channel.
    pub(crate) fn try_clone(&self) -> std::io::Result<Self> {
        match self {
            Self::Agent(handover) => handover.try_clone().map(Self::Agent),
            Self::Here(queue) => Ok(Self::Here(queue.clone())),
        }
    }

    /// Returns the next lane, or the reason why the executor ends. Blocks for at most `limit`. Returns `None` at the end.
    pub(crate) fn receive(&self, limit: Option<Duration>) -> Option<HandoverMessage> {
        match self {
            Self::Agent(handover) => {
                handover.limit(limit).ok()?;
                handover.receive_next().ok()?
            }
            Self::Here(queue) => queue.receive(limit).map(|(lane, client)| HandoverMessage::Lane(lane, client)),
        }
    }

    /// Blocks for `time` at most until a lane arrives.
    pub(crate) fn receive_within(&self, time: Duration) -> Received {
        match self {
            Self::Agent(handover) => match handover.is_readable(time) {
                Ok(true) => self.receive(None).map_or(Received::End, Received::Handed),
                Ok(false) => Received::Nothing,
                Err(_) => Received::End,
            },
            Self::Here(queue) => match queue.receive(Some(time)) {
                Some((lane, client)) => Received::Handed(HandoverMessage::Lane(lane, client)),
                None if queue.lock().closed => Received::End,
                None => Received::Nothing,
            },
        }
    }

    /// Ends the arrival of lanes, from any thread. Reports to the agent still arrive there.
    pub(crate) fn close(&self) {
        match self {
            Self::Agent(handover) => handover.shutdown_reads(),
            Self::Here(queue) => queue.close(),
        }
    }
}

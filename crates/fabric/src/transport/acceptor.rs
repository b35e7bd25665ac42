//! Accepts connections and verifies that their clients hold the session's key, without a thread for each connection.
//!
//! ```text
//!                                +-----------------------------------------------------+
//! accept -> sends its hello ---->| -> its session is announced -> proves its key ------|-> proven
//!          (`silent`, bounded)   |       (`unproven`, bounded)                         |
//!                         \----->| -> gets a refusal, and has a moment to read it      |
//!                                +-----------------------------------------------------+
//! ```
//!
//! Both stages are bounded, in total and for each address. A connection beyond a bound evicts the oldest one of the
//! address that has most.

mod unproven;

use super::listener::{IncomingLane, Listener};
use crate::handshake::{Hello, Proven};
use crate::key::Key;
use accord_types::connection_slots::{ConnectionSlots, Ticket};
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unproven::{HelloProgress, Stage, Unproven};

/// Most connections whose hello is not complete.
const SILENT_MAX: usize = 512;
/// Most of these connections from one address.
const SILENT_OF_ONE_ADDRESS_MAX: usize = 128;
/// Most connections that have sent their hello but not proven their key, or were refused and may still read the reason.
const UNPROVEN_MAX: usize = 512;
/// Most of these connections from one address.
const UNPROVEN_OF_ONE_ADDRESS_MAX: usize = 128;
/// The time limit of a connection's hello, and then of its proof.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
/// Most connections accepted before the older ones are polled again.
const BATCH_MAX: usize = 64;

/// The outcome of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// The connection has proven its key and waits for [`Proven::welcome`].
    Proven(IncomingLane, Proven),
    /// The connection with this name was refused, for this reason.
    Refused(String, Error),
}

/// The proof that a connection has to give.
#[derive(Debug)]
pub enum RequiredProof {
    /// Possession of this key.
    Key(Key),
    /// The session is not known yet. The acceptor repeats the question when the [`Waker`] fires, and at this time at the latest.
    Later(Instant),
}

/// Makes an [`Acceptor`] repeat its questions about unknown sessions. Any thread may call it at any time.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Wakes the acceptor.
    pub fn wake(&self) {
        // A counter at its limit leaves the acceptor awake anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// Accepts connections, and returns those that are proven or refused, see the module.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    waker: Arc<Waker>,
    silent: UnprovenLanes,
    unproven: UnprovenLanes,
    /// Outcomes that [`Acceptor::next_outcome`] has not returned yet.
    outcomes: VecDeque<Outcome>,
}

#[derive(Debug)]
struct UnprovenLanes {
    places: ConnectionSlots,
    lanes: BTreeMap<Ticket, Unproven>,
}

impl UnprovenLanes {
    fn new(most: usize, most_of_one_address: usize) -> Self {
        Self { places: ConnectionSlots::new(most, most_of_one_address), lanes: BTreeMap::new() }
    }

    /// Adds a connection and returns the one that is evicted for it.
    fn enter(&mut self, unproven: Unproven) -> (Ticket, Option<Unproven>) {
        let (ticket, leaves) = self.places.enter(&unproven.incoming.address);
        let leaves = leaves.and_then(|leaves| self.lanes.remove(&leaves));
        self.lanes.insert(ticket, unproven);
        (ticket, leaves)
    }

    fn leave(&mut self, ticket: Ticket) -> Option<Unproven> {
        self.places.leave(ticket);
        self.lanes.remove(&ticket)
    }

    fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.lanes.values().filter_map(Unproven::polled)
    }

    fn next_end(&self) -> Option<Instant> {
        self.lanes.values().map(|unproven| unproven.until).min()
    }

    /// Returns the tickets of the connections with poll events.
    fn called(&self, polled: &[PollFd<'_>]) -> Vec<Ticket> {
        let called = self.lanes.keys().zip(polled).filter(|(_, polled)| !polled.revents().is_empty());
        called.map(|(ticket, _)| *ticket).collect()
    }

    fn over(&self, now: Instant) -> Vec<Ticket> {
        self.lanes.iter().filter(|(_, unproven)| unproven.until <= now).map(|(ticket, _)| *ticket).collect()
    }

    fn waiting(&self) -> Vec<Ticket> {
        self.lanes.iter().filter(|(_, unproven)| unproven.awaits_session()).map(|(ticket, _)| *ticket).collect()
    }
}

/// Returns the proof that the client of a hello, received at that time, has to give.
type KeyOf<'a> = dyn FnMut(&Hello, Instant) -> Result<RequiredProof> + 'a;

impl Acceptor {
    /// Creates an acceptor for the connections of `listener`.
    ///
    /// # Errors
    /// Returns the system's error if the listener can't be made non-blocking or the waker can't be created.
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.take_without_waiting()?;
        let waker = Arc::new(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let silent = UnprovenLanes::new(SILENT_MAX, SILENT_OF_ONE_ADDRESS_MAX);
        let unproven = UnprovenLanes::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_ADDRESS_MAX);
        Ok(Self { listener, waker, silent, unproven, outcomes: VecDeque::new() })
    }

    /// Returns the waker, to call when `key_of` may answer differently.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Blocks until a connection has proven its key or was refused, and returns it. `key_of` must not block; its error's cause
    /// is sent to the client.
    ///
    /// # Errors
    /// Returns the system's error if connections can't be accepted; the acceptor remains usable.
    pub fn next_outcome(&mut self, key_of: &mut KeyOf<'_>) -> io::Result<Outcome> {
        loop {
            if let Some(arrival) = self.outcomes.pop_front() {
                return Ok(arrival);
            }
            self.poll(key_of)?;
        }
    }

    /// Refuses a proven connection, and sends it the reason.
    pub fn turn_away(&mut self, incoming: IncomingLane, why: Error) {
        let ticket = self.enter_unproven(Unproven::new(incoming, Instant::now()));
        self.refuse(ticket, why);
    }

    /// Polls once and handles all events.
    fn poll(&mut self, key_of: &mut KeyOf<'_>) -> io::Result<()> {
        let (comes, rang, silent, unproven) = {
            let ends = [self.silent.next_end(), self.unproven.next_end()].into_iter().flatten();
            let wait = ends.min().map(|end| end.saturating_duration_since(Instant::now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            let own =
                [self.listener.as_fd(), self.waker.0.as_fd()].map(|own| PollFd::from_borrowed_fd(own, PollFlags::IN));
            let mut polled: Vec<PollFd<'_>> =
                own.into_iter().chain(self.silent.polled()).chain(self.unproven.polled()).collect();
            match poll(&mut polled, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let has_happened = |at: usize| polled.get(at).is_some_and(|polled| !polled.revents().is_empty());
            let (silent, unproven) = polled[2..].split_at(self.silent.lanes.len());
            (has_happened(0), has_happened(1), self.silent.called(silent), self.unproven.called(unproven))
        };
        for ticket in unproven {
            self.poll_unproven(ticket);
        }
        for ticket in silent {
            self.poll_silent(ticket, key_of);
        }
        if rang {
            self.waker.reset();
            for ticket in self.unproven.waiting() {
                self.ask(ticket, key_of);
            }
        }
        self.end_finished(key_of);
        if comes { self.take() } else { Ok(()) }
    }

    fn poll_silent(&mut self, ticket: Ticket, key_of: &mut KeyOf<'_>) {
        let Some(received) = self.silent.lanes.get_mut(&ticket).map(Unproven::read_hello) else { return };
        if matches!(received, HelloProgress::Nothing) {
            return;
        }
        let Some(mut unproven) = self.silent.leave(ticket) else { return };
        match received {
            HelloProgress::Named(greeting, hello) => {
                let since = Instant::now();
                (unproven.stage, unproven.until) = (Stage::Awaits { greeting, hello, since }, since);
                let ticket = self.enter_unproven(unproven);
                self.ask(ticket, key_of);
            }
            HelloProgress::Wrong(why) => {
                let ticket = self.enter_unproven(unproven);
                self.refuse(ticket, why);
            }
            HelloProgress::Nothing | HelloProgress::Proven(_) | HelloProgress::Gone => {}
        }
    }

    fn poll_unproven(&mut self, ticket: Ticket) {
        match self.unproven.lanes.get_mut(&ticket).map(Unproven::read_hello) {
            Some(HelloProgress::Proven(proven)) => {
                let unproven = self.unproven.leave(ticket);
                self.outcomes.extend(
                    unproven.and_then(Unproven::into_incoming).map(|incoming| Outcome::Proven(incoming, proven)),
                );
            }
            Some(HelloProgress::Wrong(why)) => self.refuse(ticket, why),
            Some(HelloProgress::Gone) => drop(self.unproven.leave(ticket)),
            Some(HelloProgress::Nothing | HelloProgress::Named(..)) | None => {}
        }
    }

    /// Calls `key_of` for a connection that awaits its session.
    fn ask(&mut self, ticket: Ticket, key_of: &mut KeyOf<'_>) {
        let Some(unproven) = self.unproven.lanes.get_mut(&ticket) else { return };
        let Stage::Awaits { greeting, hello, since } = &unproven.stage else { return };
        let asked = key_of(hello, *since).and_then(|asked| match asked {
            RequiredProof::Later(at) => {
                unproven.until = at;
                Ok(None)
            }
            RequiredProof::Key(key) => greeting.challenge(*hello, key).map(Some),
        });
        match asked {
            Ok(None) => {}
            Ok(Some((challenge, words))) => {
                unproven.until = Instant::now() + PROOF_LIMIT;
                if !unproven.challenge(challenge, &words) {
                    drop(self.unproven.leave(ticket));
                }
            }
            Err(why) => self.refuse(ticket, why),
        }
    }

    /// Handles the connections whose deadline has passed.
    fn end_finished(&mut self, key_of: &mut KeyOf<'_>) {
        let now = Instant::now();
        for ticket in self.silent.over(now) {
            drop(self.silent.leave(ticket));
        }
        for ticket in self.unproven.over(now) {
            match self.unproven.lanes.get(&ticket).map(|unproven| &unproven.stage) {
                Some(Stage::Awaits { .. }) => self.ask(ticket, key_of),
                Some(Stage::Proves(_)) => {
                    let why = Error::new(ErrorCode::DeviceUnavailable, "it did not prove its session's key in time");
                    self.refuse(ticket, why);
                }
                Some(Stage::Greets(_) | Stage::Leaves) => drop(self.unproven.leave(ticket)),
                None => {}
            }
        }
    }

    fn enter_unproven(&mut self, unproven: Unproven) -> Ticket {
        let (ticket, leaves) = self.unproven.enter(unproven);
        if let Some(mut leaves) = leaves
            && !matches!(leaves.stage, Stage::Leaves)
        {
            let why = "too many connections have not proven their session's key";
            let why = Error::new(ErrorCode::DeviceUnavailable, why).remedy("try again").transient();
            leaves.refuse(&why);
            self.outcomes.push_back(Outcome::Refused(leaves.incoming.name, why));
        }
        ticket
    }

    fn refuse(&mut self, ticket: Ticket, why: Error) {
        let Some(unproven) = self.unproven.lanes.get_mut(&ticket) else { return };
        let name = unproven.incoming.name.clone();
        if !unproven.refuse(&why) {
            drop(self.unproven.leave(ticket));
        }
        self.outcomes.push_back(Outcome::Refused(name, why));
    }

    fn take(&mut self) -> io::Result<()> {
        for _ in 0..BATCH_MAX {
            match self.listener.try_accept() {
                Ok(incoming) => {
                    let mut unproven = Unproven::new(incoming, Instant::now() + PROOF_LIMIT);
                    if unproven.listen() {
                        self.silent.enter(unproven);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The connection was closed before it was accepted, or a firewall forbids it.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::PermissionDenied) => {}
                // Most likely out of descriptors: an unproven connection is closed to free one.
                Err(error) => self.make_space(&no_more(&error)).ok_or(error)?,
            }
        }
        Ok(())
    }

    /// Refuses the oldest connection with the reason `why`. Returns `None` if there is none.
    fn make_space(&mut self, why: &Error) -> Option<()> {
        for space in [&mut self.silent, &mut self.unproven] {
            if let Some(oldest) = space.places.oldest() {
                if let Some(mut leaves) = space.leave(oldest)
                    && !matches!(leaves.stage, Stage::Leaves)
                {
                    leaves.refuse(why);
                    self.outcomes.push_back(Outcome::Refused(leaves.incoming.name, why.clone()));
                }
                return Some(());
            }
        }
        None
    }
}

/// The error for connections that are closed because the system accepts no more.
fn no_more(error: &io::Error) -> Error {
    let why = Error::new(ErrorCode::DeviceUnavailable, format!("the agent can't take more connections: {error}"));
    why.remedy_if(scarce::remedy(error)).transient()
}

#[cfg(test)]
mod tests;

//! Takes connections and has them prove their session's key, without a thread for any of them.
//!
//! ```text
//!                                +-----------------------------------------------------+
//! comes -> says who it is ------>| -> its session is announced -> proves its key ------|-> proven
//!          (`silent`, bounded)   |       (`unproven`, bounded)                         |
//!                         \----->| -> is told why not, and listens for a moment        |
//!                                +-----------------------------------------------------+
//! ```
//!
//! In both places there are few, and few of one address: for one too many the oldest of the address that has most goes.

mod unproven;

use super::listener::{IncomingLane, Listener};
use crate::handshake::{Hello, Proven};
use crate::key::Key;
use accord_types::waiting_room::{Ticket, WaitingRoom};
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unproven::{Heard, Stage, Unproven};

/// Connections that have not said who they are yet.
const SILENT_MAX: usize = 512;
/// The same of one address.
const SILENT_OF_ONE_ADDRESS_MAX: usize = 128;
/// Connections that have said who they are and not proven it, whether or not anybody knows their session; and those that listen to why they
/// were turned away.
const UNPROVEN_MAX: usize = 512;
/// The same of one address.
const UNPROVEN_OF_ONE_ADDRESS_MAX: usize = 128;
/// How long a connection may take to say who it is, and then to prove it.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
/// Connections that are taken before the others are looked at again.
const BATCH_MAX: usize = 64;

/// What has become of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// It has proven its key, and waits for [`Proven::welcome`].
    Proven(IncomingLane, Proven),
    /// It was turned away: its name, and why.
    Refused(String, Error),
}

/// What a connection has to prove.
#[derive(Debug)]
pub enum Asked {
    /// That it has this key.
    Key(Key),
    /// Nobody knows yet: it is asked again when the [`Waker`] says so, and then at the latest.
    Later(Instant),
}

/// Has an [`Acceptor`] ask again for what nobody knew, at any time and from any thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// See the type.
    pub fn wake(&self) {
        // If it can't count further, it is awake already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// See the module.
#[derive(Debug)]
pub struct Acceptor {
    listener: Listener,
    waker: Arc<Waker>,
    silent: Room,
    unproven: Room,
    /// What is to be told.
    outcomes: VecDeque<Outcome>,
}

#[derive(Debug)]
struct Room {
    places: WaitingRoom,
    lanes: BTreeMap<Ticket, Unproven>,
}

impl Room {
    fn new(most: usize, most_of_one_address: usize) -> Self {
        Self { places: WaitingRoom::new(most, most_of_one_address), lanes: BTreeMap::new() }
    }

    /// One more comes; who has to go for that.
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

    /// Those to which something has happened.
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

/// What a connection with this hello, which has come then, has to prove.
type KeyOf<'a> = dyn FnMut(&Hello, Instant) -> Result<Asked> + 'a;

impl Acceptor {
    /// In front of `listener`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(listener: Listener) -> io::Result<Self> {
        listener.take_without_waiting()?;
        let waker = Arc::new(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let silent = Room::new(SILENT_MAX, SILENT_OF_ONE_ADDRESS_MAX);
        let unproven = Room::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_ADDRESS_MAX);
        Ok(Self { listener, waker, silent, unproven, outcomes: VecDeque::new() })
    }

    /// To be woken when an answer of `key_of` may be another one.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Waits for the next connection that has proven its key, or was turned away. `key_of` must not wait; its error's cause is told to the client.
    ///
    /// # Errors
    /// If the system can't give connections; this remains of use.
    pub fn next_outcome(&mut self, key_of: &mut KeyOf<'_>) -> io::Result<Outcome> {
        loop {
            if let Some(arrival) = self.outcomes.pop_front() {
                return Ok(arrival);
            }
            self.look(key_of)?;
        }
    }

    /// Tells a connection that has arrived why it may not stay.
    pub fn turn_away(&mut self, incoming: IncomingLane, why: Error) {
        let ticket = self.enter_unproven(Unproven::new(incoming, Instant::now()));
        self.refuse(ticket, why);
    }

    /// Waits until something happens, and does what follows.
    fn look(&mut self, key_of: &mut KeyOf<'_>) -> io::Result<()> {
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
            self.hear_unproven(ticket);
        }
        for ticket in silent {
            self.hear_silent(ticket, key_of);
        }
        if rang {
            self.waker.reset();
            for ticket in self.unproven.waiting() {
                self.ask(ticket, key_of);
            }
        }
        self.end_what_is_over(key_of);
        if comes { self.take() } else { Ok(()) }
    }

    fn hear_silent(&mut self, ticket: Ticket, key_of: &mut KeyOf<'_>) {
        let Some(heard) = self.silent.lanes.get_mut(&ticket).map(Unproven::hear) else { return };
        if matches!(heard, Heard::Nothing) {
            return;
        }
        let Some(mut unproven) = self.silent.leave(ticket) else { return };
        match heard {
            Heard::Named(greeting, hello) => {
                let since = Instant::now();
                (unproven.stage, unproven.until) = (Stage::Awaits { greeting, hello, since }, since);
                let ticket = self.enter_unproven(unproven);
                self.ask(ticket, key_of);
            }
            Heard::Wrong(why) => {
                let ticket = self.enter_unproven(unproven);
                self.refuse(ticket, why);
            }
            Heard::Nothing | Heard::Proven(_) | Heard::Gone => {}
        }
    }

    fn hear_unproven(&mut self, ticket: Ticket) {
        match self.unproven.lanes.get_mut(&ticket).map(Unproven::hear) {
            Some(Heard::Proven(proven)) => {
                let unproven = self.unproven.leave(ticket);
                self.outcomes.extend(
                    unproven.and_then(Unproven::into_incoming).map(|incoming| Outcome::Proven(incoming, proven)),
                );
            }
            Some(Heard::Wrong(why)) => self.refuse(ticket, why),
            Some(Heard::Gone) => drop(self.unproven.leave(ticket)),
            Some(Heard::Nothing | Heard::Named(..)) | None => {}
        }
    }

    /// Asks for the key of one who awaits its session.
    fn ask(&mut self, ticket: Ticket, key_of: &mut KeyOf<'_>) {
        let Some(unproven) = self.unproven.lanes.get_mut(&ticket) else { return };
        let Stage::Awaits { greeting, hello, since } = &unproven.stage else { return };
        let asked = key_of(hello, *since).and_then(|asked| match asked {
            Asked::Later(at) => {
                unproven.until = at;
                Ok(None)
            }
            Asked::Key(key) => greeting.challenge(*hello, key).map(Some),
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

    /// Those who have taken too long go.
    fn end_what_is_over(&mut self, key_of: &mut KeyOf<'_>) {
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
                // One that is gone already, or may not be here.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::PermissionDenied) => {}
                // Out of descriptors, most likely: who has proven nothing gives one back.
                Err(error) => self.make_room(&no_more(&error)).ok_or(error)?,
            }
        }
        Ok(())
    }

    /// The oldest goes, and is told `why`; none if nobody is here.
    fn make_room(&mut self, why: &Error) -> Option<()> {
        for room in [&mut self.silent, &mut self.unproven] {
            if let Some(oldest) = room.places.oldest() {
                if let Some(mut leaves) = room.leave(oldest)
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

/// For who has to go since the system gives no more connections.
fn no_more(error: &io::Error) -> Error {
    let why = Error::new(ErrorCode::DeviceUnavailable, format!("the agent can't take more connections: {error}"));
    why.remedy_if(scarce::remedy(error)).transient()
}

#[cfg(test)]
mod tests;

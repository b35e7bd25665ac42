//! One connection that has not proven its key: the bytes that it has sent, and the answers to them. Never blocks.

use crate::handshake::{Challenge, Hello, PartialHello, Proven, ended, refusal};
use crate::transport::listener::IncomingLane;
use crate::transport::low_water::{self, readable_from};
use accord_types::Error;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

/// The time for which a refused connection is still read: unread input would make the system discard the refusal.
const LINGER: Duration = Duration::from_millis(200);

/// A connection that has not proven its key.
#[derive(Debug)]
pub(super) struct Unproven {
    pub(super) incoming: IncomingLane,
    pub(super) stage: Stage,
    /// The deadline of the current stage.
    pub(super) until: Instant,
}

/// The stage of the introduction.
#[derive(Debug)]
pub(super) enum Stage {
    /// The client sends its hello.
    Greets(PartialHello),
    /// The session is not known yet, and the client is challenged once it is. The hello was complete at `since`.
    Awaits { greeting: PartialHello, hello: Hello, since: Instant },
    /// The client was sent a challenge.
    Proves(Challenge),
    /// The client was refused.
    Leaves,
}

/// The meaning of the bytes received so far.
#[derive(Debug)]
pub(super) enum HelloProgress {
    /// No complete message.
    Nothing,
    /// A complete hello.
    Named(PartialHello, Hello),
    /// A valid proof of the key.
    Proven(Proven),
    /// A malformed or wrong message.
    Wrong(Error),
    /// The connection was closed.
    Gone,
}

impl Unproven {
    /// Creates the state of a new connection, whose hello is due by `until`.
    pub(super) fn new(incoming: IncomingLane, until: Instant) -> Self {
        Self { incoming, stage: Stage::Greets(PartialHello::default()), until }
    }

    /// Returns the events to poll for. A client that awaits its session has nothing to send, so that only its hang-up counts.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        let wakes = if self.awaits_session() { PollFlags::RDHUP } else { PollFlags::IN | PollFlags::RDHUP };
        let socket = self.incoming.lane.descriptors().handed_over.first().copied()?;
        Some(PollFd::from_borrowed_fd(socket, wakes))
    }

    pub(super) fn awaits_session(&self) -> bool {
        matches!(self.stage, Stage::Awaits { .. })
    }

    /// Sets the low-water mark so that the socket becomes readable with the whole next message. UNIX sockets have no such
    /// mark, and become readable with each byte. Returns whether the system accepted the mark.
    pub(super) fn listen(&mut self) -> bool {
        let bytes = match &mut self.stage {
            Stage::Greets(greeting) => greeting.space().len(),
            Stage::Proves(challenge) => challenge.space().len(),
            Stage::Awaits { .. } | Stage::Leaves => low_water::ANY,
        };
        self.wakes_from(bytes)
    }

    fn wakes_from(&self, bytes: usize) -> bool {
        let takes = |socket| !self.incoming.is_tcp() || readable_from(socket, bytes).is_ok();
        self.incoming.lane.descriptors().handed_over.first().copied().is_some_and(takes)
    }

    /// Reads and interprets what the client has sent.
    pub(super) fn read_hello(&mut self) -> HelloProgress {
        loop {
            let (space, has_begun) = match &mut self.stage {
                Stage::Greets(greeting) => {
                    let has_begun = greeting.has_begun();
                    (greeting.space(), has_begun)
                }
                Stage::Proves(challenge) => (challenge.space(), true),
                Stage::Awaits { .. } => return HelloProgress::Gone,
                Stage::Leaves => return self.ignore(),
            };
            let come = match self.incoming.lane.try_read(space) {
                Ok(0) if has_begun => return HelloProgress::Wrong(ended(&ErrorKind::UnexpectedEof.into(), true)),
                Ok(0) => return HelloProgress::Gone,
                Ok(come) => come,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return HelloProgress::Gone,
            };
            let printed = match &mut self.stage {
                Stage::Greets(greeting) => {
                    greeting.take(come).map(|hello| Some(HelloProgress::Named(greeting.clone(), hello?)))
                }
                Stage::Proves(challenge) => challenge.take(come).map(|proven| proven.map(HelloProgress::Proven)),
                Stage::Awaits { .. } | Stage::Leaves => Ok(None),
            };
            match printed {
                Ok(None) => {}
                Ok(Some(received)) => return received,
                Err(why) => return HelloProgress::Wrong(why),
            }
        }
        if self.listen() { HelloProgress::Nothing } else { HelloProgress::Gone }
    }

    fn ignore(&self) -> HelloProgress {
        match self.incoming.lane.try_read(&mut [0; 4096]) {
            Ok(1..) => HelloProgress::Nothing,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                HelloProgress::Nothing
            }
            Ok(0) | Err(_) => HelloProgress::Gone,
        }
    }

    /// Sends a challenge. Returns whether it was sent.
    pub(super) fn challenge(&mut self, challenge: Challenge, words: &[u8]) -> bool {
        self.stage = Stage::Proves(challenge);
        self.say(words) && self.listen()
    }

    /// Sends the reason of a refusal, and leaves the client a moment to read it. Returns whether it was sent.
    pub(super) fn refuse(&mut self, why: &Error) -> bool {
        self.stage = Stage::Leaves;
        self.until = Instant::now() + LINGER;
        self.say(&refusal(why)) && self.incoming.lane.finish().is_ok() && self.listen()
    }

    /// Sends without blocking: the socket's buffer holds all bytes that an unproven client is ever sent.
    fn say(&self, words: &[u8]) -> bool {
        self.incoming.lane.try_write(&[IoSlice::new(words)]).is_ok_and(|printed| printed == words.len())
    }

    /// Returns the lane with its usual low-water mark, for use after the introduction.
    pub(super) fn into_incoming(self) -> Option<IncomingLane> {
        self.wakes_from(low_water::ANY).then_some(self.incoming)
    }
}

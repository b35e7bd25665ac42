//! One connection that has proven nothing yet: what it has said, and what is said to it. Nothing here waits.

use crate::handshake::{Challenge, Greeting, Hello, Proven, ended, refusal};
use crate::transport::listener::IncomingLane;
use crate::transport::low_water::{self, readable_from};
use accord_types::Error;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, IoSlice};
use std::time::{Duration, Instant};

/// How long who was turned away is listened to: unread input would keep it from reading why.
const LINGER: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(super) struct Unproven {
    pub(super) incoming: IncomingLane,
    pub(super) stage: Stage,
    /// When it has to have gone on.
    pub(super) until: Instant,
}

/// How far it has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// It says who it is.
    Greets(Greeting),
    /// It is asked for the key of its session once that was announced. It has come `since`.
    Awaits { greeting: Greeting, hello: Hello, since: Instant },
    /// It was asked for the key.
    Proves(Challenge),
    /// It was told why it may not stay.
    Leaves,
}

/// What it has said.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing, or not all of it.
    Nothing,
    /// Who it is.
    Named(Greeting, Hello),
    /// That it has the key.
    Proven(Proven),
    /// What nobody who belongs here says.
    Wrong(Error),
    /// It has gone.
    Gone,
}

impl Unproven {
    /// One that has just come, and has to go on by then.
    pub(super) fn new(incoming: IncomingLane, until: Instant) -> Self {
        Self { incoming, stage: Stage::Greets(Greeting::default()), until }
    }

    /// What wakes whoever looks after it. One that awaits its session has nothing to say, and may go.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        let wakes = if self.awaits_session() { PollFlags::RDHUP } else { PollFlags::IN | PollFlags::RDHUP };
        let socket = self.incoming.lane.descriptors().first().copied()?;
        Some(PollFd::from_borrowed_fd(socket, wakes))
    }

    pub(super) fn awaits_session(&self) -> bool {
        matches!(self.stage, Stage::Awaits { .. })
    }

    /// Has it wake nobody before all is there that comes next; of processes of this machine the system can't tell how much there is, so
    /// that each of their bytes does. Whether the system took it.
    pub(super) fn listen(&mut self) -> bool {
        let bytes = match &mut self.stage {
            Stage::Greets(greeting) => greeting.room().len(),
            Stage::Proves(challenge) => challenge.room().len(),
            Stage::Awaits { .. } | Stage::Leaves => low_water::ANY,
        };
        self.wakes_from(bytes)
    }

    fn wakes_from(&self, bytes: usize) -> bool {
        let takes = |socket| !self.incoming.is_tcp() || readable_from(socket, bytes).is_ok();
        self.incoming.lane.descriptors().first().copied().is_some_and(takes)
    }

    /// Takes what it has said.
    pub(super) fn hear(&mut self) -> Heard {
        loop {
            let (room, has_begun) = match &mut self.stage {
                Stage::Greets(greeting) => {
                    let has_begun = greeting.has_begun();
                    (greeting.room(), has_begun)
                }
                Stage::Proves(challenge) => (challenge.room(), true),
                Stage::Awaits { .. } => return Heard::Gone,
                Stage::Leaves => return self.ignore(),
            };
            let come = match self.incoming.lane.try_read(room) {
                Ok(0) if has_begun => return Heard::Wrong(ended(&ErrorKind::UnexpectedEof.into(), true)),
                Ok(0) => return Heard::Gone,
                Ok(come) => come,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Heard::Gone,
            };
            let said = match &mut self.stage {
                Stage::Greets(greeting) => {
                    greeting.take(come).map(|hello| Some(Heard::Named(greeting.clone(), hello?)))
                }
                Stage::Proves(challenge) => challenge.take(come).map(|proven| proven.map(Heard::Proven)),
                Stage::Awaits { .. } | Stage::Leaves => Ok(None),
            };
            match said {
                Ok(None) => {}
                Ok(Some(heard)) => return heard,
                Err(why) => return Heard::Wrong(why),
            }
        }
        if self.listen() { Heard::Nothing } else { Heard::Gone }
    }

    fn ignore(&self) -> Heard {
        match self.incoming.lane.try_read(&mut [0; 4096]) {
            Ok(1..) => Heard::Nothing,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Heard::Nothing,
            Ok(0) | Err(_) => Heard::Gone,
        }
    }

    /// Asks it for its key with these words. Whether they went out.
    pub(super) fn challenge(&mut self, challenge: Challenge, words: &[u8]) -> bool {
        self.stage = Stage::Proves(challenge);
        self.say(words) && self.listen()
    }

    /// Tells it why it may not stay; it has a moment to read it. Whether the words went out.
    pub(super) fn refuse(&mut self, why: &Error) -> bool {
        self.stage = Stage::Leaves;
        self.until = Instant::now() + LINGER;
        self.say(&refusal(why)) && self.incoming.lane.finish().is_ok() && self.listen()
    }

    /// There is room for all that is ever said to one who has not proven a key.
    fn say(&self, words: &[u8]) -> bool {
        self.incoming.lane.try_write(&[IoSlice::new(words)]).is_ok_and(|said| said == words.len())
    }

    /// For whoever goes on with it.
    pub(super) fn into_incoming(self) -> Option<IncomingLane> {
        self.wakes_from(low_water::ANY).then_some(self.incoming)
    }
}

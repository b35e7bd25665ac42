//! Decides which connections belong to a session, by their hellos. Without I/O.

use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_types::{NodeId, SessionId};

/// Most bulk lanes of one program, each with its own number below this. A thread per lane reads it.
const BULK_LANES_MAX: u16 = 16;

/// The admission of a session's connections.
#[derive(Debug)]
pub struct Admission {
    session: SessionId,
    node: NodeId,
    /// This executor's name, which the command lane's hello gives.
    own: Option<PeerId>,
    /// The numbers of open bulk lanes, a bit each.
    bulk: u16,
    has_control: bool,
    ended: bool,
}

/// The use of an admitted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// The command lane of this executor.
    Commands(PeerId),
    /// A lane of the program's for bytes of transfers.
    Bulk,
    /// The lane of control messages.
    Control,
    /// A lane on which another executor pushes.
    Peer,
}

impl Admission {
    /// Creates the admission of a session on a node. The program's command lane comes before all peer lanes.
    pub fn new(session: SessionId, node: NodeId) -> Self {
        Self { session, node, own: None, bulk: 0, has_control: false, ended: false }
    }

    /// Returns the use of a connection with this hello, or `None` if it is refused.
    pub fn admit(&mut self, hello: &Hello) -> Option<Admitted> {
        if self.ended || hello.session != self.session {
            return None;
        }
        match hello.purpose {
            Purpose::Command if self.own.is_none() => {
                let own = PeerId::executor(self.node, hello.index.into()).ok()?;
                self.own = Some(own);
                Some(Admitted::Commands(own))
            }
            Purpose::Bulk if hello.index < BULK_LANES_MAX => {
                let number = 1 << hello.index;
                let is_new = self.bulk & number == 0;
                self.bulk |= number;
                is_new.then_some(Admitted::Bulk)
            }
            // The lane is never replaced: its end ends the session.
            Purpose::Control => (!std::mem::replace(&mut self.has_control, true)).then_some(Admitted::Control),
            // From another executor, and for this one, not for a predecessor of it.
            Purpose::Peer => {
                let (own, from) = (self.own?, hello.from.process());
                let fits = own.incarnation() == hello.index && from != PeerId::PROGRAM && from != own;
                fits.then_some(Admitted::Peer)
            }
            Purpose::Command
            | Purpose::Bulk
            | Purpose::Session
            | Purpose::Measure
            | Purpose::Memory
            | Purpose::Driver
            | Purpose::Turns => None,
        }
    }

    /// Refuses all later connections. Returns `false` if that was so before.
    pub fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.ended, true)
    }

    /// Whether all connections are refused.
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: SessionId = SessionId(7);
    const NODE: NodeId = NodeId(1);

    fn hello() -> impl Strategy<Value = Hello> {
        let purpose = prop::sample::select(vec![
            Purpose::Command,
            Purpose::Bulk,
            Purpose::Peer,
            Purpose::Session,
            Purpose::Control,
            Purpose::Measure,
            Purpose::Memory,
            Purpose::Driver,
            Purpose::Turns,
        ]);
        let index = prop_oneof![0..3u16, Just(BULK_LANES_MAX - 1), Just(BULK_LANES_MAX), Just(u16::MAX)];
        let from = prop_oneof![
            Just(PeerId::PROGRAM),
            (0..3u32, 0..3u32, 0..2u32)
                .prop_map(|(node, number, lane)| { PeerId::executor(NodeId(node), number).unwrap().on_lane(lane) }),
        ];
        (purpose, 6..8u64, index, from)
            .prop_map(|(purpose, session, index, from)| Hello::new(purpose, SessionId(session), index, from))
    }

    proptest! {
        /// Admits, in any order of hellos: one command lane, which names the executor; each lane of the program once;
        /// peer lanes from other executors to this one. Refuses other sessions, and all hellos after the end.
        #[test]
        fn a_session_takes_what_is_its_own(comes in prop::collection::vec(hello(), 1..40), end in 0..60usize) {
            let mut admission = Admission::new(SESSION, NODE);
            let (mut own, mut bulk, mut has_control) = (None, std::collections::BTreeSet::new(), false);
            for (at, hello) in comes.into_iter().enumerate() {
                if at == end {
                    prop_assert!(admission.end() && !admission.end());
                }
                let admitted = admission.admit(&hello);
                prop_assert!(admitted.is_none() || (hello.session == SESSION && at < end));
                let may = hello.session == SESSION && at < end;
                match hello.purpose {
                    Purpose::Command => {
                        let first = PeerId::executor(NODE, hello.index.into()).ok().filter(|_| own.is_none() && may);
                        prop_assert_eq!(admitted, first.map(Admitted::Commands));
                        own = own.or(first);
                    }
                    Purpose::Bulk => {
                        let first = may && hello.index < BULK_LANES_MAX && bulk.insert(hello.index);
                        prop_assert_eq!(admitted.is_some(), first);
                    }
                    Purpose::Control => {
                        prop_assert_eq!(admitted.is_some(), may && !has_control);
                        has_control |= may;
                    }
                    Purpose::Session | Purpose::Measure | Purpose::Memory | Purpose::Driver | Purpose::Turns => {
                        prop_assert_eq!(admitted, None);
                    }
                    Purpose::Peer => {
                        let is_other = |own: PeerId| ![PeerId::PROGRAM, own].contains(&hello.from.process());
                        let fits = own.is_some_and(|own| own.incarnation() == hello.index && is_other(own));
                        prop_assert_eq!(admitted.is_some(), may && fits);
                    }
                }
            }
        }
    }
}

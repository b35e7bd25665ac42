//! Decides which link a push to another executor uses, and which links end because later ones replace them. Without I/O. `L` names a link.

use accord_fabric::peer::PeerId;
use accord_types::{Error, ErrorCode, Result};
use std::collections::HashMap;

/// Most other executors of the session that one executor ever deals with, on all nodes and including replaced ones.
const PEERS_MAX: usize = 1 << 14;
/// Most links on which others push, each of which has a thread. A coordinator has at most so many nodes, and a session one executor on each.
const INCOMING_MAX: usize = 4_096;
/// Most links on which this executor pushes, each of which has a thread: one to each of a coordinator's nodes, and as many whose threads have not ended
/// yet.
const OUTGOING_MAX: usize = 8_192;
/// The lane number of an executor to which no more pushes go.
const NEVER: u32 = u32::MAX;

/// The links of one executor.
#[derive(Debug)]
pub struct PeerTable<L> {
    /// By process: the last link on which this executor has pushed to it, lost or not, and its lane's number.
    out: HashMap<PeerId, (u32, L)>,
    /// Number of links for pushes whose threads have not ended.
    pushed_over: usize,
    /// Most such links.
    pushed_over_max: usize,
    /// Links on which others push: the latest of each process.
    incoming: Vec<(PeerId, L)>,
    /// Links of arrivals that have not left: those of `incoming`, and replaced ones whose threads have not ended.
    served: Vec<L>,
    /// Most such links.
    served_max: usize,
    closed: Option<Error>,
}

/// The link of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushWay<L> {
    /// Over this link.
    Over(L),
    /// None: its lane is over, and this link has replaced that one. The push fails.
    After(L),
    /// A new link, see [`PeerTable::push_over`].
    New,
}

impl<L> Default for PeerTable<L> {
    fn default() -> Self {
        Self::with_limits(INCOMING_MAX, OUTGOING_MAX)
    }
}

impl<L> PeerTable<L> {
    /// Creates a table with these bounds on links.
    pub(crate) fn with_limits(served_max: usize, pushed_over_max: usize) -> Self {
        Self {
            out: HashMap::new(),
            pushed_over: 0,
            pushed_over_max,
            incoming: Vec::new(),
            served: Vec::new(),
            served_max,
            closed: None,
        }
    }
}

impl<L: Clone + PartialEq> PeerTable<L> {
    /// Returns the link of a push to an executor on the lane that the program has named. A lost link is not replaced on its own
    /// lane, because its target forgets the transfers that it expected there. After the loss the program names the next lane.
    ///
    /// # Errors
    /// Returns an error if the table is closed, or there are too many executors.
    pub fn way(&self, to: PeerId) -> Result<PushWay<L>> {
        if let Some(error) = &self.closed {
            return Err(error.clone());
        }
        match self.out.get(&to.process()) {
            Some((number, link)) if *number == to.lane() => Ok(PushWay::Over(link.clone())),
            // The program issued the push before it knew of the loss, or to a process that it has lost. The push fails, but not the session.
            Some((number, link)) if *number > to.lane() => Ok(PushWay::After(link.clone())),
            Some(_) => self.check_pushed_over().map(|()| PushWay::New),
            None => self.check_space().and_then(|()| self.check_pushed_over()).map(|()| PushWay::New),
        }
    }

    /// Records a new link after [`PeerTable::way`] has returned [`PushWay::New`]. Returns the replaced link, which the caller closes.
    /// [`PeerTable::push_ended`] must follow.
    pub fn push_over(&mut self, to: PeerId, link: L) -> Option<L> {
        self.pushed_over += 1;
        self.out.insert(to.process(), (to.lane(), link)).map(|(_, before)| before)
    }

    /// Records that a link for pushes and its thread have ended.
    pub fn push_ended(&mut self) {
        self.pushed_over -= 1;
    }

    /// Records a link on which another executor pushes. Returns the replaced link, if any, which the caller closes: its pusher has seen its end, and streams
    /// that take bytes from it continue. Returns `None` if the link is refused: the table is closed, the program has lost that executor, a later link has
    /// arrived, or there are too many. [`PeerTable::leave`] must follow for an accepted link.
    pub fn arrive(&mut self, from: PeerId, link: L) -> Option<Option<L>> {
        let lost = self.out.get(&from.process()).is_some_and(|(number, _)| *number == NEVER);
        if self.closed.is_some() || lost || self.served.len() >= self.served_max {
            return None;
        }
        let known = self.incoming.iter_mut().find(|(other, _)| other.process() == from.process());
        let before = match known {
            Some((last, _)) if last.lane() >= from.lane() => return None,
            Some((last, known)) => {
                *last = from;
                Some(std::mem::replace(known, link.clone()))
            }
            None => {
                self.incoming.push((from, link.clone()));
                None
            }
        };
        self.served.push(link);
        Some(before)
    }

    /// Records that a link on which another executor pushed has ended with its thread, replaced or not. Ignores a refused link.
    pub fn leave(&mut self, link: &L) {
        self.served.retain(|other| other != link);
        self.incoming.retain(|(_, other)| other != link);
    }

    /// Records that the program has lost an executor, to which no more pushes go. Returns the links to it and from it, which the caller closes. `never`
    /// creates a stand-in if there is no link.
    ///
    /// # Errors
    /// Returns an error if there are too many executors.
    pub fn lose(&mut self, peer: PeerId, never: impl FnOnce() -> L) -> Result<Vec<L>> {
        let process = peer.process();
        if !self.out.contains_key(&process) {
            // A push to it may still arrive here.
            self.check_space()?;
        }
        let (number, link) = self.out.entry(process).or_insert_with(|| (NEVER, never()));
        *number = NEVER;
        let from = self.incoming.iter().filter(|(other, _)| other.process() == process);
        Ok(std::iter::once(link.clone()).chain(from.map(|(_, link)| link.clone())).collect())
    }

    /// Closes the table with the error of the first call. Returns all links, which the caller closes.
    pub fn close(&mut self, error: &Error) -> Vec<L> {
        self.closed.get_or_insert_with(|| error.clone());
        let incoming = std::mem::take(&mut self.incoming).into_iter().map(|(_, link)| link);
        incoming.chain(self.out.drain().map(|(_, (_, link))| link)).collect()
    }

    fn check_pushed_over(&self) -> Result<()> {
        if self.pushed_over >= self.pushed_over_max {
            let cause = format!("more than {} connections to other executors were asked for", self.pushed_over_max);
            return Err(Error::new(ErrorCode::ImplementationDefined, cause));
        }
        Ok(())
    }

    fn check_space(&self) -> Result<()> {
        if self.out.len() >= PEERS_MAX {
            let cause = format!("more than {PEERS_MAX} executors were named");
            return Err(Error::new(ErrorCode::ImplementationDefined, cause));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::NodeId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn peer(node: u32, lane: u32) -> PeerId {
        PeerId::executor(NodeId(node), 0).unwrap().on_lane(lane)
    }

    /// Most links that a small table serves.
    const SPACE: usize = 4;
    /// Most links that it creates.
    const MADE: usize = 5;

    #[derive(Clone, Debug)]
    enum Step {
        Push(PeerId),
        PushEnds,
        Arrive(PeerId),
        Leave(usize),
        Lose(PeerId),
        Close,
    }

    fn step() -> impl Strategy<Value = Step> {
        let name = || (0..3u32, 0..4u32).prop_map(|(node, lane)| peer(node, lane));
        prop_oneof![
            8 => name().prop_map(Step::Push),
            2 => Just(Step::PushEnds),
            6 => name().prop_map(Step::Arrive),
            2 => (0..8usize).prop_map(Step::Leave),
            1 => name().prop_map(Step::Lose),
            1 => Just(Step::Close),
        ]
    }

    fn gone() -> Error {
        Error::new(ErrorCode::DeviceShutdown, "it is over")
    }

    proptest! {
        /// For any names from the program and any order of arrivals: each process has one link, created for the named lane, and
        /// lane numbers only grow. Of the links from one process only the latest continues. Each ended link is reported once per
        /// reason. Links that have arrived and not left are bounded, whatever names they claim.
        #[test]
        fn each_process_is_pushed_to_on_one_lane_and_later_ones_take_its_place(steps in prop::collection::vec(step(), 1..60)) {
            let mut table = PeerTable::<usize>::with_limits(SPACE, MADE);
            // By link: its peer.
            let mut made: Vec<PeerId> = Vec::new();
            let mut out = BTreeMap::<PeerId, (u32, usize)>::new();
            let mut incoming = Vec::<usize>::new();
            let mut served = Vec::<usize>::new();
            let mut lost = Vec::<PeerId>::new();
            let mut closed = false;
            let mut threads = 0;
            for step in steps {
                match step {
                    Step::Push(to) => {
                        let last = out.get(&to.process()).copied();
                        match table.way(to) {
                            Err(error) if closed => prop_assert_eq!(error, gone()),
                            Err(_) => prop_assert_eq!(threads, MADE),
                            Ok(PushWay::Over(link)) => {
                                prop_assert!(!closed && last == Some((to.lane(), link)) && made[link] == to);
                                prop_assert!(!lost.contains(&to.process()));
                            }
                            Ok(PushWay::After(link)) => {
                                let later = last.is_some_and(|(number, of)| of == link && number > to.lane());
                                prop_assert!(!closed && (later || lost.contains(&to.process())));
                            }
                            Ok(PushWay::New) => {
                                prop_assert!(!closed && !lost.contains(&to.process()));
                                prop_assert!(last.is_none_or(|(number, _)| number < to.lane()), "lanes only go up");
                                prop_assert!(threads < MADE, "{threads} links have threads");
                                threads += 1;
                                made.push(to);
                                let link = made.len() - 1;
                                prop_assert_eq!(table.push_over(to, link), last.map(|(_, link)| link));
                                out.insert(to.process(), (to.lane(), link));
                                prop_assert_eq!(table.way(to), Ok(PushWay::Over(link)));
                            }
                        }
                    }
                    Step::PushEnds => {
                        if threads > 0 {
                            threads -= 1;
                            table.push_ended();
                        }
                    }
                    Step::Arrive(from) => {
                        made.push(from);
                        let link = made.len() - 1;
                        let known = incoming.iter().position(|other| made[*other].process() == from.process());
                        let late = known.is_some_and(|at| made[incoming[at]].lane() >= from.lane());
                        match table.arrive(from, link) {
                            None => {
                                let full = served.len() == SPACE;
                                prop_assert!(closed || late || full || lost.contains(&from.process()));
                            }
                            Some(before) => {
                                prop_assert!(!closed && !late && !lost.contains(&from.process()));
                                prop_assert_eq!(before, known.map(|at| incoming.remove(at)));
                                incoming.push(link);
                                served.push(link);
                                prop_assert!(served.len() <= SPACE, "{} links have threads", served.len());
                            }
                        }
                    }
                    Step::Leave(which) => {
                        // Also replaced links.
                        if which < served.len() {
                            let link = served.remove(which);
                            table.leave(&link);
                            incoming.retain(|other| *other != link);
                        }
                    }
                    Step::Lose(of) => {
                        if closed {
                            continue;
                        }
                        let known = out.get(&of.process()).map(|(_, link)| *link);
                        let from = incoming.iter().filter(|other| made[**other].process() == of.process()).copied();
                        let expected: Vec<_> = known.into_iter().chain(from).collect();
                        made.push(of);
                        let never = made.len() - 1;
                        let ends = table.lose(of, || never).unwrap();
                        if known.is_some() {
                            prop_assert_eq!(ends, expected);
                        } else {
                            prop_assert_eq!(ends, [&[never][..], &expected].concat());
                            out.insert(of.process(), (NEVER, never));
                        }
                        lost.push(of.process());
                    }
                    Step::Close => {
                        let mut all: Vec<_> = incoming.drain(..).chain(out.values().map(|(_, link)| *link)).collect();
                        out.clear();
                        let mut ends = table.close(&gone());
                        all.sort_unstable();
                        ends.sort_unstable();
                        prop_assert_eq!(ends, all);
                        closed = true;
                    }
                }
            }
        }
    }

    #[test]
    fn claimed_executors_are_bounded() {
        let mut table = PeerTable::<u32>::default();
        let max = u32::try_from(INCOMING_MAX).unwrap();
        for node in 0..max {
            assert_eq!(table.arrive(peer(node, 0), node), Some(None));
        }
        assert_eq!(table.arrive(peer(max, 0), max), None, "one more");
        assert_eq!(table.arrive(peer(3, 1), max), None, "the next lane of one has to wait for the end of another too");
        table.leave(&7);
        assert_eq!(table.arrive(peer(3, 1), max), Some(Some(3)));
        assert_eq!(table.arrive(peer(max, 0), max + 1), None, "the lane before is not over");
        table.leave(&3);
        assert_eq!(table.arrive(peer(max, 0), max + 1), Some(None));
    }

    #[test]
    fn a_program_can_not_name_executors_without_end() {
        let mut table = PeerTable::<u32>::default();
        for node in 0..u32::try_from(PEERS_MAX).unwrap() {
            assert_eq!(table.way(peer(node, 0)), Ok(PushWay::New));
            table.push_over(peer(node, 0), node);
            table.push_ended();
        }
        let one_more = peer(u32::try_from(PEERS_MAX).unwrap(), 0);
        assert!(table.way(one_more).is_err() && table.lose(one_more, || 0).is_err());
        // Known links continue.
        assert_eq!(table.way(peer(3, 0)), Ok(PushWay::Over(3)));
        assert_eq!(table.way(peer(3, 1)), Ok(PushWay::New));
    }
}

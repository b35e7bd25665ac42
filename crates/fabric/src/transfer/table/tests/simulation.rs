//! A program and three executors that copy to each other, by seed. Links delay messages, lanes are lost, streams and devices fail, targets refuse, and
//! executors end. Messages of one lane keep their order; links may overtake each other. Each copy ends once at its source, landed only if its bytes are
//! in the target's memory, failed only for a reason, and no table keeps a transfer.

use crate::transfer::control::ReceiveAnnouncement;
use crate::transfer::table::*;
use accord_types::ErrorCode;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const NODES: usize = 3;
const QUEUES: usize = 2;
const SEEDS: u64 = 6_000;
/// Seeds within which each planted fault is found.
const FAULT_SEEDS: u64 = 2_000;

/// A small random generator: the same seed gives the same run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

/// A fault that is planted between the table and the executor around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    SendsBeforeReady,
    LandsBeforeTheDevice,
    LosesFailures,
    LosesRefusals,
    ForgetsAbandoned,
    ForgetsLostTargets,
    ForgetsLostExecutors,
    LosesTooMuch,
    AnswersTwice,
    ForgetsDue,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::SendsBeforeReady,
        Self::LandsBeforeTheDevice,
        Self::LosesFailures,
        Self::LosesRefusals,
        Self::ForgetsAbandoned,
        Self::ForgetsLostTargets,
        Self::ForgetsLostExecutors,
        Self::LosesTooMuch,
        Self::AnswersTwice,
        Self::ForgetsDue,
    ];
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LaneName {
    from: usize,
    to: usize,
    number: u32,
}

enum Message {
    Arrived,
    First(TransferId),
    Last(TransferId),
    Abort(TransferId),
    /// All bytes, for a posted receive.
    Whole(TransferId),
    Control(ControlMessage),
    /// The library of the target has received all bytes.
    Received(TransferId),
}

#[derive(Default)]
struct Lane {
    forward: VecDeque<Message>,
    back: VecDeque<Message>,
    cut: bool,
    /// Whether its opener, and its target, have not yet learnt of the cut.
    unseen: [bool; 2],
    /// Whether the target has accepted it.
    known: bool,
}

/// A message of the program to a process.
enum ProgramMessage {
    Push { queue: usize, transfer: TransferId, lane: LaneName },
    Expect { transfer: TransferId, lane: LaneName },
    Lost(usize),
}

/// The progress of a push at its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Nothing,
    Part,
    All,
}

struct Push {
    transfer: TransferId,
    lane: LaneName,
    sent: Sent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    Coming,
    Here,
    Lost,
}

struct Incoming {
    transfer: TransferId,
    lane: LaneName,
    bytes: Bytes,
}

struct Node {
    table: TransferTable<TransferId>,
    queues: [(VecDeque<Push>, bool); QUEUES],
    /// Expected transfers whose predecessors on this node are not done yet.
    early: Vec<TransferId>,
    /// Transfers whose bytes may arrive.
    ready: BTreeSet<TransferId>,
    incoming: Vec<Incoming>,
    /// Copies that were reported to the program as over, and copies that it has issued here: pushed and expected ones.
    over: [u32; 2],
    issued: [u32; 2],
    ended: bool,
}

struct World {
    random: Random,
    fault: Option<Fault>,
    nodes: [Node; NODES],
    program: [VecDeque<ProgramMessage>; NODES],
    lanes: BTreeMap<LaneName, Lane>,
    /// Losses that the program has not learnt of.
    unknown: VecDeque<LaneName>,
    /// The lanes that the program uses.
    numbers: BTreeMap<(usize, usize), u32>,
    issued: u64,
    /// Transfers whose bytes are in their target's memory.
    landed: BTreeSet<TransferId>,
    /// Transfers that may fail.
    excused: BTreeSet<TransferId>,
    /// Pushes that have ended.
    done: BTreeMap<TransferId, LaneName>,
    wrong: Option<String>,
}

fn peer(node: usize, number: u32) -> PeerId {
    PeerId::from_raw(u32::try_from(node).unwrap()).on_lane(number)
}

fn node(peer: PeerId) -> usize {
    usize::try_from(peer.process().raw()).unwrap()
}

fn error(cause: &str) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, cause)
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let new_node = |_| Node {
            table: TransferTable::new(Some(1)),
            queues: Default::default(),
            early: Vec::new(),
            ready: BTreeSet::new(),
            incoming: Vec::new(),
            over: [0; 2],
            issued: [0; 2],
            ended: false,
        };
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            fault,
            nodes: std::array::from_fn(new_node),
            program: Default::default(),
            lanes: BTreeMap::new(),
            unknown: VecDeque::new(),
            numbers: BTreeMap::new(),
            issued: 0,
            landed: BTreeSet::new(),
            excused: BTreeSet::new(),
            done: BTreeMap::new(),
            wrong: None,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn violation(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    fn keeps<T>(&mut self, what: &str, outcome: Result<T>) {
        if let Err(error) = outcome {
            self.violation(format!("{what}: {error}"));
        }
    }

    fn issue(&mut self, from: usize, to: usize) {
        if self.nodes[from].ended || self.nodes[to].ended {
            return;
        }
        let number = *self.numbers.entry((from, to)).or_default();
        let (transfer, lane) = (TransferId(self.issued), LaneName { from, to, number });
        self.issued += 1;
        let queue = self.random.below(QUEUES);
        self.program[to].push_back(ProgramMessage::Expect { transfer, lane });
        self.program[from].push_back(ProgramMessage::Push { queue, transfer, lane });
    }

    fn notify(&mut self, at: usize, message: ProgramMessage) {
        if self.nodes[at].ended {
            return;
        }
        match message {
            ProgramMessage::Push { queue, transfer, lane } => {
                if let std::collections::btree_map::Entry::Vacant(place) = self.lanes.entry(lane) {
                    place.insert(Lane::default()).forward.push_back(Message::Arrived);
                }
                let target = &mut self.nodes[at];
                target.issued[0] += 1;
                let pushed = target.table.push(transfer, peer(lane.to, lane.number), transfer);
                let push = Push { transfer, lane, sent: Sent::Nothing };
                if target.queues[queue].1 {
                    self.give_up(&push);
                } else {
                    target.queues[queue].0.push_back(push);
                }
                self.keeps("a push", pushed);
            }
            ProgramMessage::Expect { transfer, lane } => {
                let has_place = self.random.below(30) > 0;
                let target = &mut self.nodes[at];
                target.issued[1] += 1;
                target.early.extend(has_place.then_some(transfer));
                let place = if has_place { Ok(transfer) } else { Err(error("full")) };
                let expected = target.table.expect(transfer, peer(lane.from, lane.number), place);
                self.excused.extend((!has_place).then_some(transfer));
                self.keeps("an expected transfer", expected);
            }
            ProgramMessage::Lost(other) => {
                let last = peer(other, u32::MAX);
                self.nodes[at].table.push_lost(last, &error("the executor is lost"));
                self.act(at);
                if !self.has(Fault::ForgetsLostExecutors) {
                    self.nodes[at].table.peer_lost(last);
                }
            }
        }
        self.act(at);
    }

    /// Carries out the effects of a node's table.
    fn act(&mut self, at: usize) {
        let effects: Vec<_> = self.nodes[at].table.effects().collect();
        for effect in effects {
            match effect {
                TransferEffect::Ready { peer, transfer, value } => {
                    if value != transfer {
                        self.violation(format!("{transfer} has the value of {value}"));
                    }
                    self.nodes[at].ready.insert(transfer);
                    let space = ReceiveAnnouncement { number: std::num::NonZeroU16::MIN, overlaps: false };
                    let message = match self.random.below(5) {
                        0 => ControlMessage::Ready(transfer, vec![1]),
                        1 if self.nodes[at].table.keep(transfer, transfer).is_none() => {
                            ControlMessage::Room(transfer, space)
                        }
                        _ => ControlMessage::Ready(transfer, Vec::new()),
                    };
                    if self.has(Fault::AnswersTwice) && self.random.below(10) == 0 {
                        self.answer(at, peer, message.clone());
                    }
                    self.answer(at, peer, message);
                }
                TransferEffect::Tell(_, ControlMessage::Refused(..)) if self.has(Fault::LosesRefusals) => {}
                TransferEffect::Tell(peer, message) => {
                    if let ControlMessage::Landed(transfer) = message
                        && !self.landed.contains(&transfer)
                    {
                        self.violation(format!("{transfer} is said to have landed"));
                    }
                    self.answer(at, peer, message);
                }
                TransferEffect::Abandon(..) if self.has(Fault::ForgetsAbandoned) => {}
                TransferEffect::Abandon(to, transfer) => {
                    let lane = LaneName { from: at, to: node(to), number: to.lane() };
                    self.send(lane, true, Message::Abort(transfer));
                }
                TransferEffect::Gone(_, reported) => {
                    self.nodes[at].ready.retain(|ready| reported.iter().all(|(transfer, _)| transfer != ready));
                }
                TransferEffect::Over { pushes, expects } => {
                    let [pushed, expected] = &mut self.nodes[at].over;
                    (*pushed, *expected) = (*pushed + pushes, *expected + expects);
                }
                TransferEffect::Wake(..) | TransferEffect::Drop(_) => {}
            }
        }
    }

    fn answer(&mut self, at: usize, to: PeerId, message: ControlMessage) {
        self.send(LaneName { from: node(to), to: at, number: to.lane() }, false, Message::Control(message));
    }

    fn send(&mut self, name: LaneName, forward: bool, message: Message) {
        let Some(lane) = self.lanes.get_mut(&name).filter(|lane| !lane.cut) else { return };
        if forward { lane.forward.push_back(message) } else { lane.back.push_back(message) }
    }

    /// Handles a message at the target of its lane.
    fn arrives(&mut self, name: LaneName, message: Message) {
        let (at, from) = (name.to, peer(name.from, name.number));
        match message {
            Message::Arrived => {
                if let Some(lane) = self.lanes.get_mut(&name) {
                    lane.known = true;
                }
                self.nodes[at].table.arrived(from);
            }
            Message::First(transfer) => {
                let is_ready = self.nodes[at].ready.remove(&transfer);
                let begun = self.nodes[at].table.begin(transfer, from, false);
                self.keeps("first bytes", begun);
                if !is_ready {
                    self.violation(format!("bytes of {transfer} arrive unasked"));
                }
                self.nodes[at].incoming.push(Incoming { transfer, lane: name, bytes: Bytes::Coming });
                if self.has(Fault::LandsBeforeTheDevice) {
                    self.nodes[at].table.ended(transfer, from, Ok(()));
                }
            }
            Message::Last(transfer) => self.bytes_are(at, transfer, Bytes::Here),
            Message::Abort(transfer) => {
                if self.nodes[at].incoming.iter().any(|incoming| incoming.transfer == transfer) {
                    return self.bytes_are(at, transfer, Bytes::Lost);
                }
                self.nodes[at].ready.remove(&transfer);
                let begun = self.nodes[at].table.begin(transfer, from, true);
                self.keeps("an abort", begun);
            }
            Message::Whole(transfer) => {
                self.nodes[at].ready.remove(&transfer);
                let begun = self.nodes[at].table.begin(transfer, from, false);
                self.keeps("a message", begun);
                self.landed.insert(transfer);
                self.nodes[at].table.landed_unsaid(transfer);
                self.send(name, false, Message::Received(transfer));
            }
            Message::Control(_) | Message::Received(_) => {}
        }
        self.act(at);
    }

    fn bytes_are(&mut self, at: usize, transfer: TransferId, bytes: Bytes) {
        let all = &mut self.nodes[at].incoming;
        all.iter_mut().filter(|incoming| incoming.transfer == transfer).for_each(|incoming| incoming.bytes = bytes);
    }

    /// Handles a message at the opener of its lane.
    fn returns(&mut self, name: LaneName, message: Message) {
        let at = name.from;
        match message {
            Message::Control(message) => {
                let taken = self.nodes[at].table.on_control(peer(name.to, name.number), message);
                self.keeps("an answer", taken);
            }
            Message::Received(transfer) => self.nodes[at].table.has_landed(transfer),
            _ => {}
        }
        self.act(at);
    }

    fn cut(&mut self, name: LaneName) {
        if let Some(lane) = self.lanes.get_mut(&name).filter(|lane| !lane.cut) {
            *lane = Lane { cut: true, unseen: [true, lane.known], known: lane.known, ..Lane::default() };
        }
    }

    /// Lets one end learn that a lane is lost.
    fn see(&mut self, name: LaneName, at_target: bool) {
        if let Some(lane) = self.lanes.get_mut(&name) {
            lane.unseen[usize::from(at_target)] = false;
        }
        let number = name.number + u32::from(self.has(Fault::LosesTooMuch));
        if !at_target {
            self.unknown.push_back(name);
            if !self.has(Fault::ForgetsLostTargets) {
                self.nodes[name.from].table.push_lost(peer(name.to, number), &error("the lane is lost"));
            }
            return self.act(name.from);
        }
        let target = &mut self.nodes[name.to];
        let stopped = |incoming: &&mut Incoming| incoming.lane == name && incoming.bytes == Bytes::Coming;
        target.incoming.iter_mut().filter(stopped).for_each(|incoming| incoming.bytes = Bytes::Lost);
        target.table.peer_lost(peer(name.from, number));
        self.act(name.to);
    }

    /// Ends an executor: its lanes, then its table. The program notifies the others.
    fn end(&mut self, at: usize) {
        let lanes: Vec<_> = self.lanes.keys().filter(|name| name.from == at || name.to == at).copied().collect();
        lanes.into_iter().for_each(|name| self.cut(name));
        self.nodes[at].ended = true;
        self.nodes[at].table.close(&error("the session is over"));
        self.act(at);
        for other in (0..NODES).filter(|other| *other != at) {
            self.program[other].push_back(ProgramMessage::Lost(at));
        }
    }

    /// Lets the first push of a queue take its next step. Returns `false` if it has none.
    fn go_on(&mut self, at: usize, queue: usize) -> bool {
        let Some(&Push { transfer, lane, sent }) = self.nodes[at].queues[queue].0.front() else { return false };
        let eager = self.has(Fault::SendsBeforeReady) && self.random.below(20) == 0;
        let now = match (self.nodes[at].table.step(transfer), sent) {
            (PushStep::End(_), _) => return self.finish(at, queue),
            (PushStep::Wait, Sent::Nothing) if eager => Sent::Part,
            (PushStep::Wait, _) | (PushStep::Send, Sent::All) => return false,
            (PushStep::Send, Sent::Part) => Sent::All,
            (PushStep::Send, Sent::Nothing) => match self.nodes[at].table.start(transfer) {
                Some(Offer::Lane) => Sent::Part,
                Some(Offer::Receive(_)) => {
                    self.send(lane, true, Message::Whole(transfer));
                    self.set_sent(at, queue, Sent::All);
                    return true;
                }
                Some(Offer::Memory(_)) => {
                    self.landed.insert(transfer);
                    return self.finish(at, queue);
                }
                None => {
                    self.violation(format!("{transfer} can't start"));
                    return false;
                }
            },
        };
        self.send(lane, true, if now == Sent::Part { Message::First(transfer) } else { Message::Last(transfer) });
        self.set_sent(at, queue, now);
        true
    }

    fn set_sent(&mut self, at: usize, queue: usize, sent: Sent) {
        if let Some(push) = self.nodes[at].queues[queue].0.front_mut() {
            push.sent = sent;
        }
    }

    /// Ends the first push of a queue, which fails with it.
    fn finish(&mut self, at: usize, queue: usize) -> bool {
        let Some(push) = self.nodes[at].queues[queue].0.pop_front() else { return false };
        let outcome = self.nodes[at].table.push_done(push.transfer);
        self.act(at);
        if outcome.is_ok() && !self.landed.contains(&push.transfer) {
            self.violation(format!("{} has landed without its bytes", push.transfer));
        }
        let is_excused = self.excused.contains(&push.transfer) || self.lanes[&push.lane].cut;
        if outcome.is_err() && !is_excused && !self.nodes[at].ended && !self.nodes[push.lane.to].ended {
            self.violation(format!("{} fails for nothing: {outcome:?}", push.transfer));
        }
        self.over(&push);
        if outcome.is_err() {
            self.fail_queue(at, queue);
        }
        true
    }

    fn over(&mut self, push: &Push) {
        if self.done.insert(push.transfer, push.lane).is_some() {
            self.violation(format!("{} ends twice", push.transfer));
        }
    }

    /// Gives up the pushes of a queue, also the one that is under way.
    fn fail_queue(&mut self, at: usize, queue: usize) {
        let (pushes, failed) = &mut self.nodes[at].queues[queue];
        *failed = true;
        std::mem::take(pushes).iter().for_each(|push| self.give_up(push));
    }

    fn give_up(&mut self, push: &Push) {
        let at = push.lane.from;
        self.nodes[at].table.give_up(push.transfer, push.sent != Sent::Nothing);
        if push.sent == Sent::Part {
            self.send(push.lane, true, Message::Abort(push.transfer));
        }
        self.over(push);
        self.act(at);
    }

    /// Lets the device of a node end an incoming copy. Returns `false` if there is none to end.
    fn end_incoming(&mut self, at: usize, nth: usize) -> bool {
        let ready = |incoming: &Incoming| incoming.bytes != Bytes::Coming;
        let ends: Vec<_> = (0..self.nodes[at].incoming.len()).filter(|i| ready(&self.nodes[at].incoming[*i])).collect();
        if ends.is_empty() {
            return false;
        }
        let Incoming { transfer, lane, bytes } = self.nodes[at].incoming.swap_remove(ends[nth % ends.len()]);
        let fails = self.random.below(15) == 0;
        match bytes {
            Bytes::Here if !fails => drop(self.landed.insert(transfer)),
            Bytes::Lost if !self.has(Fault::LosesFailures) => {
                self.nodes[at].table.bytes_lost(transfer, error("the sender failed"));
            }
            _ => {}
        }
        self.excused.extend(fails.then_some(transfer));
        let outcome = if fails { Err(error("the device failed")) } else { Ok(()) };
        self.nodes[at].table.ended(transfer, peer(lane.from, lane.number), outcome);
        self.act(at);
        true
    }

    fn due(&mut self, at: usize) -> bool {
        if self.nodes[at].early.is_empty() {
            return false;
        }
        let nth = self.random.below(self.nodes[at].early.len());
        let transfer = self.nodes[at].early.swap_remove(nth);
        let refuses = self.random.below(15) == 0;
        self.excused.extend(refuses.then_some(transfer));
        if !(self.has(Fault::ForgetsDue) && self.random.below(10) == 0) {
            self.nodes[at].table.due(transfer, if refuses { Err(error("a region crashed")) } else { Ok(()) });
        }
        self.act(at);
        true
    }

    /// Carries out one possible event, with `troubles` also a failure. Returns `false` if none is possible.
    fn step(&mut self, troubles: bool) -> bool {
        let names: Vec<LaneName> = self.lanes.keys().copied().collect();
        if troubles && !names.is_empty() && self.random.below(20) == 0 {
            let name = names[self.random.below(names.len())];
            self.cut(name);
        }
        if troubles && self.random.below(60) == 0 {
            let (at, queue) = (self.random.below(NODES), self.random.below(QUEUES));
            self.fail_queue(at, queue);
        }
        let (first, at, nth) = (self.random.below(64), self.random.below(NODES), self.random.below(1 << 20));
        let all = |offset: usize| (at + offset) % NODES;
        (0..8).map(|offset| (first + offset) % 8).any(|choice| match choice {
            0 => (0..NODES).map(all).any(|at| match self.program[at].pop_front() {
                Some(reported) => {
                    self.notify(at, reported);
                    true
                }
                None => false,
            }),
            1 | 2 => (0..names.len()).any(|offset| {
                let name = names[(nth + offset) % names.len()];
                let Some(lane) = self.lanes.get_mut(&name) else { return false };
                let message = if choice == 1 { lane.forward.pop_front() } else { lane.back.pop_front() };
                match message {
                    Some(message) if choice == 1 => self.arrives(name, message),
                    Some(message) => self.returns(name, message),
                    None => return false,
                }
                true
            }),
            3 => (0..NODES * QUEUES).any(|offset| self.go_on(all(offset), (nth + offset / NODES) % QUEUES)),
            4 => (0..NODES).map(all).any(|at| self.due(at)),
            5 => (0..NODES).map(all).any(|at| self.end_incoming(at, nth)),
            6 => self.unknown.pop_front().is_some_and(|name| {
                let number = self.numbers.entry((name.from, name.to)).or_default();
                *number = (*number).max(name.number + 1);
                true
            }),
            _ => names.iter().any(|name| {
                let first = nth.is_multiple_of(2);
                let unseen = |end: &bool| self.lanes[name].unseen[usize::from(*end)];
                let Some(end) = [first, !first].into_iter().find(unseen) else { return false };
                self.see(*name, end);
                true
            }),
        })
    }

    fn quiesce(&mut self, troubles: bool) {
        let mut steps = 0;
        while self.wrong.is_none() && self.step(troubles) {
            steps += 1;
            if steps > 100_000 {
                self.violation("it does not come to rest".to_owned());
            }
        }
    }

    fn check(&mut self) {
        for at in 0..NODES {
            let Node { table, over, issued, ended, .. } = &self.nodes[at];
            let left = (table.pushes(), table.expects());
            let reported = format!("{over:?} of {issued:?} copies are over for the program");
            if !ended && left != (0, 0) {
                self.violation(format!("node {at} keeps {left:?}"));
            } else if !ended && over != issued {
                self.violation(reported);
            }
        }
    }
}

fn run(seed: u64, fault: Option<Fault>) -> std::result::Result<(), String> {
    let mut world = World::new(seed, fault);
    for _ in 0..1 + world.random.below(30) {
        let (from, hop) = (world.random.below(NODES), 1 + world.random.below(NODES - 1));
        world.issue(from, (from + hop) % NODES);
        for _ in 0..world.random.below(12) {
            world.step(true);
        }
        if world.random.below(200) == 0 {
            world.end(from);
        }
    }
    world.quiesce(true);
    // Nothing fails any more, and all losses are known, so that each pair has a lane again.
    world.quiesce(false);
    let late = world.issued;
    for (from, to) in (0..NODES).flat_map(|from| (0..NODES).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        world.issue(from, to);
    }
    world.quiesce(false);
    let unended = (late..world.issued).map(TransferId).find(|transfer| !world.done.contains_key(transfer));
    if let Some(transfer) = unended {
        world.violation(format!("{transfer} does not end"));
    }
    world.check();
    world.wrong.map_or(Ok(()), |wrong| Err(format!("seed {seed}: {wrong}")))
}

#[test]
fn each_copy_ends_once_whatever_fails() {
    (0..SEEDS).for_each(|seed| assert_eq!(run(seed, None), Ok(())));
}

#[test]
fn planted_faults_are_found() {
    for fault in Fault::ALL {
        assert!((0..FAULT_SEEDS).any(|seed| run(seed, Some(fault)).is_err()), "{fault:?}");
    }
}

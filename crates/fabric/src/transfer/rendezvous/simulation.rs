//! A program and three executors whose links delay messages, by seed. Messages of one link keep their order; links may
//! overtake each other.

use crate::peer::PeerId;

use super::*;
use std::collections::{BTreeMap, VecDeque};

const NODES: usize = 3;
const QUEUES: usize = 2;
const SEEDS: u64 = 3000;

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

#[derive(Clone)]
enum Told {
    Push { queue: usize, transfer: TransferId, to: usize },
    Expect { transfer: TransferId, from: usize },
}

/// A message between executors.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Message {
    Arrived,
    Bytes(TransferId),
    Abort(TransferId),
    Ready(TransferId),
    Landed(TransferId),
    Refused(TransferId),
}

#[derive(Default)]
struct PushQueue {
    /// The queue's pushes in order, with their targets.
    pushes: VecDeque<(TransferId, usize)>,
    /// Whether the bytes of the first push were sent.
    sent: bool,
    failed: bool,
}

#[derive(Default)]
struct Node {
    pushes: Pushes,
    expects: Expects,
    queues: [PushQueue; QUEUES],
    /// Expected transfers whose predecessors on this node are not done yet.
    early: Vec<TransferId>,
    /// Transfers whose copy runs in the incoming stream.
    incoming: VecDeque<(TransferId, usize)>,
    /// Transfers that the program has announced, in order, to check that no byte arrives before.
    expected: Vec<TransferId>,
}

#[derive(Default)]
struct World {
    nodes: [Node; NODES],
    program: [VecDeque<Told>; NODES],
    /// Lanes by opener, target and direction (`true`: from the opener). A lane exists once its opener has a push for
    /// the target.
    lanes: BTreeMap<(usize, usize, bool), VecDeque<Message>>,
    landed: usize,
    failed: usize,
}

fn peer(node: usize) -> PeerId {
    PeerId::from_raw(u32::try_from(node).unwrap())
}

impl World {
    /// Sends a message. Bytes and aborts use the pusher's lane, all others its reverse direction.
    fn send(&mut self, from: usize, to: usize, message: Message) {
        let lane = match message {
            Message::Arrived | Message::Bytes(_) | Message::Abort(_) => (from, to, true),
            Message::Ready(_) | Message::Landed(_) | Message::Refused(_) => (to, from, false),
        };
        self.lanes.entry(lane).or_default().push_back(message);
    }

    fn tell(&mut self, node: usize, told: Told) {
        match told {
            Told::Push { queue, transfer, to } => {
                self.nodes[node].pushes.push(transfer, peer(to)).unwrap();
                if !self.lanes.contains_key(&(node, to, true)) {
                    self.send(node, to, Message::Arrived);
                }
                if self.nodes[node].queues[queue].failed {
                    self.abandon(node, transfer, to);
                } else {
                    self.nodes[node].queues[queue].pushes.push_back((transfer, to));
                }
            }
            Told::Expect { transfer, from } => {
                let node = &mut self.nodes[node];
                node.expects.expect(transfer, peer(from)).unwrap();
                node.early.push(transfer);
                node.expected.push(transfer);
            }
        }
    }

    fn abandon(&mut self, node: usize, transfer: TransferId, to: usize) {
        self.failed += 1;
        if self.nodes[node].pushes.finish(transfer) {
            self.send(node, to, Message::Abort(transfer));
        }
    }

    fn receive(&mut self, from: usize, to: usize, message: Message) {
        match message {
            Message::Arrived => {
                for answer in self.nodes[to].expects.arrived(peer(from)) {
                    self.answer(to, from, answer);
                }
            }
            Message::Bytes(transfer) => {
                assert!(self.nodes[to].expected.contains(&transfer), "bytes before their expect");
                self.nodes[to].expects.begin(transfer, peer(from)).unwrap();
                self.nodes[to].incoming.push_back((transfer, from));
            }
            Message::Abort(transfer) => {
                self.nodes[to].expects.begin(transfer, peer(from)).unwrap();
                self.nodes[to].expects.end(transfer);
            }
            Message::Ready(transfer) => {
                if self.nodes[to].pushes.ready(transfer).unwrap() {
                    self.send(to, from, Message::Abort(transfer));
                }
            }
            Message::Landed(transfer) => self.nodes[to].pushes.landed(transfer).unwrap(),
            Message::Refused(transfer) => self.nodes[to].pushes.refused(transfer, unknown(transfer)).unwrap(),
        }
    }

    fn answer(&mut self, from: usize, to: usize, answer: Answer) {
        let message = match answer {
            Answer::Ready(transfer) => Message::Ready(transfer),
            Answer::Refused(transfer, _) => Message::Refused(transfer),
        };
        self.send(from, to, message);
    }

    /// Lets a queue take its next step. Returns `false` if it has none.
    fn run_queue(&mut self, node: usize, queue: usize) -> bool {
        let PushQueue { pushes, sent, .. } = &self.nodes[node].queues[queue];
        let (Some(&(transfer, to)), sent) = (pushes.front(), *sent) else { return false };
        match self.nodes[node].pushes.step(transfer) {
            PushStep::Wait => false,
            PushStep::Send if sent => false,
            PushStep::Send => {
                self.nodes[node].queues[queue].sent = true;
                self.send(node, to, Message::Bytes(transfer));
                true
            }
            PushStep::End(outcome) => {
                assert!(!self.nodes[node].pushes.finish(transfer));
                let state = &mut self.nodes[node].queues[queue];
                state.pushes.pop_front();
                state.sent = false;
                if outcome.is_ok() {
                    self.landed += 1;
                } else {
                    self.failed += 1;
                    self.fail_queue(node, queue);
                }
                true
            }
        }
    }

    /// Skips the rest of a queue.
    fn fail_queue(&mut self, node: usize, queue: usize) {
        self.nodes[node].queues[queue].failed = true;
        if self.nodes[node].queues[queue].sent {
            // The bytes are in flight, and the push ends by itself.
            let rest = self.nodes[node].queues[queue].pushes.split_off(1);
            rest.into_iter().for_each(|(transfer, to)| self.abandon(node, transfer, to));
        } else {
            let rest = std::mem::take(&mut self.nodes[node].queues[queue].pushes);
            rest.into_iter().for_each(|(transfer, to)| self.abandon(node, transfer, to));
        }
    }

    /// Carries out one possible event. Returns `false` if none is possible.
    fn step(&mut self, random: &mut Random, refuse: bool) -> bool {
        let first = random.below(1000);
        let choices = NODES + 2 * NODES * NODES + NODES * QUEUES + 2 * NODES;
        (0..choices).any(|i| {
            let choice = (first + i) % choices;
            let mut at = choice;
            if at < NODES {
                let Some(told) = self.program[at].pop_front() else { return false };
                self.tell(at, told);
                return true;
            }
            at -= NODES;
            if at < 2 * NODES * NODES {
                let (opener, other, forward) = (at / 2 / NODES, at / 2 % NODES, at.is_multiple_of(2));
                let lane = self.lanes.get_mut(&(opener, other, forward));
                let Some(message) = lane.and_then(VecDeque::pop_front) else { return false };
                let (from, to) = if forward { (opener, other) } else { (other, opener) };
                self.receive(from, to, message);
                return true;
            }
            at -= 2 * NODES * NODES;
            if at < NODES * QUEUES {
                return self.run_queue(at / QUEUES, at % QUEUES);
            }
            at -= NODES * QUEUES;
            let node = at % NODES;
            if at < NODES {
                if self.nodes[node].early.is_empty() {
                    return false;
                }
                let nth = random.below(self.nodes[node].early.len());
                let transfer = self.nodes[node].early.swap_remove(nth);
                let outcome = if refuse && random.below(10) == 0 { Err(too_many()) } else { Ok(()) };
                if let Some((to, answer)) = self.nodes[node].expects.due(transfer, outcome) {
                    self.answer(node, usize::try_from(to.raw()).unwrap(), answer);
                }
                return true;
            }
            let Some((transfer, from)) = self.nodes[node].incoming.pop_front() else { return false };
            if self.nodes[node].expects.end(transfer) {
                self.send(node, from, Message::Landed(transfer));
            }
            true
        })
    }
}

fn run(seed: u64, failures: bool) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::default();
    let transfers = 1 + random.below(20);
    for id in 0..transfers {
        let (from, hop) = (random.below(NODES), 1 + random.below(NODES - 1));
        let to = (from + hop) % NODES;
        let transfer = TransferId(id as u64);
        world.program[to].push_back(Told::Expect { transfer, from });
        world.program[from].push_back(Told::Push { queue: random.below(QUEUES), transfer, to });
    }
    let mut steps = 0;
    while world.step(&mut random, failures) {
        if failures && random.below(40) == 0 {
            world.fail_queue(random.below(NODES), random.below(QUEUES));
        }
        steps += 1;
        assert!(steps < 100_000, "seed {seed} does not come to rest");
    }
    assert_eq!(world.landed + world.failed, transfers, "seed {seed}: a push did not end");
    assert!(failures || world.failed == 0, "seed {seed}: a push failed without cause");
    for node in &world.nodes {
        assert!(node.pushes.len() == 0, "seed {seed}: pushes are left");
        assert!(node.expects.len() == 0, "seed {seed}: expects are left");
    }
}

#[test]
fn every_transfer_lands_however_late_the_links_are() {
    (0..SEEDS).for_each(|seed| run(seed, false));
}

#[test]
fn every_transfer_ends_when_streams_fail_and_targets_refuse() {
    (0..SEEDS).for_each(|seed| run(seed, true));
}

#[test]
fn a_lost_peer_ends_its_transfers_only() {
    let mut pushes = Pushes::default();
    let lost = Error::new(ErrorCode::DeviceUnavailable, "gone");
    for (id, to) in [(1, 7), (2, 8), (3, 7)] {
        pushes.push(TransferId(id), peer(to)).unwrap();
    }
    assert!(!pushes.ready(TransferId(1)).unwrap());
    pushes.lost(peer(7), &lost);
    assert_eq!(pushes.step(TransferId(1)), PushStep::End(Err(lost.clone())));
    assert_eq!(pushes.step(TransferId(2)), PushStep::Wait);
    assert_eq!(pushes.step(TransferId(3)), PushStep::End(Err(lost)));

    let mut expects = Expects::default();
    for (id, from) in [(1, 7), (2, 8), (3, 7)] {
        expects.expect(TransferId(id), peer(from)).unwrap();
    }
    expects.arrived(peer(7));
    assert_eq!(expects.due(TransferId(3), Ok(())), Some((peer(7), Answer::Ready(TransferId(3)))));
    expects.begin(TransferId(3), peer(7)).unwrap();
    assert_eq!(expects.lost(peer(7)), [TransferId(1)]);
    assert!(!expects.end(TransferId(3)));
    assert_eq!(expects.len(), 1);
}

#[test]
fn unrequested_bytes_are_refused_by_the_target() {
    let mut expects = Expects::default();
    expects.expect(TransferId(1), peer(7)).unwrap();
    assert!(expects.begin(TransferId(1), peer(7)).is_err(), "before ready");
    expects.arrived(peer(7));
    expects.due(TransferId(1), Ok(()));
    assert!(expects.begin(TransferId(1), peer(8)).is_err(), "from another peer");
    assert!(expects.begin(TransferId(1), peer(7)).is_ok());
    assert!(expects.begin(TransferId(1), peer(7)).is_err(), "twice");
    assert!(expects.expect(TransferId(1), peer(7)).is_err(), "announced twice");
}

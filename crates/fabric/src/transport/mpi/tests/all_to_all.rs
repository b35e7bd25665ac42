//! A program copies from each device of 256 agents to every other one, in an order of its own: the agents' exchanges, their pools of lanes and
//! their lanes over MPI are the real ones, and what happens when is a seed's. Nothing stands still, nobody reads another
//! copy's bytes, and nobody asks for more rooms than there are tags. Of the large copies half have room posted for them, as far as there is such.

use super::super::{HEADER_LEN, LaneKey, Lent, Loan, Next, RoomOf, Streams};
use crate::frame::EXCHANGE_WINDOW;
use crate::peer::PeerId;
use crate::transfer::{ControlMessage, ExchangeCore, ExchangeEffect, LanePool, PushStep, Random, RoomWord};
use accord_types::TransferId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::num::NonZeroU16;

const AGENTS: u32 = 256;
/// Queues of a device that copies are spread over.
const QUEUES: usize = 16;
/// Bytes of a copy: in messages of the lane, or lent.
const SMALL: usize = 3_000;
const LARGE: usize = 1 << 20;
/// Messages of a rank that MPI has at one time.
const SENDS_MAX: usize = 32;
/// Messages that come for lent room: a rank has so many tags.
const ROOMS_MAX: usize = 32;
/// What an agent is told of a copy: how it is with it, which, and by which tag it has room.
const WORD: usize = 11;
/// Before a copy's bytes: which, and how many.
const HEAD: usize = 16;

/// A copy on a queue of one of its devices.
#[derive(Clone, Copy)]
enum Work {
    Push(TransferId, u32, usize, Stage),
    /// Whether what stood before it is done.
    Expect(TransferId, bool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// For the target.
    Waits,
    /// Its head is written, and so many bytes, on this lane.
    Sends(usize, usize),
    Lends(usize),
    /// All is sent.
    Sent,
}

/// What is read from a lane of a pusher's.
#[derive(Default)]
struct Reading {
    head: Vec<u8>,
    transfer: TransferId,
    left: usize,
    /// Bytes that come into lent room.
    room: bool,
}

struct Agent {
    streams: Streams,
    /// Copies are expected with their lengths.
    core: ExchangeCore<usize>,
    queues: [VecDeque<Work>; QUEUES],
    /// Lanes to push on, by peer, and which are lent.
    lanes: HashMap<u32, (Vec<LaneKey>, LanePool)>,
    reading: BTreeMap<LaneKey, Reading>,
    /// Parts of words, by lane.
    words: BTreeMap<LaneKey, Vec<u8>>,
    /// Where to tell a peer that pushes.
    tell: HashMap<u32, LaneKey>,
    /// Room that is posted, and how much of it has been.
    posted: BTreeMap<u64, (TransferId, PeerId)>,
    posts: usize,
    done: usize,
}

/// What is under way between two ranks, in its order.
enum OnItsWay {
    Message(Vec<u8>),
    Lent(Lent),
}

struct World {
    agents: Vec<Agent>,
    under_way: Vec<BTreeMap<u32, VecDeque<OnItsWay>>>,
    /// Messages that MPI has of each rank.
    sending: Vec<usize>,
    rooms: Vec<usize>,
    most_sent_bytes: usize,
}

fn peer(agent: u32) -> PeerId {
    PeerId::from_raw(agent + 1)
}

fn agent(peer: PeerId) -> u32 {
    peer.raw() - 1
}

impl World {
    fn new() -> Self {
        let agent = |_| Agent {
            streams: Streams::default(),
            core: ExchangeCore::new(None),
            queues: Default::default(),
            lanes: HashMap::new(),
            reading: BTreeMap::new(),
            words: BTreeMap::new(),
            tell: HashMap::new(),
            posted: BTreeMap::new(),
            posts: 0,
            done: 0,
        };
        let mut world = Self {
            agents: (0..AGENTS).map(agent).collect(),
            under_way: (0..AGENTS).map(|_| BTreeMap::new()).collect(),
            sending: vec![0; AGENTS as usize],
            rooms: vec![0; AGENTS as usize],
            most_sent_bytes: 0,
        };
        for from in 0..AGENTS {
            for to in (0..AGENTS).filter(|to| *to != from) {
                let (mut lanes, mut pool) = (Vec::new(), LanePool::default());
                // One lane to every other peer, two to the others.
                for _ in 0..1 + (from + to) % 2 {
                    lanes.push(world.at(from).streams.open(to).unwrap());
                    pool.add();
                }
                world.at(from).lanes.insert(to, (lanes, pool));
            }
            while world.send(from) {
                (0..AGENTS).for_each(|to| _ = world.deliver(to, from));
            }
            for to in (0..AGENTS).filter(|to| *to != from) {
                while let Some(lane) = world.at(to).streams.next_opened() {
                    world.at(to).reading.insert(lane, Reading::default());
                    world.at(to).tell.insert(from, lane);
                }
                world.at(to).core.arrived(peer(from));
                // It is said that nobody is gone.
                world.at(to).core.effects().for_each(drop);
            }
        }
        world
    }

    fn at(&mut self, agent: u32) -> &mut Agent {
        &mut self.agents[agent as usize]
    }

    /// A message of a rank's is given to MPI.
    fn send(&mut self, from: u32) -> bool {
        if self.sending[from as usize] >= SENDS_MAX {
            return false;
        }
        let streams = &mut self.agents[from as usize].streams;
        let (to, what) = if let Some(lent) = streams.next_lent() {
            (lent.to, OnItsWay::Lent(lent))
        } else if let Some(outgoing) = streams.next_message() {
            (outgoing.to, OnItsWay::Message(outgoing.message))
        } else {
            return false;
        };
        self.sending[from as usize] += 1;
        self.under_way[to as usize].entry(from).or_default().push_back(what);
        true
    }

    /// The next message between two ranks is there.
    fn deliver(&mut self, to: u32, from: u32) -> bool {
        let senders = &mut self.under_way[to as usize];
        let Some(what) = senders.get_mut(&from).and_then(VecDeque::pop_front) else { return false };
        if senders[&from].is_empty() {
            senders.remove(&from);
        }
        self.sending[from as usize] -= 1;
        match what {
            OnItsWay::Message(message) => drop(self.at(to).streams.receive(from, message).unwrap()),
            OnItsWay::Lent(lent) => {
                let sender = &mut self.at(from).streams;
                sender.was_sent(lent.id);
                assert_eq!(sender.next_sent(), lent.is_posted.then_some(lent.id));
                let Agent { streams, core, posted, reading, .. } = self.at(to);
                let room = streams.comes(from, lent.tag, lent.len).unwrap();
                streams.came(lent.tag);
                match room {
                    RoomOf::Reader(lane) => {
                        let reading = reading.get_mut(&lane).unwrap();
                        reading.room = false;
                        reading.left -= lent.len;
                        self.rooms[to as usize] -= 1;
                        self.end_of_copy(to, lane);
                    }
                    RoomOf::Posted(id) => {
                        assert_eq!(streams.next_ended_room(), Some((id, true)));
                        let (transfer, peer) = posted.remove(&id).unwrap();
                        assert!(core.begin(transfer, peer, false).unwrap());
                        core.ended(transfer, peer, Ok(()));
                    }
                    RoomOf::Nobody => panic!("nobody has abandoned room"),
                }
            }
        }
        true
    }

    /// All that an agent can do by itself.
    fn work(&mut self, at: u32) -> bool {
        let mut moved = false;
        for lane in self.at(at).streams.take_woken() {
            moved |= self.read(at, lane);
        }
        for queue in 0..QUEUES {
            while self.go_on(at, queue) {
                moved = true;
            }
        }
        self.tell(at);
        moved
    }

    fn read(&mut self, at: u32, lane: LaneKey) -> bool {
        let mut moved = false;
        loop {
            match self.at(at).streams.next(lane) {
                Next::Message(message) => {
                    let bytes = &message[HEADER_LEN..];
                    if lane.opened_here { self.hear(at, lane, bytes) } else { self.take(at, lane, bytes) }
                }
                Next::Offered(_) => {
                    let reading = self.at(at).reading.get_mut(&lane).unwrap();
                    if !reading.room {
                        let left = reading.left;
                        if self.at(at).streams.ask(lane, left).is_some() {
                            self.at(at).reading.get_mut(&lane).unwrap().room = true;
                            self.rooms[at as usize] += 1;
                            assert!(self.rooms[at as usize] <= ROOMS_MAX);
                        }
                    }
                    return moved;
                }
                Next::Nothing => return moved,
                Next::End => panic!("nobody has closed a lane"),
            }
            moved = true;
        }
    }

    /// A target says how it is with copies that are pushed to it.
    fn hear(&mut self, at: u32, lane: LaneKey, bytes: &[u8]) {
        let Agent { core, words, .. } = &mut self.agents[at as usize];
        let words = words.entry(lane).or_default();
        words.extend_from_slice(bytes);
        for word in words.chunks_exact(WORD) {
            let transfer = TransferId(u64::from_le_bytes(word[1..9].try_into().unwrap()));
            let tag = NonZeroU16::new(u16::from_le_bytes(word[9..].try_into().unwrap()));
            let message = match (word[0], tag) {
                (0, None) => ControlMessage::Ready(transfer, Vec::new()),
                // Nobody asks here whether it overlaps.
                (0, Some(number)) => ControlMessage::Room(transfer, RoomWord { number, overlaps: false }),
                _ => ControlMessage::Landed(transfer),
            };
            core.on_control(peer(lane.peer), message).unwrap();
        }
        words.drain(..words.len() / WORD * WORD);
    }

    /// Bytes of a pusher's.
    fn take(&mut self, at: u32, lane: LaneKey, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Agent { core, reading, .. } = &mut self.agents[at as usize];
            let reading = reading.get_mut(&lane).unwrap();
            if reading.left == 0 {
                let part = bytes.len().min(HEAD - reading.head.len());
                reading.head.extend_from_slice(&bytes[..part]);
                bytes = &bytes[part..];
                if reading.head.len() == HEAD {
                    let number = |at: usize| u64::from_le_bytes(reading.head[at..at + 8].try_into().unwrap());
                    (reading.transfer, reading.left) = (TransferId(number(0)), number(8) as usize);
                    reading.head.clear();
                    assert!(core.begin(reading.transfer, peer(lane.peer), false).unwrap());
                }
                continue;
            }
            let part = bytes.len().min(reading.left);
            assert!(bytes[..part].iter().all(|byte| *byte == reading.transfer.0 as u8), "bytes of another copy");
            reading.left -= part;
            bytes = &bytes[part..];
            self.end_of_copy(at, lane);
        }
    }

    fn end_of_copy(&mut self, at: u32, lane: LaneKey) {
        let Agent { core, reading, .. } = &mut self.agents[at as usize];
        let reading = &reading[&lane];
        if reading.left == 0 {
            core.ended(reading.transfer, peer(lane.peer), Ok(()));
        }
    }

    /// What an agent's exchange wants said.
    fn tell(&mut self, at: u32) {
        let Agent { streams, core, tell, queues, posted, posts, done, .. } = &mut self.agents[at as usize];
        for effect in core.effects() {
            let mut tag = 0;
            let (kind, to, transfer) = match effect {
                ExchangeEffect::Ready { peer, transfer, expected } => {
                    let wants = expected == LARGE && transfer.0.is_multiple_of(2);
                    if let Some((id, number)) = wants.then(|| streams.post(tell[&agent(peer)], LARGE as u64)).flatten()
                    {
                        tag = number;
                        posted.insert(id, (transfer, peer));
                        *posts += 1;
                    }
                    (0, peer, transfer)
                }
                ExchangeEffect::Landed(peer, transfer) => {
                    // The copy has left its queue: it is the first there.
                    let queue = queues
                        .iter_mut()
                        .find(|queue| matches!(queue.front(), Some(Work::Expect(first, true)) if *first == transfer));
                    queue.unwrap().pop_front();
                    *done += 1;
                    (1, peer, transfer)
                }
                ExchangeEffect::Push(_) => continue,
                effect => panic!("{effect:?}, and nobody has failed"),
            };
            let mut word = vec![kind];
            word.extend_from_slice(&transfer.0.to_le_bytes());
            word.extend_from_slice(&tag.to_le_bytes());
            let lane = tell[&agent(to)];
            // Words are few: a copy has two.
            assert_eq!(streams.write(lane, &[IoSlice::new(&word)]).unwrap(), Some(WORD));
        }
    }

    /// The first copy of a queue goes on; whether it did.
    fn go_on(&mut self, at: u32, queue: usize) -> bool {
        let Agent { streams, core, queues, lanes, done, .. } = &mut self.agents[at as usize];
        match queues[queue].front_mut() {
            Some(Work::Expect(transfer, due @ false)) => {
                *due = true;
                core.due(*transfer, Ok(()));
                true
            }
            Some(Work::Push(transfer, to, len, stage)) => {
                let (lanes, pool) = lanes.get_mut(to).unwrap();
                let next = match *stage {
                    Stage::Waits if core.step(*transfer) == PushStep::Send => {
                        if let Some(room) = core.take_room(*transfer) {
                            assert_eq!(*len, LARGE);
                            streams.send_posted(lanes[0], room.number.get(), LARGE).unwrap();
                            *stage = Stage::Sent;
                            return true;
                        }
                        let Some(lane) = pool.lend().unwrap() else { return false };
                        let mut head = transfer.0.to_le_bytes().to_vec();
                        head.extend_from_slice(&(*len as u64).to_le_bytes());
                        assert_eq!(streams.write(lanes[lane], &[IoSlice::new(&head)]).unwrap(), Some(HEAD));
                        if *len == LARGE {
                            streams.lend(lanes[lane], LARGE as u64).unwrap();
                            Stage::Lends(lane)
                        } else {
                            Stage::Sends(0, lane)
                        }
                    }
                    Stage::Sends(sent, lane) if sent < *len => {
                        let bytes = vec![transfer.0 as u8; *len - sent];
                        let Some(more) = streams.write(lanes[lane], &[IoSlice::new(&bytes)]).unwrap() else {
                            return false;
                        };
                        Stage::Sends(sent + more, lane)
                    }
                    Stage::Sends(_, lane) => {
                        pool.give_back(lane);
                        Stage::Sent
                    }
                    Stage::Lends(lane) if streams.loan(lanes[lane]) == Loan::Done => {
                        pool.give_back(lane);
                        Stage::Sent
                    }
                    Stage::Sent if core.step(*transfer) == PushStep::End(Ok(())) => {
                        core.push_done(*transfer).unwrap();
                        queues[queue].pop_front();
                        *done += 1;
                        return true;
                    }
                    Stage::Waits | Stage::Lends(_) | Stage::Sent => return false,
                };
                *stage = next;
                true
            }
            Some(Work::Expect(_, true)) | None => false,
        }
    }
}

fn shuffle<T>(items: &mut [T], chance: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, chance.below(last + 1));
    }
}

/// Copies between all pairs of devices, all of them asked for at once, in an order of a seed's.
fn copy_all(seed: u64) {
    let mut chance = Random(seed);
    let mut world = World::new();
    let mut pairs: Vec<(u32, u32)> = (0..AGENTS).flat_map(|from| (0..AGENTS).map(move |to| (from, to))).collect();
    pairs.retain(|(from, to)| from != to);
    shuffle(&mut pairs, &mut chance);
    let copies = pairs.len();
    // All copies of the program are on their way at once: each agent has 510 of them.
    for (number, (from, to)) in pairs.into_iter().enumerate() {
        let transfer = TransferId(number as u64);
        let (len, queue) = (if chance.below(2) == 0 { SMALL } else { LARGE }, chance.below(QUEUES));
        world.at(from).core.push(transfer, peer(to)).unwrap();
        world.at(from).queues[queue].push_back(Work::Push(transfer, to, len, Stage::Waits));
        world.at(to).core.expect(transfer, peer(from), Ok(len)).unwrap();
        world.at(to).queues[queue].push_back(Work::Expect(transfer, false));
    }
    let mut order: Vec<u32> = (0..AGENTS).collect();
    let mut moved = true;
    while moved {
        moved = false;
        shuffle(&mut order, &mut chance);
        for &at in &order {
            moved |= world.work(at);
            for _ in 0..=chance.below(2 * SENDS_MAX) {
                moved |= world.send(at);
            }
            // Some senders are slower than others.
            let senders: Vec<_> = world.under_way[at as usize].keys().copied().collect();
            for from in senders {
                for _ in 0..1 + chance.below(3) {
                    moved |= world.deliver(at, from);
                }
            }
            let Agent { core, .. } = &world.agents[at as usize];
            assert!(core.pushes() <= EXCHANGE_WINDOW as usize && core.expects() <= EXCHANGE_WINDOW as usize);
        }
        world.most_sent_bytes = world.most_sent_bytes.max(
            world
                .under_way
                .iter()
                .flat_map(BTreeMap::values)
                .flatten()
                .map(|what| if let OnItsWay::Message(message) = what { message.len() } else { 0 })
                .sum(),
        );
    }
    let done: usize = world.agents.iter().map(|agent| agent.done).sum();
    assert_eq!(done, 2 * copies, "seed {seed}: something stands still");
    assert!(world.agents.iter().all(|agent| (agent.core.pushes(), agent.core.expects()) == (0, 0)));
    let posts: usize = world.agents.iter().map(|agent| agent.posts).sum();
    assert!(copies / 16 < posts && posts < copies / 4, "{posts} of {copies} copies had room posted for them");
    assert!(world.agents.iter().all(|agent| agent.posted.is_empty()));
    assert!(world.most_sent_bytes <= AGENTS as usize * SENDS_MAX * (128 << 10));
}

#[test]
fn copies_from_all_devices_to_all_devices_end() {
    copy_all(0x2545_f491_4f6c_dd1d);
}

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::IoSlice;

/// Ranks with queues between them.
struct World {
    ranks: Vec<Streams>,
    /// Messages in flight, by sender and receiver.
    under_way: HashMap<(u32, u32), VecDeque<Vec<u8>>>,
}

impl World {
    fn new(ranks: u32) -> Self {
        Self { ranks: (0..ranks).map(|_| Streams::default()).collect(), under_way: HashMap::new() }
    }

    fn rank(&mut self, rank: u32) -> &mut Streams {
        &mut self.ranks[rank as usize]
    }

    fn open(&mut self, from: u32, to: u32) -> (LaneKey, LaneKey) {
        let near = self.rank(from).open(to).unwrap();
        self.settle();
        (near, self.rank(to).next_opened().unwrap())
    }

    fn send(&mut self, from: u32) -> bool {
        let Some(outgoing) = self.rank(from).next_message() else { return false };
        self.under_way.entry((from, outgoing.to)).or_default().push_back(outgoing.message);
        true
    }

    fn deliver(&mut self, from: u32, to: u32) -> bool {
        let Some(message) = self.under_way.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return false };
        self.rank(to).receive(from, message).unwrap();
        true
    }

    /// Sends and delivers all messages.
    fn settle(&mut self) {
        let ranks = u32::try_from(self.ranks.len()).unwrap();
        let mut moves = true;
        while moves {
            moves = false;
            for from in 0..ranks {
                while self.send(from) {
                    moves = true;
                }
                for to in 0..ranks {
                    while self.deliver(from, to) {
                        moves = true;
                    }
                }
            }
        }
    }
}

/// Returns the byte at this offset of a lane's stream.
fn byte(lane: usize, at: usize) -> u8 {
    (at * 7 + at / 251 + lane * 13) as u8
}

fn write(world: &mut World, rank: u32, lane: LaneKey, bytes: &[u8]) -> usize {
    world.rank(rank).write(lane, &[IoSlice::new(bytes)]).unwrap().unwrap_or(0)
}

/// Reads all available bytes. Returns whether the stream has ended.
fn read(world: &mut World, rank: u32, lane: LaneKey, to: &mut Vec<u8>) -> bool {
    loop {
        match world.rank(rank).next(lane) {
            Next::Message(message) => to.extend_from_slice(&message[HEADER_LEN..]),
            Next::End => return true,
            Next::Nothing | Next::Offered(_) => return false,
        }
    }
}

struct Lane {
    ends: [(u32, LaneKey); 2],
    written: [usize; 2],
    read: [usize; 2],
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In any interleaving of sends, deliveries and reads, all bytes arrive in order and once.
    #[test]
    fn bytes_arrive_in_order_and_once(steps in prop::collection::vec((0..8_u8, 0..6_usize, 0..2_usize, 1..300_000_usize), 1..200)) {
        let mut world = World::new(3);
        let mut lanes: Vec<Lane> = [(0, 1), (1, 0), (0, 2), (2, 1), (0, 1), (1, 1)].into_iter().map(|(from, to)| {
            let (near, far) = world.open(from, to);
            Lane { ends: [(from, near), (to, far)], written: [0; 2], read: [0; 2] }
        }).collect();
        for (step, which, side, size) in steps {
            let (rank, key) = lanes[which].ends[side];
            match step {
                0 | 1 => {
                    let from = lanes[which].written[side];
                    let bytes: Vec<u8> = (from..from + size).map(|at| byte(which * 2 + side, at)).collect();
                    lanes[which].written[side] += write(&mut world, rank, key, &bytes);
                }
                2 | 3 => take(&mut world, &mut lanes[which], which, side, size),
                4 => _ = world.send(rank),
                5 => _ = world.deliver(rank, key.peer),
                6 => world.rank(rank).sweep(),
                _ => while world.send(rank) {},
            }
        }
        for _ in 0..200 {
            world.settle();
            for (which, lane) in lanes.iter_mut().enumerate() {
                for side in 0..2 {
                    take(&mut world, lane, which, side, usize::MAX);
                }
            }
        }
        for lane in &lanes {
            prop_assert_eq!([lane.written[1], lane.written[0]], lane.read);
        }
    }

    /// A message that breaks the protocol is an error, without a panic or growing memory.
    #[test]
    fn any_message_is_taken_or_refused(messages in prop::collection::vec((0..12_u8, any::<bool>(), 0..4_u32, prop_oneof![0..8_u64, any::<u64>()], 0..300_usize), 0..60)) {
        let mut world = World::new(2);
        let (_, far) = world.open(0, 1);
        for (kind, by_opener, number, value, len) in messages {
            let mut message = vec![0; HEADER_LEN + len];
            (message[0], message[1]) = (kind, u8::from(by_opener));
            message[4..8].copy_from_slice(&number.to_le_bytes());
            message[8..16].copy_from_slice(&if kind == 2 { len as u64 } else { value }.to_le_bytes());
            if kind != 2 {
                message.truncate(HEADER_LEN);
            }
            if world.rank(1).receive(0, message).is_err() {
                break;
            }
            read(&mut world, 1, far, &mut Vec::new());
            while world.rank(1).next_message().is_some() {}
        }
    }
}

fn take(world: &mut World, lane: &mut Lane, which: usize, side: usize, max: usize) {
    let (rank, key) = lane.ends[side];
    let mut left = max;
    while left > 0 {
        let message = match world.rank(rank).next(key) {
            Next::Message(message) => message,
            Next::Nothing => break,
            received => panic!("unexpected {received:?}"),
        };
        for received in &message[HEADER_LEN..] {
            assert_eq!(*received, byte(which * 2 + 1 - side, lane.read[side]));
            lane.read[side] += 1;
        }
        left = left.saturating_sub(message.len());
    }
}

#[test]
fn ends_arrive_after_written_bytes_and_no_state_remains() {
    let mut world = World::new(2);
    let (near, far) = world.open(0, 1);
    assert_eq!(write(&mut world, 0, near, b"last words"), 10);
    world.rank(0).close(near);
    world.settle();
    let mut all = Vec::new();
    assert!(read(&mut world, 1, far, &mut all));
    assert_eq!(all, b"last words");
    assert!(world.rank(1).write(far, &[IoSlice::new(b"to a closed lane")]).is_err());
    world.rank(1).close(far);
    world.settle();
    assert!(world.ranks.iter().all(|rank| rank.lanes.is_empty() && rank.credits.exposed() == 0));
}

#[test]
fn finishing_one_direction_leaves_the_other_open() {
    let mut world = World::new(2);
    let (near, far) = world.open(0, 1);
    world.rank(0).finish(near);
    world.settle();
    assert!(read(&mut world, 1, far, &mut Vec::new()));
    assert_eq!(write(&mut world, 1, far, b"still"), 5);
    world.settle();
    let mut all = Vec::new();
    assert!(!read(&mut world, 0, near, &mut all));
    assert_eq!(all, b"still");
    world.rank(0).close(near);
    world.rank(1).close(far);
    world.settle();
    assert!(world.ranks.iter().all(|rank| rank.lanes.is_empty()));
}

#[test]
fn a_rank_that_opens_too_much_is_refused() {
    let mut world = World::new(2);
    for _ in 0..OPENED_MAX + 5 {
        world.rank(0).open(1).unwrap();
    }
    world.settle();
    assert_eq!(world.rank(1).opened.len(), OPENED_MAX);
    let refused = world.ranks[0].lanes.values().filter(|lane| lane.finished && lane.unread).count();
    assert_eq!(refused, 5);
}

/// A rank that repeatedly grants credit and receives nothing makes the other rank queue notes that return the credit.
#[test]
fn a_rank_that_does_not_receive_its_notes_is_refused() {
    let mut world = World::new(2);
    let (near, _) = world.open(0, 1);
    let mut refused = None;
    for total in (1 << 20..).take(2 * NOTES_MAX) {
        let header = Header { kind: MessageKind::Credit, by_opener: false, number: near.number, value: total, tag: 0 };
        if let Err(error) = world.rank(0).receive(1, header.encode().to_vec()) {
            refused = Some(error);
            break;
        }
        world.rank(0).sweep();
    }
    assert!(refused.is_some_and(|error| error.to_string().contains("does not take what it is told")));
    assert!(world.rank(0).notes.len() <= NOTES_MAX);
}

#[test]
fn the_end_of_the_world_ends_all_lanes() {
    let mut world = World::new(2);
    let (near, _) = world.open(0, 1);
    write(&mut world, 0, near, &[7; 100]);
    world.rank(0).end();
    assert!(world.rank(0).take_woken().contains(&near));
    assert!(read(&mut world, 0, near, &mut Vec::new()));
    assert!(world.rank(0).write(near, &[IoSlice::new(b"x")]).is_err());
    assert!(world.rank(0).next_message().is_none());
}

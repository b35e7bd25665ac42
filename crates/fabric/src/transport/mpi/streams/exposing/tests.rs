use super::super::Next;
use super::*;
use crate::transport::mpi::exposed_buffers::{ExposedBuffers, TAG_FIRST, TAKES_MAX};
use crate::transport::mpi::message::HEADER_LEN;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;

/// A message in flight between two ranks.
enum InFlight {
    Message(Vec<u8>),
    Lent(ExposedPart),
}

/// Ranks with queues between them.
struct World {
    ranks: Vec<Streams>,
    under_way: HashMap<(u32, u32), VecDeque<InFlight>>,
    /// Messages sent whose sender was not notified yet.
    sent: Vec<(u32, ExposedPart)>,
    /// Ranks and tags of buffers that MPI is writing.
    writing: Vec<(u32, u16)>,
    /// Offsets and lengths received at a rank, by lane.
    received: BTreeMap<(u32, LaneKey), Vec<(usize, usize)>>,
}

impl World {
    fn new(ranks: u32) -> Self {
        let ranks = (0..ranks).map(|_| Streams::default()).collect();
        Self { ranks, under_way: HashMap::new(), sent: Vec::new(), writing: Vec::new(), received: BTreeMap::new() }
    }

    fn rank(&mut self, rank: u32) -> &mut Streams {
        &mut self.ranks[rank as usize]
    }

    /// Sends all messages that a rank has queued.
    fn send(&mut self, from: u32) -> bool {
        let mut moved = false;
        loop {
            let (to, what) = if let Some(exposed) = self.rank(from).next_exposed() {
                self.sent.push((from, exposed));
                (exposed.to, InFlight::Lent(exposed))
            } else if let Some(outgoing) = self.rank(from).next_message() {
                (outgoing.to, InFlight::Message(outgoing.message))
            } else {
                return moved;
            };
            self.under_way.entry((from, to)).or_default().push_back(what);
            moved = true;
        }
    }

    fn deliver(&mut self, from: u32, to: u32) -> bool {
        match self.under_way.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
            None => return false,
            Some(InFlight::Message(message)) => drop(self.rank(to).receive(from, message).unwrap()),
            Some(InFlight::Lent(exposed)) => {
                let lane = self.rank(to).exposures.receives[&exposed.tag];
                self.rank(to).comes(from, exposed.tag, exposed.len).unwrap();
                self.received.entry((to, lane)).or_default().push((exposed.offset, exposed.len));
                self.writing.push((to, exposed.tag));
            }
        }
        true
    }

    /// Completes received messages, possibly long after later ones.
    fn end_writing(&mut self) {
        for (rank, tag) in std::mem::take(&mut self.writing) {
            self.rank(rank).received(tag);
        }
    }

    fn notify_sent(&mut self) {
        for (from, exposed) in std::mem::take(&mut self.sent) {
            self.rank(from).was_sent(exposed.id);
        }
    }

    fn settle(&mut self) {
        let ranks = u32::try_from(self.ranks.len()).unwrap();
        let mut moves = true;
        while moves {
            moves = false;
            for from in 0..ranks {
                moves |= self.send(from);
            }
            let ways: Vec<_> = self.under_way.keys().copied().collect();
            for (from, to) in ways {
                while self.deliver(from, to) {
                    moves = true;
                }
            }
            moves |= !self.writing.is_empty();
            self.end_writing();
            self.notify_sent();
        }
    }

    fn open(&mut self, from: u32, to: u32) -> (LaneKey, LaneKey) {
        let near = self.rank(from).open(to).unwrap();
        self.settle();
        (near, self.rank(to).next_opened().unwrap())
    }
}

fn is_empty(streams: &Streams) -> bool {
    let ExposedBuffers { asked, going, tags, receives, .. } = &streams.exposures;
    asked.is_empty() && going.is_empty() && receives.is_empty() && tags.len() == usize::from(TAKES_MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In any interleaving, exposed bytes arrive once and in order, and their buffers are released.
    #[test]
    fn exposed_bytes_arrive_once_and_are_released(steps in prop::collection::vec((0..8_u8, 0..4_usize, 1..5000_usize), 1..200)) {
        let mut world = World::new(3);
        let lanes: Vec<_> = [(0, 1), (1, 0), (2, 1), (0, 1)].into_iter().map(|(from, to)| (from, to, world.open(from, to))).collect();
        let mut exposed = [0; 4];
        for (step, which, len) in steps {
            let (from, to, (near, far)) = lanes[which];
            match step {
                0 if exposed[which] == 0 => {
                    world.rank(from).expose(near, len as u64).unwrap();
                    exposed[which] = len;
                }
                1 => _ = world.send(from),
                2 => _ = world.send(to),
                3 => _ = world.deliver(from, to),
                4 => _ = world.deliver(to, from),
                5 => {
                    if matches!(world.rank(to).next(far), Next::Offered(_)) {
                        world.rank(to).ask(far, len);
                    }
                }
                6 => world.end_writing(),
                _ => world.notify_sent(),
            }
            if exposed[which] > 0 && world.rank(from).exposure(near) == ExposureState::Done {
                let parts = world.received.remove(&(to, far)).unwrap_or_default();
                let on_its_way: usize = world.under_way.get(&(from, to)).into_iter().flatten().map(|what| match what {
                    InFlight::Lent(part) if part.lane == near => part.len,
                    _ => 0,
                }).sum();
                prop_assert_eq!(parts.iter().map(|part| part.1).sum::<usize>() + on_its_way, exposed[which]);
                // Bytes written now may arrive before all exposed bytes have.
                world.rank(from).write(near, &[IoSlice::new(b"x")]).unwrap();
                while world.send(from) || world.deliver(from, to) {}
                world.settle();
                let next = world.rank(to).next(far);
                prop_assert!(matches!(&next, Next::Message(message) if message.ends_with(b"x")), "{:?}", next);
                world.received.remove(&(to, far));
                exposed[which] = 0;
            }
        }
        for (which, (from, to, (near, far))) in lanes.iter().copied().enumerate() {
            let mut rounds = 0;
            while exposed[which] > 0 && world.rank(from).exposure(near) == ExposureState::UnderWay {
                world.settle();
                if matches!(world.rank(to).next(far), Next::Offered(_)) {
                    world.rank(to).ask(far, 1 << 20);
                }
                rounds += 1;
                prop_assert!(rounds < 20, "it does not end");
            }
            world.settle();
            let mut end = 0;
            for (offset, len) in world.received.remove(&(to, far)).unwrap_or_default() {
                prop_assert_eq!(offset, end);
                end += len;
            }
            prop_assert_eq!(end, exposed[which]);
        }
        prop_assert!(world.ranks.iter().all(is_empty));
    }

    /// Either side may close a lane at any time: all buffers are released, and no state remains.
    #[test]
    fn closing_a_lane_releases_exposed_buffers(steps in prop::collection::vec(0..9_u8, 1..30), by_reader: bool) {
        let mut world = World::new(2);
        let (near, far) = world.open(0, 1);
        world.rank(0).expose(near, 4096).unwrap();
        for step in steps {
            match step {
                0 => _ = world.send(0),
                1 => _ = world.send(1),
                2 => _ = world.deliver(0, 1),
                3 => _ = world.deliver(1, 0),
                4 => world.notify_sent(),
                5 => world.end_writing(),
                _ => {
                    if matches!(world.rank(1).next(far), Next::Offered(_)) {
                        world.rank(1).ask(far, 1000);
                    }
                }
            }
        }
        let (first, other) = if by_reader { ((1, far), (0, near)) } else { ((0, near), (1, far)) };
        world.rank(first.0).close(first.1);
        world.settle();
        prop_assert!(world.rank(0).exposure(near) != ExposureState::UnderWay && world.rank(1).filled(far).is_some());
        world.rank(other.0).close(other.1);
        world.settle();
        prop_assert!(world.ranks.iter().all(|rank| is_empty(rank) && rank.lanes.is_empty()));
    }
}

#[test]
fn the_end_of_the_world_releases_all_memory_that_mpi_does_not_use() {
    let mut world = World::new(2);
    let (near, far) = world.open(0, 1);
    world.rank(0).expose(near, 100).unwrap();
    world.settle();
    let (tag, len) = world.rank(1).ask(far, 100).unwrap();
    world.send(1);
    world.deliver(1, 0);
    world.send(0);
    world.rank(1).comes(0, tag, len).unwrap();
    // MPI reads one buffer and writes the other, and neither is released while it may do so.
    for rank in [0, 1] {
        world.rank(rank).end();
    }
    assert_eq!((world.rank(0).exposure(near), world.rank(1).filled(far)), (ExposureState::UnderWay, None));
    for rank in [0, 1] {
        world.rank(rank).left();
        assert!(world.rank(rank).take_woken().iter().next().is_some());
    }
    assert_eq!((world.rank(0).exposure(near), world.rank(1).filled(far)), (ExposureState::Over, Some(false)));
}

#[test]
fn unrequested_bytes_are_refused() {
    let mut world = World::new(2);
    let (near, far) = world.open(0, 1);
    assert!(world.rank(1).comes(0, TAG_FIRST, 8).is_err(), "no request was made");
    world.rank(0).expose(near, 100).unwrap();
    world.settle();
    let (tag, len) = world.rank(1).ask(far, 60).unwrap();
    assert_eq!(len, 60);
    assert!(world.rank(1).comes(0, tag, 61).is_err() && world.rank(1).comes(1, tag, 60).is_err());
    world.rank(1).comes(0, tag, 60).unwrap();
    assert!(world.rank(1).comes(0, tag, 60).is_err(), "it came");
    let take = |value, tag| {
        let header = Header { kind: MessageKind::Take, by_opener: false, number: near.number, value, tag };
        header.encode().to_vec()
    };
    assert!(world.rank(0).receive(1, take(101, 9)).is_err(), "more than was lent");
    world.rank(0).receive(1, take(60, 9)).unwrap();
    assert!(world.rank(0).receive(1, take(10, 9)).is_err(), "it has room for one at a time");
    // A lane's own bytes must not arrive before the offered ones.
    world.rank(1).write(far, &[IoSlice::new(b"x")]).unwrap();
    let offer = Header { kind: MessageKind::Offer, value: 1, tag: 0, by_opener: true, number: near.number };
    assert!(world.rank(1).receive(0, offer.encode().to_vec()).is_err(), "one is there");
    let mut data = Header { kind: MessageKind::Data, ..offer }.encode().to_vec();
    data.push(7);
    assert_eq!(data.len(), HEADER_LEN + 1);
    assert!(world.rank(1).receive(0, data).is_err(), "bytes came within");
}

/// Copies between all agents at once, in which every pusher exposes what its target reads. All complete, and no rank has
/// more messages in flight to it than there are tags.
#[test]
fn all_to_all_completes_with_bounded_messages_in_flight() {
    const LOANS: u32 = 2;
    let ranks = accord_test_tier::pick(64, 256);
    let mut world = World::new(ranks);
    let mut lanes = Vec::new();
    for from in 0..ranks {
        let near: Vec<_> =
            (0..ranks).filter(|to| *to != from).map(|to| (to, world.rank(from).open(to).unwrap())).collect();
        world.send(from);
        for (to, near) in near {
            while world.deliver(from, to) {}
            let far = world.rank(to).next_opened().unwrap();
            lanes.push((from, near, to, far, LOANS));
        }
    }
    let mut rounds = 0;
    while lanes.iter().any(|lane| lane.4 > 0 || world.ranks[lane.0 as usize].exposure(lane.1) != ExposureState::Done) {
        for (from, near, _, _, left) in &mut lanes {
            if *left == LOANS || *left > 0 && world.rank(*from).exposure(*near) == ExposureState::Done {
                world.rank(*from).expose(*near, 1 << 20).unwrap();
                *left -= 1;
            }
        }
        for from in 0..ranks {
            world.send(from);
        }
        let ways: Vec<_> = world.under_way.keys().copied().collect();
        ways.into_iter().for_each(|(from, to)| while world.deliver(from, to) {});
        world.end_writing();
        for (_, _, to, far, _) in &lanes {
            if matches!(world.rank(*to).next(*far), Next::Offered(_)) {
                world.rank(*to).ask(*far, 1 << 20);
            }
        }
        assert!(world.ranks.iter().all(|rank| rank.exposures.receives.len() <= usize::from(TAKES_MAX)));
        world.notify_sent();
        rounds += 1;
        assert!(rounds < 100, "it does not end");
    }
}

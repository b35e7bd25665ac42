use super::super::Next;
use super::*;
use crate::transport::mpi::message::MessageKind;
use crate::transport::mpi::posted_receives::{POSTED_MAX, POSTED_TAG_FIRST, PostedReceives};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;

/// A message in flight between two ranks.
enum InFlight {
    Message(Vec<u8>),
    Lent(ExposedPart),
}

/// Two ranks, and a lane that the first has opened.
struct World {
    ranks: [Streams; 2],
    under_way: [VecDeque<InFlight>; 2],
    /// Tags of the second rank's receives that MPI is writing.
    writing: Vec<u16>,
    sent: Vec<u64>,
    near: LaneKey,
    far: LaneKey,
}

impl World {
    fn new() -> Self {
        let mut ranks = [Streams::default(), Streams::default()];
        let near = ranks[0].open(1).unwrap();
        let mut world =
            Self { ranks, under_way: Default::default(), writing: Vec::new(), sent: Vec::new(), near, far: near };
        world.send(0);
        world.deliver(0);
        world.far = world.ranks[1].next_opened().unwrap();
        world
    }

    fn send(&mut self, from: usize) {
        let rank = &mut self.ranks[from];
        loop {
            if let Some(exposed) = rank.next_exposed() {
                self.sent.push(exposed.id);
                self.under_way[from].push_back(InFlight::Lent(exposed));
            } else if let Some(outgoing) = rank.next_message() {
                self.under_way[from].push_back(InFlight::Message(outgoing.message));
            } else {
                return;
            }
        }
    }

    fn deliver(&mut self, from: usize) -> Option<ReceiveTarget> {
        let to = &mut self.ranks[1 - from];
        let from_rank = u32::try_from(from).unwrap();
        match self.under_way[from].pop_front()? {
            InFlight::Message(message) => {
                to.receive(from_rank, message).unwrap();
                None
            }
            InFlight::Lent(exposed) => {
                let space = to.comes(from_rank, exposed.tag, exposed.len).unwrap();
                self.writing.push(exposed.tag);
                Some(space)
            }
        }
    }

    /// Delivers all messages in flight.
    fn settle(&mut self) -> Vec<ReceiveTarget> {
        let mut receives = Vec::new();
        for _ in 0..4 {
            for rank in 0..2 {
                self.send(rank);
                while !self.under_way[rank].is_empty() {
                    receives.extend(self.deliver(rank));
                }
            }
            self.end_writing();
            self.notify_sent();
        }
        receives
    }

    fn end_writing(&mut self) {
        std::mem::take(&mut self.writing).into_iter().for_each(|tag| self.ranks[1].received(tag));
    }

    fn notify_sent(&mut self) {
        std::mem::take(&mut self.sent).into_iter().for_each(|id| self.ranks[0].was_sent(id));
    }

    fn post(&mut self, len: u64) -> (u64, u16) {
        self.ranks[1].post(self.far, len).unwrap()
    }

    fn push(&mut self, tag: u16, len: usize) -> u64 {
        self.ranks[0].send_posted(self.near, tag, len).unwrap()
    }

    fn ended(&mut self) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| self.ranks[1].next_ended_receive()).collect()
    }

    /// Returns the outcomes that the pusher's rank has learnt since the last call.
    fn landed(&mut self) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| self.ranks[0].next_landed()).collect()
    }

    /// Delivers the second rank's messages.
    fn handle_messages(&mut self) {
        self.send(1);
        while !self.under_way[1].is_empty() {
            self.deliver(1);
        }
    }
}

fn is_idle(streams: &Streams) -> bool {
    let PostedReceives { receives, tags, ended, .. } = &streams.posted;
    let exposures = &streams.exposures;
    receives.is_empty()
        && ended.is_empty()
        && tags.len() == usize::from(POSTED_MAX)
        && exposures.asked.is_empty()
        && exposures.going.is_empty()
        && exposures.sent.is_empty()
        && streams.completions.is_empty()
}

#[test]
fn posted_receive_gets_its_bytes_as_one_message() {
    let mut world = World::new();
    let (id, tag) = world.post(70);
    let sent = world.push(tag, 70);
    world.send(0);
    assert_eq!(world.under_way[0].len(), 1);
    assert_eq!(world.settle(), [ReceiveTarget::Posted(id)]);
    assert_eq!(world.ended(), [(id, true)]);
    assert_eq!(world.ranks[0].next_sent(), Some(sent));
    assert_eq!(world.landed(), [(sent, true)]);
    assert!(world.ranks.iter().all(is_idle));
}

#[test]
fn receives_are_bounded_and_match_length_and_rank() {
    let mut world = World::new();
    let receives: Vec<_> = (0..POSTED_MAX).map(|_| world.post(8)).collect();
    assert_eq!(world.ranks[1].post(world.far, 8), None);
    let tag = receives[3].1;
    for (from, tag, len) in [(0, tag, 9), (1, tag, 8), (0, POSTED_TAG_FIRST + POSTED_MAX, 8)] {
        assert!(world.ranks[1].comes(from, tag, len).is_err(), "{from} {tag} {len}");
    }
    assert_eq!(world.ranks[1].comes(0, tag, 8).unwrap(), ReceiveTarget::Posted(receives[3].0));
    assert!(world.ranks[1].comes(0, tag, 8).is_err(), "twice");
}

#[test]
fn withdrawn_tags_are_reused_at_once_and_abandoned_ones_after_their_message() {
    let mut world = World::new();
    let (id, tag) = world.post(8);
    assert!(world.ranks[1].withdraw(id));
    world.ended();
    let (second, again) = world.post(8);
    assert_eq!(again, tag);
    assert!(world.ranks[1].abandon(second) && world.ranks[1].abandon(second));
    let (third, other) = world.post(8);
    assert!(other != tag && second != third);
    let unwanted = world.push(tag, 8);
    assert_eq!(world.settle(), [ReceiveTarget::Abandoned]);
    assert_eq!(world.ended(), [(second, false)]);
    assert_eq!(world.landed(), [(unwanted, false)]);
    // A receive that MPI is writing remains until it is filled.
    world.push(other, 8);
    world.send(0);
    world.deliver(0);
    assert!(!world.ranks[1].abandon(third) && !world.ranks[1].withdraw(third));
    world.end_writing();
    assert!(world.ranks[1].abandon(third));
    assert_eq!(world.ended(), [(third, true)]);
}

#[test]
fn the_lanes_end_follows_its_bytes_and_ends_other_receives() {
    let mut world = World::new();
    let [(first, tag), (second, _)] = [world.post(8), world.post(8)];
    let sent = world.push(tag, 8);
    world.ranks[0].close(world.near);
    assert!(world.ranks[0].send_posted(world.near, tag, 8).is_err());
    world.send(0);
    assert!(matches!(world.under_way[0][0], InFlight::Lent(_)));
    assert_eq!(world.deliver(0), Some(ReceiveTarget::Posted(first)));
    while !world.under_way[0].is_empty() {
        world.deliver(0);
    }
    // The first one is not over: MPI is writing into it.
    assert_eq!(world.ended(), [(second, false)]);
    assert_eq!(world.ranks[1].post(world.far, 8), None);
    world.end_writing();
    assert_eq!(world.ended(), [(first, true)]);
    world.handle_messages();
    assert_eq!(world.landed(), [(sent, false)], "a closed lane waits for no outcome");
}

/// The sender to a posted receive learns that the message was received, or that the reader has ended.
#[test]
fn every_completion_is_reported_or_ended() {
    let mut world = World::new();
    let (_, tag) = world.post(8);
    let sent = world.push(tag, 8);
    let forgotten = world.ranks[0].send_posted(world.near, tag + 1, 8).unwrap();
    world.ranks[0].forget_completion(forgotten);
    world.ranks[1].close(world.far);
    world.handle_messages();
    assert_eq!(world.landed(), [(sent, false)]);
    // A tag that another message uses already.
    let mut world = World::new();
    let (first, second) = (world.push(tag, 8), world.push(tag, 8));
    assert_eq!(world.landed(), [(first, false)]);
    world.ranks.iter_mut().for_each(Streams::end);
    assert_eq!(world.landed(), [(second, false)]);
}

#[test]
fn the_worlds_end_releases_all_memory_but_what_mpi_uses() {
    let mut world = World::new();
    let [(first, tag), (second, other)] = [world.post(8), world.post(8)];
    world.push(tag, 8);
    world.send(0);
    world.deliver(0);
    let unsent = world.push(other, 8);
    world.ranks.iter_mut().for_each(Streams::end);
    assert_eq!(world.ended(), [(second, false)]);
    assert_eq!(world.ranks[0].next_sent(), Some(unsent));
    assert_eq!(world.ranks[0].next_sent(), None);
    assert_eq!(world.landed().len(), 2);
    world.ranks.iter_mut().for_each(Streams::left);
    assert_eq!(world.ended(), [(first, false)]);
    assert!(world.ranks[0].next_sent().is_some());
    assert!(world.ranks.iter().all(is_idle));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// In any interleaving, each message reaches its receive, or is discarded if that was abandoned. Each sender's bytes are
    /// released, and no state remains after the lane's end.
    #[test]
    fn messages_reach_their_receives_and_no_state_remains(steps in prop::collection::vec((0..9_u8, any::<prop::sample::Index>()), 1..120)) {
        let mut world = World::new();
        // Receives by tag, as the pusher knows them; abandoned ones; those that are over.
        let mut open: Vec<(u64, u16)> = Vec::new();
        let (mut pushed, mut abandoned, mut withdrawn) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mut posts, mut ended, mut discarded, mut sent) = (0, Vec::new(), 0, 0);
        let (mut of_sent, mut landed) = (BTreeMap::new(), Vec::new());
        for (step, which) in steps {
            match step {
                0 | 1 => if let Some(space) = world.ranks[1].post(world.far, 8) {
                    open.push(space);
                    posts += 1;
                },
                2 if !open.is_empty() => {
                    let (id, tag) = open.swap_remove(which.index(open.len()));
                    // The target posts only after the outcome of the tag's previous message.
                    world.handle_messages();
                    of_sent.insert(world.push(tag, 8), id);
                    pushed.insert(id, tag);
                }
                3 if !open.is_empty() => {
                    // The pusher sends no message for it.
                    let (id, _) = open.swap_remove(which.index(open.len()));
                    prop_assert!(world.ranks[1].withdraw(id));
                    withdrawn.push(id);
                }
                4 if !pushed.is_empty() => {
                    let id = *pushed.keys().nth(which.index(pushed.len())).unwrap();
                    if !ended.iter().any(|(known, _)| *known == id) && world.ranks[1].abandon(id) {
                        abandoned.push(id);
                    }
                }
                5 => world.send(0),
                6 => match world.deliver(0) {
                    Some(ReceiveTarget::Posted(id)) => prop_assert!(pushed.contains_key(&id) && !abandoned.contains(&id)),
                    Some(ReceiveTarget::Abandoned) => discarded += 1,
                    Some(ReceiveTarget::Reader(_)) => prop_assert!(false, "no reader has lent room"),
                    None => {}
                },
                7 => world.end_writing(),
                _ => {
                    world.notify_sent();
                    while world.ranks[0].next_sent().is_some() {
                        sent += 1;
                    }
                }
            }
            ended.extend(world.ended());
            landed.extend(world.landed());
        }
        // No outcome is reported for these sends.
        let known: Vec<u64> = landed.iter().map(|(sent, _)| of_sent[sent]).collect();
        let late: Vec<u64> = pushed.keys().copied().filter(|id| !known.contains(id)).collect();
        world.ranks[0].close(world.near);
        discarded += world.settle().iter().filter(|space| **space == ReceiveTarget::Abandoned).count();
        ended.extend(world.ended());
        while world.ranks[0].next_sent().is_some() {
            sent += 1;
        }
        landed.extend(world.landed());
        prop_assert_eq!((ended.len(), sent, landed.len()), (posts, pushed.len(), pushed.len()));
        prop_assert!(discarded <= abandoned.len());
        let landed: BTreeMap<u64, bool> = landed.into_iter().map(|(sent, is_there)| (of_sent[&sent], is_there)).collect();
        for (id, filled) in ended {
            let printed = landed.get(&id).copied().unwrap_or(false);
            prop_assert!(filled || !printed, "{}", id);
            prop_assert!(printed || !filled || late.contains(&id), "{}", id);
            prop_assert_eq!(filled, pushed.contains_key(&id) && !abandoned.contains(&id) && !withdrawn.contains(&id), "{}", id);
        }
        world.ranks[1].close(world.far);
        world.settle();
        prop_assert!(world.ranks.iter().all(is_idle));
        prop_assert!(world.ranks.iter().all(|rank| rank.lanes.is_empty()));
    }
}

/// Posted receives and a lane's own bytes are independent.
#[test]
fn a_lanes_own_bytes_are_not_held_up() {
    let mut world = World::new();
    let (id, tag) = world.post(8);
    world.ranks[0].write(world.near, &[IoSlice::new(b"before")]).unwrap();
    world.push(tag, 8);
    world.ranks[0].write(world.near, &[IoSlice::new(b"after")]).unwrap();
    assert_eq!(world.settle(), [ReceiveTarget::Posted(id)]);
    assert!(matches!(world.ranks[1].next(world.far), Next::Message(_)));
    let header = Header { kind: MessageKind::Finish, by_opener: true, number: world.near.number, value: 0, tag: 0 };
    world.ranks[1].receive(0, header.encode().to_vec()).unwrap();
    assert_eq!(world.ended(), [(id, true)]);
}

use super::*;
use crate::connection::effects::Effect;
use crate::connection::transfers::Bytes;
use accord_runtime::ports::Part;
use accord_types::{ErrorCode, QueueId};

/// A queue and its device.
const PLACE: (u32, QueueId) = (0, QueueId(1));

fn t(id: u64) -> TransferId {
    TransferId(id)
}

fn range(start: usize, len: usize) -> HostRange {
    HostRange { start, len }
}

/// Copies to the 64 bytes from 1000 on, and their waiters.
#[derive(Default)]
struct World {
    copies: CompletionActions,
    waits: Waits<char>,
    effects: Effects<char>,
    memory: Vec<u8>,
}

impl World {
    fn new() -> Self {
        Self { memory: vec![0; 64], ..Self::default() }
    }

    fn expect(&mut self, id: u64, dst: HostRange, before: &[TransferId]) -> Vec<TransferId> {
        self.copies.expect(t(id), PLACE, dst, Completion::Write, before)
    }

    /// Delivers the copy's bytes, each of which is the copy's number.
    fn land(&mut self, id: u64) -> Vec<TransferId> {
        let StoreDecision::Now(begun) = self.copies.begin(t(id)) else { panic!("it may not land") };
        for piece in pieces(begun.dst, &begun.leave).iter().filter(|piece| piece.write) {
            self.memory[piece.range.start - 1000..][..piece.range.len].fill(u8::try_from(id).unwrap());
        }
        self.landed(id)
    }

    fn landed(&mut self, id: u64) -> Vec<TransferId> {
        let due = self.copies.landed(t(id), Ok(()), &mut self.waits, &mut self.effects);
        due.iter().map(|job| job.transfer).collect()
    }
}

fn job(id: u64) -> Job {
    let (place, bytes) = ((0, QueueId(1)), Bytes::Host(range(1000, 8)));
    Job { transfer: t(id), place, bytes, after: Vec::new(), waiter: None }
}

#[test]
fn a_copy_is_cut_into_what_it_writes_and_what_later_ones_do() {
    let dst = HostRange { start: 100, len: 50 };
    let r = |start, len| HostRange { start, len };
    let cut = |leave: &[HostRange]| -> Vec<_> {
        pieces(dst, leave).iter().map(|piece| (piece.range.start, piece.range.len, piece.write)).collect()
    };
    assert_eq!(cut(&[]), [(100, 50, true)]);
    assert_eq!(cut(&[r(0, 1000)]), [(100, 50, false)]);
    assert_eq!(cut(&[r(140, 20), r(90, 20)]), [(100, 10, false), (110, 30, true), (140, 10, false)]);
    assert_eq!(
        cut(&[r(110, 20), r(120, 5), r(125, 10)]),
        [(100, 10, true), (110, 20, false), (130, 5, false), (135, 15, true)]
    );
    assert_eq!(cut(&[r(10, 20), r(160, 5)]), [(100, 50, true)], "those beside it are none of its business");
    assert!(cut(&[r(110, 20), r(120, 5)]).iter().map(|piece| piece.1).sum::<usize>() == 50);
}

#[test]
fn later_of_two_overlapping_copies_wins_in_any_completion_order() {
    for first in [1, 2] {
        let mut world = World::new();
        assert!(world.expect(1, range(1000, 8), &[]).is_empty());
        assert!(world.expect(2, range(1002, 3), &[t(1)]).is_empty(), "the first still writes the rest");
        world.land(first);
        world.land(3 - first);
        assert_eq!(world.memory[..8], [1, 1, 2, 2, 2, 1, 1, 1]);
    }
}

#[test]
fn fully_overwritten_copies_complete_in_any_order() {
    let mut world = World::new();
    let all = range(1000, 8);
    world.expect(1, all, &[]);
    assert_eq!(world.expect(2, all, &[t(1)]), [t(1)]);
    assert_eq!(world.expect(3, all, &[t(1), t(2)]), [t(1), t(2)]);
    for id in [3, 1, 2] {
        world.land(id);
    }
    assert_eq!(world.memory[..8], [3; 8]);
    assert_eq!((world.copies.outcome(&[t(1), t(2), t(3)]), world.copies.len()), (Ok(()), 0));
}

#[test]
fn a_copy_waits_for_one_that_is_being_written() {
    let mut world = World::new();
    world.expect(1, range(1000, 8), &[]);
    assert!(matches!(world.copies.begin(t(1)), StoreDecision::Now(_)));
    assert!(world.expect(2, range(1000, 8), &[t(1)]).is_empty(), "it can't be stopped any more");
    assert!(matches!(world.copies.begin(t(2)), StoreDecision::After(before) if before == t(1)));
    world.waits.register(AwaitedEvent::Landed(t(1)), 'a');
    world.landed(1);
    assert_eq!(world.effects.as_slice(), [Effect::Wake('a')]);
    assert!(matches!(world.copies.begin(t(2)), StoreDecision::Now(_)));
}

#[test]
fn held_operation_starts_after_its_last_copy_completes_or_is_cancelled() {
    let mut world = World::new();
    assert!(world.copies.hold(vec![t(9)], job(1)).is_some(), "it has landed long ago");
    world.expect(1, range(1000, 8), &[]);
    world.expect(2, range(1000, 8), &[]);
    assert!(world.copies.hold(vec![t(1), t(2)], job(11)).is_none() && world.copies.is_holding());
    assert!(world.land(1).is_empty());
    let due = world.copies.cancel(&[t(2)], &mut world.waits, &mut world.effects);
    assert_eq!(due.len(), 1);
    assert!(!world.copies.is_holding());
    assert!(matches!(world.copies.begin(t(2)), StoreDecision::Cancelled));
    world.expect(3, range(1000, 8), &[]);
    assert!(world.copies.hold(vec![t(3)], job(12)).is_none());
    let gone = Error::new(ErrorCode::DeviceUnavailable, "gone");
    let held = world.copies.lose(&gone, &mut world.waits, &mut world.effects);
    assert_eq!(held.count(), 1, "no wait may last for ever");
    assert_eq!(world.copies.outcome(&[t(3)]), Err(gone));
}

#[test]
fn copies_being_stored_outlive_the_connection() {
    let mut world = World::new();
    world.expect(1, range(1000, 8), &[]);
    assert!(matches!(world.copies.begin(t(1)), StoreDecision::Now(_)));
    world.waits.register(AwaitedEvent::Landed(t(1)), 'a');
    let gone = Error::new(ErrorCode::DeviceUnavailable, "gone");
    world.waits.lose(&gone, &mut world.effects);
    assert_eq!(world.copies.lose(&gone, &mut world.waits, &mut world.effects).count(), 0);
    world.copies.cancel(&[t(1)], &mut world.waits, &mut world.effects);
    assert!(world.copies.is_open(t(1)) && world.effects.is_empty());
    world.landed(1);
    assert_eq!(world.effects.as_slice(), [Effect::Wake('a')]);
}

#[test]
fn variables_that_come_together_are_left_to_later_copies_each_for_itself() {
    let mut bytes = [0; 64];
    let mut part = |from: usize, len| HostRange { start: bytes[from..].as_mut_ptr().expose_provenance(), len };
    let (first, last, between) = (part(0, 4), part(60, 4), part(20, 8));
    let parts = [Part { at: 0, dst: first }, Part { at: 16, dst: last }];
    let changed = Changed::new(&[0; 20], &parts, None);
    let mut world = World::new();
    let all = changed.range();
    world.copies.expect(t(1), PLACE, all, Completion::Changed(changed), &[]);
    assert!(world.expect(2, between, &[t(1)]).is_empty());
    let StoreDecision::Now(StorableCopy { dst, completion: Completion::Changed(changed), leave }) =
        world.copies.begin(t(1))
    else {
        panic!("nothing is in its way")
    };
    assert_eq!((dst, &leave[..]), (all, &[between][..]));
    let mut written = Vec::new();
    let write = |dst: HostRange, new: &[u8]| {
        let kept = pieces(dst, &leave).into_iter().filter(|piece| piece.write);
        written.extend(kept.map(|piece| (piece.range, new.to_vec())));
    };
    changed.land(&[7; 20], write).unwrap();
    assert_eq!(written, [(first, vec![7; 4]), (last, vec![7; 4])]);
}

#[test]
fn conditional_write_waits_for_all_earlier_copies() {
    let place = |start| Part { at: 0, dst: range(start, 8) };
    let changed = |start| Completion::Changed(Changed::new(&[0; 8], &[place(start)], None));
    let mut world = World::new();
    world.expect(1, range(1000, 64), &[]);
    assert!(world.copies.expect(t(2), PLACE, range(1008, 8), changed(1008), &[t(1)]).is_empty());
    assert!(matches!(world.copies.begin(t(2)), StoreDecision::After(TransferId(1))), "though it has not begun");
    world.land(1);
    assert!(matches!(world.copies.begin(t(2)), StoreDecision::Now(_)));
    // A copy does not wait for copies to other memory.
    world.expect(3, range(1032, 8), &[]);
    world.copies.expect(t(4), PLACE, range(1000, 64), changed(1000), &[t(3)]);
    assert!(matches!(world.copies.begin(t(4)), StoreDecision::Now(_)));
}

/// A program enqueues copies to memory that it has freed, and waits for none of them.
#[test]
fn failures_without_a_wait_are_bounded_and_are_not_lost() {
    let mut world = World::new();
    let failed = |id: u64| Error::new(ErrorCode::InvalidArgument, format!("copy {id}"));
    let most = FAILED_MAX as u64;
    for id in 0..most {
        world.expect(id, range(1000, 8), &[]);
        assert!(matches!(world.copies.begin(t(id)), StoreDecision::Now(_)));
        world.copies.landed(t(id), Err(failed(id)), &mut world.waits, &mut world.effects);
    }
    assert_eq!(world.copies.outcome(&[t(most)]), Ok(()), "it is no other one's");
    assert_eq!(world.copies.outcome(&[t(3), t(1), t(2)]), Err(failed(3)));
    assert_eq!(world.copies.failed.len(), FAILED_MAX - 3, "no later wait asks for them");
    for id in most..most + 5 {
        world.expect(id, range(1000, 8), &[]);
        assert!(matches!(world.copies.begin(t(id)), StoreDecision::Now(_)));
        world.copies.landed(t(id), Err(failed(id)), &mut world.waits, &mut world.effects);
    }
    assert_eq!(world.copies.failed.len(), FAILED_MAX);
    assert_eq!(world.copies.outcome(&[t(most + 9)]), Err(failed(most + 3)), "the next wait returns it");
}

/// A sequence of copies, each to another part of the first one's target.
#[test]
fn parts_that_later_copies_write_are_counted_until_the_earlier_ones_land() {
    let mut world = World::new();
    let first = 1_024;
    let parts = LEFT_MAX / first as usize;
    let all: Vec<_> = (0..first).map(t).collect();
    (0..first).for_each(|id| drop(world.expect(id, range(1000, 2 * parts), &[])));
    for part in 0..parts {
        assert!(!world.copies.must_wait());
        let id = first + part as u64;
        world.expect(id, range(1000 + 2 * part, 1), &all);
        world.copies.cancel(&[t(id)], &mut world.waits, &mut world.effects);
    }
    assert!(world.copies.must_wait());
    assert!(matches!(world.copies.begin(t(0)), StoreDecision::Now(_)));
    assert!(!world.copies.must_wait());
    world.copies.cancel(&all, &mut world.waits, &mut world.effects);
    assert_eq!(world.copies.left, 0);
}

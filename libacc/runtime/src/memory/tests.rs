//! The allocator against random programs: no overlap, and no block in two queues' hands at once.

use super::{Allocator, BlockRequest, Blocked, Purpose, Range};
use crate::queues::{After, Queues};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

const BASE: u64 = 0x1000_0000_0000;
const MIB: u64 = 1 << 20;

/// Knows which pages have memory.
#[derive(Default)]
struct Pages(RefCell<BTreeSet<u64>>, RefCell<usize>, Cell<Option<usize>>, Cell<u64>);

impl Pages {
    fn map(&self, Range { start, len }: Range) -> Result<(), Error> {
        *self.1.borrow_mut() += 1;
        if self.2.get().is_some_and(|most| self.0.borrow().len() + (len / (2 * MIB)) as usize > most) {
            return Err(Error::new(ErrorCode::OutOfMemory, "another program has it"));
        }
        for page in 0..len / (2 * MIB) {
            assert!(self.0.borrow_mut().insert(start.0 + page * 2 * MIB), "mapped twice");
        }
        Ok(())
    }

    /// Returns the place of a driver's next allocation: right behind the last one, which is the hardest to keep apart.
    fn place(&self, len: u64) -> Range {
        let start = DevicePtr(self.3.get().max(BASE));
        self.3.set(start.0 + len);
        Range { start, len }
    }

    fn unmap(&self, Range { start, len }: Range) {
        *self.1.borrow_mut() += 1;
        for page in 0..len / (2 * MIB) {
            assert!(self.0.borrow_mut().remove(&(start.0 + page * 2 * MIB)), "not mapped");
        }
    }
}

fn allocator(capacity: u64) -> Allocator {
    Allocator::new(DevicePtr(BASE), 1 << 40, capacity)
}

fn data(bytes: u64) -> BlockRequest {
    BlockRequest { bytes, purpose: Purpose::Data, host: 0 }
}

/// Allocates as a device does: carries out the allocator's requests, and asks again.
fn take_for(
    memory: &mut Allocator,
    purpose: Purpose,
    bytes: u64,
    queue: u32,
    queues: &mut Queues,
    pages: &Pages,
    waits: &mut Vec<QueueId>,
) -> Result<DevicePtr, Blocked> {
    let mut refused = None;
    loop {
        match memory.take(BlockRequest { bytes, purpose, host: 0 }, QueueId(queue), queues, refused.as_ref(), waits) {
            Err(Blocked::Grow(range)) if range.start == DevicePtr(0) => {
                memory.check_invariants();
                let place = pages.place(range.len);
                refused = pages.map(place).err();
                memory.got(range.len, refused.is_none().then_some(place.start));
            }
            Err(Blocked::Grow(range)) => {
                memory.check_invariants();
                refused = pages.map(range).err();
                memory.grown(range, refused.is_none());
            }
            Err(Blocked::Shrink(ranges)) => {
                give_up(memory, ranges, queues, pages);
                return Err(Blocked::Until(vec![QueueId::SYNC]));
            }
            other => return other,
        }
    }
}

fn give_up(memory: &mut Allocator, ranges: Vec<Range>, queues: &mut Queues, pages: &Pages) {
    for range in ranges {
        pages.unmap(range);
        queues.filled(QueueId::SYNC, false);
        memory.unmapped(range, Some(After { queue: Some(QueueId::SYNC), moment: queues.now() }));
    }
}

fn take(
    memory: &mut Allocator,
    bytes: u64,
    queue: u32,
    queues: &mut Queues,
    pages: &Pages,
    waits: &mut Vec<QueueId>,
) -> Result<DevicePtr, Blocked> {
    take_for(memory, Purpose::Data, bytes, queue, queues, pages, waits)
}

#[test]
fn a_second_thread_waits_for_growth_that_is_enough_for_it() {
    let (mut memory, queues) = (allocator(1 << 30), Queues::default());
    let ask = |memory: &mut Allocator, bytes| memory.take(data(bytes), QueueId(1), &queues, None, &mut Vec::new());
    let Err(Blocked::Grow(first)) = ask(&mut memory, 5 * MIB) else { panic!("nothing is mapped") };
    assert!(matches!(ask(&mut memory, 5 * MIB), Err(Blocked::Growing)));
    let Err(Blocked::Grow(second)) = ask(&mut memory, 64 * MIB) else { panic!("the first is too small") };
    assert!(first.start.0 + first.len <= second.start.0);
    memory.check_invariants();
    memory.grown(second, false);
    memory.grown(first, true);
    memory.check_invariants();
    assert_eq!(ask(&mut memory, 5 * MIB).unwrap(), first.start);
    // What could not be mapped is requested again.
    let Err(Blocked::Grow(again)) = ask(&mut memory, 64 * MIB) else { panic!("there is room") };
    assert_eq!(again, second);
}

#[test]
fn the_last_memory_is_waited_for_while_another_thread_has_it_mapped() {
    let (mut memory, queues) = (allocator(8 * MIB), Queues::default());
    let ask = |memory: &mut Allocator, bytes| memory.take(data(bytes), QueueId(1), &queues, None, &mut Vec::new());
    let Err(Blocked::Grow(first)) = ask(&mut memory, 4 * MIB) else { panic!("nothing is mapped") };
    assert!(matches!(ask(&mut memory, 6 * MIB), Err(Blocked::Growing)), "it may fail");
    memory.grown(first, false);
    assert!(matches!(ask(&mut memory, 6 * MIB), Err(Blocked::Grow(_))));
}

#[test]
fn memory_that_a_queue_has_still_to_give_back_is_waited_for() {
    let (mut memory, mut queues, pages) = (allocator(8 * MIB), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    let block = take(&mut memory, 8 * MIB, 1, &mut queues, &pages, &mut waits).unwrap();
    memory.give_back(block, After::NOTHING, &queues);
    let ranges = memory.trim(&queues);
    assert!(take(&mut memory, 8 * MIB, 1, &mut queues, &pages, &mut waits).is_err(), "there is none");
    give_up(&mut memory, ranges, &mut queues, &pages);
    let Err(Blocked::Until(busy)) = take(&mut memory, 8 * MIB, 1, &mut queues, &pages, &mut waits) else {
        panic!("it is still mapped there")
    };
    queues.done(&busy, queues.now());
    take(&mut memory, 8 * MIB, 1, &mut queues, &pages, &mut waits).unwrap();
}

#[test]
fn create_and_delete_in_one_queue_cost_no_command() {
    let (mut memory, mut queues, pages) = (allocator(1 << 30), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    let first = take(&mut memory, 1 << 20, 1, &mut queues, &pages, &mut waits).unwrap();
    let commands = *pages.1.borrow();
    for _ in 0..100 {
        queues.filled(QueueId(1), false);
        let block = take(&mut memory, 5000, 1, &mut queues, &pages, &mut waits).unwrap();
        queues.filled(QueueId(1), false);
        memory.give_back(block, After { queue: Some(QueueId(1)), moment: queues.now() }, &queues);
    }
    assert_eq!(*pages.1.borrow(), commands);
    assert!(waits.is_empty());
    memory.give_back(first, After::NOTHING, &queues);
    memory.check_invariants();
}

#[test]
fn a_slab_goes_back_as_a_whole_and_no_block_is_in_two() {
    let (mut memory, mut queues, pages) = (Allocator::of_slabs(64 << 30), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    let mut new = |memory: &mut Allocator, queues: &mut Queues, bytes| {
        take(memory, bytes, 1, queues, &pages, &mut waits).unwrap()
    };
    // Two small ones share a slab, a large one has its own, right behind.
    let small = [20 * MIB, 30 * MIB].map(|bytes| new(&mut memory, &mut queues, bytes));
    let large = new(&mut memory, &mut queues, 300 * MIB);
    assert_eq!((small[1].0 - small[0].0, large.0 - small[0].0), (20 * MIB, 256 * MIB));
    assert!(memory.owns(large.0 + 300 * MIB - 1) && !memory.owns(large.0 + 300 * MIB) && !memory.owns(BASE - 1));
    for block in [small[0], small[1], large] {
        memory.give_back(block, After::NOTHING, &queues);
        memory.check_invariants();
    }
    // All is free and adjacent, but a block that fits into no single slab needs a new one.
    let again = new(&mut memory, &mut queues, 400 * MIB);
    assert_eq!(again.0, large.0 + 300 * MIB);
    // Idle memory beyond what is worth keeping: whole slabs only.
    let most = new(&mut memory, &mut queues, 40 << 30);
    memory.give_back(most, After::NOTHING, &queues);
    let idle = memory.trim(&queues);
    assert_eq!(idle, [Range { start: most, len: 40 << 30 }]);
    give_up(&mut memory, idle, &mut queues, &pages);
    memory.check_invariants();
    assert!(!memory.owns(most.0));
}

#[test]
fn a_driver_that_refuses_a_slab_is_asked_for_what_is_needed() {
    let (mut memory, mut queues, pages) = (Allocator::of_slabs(64 << 30), Queues::default(), Pages::default());
    pages.2.set(Some(8));
    let mut waits = Vec::new();
    let mut new = |memory: &mut Allocator, bytes| take(memory, bytes, 1, &mut queues, &pages, &mut waits);
    new(&mut memory, 6 * MIB).expect("8 pages are enough");
    new(&mut memory, 6 * MIB).expect("8 pages are enough");
    let Err(Blocked::Failed(error)) = new(&mut memory, 6 * MIB) else { panic!("there is none left") };
    assert!(error.cause().ends_with("the device says: another program has it"), "{error}");
    new(&mut memory, MIB).expect("a piece of what is there");
    memory.check_invariants();
}

#[test]
fn another_queue_waits_for_memory_that_is_still_in_use() {
    let (mut memory, mut queues, pages) = (allocator(4 * MIB), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    let block = take(&mut memory, 4 * MIB, 1, &mut queues, &pages, &mut waits).unwrap();
    queues.filled(QueueId(1), false);
    memory.give_back(block, After { queue: Some(QueueId(1)), moment: queues.now() }, &queues);
    let again = take(&mut memory, 4 * MIB, 2, &mut queues, &pages, &mut waits).unwrap();
    assert_eq!((again, waits.as_slice()), (block, &[QueueId(1)][..]));
    memory.give_back(again, After { queue: Some(QueueId(2)), moment: queues.now() }, &queues);
    queues.done(&[QueueId(1), QueueId(2)], queues.now());
    waits.clear();
    take(&mut memory, 4 * MIB, 3, &mut queues, &pages, &mut waits).unwrap();
    assert!(waits.is_empty(), "everything is known to be done");
}

#[test]
fn queues_with_room_do_not_wait_for_each_other() {
    let (mut memory, mut queues, pages) = (allocator(1 << 30), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    for round in 0..20 {
        let queue = round % 2 + 1;
        let block = take(&mut memory, MIB, queue, &mut queues, &pages, &mut waits).unwrap();
        queues.filled(QueueId(queue), false);
        memory.give_back(block, After { queue: Some(QueueId(queue)), moment: queues.now() }, &queues);
    }
    assert!(waits.is_empty());
    memory.check_invariants();
}

#[test]
fn lack_of_memory_names_who_holds_it() {
    let (mut memory, mut queues, pages) = (allocator(8 * MIB), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    take(&mut memory, 3 * MIB, 1, &mut queues, &pages, &mut waits).unwrap();
    take_for(&mut memory, Purpose::Malloc, MIB, 1, &mut queues, &pages, &mut waits).unwrap();
    let Err(Blocked::Failed(error)) = take(&mut memory, 6 * MIB, 1, &mut queues, &pages, &mut waits) else {
        panic!("6 MiB of 8, with 4 in use")
    };
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.cause().contains("present data holds 3145728 in 1"), "{error}");
    assert!(error.cause().contains("acc_malloc 1048576 in 1"), "{error}");
    let Err(Blocked::Failed(_)) = take(&mut memory, u64::MAX, 1, &mut queues, &pages, &mut waits) else {
        panic!("2^64 bytes")
    };
    memory.check_invariants();
}

#[test]
fn idle_pieces_are_given_back_and_mapped_in_one() {
    let (mut memory, mut queues, pages) = (allocator(16 * MIB), Queues::default(), Pages::default());
    let mut waits = Vec::new();
    let blocks: Vec<_> =
        (0..8).map(|_| take(&mut memory, 2 * MIB, 1, &mut queues, &pages, &mut waits).unwrap()).collect();
    queues.filled(QueueId(1), false);
    for block in blocks.iter().step_by(2) {
        memory.give_back(*block, After { queue: Some(QueueId(1)), moment: queues.now() }, &queues);
    }
    // 8 MiB are free, in four pieces that queue 1 may still use.
    let mut rounds = 0;
    let block = loop {
        match take(&mut memory, 8 * MIB, 2, &mut queues, &pages, &mut waits) {
            Ok(block) => break block,
            Err(Blocked::Until(busy)) => queues.done(&busy, queues.now()),
            Err(other) => panic!("{other:?}"),
        }
        rounds += 1;
        assert!(rounds < 4);
    };
    assert!(!blocks.contains(&block));
    assert!(waits.is_empty());
    memory.check_invariants();
}

#[test]
fn a_device_that_has_less_than_it_says_gets_back_what_lies_idle() {
    let (mut memory, mut queues, pages) = (allocator(64 * MIB), Queues::default(), Pages::default());
    pages.2.set(Some(6));
    let mut waits = Vec::new();
    let blocks: Vec<_> =
        (0..6).map(|_| take(&mut memory, 2 * MIB, 1, &mut queues, &pages, &mut waits).unwrap()).collect();
    for block in blocks.iter().step_by(2) {
        memory.give_back(*block, After::NOTHING, &queues);
    }
    let block = loop {
        match take(&mut memory, 6 * MIB, 2, &mut queues, &pages, &mut waits) {
            Ok(block) => break block,
            Err(Blocked::Until(busy)) => queues.done(&busy, queues.now()),
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(!blocks.contains(&block));
    let Err(Blocked::Failed(error)) = take(&mut memory, 2 * MIB, 1, &mut queues, &pages, &mut waits) else {
        panic!("there is none left")
    };
    assert!(error.cause().ends_with("the device says: another program has it"), "{error}");
    memory.check_invariants();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks that the next user of each block comes after the moment when its last user is done: in the same queue, made to
    /// wait, or because the host has waited.
    #[test]
    fn no_block_is_used_by_two_queues_at_once(
        slabs in any::<bool>(),
        steps in proptest::collection::vec((0u8..4, 1u64..600_000, 0u32..4), 1..200)
    ) {
        let mut memory = if slabs { Allocator::of_slabs(8 * MIB) } else { allocator(8 * MIB) };
        let (mut queues, pages) = (Queues::default(), Pages::default());
        let mut live: Vec<(DevicePtr, u64, u32)> = Vec::new();
        // For every 256 bytes ever used: the queue that used them last and its moment.
        let mut users: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        let mut done = [0u64; 4];
        // ordered[q][r]: everything of r up to then comes before what q does next.
        let mut ordered = [[0u64; 4]; 4];
        for (step, bytes, queue) in steps {
            match step {
                0 | 1 => {
                    let mut waits = Vec::new();
                    let block = match take(&mut memory, bytes, queue, &mut queues, &pages, &mut waits) {
                        Ok(block) => block,
                        Err(Blocked::Failed(_)) => continue,
                        Err(Blocked::Grow(_) | Blocked::Growing | Blocked::Shrink(_)) => unreachable!(),
                        Err(Blocked::Until(busy)) => {
                            queues.done(&busy, queues.now());
                            for q in busy.iter().filter(|q| q.0 < 4) {
                                done[q.0 as usize] = queues.now().0;
                            }
                            continue;
                        }
                    };
                    for other in waits.iter().filter(|other| other.0 < 4) {
                        ordered[queue as usize][other.0 as usize] = queues.now().0;
                    }
                    for (start, len, _) in &live {
                        prop_assert!(block.0 + bytes <= start.0 || start.0 + len <= block.0, "overlap");
                    }
                    for page in block.0 / (2 * MIB)..=(block.0 + bytes - 1) / (2 * MIB) {
                        prop_assert!(pages.0.borrow().contains(&(page * 2 * MIB)), "not mapped");
                    }
                    queues.filled(QueueId(queue), false);
                    for piece in (block.0 / 256)..(block.0 + bytes).div_ceil(256) {
                        if let Some((last, moment)) = users.insert(piece, (queue, queues.now().0)) {
                            let after = last == queue
                                || done[last as usize] >= moment
                                || ordered[queue as usize][last as usize] >= moment;
                            prop_assert!(after, "queue {} uses what queue {} may still use", queue, last);
                        }
                    }
                    live.push((block, bytes, queue));
                }
                2 if !live.is_empty() => {
                    let (block, bytes, user) = live.swap_remove(bytes as usize % live.len());
                    queues.filled(QueueId(user), false);
                    for piece in (block.0 / 256)..(block.0 + bytes).div_ceil(256) {
                        users.insert(piece, (user, queues.now().0));
                    }
                    let only = (queue % 2 == 0).then_some(QueueId(user));
                    memory.give_back(block, After { queue: only, moment: queues.now() }, &queues);
                    let idle = memory.trim(&queues);
                    give_up(&mut memory, idle, &mut queues, &pages);
                }
                _ => {
                    queues.done(&[QueueId(queue)], queues.now());
                    done[queue as usize] = queues.now().0;
                }
            }
            memory.check_invariants();
        }
        for (block, _, _) in live {
            memory.give_back(block, After::NOTHING, &queues);
        }
        prop_assert_eq!(memory.used_bytes(), 0);
        memory.check_invariants();
    }
}

/// Takes a block for data at `host` from an allocator with guard pages, and records the pattern around it.
fn guarded_for(memory: &mut Allocator, bytes: u64, host: usize) -> Result<DevicePtr, Error> {
    let (queues, wanted) = (Queues::default(), BlockRequest { bytes, purpose: Purpose::Data, host });
    loop {
        match memory.take(wanted, QueueId(1), &queues, None, &mut Vec::new()) {
            Err(Blocked::Grow(range)) => memory.grown(range, true),
            Err(Blocked::Failed(error)) => return Err(error),
            Err(other) => panic!("{other:?}"),
            Ok(start) => {
                memory.check_invariants();
                let block = memory.guarded(start).expect("a block of data");
                memory.has_pattern(&block);
                return Ok(start);
            }
        }
    }
}

#[test]
fn no_block_with_guard_pages_touches_another() {
    let mut memory = Allocator::with_guards(DevicePtr(BASE), 1 << 30, 512 * MIB);
    let sizes = [8, 8000, 4096, 100_000, 1, 3 * MIB, 8];
    let blocks: Vec<_> = sizes.iter().map(|bytes| guarded_for(&mut memory, *bytes, 0x5010).expect("room")).collect();
    let all = memory.with_pattern(DevicePtr(0), 100);
    assert_eq!(all.len(), sizes.len());
    let distance = |pair: &[super::GuardedBlock]| pair[1].pages.start.0 - pair[0].pages.start.0 - pair[0].pages.len;
    assert!(all.windows(2).all(|pair| distance(pair) >= 64 << 10), "{all:?}");
    assert!(all.iter().all(|block| block.start.0 % 64 == 0x10));
    assert!(memory.block_of(blocks[1].0 + 7999).is_some() && memory.block_of(blocks[1].0 + 8000).is_none());
    // Freed pages serve blocks of as many pages only.
    memory.give_back(blocks[3], After::NOTHING, &Queues::default());
    let small = guarded_for(&mut memory, 8, 0).expect("room");
    assert!(small.0 > blocks[6].0, "a part of freed pages would have no guard behind it");
    let again = guarded_for(&mut memory, 100_000, 0x5010).expect("room");
    assert_eq!(again, blocks[3]);
    assert!(!memory.lacks_guards());
}

#[test]
fn blocks_do_without_guard_pages_once_addresses_are_short() {
    let mut memory = Allocator::with_guards(DevicePtr(BASE), 6 * MIB, 4 * MIB);
    let mut count = 0;
    while guarded_for(&mut memory, 60_000, 0x1000).is_ok() {
        count += 1;
    }
    assert_eq!(count, 4 * MIB / (15 * 4096), "no memory is lost to guard pages");
    assert!(memory.lacks_guards());
    assert!(!memory.lacks_guards(), "it is told once");
}

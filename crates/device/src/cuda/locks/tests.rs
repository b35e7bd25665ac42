use super::{Job, Locked, Locks, Look, PIECE, Release, Unlock};
use accord_types::HostRange;
use proptest::prelude::*;

const PAGE: usize = 4096;
type Of = Locks<&'static str, u32>;

fn range(start: usize, len: usize) -> HostRange {
    HostRange { start, len }
}

fn all(range: HostRange, first: usize) -> Look {
    Look::Locked(Locked { range, first })
}

fn locks() -> Of {
    Locks::new(PAGE, 1 << 30)
}

/// Asks for a range and brings it through all stages.
fn locked(locks: &mut Of, range: HostRange, device: u32) -> Job {
    assert!(locks.ask(range, device, "owner"));
    let job = locks.pick().expect("just asked for");
    assert_eq!(locks.lock(job), Some("owner"));
    locks.locked(job, true);
    job
}

fn unlock(release: Release<&'static str, u32>) -> Unlock<&'static str, u32> {
    match release {
        Release::Unlock(unlock) => unlock,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_whole_pages_are_locked_so_that_neighbours_never_share_one() {
    let mut locks = locks();
    assert_eq!(locked(&mut locks, range(100, 3 * PAGE), 0).range, range(PAGE, 2 * PAGE));
    assert_eq!(locked(&mut locks, range(100 + 3 * PAGE, 2 * PAGE), 0).range, range(4 * PAGE, PAGE));
    assert!(!locks.ask(range(9 * PAGE + 1, PAGE), 0, "owner"), "no whole page");
    assert_eq!(locks.look(range(100, 3 * PAGE), None), all(range(PAGE, 2 * PAGE), PAGE));
    assert_eq!(locks.look(range(100, 5 * PAGE), None), Look::Mixed, "both of them");
    assert_eq!(locks.look(range(3 * PAGE, 100), None), Look::Free, "between them");
    assert_eq!(locks.look(range(0, PAGE + 1), None), Look::Mixed, "a page before it");
    assert_eq!(locks.look(range(PAGE, 8), None), all(range(PAGE, 8), PAGE));
}

#[test]
fn nothing_is_given_to_the_driver_while_a_range_changes() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    assert!(locks.ask(array, 0, "owner"));
    assert_eq!(locks.look(array, None), Look::Mixed);
    let job = locks.pick().expect("just asked for");
    assert_eq!(locks.lock(job), Some("owner"));
    assert_eq!(locks.look(array, None), Look::Mixed);
    assert_eq!(locks.release(array, 0), Release::Busy(0));
    assert!(locks.is_changing(0) && locks.is_locking());
    locks.locked(job, true);
    let gone = unlock(locks.settle(0));
    assert_eq!(locks.look(array, None), Look::Mixed);
    assert_eq!(locks.settle(0), Release::Busy(0));
    assert!(locks.is_unlocking() && !locks.is_locking());
    locks.unlocked(gone.range.start);
    assert_eq!(locks.look(array, None), Look::Free);
    assert_eq!(locks.len(), 0);
}

#[test]
fn what_the_driver_refuses_is_left_alone_until_nobody_holds_it() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    assert!(locks.ask(array, 0, "owner"));
    let job = locks.pick().expect("just asked for");
    locks.lock(job);
    locks.locked(job, false);
    assert_eq!(locks.look(array, None), Look::Free);
    assert!(!locks.ask(array, 1, "other") && locks.pick().is_none(), "not tried again");
    assert_eq!((locks.release(array, 0), locks.release(array, 1)), (Release::Keep, Release::Keep));
    assert!(locks.ask(array, 1, "other"), "another array");
}

#[test]
fn a_range_is_locked_once_for_all_devices_and_until_the_last_gives_it_up() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    locked(&mut locks, array, 0);
    assert!(!locks.ask(array, 1, "other"));
    assert_eq!(locks.release(array, 2), Release::Keep, "it never asked");
    assert_eq!(locks.look(array, Some((7, 3))), all(array, 0));
    assert_eq!(locks.look(range(PAGE, 8), Some((7, 5))), all(range(PAGE, 8), 0));
    assert_eq!(locks.look(array, Some((8, 1))), all(array, 0));
    assert_eq!(locks.release(array, 0), Release::Keep);
    assert_eq!(locks.held_by(1), [array]);
    let gone = unlock(locks.release(array, 1));
    assert_eq!(gone, Unlock { range: array, owner: "owner", uses: vec![(7, 5), (8, 1)] });
}

#[test]
fn a_job_that_was_given_up_is_not_done_for_those_who_ask_later() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    assert!(locks.ask(array, 0, "owner"));
    let old = locks.pick().expect("just asked for");
    assert_eq!(locks.release(array, 0), Release::Keep);
    assert!(locks.ask(array, 0, "owner"));
    assert_eq!(locks.lock(old), None);
    assert!(locks.pick().is_some_and(|job| job != old));
}

#[test]
fn more_than_the_most_is_not_locked() {
    let mut locks: Of = Locks::new(PAGE, 3 * PAGE);
    locked(&mut locks, range(0, 2 * PAGE), 0);
    assert!(!locks.ask(range(4 * PAGE, 2 * PAGE), 0, "owner"));
    assert!(locks.ask(range(4 * PAGE, PAGE), 0, "owner"));
}

#[test]
fn without_a_thread_what_was_asked_for_is_left_alone() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    assert!(locks.ask(array, 0, "owner"));
    locks.refuse();
    assert_eq!((locks.pick(), locks.look(array, None)), (None, Look::Free));
    assert_eq!(locks.release(array, 0), Release::Keep);
    assert_eq!(locks.len(), 0);
}

#[test]
fn a_copy_never_crosses_from_one_piece_to_the_next() {
    let pieces = |start, len| Locked { range: range(start, len), first: PAGE }.pieces().collect::<Vec<_>>();
    assert_eq!(pieces(PAGE, 100), [range(PAGE, 100)]);
    assert_eq!(pieces(PAGE + 5, PIECE - 5), [range(PAGE + 5, PIECE - 5)]);
    assert_eq!(pieces(PIECE, 2 * PAGE), [range(PIECE, PAGE), range(PIECE + PAGE, PAGE)]);
    let three = [range(2 * PAGE, PIECE - PAGE), range(PAGE + PIECE, PIECE), range(PAGE + 2 * PIECE, 1)];
    assert_eq!(pieces(2 * PAGE, 2 * PIECE - PAGE + 1), three);
}

#[test]
fn a_lock_under_way_is_wanted_while_somebody_holds_it() {
    let (mut locks, array) = (locks(), range(0, 4 * PAGE));
    assert!(locks.ask(array, 0, "owner"));
    let job = locks.pick().expect("just asked for");
    locks.lock(job);
    assert!(locks.wants(job));
    assert_eq!(locks.release(array, 0), Release::Busy(0));
    assert!(!locks.wants(job));
}

#[test]
fn everything_can_be_given_up_at_once() {
    let mut locks = locks();
    locked(&mut locks, range(0, 2 * PAGE), 0);
    assert!(locks.ask(range(4 * PAGE, 2 * PAGE), 0, "owner"));
    let gone: Vec<_> = locks.give_up().into_iter().map(|unlock| unlock.range.start).collect();
    assert_eq!(gone, [0]);
    locks.unlocked(0);
    assert_eq!(locks.look(range(0, 2 * PAGE), None), Look::Free, "its holder goes without");
    assert_eq!(locks.release(range(0, 2 * PAGE), 0), Release::Keep);
    assert!(locks.pick().is_some());
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ask(usize, u32),
    Release(usize, u32),
    Pick,
    Lock,
    Locked(bool),
    Unlocked,
    GiveUp,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6usize, 0..3u32).prop_map(|(array, device)| Event::Ask(array, device)),
        4 => (0..6usize, 0..3u32).prop_map(|(array, device)| Event::Release(array, device)),
        3 => Just(Event::Pick),
        3 => Just(Event::Lock),
        3 => any::<bool>().prop_map(Event::Locked),
        3 => Just(Event::Unlocked),
        1 => Just(Event::GiveUp),
    ]
}

/// Some overlap, some share a page, some have none.
const ARRAYS: [HostRange; 6] = [
    HostRange { start: 0, len: 4 * PAGE },
    HostRange { start: 2 * PAGE, len: 4 * PAGE },
    HostRange { start: 6 * PAGE + 8, len: 3 * PAGE },
    HostRange { start: 9 * PAGE + 8, len: 3 * PAGE },
    HostRange { start: 20 * PAGE + 1, len: PAGE },
    HostRange { start: 30 * PAGE, len: 100 * PAGE },
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The driver, which keeps what is locked, is never asked for what overlaps that, nor for what is not there; and
    /// in the end nothing stays locked.
    #[test]
    fn the_driver_hears_of_each_range_in_turn(events in proptest::collection::vec(event(), 0..200)) {
        let mut locks: Locks<&str, u32> = Locks::new(PAGE, 90 * PAGE);
        let mut driver: Vec<HostRange> = Vec::new();
        let mut held = Vec::new();
        let (mut picked, mut locking, mut unlocking) = (None, None, Vec::new());
        let apart = |one: &HostRange, other: &HostRange| one.start + one.len <= other.start || other.start + other.len <= one.start;
        for event in events {
            let mut busy = None;
            match event {
                Event::Ask(array, device) => {
                    locks.ask(ARRAYS[array], device, "owner");
                    held.push((array, device));
                }
                Event::Release(array, device) => {
                    let Some(at) = held.iter().position(|known| *known == (array, device)) else { continue };
                    held.swap_remove(at);
                    match locks.release(ARRAYS[array], device) {
                        Release::Keep => {}
                        Release::Busy(start) => busy = Some(start),
                        Release::Unlock(unlock) => unlocking.push(unlock.range.start),
                    }
                }
                Event::Pick => picked = locks.pick().or(picked),
                Event::Lock if locking.is_none() => {
                    if let Some(job) = picked.take() && locks.lock(job).is_some() {
                        prop_assert!(driver.iter().all(|known| apart(known, &job.range)), "{job:?} in {driver:?}");
                        locking = Some(job);
                    }
                }
                Event::Locked(done) => {
                    if let Some(job) = locking.take() {
                        locks.locked(job, done);
                        if done { driver.push(job.range) }
                        if let Release::Unlock(unlock) = locks.settle(job.range.start) { unlocking.push(unlock.range.start) }
                    }
                }
                Event::Unlocked => {
                    if let Some(start) = unlocking.pop() {
                        let at = driver.iter().position(|known| known.start == start);
                        prop_assert!(at.is_some(), "{start} in {driver:?}");
                        driver.swap_remove(at.unwrap());
                        locks.unlocked(start);
                    }
                }
                Event::GiveUp => unlocking.extend(locks.give_up().into_iter().map(|unlock| unlock.range.start)),
                Event::Lock => {}
            }
            prop_assert_eq!(busy.is_some_and(|start| !locks.is_changing(start)), false);
            for array in ARRAYS {
                if let Look::Locked(Locked { range: part, .. }) = locks.look(array, None) {
                    prop_assert!(driver.iter().any(|known| known.start <= part.start && part.start + part.len <= known.start + known.len));
                }
            }
        }
        for (array, device) in held {
            if let Release::Unlock(unlock) = locks.release(ARRAYS[array], device) { unlocking.push(unlock.range.start) }
        }
        if let Some(job) = locking {
            locks.locked(job, true);
            driver.push(job.range);
            if let Release::Unlock(unlock) = locks.settle(job.range.start) { unlocking.push(unlock.range.start) }
        }
        for start in unlocking {
            driver.retain(|known| known.start != start);
            locks.unlocked(start);
        }
        prop_assert!(driver.is_empty() && locks.len() == 0, "{driver:?}");
    }
}

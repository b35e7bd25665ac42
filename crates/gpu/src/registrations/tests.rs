use super::{Job, PIECE, Pages, RegisteredPart, Registrations, Release, Unregistration};
use accord_types::HostRange;
use proptest::prelude::*;

const PAGE: usize = 4096;
type TestRegistrations = Registrations<&'static str, u32>;

fn range(start: usize, len: usize) -> HostRange {
    HostRange { start, len }
}

fn all(range: HostRange, first: usize) -> Pages {
    Pages::Registered(RegisteredPart { range, first })
}

fn known() -> TestRegistrations {
    Registrations::new(PAGE, 1 << 30, 64)
}

/// Requests a range and moves it through all stages.
fn locked(known: &mut TestRegistrations, range: HostRange, device: u32) -> Job {
    assert!(known.ask(range, device, "owner"));
    let job = known.pick().expect("just asked for");
    assert_eq!(known.register(job), Some("owner"));
    known.registered(job, true);
    job
}

fn unlock(release: Release<&'static str, u32>) -> Unregistration<&'static str, u32> {
    match release {
        Release::Unregister(unlock) => unlock,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_whole_pages_are_locked_so_that_neighbours_never_share_one() {
    let mut known = known();
    assert_eq!(locked(&mut known, range(100, 3 * PAGE), 0).range, range(PAGE, 2 * PAGE));
    assert_eq!(locked(&mut known, range(100 + 3 * PAGE, 2 * PAGE), 0).range, range(4 * PAGE, PAGE));
    assert!(!known.ask(range(9 * PAGE + 1, PAGE), 0, "owner"), "no whole page");
    assert_eq!(known.usable_pages(range(100, 3 * PAGE), None), all(range(PAGE, 2 * PAGE), PAGE));
    assert_eq!(known.usable_pages(range(100, 5 * PAGE), None), Pages::Mixed, "both of them");
    assert_eq!(known.usable_pages(range(3 * PAGE, 100), None), Pages::Unregistered, "between them");
    assert_eq!(known.usable_pages(range(0, PAGE + 1), None), Pages::Mixed, "a page before it");
    assert_eq!(known.usable_pages(range(PAGE, 8), None), all(range(PAGE, 8), PAGE));
}

#[test]
fn where_pages_were_replaced_nothing_is_given_to_the_driver_until_they_are_unlocked() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    locked(&mut known, array, 0);
    known.replaced(0);
    known.replaced(PAGE);
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    let gone = known.pick_replaced().expect("it was replaced");
    assert_eq!((gone.range, known.pick_replaced()), (array, None));
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    known.unregistered(0);
    assert_eq!(known.usable_pages(array, None), Pages::Unregistered);
    assert_eq!((known.pick(), known.ranges().count()), (None, 1), "it is left alone");
    assert_eq!((known.release(array, 0), known.len()), (Release::Keep, 0));
    // Released while it was being locked, and requested again before it was unlocked.
    assert!(known.ask(array, 0, "owner"));
    let job = known.pick().expect("just asked for");
    known.register(job);
    known.replaced(0);
    known.registered(job, true);
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    assert_eq!(unlock(known.release(array, 0)).range, array);
}

#[test]
fn there_are_no_more_ranges_than_can_be_watched() {
    let mut known: TestRegistrations = Registrations::new(PAGE, 1 << 30, 2);
    assert!(known.ask(range(0, PAGE), 0, "owner") && known.ask(range(4 * PAGE, PAGE), 0, "owner"));
    assert!(!known.ask(range(8 * PAGE, PAGE), 0, "owner"));
}

#[test]
fn nothing_is_given_to_the_driver_while_a_range_changes() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    assert!(known.ask(array, 0, "owner"));
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    let job = known.pick().expect("just asked for");
    assert_eq!(known.register(job), Some("owner"));
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    assert_eq!(known.release(array, 0), Release::Busy(0));
    assert!(known.is_changing(0) && known.is_registering());
    known.registered(job, true);
    let gone = unlock(known.settle(0));
    assert_eq!(known.usable_pages(array, None), Pages::Mixed);
    assert_eq!(known.settle(0), Release::Busy(0));
    assert!(known.is_unregistering() && !known.is_registering());
    known.unregistered(gone.range.start);
    assert_eq!(known.usable_pages(array, None), Pages::Unregistered);
    assert_eq!(known.len(), 0);
}

#[test]
fn a_refused_range_is_left_alone_while_it_has_holders() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    assert!(known.ask(array, 0, "owner"));
    let job = known.pick().expect("just asked for");
    known.register(job);
    known.registered(job, false);
    assert_eq!(known.usable_pages(array, None), Pages::Unregistered);
    assert!(!known.ask(array, 1, "other") && known.pick().is_none(), "not tried again");
    assert_eq!((known.release(array, 0), known.release(array, 1)), (Release::Keep, Release::Keep));
    assert!(known.ask(array, 1, "other"), "another array");
}

#[test]
fn a_range_is_locked_once_for_all_devices_and_until_the_last_gives_it_up() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    locked(&mut known, array, 0);
    assert!(!known.ask(array, 1, "other"));
    assert_eq!(known.release(array, 2), Release::Keep, "it never asked");
    assert_eq!(known.usable_pages(array, Some((7, 3))), all(array, 0));
    assert_eq!(known.usable_pages(range(PAGE, 8), Some((7, 5))), all(range(PAGE, 8), 0));
    assert_eq!(known.usable_pages(array, Some((8, 1))), all(array, 0));
    assert_eq!(known.release(array, 0), Release::Keep);
    assert_eq!(known.held_by(1), [array]);
    let gone = unlock(known.release(array, 1));
    assert_eq!(gone, Unregistration { range: array, owner: "owner", uses: vec![(7, 5), (8, 1)] });
}

#[test]
fn a_job_that_was_given_up_is_not_done_for_those_who_ask_later() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    assert!(known.ask(array, 0, "owner"));
    let old = known.pick().expect("just asked for");
    assert_eq!(known.release(array, 0), Release::Keep);
    assert!(known.ask(array, 0, "owner"));
    assert_eq!(known.register(old), None);
    assert!(known.pick().is_some_and(|job| job != old));
}

#[test]
fn more_than_the_most_is_not_locked() {
    let mut known: TestRegistrations = Registrations::new(PAGE, 3 * PAGE, 64);
    locked(&mut known, range(0, 2 * PAGE), 0);
    assert!(!known.ask(range(4 * PAGE, 2 * PAGE), 0, "owner"));
    assert!(known.ask(range(4 * PAGE, PAGE), 0, "owner"));
}

#[test]
fn without_a_thread_what_was_asked_for_is_left_alone() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    assert!(known.ask(array, 0, "owner"));
    known.refuse();
    assert_eq!((known.pick(), known.usable_pages(array, None)), (None, Pages::Unregistered));
    assert_eq!(known.release(array, 0), Release::Keep);
    assert_eq!(known.len(), 0);
}

#[test]
fn a_copy_never_crosses_from_one_piece_to_the_next() {
    let pieces = |start, len| RegisteredPart { range: range(start, len), first: PAGE }.pieces().collect::<Vec<_>>();
    assert_eq!(pieces(PAGE, 100), [range(PAGE, 100)]);
    assert_eq!(pieces(PAGE + 5, PIECE - 5), [range(PAGE + 5, PIECE - 5)]);
    assert_eq!(pieces(PIECE, 2 * PAGE), [range(PIECE, PAGE), range(PIECE + PAGE, PAGE)]);
    let three = [range(2 * PAGE, PIECE - PAGE), range(PAGE + PIECE, PIECE), range(PAGE + 2 * PIECE, 1)];
    assert_eq!(pieces(2 * PAGE, 2 * PIECE - PAGE + 1), three);
}

#[test]
fn a_range_being_locked_is_wanted_while_it_has_holders() {
    let (mut known, array) = (known(), range(0, 4 * PAGE));
    assert!(known.ask(array, 0, "owner"));
    let job = known.pick().expect("just asked for");
    known.register(job);
    assert!(known.wants(job));
    assert_eq!(known.release(array, 0), Release::Busy(0));
    assert!(!known.wants(job));
}

#[test]
fn everything_can_be_given_up_at_once() {
    let mut known = known();
    locked(&mut known, range(0, 2 * PAGE), 0);
    assert!(known.ask(range(4 * PAGE, 2 * PAGE), 0, "owner"));
    let gone: Vec<_> = known.give_up().into_iter().map(|unlock| unlock.range.start).collect();
    assert_eq!(gone, [0]);
    known.unregistered(0);
    assert_eq!(known.usable_pages(range(0, 2 * PAGE), None), Pages::Unregistered, "its holder goes without");
    assert_eq!(known.release(range(0, 2 * PAGE), 0), Release::Keep);
    assert!(known.pick().is_some());
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ask(usize, u32),
    Release(usize, u32),
    Pick,
    Lock,
    RegisteredPart(bool),
    Unlocked,
    GiveUp,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..6usize, 0..3u32).prop_map(|(array, device)| Event::Ask(array, device)),
        4 => (0..6usize, 0..3u32).prop_map(|(array, device)| Event::Release(array, device)),
        3 => Just(Event::Pick),
        3 => Just(Event::Lock),
        3 => any::<bool>().prop_map(Event::RegisteredPart),
        3 => Just(Event::Unlocked),
        1 => Just(Event::GiveUp),
    ]
}

/// Some overlap, some share a page, and some contain no whole page.
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

    /// The driver is never asked to lock a range that overlaps a locked one, nor to unlock one that is not locked. In the end
    /// no range stays locked.
    #[test]
    fn ranges_are_registered_with_the_driver_one_at_a_time(events in proptest::collection::vec(event(), 0..200)) {
        let mut known: Registrations<&str, u32> = Registrations::new(PAGE, 90 * PAGE, 64);
        let mut driver: Vec<HostRange> = Vec::new();
        let mut held = Vec::new();
        let (mut picked, mut locking, mut unlocking) = (None, None, Vec::new());
        let apart = |one: &HostRange, other: &HostRange| one.start + one.len <= other.start || other.start + other.len <= one.start;
        for event in events {
            let mut busy = None;
            match event {
                Event::Ask(array, device) => {
                    known.ask(ARRAYS[array], device, "owner");
                    held.push((array, device));
                }
                Event::Release(array, device) => {
                    let Some(at) = held.iter().position(|known| *known == (array, device)) else { continue };
                    held.swap_remove(at);
                    match known.release(ARRAYS[array], device) {
                        Release::Keep => {}
                        Release::Busy(start) => busy = Some(start),
                        Release::Unregister(unlock) => unlocking.push(unlock.range.start),
                    }
                }
                Event::Pick => picked = known.pick().or(picked),
                Event::Lock if locking.is_none() => {
                    if let Some(job) = picked.take() && known.register(job).is_some() {
                        prop_assert!(driver.iter().all(|known| apart(known, &job.range)), "{job:?} in {driver:?}");
                        locking = Some(job);
                    }
                }
                Event::RegisteredPart(done) => {
                    if let Some(job) = locking.take() {
                        known.registered(job, done);
                        if done { driver.push(job.range) }
                        if let Release::Unregister(unlock) = known.settle(job.range.start) { unlocking.push(unlock.range.start) }
                    }
                }
                Event::Unlocked => {
                    if let Some(start) = unlocking.pop() {
                        let at = driver.iter().position(|known| known.start == start);
                        prop_assert!(at.is_some(), "{start} in {driver:?}");
                        driver.swap_remove(at.unwrap());
                        known.unregistered(start);
                    }
                }
                Event::GiveUp => unlocking.extend(known.give_up().into_iter().map(|unlock| unlock.range.start)),
                Event::Lock => {}
            }
            prop_assert_eq!(busy.is_some_and(|start| !known.is_changing(start)), false);
            for array in ARRAYS {
                if let Pages::Registered(RegisteredPart { range: part, .. }) = known.usable_pages(array, None) {
                    prop_assert!(driver.iter().any(|known| known.start <= part.start && part.start + part.len <= known.start + known.len));
                }
            }
        }
        for (array, device) in held {
            if let Release::Unregister(unlock) = known.release(ARRAYS[array], device) { unlocking.push(unlock.range.start) }
        }
        if let Some(job) = locking {
            known.registered(job, true);
            driver.push(job.range);
            if let Release::Unregister(unlock) = known.settle(job.range.start) { unlocking.push(unlock.range.start) }
        }
        for start in unlocking {
            driver.retain(|known| known.start != start);
            known.unregistered(start);
        }
        prop_assert!(driver.is_empty() && known.len() == 0, "{driver:?}");
    }
}

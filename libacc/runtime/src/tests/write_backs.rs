//! Small variables that an asynchronous region copies both ways, on a device that runs as late as it may.

use super::world::World;
use super::world::kind::*;
use crate::ports::DeviceClient;
use accord_types::QueueId;

const K: usize = 0x10_0000;
const ADD_ONE: usize = 0x40_1000;
const KEEP: usize = 0x40_2000;
const SET: usize = 0x40_3000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];
const ASYNC_2: &[u32] = &[0x2000_0002, 0];
/// async(2) wait(1)
const ASYNC_2_AFTER_1: &[u32] = &[0x2000_0002, 0x3000_0001, 1, 0];
/// async(1) wait(2)
const ASYNC_1_AFTER_2: &[u32] = &[0x2000_0001, 0x3000_0001, 2, 0];

/// Regions that add one to their variable, and that note it and leave it alone.
fn world() -> (World, std::sync::Arc<std::sync::Mutex<Vec<u64>>>) {
    let w = World::new();
    let seen = std::sync::Arc::default();
    let (a, b): (std::sync::Arc<std::sync::Mutex<Vec<u64>>>, _) = (std::sync::Arc::clone(&seen), seen.clone());
    w.kernel(ADD_ONE, move |k| {
        let value = k.read_u64(k.slots[0]);
        a.lock().unwrap().push(value);
        k.write(k.slots[0], &(value + 1).to_ne_bytes());
    });
    w.kernel(SET, |k| k.write(k.slots[0], &70_u64.to_ne_bytes()));
    w.kernel(KEEP, move |k| b.lock().unwrap().push(k.read_u64(k.slots[0])));
    (w, seen)
}

fn value(w: &World) -> u64 {
    u64::from_ne_bytes(w.get(K, 8).try_into().unwrap())
}

#[test]
fn a_loop_keeps_its_index_while_regions_that_copy_it_are_queued() {
    let (mut w, seen) = world();
    for k in 0..10 {
        w.put_u64(K, k);
        w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
        w.parallel(KEEP, &[(TOFROM, 8, K)], if k % 2 == 0 { ASYNC_1 } else { ASYNC_2 }).unwrap();
    }
    w.put_u64(K, 10);
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(value(&w), 10, "no region changed it, so none may write it");
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).flat_map(|k| [k, k]).collect::<Vec<_>>(), "each saw the value of its call");
    w.assert_empty();
}

#[test]
fn a_changed_variable_comes_back_and_passes_from_region_to_region() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    for _ in 0..3 {
        w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    }
    assert_eq!(value(&w), 5, "nothing has run yet");
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_2_AFTER_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5, 6, 7, 8]);
    assert_eq!(value(&w), 9);
    w.assert_empty();
}

#[test]
fn value_changed_in_one_queue_is_seen_by_the_next_queue() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    for queue in [ASYNC_1, ASYNC_2, ASYNC_1, ASYNC_2] {
        w.parallel(ADD_ONE, &[(TOFROM, 8, K)], queue).unwrap();
    }
    // By value, and in a queue of its own.
    w.parallel(KEEP, &[(TO, 8, K)], ASYNC_1).unwrap();
    w.parallel(KEEP, &[(FIRSTPRIVATE, 8, K)], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5, 6, 7, 8, 9, 9]);
    assert_eq!(value(&w), 9);
    w.assert_empty();
}

#[test]
fn queues_do_not_wait_for_regions_that_leave_a_variable_alone() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    let both = |w: &mut World| {
        w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
        w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_2).unwrap();
    };
    both(&mut w);
    assert_eq!(*seen.lock().unwrap(), [5], "the first one's effect was unknown");
    (0..10).for_each(|_| both(&mut w));
    assert_eq!(*seen.lock().unwrap(), [5], "nothing else has run yet");
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5; 22]);
    // Another region is another matter, and so is one that has changed it before.
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    both(&mut w);
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(seen.lock().unwrap()[22..], [5, 6, 6]);
    w.assert_empty();
}

#[test]
fn a_copy_in_of_a_changed_variable_gets_the_queues_value() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.parallel(KEEP, &[(TO, 8, K)], ASYNC_1).unwrap();
    w.enter_async(&[(TO, 8, K)], 1).unwrap();
    w.parallel(KEEP, &[(FORCE_PRESENT, 8, K)], ASYNC_1).unwrap();
    assert_eq!(value(&w), 5, "nothing has run yet");
    w.exit_async(&[(RELEASE, 8, K)], 1).unwrap();
    // As a part of something larger.
    w.parallel(KEEP, &[(TO, 16, K)], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5, 6, 6, 6]);
    // In another queue that waits for the first.
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.parallel(KEEP, &[(TO, 8, K)], ASYNC_2_AFTER_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(seen.lock().unwrap()[4..], [6, 7]);
    w.assert_empty();
}

#[test]
fn write_back_sees_copies_out_of_other_regions() {
    // What is copied out may be what the program has already.
    for value_before in [5, 70] {
        let (mut w, seen) = world();
        w.put_u64(K, value_before);
        w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
        w.parallel(SET, &[(FROM, 8, K)], ASYNC_2_AFTER_1).unwrap();
        // As something that is copied both ways, copied in, and present.
        w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1_AFTER_2).unwrap();
        w.parallel(KEEP, &[(TO, 8, K)], ASYNC_1).unwrap();
        w.enter_async(&[(TO, 8, K)], 1).unwrap();
        w.parallel(KEEP, &[(FORCE_PRESENT, 8, K)], ASYNC_1).unwrap();
        w.exit_async(&[(RELEASE, 8, K)], 1).unwrap();
        w.runtime.wait_all(&mut w.t).unwrap();
        assert_eq!(*seen.lock().unwrap(), [value_before, 70, 71, 71]);
        assert_eq!(value(&w), 71);
        w.assert_empty();
    }
}

#[test]
fn value_set_after_a_wait_is_used_while_the_queue_is_busy() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.runtime.wait_async(&mut w.t, 1, 2).unwrap();
    w.parallel(KEEP, &[(TOFROM, 8, K + 64)], ASYNC_1).unwrap();
    w.runtime.wait_queue(&mut w.t, 2).unwrap();
    assert_eq!(value(&w), 6);
    w.put_u64(K, 5);
    w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.parallel(KEEP, &[(TO, 8, K)], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(seen.lock().unwrap()[2..], [5, 5]);
    assert_eq!(value(&w), 5);
    w.assert_empty();
}

#[test]
fn value_set_between_launches_is_used() {
    let (mut w, seen) = world();
    w.put_u64(K, 5);
    w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.put_u64(K, 50);
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(*seen.lock().unwrap(), [5, 50]);
    assert_eq!(value(&w), 51);
    w.put_u64(K, 1);
    w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(value(&w), 2, "after a wait everything begins anew");
    w.assert_empty();
}

#[test]
fn value_set_again_is_used_after_any_kind_of_wait() {
    for how in 0..3 {
        let (mut w, seen) = world();
        w.put_u64(K, 5);
        w.parallel(ADD_ONE, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
        let (rt, t) = (&w.runtime, &mut w.t);
        match how {
            0 => rt.wait_queue(t, 1).unwrap(),
            1 => {
                rt.wait_async(t, 1, 2).unwrap();
                rt.wait_async(t, 2, 3).unwrap();
                rt.wait_queue(t, 3).unwrap();
            }
            _ => {
                // The device does it by itself.
                w.fake().wait(&[QueueId(1)]).unwrap();
                assert!(w.runtime.async_test(&mut w.t, 1).unwrap());
            }
        }
        assert_eq!(value(&w), 6);
        w.put_u64(K, 5);
        w.parallel(KEEP, &[(TOFROM, 8, K)], ASYNC_1).unwrap();
        w.runtime.wait_all(&mut w.t).unwrap();
        assert_eq!(*seen.lock().unwrap(), [5, 5], "way {how} of waiting");
        assert_eq!(value(&w), 5);
        w.assert_empty();
    }
}

#[test]
fn a_part_of_what_a_queue_changes_is_read_after_that() {
    for (first, second) in [((16, K), (8, K)), ((8, K), (16, K))] {
        let (mut w, seen) = world();
        w.put_u64(K, 5);
        w.parallel(ADD_ONE, &[(TOFROM, first.0, first.1)], ASYNC_1).unwrap();
        w.parallel(ADD_ONE, &[(TOFROM, second.0, second.1)], ASYNC_1).unwrap();
        w.parallel(ADD_ONE, &[(TOFROM, first.0, first.1)], ASYNC_2_AFTER_1).unwrap();
        w.runtime.wait_all(&mut w.t).unwrap();
        assert_eq!(*seen.lock().unwrap(), [5, 6, 7]);
        assert_eq!(value(&w), 8);
        w.assert_empty();
    }
}

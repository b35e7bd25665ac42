//! Costs of operations, counted at the device: round trips only where the semantics require one,
//! and in steady state no commands that the program did not request.

use super::fake::Counts;
use super::world::kind::*;
use super::world::{NO_TAGS, One, SYNC, World, call};
use crate::{Placement, Settings};
use accord_types::DeviceType;
use std::sync::atomic::Ordering;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];
const LARGE: usize = 100_000;

/// A device in use, with `B` present.
fn world() -> World {
    let mut w = World::new();
    w.enter(&[(ALLOC, LARGE, B)]).unwrap();
    w.runtime.copyin(&mut w.t, A, LARGE, SYNC).unwrap();
    w.runtime.copyout(&mut w.t, A, LARGE, SYNC, false).unwrap();
    w.parallel(REGION, &[], ASYNC_1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    w
}

fn launch(w: &mut World, list: &[One], tags: &[u32]) {
    assert_eq!(w.parallel(REGION, list, tags).unwrap(), Placement::Device);
}

/// Returns the cost of `act`.
fn cost(w: &mut World, act: impl FnOnce(&mut World)) -> Counts {
    let before = w.fake().counts();
    act(w);
    let after = w.fake().counts();
    Counts {
        round_trips: after.round_trips - before.round_trips,
        commands: after.commands - before.commands,
        maps: after.maps - before.maps,
        stores: after.stores - before.stores,
        copies_in: after.copies_in - before.copies_in,
        copies_out: after.copies_out - before.copies_out,
        compares: after.compares - before.compares,
        launches: after.launches - before.launches,
        queue_waits: after.queue_waits - before.queue_waits,
    }
}

#[test]
fn an_async_launch_is_one_command_and_no_round_trip() {
    let mut w = world();
    let list = [(FORCE_PRESENT, LARGE, B), (TO, 4, A), (TO, 4, A + 8), (FIRSTPRIVATE, 32, A + 64)];
    launch(&mut w, &list, ASYNC_1);
    let one = Counts { commands: 1, launches: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| launch(w, &list, ASYNC_1)), one);
}

#[test]
fn a_launch_that_is_waited_for_is_one_command_and_one_round_trip() {
    let mut w = world();
    let list = [(FORCE_PRESENT, LARGE, B), (TO, 4, A)];
    let one = Counts { commands: 1, launches: 1, round_trips: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| launch(w, &list, NO_TAGS)), one);
}

#[test]
fn descriptors_and_pointers_travel_with_the_launch() {
    let mut w = world();
    w.put_u64(A, B as u64);
    let list = [(FORCE_PRESENT, LARGE, B), (TO_PSET, 64, A), (POINTER, 0, A)];
    let one = Counts { commands: 1, launches: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| launch(w, &list, ASYNC_1)), one);
}

#[test]
fn a_member_pointer_is_stored_once_however_many_launches_attach_it() {
    let mut w = world();
    w.put_u64(A, B as u64);
    w.enter(&[(TO, 16, A)]).unwrap();
    let list = [(FORCE_PRESENT, 16, A), (FORCE_PRESENT, LARGE, B), (ATTACH, 0, A)];
    w.parallel(REGION, &list, NO_TAGS).unwrap();
    let one = Counts { commands: 1, launches: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| launch(w, &list, ASYNC_1)), one);
}

#[test]
fn copyin_is_one_command_and_no_round_trip() {
    for (bytes, copies_in, stores) in [(LARGE, 1, 0), (4096, 0, 1)] {
        let mut w = world();
        for queue in [1, SYNC] {
            let spent = cost(&mut w, |w| assert_ne!(w.runtime.copyin(&mut w.t, A, bytes, queue).unwrap(), 0));
            assert_eq!(spent, Counts { commands: 1, copies_in, stores, ..Counts::default() });
            w.runtime.delete(&mut w.t, A, bytes, queue, false).unwrap();
        }
        let spent = cost(&mut w, |w| w.enter(&[(TO, bytes, A)]).unwrap());
        assert_eq!(spent, Counts { commands: 1, copies_in, stores, ..Counts::default() });
    }
}

#[test]
fn create_and_delete_are_free() {
    let mut w = world();
    for queue in [SYNC, 1] {
        let spent = cost(&mut w, |w| {
            for _ in 0..10 {
                w.runtime.create(&mut w.t, A, LARGE, queue).unwrap();
                w.runtime.delete(&mut w.t, A, LARGE, queue, false).unwrap();
                w.enter_async(&[(ALLOC, LARGE, A)], queue).unwrap();
                w.exit_async(&[(RELEASE, LARGE, A)], queue).unwrap();
            }
        });
        assert_eq!(spent, Counts::default());
    }
    let spent = cost(&mut w, |w| {
        let block = w.runtime.malloc(&mut w.t, LARGE).unwrap();
        w.runtime.free(&mut w.t, block).unwrap();
        w.data_start(&[(ALLOC, LARGE, A)]).unwrap();
        w.data_end();
    });
    assert_eq!(spent, Counts::default());
}

#[test]
fn attach_is_a_store_and_no_round_trip() {
    let mut w = world();
    w.put_u64(A, B as u64);
    w.enter(&[(TO, 16, A)]).unwrap();
    let one = Counts { commands: 1, stores: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| w.runtime.attach(&mut w.t, A, SYNC).unwrap()), one);
    assert_eq!(cost(&mut w, |w| w.runtime.attach(&mut w.t, A, SYNC).unwrap()), Counts::default());
    assert_eq!(cost(&mut w, |w| w.runtime.detach(&mut w.t, A, SYNC, true).unwrap()), one);
}

#[test]
fn update_device_has_no_round_trip_and_update_self_has_one() {
    let mut w = world();
    let spent = cost(&mut w, |w| w.runtime.update_device(&mut w.t, B, LARGE, SYNC).unwrap());
    assert_eq!(spent, Counts { commands: 1, copies_in: 1, ..Counts::default() });
    let spent = cost(&mut w, |w| w.update(&[(FORCE_FROM, LARGE, B)]).unwrap());
    assert_eq!(spent, Counts { commands: 1, copies_out: 1, round_trips: 1, ..Counts::default() });
    let spent = cost(&mut w, |w| w.runtime.update_self(&mut w.t, B, LARGE, 1).unwrap());
    // The queue waits for what the synchronous update left behind, unless the host has waited for it.
    assert_eq!(spent, Counts { commands: 1, copies_out: 1, ..Counts::default() });
}

/// Copies parts of rows, one directive each: updates of the device never wait, and updates of the host only where the program
/// waits.
#[test]
fn updates_of_rows_are_a_command_each_and_a_wait_for_all() {
    const ROWS: usize = 100;
    const ROW: usize = 256;
    let mut w = world();
    let row = |n: usize| B + n * 2 * ROW;
    for (queue, out, expected) in [
        (SYNC, false, Counts { commands: ROWS, stores: ROWS, ..Counts::default() }),
        (1, false, Counts { commands: ROWS, stores: ROWS, ..Counts::default() }),
        (SYNC, true, Counts { commands: ROWS, copies_out: ROWS, round_trips: ROWS, ..Counts::default() }),
        (1, true, Counts { commands: ROWS, copies_out: ROWS, ..Counts::default() }),
    ] {
        w.runtime.wait_all(&mut w.t).unwrap();
        let spent = cost(&mut w, |w| {
            for n in 0..ROWS {
                match out {
                    false => w.runtime.update_device(&mut w.t, row(n), ROW, queue).unwrap(),
                    true => w.runtime.update_self(&mut w.t, row(n), ROW, queue).unwrap(),
                }
            }
        });
        assert_eq!(spent, expected, "queue {queue}, out: {out}");
    }
    let round_trip = Counts { round_trips: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| w.runtime.wait_queue(&mut w.t, 1).unwrap()), round_trip);
}

#[test]
fn copyout_and_waits_are_one_round_trip() {
    let mut w = world();
    w.runtime.copyin(&mut w.t, A, LARGE, SYNC).unwrap();
    let spent = cost(&mut w, |w| w.runtime.copyout(&mut w.t, A, LARGE, SYNC, false).unwrap());
    assert_eq!(spent, Counts { commands: 1, copies_out: 1, round_trips: 1, ..Counts::default() });
    for queue in 1..5 {
        w.parallel(REGION, &[], &[0x2000_0000 | queue, 0]).unwrap();
    }
    let round_trip = Counts { round_trips: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| w.runtime.wait_queue(&mut w.t, 2).unwrap()), round_trip);
    assert_eq!(cost(&mut w, |w| w.runtime.wait_all(&mut w.t).unwrap()), round_trip, "for all queues together");
    assert_eq!(cost(&mut w, |w| w.runtime.wait_all(&mut w.t).unwrap()), Counts::default(), "nothing is left");
    assert_eq!(cost(&mut w, |w| w.runtime.wait_queue(&mut w.t, 77).unwrap()), Counts::default(), "never used");
}

#[test]
fn queues_wait_for_each_other_without_the_host() {
    let mut w = world();
    w.parallel(REGION, &[], ASYNC_1).unwrap();
    let one = Counts { commands: 1, queue_waits: 1, ..Counts::default() };
    assert_eq!(cost(&mut w, |w| w.runtime.wait_async(&mut w.t, 1, 2).unwrap()), one);
    let spent = cost(&mut w, |w| {
        call(&[(FORCE_PRESENT, LARGE, B)], |e| w.runtime.enter_data(&mut w.t, -1, e, 3, &[1])).0.unwrap();
    });
    assert_eq!(spent, one);
}

#[test]
fn a_compute_construct_with_data_costs_one_round_trip_in_all() {
    let mut w = world();
    let list = [(TOFROM, LARGE, A), (FROM, 64, A + LARGE), (TO, 4, A + 2 * LARGE)];
    w.parallel(REGION, &list, NO_TAGS).unwrap();
    let spent = cost(&mut w, |w| launch(w, &list, NO_TAGS));
    let expected =
        Counts { commands: 4, copies_in: 1, copies_out: 2, launches: 1, round_trips: 1, ..Counts::default() };
    assert_eq!(spent, expected);
    let spent = cost(&mut w, |w| launch(w, &list, ASYNC_1));
    assert_eq!(spent, Counts { round_trips: 0, ..expected });
}

/// Returns local variables that are not adjacent.
fn scalars(count: usize) -> Vec<One> {
    (0..count).map(|n| (FORCE_TOFROM, [4, 8, 16][n % 3], A + 48 * n)).collect()
}

#[test]
fn scalars_of_a_synchronous_region_travel_together() {
    let mut w = world();
    w.kernel(REGION, |k| {
        let last = k.slots[14];
        k.write(last, &[7; 16]);
    });
    for count in [1, 15] {
        let mut list = scalars(count);
        list.resize(15, (FORCE_PRESENT, LARGE, B));
        launch(&mut w, &list, NO_TAGS);
        let all = Counts { commands: 3, stores: 1, launches: 1, copies_out: 1, round_trips: 1, ..Counts::default() };
        assert_eq!(cost(&mut w, |w| launch(w, &list, NO_TAGS)), all, "{count} scalars");
    }
}

#[test]
fn variables_beyond_the_launch_block_are_copied_separately() {
    let mut w = world();
    // Aligned to 16 bytes, as the upper half of the kind says.
    let list: Vec<One> = (0..40).map(|n| (TOFROM | 0x400, 250, A + 256 * n)).collect();
    w.kernel(REGION, |k| {
        for (n, slot) in (0..).zip(k.slots.clone()) {
            assert_eq!(slot % 16, 0);
            let old = k.read(slot, 250);
            k.write(slot + 249, &[old[0] + n]);
        }
    });
    (0..40).for_each(|n| w.put(A + 256 * usize::from(n), &[n; 250]));
    launch(&mut w, &list, NO_TAGS);
    for n in 0..40u8 {
        let now = w.get(A + 256 * usize::from(n), 250);
        assert_eq!((now[0], now[248], now[249]), (n, n, 2 * n));
    }
    let counts = w.fake().counts();
    assert!(counts.stores > 1 && counts.copies_out > 2, "some of them had to");
}

#[test]
fn overlapping_variables_are_one_in_the_region() {
    let mut w = world();
    w.put(A, &[1; 16]);
    w.kernel(REGION, |k| {
        let (whole, part) = (k.slots[0], k.slots[1]);
        assert_eq!(part, whole + 4);
        k.write(part, &[9; 4]);
    });
    launch(&mut w, &[(TOFROM, 16, A), (TOFROM, 4, A + 4)], NO_TAGS);
    assert_eq!(w.get(A, 16), [1, 1, 1, 1, 9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_variable_that_is_named_twice_is_one_in_the_region() {
    let mut w = world();
    let list: Vec<One> = scalars(7).into_iter().chain(scalars(1)).collect();
    w.kernel(REGION, |k| {
        assert_eq!(k.slots[7], k.slots[0]);
        k.write(k.slots[7], &[5; 4]);
    });
    launch(&mut w, &list, NO_TAGS);
    assert_eq!(w.get(A, 4), [5; 4]);
}

#[test]
fn a_present_scalar_stays_so_between_absent_ones() {
    let mut w = world();
    let list = scalars(15);
    let (_, len, address) = list[7];
    w.enter(&[(TO, len, address)]).unwrap();
    for round in 1..4 {
        w.put(address, &vec![100; len]);
        w.kernel(REGION, move |k| {
            for (slot, (_, len, _)) in k.slots.clone().into_iter().zip(scalars(15)) {
                let old = k.read(slot, 1)[0];
                k.write(slot, &vec![old + 1; len]);
            }
        });
        launch(&mut w, &list, NO_TAGS);
        for (n, (_, len, address)) in list.iter().enumerate() {
            let expected = if n == 7 { 100 } else { round };
            assert_eq!(w.get(*address, *len), vec![expected; *len], "{n} in round {round}");
        }
    }
    w.exit(&[(FORCE_FROM, len, address)]).unwrap();
    assert_eq!(w.get(address, len), vec![3; len]);
}

#[test]
fn variables_that_travel_together_are_aligned_as_they_ask() {
    let mut w = world();
    let list: Vec<One> = (0..21u16).map(|n| (TOFROM | (n % 7) << 8, 1 << (n % 5), A + 64 * usize::from(n))).collect();
    w.kernel(REGION, |k| {
        for (n, slot) in k.slots.iter().enumerate() {
            assert_eq!(slot % (1 << (n % 7)), 0, "{n}");
        }
    });
    launch(&mut w, &list, NO_TAGS);
}

#[test]
fn only_changed_bytes_are_written_back() {
    let mut w = world();
    w.put(A, &[1; 64]);
    let constant = accord_types::HostRange { start: A, len: 8 };
    w.ram.constants.lock().unwrap().push((constant, crate::ports::TargetAccess::Constant));
    w.kernel(REGION, |k| k.write(k.slots[1], &[2; 8]));
    launch(&mut w, &[(FORCE_TOFROM, 8, A), (FORCE_TOFROM, 8, A + 16), (FORCE_TOFROM, 8, A + 32)], NO_TAGS);
    assert_eq!(w.get(A + 16, 8), [2; 8]);
    assert_eq!(w.get(A + 24, 24), [1; 24]);
}

#[test]
fn a_wait_asks_the_other_far_devices_that_were_waited_for() {
    let mut w = World::with(&[DeviceType::Cpu; 3], 1 << 30, Settings::default());
    // The first one belongs to this node.
    w.fakes[1..].iter().for_each(|fake| fake.remote.store(true, Ordering::Relaxed));
    let round = |w: &mut World| {
        for device in 0..3 {
            w.runtime.set_device_num(&mut w.t, device, DeviceType::Cpu).unwrap();
            launch(w, &[], ASYNC_1);
            w.runtime.wait(&mut w.t, SYNC, &[1]).unwrap();
        }
        [0, 1, 2].map(|device: usize| w.fakes[device].asked.swap(0, Ordering::Relaxed))
    };
    assert_eq!(round(&mut w), [0, 1, 0], "the second one was waited for when the third one was");
    assert_eq!([(); 2].map(|()| round(&mut w)), [[0, 2, 2]; 2], "by the two others each");
    // With many devices a wait queries some, and the next one others.
    let mut w = World::with(&[DeviceType::Cpu; 60], 1 << 30, Settings::default());
    w.fakes.iter().for_each(|fake| fake.remote.store(true, Ordering::Relaxed));
    let mut round = || {
        for device in 0..60 {
            w.runtime.set_device_num(&mut w.t, device, DeviceType::Cpu).unwrap();
            launch(&mut w, &[], ASYNC_1);
            w.runtime.wait(&mut w.t, SYNC, &[1]).unwrap();
        }
        w.fakes.iter().map(|fake| fake.asked.swap(0, Ordering::Relaxed)).collect::<Vec<_>>()
    };
    round();
    let asked = round();
    assert!(asked.iter().all(|asked| (30..=34).contains(asked)), "{asked:?}");
}

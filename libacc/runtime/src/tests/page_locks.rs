//! Arrays that are page-locked, and when they are unlocked.

use super::fake::Lock;
use super::world::kind::*;
use super::world::{SYNC, World};
use crate::Settings;
use accord_types::{DeviceType, GlobalSpec, HostRange, ObjectSpec, QueueId};

const A: usize = 0x1000_0000;
const LEN: usize = 1 << 20;
const ARRAY: HostRange = HostRange { start: A, len: LEN };
/// Updates of all of an array until it is locked.
const TIMES: usize = 16;

fn update(w: &mut World, times: usize) {
    for _ in 0..times {
        w.update(&[(FORCE_TO, LEN, A)]).unwrap();
    }
}

fn locked(world: &mut World) {
    update(world, TIMES);
    assert_eq!(world.fake().locks(), [Lock::Lock(ARRAY)]);
}

#[test]
fn an_array_is_locked_once_it_was_copied_often_enough() {
    let mut w = World::new();
    // The copy that makes it present counts.
    w.enter(&[(TO, LEN, A)]).unwrap();
    update(&mut w, TIMES - 2);
    assert_eq!(w.fake().locks(), []);
    // Half of it copied in, half of it copied out.
    w.update(&[(FORCE_TO, LEN / 2, A)]).unwrap();
    assert_eq!(w.fake().locks(), []);
    w.update(&[(FORCE_FROM, LEN / 2, A + LEN / 2)]).unwrap();
    assert_eq!(w.fake().locks(), [Lock::Lock(ARRAY)]);
    update(&mut w, 3 * TIMES);
    assert_eq!(w.fake().locks(), [], "once");
    w.exit(&[(FORCE_FROM, LEN, A)]).unwrap();
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
}

#[test]
fn short_copies_and_short_arrays_do_not_count() {
    let mut w = World::new();
    w.enter(&[(ALLOC, LEN, A), (ALLOC, LEN / 2, A + LEN)]).unwrap();
    for _ in 0..TIMES * 20 {
        w.update(&[(FORCE_TO, 60 << 10, A), (FORCE_TO, LEN / 2, A + LEN)]).unwrap();
    }
    assert_eq!(w.fake().locks(), []);
    w.exit(&[(DELETE, LEN, A), (DELETE, LEN / 2, A + LEN)]).unwrap();
    assert_eq!(w.fake().locks(), [], "nothing to unlock");
}

#[test]
fn a_present_entry_that_ends_begins_anew() {
    let mut w = World::new();
    for _ in 0..3 * TIMES {
        w.data_start(&[(TOFROM, LEN, A)]).unwrap();
        w.data_end();
    }
    assert_eq!(w.fake().locks(), []);
}

#[test]
fn an_asynchronous_copy_out_unlocks_in_its_queue() {
    let mut w = World::new();
    w.enter(&[(TO, LEN, A)]).unwrap();
    locked(&mut w);
    w.exit_async(&[(FORCE_FROM, LEN, A)], 3).unwrap();
    let [Lock::Unlock(Some(queue), ARRAY)] = w.fake().locks()[..] else { panic!("not in a queue") };
    assert_ne!(queue, QueueId::SYNC);
    w.runtime.wait_all(&mut w.t).unwrap();
}

#[test]
fn deleted_array_is_unlocked_at_once() {
    let mut w = World::new();
    // The program may free the array as soon as the call returns: no queue has a copy of it to wait for.
    w.enter(&[(TO, LEN, A)]).unwrap();
    locked(&mut w);
    w.exit_async(&[(DELETE, LEN, A)], 3).unwrap();
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
    w.runtime.wait_all(&mut w.t).unwrap();
}

#[test]
fn the_construct_that_ends_the_entry_unlocks() {
    let mut w = World::new();
    // The end of a structured region, after `exit data`.
    w.data_start(&[(TOFROM, LEN, A)]).unwrap();
    w.enter(&[(TO, LEN, A)]).unwrap();
    locked(&mut w);
    w.exit(&[(RELEASE, LEN, A)]).unwrap();
    assert_eq!(w.fake().locks(), []);
    w.data_end();
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
    // `finalize`.
    w.enter(&[(TO, LEN, A)]).unwrap();
    w.enter(&[(TO, LEN, A)]).unwrap();
    locked(&mut w);
    w.runtime.delete(&mut w.t, A, LEN, SYNC, true).unwrap();
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
    // `acc_unmap_data`.
    let device = w.runtime.malloc(&mut w.t, LEN).unwrap();
    w.runtime.map_data(&mut w.t, A, device, LEN).unwrap();
    locked(&mut w);
    w.runtime.unmap_data(&mut w.t, A).unwrap();
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
    w.runtime.free(&mut w.t, device).unwrap();
    w.assert_empty();
}

#[test]
fn a_declared_array_is_unlocked_when_its_object_is_unloaded() {
    let mut w = World::new();
    let object = ObjectSpec { path: "/lib/some.so".into(), build_id: "1".into(), executable: false };
    let spec = GlobalSpec { object, offset: 0, len: LEN as u64, variable: None };
    w.runtime.register_globals(1, vec![crate::Global { host: A, bytes: LEN, kind: crate::GlobalKind::Variable, spec }]);
    locked(&mut w);
    w.runtime.unregister_globals(1, 0..0);
    assert_eq!(w.fake().locks(), [Lock::Unlock(None, ARRAY)]);
}

#[test]
fn arrays_stay_pageable_if_the_setting_says_so() {
    let mut w = World::with(&[DeviceType::Cpu], 1 << 30, Settings { pageable: true, ..Settings::default() });
    w.enter(&[(TO, LEN, A)]).unwrap();
    update(&mut w, 4 * TIMES);
    w.exit(&[(DELETE, LEN, A)]).unwrap();
    assert_eq!(w.fake().locks(), []);
}

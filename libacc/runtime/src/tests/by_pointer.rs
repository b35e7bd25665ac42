//! `exit data` and `update` of pointers, instead of their targets.

use super::world::World;
use super::world::kind::*;

const ARRAY: usize = 0x5600_0000_1000;
const POINTER: usize = 0x7ffe_0000_0100;
/// An object with a pointer in it.
const OBJECT: usize = 0x7ffe_0000_0200;
const MEMBER: usize = OBJECT + 8;
const BYTES: usize = 4000;

fn world() -> World {
    let mut w = World::new();
    w.put_u64(POINTER, ARRAY as u64);
    w.put_u64(MEMBER, ARRAY as u64);
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w
}

#[test]
fn the_array_that_begins_there_is_given_up() {
    let mut w = world();
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w.exit(&[(RELEASE, 8, POINTER)]).unwrap();
    assert_eq!(w.counters(ARRAY), (0, 1));
    w.exit(&[(RELEASE, 8, POINTER)]).unwrap();
    w.assert_empty();
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w.exit(&[(DELETE, 8, POINTER)]).unwrap();
    w.assert_empty();
}

#[test]
fn whole_section_is_copied_out() {
    let mut w = world();
    w.put(ARRAY, &[1; BYTES]);
    w.exit(&[(FROM, 8, POINTER)]).unwrap();
    assert_eq!(w.get(ARRAY, BYTES), [0; BYTES]);
    w.assert_empty();
}

#[test]
fn pointer_that_is_no_array_start_names_no_data() {
    let mut w = world();
    for value in [ARRAY + 8, ARRAY - 8, ARRAY + BYTES, 0, 7, usize::MAX] {
        w.put_u64(POINTER, value as u64);
        w.exit(&[(DELETE, 8, POINTER)]).unwrap();
        w.exit(&[(FROM, 8, POINTER)]).unwrap();
    }
    w.put_u64(POINTER, ARRAY as u64);
    w.exit(&[(DELETE, 4, POINTER)]).unwrap();
    assert_eq!(w.counters(ARRAY), (0, 1));
    // The variable comes first, and what has an entry of its own.
    w.enter(&[(TO, 8, POINTER)]).unwrap();
    w.exit(&[(RELEASE, 8, POINTER)]).unwrap();
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w.exit(&[(RELEASE, 8, POINTER), (RELEASE, BYTES, ARRAY)]).unwrap();
    assert_eq!(w.counters(ARRAY), (0, 1));
    w.exit(&[(RELEASE, BYTES, ARRAY)]).unwrap();
    w.assert_empty();
}

#[test]
fn an_attached_member_is_detached_and_its_object_stays() {
    let mut w = world();
    w.enter(&[(TO, 16, OBJECT)]).unwrap();
    w.enter(&[(ATTACH, 0, MEMBER)]).unwrap();
    w.exit(&[(RELEASE, 8, MEMBER)]).unwrap();
    assert!(!w.present(ARRAY, 1));
    assert_eq!(w.counters(OBJECT), (0, 1));
    assert_eq!(w.on_device(MEMBER, 8), (ARRAY as u64).to_ne_bytes(), "the program's pointer");
    // A pointer that is not attached is a part of its object.
    w.enter(&[(TO, BYTES, ARRAY)]).unwrap();
    w.exit(&[(RELEASE, 8, MEMBER)]).unwrap();
    assert!(!w.present(OBJECT, 1) && w.present(ARRAY, BYTES));
    w.exit(&[(RELEASE, 8, POINTER)]).unwrap();
    w.assert_empty();
}

#[test]
fn an_update_of_an_absent_pointer_says_what_to_write() {
    let mut w = world();
    let error = w.update(&[(FORCE_FROM, 8, POINTER)]).unwrap_err().to_string();
    assert!(error.contains("points to present data") && error.contains("p[0:n]"), "{error}");
    w.put_u64(POINTER, 7);
    let error = w.update(&[(FORCE_FROM, 8, POINTER)]).unwrap_err().to_string();
    assert!(!error.contains("points"), "{error}");
}

#[test]
fn a_member_ends_the_references_that_it_has_brought() {
    let mut w = world();
    w.enter(&[(TO, 16, OBJECT)]).unwrap();
    w.exit(&[(RELEASE, BYTES, ARRAY)]).unwrap();
    for _ in 0..2 {
        w.enter(&[(STRUCT, 1, OBJECT), (ALLOC, 8, MEMBER), (TO, BYTES, ARRAY), (ATTACH, 0, MEMBER)]).unwrap();
    }
    assert_eq!(w.counters(OBJECT), (0, 3));
    w.exit(&[(DELETE, 8, MEMBER), (DELETE, BYTES, ARRAY), (FORCE_DETACH, 0, MEMBER)]).unwrap();
    assert_eq!(w.counters(OBJECT), (0, 1));
    assert!(!w.present(ARRAY, 1));
    // One too many.
    w.exit(&[(RELEASE, 8, MEMBER), (RELEASE, BYTES, ARRAY), (DETACH, 0, MEMBER)]).unwrap();
    w.exit(&[(DELETE, 8, MEMBER)]).unwrap();
    assert_eq!(w.counters(OBJECT), (0, 1));
    w.exit(&[(DELETE, 16, OBJECT)]).unwrap();
    w.exit(&[(RELEASE, 8, POINTER)]).unwrap();
    w.assert_empty();
}

#[test]
fn a_construct_that_fails_counts_no_member() {
    let mut w = world();
    w.enter(&[(TO, 16, OBJECT)]).unwrap();
    let refused = [(STRUCT, 1, OBJECT), (ALLOC, 8, MEMBER), (FORCE_PRESENT, 8, POINTER + 64)];
    w.enter(&refused).unwrap_err();
    assert_eq!(w.counters(OBJECT), (0, 1));
    w.exit(&[(DELETE, 8, MEMBER), (DETACH, 0, MEMBER)]).unwrap();
    assert_eq!(w.counters(OBJECT), (0, 1));
}

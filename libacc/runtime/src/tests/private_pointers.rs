//! Pointers to what a launch contains: dummy arguments of Fortran that are allocatable or pointers.

use super::world::kind::*;
use super::world::{One, World};

const ARRAY: usize = 0x10_0000;
/// The caller's descriptor, and the callee's pointer to it.
const DESCRIPTOR: usize = 0x7ffe_0000_0100;
const DUMMY: usize = 0x7ffe_0000_0010;

fn dummy(w: &World) -> [One; 4] {
    w.put_u64(DESCRIPTOR, ARRAY as u64);
    w.put_u64(DESCRIPTOR + 8, 42);
    w.put_u64(DUMMY, DESCRIPTOR as u64);
    [(TOFROM, 40, ARRAY), (TO_PSET, 64, DESCRIPTOR), (POINTER, 0, DESCRIPTOR), (POINTER, 0, DUMMY)]
}

#[test]
fn a_dummys_pointer_finds_the_descriptor_that_travels_along() {
    let mut w = World::new();
    w.put(ARRAY, &[5; 40]);
    let list = dummy(&w);
    for _ in 0..2 {
        w.run_observed(&list, |k| {
            let descriptor = k.read_u64(k.slots[3]);
            assert_eq!(descriptor, k.slots[1]);
            assert_eq!((k.read_u64(descriptor), k.read_u64(descriptor + 8)), (k.slots[0], 42));
            assert_eq!(k.read(k.slots[0], 40), [5; 40]);
        });
        // A data region of it, in which nothing is private.
        w.enter(&list).unwrap();
        w.exit(&[(RELEASE, 40, ARRAY), list[1], list[2], list[3]]).unwrap();
    }
    w.assert_empty();
}

#[test]
fn a_scalars_pointer_is_found_by_the_pointer_at_it() {
    let mut w = World::new();
    w.put(ARRAY, &[9; 4]);
    w.put_u64(DESCRIPTOR, ARRAY as u64);
    w.put_u64(DUMMY, DESCRIPTOR as u64);
    w.run_observed(&[(TOFROM, 4, ARRAY), (POINTER, 0, DESCRIPTOR), (POINTER, 0, DUMMY)], |k| {
        assert_eq!(k.read_u64(k.read_u64(k.slots[2])), k.slots[0]);
        assert_eq!(k.read(k.slots[0], 4), [9; 4]);
    });
    w.assert_empty();
}

#[test]
fn pointers_are_right_wherever_the_block_is_full() {
    // Each of so many fills in front of them that the descriptor, the pointer or both no longer fit.
    for fill in 0..40 {
        let mut w = World::new();
        let filling = DESCRIPTOR - 0x10_0000;
        let mut list: Vec<One> = (0..fill).map(|i| (TO, 200, filling + i * 256)).collect();
        list.extend(dummy(&w));
        w.put_u64(DESCRIPTOR + 16, 6);
        w.put_u64(DUMMY + 0x200, DUMMY as u64);
        // A pointer at the pointer, too.
        list.push((POINTER, 0, DUMMY + 0x200));
        w.run_observed(&list, move |k| {
            let last = &k.slots[fill..];
            let (array, inner, outer) = (last[0], k.read_u64(last[3]), k.read_u64(k.read_u64(last[4])));
            for descriptor in [last[1], inner, outer] {
                assert_eq!([0, 8, 16].map(|at| k.read_u64(descriptor + at)), [array, 42, 6], "{fill}");
            }
        });
        w.assert_empty();
    }
}

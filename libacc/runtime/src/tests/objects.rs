//! Members of objects that are absent, and what leads a region to the objects.

use super::world::World;
use super::world::kind::*;

const POINTER: usize = 0x7ffe_0000_0100;
const OBJECT: usize = 0x5600_0000_1000;
const ARRAY: usize = 0x5600_0001_0000;

/// Returns what a region finds in each slot, and where the slot of the variable at `POINTER` leads.
fn slots(w: &mut World, list: &[(u16, usize, usize)]) -> (Vec<u64>, Option<u64>) {
    let (to, from) = std::sync::mpsc::channel();
    let pointer = list.iter().position(|(_, _, host)| *host == POINTER);
    w.run_observed(list, move |k| to.send((k.slots.clone(), pointer.map(|i| k.read_u64(k.slots[i])))).unwrap());
    from.recv().unwrap()
}

#[test]
fn a_members_slot_leads_to_its_object() {
    let mut w = World::new();
    w.put(OBJECT, &[7; 64]);
    let list = [(STRUCT, 2, OBJECT), (TOFROM, 8, OBJECT + 16), (TO, 8, OBJECT + 40)];
    w.run_observed(&list, |k| {
        assert!(k.slots[1] == k.slots[0] && k.slots[2] == k.slots[0]);
        assert_eq!(k.read(k.slots[0] + 40, 8), [7; 8]);
        k.write(k.slots[0] + 16, &[9; 8]);
    });
    assert_eq!(w.get(OBJECT + 16, 8), [9; 8]);
    assert_eq!(w.get(OBJECT + 24, 8), [7; 8]);
    w.assert_empty();
}

#[test]
fn a_pointer_by_value_leads_to_the_object_whose_members_are_named() {
    let mut w = World::new();
    w.put_u64(POINTER, OBJECT as u64);
    let (slots, pointer) = slots(
        &mut w,
        &[
            (FIRSTPRIVATE, 8, POINTER),
            (STRUCT, 1, OBJECT),
            (TOFROM, 8, OBJECT + 16),
            (STRUCT, 1, OBJECT),
            (TO, 300, OBJECT + 200),
        ],
    );
    assert_eq!(pointer, Some(slots[1]));
    assert_eq!(slots[1], slots[3], "named twice, as GCC does in Fortran");
    w.assert_empty();
}

#[test]
fn members_that_are_apart_say_nothing_of_their_object() {
    let mut w = World::new();
    w.put_u64(POINTER, OBJECT as u64);
    w.enter(&[(TO, 8, OBJECT + 16)]).unwrap();
    w.enter(&[(TO, 4096, ARRAY)]).unwrap();
    w.enter(&[(TO, 8, OBJECT + 200)]).unwrap();
    let list = [
        (FIRSTPRIVATE, 8, POINTER),
        (STRUCT, 1, OBJECT),
        (TOFROM, 8, OBJECT + 16),
        (STRUCT, 1, OBJECT),
        (TO, 8, OBJECT + 200),
    ];
    let (slots, pointer) = slots(&mut w, &list);
    assert_ne!(slots[1], slots[3]);
    assert_eq!(pointer, Some(OBJECT as u64));
}

#[test]
fn pointers_that_are_attached_bring_their_object() {
    let mut w = World::new();
    w.put(OBJECT, &[5; 64]);
    w.put_u64(OBJECT + 24, ARRAY as u64);
    w.run_observed(&[(ZERO_LEN, 0, OBJECT), (TOFROM, 80, ARRAY), (ATTACH, 0, OBJECT + 24)], |k| {
        assert_eq!(k.read(k.slots[0], 8), [5; 8], "what is before it too");
        assert_eq!(k.read_u64(k.slots[0] + 24), k.slots[1]);
        k.write(k.slots[0], &[0; 8]);
    });
    assert_eq!(w.get(OBJECT, 8), [5; 8], "it does not come back");
    w.assert_empty();
    // An object that is present in part gives no address.
    w.enter(&[(TO, 8, OBJECT + 8)]).unwrap();
    let list = [(ZERO_LEN, 0, OBJECT), (TOFROM, 80, ARRAY), (ATTACH, 0, OBJECT + 24)];
    assert_eq!(slots(&mut w, &list).0[0], 0);
}

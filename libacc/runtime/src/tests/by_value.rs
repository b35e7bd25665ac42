//! Pointers that regions get by value.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};

/// An address where heaps lie.
const ARRAY: usize = 0x5600_0000_1000;
const LOW_ARRAY: usize = 0x120_0000;
const POINTER: usize = 0x7ffe_0000_0100;
const REGION: usize = 0x40_1000;
const BYTES: usize = 4000;

/// Returns the value to which a scalar's slot leads.
fn seen(w: &mut World, kind: u16, value: usize) -> u64 {
    w.put_u64(POINTER, value as u64);
    let (to, from) = std::sync::mpsc::channel();
    w.run_observed(&[(kind, 8, POINTER)], move |k| to.send(k.read_u64(k.slots[0])).unwrap());
    from.recv().unwrap()
}

fn world() -> World {
    let mut w = World::new();
    w.enter(&[(TO, BYTES, ARRAY), (TO, BYTES, LOW_ARRAY)]).unwrap();
    w
}

#[test]
fn a_pointer_to_present_data_arrives_as_the_devices() {
    let mut w = world();
    let array = w.runtime.deviceptr(&mut w.t, ARRAY).unwrap() as u64;
    for kind in [TO, FIRSTPRIVATE, FORCE_TOFROM] {
        assert_eq!(seen(&mut w, kind, ARRAY), array);
        assert_eq!(seen(&mut w, kind, ARRAY + 800), array + 800, "into the middle");
        assert_eq!(seen(&mut w, kind, ARRAY + BYTES), (ARRAY + BYTES) as u64, "past the end, where other data may be");
        assert_eq!(seen(&mut w, kind, ARRAY - 8), (ARRAY - 8) as u64);
        assert_eq!(seen(&mut w, kind, array as usize), array, "a device pointer stays");
        assert_eq!(seen(&mut w, kind, 0), 0);
    }
    assert_eq!(w.get(POINTER, 8), [0; 8], "the program's pointer is its own");
    assert_eq!(w.counters(ARRAY), (0, 1), "the array has no holder any more");
}

#[test]
fn a_number_is_not_taken_for_a_pointer() {
    let mut w = world();
    let low = w.runtime.deviceptr(&mut w.t, LOW_ARRAY).unwrap() as u64;
    assert_eq!(seen(&mut w, TO, LOW_ARRAY), low);
    assert_eq!(seen(&mut w, TO, LOW_ARRAY + 800), (LOW_ARRAY + 800) as u64, "18 million and some");
    // Four bytes, and eight of a clause of its own.
    w.put_u64(POINTER, ARRAY as u64);
    w.run_observed(&[(TO, 4, POINTER), (TOFROM, 8, POINTER)], |k| {
        assert_eq!(k.read(k.slots[0], 4), (ARRAY as u32).to_ne_bytes());
        assert_eq!(k.read_u64(k.slots[1]), ARRAY as u64);
    });
}

#[test]
fn an_array_stays_while_a_region_has_its_pointer() {
    let mut w = world();
    w.put_u64(POINTER, ARRAY as u64);
    let array = w.runtime.deviceptr(&mut w.t, ARRAY).unwrap() as u64;
    w.kernel(REGION, move |k| {
        assert_eq!(k.read_u64(k.slots[0]), array);
        k.write(array, &[7; 8]);
    });
    w.parallel(REGION, &[(TO, 8, POINTER)], &[0x2000_0001, 0]).unwrap();
    w.exit_async(&[(FROM, BYTES, ARRAY)], 1).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(w.get(ARRAY, 8), [7; 8]);
    w.parallel(REGION + 16, &[(TO, 8, POINTER)], NO_TAGS).unwrap();
    w.runtime.delete(&mut w.t, LOW_ARRAY, BYTES, SYNC, false).unwrap();
    w.assert_empty();
}

#[test]
fn a_pointer_that_does_not_fit_into_the_launch_is_the_devices_too() {
    const SCALAR: usize = 0x7ffe_0001_0000;
    let mut w = world();
    w.put_u64(POINTER, ARRAY as u64);
    let array = w.runtime.deviceptr(&mut w.t, ARRAY).unwrap() as u64;
    // A launch carries 4 KiB.
    let mut list: Vec<_> = (0..16).map(|i| (TO, 256, SCALAR + 4096 * i)).collect();
    list.push((TO, 8, POINTER));
    let last = list.len() - 1;
    w.run_observed(&list, move |k| assert_eq!(k.read_u64(k.slots[last]), array));
    assert_eq!(w.counters(ARRAY), (0, 1));
}

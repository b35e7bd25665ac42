//! Faults with data if GCC's calls are taken at face value; numbered as in our notes on GCC's interface.

use super::world::kind::*;
use super::world::{IF_FALSE, NO_TAGS, World, call};
use crate::{Placement, Tags};
use accord_types::ErrorCode;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
/// An address in a frame that the next call uses again.
const STACK: usize = 0x7f00_0000;
const REGION: usize = 0x40_1000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];

fn bytes(value: u8) -> Vec<u8> {
    vec![value; 40]
}

#[test]
fn trap_01_a_temporary_is_not_taken_for_the_one_before_it() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 16, A)]).unwrap();
    w.kernel(REGION, |k| {
        let value = k.read(k.slots[0], 8);
        let to = k.slots[1];
        k.write(to + u64::from(value[0]), &value);
    });
    for round in 0..2u8 {
        w.put(STACK, &[round * 8, 7, 7, 7, 7, 7, 7, round]);
        w.parallel(REGION, &[(TO, 8, STACK), (FORCE_PRESENT, 16, A)], ASYNC_1).unwrap();
        assert!(!w.present(STACK, 8), "it is gone when the call returns");
    }
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(w.on_device(A, 16), [0, 7, 7, 7, 7, 7, 7, 0, 8, 7, 7, 7, 7, 7, 7, 1]);
    w.exit(&[(RELEASE, 16, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_02_small_values_are_read_before_an_async_call_returns() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 8, A)]).unwrap();
    w.kernel(REGION, |k| {
        let value = k.read(k.slots[0], 8);
        k.write(k.slots[1], &value);
    });
    w.put_u64(STACK, 1234);
    w.parallel(REGION, &[(TO, 8, STACK), (FORCE_PRESENT, 8, A)], ASYNC_1).unwrap();
    w.put_u64(STACK, 0);
    assert_eq!(w.on_device(A, 8), 1234u64.to_ne_bytes());
}

#[test]
fn trap_02_but_what_a_queued_copy_still_brings_is_read_in_order() {
    let mut w = World::new();
    w.put_u64(A, 1);
    w.enter(&[(TO, 8, A), (ALLOC, 8, B)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &99u64.to_ne_bytes()));
    w.kernel(REGION + 1, |k| {
        let value = k.read(k.slots[0], 8);
        k.write(k.slots[1], &value);
    });
    w.parallel(REGION, &[(FORCE_PRESENT, 8, A)], ASYNC_1).unwrap();
    w.runtime.update_self(&mut w.t, A, 8, 1).unwrap();
    w.runtime.delete(&mut w.t, A, 8, 1, false).unwrap();
    // A is absent now, and its 99 is still in transit to the program's memory.
    w.parallel(REGION + 1, &[(TO, 8, A), (FORCE_PRESENT, 8, B)], ASYNC_1).unwrap();
    w.runtime.wait_queue(&mut w.t, 1).unwrap();
    assert_eq!(w.on_device(B, 8), 99u64.to_ne_bytes());
}

#[test]
fn trap_03_the_callers_arrays_are_left_alone() {
    let mut w = World::new();
    let hosts = w.data_start(&[(TO, 40, A), (FORCE_DEVICEPTR, 40, B), (POINTER, 0, STACK)]).unwrap();
    assert_eq!(hosts, [A, B, STACK]);
    w.data_end();
    w.assert_empty();
}

#[test]
fn trap_04_a_pointer_temporary_does_not_stay_in_the_table() {
    let mut w = World::new();
    w.put_u64(STACK, A as u64);
    w.enter(&[(TO, 40, A), (POINTER, 0, STACK)]).unwrap();
    assert!(!w.present(STACK, 8));
    // Another frame has its temporary elsewhere.
    w.put_u64(STACK + 64, A as u64);
    w.exit(&[(FROM, 40, A), (POINTER, 0, STACK + 64)]).unwrap();
    w.assert_empty();
    // What lies at the first temporary's address now is copied like anything else.
    w.put_u64(STACK, 5);
    w.enter(&[(TO, 8, STACK)]).unwrap();
    assert_eq!(w.on_device(STACK, 8), 5u64.to_ne_bytes());
}

#[test]
fn trap_05_descriptors_follow_the_program_after_a_new_allocation() {
    let mut w = World::new();
    let descriptor = STACK;
    for (array, first) in [(A, 1u8), (B, 2u8)] {
        w.put(array, &bytes(first));
        w.put_u64(descriptor, array as u64);
        w.put_u64(descriptor + 8, u64::from(first));
        let list = [(TO, 40, array), (TO_PSET, 64, descriptor), (POINTER, 0, descriptor)];
        w.enter(&list).unwrap();
        w.run_observed(&[(FORCE_PRESENT, 40, array), list[1], list[2]], move |k| {
            let base = k.read_u64(k.slots[1]);
            assert_eq!(base, k.slots[0], "the descriptor's pointer is the device's");
            assert_eq!(k.slots[1], k.slots[2]);
            assert_eq!(k.read(base, 40), bytes(first));
            assert_eq!(k.read_u64(k.slots[1] + 8), u64::from(first), "its bounds are the program's");
        });
        w.exit(&[(RELEASE, 40, array), list[1], list[2]]).unwrap();
    }
    w.assert_empty();
}

#[test]
fn trap_05_a_pointers_bias_is_taken_off() {
    let mut w = World::new();
    w.put_u64(STACK, A as u64);
    w.put(A + 16, &bytes(3));
    w.run_observed(&[(TO, 40, A + 16), (TO_PSET, 64, STACK), (POINTER, 16, STACK)], |k| {
        let base = k.read_u64(k.slots[1]);
        assert_eq!(k.read(base + 16, 40), bytes(3));
    });
    // An unallocated array: descriptor without data.
    w.put_u64(STACK, 0);
    w.run_observed(&[(TO, 0, 0), (TO_PSET, 64, STACK), (POINTER, 0, STACK)], |k| {
        assert_eq!(k.slots[0], 0);
        assert_eq!(k.read_u64(k.slots[1]), 0);
    });
    w.assert_empty();
}

#[test]
fn trap_06_a_members_descriptor_reaches_the_device_with_its_bounds() {
    let mut w = World::new();
    let (v, da) = (B, B + 16);
    w.put_u64(da, A as u64);
    w.put_u64(da + 40, 1);
    w.put(A, &bytes(8));
    let enter = [(STRUCT, 1, v), (ALLOC, 64, da), (TO, 40, A), (TO_PSET, 64, da), (ATTACH, 0, da)];
    w.enter(&enter).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 64, da)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 40), 1);
        let base = k.read_u64(k.slots[0]);
        assert_eq!(k.read(base, 40), bytes(8));
    });
    // Other bounds, the same array.
    w.put_u64(da + 40, 2);
    w.run_observed(&[(STRUCT, 1, v), (ALLOC, 64, da), (TOFROM, 40, A), (TO_PSET, 64, da), (ATTACH, 0, da)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 16 + 40), 2);
        assert_eq!(k.read_u64(k.slots[0] + 16), k.slots[2]);
    });
    w.exit(&[(RELEASE, 64, da), (FROM, 40, A), (TO_PSET, 64, da), (DETACH, 0, da)]).unwrap();
    w.assert_empty();
}

/// From GCC 14 on the descriptor is itself the member, and the data has its pointer alone.
#[test]
fn trap_06_a_descriptor_may_be_the_member() {
    let mut w = World::new();
    let (v, da, dq) = (B, B + 16, B + 80);
    w.put_u64(da, A as u64);
    w.put_u64(da + 40, 1);
    w.put_u64(dq, A as u64 + 40);
    w.put_u64(dq + 40, 7);
    w.put(A, &bytes(8));
    let enter = |kind| {
        [
            (STRUCT, 2, v),
            (TO_PSET, 64, da),
            (TO_PSET, 88, dq),
            (kind, 40, A),
            (ATTACH, 0, da),
            (kind, 24, A + 40),
            (ATTACH, 0, dq),
        ]
    };
    w.enter(&enter(TO)).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 64, da), (FORCE_PRESENT, 88, dq)], |k| {
        assert_eq!(k.read_u64(k.slots[0] + 40), 1);
        assert_eq!(k.read_u64(k.slots[1] + 40), 7);
        assert_eq!(k.slots[1] - k.slots[0], 64);
        let base = k.read_u64(k.slots[0]);
        assert_eq!(k.read(base, 40), bytes(8));
    });
    // Other bounds, the same array.
    w.put_u64(da + 40, 2);
    w.run_observed(&enter(TOFROM), |k| {
        assert_eq!(k.read_u64(k.slots[1] + 40), 2);
        assert_eq!(k.read_u64(k.slots[1]), k.slots[3]);
        assert_eq!(k.read_u64(k.slots[2]), k.slots[5]);
    });
    w.exit(&[
        (RELEASE, 64, da),
        (RELEASE, 88, dq),
        (FROM, 40, A),
        (DETACH, 0, da),
        (RELEASE, 24, A + 40),
        (DETACH, 0, dq),
    ])
    .unwrap();
    w.assert_empty();
    // An object that is present as a whole, and whose array is allocated since.
    w.put_u64(da, 0);
    w.enter(&[(TO, 168, v)]).unwrap();
    w.put_u64(da, A as u64);
    w.put_u64(da + 40, 3);
    w.run_observed(&[(STRUCT, 1, v), (TO_PSET, 64, da), (TOFROM, 40, A), (ATTACH, 0, da)], |k| {
        assert_eq!(k.read_u64(k.slots[1] + 40), 3);
        assert_eq!(k.read_u64(k.slots[1]), k.slots[2]);
    });
    w.exit(&[(RELEASE, 168, v)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_07_attach_before_its_container() {
    let mut w = World::new();
    // class { double *d; size_t n; }; enter data copyin(this[0:1]) create(d[0:n])
    let this = B;
    w.put_u64(this, A as u64);
    w.enter(&[(ALLOC, 80, A), (ATTACH, 0, this), (TO, 16, this)]).unwrap();
    let device = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
    assert_eq!(w.on_device(this, 8), device.to_ne_bytes());
    // The same inside a compute construct, where the small container must not be passed as a private value.
    w.run_observed(&[(FORCE_PRESENT, 16, this), (ZERO_LEN, 0, this), (FORCE_PRESENT, 80, A), (ATTACH, 0, this)], |k| {
        assert_eq!(k.read_u64(k.slots[1]), k.slots[2]);
    });
    w.exit(&[(RELEASE, 80, A), (DETACH, 0, this), (RELEASE, 16, this)]).unwrap();
    w.run_observed(&[(ALLOC, 80, A), (ATTACH, 0, this), (TO, 16, this)], |k| {
        assert_eq!(k.read_u64(k.slots[2]), k.slots[0]);
    });
    w.assert_empty();
}

#[test]
fn trap_08_entries_come_in_any_order() {
    let mut w = World::new();
    w.put(A, &bytes(1));
    w.put(B, &bytes(2));
    for list in [[(TO, 40, A), (TO, 40, B)], [(TO, 40, B), (TO, 40, A)]] {
        w.data_start(&list).unwrap();
        assert_eq!((w.on_device(A, 40), w.on_device(B, 40)), (bytes(1), bytes(2)));
        w.data_end();
    }
    w.assert_empty();
}

#[test]
fn trap_09_force_kinds_take_present_data() {
    let mut w = World::new();
    w.put(A, &bytes(1));
    w.enter(&[(TO, 40, A)]).unwrap();
    w.put(A, &bytes(2));
    for kind in [FORCE_ALLOC, FORCE_TO, FORCE_FROM, FORCE_TOFROM] {
        w.run_observed(&[(kind, 40, A)], |k| assert_eq!(k.read(k.slots[0], 40), bytes(1)));
    }
    assert_eq!(w.get(A, 40), bytes(2), "nothing was copied back");
    w.exit(&[(DELETE, 40, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_10_null_addresses_and_empty_sections_are_nothing() {
    let mut w = World::new();
    let absurd = usize::MAX / 2;
    let negative = 12usize.wrapping_neg();
    let nothing = [
        (TO, absurd, 0),
        (TOFROM, 0, A),
        (FORCE_PRESENT, 0, A),
        (POINTER, 0, 0),
        (TO_PSET, 64, 0),
        (ZERO_LEN, 0, 0),
        (FIRSTPRIVATE, absurd, 0),
        (FORCE_PRESENT, absurd, 0),
        (ATTACH, 0, 0),
        // a(4:0) of 4-byte elements
        (TOFROM, negative, A),
        (FORCE_PRESENT, negative, A),
        // A copy that the region does not read, at any address from the stack.
        (TO, 4, 0x10),
    ];
    w.run_observed(&nothing, |k| assert!(k.slots.iter().all(|slot| *slot == 0)));
    w.run_observed(&[], |k| assert!(k.slots.is_empty()));
    w.data_start(&nothing).unwrap();
    w.data_end();
    w.enter(&nothing).unwrap();
    w.exit(&[(FROM, absurd, 0), (FROM, negative, A), (DELETE, 0, A), (DETACH, 0, 0), (TO_PSET, 64, 0)]).unwrap();
    w.update(&[(FORCE_FROM, absurd, 0), (FORCE_TO, 0, A), (FORCE_TO, negative, A)]).unwrap();
    w.update(&[]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_11_sections_without_length_are_found_by_their_first_byte() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 40, A)]).unwrap();
    let device = w.runtime.deviceptr(&mut w.t, A).unwrap();
    w.run_observed(&[(ZERO_LEN, 0, A + 8), (ZERO_LEN, 0, A + 40), (ZERO_LEN, 0, B)], move |k| {
        assert_eq!(k.slots, [device as u64 + 8, 0, 0], "one past the end is absent");
    });
    let hosts = w.data_start(&[(USE_DEVICE_PTR, 0, A + 40)]).unwrap();
    assert_eq!(hosts, [device + 40], "but not for use_device");
    w.data_end();
    w.put_u64(STACK, (A + 40) as u64);
    w.run_observed(&[(POINTER, 0, STACK)], move |k| assert_eq!(k.read_u64(k.slots[0]), device as u64 + 40));
    w.exit(&[(RELEASE, 40, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_12_empty_entries_of_enter_data_are_accepted() {
    let mut w = World::new();
    w.enter(&[(ZERO_LEN, 0, A), (TO, 0, B)]).unwrap();
    w.exit(&[(ZERO_LEN, 0, A), (FROM, 0, B)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_13_widened_sections_are_cut_to_what_is_there() {
    let mut w = World::new();
    w.put(A, &[1; 96]);
    w.enter(&[(TO, 96, A)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &[2; 96]));
    w.parallel(REGION, &[(FORCE_PRESENT, 96, A)], NO_TAGS).unwrap();
    w.put(A + 96, &[9; 8]);
    // update self(b(2,:)) of b(4,6): 96 bytes from the second element.
    w.update(&[(FORCE_FROM, 96, A + 4)]).unwrap();
    assert_eq!(w.get(A, 4), [1; 4]);
    assert_eq!(w.get(A + 4, 92), [2; 92]);
    assert_eq!(w.get(A + 96, 8), [9; 8], "nothing behind the array was touched");
    w.ram.is_c.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = w.update(&[(FORCE_FROM, 96, A + 4)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyPresent, "C has no sections with gaps");
    w.update(&[(FROM, 96, A + 4), (FORCE_FROM, 92, A + 4)]).unwrap();
    let error = w.update(&[(FORCE_FROM, 97, A)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyPresent, "no section is longer than the array");
}

#[test]
fn trap_14_data_is_copied_out_at_the_last_release_only() {
    let mut w = World::new();
    w.kernel(REGION, |k| k.write(k.slots[0], &bytes(7)));
    w.data_start(&[(TOFROM, 40, A)]).unwrap();
    w.parallel(REGION, &[(TOFROM, 40, A)], NO_TAGS).unwrap();
    assert_eq!(w.get(A, 40), bytes(0));
    w.enter(&[(TO, 40, A)]).unwrap();
    w.exit(&[(FROM, 40, A)]).unwrap();
    assert_eq!(w.get(A, 40), bytes(0));
    w.data_end();
    assert_eq!(w.get(A, 40), bytes(7));
    w.assert_empty();
}

#[test]
fn trap_15_exit_data_does_not_take_what_a_region_holds() {
    let mut w = World::new();
    w.data_start(&[(ALLOC, 40, A)]).unwrap();
    for _ in 0..3 {
        w.exit(&[(RELEASE, 40, A)]).unwrap();
        assert_eq!(w.counters(A), (1, 0));
    }
    w.data_end();
    w.exit(&[(RELEASE, 40, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_16_finalize_takes_the_dynamic_part_only() {
    let mut w = World::new();
    w.data_start(&[(ALLOC, 40, A)]).unwrap();
    w.enter(&[(TO, 40, A)]).unwrap();
    w.enter(&[(TO, 40, A)]).unwrap();
    assert_eq!(w.counters(A), (1, 2));
    w.exit(&[(DELETE, 40, A)]).unwrap();
    assert_eq!(w.counters(A), (1, 0));
    w.data_end();
    w.enter(&[(TO, 40, A)]).unwrap();
    w.enter(&[(TO, 40, A)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &bytes(7)));
    w.parallel(REGION, &[(FORCE_PRESENT, 40, A)], NO_TAGS).unwrap();
    w.exit(&[(FORCE_FROM, 40, A)]).unwrap();
    assert_eq!(w.get(A, 40), bytes(7));
    w.assert_empty();
}

#[test]
fn trap_19_use_device_writes_the_callers_array_and_is_a_region() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 40, A)]).unwrap();
    let device = w.runtime.deviceptr(&mut w.t, A).unwrap();
    let hosts = w.data_start(&[(USE_DEVICE_PTR, 0, A + 8), (USE_DEVICE_PTR_IF_PRESENT, 0, B)]).unwrap();
    assert_eq!(hosts, [device + 8, B]);
    w.data_end();
    let (result, hosts) =
        call(&[(USE_DEVICE_PTR, 0, A), (USE_DEVICE_PTR, 0, B)], |e| w.runtime.data_start(&mut w.t, -1, e));
    assert_eq!(result.unwrap_err().code(), ErrorCode::NotPresent);
    assert_eq!(hosts, [A, B], "an error writes nothing");
    w.runtime.data_end(&mut w.t).unwrap_err();
}

#[test]
fn trap_20_a_region_whose_condition_is_false_is_still_a_region() {
    let mut w = World::new();
    w.data_start(&[(ALLOC, 40, A)]).unwrap();
    call(&[(ALLOC, 40, B)], |entries| w.runtime.data_start(&mut w.t, IF_FALSE, entries)).0.unwrap();
    assert!(!w.present(B, 40));
    w.data_end();
    assert!(w.present(A, 40), "the outer region goes on");
    w.data_end();
    let (placement, _) = call(&[(TO, 40, A)], |entries| {
        w.runtime.parallel(&mut w.t, IF_FALSE, REGION, entries, &Tags::decode(NO_TAGS.iter().copied()))
    });
    assert_eq!(placement.unwrap(), Placement::Host);
    call(&[(TO, 40, A)], |entries| w.runtime.enter_data(&mut w.t, IF_FALSE, entries, -2, &[])).0.unwrap();
    call(&[(FORCE_TO, 40, A)], |entries| w.runtime.update(&mut w.t, IF_FALSE, entries, -2, &[])).0.unwrap();
    w.assert_empty();
}

#[test]
fn trap_21_partial_overlap_is_an_error_that_names_both_ranges() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 40, A)]).unwrap();
    for list in [[(TO, 41, A)], [(ALLOC, 8, A - 4)], [(FORCE_PRESENT, 400, A - 100)]] {
        let error = w.data_start(&list).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PartlyPresent);
        let text = error.to_string();
        assert!(text.contains(&format!("{} bytes at {:#x}", list[0].1, list[0].2)), "{text}");
        assert!(text.contains("40 bytes at 0x100000 to 0x100028"), "{text}");
        assert!(text.starts_with("data on dev0 (node h0"), "{text}");
    }
    // What an entry before the bad one has made present is undone.
    assert!(w.data_start(&[(TO, 40, B), (TO, 41, A)]).is_err());
    assert!(!w.present(B, 40));
    assert_eq!(w.counters(A), (0, 1));
    let error = w.exit(&[(RELEASE, 41, A)]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyPresent);
    w.exit(&[(RELEASE, 40, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn trap_22_presence_is_about_the_section_not_the_variable() {
    let mut w = World::new();
    w.put(A, &bytes(1));
    w.data_start(&[(TO, 20, A + 20)]).unwrap();
    assert!(!w.present(A, 40));
    assert!(w.present(A + 30, 10));
    w.run_observed(&[(FORCE_PRESENT, 10, A + 30)], |k| assert_eq!(k.read(k.slots[0], 10), [1; 10]));
    let error = w.parallel(REGION, &[(FORCE_PRESENT, 10, A)], NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotPresent);
    w.data_end();
    w.assert_empty();
}

#[test]
fn trap_23_a_fortran_deviceptr_is_never_read_as_host_memory() {
    let mut w = World::new();
    let device = w.runtime.malloc(&mut w.t, 4096).unwrap();
    w.put_u64(STACK, device as u64);
    // deviceptr(x): the entry's address is the device's; the next is a pointer to it.
    let list = [(FORCE_DEVICEPTR, 40, device), (POINTER, 0, STACK)];
    w.run_observed(&list, move |k| assert_eq!(k.read_u64(k.slots[1]), device as u64));
    w.data_start(&list).unwrap();
    // Inside a data region the program names x by that address.
    w.run_observed(&[(TOFROM, 40, device), (POINTER, 0, STACK)], move |k| {
        assert_eq!((k.slots[0], k.read_u64(k.slots[1])), (device as u64, device as u64));
    });
    w.data_end();
    w.runtime.free(&mut w.t, device).unwrap();
    w.assert_empty();
}

#[test]
fn trap_23_a_c_deviceptr_is_the_pointer_variable() {
    let mut w = World::new();
    let device = w.runtime.malloc(&mut w.t, 40).unwrap();
    w.put_u64(STACK, device as u64);
    w.run_observed(&[(FORCE_DEVICEPTR, 8, STACK)], move |k| assert_eq!(k.read_u64(k.slots[0]), device as u64));
    w.data_start(&[(FORCE_DEVICEPTR, 8, STACK)]).unwrap();
    w.run_observed(&[(TOFROM, 8, STACK)], move |k| assert_eq!(k.read_u64(k.slots[0]), device as u64));
    w.data_end();
    assert_eq!(w.get(STACK, 8), (device as u64).to_ne_bytes());
    // A device address without any clause.
    w.run_observed(&[(ZERO_LEN, 0, device + 8)], move |k| assert_eq!(k.slots[0], device as u64 + 8));
    w.runtime.free(&mut w.t, device).unwrap();
    w.assert_empty();
}

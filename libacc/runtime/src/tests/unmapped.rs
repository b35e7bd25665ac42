//! Pointers to memory that nothing maps: `ACCORD_UNMAPPED`.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};
use crate::Settings;
use accord_types::{DeviceType, ErrorCode, HostRange};
use std::sync::atomic::Ordering;

const BLOCK: usize = 0x5600_0000_1000;
const BYTES: usize = 4096;
const POINTER: usize = 0x7ffe_0000_0100;
const REGION: usize = 0x40_1000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];
const ASYNC_2: &[u32] = &[0x2000_0002, 0];

/// A program whose one heap block is full of ones.
fn world(types: &[DeviceType], maps_unmapped: bool) -> World {
    let w = World::with(types, 1 << 30, Settings { maps_unmapped, ..Settings::default() });
    w.ram.known.lock().unwrap().push(HostRange { start: BLOCK, len: BYTES });
    w.put(BLOCK, &[1; BYTES]);
    w
}

fn mapping() -> World {
    world(&[DeviceType::Cpu], true)
}

#[test]
fn a_region_gets_the_block_and_gives_back_what_it_changed() {
    for kind in [TO, FIRSTPRIVATE, FORCE_TOFROM, TOFROM, FORCE_PRESENT, ALLOC, FROM, FORCE_DEVICEPTR] {
        let mut w = mapping();
        w.put_u64(POINTER, (BLOCK + 80) as u64);
        w.run_observed(&[(kind, 8, POINTER)], move |k| {
            let pointer = k.read_u64(k.slots[0]);
            assert_ne!(pointer, (BLOCK + 80) as u64, "{kind:#x}");
            assert_eq!(k.read(pointer - 80, BYTES), [1; BYTES]);
            k.write(pointer, &[7; 8]);
        });
        assert_eq!(w.get(BLOCK + 80, 8), [7; 8], "{kind:#x}");
        assert_eq!(w.get(BLOCK, 80), [1; 80]);
        assert_eq!(w.get(POINTER, 8), ((BLOCK + 80) as u64).to_ne_bytes(), "the pointer is the program's");
        w.assert_empty();
    }
}

#[test]
fn alignment_within_a_block_is_preserved_on_the_device() {
    for first in [8, 16, 40, 264] {
        let mut w = mapping();
        *w.ram.known.lock().unwrap() = vec![HostRange { start: BLOCK + first, len: 512 }];
        w.run_observed(&[(ZERO_LEN, 0, BLOCK + 320)], move |k| {
            assert_eq!(k.slots[0] % 256, (BLOCK as u64 + 320) % 256, "{first}");
            k.write(k.slots[0], &[3]);
        });
        assert_eq!(w.get(BLOCK + 320, 2), [3, 1]);
        w.assert_empty();
    }
}

#[test]
fn a_section_of_no_length_gets_the_block() {
    let mut w = mapping();
    w.run_observed(&[(ZERO_LEN, 0, BLOCK + 8)], |k| k.write(k.slots[0], &[9; 4]));
    assert_eq!(w.get(BLOCK, 16), [1, 1, 1, 1, 1, 1, 1, 1, 9, 9, 9, 9, 1, 1, 1, 1]);
    w.assert_empty();
}

#[test]
fn pointers_into_one_block_share_its_copy() {
    let mut w = mapping();
    w.put_u64(POINTER, (BLOCK + 100) as u64);
    w.run_observed(&[(ZERO_LEN, 0, BLOCK), (TO, 8, POINTER), (TOFROM, 16, BLOCK + 200)], |k| {
        assert_eq!(k.read_u64(k.slots[1]), k.slots[0] + 100);
        k.write(k.slots[0] + 50, &[5; 100]);
        assert_eq!(k.read(k.slots[2], 16), [1; 16]);
        k.write(k.slots[2], &[6; 16]);
    });
    assert_eq!(w.get(BLOCK + 50, 100), [5; 100]);
    assert_eq!(w.get(BLOCK + 200, 16), [6; 16], "what a clause maps comes back, too");
    w.assert_empty();
}

#[test]
fn present_parts_of_a_block_stay_and_the_gap_is_copied() {
    let mut w = mapping();
    w.enter(&[(TO, 100, BLOCK + 1000), (TO, 100, BLOCK + 2000)]).unwrap();
    w.put(BLOCK, &[2; BYTES]);
    w.run_observed(&[(ZERO_LEN, 0, BLOCK + 1500), (ZERO_LEN, 0, BLOCK + 1010), (ZERO_LEN, 0, BLOCK + 10)], |k| {
        assert_eq!(k.read(k.slots[0] - 400, 900), [2; 900], "from the end of one to the start of the next");
        assert_eq!(k.read(k.slots[1] - 10, 100), [1; 100], "the device's own copy");
        assert_eq!(k.read(k.slots[2] - 10, 1000), [2; 1000]);
        k.write(k.slots[1], &[8; 4]);
        k.write(k.slots[0], &[9; 4]);
    });
    assert_eq!(w.get(BLOCK + 1500, 4), [9; 4]);
    assert_eq!(w.get(BLOCK + 1010, 4), [2; 4], "present data comes back when its own clauses say so");
    w.exit(&[(FROM, 100, BLOCK + 1000), (RELEASE, 100, BLOCK + 2000)]).unwrap();
    assert_eq!(w.get(BLOCK + 1010, 4), [8; 4]);
    w.assert_empty();
}

#[test]
fn a_pointer_variable_that_is_present_names_the_copy_too() {
    let mut w = mapping();
    w.put_u64(POINTER, BLOCK as u64);
    w.data_start(&[(TOFROM, 8, POINTER)]).unwrap();
    for value in [3u8, 4] {
        w.kernel(REGION, move |k| {
            let array = k.read_u64(k.slots[0]);
            assert_eq!(k.read(array, 1), [value - 2], "what the program wrote since");
            k.write(array, &[value]);
        });
        w.parallel(REGION, &[(TOFROM, 8, POINTER)], NO_TAGS).unwrap();
        assert_eq!(w.get(BLOCK, 1), [value], "before the data region ends");
        w.put(BLOCK, &[value - 1]);
    }
    w.data_end();
    assert_eq!(w.get(POINTER, 8), (BLOCK as u64).to_ne_bytes());
    w.assert_empty();
}

#[test]
fn asynchronous_regions_see_each_others_work_and_the_program_theirs() {
    let mut w = mapping();
    w.kernel(REGION, |k| {
        let old = k.read(k.slots[0], 1)[0];
        k.write(k.slots[0], &[old + 1]);
    });
    for tags in [ASYNC_1, ASYNC_2, ASYNC_1] {
        w.parallel(REGION, &[(ZERO_LEN, 0, BLOCK)], tags).unwrap();
    }
    assert_eq!(w.get(BLOCK, 1), [4], "without a wait");
    w.runtime.wait_all(&mut w.t).unwrap();
    w.assert_empty();
}

#[test]
fn a_queued_copy_to_the_block_comes_first() {
    let mut w = mapping();
    w.enter(&[(TO, 100, BLOCK + 1000)]).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 100, BLOCK + 1000)], |k| k.write(k.slots[0], &[5; 100]));
    w.exit_async(&[(FROM, 100, BLOCK + 1000)], 1).unwrap();
    w.run_observed(&[(ZERO_LEN, 0, BLOCK)], |k| assert_eq!(k.read(k.slots[0] + 1000, 100), [5; 100]));
    assert_eq!(w.get(BLOCK + 1000, 100), [5; 100]);
    w.assert_empty();
}

#[test]
fn without_the_setting_a_region_gets_what_gcc_says() {
    let mut w = world(&[DeviceType::Cpu], false);
    w.put_u64(POINTER, BLOCK as u64);
    w.run_observed(&[(ZERO_LEN, 0, BLOCK), (TO, 8, POINTER), (TOFROM, 8, POINTER)], |k| {
        assert_eq!(k.slots[0], 0);
        assert_eq!(k.read_u64(k.slots[1]), BLOCK as u64);
        assert_eq!(k.read_u64(k.slots[2]), BLOCK as u64);
    });
    w.assert_empty();
}

#[test]
fn a_device_that_reaches_the_programs_memory_gets_its_addresses() {
    let mut w = mapping();
    w.ram.reached.store(true, Ordering::Relaxed);
    let pointer = (BLOCK + 80) as u64;
    w.put_u64(POINTER, pointer);
    w.run_observed(
        &[(ZERO_LEN, 0, BLOCK + 80), (TO, 8, POINTER), (TOFROM, 8, POINTER), (FORCE_PRESENT, 64, BLOCK)],
        move |k| {
            assert_eq!((k.slots[0], k.slots[3]), (pointer, BLOCK as u64));
            assert_eq!((k.read_u64(k.slots[1]), k.read_u64(k.slots[2])), (pointer, pointer));
        },
    );
    // A variable that is present may hold anything on the device.
    w.data_start(&[(ALLOC, 8, POINTER)]).unwrap();
    w.run_observed(&[(FORCE_PRESENT, 8, POINTER)], move |k| assert_eq!(k.read_u64(k.slots[0]), pointer));
    w.data_end();
    let hosts = w.data_start(&[(USE_DEVICE_PTR, 0, BLOCK)]).unwrap();
    assert_eq!(hosts, [BLOCK]);
    w.data_end();
    // What is present is used on the device.
    w.data_start(&[(TO, BYTES, BLOCK)]).unwrap();
    w.run_observed(&[(ZERO_LEN, 0, BLOCK + 80)], move |k| assert_ne!(k.slots[0], pointer));
    w.data_end();
    assert_eq!(w.get(BLOCK, BYTES), [1; BYTES], "nothing was lent");
    w.assert_empty();
}

/// Its address goes to code whose work no launch ends.
#[test]
fn use_device_of_absent_memory_lends_nothing() {
    for maps in [false, true] {
        let mut w = world(&[DeviceType::Cpu], maps);
        let error = w.data_start(&[(USE_DEVICE_PTR, 0, BLOCK)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotPresent);
        assert_eq!(w.data_start(&[(USE_DEVICE_PTR_IF_PRESENT, 0, BLOCK)]).unwrap(), [BLOCK]);
        w.data_end();
        w.assert_empty();
    }
}

#[test]
fn values_that_point_into_no_block_are_left_unchanged() {
    let mut w = mapping();
    let device = w.runtime.malloc(&mut w.t, 64).unwrap() as u64;
    for value in [0, 5, (BLOCK + BYTES) as u64, (BLOCK - 4096) as u64, device, u64::MAX, 1.5f64.to_bits()] {
        w.put_u64(POINTER, value);
        w.run_observed(&[(TO, 8, POINTER), (TOFROM, 8, POINTER)], move |k| {
            assert_eq!((k.read_u64(k.slots[0]), k.read_u64(k.slots[1])), (value, value));
        });
    }
    w.runtime.free(&mut w.t, device as usize).unwrap();
    assert!(w.runtime.copyout(&mut w.t, BLOCK, 8, SYNC, false).is_ok());
    w.assert_empty();
}

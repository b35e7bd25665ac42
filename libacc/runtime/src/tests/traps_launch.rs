//! Faults with launches, globals and threads; numbered as in our notes on GCC's interface.

use super::fake::object;
use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};
use crate::{Global, GlobalKind, LocalThread, Settings};
use accord_types::{DeviceType, Error, ErrorCode, GlobalSpec, QueueId};

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;
const ASYNC_1: &[u32] = &[0x2000_0001, 0];

fn global(host: usize, bytes: usize, link: bool) -> Global {
    let spec = GlobalSpec { object: object(), offset: host as u64, len: bytes as u64, variable: None };
    Global { host, bytes, kind: if link { GlobalKind::Link } else { GlobalKind::Variable }, spec }
}

#[test]
fn trap_17_globals_are_present_for_good_and_copied_by_updates_only() {
    let mut w = World::new();
    w.runtime.register_globals(1, vec![global(A, 40, false)]);
    w.put(A, &[3; 40]);
    assert!(w.present(A, 40));
    // update device(g[1:2]) takes effect; clauses that name the whole variable do not.
    w.update(&[(FORCE_TO, 8, A + 4)]).unwrap();
    assert_eq!(w.on_device(A, 12), [0, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3]);
    w.data_start(&[(TOFROM, 40, A)]).unwrap();
    w.data_end();
    w.exit(&[(DELETE, 40, A)]).unwrap();
    w.runtime.copyout(&mut w.t, A, 40, SYNC, true).unwrap();
    assert!(w.present(A, 40));
    assert_eq!(w.get(A, 40), [3; 40]);
    let hosts = w.data_start(&[(USE_DEVICE_PTR, 0, A)]).unwrap();
    assert_eq!(hosts, [w.runtime.deviceptr(&mut w.t, A).unwrap()]);
    w.data_end();
    assert_eq!(w.fake().counts().round_trips, 1, "its address is asked for once");
}

#[test]
fn trap_17_a_declared_descriptor_is_refreshed_where_it_is() {
    let mut w = World::new();
    let descriptor = B;
    w.runtime.register_globals(1, vec![global(descriptor, 64, false)]);
    // MAIN__ begins with the descriptor alone.
    w.data_start(&[(FORCE_ALLOC, 0, 0), (TO_PSET, 64, descriptor), (POINTER, 0, descriptor)]).unwrap();
    w.put_u64(descriptor, A as u64);
    w.put_u64(descriptor + 8, 42);
    w.put(A, &[5; 40]);
    let at = w.runtime.deviceptr(&mut w.t, descriptor).unwrap() as u64;
    w.run_observed(&[(TO, 40, A), (TO_PSET, 64, descriptor), (POINTER, 0, descriptor)], move |k| {
        assert_eq!(k.slots[1], at, "regions also find it by its name");
        assert_eq!((k.read_u64(at), k.read_u64(at + 8)), (k.slots[0], 42));
    });
    w.data_end();
    assert!(w.present(descriptor, 64));
}

#[test]
fn a_declared_pointer_leads_to_what_becomes_present_behind_it() {
    let mut w = World::new();
    let pointer = B;
    w.runtime.register_globals(1, vec![global(pointer, 8, false)]);
    let at = w.runtime.deviceptr(&mut w.t, pointer).unwrap() as u64;
    let value = |w: &World| u64::from_ne_bytes(w.fake().bytes(at, 8).try_into().unwrap());
    w.put(A, &[5; 400]);
    w.put_u64(pointer, A as u64 + 40);
    w.enter(&[(TO, 400, A + 400)]).unwrap();
    assert_eq!(value(&w), 0, "it points elsewhere");
    w.enter(&[(TO, 400, A)]).unwrap();
    let data = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
    assert_eq!(value(&w), data + 40);
    w.update(&[(FORCE_TO, 8, pointer)]).unwrap();
    assert_eq!(value(&w), data + 40, "not the program's address");
    w.put_u64(pointer, A as u64 + 400);
    w.run_observed(&[(FORCE_PRESENT, 400, A + 400)], |_| ());
    let other = w.runtime.deviceptr(&mut w.t, A + 400).unwrap() as u64;
    assert_eq!(value(&w), other);
    w.exit(&[(RELEASE, 400, A), (RELEASE, 400, A + 400)]).unwrap();
    // Small enough to be part of the launch, where the pointer could not lead to it.
    w.run_observed(&[(TO, 4, A + 400)], move |k| assert_eq!(k.read_u64(at), k.slots[0]));
    w.run_observed(&[(FORCE_TOFROM, 4, A + 400)], move |k| assert_eq!(k.read_u64(at), k.slots[0]));
}

#[test]
fn trap_18_link_variables_are_present_only_while_mapped() {
    for (device_type, gpu) in [(DeviceType::Cpu, false), (DeviceType::Nvidia, true)] {
        let mut w = World::with(&[device_type], 1 << 30, Settings::default());
        w.runtime.register_globals(1, vec![global(A, 40, true)]);
        assert!(!w.present(A, 40));
        w.put(A, &[9; 40]);
        w.enter(&[(TO, 40, A)]).unwrap();
        let variable = 0x6000_0000_0000 + A as u64;
        let data = w.runtime.deviceptr(&mut w.t, A).unwrap() as u64;
        let pointer = u64::from_ne_bytes(w.fake().bytes(variable, 8).try_into().unwrap());
        if gpu {
            assert_eq!(pointer, data, "the region's pointer variable names the copy");
        } else {
            assert_eq!(data, variable, "the region names the variable itself");
        }
        assert_eq!(w.on_device(A, 40), [9; 40]);
        w.exit(&[(RELEASE, 40, A)]).unwrap();
        if gpu {
            assert_eq!(w.fake().bytes(variable, 8), [0; 8], "and nothing afterwards");
        }
        w.assert_empty();
    }
}

#[test]
fn trap_25_an_unloaded_object_leaves_neither_functions_nor_variables() {
    let mut w = World::new();
    w.runtime.register_globals(7, vec![global(A, 40, false)]);
    w.runtime.register_globals(8, vec![global(B, 40, false)]);
    w.run_observed(&[(FORCE_PRESENT, 40, A), (FORCE_PRESENT, 40, B)], |_| {});
    w.runtime.unregister_globals(7, 0..0x1000_0000);
    assert!(!w.present(A, 40));
    assert!(w.present(B, 40));
    // Its addresses mean something else now.
    w.put(A, &[1; 8]);
    w.enter(&[(TO, 8, A)]).unwrap();
    assert_eq!(w.on_device(A, 8), [1; 8]);
    // A new object at the same place: what is left over there goes.
    w.runtime.register_globals(9, vec![global(A, 40, false)]);
    w.run_observed(&[(FORCE_PRESENT, 40, A)], |_| {});
    w.runtime.unregister_globals(9, 0..0);
    w.runtime.unregister_globals(8, 0..0);
    w.assert_empty();
}

#[test]
fn trap_27_open_dimensions_come_from_the_environment_or_stay_open() {
    for (setting, expected) in [([0, 0, 0], (0, 0, 0)), ([5, 6, 7], (5, 6, 0))] {
        let mut w = World::with(&[DeviceType::Cpu], 1 << 30, Settings { default_dims: setting, ..Settings::default() });
        w.run_observed(&[], move |k| assert_eq!((k.dims.gangs, k.dims.workers, k.dims.vector), expected));
        w.kernel(REGION, |k| assert_eq!((k.dims.gangs, k.dims.vector), (70_000, 64)));
        w.parallel(REGION, &[], &[0x1000_0005, 70_000, 64, 0]).unwrap();
    }
}

#[test]
fn unknown_tags_and_kinds_are_refused_by_name() {
    let mut w = World::new();
    let error = w.parallel(REGION, &[], &[0x5000_0000, 0]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    let error = w.parallel(REGION, &[(0x3f, 8, A)], NO_TAGS).unwrap_err();
    assert!(error.to_string().contains("kind 0x3f"), "{error}");
    assert!(w.parallel(REGION, &[(RELEASE, 8, A)], NO_TAGS).is_err());
    assert!(w.exit(&[(TO, 8, A)]).is_err());
}

#[test]
fn trap_33_each_thread_has_its_own_regions_and_device() {
    let mut w = World::with(&[DeviceType::Cpu; 2], 1 << 30, Settings::default());
    let mut other = LocalThread::default();
    w.data_start(&[(ALLOC, 40, A)]).unwrap();
    w.runtime.set_device_num(&mut other, 1, DeviceType::Cpu).unwrap();
    assert!(!w.runtime.is_present(&mut other, A, 40).unwrap(), "another device");
    assert_eq!(w.runtime.data_end(&mut other).unwrap_err().code(), ErrorCode::InvalidArgument);
    assert!(w.present(A, 40));
    // A region belongs to the device that it began on.
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    w.data_end();
    w.assert_empty();
}

#[test]
fn trap_34_36_a_failure_comes_out_at_the_next_wait_with_its_queue_named() {
    let mut w = World::new();
    w.parallel(REGION, &[], ASYNC_1).unwrap();
    w.fake().fail(QueueId(1), Error::new(ErrorCode::Execution, "region 3 hit an illegal address"));
    w.parallel(REGION, &[], ASYNC_1).unwrap();
    let error = w.runtime.wait_queue(&mut w.t, 1).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Execution);
    let text = error.to_string();
    assert!(text.starts_with("acc_wait on dev0 (node h0, queue 1): region 3 hit"), "{text}");
    // It stays an error: nothing is tried again.
    assert!(w.parallel(REGION, &[], ASYNC_1).is_err());
    assert!(w.parallel(REGION, &[(TOFROM, 4000, A)], ASYNC_1).is_err());
    w.assert_empty();
}

#[test]
fn trap_35_blocks_are_reused_in_the_order_of_their_queue() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 8000, A)]).unwrap();
    w.kernel(REGION, |k| {
        let value = k.read(k.slots[0], 1000);
        k.write(k.slots[1] + 1000 * u64::from(value[0]), &value);
    });
    // The temporaries of eight launches pass through the same device memory.
    for round in 0..8u8 {
        w.put(B, &[round; 1000]);
        w.parallel(REGION, &[(FIRSTPRIVATE, 1000, B), (FORCE_PRESENT, 8000, A)], ASYNC_1).unwrap();
    }
    let expected: Vec<u8> = (0..8u8).flat_map(|round| [round; 1000]).collect();
    assert_eq!(w.on_device(A, 8000), expected);
    assert_eq!(w.fake().counts().maps, 1);
    w.exit(&[(RELEASE, 8000, A)]).unwrap();
    w.assert_empty();
}

#[test]
fn a_block_that_is_too_small_for_all_values_spills_the_rest() {
    let mut w = World::new();
    let list: Vec<_> = (0..60).map(|i| (TO, 200, A + 256 * i)).collect();
    for i in 0..60 {
        w.put(A + 256 * i, &[i as u8; 200]);
    }
    w.run_observed(&list, |k| {
        for i in 0..60 {
            assert_eq!(k.read(k.slots[i], 200), [i as u8; 200]);
        }
    });
    w.run_observed(&[(FIRSTPRIVATE_INT, 0, 77), (FIRSTPRIVATE, 4096, A)], |k| {
        assert_eq!(k.slots[0], 77);
        assert_eq!(k.read(k.slots[1], 200), [0; 200]);
    });
    let many: Vec<_> = (0..513).map(|i| (TO, 8, A + 256 * i)).collect();
    let error = w.parallel(REGION, &many, NO_TAGS).unwrap_err();
    assert!(error.to_string().contains("513 entries"), "{error}");
    w.assert_empty();
}

#[test]
fn small_values_travel_with_the_launch_unless_something_else_means_them() {
    let mut w = World::new();
    w.put_u64(A, 5);
    w.run_observed(&[(TO, 8, A)], |k| assert_eq!(k.read_u64(k.slots[0]), 5));
    assert_eq!(w.fake().counts().stores, 0);
    // A pointer to it: then it has to have a device address.
    w.put_u64(B, A as u64);
    w.run_observed(&[(TO, 8, A), (POINTER, 0, B)], |k| assert_eq!(k.read_u64(k.slots[1]), k.slots[0]));
    w.run_observed(&[(ZERO_LEN, 0, A), (TO, 8, A)], |k| assert_eq!(k.slots[0], 0));
    w.run_observed(&[(TO, 8, A), (ZERO_LEN, 0, A)], |k| assert_eq!(k.slots[1], k.slots[0]));
    // Present data is not copied.
    w.enter(&[(TO, 8, A)]).unwrap();
    w.put_u64(A, 6);
    w.run_observed(&[(TO, 8, A)], |k| assert_eq!(k.read_u64(k.slots[0]), 5));
    w.exit(&[(DELETE, 8, A)]).unwrap();
    w.assert_empty();
}

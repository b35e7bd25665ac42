//! The routines of chapter 3, on devices and on the host device.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World};
use crate::{AnyDone, LocalThread, Placement, Settings};
use accord_types::{DeviceType, ErrorCode};

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;

fn mixed() -> World {
    World::with(&[DeviceType::Cpu, DeviceType::Nvidia, DeviceType::Cpu], 1 << 30, Settings::default())
}

#[test]
fn devices_are_counted_by_type_and_the_default_is_a_gpu() {
    let mut w = mixed();
    let mut count = |device_type| w.runtime.get_num_devices(&mut w.t, device_type).unwrap();
    assert_eq!(count(DeviceType::Nvidia), 1);
    assert_eq!(count(DeviceType::Cpu), 2);
    assert_eq!(count(DeviceType::NotHost), 3);
    assert_eq!(count(DeviceType::Host), 1);
    assert_eq!(count(DeviceType::Radeon), 0);
    assert_eq!(count(DeviceType::Default), 1);
    assert_eq!(w.runtime.get_device_type(&mut w.t).unwrap(), DeviceType::Nvidia);
    assert_eq!(count_of(&[DeviceType::Cpu; 2]), (DeviceType::Cpu, 2));
    assert_eq!(count_of(&[]), (DeviceType::Host, 1));
}

fn count_of(types: &[DeviceType]) -> (DeviceType, u32) {
    let mut w = World::with(types, 1 << 30, Settings::default());
    let device_type = w.runtime.get_device_type(&mut w.t).unwrap();
    (device_type, w.runtime.get_num_devices(&mut w.t, DeviceType::Default).unwrap())
}

#[test]
fn device_numbers_are_per_type_and_per_thread() {
    let mut w = mixed();
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::Cpu).unwrap(), Some(1));
    assert_eq!(w.runtime.get_device_type(&mut w.t).unwrap(), DeviceType::Cpu);
    w.runtime.copyin(&mut w.t, A, 8, SYNC).unwrap();
    assert_eq!(w.fakes[2].counts().commands, 1, "the second CPU device is the third of all");
    // A new thread has the last type, but its own number.
    let mut other = LocalThread::default();
    assert_eq!(w.runtime.get_device_type(&mut other).unwrap(), DeviceType::Cpu);
    assert_eq!(w.runtime.get_device_num(&mut other, DeviceType::Cpu).unwrap(), Some(0));
    assert!(!w.runtime.is_present(&mut other, A, 8).unwrap());
    // "Not the host" includes all of them.
    for num in 0..3 {
        w.runtime.set_device_num(&mut w.t, num, DeviceType::NotHost).unwrap();
        assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::NotHost).unwrap(), Some(num as u32));
    }
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    w.runtime.set_device_type(&mut w.t, DeviceType::NotHost).unwrap();
    assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::Cpu).unwrap(), Some(1), "it is of that type already");
    w.runtime.set_device_type(&mut w.t, DeviceType::Nvidia).unwrap();
    assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::Nvidia).unwrap(), Some(0));
}

#[test]
fn a_device_number_out_of_range_says_how_many_there_are() {
    let mut w = mixed();
    for num in [2, -1, i32::MAX] {
        let error = w.runtime.set_device_num(&mut w.t, num, DeviceType::Cpu).unwrap_err();
        assert_eq!(error.code(), ErrorCode::DeviceUnavailable);
        let text = error.to_string();
        assert!(text.contains("there are 2 devices of type acc_device_cpu"), "{text}");
        assert!(text.starts_with("acc_set_device_num: "), "{text}");
    }
    let error = w.runtime.set_device_num(&mut w.t, 1, DeviceType::Nvidia).unwrap_err();
    assert!(error.to_string().contains("there is 1 device"), "{error}");
    let error = w.runtime.set_device_type(&mut w.t, DeviceType::Radeon).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceTypeUnavailable);
    let error = w.runtime.init(&mut w.t, DeviceType::Radeon).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceTypeUnavailable);
}

#[test]
fn the_environment_chooses_until_the_program_does() {
    let settings = |device_type, device_num| Settings { device_type, device_num, ..Settings::default() };
    let types = [DeviceType::Nvidia, DeviceType::Cpu, DeviceType::Cpu];
    let mut w = World::with(&types, 1 << 30, settings(Some(DeviceType::Cpu), Some(1)));
    assert_eq!(w.runtime.get_device_type(&mut w.t).unwrap(), DeviceType::Cpu);
    assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::Cpu).unwrap(), Some(1));
    let mut w = World::with(&types, 1 << 30, settings(Some(DeviceType::Host), None));
    assert_eq!(w.parallel(REGION, &[], NO_TAGS).unwrap(), Placement::Host);
    let mut w = World::with(&types, 1 << 30, settings(Some(DeviceType::Radeon), None));
    let error = w.parallel(REGION, &[], NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DeviceTypeUnavailable);
    assert!(error.to_string().contains("ACC_DEVICE_TYPE"), "{error}");
    let cpus = [DeviceType::Cpu];
    let mut w = World::with(&cpus, 1 << 30, settings(Some(DeviceType::Nvidia), None));
    let error = w.parallel(REGION, &[], NO_TAGS).unwrap_err().to_string();
    assert!(error.contains("ACCORD_EMULATE=nvidia"), "{error}");
    let mut w = World::with(&cpus, 1 << 30, settings(None, None));
    let error = w.runtime.set_device_type(&mut w.t, DeviceType::Nvidia).unwrap_err().to_string();
    assert!(error.contains("ACCORD_EMULATE=nvidia"), "{error}");
    let mut w = World::with(&types, 1 << 30, settings(None, Some(7)));
    assert_eq!(w.parallel(REGION, &[], NO_TAGS).unwrap_err().code(), ErrorCode::DeviceUnavailable);
}

#[test]
fn devices_start_at_their_first_use_and_again_after_shutdown() {
    let mut w = World::with(&[DeviceType::Cpu; 2], 1 << 30, Settings::default());
    let started = |w: &World| w.runtime.devices.iter().map(|d| d.is_started()).collect::<Vec<_>>();
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    assert_eq!(started(&w), [false, false]);
    w.runtime.init(&mut w.t, DeviceType::Cpu).unwrap();
    assert_eq!(started(&w), [false, true]);
    assert_eq!(w.runtime.get_device_num(&mut w.t, DeviceType::Cpu).unwrap(), Some(1), "acc_init keeps the device");
    w.data_start(&[(TO, 40, A)]).unwrap();
    w.enter(&[(TO, 40, B)]).unwrap();
    w.runtime.shutdown(&mut w.t, DeviceType::Cpu).unwrap();
    assert_eq!(started(&w), [false, false]);
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    assert!(!w.present(B, 40), "all data is gone");
    w.enter(&[(TO, 40, A)]).unwrap();
    w.data_end();
    assert!(w.present(A, 40), "a region from before does not end what is new");
    w.exit(&[(RELEASE, 40, A)]).unwrap();
    w.assert_empty();
    w.runtime.shutdown(&mut w.t, DeviceType::Cpu).unwrap();
    w.runtime.shutdown(&mut w.t, DeviceType::Cpu).unwrap();
}

#[test]
fn waiting_for_any_queue_checks_its_list() {
    let mut w = World::with(&[DeviceType::Cpu; 2], 1 << 30, Settings::default());
    let list = |queues: &[i32]| queues.iter().flat_map(|queue| queue.to_ne_bytes()).collect::<Vec<u8>>();
    w.put(A, &list(&[SYNC, SYNC]));
    assert_eq!(w.runtime.wait_any(&mut w.t, 2, A, None).unwrap(), AnyDone::Nothing);
    assert_eq!(w.runtime.wait_any(&mut w.t, 0, 0, Some(1)).unwrap(), AnyDone::Nothing);
    w.put(A, &list(&[SYNC, 4, -9]));
    assert_eq!(w.runtime.wait_any(&mut w.t, 3, A, Some(1)).unwrap(), AnyDone::At(1), "not met with -9");
    w.put(A, &list(&[SYNC, -9]));
    let code = |w: &mut World, count, list, num| w.runtime.wait_any(&mut w.t, count, list, num).unwrap_err().code();
    assert_eq!(code(&mut w, 2, A, None), ErrorCode::InvalidAsync);
    assert_eq!(code(&mut w, 1, 0, None), ErrorCode::InvalidNullPointer);
    assert_eq!(code(&mut w, -1, A, None), ErrorCode::InvalidArgument);
    assert_eq!(code(&mut w, 1, A, Some(2)), ErrorCode::DeviceUnavailable);
    assert!(!w.runtime.devices[1].is_started(), "there is nothing to wait for");
}

#[test]
fn on_the_host_device_everything_is_present_where_it_is() {
    let mut w = World::with(&[], 0, Settings::default());
    assert_eq!(w.runtime.copyin(&mut w.t, A, 40, SYNC).unwrap(), A);
    assert_eq!(w.runtime.create(&mut w.t, A, 40, 3).unwrap(), A);
    assert!(w.present(B, 1000));
    assert_eq!(w.runtime.deviceptr(&mut w.t, A).unwrap(), A);
    assert_eq!(w.runtime.hostptr(&mut w.t, A).unwrap(), A);
    w.runtime.copyout(&mut w.t, A, 40, SYNC, false).unwrap();
    w.runtime.update_self(&mut w.t, A, 40, SYNC).unwrap();
    assert!(w.runtime.async_test_all(&mut w.t).unwrap());
    w.runtime.wait_all(&mut w.t).unwrap();
    w.runtime.wait_queue(&mut w.t, 3).unwrap();
    let block = w.runtime.malloc(&mut w.t, 64).unwrap();
    w.put(A, &[6; 64]);
    w.runtime.memcpy_to_device(&mut w.t, block, A, 64, SYNC).unwrap();
    w.runtime.memcpy_from_device(&mut w.t, B, block, 64, SYNC).unwrap();
    assert_eq!(w.get(B, 64), [6; 64]);
    w.runtime.free(&mut w.t, block).unwrap();
    let hosts = w.data_start(&[(USE_DEVICE_PTR, 0, A)]).unwrap();
    assert_eq!(hosts, [A]);
    w.data_end();
    w.enter(&[(TO, 40, A)]).unwrap();
    w.update(&[(FORCE_TO, 40, A)]).unwrap();
    assert_eq!(w.parallel(REGION, &[(TO, 40, A)], NO_TAGS).unwrap(), Placement::Host);
    assert_eq!(w.runtime.get_property(&mut w.t, 0, DeviceType::Host, 1).unwrap(), 0);
    assert!(w.runtime.on_device(&mut w.t, DeviceType::Host).unwrap());
    assert!(!w.runtime.on_device(&mut w.t, DeviceType::Nvidia).unwrap());
}

#[test]
fn while_a_region_runs_on_the_host_the_type_reads_as_host() {
    let mut w = World::new();
    w.t.begin_host_region();
    assert_eq!(w.runtime.get_device_type(&mut w.t).unwrap(), DeviceType::Host);
    assert_eq!(w.parallel(REGION, &[], NO_TAGS).unwrap(), Placement::Host);
    w.t.end_host_region();
    assert_eq!(w.runtime.get_device_type(&mut w.t).unwrap(), DeviceType::Cpu);
}

#[test]
fn device_memory_is_freed_once_and_by_its_first_address() {
    let mut w = World::new();
    assert_eq!(w.runtime.malloc(&mut w.t, 0).unwrap(), 0);
    w.runtime.free(&mut w.t, 0).unwrap();
    let block = w.runtime.malloc(&mut w.t, 1000).unwrap();
    assert_eq!(w.runtime.free(&mut w.t, block + 8).unwrap_err().code(), ErrorCode::InvalidArgument);
    w.runtime.map_data(&mut w.t, A, block, 1000).unwrap();
    assert_eq!(w.runtime.free(&mut w.t, block).unwrap_err().code(), ErrorCode::InvalidArgument);
    w.runtime.unmap_data(&mut w.t, A).unwrap();
    w.runtime.free(&mut w.t, block).unwrap();
    let error = w.runtime.free(&mut w.t, block).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    assert!(error.to_string().contains("freed already"), "{error}");
    let error = w.runtime.memcpy_to_device(&mut w.t, block, A, 8, SYNC).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "no more copies there");
    w.runtime.copyin(&mut w.t, A, 40, SYNC).unwrap();
    let data = w.runtime.deviceptr(&mut w.t, A).unwrap();
    assert_eq!(w.runtime.free(&mut w.t, data).unwrap_err().code(), ErrorCode::InvalidArgument);
    let error = w.runtime.malloc(&mut w.t, 1 << 40).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.to_string().starts_with("acc_malloc on dev0 (node h0)"), "{error}");
}

#[test]
fn mapped_data_stays_until_it_is_unmapped() {
    let mut w = World::new();
    let block = w.runtime.malloc(&mut w.t, 100).unwrap();
    w.runtime.map_data(&mut w.t, A, block, 100).unwrap();
    assert_eq!(w.runtime.deviceptr(&mut w.t, A + 10).unwrap(), block + 10);
    assert_eq!(w.runtime.hostptr(&mut w.t, block + 10).unwrap(), A + 10);
    assert_eq!(w.runtime.hostptr(&mut w.t, block + 100).unwrap(), 0);
    let error = w.runtime.map_data(&mut w.t, A + 50, block, 100).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Present);
    w.runtime.delete(&mut w.t, A, 100, SYNC, true).unwrap();
    w.exit(&[(DELETE, 100, A)]).unwrap();
    w.runtime.copyout(&mut w.t, A, 100, SYNC, false).unwrap();
    assert!(w.present(A, 100));
    w.data_start(&[(TO, 100, A)]).unwrap();
    assert_eq!(w.runtime.unmap_data(&mut w.t, A).unwrap_err().code(), ErrorCode::Present);
    w.data_end();
    assert!(w.runtime.unmap_data(&mut w.t, A + 10).is_err());
    w.runtime.unmap_data(&mut w.t, A).unwrap();
    assert_eq!(w.runtime.unmap_data(&mut w.t, A).unwrap_err().code(), ErrorCode::InvalidArgument);
    // The device's memory belongs to one array only.
    w.runtime.map_data(&mut w.t, A, block, 50).unwrap();
    w.runtime.map_data(&mut w.t, B, block + 50, 50).unwrap();
    let copied = w.runtime.copyin(&mut w.t, B + 0x1000, 64, SYNC).unwrap();
    for taken in [block, block + 49, block + 99, copied, copied + 8] {
        let error = w.runtime.map_data(&mut w.t, 0x66_0000, taken, 8).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Present, "{error}");
    }
    w.runtime.delete(&mut w.t, B + 0x1000, 64, SYNC, false).unwrap();
    for host in [A, B] {
        w.runtime.unmap_data(&mut w.t, host).unwrap();
    }
    for (host, device, bytes) in [(0, block, 8), (A, 0, 8), (A, block, 0)] {
        w.runtime.map_data(&mut w.t, host, device, bytes).unwrap_err();
    }
    w.runtime.free(&mut w.t, block).unwrap();
    w.assert_empty();
}

#[test]
fn null_pointers_with_bytes_are_errors_and_without_are_nothing() {
    let mut w = World::new();
    let (rt, t) = (&w.runtime, &mut w.t);
    assert_eq!(rt.copyin(t, 0, 0, SYNC).unwrap(), 0);
    rt.copyout(t, 0, 0, SYNC, false).unwrap();
    rt.copyout(t, 0, 8, SYNC, false).unwrap();
    rt.delete(t, 0, 8, SYNC, true).unwrap();
    rt.update_self(t, 0, 0, SYNC).unwrap();
    rt.memcpy_to_device(t, 0, 0, 0, SYNC).unwrap();
    rt.memcpy_device(t, 0, 0, 0, SYNC).unwrap();
    let errors = [
        rt.copyin(t, 0, 8, SYNC).unwrap_err(),
        rt.create(t, 0, 8, SYNC).unwrap_err(),
        rt.update_device(t, 0, 8, SYNC).unwrap_err(),
        rt.memcpy_to_device(t, 0, A, 8, SYNC).unwrap_err(),
        rt.memcpy_from_device(t, 0, A, 8, SYNC).unwrap_err(),
        rt.memcpy_d2d(t, 0, A, 8, 0, 0, SYNC).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), ErrorCode::InvalidNullPointer, "{error}");
        assert!(error.place().call.is_some() && error.place().device.is_some(), "{error}");
        assert!(error.remedy_text().is_some());
    }
    // No bytes at an address count as one.
    let address = rt.copyin(t, A, 0, SYNC).unwrap();
    assert_ne!(address, 0);
    assert!(rt.is_present(t, A, 1).unwrap());
    assert!(rt.is_present(t, A, 0).unwrap());
    rt.delete(t, A, 0, SYNC, false).unwrap();
    assert!(!rt.is_present(t, A, 0).unwrap());
    rt.copyin(t, A, 8, SYNC).unwrap();
    rt.delete(t, A, 0, SYNC, true).unwrap();
    assert!(rt.is_present(t, A, 8).unwrap());
    rt.delete(t, A, 8, SYNC, false).unwrap();
    w.assert_empty();
}

#[test]
fn data_by_address_counts_like_enter_and_exit_data() {
    let mut w = World::new();
    w.put(A, &[1; 40]);
    let first = w.runtime.copyin(&mut w.t, A, 40, SYNC).unwrap();
    assert_eq!(w.runtime.copyin(&mut w.t, A + 8, 8, SYNC).unwrap(), first + 8);
    assert_eq!(w.counters(A), (0, 2));
    w.put(A, &[2; 40]);
    w.runtime.update_device(&mut w.t, A + 20, 20, SYNC).unwrap();
    assert_eq!(w.on_device(A, 40), [[1; 20], [2; 20]].concat());
    w.put(A, &[3; 40]);
    w.runtime.copyout(&mut w.t, A, 40, SYNC, false).unwrap();
    assert_eq!(w.get(A, 40), [3; 40], "one reference is left");
    w.runtime.update_self(&mut w.t, A, 10, SYNC).unwrap();
    assert_eq!(w.get(A, 11), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    w.runtime.copyout(&mut w.t, A, 40, 2, true).unwrap();
    w.runtime.wait_all(&mut w.t).unwrap();
    assert_eq!(w.get(A, 40), [[1; 20], [2; 20]].concat());
    w.runtime.delete(&mut w.t, A, 40, SYNC, false).unwrap();
    let error = w.runtime.update_self(&mut w.t, A, 40, SYNC).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotPresent);
    w.runtime.create(&mut w.t, A, 40, SYNC).unwrap();
    for result in [
        w.runtime.copyin(&mut w.t, A, 41, SYNC).map(|_| ()),
        w.runtime.update_self(&mut w.t, A + 1, 40, SYNC),
        w.runtime.delete(&mut w.t, A, 41, SYNC, false),
    ] {
        assert_eq!(result.unwrap_err().code(), ErrorCode::PartlyPresent);
    }
    w.runtime.delete(&mut w.t, A, 40, SYNC, true).unwrap();
    w.assert_empty();
}

#[test]
fn memory_moves_within_and_between_devices() {
    let mut w = World::with(&[DeviceType::Cpu; 2], 1 << 30, Settings::default());
    w.put(A, &[1; 10_000]);
    w.runtime.copyin(&mut w.t, A, 10_000, SYNC).unwrap();
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    w.put(B, &[2; 10_000]);
    w.runtime.copyin(&mut w.t, B, 10_000, SYNC).unwrap();
    let block = w.runtime.malloc(&mut w.t, 10_000).unwrap();
    let trips = w.fakes[0].counts().round_trips;
    w.runtime.memcpy_d2d(&mut w.t, B + 100, A, 1000, 1, 0, SYNC).unwrap();
    assert_eq!(w.fakes[0].counts().round_trips, trips + 1, "one wait for the source's queue");
    w.runtime.update_self(&mut w.t, B, 10_000, SYNC).unwrap();
    assert_eq!(w.get(B, 10_000), [vec![2; 100], vec![1; 1000], vec![2; 8900]].concat());
    // To an address of acc_malloc, then on within that device.
    w.runtime.memcpy_d2d(&mut w.t, block, A, 500, 1, 0, 3).unwrap();
    w.runtime.set_device_num(&mut w.t, 0, DeviceType::Cpu).unwrap();
    w.runtime.wait_queue(&mut w.t, 3).unwrap();
    w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
    w.runtime.memcpy_d2d(&mut w.t, B, block, 500, 1, 1, SYNC).unwrap();
    w.runtime.memcpy_device(&mut w.t, block + 500, block, 500, SYNC).unwrap();
    w.runtime.memcpy_from_device(&mut w.t, 0x90_0000, block, 1000, SYNC).unwrap();
    assert_eq!(w.get(0x90_0000, 1000), [1; 1000]);
    let (rt, t) = (&w.runtime, &mut w.t);
    assert_eq!(rt.memcpy_d2d(t, B, A, 8, 2, 0, SYNC).unwrap_err().code(), ErrorCode::DeviceUnavailable);
    assert_eq!(rt.memcpy_d2d(t, A, A, 8, 1, 0, SYNC).unwrap_err().code(), ErrorCode::NotPresent);
    assert_eq!(rt.memcpy_d2d(t, B, A, 10_001, 1, 0, SYNC).unwrap_err().code(), ErrorCode::PartlyPresent);
    assert_eq!(rt.memcpy_d2d(t, B, A, 8, 1, 0, -9).unwrap_err().code(), ErrorCode::InvalidAsync);
    rt.memcpy_d2d(t, B, A, 0, 1, 0, SYNC).unwrap();
}

#[test]
fn properties_are_the_devices_own() {
    let mut w = World::with(&[DeviceType::Cpu], 1 << 30, Settings::default());
    let (rt, t) = (&w.runtime, &mut w.t);
    assert_eq!(rt.get_property(t, 0, DeviceType::Cpu, 1).unwrap(), 1 << 30);
    assert_eq!(rt.get_property(t, 0, DeviceType::Cpu, 2).unwrap(), 1 << 30);
    rt.copyin(t, A, 1 << 20, SYNC).unwrap();
    assert_eq!(rt.get_property(t, 0, DeviceType::Current, 2).unwrap(), (1 << 30) - (1 << 20));
    assert_eq!(rt.get_property(t, 5, DeviceType::Cpu, 1).unwrap(), 0);
    assert_eq!(rt.get_property(t, 0, DeviceType::Radeon, 1).unwrap(), 0);
    assert_eq!(rt.get_property(t, 0, DeviceType::Cpu, 77).unwrap(), 0);
    let attributes = [75, 97, 1, 16].map(|number| rt.get_property(t, 0, DeviceType::Cpu, 0x2_0000 + number).unwrap());
    assert_eq!(attributes, [9, 0, 0, 1], "the fake device has one unit");
    assert_eq!(rt.get_property_string(t, 0, DeviceType::Cpu, 0x10001).unwrap().as_deref(), Some("fake"));
    assert_eq!(rt.get_property_string(t, 0, DeviceType::Cpu, 1).unwrap(), None);
    assert_eq!(rt.get_property_string(t, 3, DeviceType::Cpu, 0x10001).unwrap(), None);
}

//! Forgotten waits before a program reads what a queue copies, on devices that run as late as they may.

use super::world::kind::*;
use super::world::{SYNC, World, call};
use accord_types::DeviceType;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const FILL: usize = 0x40_1000;
const COPY: usize = 0x40_2000;
const SIZES: [usize; 4] = [8, 200, 5000, 300_000];

fn tags(queue: i32) -> Vec<u32> {
    if queue == SYNC { vec![0] } else { vec![0x2000_0000 | queue.cast_unsigned(), 0] }
}

/// Creates a world with a region that fills `A` with 5, and one that copies its first array to its second.
fn world(bytes: usize) -> World {
    let w = World::with(&[DeviceType::Cpu, DeviceType::Cpu], 1 << 30, crate::Settings::default());
    w.kernel(FILL, move |k| k.write(k.slots[0], &vec![5; bytes]));
    w.kernel(COPY, move |k| {
        let value = k.read(k.slots[0], bytes);
        k.write(k.slots[1], &value);
    });
    w.put(A, &vec![1; bytes]);
    w
}

/// Makes queue 1 of device 0 copy `A` out, which is not on the device afterwards.
fn bring(w: &mut World, bytes: usize) {
    w.enter(&[(ALLOC, bytes, A)]).unwrap();
    w.parallel(FILL, &[(FORCE_PRESENT, bytes, A)], &tags(1)).unwrap();
    w.exit_async(&[(FROM, bytes, A)], 1).unwrap();
    assert_eq!(w.get(A, bytes), vec![1; bytes], "nothing has run yet");
}

#[test]
fn regions_read_what_another_queue_brings() {
    for bytes in SIZES {
        for queue in [SYNC, 2] {
            let mut w = world(bytes);
            bring(&mut w, bytes);
            w.parallel(COPY, &[(TO, bytes, A), (FROM, bytes, B)], &tags(queue)).unwrap();
            w.runtime.wait_queue(&mut w.t, queue).unwrap();
            assert_eq!(w.get(B, bytes), vec![5; bytes], "{bytes} bytes in queue {queue}");
            w.runtime.wait_all(&mut w.t).unwrap();
            w.assert_empty();
        }
    }
}

#[test]
fn values_are_those_that_another_queue_brings() {
    for bytes in [8, 200, 5000] {
        for queue in [SYNC, 1, 2] {
            let mut w = world(bytes);
            bring(&mut w, bytes);
            w.parallel(COPY, &[(FIRSTPRIVATE, bytes, A), (FROM, bytes, B)], &tags(queue)).unwrap();
            w.runtime.wait_queue(&mut w.t, queue).unwrap();
            assert_eq!(w.get(B, bytes), vec![5; bytes], "{bytes} bytes in queue {queue}");
        }
    }
}

#[test]
fn data_and_routines_read_what_another_queue_brings() {
    for bytes in SIZES {
        let mut w = world(bytes);
        bring(&mut w, bytes);
        w.enter(&[(TO, bytes, A)]).unwrap();
        assert_eq!(w.on_device(A, bytes), vec![5; bytes]);
        let mut w = world(bytes);
        w.enter(&[(ALLOC, bytes, B)]).unwrap();
        let device = w.runtime.deviceptr(&mut w.t, B).unwrap();
        bring(&mut w, bytes);
        w.runtime.memcpy_to_device(&mut w.t, device, A, bytes, 3).unwrap();
        assert_eq!(w.fake().counts().round_trips, 0, "the host need not wait");
        w.runtime.wait_queue(&mut w.t, 3).unwrap();
        assert_eq!(w.on_device(B, bytes), vec![5; bytes]);
    }
}

#[test]
fn another_device_reads_what_a_queue_brings() {
    for bytes in SIZES {
        for queue in [SYNC, 1] {
            let mut w = world(bytes);
            bring(&mut w, bytes);
            w.runtime.set_device_num(&mut w.t, 1, DeviceType::Cpu).unwrap();
            w.parallel(COPY, &[(TO, bytes, A), (FROM, bytes, B)], &tags(queue)).unwrap();
            w.runtime.wait_queue(&mut w.t, queue).unwrap();
            assert_eq!(w.get(B, bytes), vec![5; bytes], "{bytes} bytes in queue {queue}");
        }
    }
}

#[test]
fn the_later_of_two_copies_to_the_same_memory_stays() {
    for queue in [SYNC, 2] {
        let mut w = world(40);
        w.enter(&[(ALLOC, 40, A)]).unwrap();
        w.parallel(FILL, &[(FORCE_PRESENT, 40, A)], &tags(1)).unwrap();
        w.runtime.update_self(&mut w.t, A, 40, 1).unwrap();
        w.runtime.update_self(&mut w.t, A, 20, queue).unwrap();
        w.runtime.wait_queue(&mut w.t, queue).unwrap();
        assert_eq!(w.get(A, 40), [5; 40], "the first copy came first");
    }
}

#[test]
fn queue_is_not_waited_for_twice() {
    let mut w = world(5000);
    bring(&mut w, 5000);
    w.runtime.wait_async(&mut w.t, 1, 2).unwrap();
    w.runtime.wait_async(&mut w.t, 2, 3).unwrap();
    let before = w.fake().counts();
    w.enter_async(&[(TO, 5000, A)], 3).unwrap();
    let after = w.fake().counts();
    assert_eq!((after.queue_waits, after.round_trips), (before.queue_waits, before.round_trips), "queue 3 comes later");
    w.runtime.wait_queue(&mut w.t, 3).unwrap();
    assert_eq!(w.on_device(A, 5000), [5; 5000]);
    let before = w.fake().counts();
    // update device(a)
    call(&[(FORCE_TO, 5000, A)], |e| w.runtime.update(&mut w.t, -1, e, SYNC, &[])).0.unwrap();
    assert_eq!(w.fake().counts().round_trips, before.round_trips, "queue 3 has waited for queue 1");
}

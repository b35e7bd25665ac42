//! Order: the guarantees for programs hold even on a device that does everything as late as it may.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World, call};
use accord_types::{Error, ErrorCode, QueueId};

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;

fn tags(queue: u32) -> [u32; 2] {
    [0x2000_0000 | queue, 0]
}

/// Defines a region that copies `bytes` from its first slot's memory to its second's.
fn copying(w: &World, bytes: usize) {
    w.kernel(REGION, move |k| {
        let value = k.read(k.slots[0], bytes);
        k.write(k.slots[1], &value);
    });
}

#[test]
fn synchronous_work_precedes_later_work_of_any_queue() {
    for bytes in [100, 100_000] {
        let mut w = World::new();
        copying(&w, bytes);
        w.enter(&[(ALLOC, bytes, B)]).unwrap();
        for round in 1..4u8 {
            w.put(A, &vec![round; bytes]);
            w.enter(&[(TO, bytes, A)]).unwrap();
            w.parallel(REGION, &[(FORCE_PRESENT, bytes, A), (FORCE_PRESENT, bytes, B)], &tags(round.into())).unwrap();
            w.runtime.wait_queue(&mut w.t, round.into()).unwrap();
            assert_eq!(w.on_device(B, bytes), vec![round; bytes]);
            w.exit(&[(DELETE, bytes, A)]).unwrap();
        }
    }
}

#[test]
fn queues_are_ordered_and_wait_only_as_requested() {
    let mut w = World::new();
    copying(&w, 40);
    w.put(A, &[1; 40]);
    w.enter(&[(TO, 40, A), (ALLOC, 40, B)]).unwrap();
    w.kernel(REGION + 1, |k| k.write(k.slots[0], &[2; 40]));
    w.parallel(REGION + 1, &[(FORCE_PRESENT, 40, A)], &tags(1)).unwrap();
    // wait(1) async(2)
    let waiting = [0x2000_0002, 0x3000_0001, 1, 0];
    w.parallel(REGION, &[(FORCE_PRESENT, 40, A), (FORCE_PRESENT, 40, B)], &waiting).unwrap();
    call(&[(FORCE_FROM, 40, B)], |e| w.runtime.update(&mut w.t, -1, e, 2, &[])).0.unwrap();
    assert!(!w.runtime.async_test(&mut w.t, 2).unwrap());
    w.runtime.wait_queue(&mut w.t, 2).unwrap();
    assert!(w.runtime.async_test(&mut w.t, 2).unwrap());
    assert!(w.runtime.async_test(&mut w.t, 99).unwrap(), "never used");
    assert_eq!(w.get(B, 40), [2; 40]);
}

#[test]
fn a_synchronous_construct_with_a_wait_clause_reads_after_the_wait() {
    let mut w = World::new();
    w.put(A, &[1; 5000]);
    w.enter(&[(TO, 5000, A), (ALLOC, 5000, B)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &[2; 5000]));
    w.parallel(REGION, &[(FORCE_PRESENT, 5000, A)], &tags(1)).unwrap();
    w.exit_async(&[(FROM, 5000, A)], 1).unwrap();
    // enter data copyin(a) wait(1)
    call(&[(TO, 5000, A)], |e| w.runtime.enter_data(&mut w.t, -1, e, SYNC, &[1])).0.unwrap();
    assert_eq!(w.on_device(A, 5000), [2; 5000]);
    assert_eq!(w.get(A, 5000), [2; 5000]);
}

#[test]
fn an_async_copyin_reads_what_the_queue_brought_before() {
    let mut w = World::new();
    w.enter(&[(ALLOC, 50_000, A)]).unwrap();
    w.kernel(REGION, |k| k.write(k.slots[0], &[2; 50_000]));
    w.parallel(REGION, &[(FORCE_PRESENT, 50_000, A)], &tags(1)).unwrap();
    w.exit_async(&[(FROM, 50_000, A)], 1).unwrap();
    w.enter_async(&[(TO, 50_000, A)], 1).unwrap();
    w.runtime.wait_queue(&mut w.t, 1).unwrap();
    assert_eq!(w.on_device(A, 50_000), [2; 50_000]);
}

#[test]
fn the_default_queue_is_the_threads_own_choice() {
    let mut w = World::new();
    assert_eq!(w.runtime.get_default_async(&mut w.t).unwrap(), 0);
    let noval = [0x2000_ffff, u32::MAX, 0];
    w.parallel(REGION, &[], &noval).unwrap();
    assert!(!w.runtime.async_test(&mut w.t, 0).unwrap());
    assert!(!w.runtime.async_test(&mut w.t, -1).unwrap());
    assert!(w.runtime.async_test(&mut w.t, 1).unwrap());
    w.runtime.set_default_async(&mut w.t, 4).unwrap();
    assert_eq!(w.runtime.get_default_async(&mut w.t).unwrap(), 4);
    w.parallel(REGION, &[], &noval).unwrap();
    assert!(!w.runtime.async_test(&mut w.t, 4).unwrap());
    w.runtime.wait_all(&mut w.t).unwrap();
    assert!(w.runtime.async_test_all(&mut w.t).unwrap());
    let error = w.runtime.set_default_async(&mut w.t, -5).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidAsync);
}

#[test]
fn waits_of_all_kinds() {
    let mut w = World::new();
    for queue in 0..4 {
        w.parallel(REGION, &[], &tags(queue)).unwrap();
    }
    w.runtime.wait(&mut w.t, 3, &[1, 3]).unwrap();
    w.runtime.wait(&mut w.t, 5, &[]).unwrap();
    w.runtime.wait(&mut w.t, SYNC, &[5]).unwrap();
    for queue in 0..4 {
        assert!(w.runtime.async_test(&mut w.t, queue).unwrap(), "queue 5 came after all");
    }
    w.parallel(REGION, &[], &tags(2)).unwrap();
    w.runtime.wait(&mut w.t, SYNC, &[0, -1]).unwrap();
    assert!(w.runtime.async_test_all(&mut w.t).unwrap());
    w.runtime.wait_all_async(&mut w.t, 1).unwrap();
    w.runtime.wait_async(&mut w.t, 1, SYNC).unwrap();
    for bad in [-3, i32::MIN] {
        assert_eq!(w.runtime.wait_queue(&mut w.t, bad).unwrap_err().code(), ErrorCode::InvalidAsync);
        assert_eq!(w.runtime.wait(&mut w.t, SYNC, &[bad]).unwrap_err().code(), ErrorCode::InvalidAsync);
        assert_eq!(w.enter_async(&[(TO, 8, A)], bad).unwrap_err().code(), ErrorCode::InvalidAsync);
        assert_eq!(w.runtime.copyin(&mut w.t, A, 8, bad).unwrap_err().code(), ErrorCode::InvalidAsync);
    }
    assert!(!w.present(A, 8));
}

#[test]
fn memory_of_a_busy_queue_goes_to_another_only_in_order() {
    // So little memory that the second queue has to use the first one's.
    let mut w = World::with(&[accord_types::DeviceType::Cpu], 4 << 20, crate::Settings::default());
    const LEN: usize = 3 << 20;
    w.put(A, &[1; 16]);
    w.put(B << 8, &[2; 16]);
    w.kernel(REGION, |k| {
        let mut value = k.read(k.slots[0], 16);
        value.iter_mut().for_each(|byte| *byte += 10);
        k.write(k.slots[0], &value);
    });
    w.parallel(REGION, &[(TOFROM, LEN, A)], &tags(1)).unwrap();
    w.parallel(REGION, &[(TOFROM, LEN, B << 8)], &tags(2)).unwrap();
    w.runtime.wait_queue(&mut w.t, 2).unwrap();
    assert_eq!(w.get(B << 8, 16), [12; 16]);
    assert_eq!(w.get(A, 16), [11; 16], "the second could only come after the first");
    w.assert_empty();
    let error = w.parallel(REGION, &[(TOFROM, 2 * LEN, A)], NO_TAGS).unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert!(error.to_string().starts_with("parallel on dev0 (node h0"), "{error}");
    w.assert_empty();
}

#[test]
fn wait_all_reports_a_synchronous_copy_that_failed_later() {
    let mut w = World::new();
    w.enter(&[(TO, 40, A)]).unwrap();
    w.fake().fail(QueueId::SYNC, Error::new(ErrorCode::DeviceUnavailable, "the link went"));
    assert_eq!(w.runtime.wait(&mut w.t, SYNC, &[]).unwrap_err().cause(), "the link went");
}

#[test]
fn the_end_of_data_waits_for_queues_that_the_program_forgot() {
    for waited in [false, true] {
        let mut w = World::new();
        w.kernel(REGION, |k| k.write(k.slots[0], &[9; 40]));
        let run = |w: &mut World| {
            w.parallel(REGION, &[(FORCE_PRESENT, 40, A)], &tags(1)).unwrap();
            if waited {
                w.runtime.wait_queue(&mut w.t, 1).unwrap();
            }
            w.fake().counts().round_trips
        };
        let expected = usize::from(!waited);

        w.put(A, &[1; 40]);
        w.data_start(&[(TOFROM, 40, A)]).unwrap();
        let trips = run(&mut w);
        w.data_end();
        assert_eq!(w.get(A, 40), [9; 40], "the end of a region");
        assert_eq!(w.fake().counts().round_trips - trips, 1 + expected);

        w.put(A, &[2; 40]);
        w.enter(&[(TO, 40, A)]).unwrap();
        let trips = run(&mut w);
        w.exit(&[(FROM, 40, A)]).unwrap();
        assert_eq!(w.get(A, 40), [9; 40], "exit data");
        assert_eq!(w.fake().counts().round_trips - trips, 1 + expected);

        w.put(A, &[3; 40]);
        w.runtime.copyin(&mut w.t, A, 40, SYNC).unwrap();
        let trips = run(&mut w);
        w.runtime.copyout(&mut w.t, A, 40, SYNC, false).unwrap();
        assert_eq!(w.get(A, 40), [9; 40], "the routine");
        assert_eq!(w.fake().counts().round_trips - trips, 1 + expected);
        w.assert_empty();
    }
}

#[test]
fn the_end_of_data_tells_that_a_queue_that_was_forgotten_has_failed() {
    let mut w = World::new();
    w.kernel(REGION, |k| k.write(k.slots[0], &[9; 40]));
    w.put(A, &[1; 40]);
    w.enter(&[(TO, 40, A)]).unwrap();
    w.parallel(REGION, &[(FORCE_PRESENT, 40, A)], &tags(1)).unwrap();
    w.fake().fail(QueueId(1), Error::new(ErrorCode::Execution, "it broke"));
    let error = w.exit(&[(FROM, 40, A)]).expect_err("its bytes are not what they should be");
    assert!(error.cause().contains("it broke"), "{error}");
    assert!(!w.present(A, 40));
}

#[test]
fn the_end_of_data_waits_for_no_queue_that_has_not_used_it() {
    let mut w = World::new();
    w.kernel(REGION, |k| k.write(k.slots[0], &[9; 40]));
    w.enter(&[(TO, 40, A), (TO, 40, B)]).unwrap();
    w.parallel(REGION, &[(FORCE_PRESENT, 40, A)], &tags(1)).unwrap();
    w.runtime.wait_queue(&mut w.t, 1).unwrap();
    w.parallel(REGION, &[(FORCE_PRESENT, 40, B)], &tags(2)).unwrap();
    let trips = w.fake().counts().round_trips;
    w.exit(&[(FROM, 40, A)]).unwrap();
    assert_eq!(w.fake().counts().round_trips - trips, 1);
    assert!(!w.runtime.async_test(&mut w.t, 2).unwrap(), "it was left alone");
    w.exit(&[(FROM, 40, B)]).unwrap();
    assert_eq!(w.get(B, 40), [9; 40]);
}

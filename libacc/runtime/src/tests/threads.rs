//! Several threads of the program at once.

use super::world::kind::*;
use super::world::{NO_TAGS, SYNC, World, call};
use crate::{LocalThread, Settings, Tags};
use accord_types::{DeviceType, QueueId};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

const A: usize = 0x10_0000;
const B: usize = 0x20_0000;
const REGION: usize = 0x40_1000;
const LEN: usize = 50_000;

/// The timeout: long enough for a loaded machine; a test that exceeds it has failed.
const GIVE_UP: Duration = Duration::from_secs(60);

#[test]
fn data_that_another_thread_is_copying_in_is_whole_when_it_is_used() {
    for round in 0..20u8 {
        let w = World::new();
        w.put(A, &vec![round; LEN]);
        w.kernel(REGION, move |k| assert_eq!(k.read(k.slots[0], LEN), vec![round; LEN]));
        let begin = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut t = LocalThread::default();
                    begin.wait();
                    call(&[(TO, LEN, A)], |e| w.runtime.data_start(&mut t, -1, e)).0.unwrap();
                    call(&[(FORCE_PRESENT, LEN, A)], |e| {
                        w.runtime.parallel(&mut t, -1, REGION, e, &Tags::decode(NO_TAGS.iter().copied()))
                    })
                    .0
                    .unwrap();
                    w.runtime.data_end(&mut t).unwrap();
                });
            }
        });
        w.assert_empty();
    }
}

#[test]
fn a_thread_that_waits_blocks_no_other_thread() {
    let w = World::with(&[DeviceType::Cpu; 2], 1 << 30, Settings::default());
    let barrier = Arc::new(Barrier::new(2));
    w.fakes[0].gate(QueueId(7), barrier.clone());
    let (say, hear) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut waiting = LocalThread::default();
        call(&[], |e| w.runtime.parallel(&mut waiting, -1, REGION, e, &Tags::decode([0x2000_0007, 0]))).0.unwrap();
        let waiter = scope.spawn(|| {
            let mut waiting = waiting;
            w.runtime.wait_queue(&mut waiting, 7).unwrap();
        });
        scope.spawn(|| {
            for device in [0, 1] {
                // The same device in another queue, and another device.
                let mut t = LocalThread::default();
                w.runtime.set_device_num(&mut t, device, DeviceType::Cpu).unwrap();
                w.runtime.copyin(&mut t, B, LEN, SYNC).unwrap();
                call(&[(FORCE_PRESENT, LEN, B)], |e| {
                    w.runtime.parallel(&mut t, -1, REGION, e, &Tags::decode([0x2000_0001, 0]))
                })
                .0
                .unwrap();
                w.runtime.wait_queue(&mut t, 1).unwrap();
                w.runtime.copyout(&mut t, B, LEN, SYNC, false).unwrap();
            }
            say.send(()).unwrap();
        });
        let received = hear.recv_timeout(GIVE_UP);
        assert!(!waiter.is_finished());
        barrier.wait();
        received.expect("the second thread finishes while the first one waits");
    });
    w.assert_empty();
}

#[test]
fn many_threads_on_one_device_lose_nothing() {
    let w = World::new();
    w.kernel(REGION, |k| {
        let mut value = k.read(k.slots[0], 8);
        value[0] += 1;
        k.write(k.slots[0], &value);
    });
    std::thread::scope(|scope| {
        for thread in 0..6usize {
            let w = &w;
            scope.spawn(move || {
                let mut t = LocalThread::default();
                let own = A + thread * 0x1_0000;
                let queue = [0x2000_0000 | thread as u32, 0];
                for round in 0..50u8 {
                    w.put(own, &[round; 5000]);
                    let shared = [(TO, 6000, B), (TOFROM, 5000, own)];
                    call(&shared, |e| w.runtime.enter_data(&mut t, -1, e, SYNC, &[])).0.unwrap();
                    for _ in 0..3 {
                        call(&[(FORCE_PRESENT, 5000, own)], |e| {
                            w.runtime.parallel(&mut t, -1, REGION, e, &Tags::decode(queue.iter().copied()))
                        })
                        .0
                        .unwrap();
                    }
                    let exit = [(FROM, 5000, own), (RELEASE, 6000, B)];
                    call(&exit, |e| w.runtime.exit_data(&mut t, -1, e, thread as i32, &[])).0.unwrap();
                    w.runtime.wait_queue(&mut t, thread as i32).unwrap();
                    assert_eq!(w.get(own, 2), [round + 3, round]);
                }
            });
        }
    });
    w.assert_empty();
}

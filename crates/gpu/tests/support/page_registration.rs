//! Page-locked arrays, and memory that the program itself has pinned.

use super::{Case, Test, device, device_with, double_slowly, range};
use crate::support::fake;
use accord_device::{CopySink, CopySource, Device, NativeHandles};
use accord_gpu::{CudaDevice, inventory};
use accord_types::{DevicePtr, HostRange, NodeId, QueueId, ReadWhen, Result, Seq, StreamId};
use std::time::{Duration, Instant};

pub(crate) const TESTS: [Case; 9] = [
    ("memory_that_the_caller_may_change_is_not_read_later", read_before_return),
    ("copies_out_land_in_their_order", landing_order),
    ("locked_arrays_go_both_ways", both_ways),
    ("arrays_are_unlocked_after_their_copies", unlocked_after_copies),
    ("a_lock_that_is_given_up_at_once_is_gone", given_up_at_once),
    ("devices_share_locks", shared_locks),
    ("arrays_that_cant_be_locked_are_left_alone", left_alone),
    ("nothing_is_locked_in_a_fork", forks),
    ("locks_come_and_go_while_others_copy", come_and_go),
];

/// Arrays are filled, because untouched pages are not locked.
const MIB: usize = 1 << 20;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed * 13) as u8).collect()
}

/// Whether the middle of an array is locked.
fn is_locked(device: &CudaDevice, array: &[u8]) -> bool {
    fake::knows(device.context(), range(array).start + array.len() / 2)
}

/// Locks an array, which happens in the background.
fn lock(device: &CudaDevice, array: &[u8]) -> Test {
    device.register_pages(range(array));
    let late = Instant::now() + Duration::from_secs(20);
    while !is_locked(device, array) {
        if Instant::now() > late {
            return Err("the array is not locked".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The driver records it a moment before Accord does.
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

fn copy_in(device: &CudaDevice, stream: StreamId, at: DevicePtr, from: HostRange) -> Result<Seq> {
    device.copy_in(stream, at, from.len as u64, CopySource::program(from, false))
}

fn copy_out(device: &CudaDevice, stream: StreamId, at: DevicePtr, to: HostRange) -> Result<Seq> {
    device.copy_out(stream, at, to.len as u64, CopySink::program(to, to.len <= 64 << 10))
}

/// Copies memory that the caller may change after the return, as the link does.
fn take(device: &CudaDevice, stream: StreamId, at: DevicePtr, from: HostRange) -> Test {
    device.copy_in_program(stream, at, from, ReadWhen::BeforeReturn)?;
    Ok(())
}

pub(super) fn read_before_return() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    let pinned = fake::pin(device.context(), 8 * MIB);
    let (mut pageable, mut locked) = (vec![1; 8 * MIB], vec![1; 8 * MIB]);
    lock(&device, &locked)?;
    for (name, memory) in [("pageable", &mut pageable[..]), ("pinned", pinned), ("locked", &mut locked[..])] {
        for queue in [QueueId::SYNC, QueueId(3)] {
            let stream = device.create_stream(queue)?;
            for (len, start) in [(9000, 0), (9000, 3 * MIB), (300_000, 5), (3 * MIB, 4096), (8 * MIB, 0)] {
                let part = HostRange { start: range(memory).start + start, len: len.min(8 * MIB - start) };
                memory.fill(1);
                // The device is busy, so that it reaches the copy after the call has returned.
                double_slowly(&device, stream, at, 0.0)?;
                take(&device, stream, at.offset(4096), part)?;
                memory.fill(2);
                let back = vec![0; part.len];
                let seq = copy_out(&device, stream, at.offset(4096), range(&back))?;
                device.synchronize(stream, seq)?;
                assert!(
                    back.iter().all(|byte| *byte == 1),
                    "{len} bytes of {name} memory were read after the call, queue {queue}"
                );
            }
        }
    }
    device.unregister_pages(None, range(&locked))?;
    Ok(())
}

pub(super) fn landing_order() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let (pageable, locked) = (vec![1; 6 * MIB], vec![1; 6 * MIB]);
    lock(&device, &locked)?;
    let pinned: &[u8] = fake::pin(device.context(), 6 * MIB);
    for memory in [&pageable[..], &locked, pinned] {
        let old = pattern(6 * MIB, 1);
        let new = pattern(6 * MIB, 2);
        for (first, second) in [(1000, 6 * MIB), (6 * MIB, 1000), (3 * MIB, 6 * MIB), (100_000, 200_000)] {
            take(&device, stream, at, range(&old))?;
            // Without a wait in between: the bytes of the last copy out must stay.
            copy_out(&device, stream, at, HostRange { len: first, ..range(memory) })?;
            take(&device, stream, at, range(&new))?;
            let seq = copy_out(&device, stream, at, HostRange { len: second, ..range(memory) })?;
            device.synchronize(stream, seq)?;
            let (shorter, longer) = (first.min(second), first.max(second));
            assert!(memory[..shorter] == new[..shorter], "{first} and then {second} bytes came in the wrong order");
            assert!(memory[shorter..longer] == if first < second { &new } else { &old }[shorter..longer]);
            // And back from there, by the same stream and another one that waits.
            let seq = copy_out(&device, stream, at, HostRange { len: 10_000, ..range(memory) })?;
            let other = device.create_stream(QueueId(2))?;
            device.wait_stream(other, stream, seq)?;
            let seq = copy_in(&device, other, at.offset(8 << 20), HostRange { len: 2 * MIB, ..range(memory) })?;
            device.synchronize(other, seq)?;
            let back = vec![0; 10_000];
            let seq = copy_out(&device, other, at.offset(8 << 20), range(&back))?;
            device.synchronize(other, seq)?;
            assert!(back == new[..10_000]);
        }
    }
    device.unregister_pages(None, range(&locked))?;
    Ok(())
}

pub(super) fn both_ways() -> Test {
    let device = device()?;
    let streams = [device.create_stream(QueueId::SYNC)?, device.create_stream(QueueId(1))?];
    let at = device.addresses().0;
    // Neither end is on a page boundary.
    let memory = pattern(9 * MIB + 77, 0);
    let array = &memory[33..9 * MIB + 50];
    lock(&device, array)?;
    for (round, (start, len)) in
        [(0, array.len()), (1, array.len() - 1), (5000, 3 * MIB), (0, 100), (4000, 9000), (array.len() - 9000, 9000)]
            .into_iter()
            .enumerate()
    {
        for stream in streams {
            let part = HostRange { start: range(array).start + start, len };
            let bytes = pattern(len, round + 3);
            fake::write(part, &bytes);
            double_slowly(&device, stream, at.offset(32 << 20), 0.0)?;
            copy_in(&device, stream, at, part)?;
            let seq = device.copy(stream, at.offset(10 << 20), at, len as u64)?;
            device.synchronize(stream, seq)?;
            fake::write(part, &vec![0; len]);
            double_slowly(&device, stream, at.offset(32 << 20), 0.0)?;
            let seq = copy_out(&device, stream, at.offset(10 << 20), part)?;
            device.synchronize(stream, seq)?;
            assert!(array[start..start + len] == bytes, "{len} bytes from {start} came back changed");
        }
    }
    // Longer than a piece that is locked at a time.
    let (long, part) = (vec![3; 66 * MIB], vec![4; 66 * MIB]);
    device.map(at.offset(64 << 20), 128 << 20)?;
    lock(&device, &long)?;
    for stream in streams {
        copy_in(&device, stream, at.offset(64 << 20), range(&long))?;
        let seq = copy_out(&device, stream, at.offset(64 << 20), range(&part))?;
        device.synchronize(stream, seq)?;
        assert!(part == long);
        fake::write(range(&part), &vec![4; part.len()]);
        let seq = copy_in(&device, stream, at.offset(64 << 20), range(&part))?;
        device.synchronize(stream, seq)?;
        let seq = copy_out(&device, stream, at.offset(64 << 20), range(&long))?;
        device.synchronize(stream, seq)?;
        assert!(part == long);
        fake::write(range(&long), &vec![3; long.len()]);
    }
    device.unregister_pages(None, range(&long))?;
    // The program may expose a stream, and copy more than the array.
    let raw = device.expose_stream(streams[1])?;
    let seq = copy_in(&device, streams[1], at, range(&memory))?;
    fake::synchronize(device.context(), raw);
    let before = memory.clone();
    fake::write(range(&memory), &vec![0; memory.len()]);
    copy_out(&device, streams[1], at, range(&memory))?;
    fake::synchronize(device.context(), raw);
    assert!(memory == before && seq.0 > 0);
    device.unregister_pages(None, range(array))?;
    assert!(!is_locked(&device, array));
    Ok(())
}

pub(super) fn unlocked_after_copies() -> Test {
    let device = device()?;
    let (one, two) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    let at = device.addresses().0;
    let bytes = pattern(4 * MIB, 5);
    take(&device, one, at, range(&bytes))?;
    // In a queue, after the copy out.
    let array = vec![1; 4 * MIB];
    lock(&device, &array)?;
    double_slowly(&device, one, at.offset(32 << 20), 0.0)?;
    copy_out(&device, one, at, range(&array))?;
    let seq = device.unregister_pages(Some(one), range(&array))?.ok_or("it was locked")?;
    device.synchronize(one, seq)?;
    assert!(array == bytes && !is_locked(&device, &array));
    // Before the call returns, although another queue uses the array.
    lock(&device, &array)?;
    double_slowly(&device, two, at.offset(32 << 20), 0.0)?;
    copy_in(&device, two, at.offset(8 << 20), range(&array))?;
    assert_eq!(device.unregister_pages(None, range(&array))?, None);
    assert!(!is_locked(&device, &array));
    drop(array);
    let back = vec![0; 4 * MIB];
    let seq = copy_out(&device, two, at.offset(8 << 20), range(&back))?;
    device.synchronize(two, seq)?;
    assert!(back == bytes);
    // By a queue that did not use the array, for one that did.
    lock(&device, &back)?;
    double_slowly(&device, two, at.offset(32 << 20), 0.0)?;
    copy_in(&device, two, at.offset(8 << 20), range(&back))?;
    let seq = device.unregister_pages(Some(one), range(&back))?.ok_or("it was locked")?;
    device.synchronize(one, seq)?;
    assert!(!is_locked(&device, &back));
    // By the end of the device.
    lock(&device, &back)?;
    double_slowly(&device, two, at.offset(32 << 20), 0.0)?;
    copy_in(&device, two, at.offset(8 << 20), range(&back))?;
    let context = device.context();
    device.shutdown();
    let next = super::device()?;
    assert_eq!(next.context(), context);
    assert!(!is_locked(&next, &back));
    Ok(())
}

pub(super) fn given_up_at_once() -> Test {
    let device = device()?;
    for _ in 0..50 {
        let array = vec![1; 2 * MIB];
        device.register_pages(range(&array));
        device.unregister_pages(None, range(&array))?;
        assert!(!is_locked(&device, &array));
    }
    Ok(())
}

pub(super) fn shared_locks() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    let (one, two) = (device()?, device_with(1, super::REGIONS, None)?);
    let stream = two.create_stream(QueueId(1))?;
    let array = pattern(4 * MIB, 1);
    lock(&one, &array)?;
    two.register_pages(range(&array));
    one.unregister_pages(None, range(&array))?;
    assert!(is_locked(&two, &array), "the other has it still");
    one.register_pages(range(&array));
    one.shutdown();
    assert!(is_locked(&two, &array), "the other has it still");
    let at = two.addresses().0;
    copy_in(&two, stream, at, range(&array))?;
    let back = vec![0; array.len()];
    let seq = copy_out(&two, stream, at, range(&back))?;
    two.synchronize(stream, seq)?;
    assert!(back == array);
    two.unregister_pages(None, range(&array))?;
    assert!(!is_locked(&two, &array));
    Ok(())
}

pub(super) fn left_alone() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    // Locked by the program, or in part by other code.
    let pinned: &[u8] = fake::pin(device.context(), 4 * MIB);
    device.register_pages(range(pinned));
    let array = pattern(6 * MIB, 1);
    let (part, other) = (&array[..4 * MIB], &array[2 * MIB..]);
    lock(&device, part)?;
    device.register_pages(range(other));
    // Untouched pages stay untouched.
    let untouched: Vec<u8> = vec![0; 64 * MIB];
    device.register_pages(range(&untouched));
    // In the order of the requests.
    let last = vec![1; 2 * MIB];
    lock(&device, &last)?;
    device.unregister_pages(None, range(&last))?;
    assert!(!is_locked(&device, &untouched));
    for memory in [pinned, other, &array, &untouched] {
        let bytes = memory.to_vec();
        copy_in(&device, stream, at, range(memory))?;
        let back = vec![0; bytes.len()];
        let seq = copy_out(&device, stream, at, range(&back))?;
        device.synchronize(stream, seq)?;
        assert!(back == bytes);
        device.unregister_pages(None, range(memory))?;
    }
    assert!(fake::knows(device.context(), range(pinned).start), "it was the program's");
    assert!(is_locked(&device, &part[..2 * MIB]));
    device.unregister_pages(None, range(part))?;
    assert!(!is_locked(&device, part));
    Ok(())
}

pub(super) fn forks() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let (array, later) = (pattern(4 * MIB, 1), pattern(4 * MIB, 2));
    lock(&device, &array)?;
    double_slowly(&device, stream, at.offset(32 << 20), 0.0)?;
    copy_in(&device, stream, at, range(&array))?;
    fake::fork();
    assert!(!is_locked(&device, &array));
    let back = vec![0; array.len()];
    let seq = copy_out(&device, stream, at, range(&back))?;
    device.synchronize(stream, seq)?;
    assert!(back == array);
    // While one is about to be unlocked.
    lock(&device, &later)?;
    double_slowly(&device, stream, at.offset(32 << 20), 0.0)?;
    copy_out(&device, stream, at, range(&later))?;
    let seq = device.unregister_pages(Some(stream), range(&later))?.ok_or("it was locked")?;
    fake::fork();
    assert!(!is_locked(&device, &later));
    device.synchronize(stream, seq)?;
    assert!(later == array);
    lock(&device, &later)?;
    for array in [&array, &later] {
        device.unregister_pages(None, range(array))?;
        assert!(!is_locked(&device, array));
    }
    Ok(())
}

pub(super) fn come_and_go() -> Test {
    const THREADS: usize = 3;
    let device = device()?;
    let at = device.addresses().0;
    // Adjacent arrays share pages.
    let memory = vec![1; THREADS * (MIB + 100)];
    let work = |thread: usize| -> Test {
        let stream = device.create_stream(QueueId(thread as u32 + 1))?;
        let place = at.offset((thread * 4 * MIB) as u64);
        let array = &memory[thread * (MIB + 100)..][..MIB + 100];
        let slow = at.offset(32 << 20);
        for round in 0..40 {
            device.register_pages(range(array));
            for copy in 0..4 {
                let start = (round * 7919 + copy * 104_729) % MIB;
                let len = (round * 31 + copy * 200_003) % (MIB + 100 - start) + 1;
                let part = HostRange { start: range(array).start + start, len };
                let bytes = pattern(len, round + copy);
                fake::write(part, &bytes);
                if copy == 2 && round % 8 == 0 {
                    double_slowly(&device, stream, slow, 0.0)?;
                }
                take(&device, stream, place, part)?;
                fake::write(part, &vec![0; len]);
                let seq = copy_out(&device, stream, place, part)?;
                if copy < 3 {
                    device.synchronize(stream, seq)?;
                    assert!(array[start..start + len] == bytes, "{len} bytes came back changed");
                } else {
                    let seq = device.unregister_pages(Some(stream), range(array))?.unwrap_or(seq);
                    device.synchronize(stream, seq)?;
                    assert!(array[start..start + len] == bytes, "{len} bytes came back changed in the end");
                }
            }
            assert!(!is_locked(&device, array));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread has panicked")?)
    })
}

pub(super) fn never_again() -> Test {
    let device = device()?;
    if !fake::is_loaded() {
        println!("skipped: a real driver can lock memory");
        return Ok(());
    }
    const NOT_SUPPORTED: i32 = 801;
    fake::fail("cuMemHostRegister_v2", 0, NOT_SUPPORTED);
    for _ in 0..3 {
        let array = vec![1; 2 * MIB];
        device.register_pages(range(&array));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!is_locked(&device, &array));
        device.unregister_pages(None, range(&array))?;
    }
    Ok(())
}

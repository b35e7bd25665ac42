//! Small copies in a row, which are merged into one.

use super::{Test, add, device, doubles, fake, range};
use accord_device::{CopySink, Device, NativeHandles};
use accord_gpu::CudaDevice;
use accord_types::{DevicePtr, HostRange, QueueId, ReadWhen, Result, Seq, StreamId};
use std::time::{Duration, Instant};

const ROWS: usize = 300;
const LEN: usize = 160;
const DISTANCE: usize = 400;

fn part(bytes: &[u8], at: usize, len: usize) -> HostRange {
    range(&bytes[at..at + len])
}

/// Copies a row of an array to its place on the device.
fn row_in(device: &CudaDevice, stream: StreamId, base: DevicePtr, array: &[u8], at: usize, len: usize) -> Result<Seq> {
    device.copy_in_program(stream, base.offset(at as u64), part(array, at, len), ReadWhen::InOrder)
}

fn row_out(device: &CudaDevice, stream: StreamId, base: DevicePtr, array: &[u8], at: usize, len: usize) -> Result<Seq> {
    device.copy_out(stream, base.offset(at as u64), len as u64, CopySink::program(part(array, at, len), true))
}

fn whole(device: &CudaDevice, stream: StreamId, base: DevicePtr, len: usize) -> Result<Vec<u8>> {
    let found = vec![0u8; len];
    let seq = device.copy_out(stream, base, len as u64, CopySink::program(range(&found), true))?;
    device.synchronize(stream, seq)?;
    Ok(found)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 11 + i / 253 + 1) as u8).collect()
}

/// Bytes between the rows stay unchanged on both sides, and few copies are issued.
pub(super) fn together() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let stream = device.create_stream(QueueId(1))?;
    let array = pattern(ROWS * DISTANCE);
    device.store(stream, base, &vec![7; array.len()])?;
    let before = fake::row_copies();
    for row in 0..ROWS {
        row_in(&device, stream, base, &array, row * DISTANCE, LEN)?;
    }
    let found = whole(&device, stream, base, array.len())?;
    for (at, (found, sent)) in found.iter().zip(&array).enumerate() {
        assert_eq!(*found, if at % DISTANCE < LEN { *sent } else { 7 }, "byte {at} on the device");
    }
    let back = vec![3u8; array.len()];
    let mut last = Seq(0);
    for row in 0..ROWS {
        last = row_out(&device, stream, base, &back, row * DISTANCE, LEN)?;
    }
    device.synchronize(stream, last)?;
    for (at, (found, sent)) in back.iter().zip(&array).enumerate() {
        assert_eq!(*found, if at % DISTANCE < LEN { *sent } else { 3 }, "byte {at} of the program");
    }
    // 64 KiB hold all copies of the series but the first two, which were not yet recognised as its part.
    assert_eq!(fake::row_copies() - before, if fake::is_loaded() { 2 } else { 0 });
    Ok(())
}

/// Bytes that arrived on a connection.
pub(super) fn that_are_handed_over() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let stream = device.create_stream(QueueId(1))?;
    let (array, before) = (pattern(ROWS * DISTANCE), fake::row_copies());
    device.store(stream, base, &vec![7; array.len()])?;
    for row in 0..ROWS {
        device.store(stream, base.offset((row * DISTANCE) as u64), &array[row * DISTANCE..][..LEN])?;
    }
    let found = whole(&device, stream, base, array.len())?;
    for (at, (found, sent)) in found.iter().zip(&array).enumerate() {
        assert_eq!(*found, if at % DISTANCE < LEN { *sent } else { 7 }, "byte {at} on the device");
    }
    assert_eq!(fake::row_copies() - before, u32::from(fake::is_loaded()));
    Ok(())
}

/// The synchronous queue's copies are with the driver when the call returns.
pub(super) fn never_of_synchronous_calls() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let stream = device.create_stream(QueueId::SYNC)?;
    let (array, before) = (pattern(ROWS * DISTANCE), fake::row_copies());
    for row in 0..ROWS {
        let (at, from) = (base.offset((row * DISTANCE) as u64), part(&array, row * DISTANCE, LEN));
        device.copy_in_program(stream, at, from, ReadWhen::BeforeReturn)?;
        device.store(stream, at, &array[row * DISTANCE..][..LEN])?;
        row_in(&device, stream, base, &array, row * DISTANCE, LEN)?;
    }
    assert_eq!(fake::row_copies(), before);
    Ok(())
}

/// Regions see the bytes of earlier copies, and copies out the results of earlier regions. A wait for an early copy completes
/// it.
pub(super) fn in_order() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let streams = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let numbers = |from: usize| doubles((0..ROWS * 4).map(|i| (from + i) as f64));
    for round in 0..20 {
        let sent = numbers(round);
        for row in 0..ROWS {
            row_in(&device, streams[0], base, &sent, row * 32, 8 + round % 3 * 8)?;
        }
        add(&device, streams[0], base, (ROWS * 4) as i32, 0.5)?;
        let back = vec![0u8; sent.len()];
        let rows: Vec<Seq> =
            (0..ROWS).map(|row| row_out(&device, streams[0], base, &back, row * 32, 8)).collect::<Result<_>>()?;
        let nth = [0, 2, 50, ROWS - 1][round % 4];
        match round % 3 {
            0 => device.synchronize(streams[0], rows[nth])?,
            // Only queries are made.
            1 => {
                let late = Instant::now() + Duration::from_secs(20);
                while !device.reached(streams[0], rows[nth])? {
                    assert!(Instant::now() < late, "round {round}: nothing arrives");
                }
            }
            _ => {
                let after = device.wait_stream(streams[1], streams[0], rows[nth])?;
                device.synchronize(streams[1], after)?;
            }
        }
        for row in 0..=nth {
            assert_eq!(back[row * 32..][..8], doubles([(round + row * 4) as f64 + 0.5]), "round {round}, row {row}");
        }
        device.synchronize(streams[0], rows[ROWS - 1])?;
    }
    Ok(())
}

/// A wait for one stream also issues the copies that another one holds back, because a region of the first may wait for them.
pub(super) fn when_another_stream_is_waited_for() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let streams = [device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?];
    let (array, before) = (pattern(ROWS * DISTANCE), fake::row_copies());
    for row in 0..5 {
        row_in(&device, streams[0], base, &array, row * DISTANCE, LEN)?;
    }
    assert_eq!(fake::row_copies(), before);
    let seq = device.store(streams[1], base.offset(1 << 20), &[1; 8])?;
    device.synchronize(streams[1], seq)?;
    assert_eq!(fake::row_copies() - before, u32::from(fake::is_loaded()));
    Ok(())
}

/// Memory was mapped in two steps, as two pieces of the driver.
pub(super) fn across_pieces() -> Test {
    const PIECE: u64 = 64 << 20;
    let device = device()?;
    let base = device.addresses().0;
    device.map(base.offset(PIECE), 2 << 20)?;
    let stream = device.create_stream(QueueId(1))?;
    let (from, array) = (base.offset(PIECE - 50 * DISTANCE as u64 - 77), pattern(100 * DISTANCE));
    for row in 0..100 {
        row_in(&device, stream, from, &array, row * DISTANCE, LEN)?;
    }
    let back = vec![0u8; array.len()];
    let mut last = Seq(0);
    for row in 0..100 {
        last = row_out(&device, stream, from, &back, row * DISTANCE, LEN)?;
    }
    device.synchronize(stream, last)?;
    for row in 0..100 {
        assert_eq!(back[row * DISTANCE..][..LEN], array[row * DISTANCE..][..LEN], "row {row}");
    }
    Ok(())
}

/// Rows of memory that the device's engines can access are read in their turn, because a region may write there.
pub(super) fn never_of_pinned_memory() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    let stream = device.create_stream(QueueId(1))?;
    let pinned = fake::pin(device.context(), ROWS * DISTANCE);
    pinned.fill(5);
    let before = fake::row_copies();
    for row in 0..ROWS {
        row_in(&device, stream, base, pinned, row * DISTANCE, LEN)?;
    }
    assert_eq!(fake::row_copies(), before);
    assert_eq!(whole(&device, stream, base, LEN)?, [5; LEN]);
    Ok(())
}

/// A copy that the driver refuses fails the stream for every waiter, and blocks none for ever.
pub(super) fn refused() -> Test {
    let device = device()?;
    let base = device.addresses().0;
    for (queue, waited) in [(1, true), (2, false)] {
        let stream = device.create_stream(QueueId(queue))?;
        let array = pattern(ROWS * DISTANCE);
        let mut last = Seq(0);
        for row in 0..5 {
            last = row_out(&device, stream, base, &array, row * DISTANCE, LEN)?;
        }
        fake::fail("cuMemcpy2DAsync_v2", 0, 1);
        let first =
            if waited { device.synchronize(stream, last) } else { device.store(stream, base, &[1; 8]).map(drop) };
        let error = first.expect_err("the driver refused");
        assert!(error.to_string().contains("cuMemcpy2DAsync_v2"), "{error}");
        assert!(device.synchronize(stream, last).is_err());
    }
    Ok(())
}

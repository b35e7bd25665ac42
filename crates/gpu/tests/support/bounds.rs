//! A program that is faster than a host operation ahead of its work: it blocks, and its memory is not filled.

use super::{Test, device, double_slowly, range, spec};
use crate::then::then;
use accord_device::stream::{COMPLETIONS_MAX, PENDING_BYTES_MAX, PENDING_MAX};
use accord_device::{CopySink, Device, MovesWhen, Sink};
use accord_types::{ArgBlock, DevicePtr, ErrorCode, LaunchDims, QueueId, Result, Seq, StreamId};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time limit of any expected event.
const PATIENT: Duration = Duration::from_secs(30);

/// Blocks a stream until it is released.
fn hold(device: &dyn Device, stream: StreamId) -> Result<Sender<()>> {
    let (go, wait) = channel::<()>();
    let held = move || {
        let _ = wait.recv();
        Ok(())
    };
    then(device, stream, (device.addresses().0, 1), held)?;
    Ok(go)
}

/// Returns the value at which a counter stops.
fn stands_at(count: &AtomicUsize) -> usize {
    let start = Instant::now();
    let mut last = count.load(Ordering::Relaxed);
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let now = count.load(Ordering::Relaxed);
        if (now == last && now > 0) || start.elapsed() > PATIENT {
            return now;
        }
        last = now;
    }
}

/// Enqueues `many` operations by `put`, in a thread of its own.
fn putting(
    many: usize,
    mut put: impl FnMut(usize) -> Result<Seq> + Send + 'static,
) -> (Arc<AtomicUsize>, std::thread::JoinHandle<Result<Seq>>) {
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    let thread = std::thread::spawn(move || {
        let mut last = Seq(0);
        for index in 0..many {
            last = put(index)?;
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(last)
    });
    (count, thread)
}

pub(crate) fn held() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    for (len, most) in [(8, PENDING_MAX), (32 << 10, PENDING_BYTES_MAX / (32 << 10))] {
        let (stream, other) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
        let go = hold(&*device, stream)?;
        let many = 2 * most + 7;
        let (count, thread) = putting(many, {
            let device = device.clone();
            move |index| device.store(stream, at, &vec![index as u8; len])
        });
        let stood = stands_at(&count);
        assert!(stood <= most, "{stood} operations of {len} bytes wait, of {most}");
        assert!(stood > most / 2, "{stood} operations of {len} bytes wait, of {most}");
        // Other streams continue.
        let seq = device.store(other, DevicePtr(at.0 + 65536), &[1; 8])?;
        device.synchronize(other, seq)?;

        go.send(()).map_err(|_| "no thread waits")?;
        let last = thread.join().map_err(|_| "the thread has panicked")??;
        device.synchronize(stream, last)?;
        assert_eq!(super::read(&*device, stream, at, 8)?, [(many - 1) as u8; 8]);
    }
    Ok(())
}

/// A network that accepts no bytes until it is released.
struct Slow(Arc<Mutex<Receiver<()>>>);

impl Sink for Slow {
    fn drain(&mut self, _: &[u8]) -> Result<()> {
        // The other end is gone then.
        let _ = self.0.lock().map(|open| open.recv());
        Ok(())
    }
}

/// Copies out whose bytes wait for a network, and empty ones, which need no memory for bytes.
pub(crate) fn held_by_network() -> Test {
    for empty in [false, true] {
        let device = device()?;
        let at = device.addresses().0;
        let stream = device.create_stream(QueueId(1))?;
        let (close, open) = channel::<()>();
        let open = Arc::new(Mutex::new(open));
        let (count, thread) = putting(3 * PENDING_MAX, {
            let device = device.clone();
            move |index| {
                let len = if empty && index > 0 { 0 } else { 64 };
                device.copy_out(stream, at, len, CopySink::when(MovesWhen::Detached, Slow(open.clone())))
            }
        });
        let stood = stands_at(&count);
        assert!(stood <= PENDING_MAX + 512, "empty: {empty}: {stood} copies wait");
        drop(close);
        let last = thread.join().map_err(|_| "the thread has panicked")??;
        device.synchronize(stream, last)?;
    }
    Ok(())
}

/// Regions of 20 to 30 ms.
const SLOW_REGIONS: usize = 100;

/// A stream is repeatedly made to wait for another one, and the program waits for neither.
pub(crate) fn waits_for_streams() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    let (first, second) = (device.create_stream(QueueId(1))?, device.create_stream(QueueId(2))?);
    // Takes some seconds, so that no wait is over while the others are enqueued.
    for _ in 0..SLOW_REGIONS {
        double_slowly(&device, first, at, 0.0)?;
    }
    let bytes = [1; 64];
    let seq = device.copy_out(first, at, bytes.len() as u64, CopySink::program(range(&bytes), false))?;
    let (count, thread) = putting(3 * COMPLETIONS_MAX, {
        let device = device.clone();
        move |_| device.wait_stream(second, first, seq)
    });
    loop {
        // Operations enqueued before the stream got there.
        let put = count.load(Ordering::SeqCst);
        if device.reached(first, seq)? {
            break;
        }
        assert!(put <= COMPLETIONS_MAX, "{put} waits are remembered");
        std::thread::sleep(Duration::from_millis(1));
    }
    let last = thread.join().map_err(|_| "the thread has panicked")??;
    device.synchronize(second, last)?;
    let there = super::read(&*device, first, at, bytes.len() as u64)?;
    assert_eq!(std::hint::black_box(&bytes)[..], there);
    Ok(())
}

/// A caller blocked on a full list gets an error when the device ends.
pub(crate) fn ended() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    let stream = device.create_stream(QueueId(1))?;
    let go = hold(&*device, stream)?;
    let (count, thread) = putting(usize::MAX, {
        let device = device.clone();
        move |_| device.store(stream, at, &[1; 8])
    });
    stands_at(&count);
    let ending = std::thread::spawn(move || device.shutdown());
    std::thread::sleep(Duration::from_millis(50));
    drop(go);
    let error = thread.join().map_err(|_| "the thread has panicked")?.expect_err("the device has ended");
    assert_eq!(error.code(), ErrorCode::DeviceShutdown);
    ending.join().map_err(|_| "the thread has panicked")?;
    Ok(())
}

/// More threads than a stream's list holds launch concurrently, each as if it held a lock. A separate query for space is not enough, because all of them may
/// get a positive answer.
pub(crate) fn launches_that_must_not_wait() -> Test {
    const THREADS: usize = 16;
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let nothing = device.function(&spec("nothing"))?;
    let (go, held) = channel::<()>();
    then(&*device, stream, (device.addresses().0, 1), move || {
        let _ = held.recv();
        Ok(())
    })?;
    let each = PENDING_MAX / THREADS + 1;
    let (done, launched) = channel();
    for _ in 0..THREADS {
        let (device, done) = (device.clone(), done.clone());
        std::thread::spawn(move || {
            let block = ArgBlock { bytes: &[], slots: 0, relative: &[] };
            let launch = |_| device.try_launch(stream, nothing, LaunchDims::default(), block);
            let _ = done.send((0..each).map(launch).collect::<Result<Vec<_>>>());
        });
    }
    let all: Vec<_> = (0..THREADS).map_while(|_| launched.recv_timeout(Duration::from_secs(10)).ok()).collect();
    go.send(()).map_err(|_| "no thread waits")?;
    assert_eq!(all.len(), THREADS, "some wait");
    let all = all.into_iter().collect::<Result<Vec<_>>>()?.concat();
    let put: Vec<_> = all.iter().flatten().copied().collect();
    assert!(put.len() < all.len() && put.len() >= PENDING_MAX - 1, "{} of {} are put in", put.len(), all.len());
    device.synchronize(stream, put.into_iter().max().ok_or("none")?)?;
    assert!(
        device
            .try_launch(stream, nothing, LaunchDims::default(), ArgBlock { bytes: &[], slots: 0, relative: &[] })?
            .is_some()
    );
    Ok(())
}

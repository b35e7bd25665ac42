//! Owner and worker in one process and on one mapping, so that ThreadSanitizer sees both sides of the worker ring (`scripts/sanitize races`). It
//! identifies memory by its address, and does not see other processes.

use super::memory::DeviceMemory;
use super::serve;
use crate::any_end::CopySource;
use crate::copy_ends::Source;
use crate::cpu::arena::Arena;
use crate::cpu::owner_queue::Op;
use crate::cpu::process::Handle;
use crate::cpu::ring::{COPY, HEAD, LAUNCH, Record, STORE, STORE_BYTES_MAX, WAIT};
use crate::cpu::spans::Tracer;
use crate::cpu::stream::{Shared, Stream};
use crate::cpu::watched::Watched;
use crate::cpu::{CpuConfig, inventory, layout, stream_worker};
use crate::failure::Failure;
use accord_types::short_lock::ShortLock;
use accord_types::{AddressRange, DevicePtr, NodeId, QueueId, Result, Seq, Span, SpanSink};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// An address range that the sanitizer permits, unlike that of devices.
const PLACES: u64 = 0x10_0000_0000;
const ARENA_BYTES: u64 = 1 << 30;
/// The part of the arena that is used.
const MAPPED: u64 = 1 << 20;

/// The owner's side of a device whose worker threads are this process's. They and their memory live as long as the process.
struct Pair {
    shared: Arc<Shared>,
    slots: Arc<serve::Slots>,
    /// Shared by all streams, as in a worker.
    memory: Arc<DeviceMemory>,
    start: DevicePtr,
}

impl Pair {
    /// Creates a pair with a `number` that no other test of this process uses. Threads on one core never spin, and sleep at once.
    fn new(number: u64, cores: u32) -> Self {
        let config = CpuConfig { devices: None, memory: Some(MAPPED) };
        let info = &inventory(NodeId(0), "here", &config)[0];
        let place = AddressRange { start: DevicePtr(PLACES + number * ARENA_BYTES), len: ARENA_BYTES };
        let arena = Arc::new(Arena::new(info, Some(place)).expect("address space"));
        // The threads never end.
        let _ = Arc::into_raw(Arc::clone(&arena));
        arena.map(place.start, MAPPED).unwrap();
        let control = arena.control();
        let (start, len) = arena.addresses();
        let memory = Arc::new(DeviceMemory::new(control, start.0, len));
        control.header().cores.store(cores, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            control,
            arena,
            failure: Failure::default(),
            tracer: Tracer::new(info.id),
            run: stream_worker::run,
            perform: stream_worker::perform,
            output: None,
            watched: Watched::new(None, Arc::new(Handle::of_no_process()), "the worker".to_owned()),
        });
        Self { shared, slots: Arc::new(serve::Slots::new(2)), memory, start: place.start }
    }

    fn stream(&self, index: u32) -> Arc<Stream> {
        let stream = Stream::new(index, QueueId(index + 1), Arc::clone(&self.shared));
        serve::start(self.shared.control, index, Arc::clone(&self.slots), Arc::clone(&self.memory)).unwrap();
        stream
    }

    /// Returns the worker's address of the byte at this offset of the device's memory.
    fn at(&self, offset: u64) -> u64 {
        self.shared.arena.translate(self.start.offset(offset), 1).unwrap() as u64
    }

    fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let from = self.shared.arena.translate(self.start.offset(offset), len as u64).unwrap();
        // SAFETY: `translate` checked the range, and the caller has waited for all that writes there.
        unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
    }
}

fn record(kind: u32, a: u64, b: u64, c: u64) -> Record {
    Record { bytes: 0, kind, seq: 0, after: 0, a, b, c }
}

fn store(stream: &Arc<Stream>, to: u64, bytes: &[u8]) -> Seq {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    stream.push_worker(record(STORE, to, 0, bytes.len() as u64), first, second, None).unwrap()
}

/// A block of two words, of which none is relative.
fn launch(stream: &Arc<Stream>, function: extern "C" fn(*mut u8), words: [u64; 2]) -> Seq {
    let block: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    stream.push_worker(record(LAUNCH, function as usize as u64, 0, 16), &block, &[0; 8], None).unwrap()
}

/// Adds the second word to the number at the address in the first.
extern "C" fn add(block: *mut u8) {
    // SAFETY: `launch` passes a block of two words, and the first is the address of device memory.
    unsafe {
        let [at, more] = block.cast::<[u64; 2]>().read();
        let number = at as *mut u64;
        number.write(number.read() + more);
    }
}

/// A region that sleeps for so many microseconds.
extern "C" fn pause(block: *mut u8) {
    // SAFETY: as above.
    let [micros, _] = unsafe { block.cast::<[u64; 2]>().read() };
    std::thread::sleep(Duration::from_micros(micros));
}

/// Bytes that the owner writes to the device's memory, in the stream's order.
struct Fill(Vec<u8>);

impl Source for Fill {
    fn fill(&mut self, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&self.0);
        Ok(())
    }
}

/// Payloads of length 0, around multiples of 16, and up to the largest. They wrap around the ring many times.
fn records_of_all_sizes_arrive(number: u64, cores: u32) {
    let pair = Pair::new(number, cores);
    let stream = pair.stream(0);
    let few = [0, 1, 15, 16, 17, 4096 - HEAD, 4096, STORE_BYTES_MAX - 1, STORE_BYTES_MAX];
    let mut sent = 0;
    for round in 0..30u8 {
        for (at, len) in few.into_iter().chain([usize::from(round) * 997]).enumerate() {
            let bytes: Vec<u8> = (0..len).map(|byte| byte as u8 ^ round ^ at as u8).collect();
            store(&stream, pair.at(0), &bytes);
            let copied = stream.push_worker(record(COPY, pair.at(1 << 18), pair.at(0), len as u64), &[], &[], None);
            sent += len;
            if round % 3 == 0 {
                stream.synchronize(copied.unwrap()).unwrap();
                assert_eq!(pair.bytes(1 << 18, len), bytes, "{len} bytes");
            }
        }
    }
    stream.synchronize(stream.last()).unwrap();
    assert!(sent > 4 * layout::RING_BYTES, "{sent} bytes do not go around the ring");
}

#[test]
fn records_of_all_sizes_arrive_at_a_worker_that_looks() {
    records_of_all_sizes_arrive(0, 8);
}

#[test]
fn records_of_all_sizes_arrive_at_a_worker_that_sleeps() {
    records_of_all_sizes_arrive(1, 1);
}

#[test]
fn a_full_ring_makes_the_owner_wait_and_loses_nothing() {
    let pair = Pair::new(2, 1);
    let stream = pair.stream(0);
    for _ in 0..3 {
        launch(&stream, pause, [20_000, 0]);
        for _ in 0..40 {
            store(&stream, pair.at(8), &[7; STORE_BYTES_MAX / 2]);
            launch(&stream, add, [pair.at(0), 1]);
        }
    }
    stream.synchronize(stream.last()).unwrap();
    assert_eq!(pair.bytes(0, 8), 120u64.to_ne_bytes());
    assert_eq!(pair.bytes(8, STORE_BYTES_MAX / 2), [7; STORE_BYTES_MAX / 2]);
}

/// Each side repeatedly waits for the other: the stream is empty when the next record arrives.
#[test]
fn both_sides_sleep_and_wake() {
    let pair = Pair::new(3, 1);
    let stream = pair.stream(0);
    for round in 1..=200u64 {
        if round % 20 == 0 {
            launch(&stream, pause, [1_000, 0]);
            std::thread::sleep(Duration::from_millis(3));
        }
        let done = launch(&stream, add, [pair.at(0), 1]);
        stream.synchronize(done).unwrap();
        assert_eq!(pair.bytes(0, 8), round.to_ne_bytes());
    }
}

/// The worker's half of a stream reads what the owner's half wrote, and the reverse. A notified thread reads it too.
#[test]
fn the_halves_of_a_stream_take_turns() {
    let pair = Pair::new(4, 1);
    let stream = pair.stream(0);
    let mut expected = 0;
    for round in 0..100u64 {
        let source = CopySource::new(Fill(round.to_ne_bytes().to_vec()));
        stream.push_owner(Op::CopyIn { dst: pair.start, len: 8, source }, false).unwrap();
        launch(&stream, add, [pair.at(0), 5]);
        stream.push_worker(record(COPY, pair.at(64), pair.at(0), 8), &[], &[], None).unwrap();
        expected = round + 5;
        if round % 10 == 0 {
            let (notify, reported) = mpsc::channel();
            stream.notify(stream.last(), Box::new(move |outcome| notify.send(outcome).unwrap()));
            reported.recv().unwrap().unwrap();
            assert_eq!(pair.bytes(64, 8), expected.to_ne_bytes());
        }
    }
    stream.synchronize(stream.last()).unwrap();
    assert_eq!(pair.bytes(64, 8), expected.to_ne_bytes());
    stream.close();
}

/// Two streams pass one number back and forth.
#[test]
fn streams_wait_for_each_other() {
    let pair = Pair::new(5, 1);
    let streams = [pair.stream(0), pair.stream(1)];
    let mut before: Option<(u32, Seq)> = None;
    for turn in 0..200u32 {
        let index = turn % 2;
        let stream = &streams[index as usize];
        if let Some((other, Seq(seq))) = before {
            stream.push_worker(record(WAIT, other.into(), seq, 0), &[], &[], None).unwrap();
        }
        before = Some((index, launch(stream, add, [pair.at(0), 1])));
    }
    streams.iter().for_each(|stream| stream.synchronize(stream.last()).unwrap());
    assert_eq!(pair.bytes(0, 8), 200u64.to_ne_bytes());
}

#[derive(Default)]
struct Spans(ShortLock<Vec<u64>>);

impl SpanSink for Spans {
    fn span(&self, span: Span) {
        self.0.lock().push(span.bytes);
    }
}

#[test]
fn worker_trace_entries_are_read_once_complete() {
    /// Fewer entries than the worker may be ahead of the reader.
    const AT_ONCE: u64 = 100;
    let pair = Pair::new(6, 1);
    let spans = Arc::new(Spans::default());
    pair.shared.tracer.start(spans.clone());
    let stream = pair.stream(0);
    stream.block().tracing.store(1, Ordering::Relaxed);
    for round in 0..10 {
        for number in 0..AT_ONCE {
            store(&stream, pair.at(0), &vec![1; (round * AT_ONCE + number) as usize]);
            // Also during the run, when only the number of spans shows that they are complete.
            stream.take_spans();
        }
        stream.synchronize(stream.last()).unwrap();
    }
    assert_eq!(*spans.0.lock(), (0..10 * AT_ONCE).collect::<Vec<_>>());
}

//! A worker that writes arbitrary values to the memory it shares with its owner. The owner ends it, or accepts only plausible values. It does not
//! panic, writes only to the ring, and never takes its own work for done.

use super::arena::Arena;
use super::layout::{Control, RING_BYTES, StreamShared};
use super::owner_queue::Op;
use super::process::Handle;
use super::progress::Progress;
use super::ring::{COPY, Corrupt, HEAD, LAUNCH, Reader, Record, STORE, WAIT, Writer};
use super::spans::Tracer;
use super::stream::{Shared, Stream};
use super::watched::Watched;
use super::{CpuConfig, inventory, stream_worker};
use crate::any_end::CopySource;
use crate::copy_ends::Source;
use crate::failure::Failure;
use accord_types::{DevicePtr, ErrorCode, NodeId, QueueId, Result, Seq, Span, SpanSink};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns plausible and implausible values of a word.
fn word() -> impl Strategy<Value = u64> {
    let ring = RING_BYTES as u64;
    prop_oneof![0..600u64, ring - 64..ring + 64, u64::MAX - 64..=u64::MAX, any::<u64>()]
}

fn arena() -> Arc<Arena> {
    let config = CpuConfig { devices: None, memory: Some(1 << 20) };
    Arc::new(Arena::new(&inventory(NodeId(0), "here", &config)[0], None).unwrap())
}

/// Returns the words of a stream's block, and those of the header: all that the owner reads.
fn words(control: &Control, stream: u32) -> (&[AtomicU64], &[AtomicU64]) {
    const HEADER_WORDS: usize = 16;
    let block = std::ptr::from_ref(control.stream(stream)).cast::<AtomicU64>();
    let header = std::ptr::from_ref(control.header()).cast::<AtomicU64>();
    // SAFETY: both are at the start of pages of the mapping that no other code uses, and any bytes are valid numbers.
    unsafe {
        let block = std::slice::from_raw_parts(block, size_of::<StreamShared>() / 8);
        (block, std::slice::from_raw_parts(header, HEADER_WORDS))
    }
}

/// Returns the bytes before and after a stream's ring, which do not belong to the stream.
fn neighbours(control: &Control, stream: u32) -> [&[u8]; 2] {
    const FAR: usize = 128 << 10;
    let ring = control.ring(stream);
    // SAFETY: both lie in the control part, which is mapped whole, and is not written meanwhile.
    unsafe {
        let before = std::slice::from_raw_parts(ring.sub(4096 + FAR), FAR);
        [before, std::slice::from_raw_parts(ring.add(RING_BYTES), FAR)]
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Puts a record with so many bytes.
    Put(usize),
    /// Lets the worker take a record.
    Take,
    /// A word of the stream's block.
    Word(usize, u64),
    /// Writes a word of the ring, near the next record to read.
    Ring(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..60_000usize).prop_map(Step::Put),
        3 => Just(Step::Take),
        1 => (any::<prop::sample::Index>(), word()).prop_map(|(at, value)| Step::Word(at.index(40), value)),
        1 => (0..40u64, word()).prop_map(|(at, value)| Step::Ring(at, value)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_with_any_words_is_kept_to(steps in prop::collection::vec(step(), 1..120)) {
        const STREAM: u32 = 2;
        let arena = arena();
        let control = arena.control();
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        let (mut taken, mut spoilt) = (0u64, false);
        let payload = [7; 60_000];
        for step in steps {
            match step {
                Step::Put(len) => {
                    let record = Record { bytes: 0, kind: STORE, seq: 0, after: 0, a: 0, b: 0, c: len as u64 };
                    match writer.put(&control, STREAM, record, &payload[..len / 2], &payload[len / 2..len]) {
                        Ok(true) => writer.publish(&control, STREAM),
                        Ok(false) => {}
                        Err(_) => prop_assert!(spoilt),
                    }
                }
                Step::Take => match reader.peek(&control, STREAM) {
                    Ok(Some((record, payload))) => {
                        let within = payload.addr() - control.ring(STREAM).addr();
                        prop_assert!(within + record.bytes as usize - HEAD <= RING_BYTES);
                        prop_assert!([LAUNCH, STORE, COPY, WAIT].contains(&record.kind));
                        reader.pop(&control, STREAM, &record);
                        taken += u64::from(record.bytes);
                    }
                    Ok(None) => {}
                    Err(_) => prop_assert!(spoilt),
                },
                Step::Word(at, value) => {
                    words(&control, STREAM).0[at].store(value, Ordering::SeqCst);
                    spoilt = true;
                }
                Step::Ring(at, value) => {
                    let at = (taken as usize + 8 * at as usize) % RING_BYTES;
                    // SAFETY: within the ring, aligned to 8.
                    unsafe { control.ring(STREAM).add(at).cast::<u64>().write_volatile(value) };
                    spoilt = true;
                }
            }
        }
        let zeros = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        prop_assert!(neighbours(&control, STREAM).into_iter().all(zeros), "written outside of the ring");
    }
}

struct OrderedSpans;

impl SpanSink for OrderedSpans {
    fn span(&self, span: Span) {
        assert!(span.start_ns <= span.end_ns);
    }
}

struct Fill;

impl Source for Fill {
    fn fill(&mut self, to: &mut [u8]) -> Result<()> {
        to.fill(3);
        Ok(())
    }
}

/// Returns a stream whose worker the test simulates.
fn stream(arena: Arc<Arena>) -> Arc<Stream> {
    let control = arena.control();
    let shared = Shared {
        control,
        failure: Failure::default(),
        tracer: Tracer::new(accord_types::DeviceId { node: NodeId(0), ordinal: 0 }),
        run: |_| {},
        perform: stream_worker::perform,
        output: None,
        watched: Watched::new(None, Arc::new(Handle::of_no_process()), "the worker of cpu:0".to_owned()),
        arena,
    };
    shared.tracer.start(Arc::new(OrderedSpans));
    Stream::new(1, QueueId(1), Arc::new(shared))
}

fn copy_in(stream: &Arc<Stream>, start: DevicePtr, immediate: bool) -> Result<Seq> {
    stream.push_owner(Op::CopyIn { dst: start, len: 64, source: CopySource::new(Fill) }, immediate)
}

fn store(stream: &Arc<Stream>, len: usize) -> Result<Seq> {
    let record = Record { bytes: 0, kind: STORE, seq: 0, after: 0, a: 0, b: 0, c: len as u64 };
    stream.push_worker(record, &vec![1; len], &[], None)
}

fn assert_corrupt<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("the worker lies");
    assert_eq!(error.code(), ErrorCode::Execution);
    assert!(error.cause().contains("the worker's ring is corrupt"), "{error}");
    assert!(error.remedy_text().is_some_and(|text| text.contains("region")), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// `run` has no effect here, so that operations stay in the queue unless they are done at once.
    #[test]
    fn an_owner_goes_on_or_says_that_a_ring_is_corrupt(
        steps in prop::collection::vec((0..6u8, any::<prop::sample::Index>(), word()), 1..60),
    ) {
        let arena = arena();
        let (start, _) = arena.addresses();
        arena.map(start, 1 << 16).unwrap();
        let control = arena.control();
        let stream = stream(arena);
        for (kind, at, value) in steps {
            let outcome = match kind {
                0 => store(&stream, 100).map(drop),
                1 => copy_in(&stream, start, value % 2 == 0).map(drop),
                2 => {
                    stream.take_spans();
                    stream.reached();
                    stream.check()
                }
                3 => {
                    let last = stream.last();
                    if stream.reached() >= last.0 { stream.synchronize(last) } else { stream.go_on(); Ok(()) }
                }
                4 => {
                    let (block, _) = words(&control, 1);
                    block[at.index(block.len())].store(value, Ordering::SeqCst);
                    Ok(())
                }
                _ => {
                    let (_, header) = words(&control, 1);
                    header[at.index(header.len())].store(value, Ordering::SeqCst);
                    stream.shared.check_alive();
                    Ok(())
                }
            };
            if outcome.is_err() {
                assert_corrupt(outcome);
            }
            let reached = stream.reached();
            prop_assert!(reached <= stream.last().0, "{reached} of {:?}", stream.last());
        }
    }
}

#[test]
fn worker_can_not_complete_operations_of_the_owner() {
    let arena = arena();
    let (start, _) = arena.addresses();
    let control = arena.control();
    let stream = stream(arena);
    store(&stream, 8).unwrap();
    let Seq(own) = copy_in(&stream, start, false).unwrap();
    store(&stream, 8).unwrap();
    let done = &control.stream(1).worker_done;
    done.store(own - 1, Ordering::SeqCst);
    assert_eq!((stream.reached(), stream.check()), (own - 1, Ok(())));
    control.stream(1).owner_done.store(own, Ordering::SeqCst);
    assert_eq!((stream.reached(), stream.check()), (own - 1, Ok(())));
    done.store(own, Ordering::SeqCst);
    assert!(stream.reached() < own);
    assert_corrupt(stream.check());
    assert_corrupt(stream.synchronize(Seq(own)));
}

#[test]
fn a_worker_that_is_done_and_gives_no_places_back_is_not_waited_for() {
    let stream = stream(arena());
    let block = stream.block();
    let outcome = loop {
        // The worker reports all operations done, but no record taken.
        block.worker_done.store(stream.last().0, Ordering::SeqCst);
        let outcome = store(&stream, 60_000);
        if outcome.is_err() {
            break outcome;
        }
    };
    assert_corrupt(outcome);
    assert!(stream.last().0 < 20);
}

#[test]
fn more_spans_than_operations_are_found_out() {
    let arena = arena();
    let control = arena.control();
    let tracer = Tracer::new(accord_types::DeviceId { node: NodeId(0), ordinal: 0 });
    tracer.start(Arc::new(OrderedSpans));
    let progress = Progress::new();
    let drain = |up_to: u64, head: u64| {
        progress.let_worker(up_to);
        control.stream(1).trace_head.store(head, Ordering::SeqCst);
        tracer.drain(&control, 1, QueueId(1), &progress)
    };
    assert_eq!(drain(3, 2), Ok(()));
    for (up_to, head) in [(3, 4), (3, u64::MAX), (3, 1), (1 << 20, 0)] {
        assert!(matches!(drain(up_to, head), Err(Corrupt(_))), "{head} of {up_to}");
    }
    assert_eq!(drain(1 << 20, 1 << 20), Ok(()));
}

//! Events: a point in a stream, with the device's time at which the stream reaches it.
//!
//! A record enqueues a kernel that stores the time to memory of the device, and lets a queue of events wait for the stream. The event is complete
//! when that queue is. A record has a queue of its own until it is complete, if there are enough ([`crate::event_records`]).

use crate::acc;
use crate::event_records::EventRecords;
use crate::memory;
use crate::publication::{PublishedKernel, publish_clock};
use crate::streams;
use accord_types::kernel_launch::{EncodedLaunch, KernelArgument, KernelLaunch};
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The first queue of events; streams' queues have smaller numbers.
const FIRST: i32 = 0x0200_0000;
/// Places for times in one allocation.
const PLACES: usize = 64;

/// The code for GPUs: stores the nanoseconds of the device's clock.
const CLOCK: &std::ffi::CStr = c".version 6.0
.target sm_50
.address_size 64
.visible .entry accord_cuf_clock(
\t.param .u64 accord_cuf_clock_0
)
{
\t.reg .b64 %rd<4>;
\tld.param.u64 %rd1, [accord_cuf_clock_0];
\tcvta.to.global.u64 %rd2, %rd1;
\tmov.u64 %rd3, %globaltimer;
\tst.global.u64 [%rd2], %rd3;
\tret;
}
";

/// The code for CPU devices: stores the nanoseconds since the worker's first event.
///
/// # Safety
/// `entries` is the region's argument, whose only entry is a launch with the address of a number in the device's memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn accord_cuf_clock(entries: *const *const u64) {
    static START: OnceLock<Instant> = OnceLock::new();
    // SAFETY: the first word of a launch is its length.
    let bytes = unsafe {
        let first = *entries;
        std::slice::from_raw_parts(first.cast::<u8>(), EncodedLaunch::length(*first))
    };
    let argument = EncodedLaunch::new(bytes).and_then(|launch| launch.arguments().next());
    let Some(address) = argument.and_then(|argument| argument.bytes.first_chunk()) else { return };
    let time = START.get_or_init(Instant::now).elapsed().as_nanos();
    let to = usize::from_ne_bytes(*address) as *const AtomicU64;
    // SAFETY: the caller's promise.
    unsafe { &*to }.store(u64::try_from(time).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns the address of the region that stores the time.
fn region() -> usize {
    accord_cuf_clock as *const () as usize
}

/// An event that the program has created.
#[derive(Clone, Copy)]
struct Event {
    has_time: bool,
    record: Option<Record>,
}

/// The latest record of an event.
#[derive(Clone, Copy)]
struct Record {
    device: i32,
    /// Which of the device's queues of events it has.
    queue: usize,
    number: u64,
    /// Address of the time; 0 without one.
    place: usize,
}

#[derive(Default)]
struct EventTable {
    events: BTreeMap<i64, Event>,
    last: i64,
    /// By device.
    records: BTreeMap<i32, EventRecords>,
}

impl EventTable {
    fn records(&mut self, device: i32) -> &mut EventRecords {
        self.records.entry(device).or_default()
    }

    /// Gives back what a record holds that no event refers to any more.
    fn forget(&mut self, record: Option<Record>) {
        if let Some(Record { device, queue, number, place }) = record {
            self.records(device).forget(queue, number, place);
        }
    }
}

/// Events that the program has not destroyed.
static EVENTS: ShortLock<Option<EventTable>> = ShortLock::new(None);

fn with<R>(f: impl FnOnce(&mut EventTable) -> R) -> R {
    let mut table: ShortGuard<'_, Option<EventTable>> = EVENTS.lock();
    f(table.get_or_insert_default())
}

/// A reason why an event can't be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// There is no such event or stream, or the event has no time.
    Handle,
    /// The event was not recorded.
    NotRecorded,
    /// The event is not complete.
    NotReady,
    /// The device has no memory left for a time.
    NoMemory,
}

/// Creates an event.
pub(crate) fn create(has_time: bool) -> i64 {
    static CODE: OnceLock<()> = OnceLock::new();
    CODE.get_or_init(|| {
        publish_clock(CLOCK, &PublishedKernel { region: region(), name: c"accord_cuf_clock" });
    });
    with(|table| {
        table.last += 1;
        table.events.insert(table.last, Event { has_time, record: None });
        table.last
    })
}

fn find(event: i64) -> Result<Event, Failure> {
    with(|table| table.events.get(&event).copied()).ok_or(Failure::Handle)
}

fn record_of(event: i64) -> Result<Record, Failure> {
    find(event)?.record.ok_or(Failure::NotRecorded)
}

/// Returns the number of a queue of events.
fn async_queue(queue: usize) -> i32 {
    FIRST + queue as i32
}

/// Returns the number of the device's latest record, if this one may be in flight.
fn in_flight(record: Record) -> Option<u64> {
    with(|table| {
        let records = table.records(record.device);
        records.is_in_flight(record.queue, record.number).then(|| records.last())
    })
}

/// Removes the complete records of the current device. The device answers once for each stream with work left, as records of a stream
/// complete in their order.
fn remove_complete(device: i32) {
    let (until, pending) = with(|table| {
        let records = table.records(device);
        (records.last(), records.pending())
    });
    let mut busy = BTreeSet::new();
    for (queue, stream) in pending {
        if busy.contains(&stream) {
            continue;
        }
        if acc::is_done(async_queue(queue)) {
            with(|table| table.records(device).complete(queue, until));
        } else {
            busy.insert(stream);
        }
    }
}

/// Returns a place for a time in the memory of the current device.
fn new_place(device: i32) -> Option<usize> {
    const BYTES: usize = size_of::<u64>();
    if let Some(place) = with(|table| table.records(device).take_place()) {
        return Some(place);
    }
    let start = memory::device_memory(PLACES * BYTES);
    if start == 0 {
        return None;
    }
    let all = (1..PLACES).map(|place| start + place * BYTES);
    with(|table| table.records(device).add_places(all));
    Some(start)
}

/// Records an event in a stream.
pub(crate) fn record(event: i64, stream: i64) -> Result<(), Failure> {
    let has_time = find(event)?.has_time;
    let device = streams::device(stream).ok_or(Failure::Handle)?;
    acc::on_device(device, || {
        if !with(|table| table.records(device).has_room(has_time)) {
            remove_complete(device);
        }
        let place = if has_time { new_place(device).ok_or(Failure::NoMemory)? } else { 0 };
        let from = streams::begin(device, stream);
        if has_time {
            let argument = KernelArgument { bytes: place.to_ne_bytes().to_vec(), by_address: false };
            let launch =
                KernelLaunch { grid: [1; 3], block: [1; 3], arguments: vec![argument], ..KernelLaunch::default() };
            // SAFETY: the region takes such an entry.
            unsafe { acc::launch(region(), &launch.encode(), from, 1, 1) };
        }
        let queue = with(|table| table.records(device).begin(from));
        acc::wait_async(from, async_queue(queue));
        with(|table| {
            let number = table.records(device).enqueued(queue, from, place);
            let new = Some(Record { device, queue, number, place });
            let unused = match table.events.get_mut(&event) {
                Some(event) => std::mem::replace(&mut event.record, new),
                None => new,
            };
            table.forget(unused);
        });
        Ok(())
    })
}

/// Whether an event is complete.
pub(crate) fn is_complete(event: i64) -> Result<bool, Failure> {
    let record = record_of(event)?;
    let Some(until) = in_flight(record) else { return Ok(true) };
    let is_done = acc::on_device(record.device, || acc::is_done(async_queue(record.queue)));
    if is_done {
        with(|table| table.records(record.device).complete(record.queue, until));
    }
    Ok(is_done)
}

/// Waits for an event.
pub(crate) fn wait(event: i64) -> Result<(), Failure> {
    let record = record_of(event)?;
    if let Some(until) = in_flight(record) {
        acc::on_device(record.device, || acc::wait(async_queue(record.queue)));
        with(|table| table.records(record.device).complete(record.queue, until));
    }
    Ok(())
}

/// Lets a stream wait for an event. If the event is of another device, the program waits. An event that was not recorded is complete.
pub(crate) fn stream_waits(stream: i64, event: i64) -> Result<(), Failure> {
    let device = streams::device(stream).ok_or(Failure::Handle)?;
    let Some(record) = find(event)?.record.filter(|record| in_flight(*record).is_some()) else { return Ok(()) };
    if record.device != device {
        return wait(event);
    }
    acc::on_device(device, || {
        let queue = streams::begin(device, stream);
        acc::wait_async(async_queue(record.queue), queue);
    });
    Ok(())
}

/// Returns the milliseconds between two complete events of one device.
pub(crate) fn elapsed(start: i64, end: i64) -> Result<f32, Failure> {
    let (first, last) = (record_of(start)?, record_of(end)?);
    if first.device != last.device || first.place == 0 || last.place == 0 {
        return Err(Failure::Handle);
    }
    if !is_complete(start)? || !is_complete(end)? {
        return Err(Failure::NotReady);
    }
    let time = |record: Record| {
        let mut time = 0_u64;
        let to = (&raw mut time).addr();
        acc::on_device(record.device, || {
            // SAFETY: the place has a number of this size.
            unsafe { acc::copy(acc::CopyDirection::FromDevice, to, record.place, size_of::<u64>(), None) };
        });
        time
    };
    Ok(((time(last) as f64 - time(first) as f64) * 1e-6) as f32)
}

/// Destroys an event. Work that waits for it goes on.
pub(crate) fn destroy(event: i64) -> Result<(), Failure> {
    with(|table| {
        let event = table.events.remove(&event).ok_or(Failure::Handle)?;
        table.forget(event.record);
        Ok(())
    })
}

//! Streams as queues. The default stream waits for all other streams of its device, and they wait for it.

use crate::acc;
use accord_types::QueueId;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// The queue of the default stream.
const DEFAULT: i32 = QueueId::DEFAULT_STREAM.0.cast_signed();
/// The queues of streams that were created with `cudaStreamNonBlocking`, not ordered with the default stream, follow.
const NON_BLOCKING: i32 = QueueId::NON_BLOCKING_STREAMS.0.cast_signed();

#[derive(Default)]
struct StreamTable {
    /// The devices of streams, by queue.
    streams: BTreeMap<i32, i32>,
    devices: BTreeMap<i32, Device>,
}

/// The work in flight on a device.
#[derive(Default)]
struct Device {
    /// Streams with work that the default stream has not waited for.
    used: BTreeSet<i32>,
    /// Streams that wait for the default stream's latest work; empty if it has none.
    ordered: BTreeSet<i32>,
    has_default: bool,
}

/// Streams that the program has not destroyed, and devices; both are few.
static STATE: ShortLock<Option<StreamTable>> = ShortLock::new(None);

fn with<R>(f: impl FnOnce(&mut StreamTable) -> R) -> R {
    let mut state: ShortGuard<'_, Option<StreamTable>> = STATE.lock();
    f(state.get_or_insert_default())
}

/// Creates a stream on the current device.
pub(crate) fn create(is_free: bool) -> i64 {
    let device = acc::device();
    let before = if is_free { NON_BLOCKING } else { DEFAULT };
    with(|state| {
        // Numbers of destroyed streams are used again: queues are never forgotten.
        let queue = (before + 1..).find(|queue| !state.streams.contains_key(queue)).unwrap_or(DEFAULT);
        state.streams.insert(queue, device);
        i64::from(queue)
    })
}

/// Returns the device of a stream; the current one for the default stream.
pub(crate) fn device(stream: i64) -> Option<i32> {
    match queue(stream) {
        DEFAULT => Some(acc::device()),
        queue => with(|state| state.streams.get(&queue).copied()),
    }
}

/// Whether a stream is not ordered with the default stream; `None` if there is no such stream.
pub(crate) fn is_free(stream: i64) -> Option<bool> {
    match queue(stream) {
        DEFAULT => Some(false),
        queue => with(|state| state.streams.contains_key(&queue).then_some(queue >= NON_BLOCKING)),
    }
}

thread_local! {
    /// The stream of this thread's operations that name none.
    static SELECTED: Cell<i64> = const { Cell::new(0) };
}

/// Selects the stream of this thread's operations that name none. Returns `false` if there is no such stream.
pub(crate) fn select(stream: i64) -> bool {
    let exists = device(stream).is_some();
    if exists {
        SELECTED.set(stream);
    }
    exists
}

/// Returns the stream of this thread's operations that name none.
pub(crate) fn selected() -> i64 {
    SELECTED.get()
}

/// Whether a handle is the default stream's.
pub(crate) fn is_default(stream: i64) -> bool {
    queue(stream) == DEFAULT
}

/// Returns the queue of a stream. 0 to 2 are the default stream's handles.
fn queue(stream: i64) -> i32 {
    if (0..=2).contains(&stream) { DEFAULT } else { i32::try_from(stream).unwrap_or(-1) }
}

/// Orders the next operation of a stream on `device`, which is current. Returns its queue.
pub(crate) fn begin(device: i32, stream: i64) -> i32 {
    let queue = queue(stream);
    let waits: Vec<i32> = with(|state| {
        let on = state.devices.entry(device).or_default();
        if queue >= NON_BLOCKING {
            return Vec::new();
        }
        if queue == DEFAULT {
            on.has_default = true;
            on.ordered.clear();
            return std::mem::take(&mut on.used).into_iter().collect();
        }
        on.used.insert(queue);
        if on.has_default && on.ordered.insert(queue) { vec![DEFAULT] } else { Vec::new() }
    });
    for waited in waits {
        acc::wait_async(waited, queue);
    }
    queue
}

/// Waits for all work of these devices, or of the current one if none is named.
pub(crate) fn finish(devices: [Option<i32>; 2]) {
    let named = devices.iter().flatten().copied().collect::<BTreeSet<i32>>();
    let named = if named.is_empty() { BTreeSet::from([acc::device()]) } else { named };
    for device in named {
        acc::on_device(device, acc::wait_all);
        with(|state| state.devices.remove(&device));
    }
}

/// Waits for a stream; returns `false` if there is no such stream.
pub(crate) fn wait(stream: i64) -> bool {
    let Some(device) = device(stream) else { return false };
    let queue = queue(stream);
    if queue == DEFAULT {
        // The default queue's work follows that of all other queues.
        finish([None, None]);
    } else {
        acc::on_device(device, || acc::wait(queue));
        with(|state| state.devices.entry(device).or_default().used.remove(&queue));
    }
    true
}

/// Whether all work of a stream has ended; `None` if there is no such stream.
pub(crate) fn is_done(stream: i64) -> Option<bool> {
    let device = device(stream)?;
    let queue = queue(stream);
    Some(acc::on_device(device, || if queue == DEFAULT { acc::is_idle() } else { acc::is_done(queue) }))
}

/// Destroys a stream after its work has ended; returns `false` if there is no such stream.
pub(crate) fn destroy(stream: i64) -> bool {
    let queue = queue(stream);
    if queue == DEFAULT || !wait(stream) {
        return false;
    }
    if SELECTED.get() == stream {
        SELECTED.set(0);
    }
    with(|state| state.streams.remove(&queue).is_some())
}

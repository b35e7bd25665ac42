//! Copies out: the routes by which bytes leave the device's memory for the program's, or for a sink.

use super::completion::Completion;
use super::direct::{self, HostMemoryQuery};
use super::driver::DriverError;
use super::egress::Part;
use super::registrations::RegisteredPart;
use super::staging::copy_pool::CopyPool;
use super::staging::copy_route::{self, Direction, End, IssuePoint, NoMemory, Route};
use super::staging::fetched::Fetched;
use super::staging::progress::CopyError;
use super::staging::slot_pool::{OUT_SLOT, Slot};
use super::stream::{Stream, StreamProgress};
use super::trace::Start;
use accord_device::CopySink;
use accord_device::stream::{Access, Settle};
use accord_types::{DevicePtr, HostRange, Result, SpanKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most slots that a copy takes at once, because other copies need some too.
const NOW_SLOTS_MAX: usize = 16;
/// Number of slots that a copy out to a sink without an address keeps filled ahead.
const AHEAD: usize = 4;

/// Blocks until the operation at `seq` may access memory outside of its stream's order.
pub(crate) fn settle_before(stream: &Stream, seq: u64, access: Access) -> Result<()> {
    let settle = stream.lock().core.settle(seq, access);
    // Earlier operations were issued, so that this waits only for the device and for bytes in flight.
    match settle {
        Settle::Nothing => Ok(()),
        Settle::Operations => stream.synchronize(seq - 1),
        Settle::Driver => stream.synchronize_unless(seq - 1, false),
    }
}

/// Passes fetched bytes to a sink.
pub(crate) fn give(stream: &Stream, seq: u64, len: usize, mut sink: CopySink, fetched: Fetched) -> Result<CopySink> {
    // As in `copy_out`.
    settle_before(stream, seq, Access::OtherEnd)?;
    let filled = fetched.wait().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
    if let Some(mut slot) = filled {
        sink.drain(slot.bytes(len))?;
    }
    stream.arrived(seq);
    Ok(sink)
}

/// Copies out as [`copy_out`], with a trace.
pub(crate) fn copy_out_traced(
    stream: &Stream,
    seq: u64,
    (src, len): (DevicePtr, u64),
    sink: CopySink,
    start: Start,
) -> Result<Option<CopySink>> {
    let given = copy_out(stream, seq, src, len as usize, sink)?;
    stream.shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::CopyOut, len, String::new);
    Ok(given)
}

/// Copies out. Returns a sink that has its bytes and must be finished; other sinks are finished elsewhere.
pub(crate) fn copy_out(
    stream: &Stream,
    seq: u64,
    src: DevicePtr,
    len: usize,
    mut sink: CopySink,
) -> Result<Option<CopySink>> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    let copy_failed = |error: CopyError| shared.copy_failed(error, Some(stream.queue));
    if let Some(range) = sink.memory() {
        // Older bytes must not overwrite these later.
        settle_before(stream, seq, Access::Program(range))?;
        let facts = direct::facts(stream, Direction::Out, IssuePoint::Turn, len, End::Program, sink.immediate());
        let mut asked = HostMemoryQuery::in_turn(stream, seq, range);
        match (copy_route::route(&facts, &mut asked).route, asked.middle) {
            (Route::Direct, _) => {
                let _use = shared.memory_uses.begin()?;
                return direct::hand_out(stream, src, range).map(|()| None).map_err(failed);
            }
            (Route::Registered, Some(middle)) => {
                let _use = shared.memory_uses.begin()?;
                if let Some(completions) = direct::copy_out_registered(stream, src, range, middle).map_err(failed)? {
                    completions.into_iter().for_each(|completion| stream.add_completion(seq, completion));
                    return Ok(None);
                }
            }
            _ => {}
        }
        let tracker = CopyPool::tracker(pieces(len).map(|(_, bytes)| bytes));
        stream.add_completion(seq, Completion::Moved(Arc::clone(&tracker), range));
        for (offset, bytes) in pieces(len) {
            let from = src.0 + offset as u64;
            let slot = fetch(stream, from, bytes).map_err(|error| {
                tracker.abort(error);
                copy_failed(error)
            })?;
            shared.copy_pool.download(stream.index as usize, slot, range.start + offset, bytes, &tracker);
        }
        return Ok(None);
    }
    let end = End::Handed { detached: sink.detached() };
    let facts = direct::facts(stream, Direction::Out, IssuePoint::Turn, len, end, sink.immediate());
    if copy_route::route(&facts, &mut NoMemory).route == Route::Egress && stream.egress.is_ready(shared) {
        stream.egress.wait_for_space();
        stream.egress.put(Part::Begin(sink));
        let all = pieces(len).try_for_each(|(offset, bytes)| {
            stream.egress.put(Part::Bytes(fetch(stream, src.0 + offset as u64, bytes)?, bytes));
            Ok(())
        });
        stream.egress.put(if all.is_ok() { Part::End } else { Part::Abort });
        return all.map(|()| None).map_err(copy_failed);
    }
    // This thread writes the bytes, so that pending writes of other threads, possibly of older bytes to the same memory, come first.
    settle_before(stream, seq, Access::OtherEnd)?;
    let mut ahead = VecDeque::new();
    let (mut asked, mut done) = (0, 0);
    while done < len {
        while asked < len && ahead.len() < AHEAD {
            let bytes = OUT_SLOT.min(len - asked);
            // The device may have been shut down while the sink took the previous bytes.
            let slot = fetch(stream, src.0 + asked as u64, bytes).map_err(copy_failed)?;
            ahead.push_back((slot, bytes));
            asked += bytes;
        }
        let Some((mut slot, bytes)) = ahead.pop_front() else { break };
        slot.wait().map_err(failed)?;
        if let Err(error) = sink.drain(slot.bytes(bytes)) {
            // The device fills the other slots nevertheless.
            ahead.into_iter().for_each(|(slot, _)| slot.release_after());
            return Err(error);
        }
        done += bytes;
    }
    if len > 0 {
        // The last slot was filled after all other operations of the stream.
        stream.arrived(seq);
    }
    Ok(Some(sink))
}

/// Copies out at the call, by the route that was chosen. `memory` is the program's, with its page-locked part. Returns `false`, without effect, if that
/// is impossible now.
pub(crate) fn copy_out_now(
    stream: &Stream,
    state: &mut StreamProgress,
    src: DevicePtr,
    len: usize,
    (route, memory, middle): (Route, Option<HostRange>, Option<RegisteredPart>),
    sink: &mut Option<CopySink>,
) -> Result<bool, DriverError> {
    match (route, memory, middle) {
        (Route::SmallSlot, ..) => copy_out_small(stream, state, src, len, sink),
        (Route::Egress, ..) => copy_out_egress(stream, src, len, sink),
        (Route::Direct, Some(range), _) => direct::hand_out(stream, src, range).map(|()| true),
        (Route::RegisteredNow, Some(range), Some(middle)) => {
            direct::copy_out_registered_waited(stream, src, range, middle).map(|()| true)
        }
        (Route::Registered, Some(range), Some(middle)) => {
            let Some(completions) = direct::copy_out_registered(stream, src, range, middle)? else { return Ok(false) };
            completions.into_iter().for_each(|completion| state.push_completion(completion));
            Ok(true)
        }
        (Route::Staged, Some(range), _) => copy_out_staged(stream, state, src, range),
        _ => Ok(false),
    }
}

/// Copies out into slots, if enough are free.
fn copy_out_staged(
    stream: &Stream,
    state: &mut StreamProgress,
    src: DevicePtr,
    range: HostRange,
) -> Result<bool, DriverError> {
    let shared = &stream.shared;
    let Some(slots) = slots_now(stream, range.len)? else { return Ok(false) };
    let tracker = CopyPool::tracker(pieces(range.len).map(|(_, bytes)| bytes));
    let span = shared.tracer.begin(stream.raw);
    for ((offset, bytes), slot) in pieces(range.len).zip(slots) {
        let filled = fill_slot(stream, &slot, src.0 + offset as u64, bytes);
        if let Err(error) = filled {
            tracker.abort(error.into());
            return Err(error);
        }
        shared.copy_pool.download(stream.index as usize, slot, range.start + offset, bytes, &tracker);
    }
    shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::CopyOut, range.len as u64, String::new);
    state.push_completion(Completion::Moved(tracker, range));
    Ok(true)
}

/// Copies out to the egress thread, which sends the bytes once the device has copied them. Returns `false`, without effect,
/// if there are not enough slots.
fn copy_out_egress(
    stream: &Stream,
    src: DevicePtr,
    len: usize,
    sink: &mut Option<CopySink>,
) -> Result<bool, DriverError> {
    let shared = &stream.shared;
    if !stream.egress.is_ready(shared) || stream.egress.is_full() {
        return Ok(false);
    }
    let Some(slots) = slots_now(stream, len)? else { return Ok(false) };
    let span = shared.tracer.begin(stream.raw);
    let mut places = pieces(len).zip(&slots);
    let filled = places.try_for_each(|((offset, bytes), slot)| fill_slot(stream, slot, src.0 + offset as u64, bytes));
    if let Err(error) = filled {
        // The device fills the issued slots nevertheless.
        slots.into_iter().for_each(Slot::release_after);
        return Err(error);
    }
    shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::CopyOut, len as u64, String::new);
    if let Some(sink) = sink.take() {
        stream.egress.put(Part::Begin(sink));
        slots.into_iter().zip(pieces(len)).for_each(|(slot, (_, bytes))| stream.egress.put(Part::Bytes(slot, bytes)));
        stream.egress.put(Part::End);
    }
    Ok(true)
}

/// Returns slots for all pieces of a copy out, if enough are free and other copies keep some.
fn slots_now(stream: &Stream, len: usize) -> Result<Option<Vec<Slot>>, DriverError> {
    let count = len.div_ceil(OUT_SLOT);
    if count > NOW_SLOTS_MAX {
        return Ok(None);
    }
    (0..count).map(|_| stream.shared.outward.try_take()).collect()
}

/// Returns a slot that the device fills in the stream's order. Blocks until one is free.
fn fetch(stream: &Stream, from: u64, len: usize) -> Result<Slot, CopyError> {
    let slot = stream.shared.outward.take()?;
    let _use = stream.shared.memory_uses.begin().map_err(|_| CopyError::ShutDown)?;
    fill_slot(stream, &slot, from, len)?;
    Ok(slot)
}

pub(crate) fn fill_slot(stream: &Stream, slot: &Slot, from: u64, len: usize) -> Result<(), DriverError> {
    // SAFETY: the slot is pinned and at least `len` long, and its holder waits for the event.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), from, len, stream.raw) }?;
    slot.record(stream.raw)
}

/// A copy out of a few KiB: into a slot now, from there to the sink by a waiter. Returns `false` if no slot is free.
fn copy_out_small(
    stream: &Stream,
    state: &mut StreamProgress,
    src: DevicePtr,
    len: usize,
    sink: &mut Option<CopySink>,
) -> Result<bool, DriverError> {
    let Some(slot) = stream.shared.small.try_take()? else { return Ok(false) };
    let span = stream.shared.tracer.begin(stream.raw);
    // SAFETY: the slot is pinned, and read only after the stream has done this copy.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), src.0, len, stream.raw) }?;
    stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::CopyOut, len as u64, String::new);
    if let Some(sink) = sink.take() {
        state.push_completion(Completion::Small { slot, len, sink });
    }
    Ok(true)
}

/// Returns offsets and lengths of a copy out, one slot each: the engines are fastest with long ones, and the threads divide them.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..len).step_by(OUT_SLOT).map(move |offset| (offset, OUT_SLOT.min(len - offset)))
}

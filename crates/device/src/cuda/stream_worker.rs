//! Performs operations in their turn, on the stream's worker or the caller's thread.

use super::completion::Completion;
use super::direct::{self, Asked};
use super::driver::DriverError;
use super::egress::Part;
use super::launch::{self, Shape};
use super::mapped_row::{self, Reaching};
use super::native_row::{self, Fetching};
use super::registrations::RegisteredPart;
use super::row::Row;
use super::shared::Shared;
use super::staging::copy_pool::CopyPool;
use super::staging::copy_route::{self, At, Direction, End, NoMemory, Route, TAKEN_MAX};
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::progress::CopyError;
use super::staging::slot_pool::{OUT_SLOT, RELAY_SLOT, Slot};
use super::stream::{Op, Stream, StreamProgress};
use super::trace::Start;
use crate::stream::{Access, Settle};
use crate::{CopySink, CopySource, FetchTo, MemoryHandle};
use accord_types::{DevicePtr, HostRange, Result, SpanKind};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most slots that a copy takes at once, because other copies need some too.
const NOW_SLOTS_MAX: usize = 16;
/// Most bytes from other processes that the driver reads before its call returns, which is faster than a slot and an event. The buffer is on the stack.
const HANDED_IN_MAX: usize = 4 << 10;
/// Number of slots that a copy out to a sink without an address keeps filled ahead.
const AHEAD: usize = 4;

/// Performs the operation at `seq`. All earlier operations are in the driver's stream or done.
pub(crate) fn perform(stream: &Stream, seq: u64, op: Op) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    let _current = shared.context.enter().map_err(failed)?;
    stream.come_after(&mut stream.lock()).map_err(failed)?;
    match op {
        Op::Store { dst, bytes } => {
            let _use = shared.memory_uses.begin()?;
            store(stream, dst, &bytes).map_err(failed)
        }
        Op::CopyIn { dst, len, source } => {
            let span = shared.tracer.begin(stream.raw);
            copy_in(stream, seq, dst, len as usize, source)?;
            shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::CopyIn, len, String::new);
            Ok(())
        }
        Op::CopyOut { len, sink, fetched: Some(fetched), .. } => match fetched.place() {
            FetchedPlace::Host => {
                let sink = give(stream, seq, len as usize, sink, fetched)?;
                end_row(stream, seq, sink, true)
            }
            FetchedPlace::Device => give_native(stream, seq, len as usize, sink, fetched),
        },
        Op::CopyOut { src, len, mut sink, fetched: None } => {
            if let Some(there) = sink.mapped_range()? {
                let otherwise =
                    |seq, src, len, sink| copy_out_traced(stream, seq, src, len, sink, shared.tracer.begin(stream.raw));
                return mapped_row::push(stream, Reaching { seq, src, len, sink, there }, otherwise);
            }
            let start = shared.tracer.begin(stream.raw);
            if sink.drains_native()? {
                settle_before(stream, seq, Access::Device)?;
                let used = shared.memory_uses.begin()?;
                sink.drain_native(shared.context.range(src, len as usize))?;
                sink.await_native()?;
                drop(used);
                stream.arrived(seq);
                shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::Push, len, String::new);
                return sink.finish();
            }
            let given = copy_out_traced(stream, seq, src, len, sink, start)?;
            given.map_or(Ok(()), |sink| end_row(stream, seq, sink, false))
        }
        Op::Copy { dst, src, len } => {
            let _use = shared.memory_uses.begin()?;
            copy(stream, dst, src, len).map_err(failed)
        }
        Op::Peer { dst, to, src, len } => {
            let _use = shared.memory_uses.begin()?;
            push(stream, dst, &to, src, len)?.map_err(failed)
        }
        Op::Launch { function, index, dims, block } => {
            let block = block.get();
            let shape = Shape::new(&function, dims, &block)?;
            let _use = shared.memory_uses.begin()?;
            launch::issue(stream, &mut stream.lock(), index, &function, shape, &block).map_err(failed)
        }
        Op::Wait { other, seq: other_seq } => {
            other.wait_issued(other_seq)?;
            let dependence = other.mark(other_seq).map_err(failed)?;
            stream.follow(&mut stream.lock(), seq, (&other, other_seq), dependence).map_err(failed)
        }
        Op::Unmap { start, len } => {
            settle_before(stream, seq, Access::Device)?;
            shared.memory.unmap(start, len)
        }
        Op::Unregister(unlock) => {
            settle_before(stream, seq, Access::Device)?;
            drop(unlock);
            Ok(())
        }
    }
}

/// Blocks until the operation at `seq` may access memory outside of its stream's order.
fn settle_before(stream: &Stream, seq: u64, access: Access) -> Result<()> {
    let settle = stream.lock().core.settle(seq, access);
    // Earlier operations were issued, so that this waits only for the device and for bytes in flight.
    match settle {
        Settle::Nothing => Ok(()),
        Settle::Operations => stream.synchronize(seq - 1),
        Settle::Driver => stream.synchronize_unless(seq - 1, false),
    }
}

/// Copies to another device, which waits for the copy before it frees its memory ([`super::peers`]).
///
/// # Errors
/// Returns an error if the other device was shut down. The inner error is the driver's.
pub(crate) fn push(
    stream: &Stream,
    dst: DevicePtr,
    to: &Shared,
    src: DevicePtr,
    len: u64,
) -> Result<Result<(), DriverError>> {
    let context = &stream.shared.context;
    let _use = to.memory_uses.begin()?;
    let span = stream.shared.tracer.begin(stream.raw);
    // SAFETY: the driver checks the addresses, and both devices retain their contexts.
    let copied = unsafe {
        context.driver.cuMemcpyPeerAsync(dst.0, to.context.raw, src.0, context.raw, len as usize, stream.raw)
    };
    if copied.is_ok() {
        stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Push, len, String::new);
    }
    Ok(copied)
}

pub(crate) fn store(stream: &Stream, dst: DevicePtr, bytes: &[u8]) -> Result<(), DriverError> {
    let span = stream.shared.tracer.begin(stream.raw);
    for (index, piece) in bytes.chunks(TAKEN_MAX).enumerate() {
        let to = dst.0 + (index * TAKEN_MAX) as u64;
        // SAFETY: the bytes are readable. The driver checks the address and reads so few bytes before it returns.
        unsafe {
            stream.shared.context.driver.cuMemcpyHtoDAsync_v2(to, piece.as_ptr().cast(), piece.len(), stream.raw)
        }?;
    }
    stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::CopyIn, bytes.len() as u64, String::new);
    Ok(())
}

pub(crate) fn copy(stream: &Stream, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<(), DriverError> {
    let span = stream.shared.tracer.begin(stream.raw);
    move_within(stream, dst, src, len)?;
    stream.shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Copy, len, String::new);
    Ok(())
}

fn move_within(stream: &Stream, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<(), DriverError> {
    let (low, high) = (dst.0.min(src.0), dst.0.max(src.0));
    if high - low >= len || high == low {
        // SAFETY: the driver checks the addresses.
        return unsafe { stream.shared.context.driver.cuMemcpyDtoDAsync_v2(dst.0, src.0, len as usize, stream.raw) };
    }
    // The ranges overlap: in pieces that don't, from the end that is overwritten last.
    let step = high - low;
    let pieces = len.div_ceil(step);
    for n in 0..pieces {
        let offset = if dst.0 < src.0 { n } else { pieces - 1 - n } * step;
        let bytes = step.min(len - offset) as usize;
        // SAFETY: as above.
        unsafe {
            stream.shared.context.driver.cuMemcpyDtoDAsync_v2(dst.0 + offset, src.0 + offset, bytes, stream.raw)
        }?;
    }
    Ok(())
}

fn copy_in(stream: &Stream, seq: u64, dst: DevicePtr, len: usize, mut source: CopySource) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    if let Some(MemoryHandle::Host(range)) = source.memory() {
        // Earlier copies out may still write to the memory that this copy reads.
        settle_before(stream, seq, Access::Program(range))?;
        let facts = direct::facts(stream, Direction::In, At::Turn, len, End::Program, source.immediate());
        let mut asked = Asked::in_turn(stream, seq, range);
        match (copy_route::route(&facts, &mut asked).route, asked.middle) {
            (Route::Staged, _) => {}
            (Route::Direct, _) => {
                let _use = shared.memory_uses.begin()?;
                return direct::hand_in(stream, dst, range).map_err(failed);
            }
            (Route::Registered, Some(middle)) => {
                let _use = shared.memory_uses.begin()?;
                return direct::copy_in_registered(stream, dst, range, middle).map_err(failed);
            }
            _ => settle_before(stream, seq, Access::Device)?,
        }
        let sent = shared.copy_pool.upload(range.start, len, dst.0, stream.raw, &shared.inward);
        return sent.map_err(|error| shared.copy_failed(error, Some(stream.queue)));
    }
    // The source may depend on bytes of earlier copies out, which leave the device when they are waited for.
    settle_before(stream, seq, Access::OtherEnd)?;
    if (1..=HANDED_IN_MAX).contains(&len) && !source.fills_native() {
        let mut bytes = [0; HANDED_IN_MAX];
        source.fill(&mut bytes[..len])?;
        // The device may have been shut down meanwhile.
        let _use = shared.memory_uses.begin()?;
        // SAFETY: the bytes are readable. The driver checks the address and reads so few bytes before it returns.
        return unsafe { shared.context.driver.cuMemcpyHtoDAsync_v2(dst.0, bytes.as_ptr().cast(), len, stream.raw) }
            .map_err(failed);
    }
    let native = source.fills_native();
    if native {
        // A process that writes to the device's memory does not wait for its stream.
        settle_before(stream, seq, Access::Device)?;
    }
    let (mut done, mut by_driver) = (0, false);
    while done < len {
        let to = dst.offset(done as u64);
        let filled = if native { fill_native(shared, &mut source, to, len - done)? } else { 0 };
        if filled > 0 {
            done += filled;
            continue;
        }
        by_driver = true;
        let piece = RELAY_SLOT.min(len - done);
        let mut slot = shared.relayed.take().map_err(failed)?;
        source.fill(slot.bytes(piece))?;
        let _use = shared.memory_uses.begin()?;
        // SAFETY: the slot is pinned and not touched until the event.
        unsafe { shared.context.driver.cuMemcpyHtoDAsync_v2(to.0, slot.memory().cast(), piece, stream.raw) }
            .and_then(|()| slot.record(stream.raw))
            .map_err(failed)?;
        slot.release_after();
        done += piece;
    }
    if native && !by_driver {
        // The bytes have arrived, and no operation was added to the stream after the wait.
        stream.arrived(seq);
    }
    Ok(())
}

/// Lets a library write bytes to the device's memory.
fn fill_native(shared: &Shared, source: &mut CopySource, to: DevicePtr, room: usize) -> Result<usize> {
    let _use = shared.memory_uses.begin()?;
    source.fill_native(shared.context.range(to, room))
}

/// Passes fetched bytes to a sink.
fn give(stream: &Stream, seq: u64, len: usize, mut sink: CopySink, fetched: Fetched) -> Result<CopySink> {
    // As in `copy_out`.
    settle_before(stream, seq, Access::OtherEnd)?;
    let filled = fetched.wait().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
    if let Some(mut slot) = filled {
        sink.drain(slot.bytes(len))?;
    }
    stream.arrived(seq);
    Ok(sink)
}

/// Ends the copy at `seq`, whose sink has its bytes. Before that, passes their bytes to the sinks of following copies that accept them. Either all of them
/// are fetched or none, because copies are fetched only after fetched ones.
fn end_row(stream: &Stream, seq: u64, sink: CopySink, are_fetched: bool) -> Result<()> {
    let next = || {
        let follows = |op: &mut Op| match op {
            Op::CopyOut { sink, fetched, .. } => {
                let place = fetched.as_ref().map(Fetched::place);
                let is_such = if are_fetched { place == Some(FetchedPlace::Host) } else { place.is_none() };
                is_such && sink.fetch_to() == FetchTo::Host && sink.follows()
            }
            _ => false,
        };
        let Some((seq, Op::CopyOut { src, len, sink, fetched })) = stream.take_if(follows) else { return Ok(None) };
        let given = match fetched {
            Some(fetched) => Some(give(stream, seq, len as usize, sink, fetched)?),
            None => {
                let after = stream.come_after(&mut stream.lock());
                after.map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
                copy_out_traced(stream, seq, src, len, sink, stream.shared.tracer.begin(stream.raw))?
            }
        };
        Ok(Some((seq, given)))
    };
    let end = |(at, sink): (u64, Option<CopySink>), more| {
        if let Some(mut sink) = sink {
            sink.finish()?;
        }
        // The operation's caller completes a copy that is alone.
        if more || at > seq {
            stream.is_done(at);
        }
        Ok(())
    };
    Row { stream, next, end }.run((seq, Some(sink)))
}

/// Lets a sink's library read fetched bytes. If it can't access them after all, they go through the host.
fn give_native(stream: &Stream, seq: u64, len: usize, mut sink: CopySink, fetched: Fetched) -> Result<()> {
    // As in `copy_out`.
    settle_before(stream, seq, Access::OtherEnd)?;
    let start = stream.shared.tracer.begin(stream.raw);
    if sink.drains_native()? {
        return native_row::give(stream, Fetching { seq, len, sink, fetched, start });
    }
    let failed = |error: DriverError| stream.shared.driver_failed(error, Some(stream.queue));
    let Some(slot) = fetched.wait().map_err(failed)? else { return sink.finish() };
    let copied = copy_out(stream, seq, slot.address(), len, sink);
    slot.record(stream.raw).map_err(failed)?;
    slot.release_after();
    copied?.map_or(Ok(()), |mut sink| sink.finish())
}

/// Copies out as [`copy_out`], with a trace.
fn copy_out_traced(
    stream: &Stream,
    seq: u64,
    src: DevicePtr,
    len: u64,
    sink: CopySink,
    start: Start,
) -> Result<Option<CopySink>> {
    let given = copy_out(stream, seq, src, len as usize, sink)?;
    stream.shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::CopyOut, len, String::new);
    Ok(given)
}

/// Copies out. Returns a sink that has its bytes and must be finished; other sinks are finished elsewhere.
fn copy_out(stream: &Stream, seq: u64, src: DevicePtr, len: usize, mut sink: CopySink) -> Result<Option<CopySink>> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    let copy_failed = |error: CopyError| shared.copy_failed(error, Some(stream.queue));
    if let Some(MemoryHandle::Host(range)) = sink.memory() {
        // Older bytes must not overwrite these later.
        settle_before(stream, seq, Access::Program(range))?;
        let facts = direct::facts(stream, Direction::Out, At::Turn, len, End::Program, sink.immediate());
        let mut asked = Asked::in_turn(stream, seq, range);
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
    let facts = direct::facts(stream, Direction::Out, At::Turn, len, end, sink.immediate());
    if copy_route::route(&facts, &mut NoMemory).route == Route::Egress && stream.egress.is_ready(shared) {
        stream.egress.wait_for_room();
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

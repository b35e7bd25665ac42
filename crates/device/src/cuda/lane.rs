//! What an operation does when its turn has come: on the lane's thread, or on the caller's.

use super::direct;
use super::driver::DriverError;
use super::ipc::Reached;
use super::landing::Landing;
use super::launch;
use super::locks::Look;
use super::movers::Movers;
use super::onward::Part;
use super::page_lock;
use super::pinned::Slot;
use super::shared::{OUT_SLOT, RELAY_SLOT};
use super::stream::{Op, State, Stream};
use crate::{Sink, Source};
use accord_types::{DevicePtr, HostRange, Result, SpanKind};
use cudarc::driver::sys::CUcontext;
use std::collections::VecDeque;
use std::sync::Arc;

/// Copies in up to this size go to the driver as they are: it takes the bytes before it returns.
pub(crate) const DIRECT_BYTES_MAX: usize = 64 << 10;
/// Copies that their caller waits for, up to these sizes, go to the driver as they are, too: bringing threads and pinned memory
/// into play costs more.
pub(crate) const WAITED_IN_MAX: usize = 1 << 20;
pub(crate) const WAITED_OUT_MAX: usize = 4 << 20;
/// Most slots that a copy takes at once: others need some too.
const NOW_SLOTS_MAX: usize = 16;
/// Slots that a copy out to a sink without an address keeps filled ahead.
const AHEAD: usize = 4;

/// Does the operation at `seq`; everything before it is in the driver's stream or done.
pub(crate) fn perform(stream: &Stream, seq: u64, op: Op) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream));
    let _current = shared.context.enter().map_err(failed)?;
    match op {
        Op::Store { dst, bytes } => store(stream, dst, &bytes).map_err(failed),
        Op::CopyIn { dst, len, source } => {
            let span = shared.tracer.begin(stream);
            copy_in(stream, seq, dst, len as usize, source)?;
            shared.tracer.end(span, stream, SpanKind::CopyIn, len, String::new);
            Ok(())
        }
        Op::CopyOut { src, len, mut sink } => {
            if let Some(there) = sink.reach()? {
                push_there(stream, src, there, len).map_err(failed)?;
                return sink.finish();
            }
            let span = shared.tracer.begin(stream);
            copy_out(stream, seq, src, len as usize, sink)?;
            shared.tracer.end(span, stream, SpanKind::CopyOut, len, String::new);
            Ok(())
        }
        Op::Copy { dst, src, len } => copy(stream, dst, src, len).map_err(failed),
        Op::Peer { dst, to, src, len } => push(stream, dst, to, src, len).map_err(failed),
        Op::Launch { function, index, dims, block } => {
            let grid = launch::choose(&function, dims)?;
            launch::issue(stream, &mut stream.lock(), index, &function, grid, &block.get()).map_err(failed)
        }
        Op::Wait { other, seq: other_seq } => {
            other.wait_issued(other_seq)?;
            if other.mark(other_seq).map_err(failed)? {
                let landing = other.is_landing(other_seq);
                stream.follow(&mut stream.lock(), seq, &other, other_seq, landing).map_err(failed)?;
            }
            Ok(())
        }
        Op::Unmap { start, len } => {
            settle(stream, seq)?;
            shared.memory.unmap(start, len)
        }
        Op::Unlock(unlock) => {
            settle(stream, seq)?;
            drop(unlock);
            Ok(())
        }
        Op::Host(op) => {
            settle(stream, seq)?;
            op()
        }
    }
}

/// Blocks until everything before `seq` is done, here and on the device.
fn settle(stream: &Stream, seq: u64) -> Result<()> {
    // What stands before has been issued, so this waits for the device and for bytes on their way only.
    stream.synchronize(seq - 1)
}

/// Copies to the device of another context.
pub(crate) fn push(
    stream: &Stream,
    dst: DevicePtr,
    to: CUcontext,
    src: DevicePtr,
    len: u64,
) -> Result<(), DriverError> {
    let context = &stream.shared.context;
    let span = stream.shared.tracer.begin(stream);
    // SAFETY: the driver checks addresses; both contexts are retained by their devices.
    unsafe { context.driver.cuMemcpyPeerAsync(dst.0, to, src.0, context.raw, len as usize, stream.raw) }?;
    stream.shared.tracer.end(span, stream, SpanKind::Push, len, String::new);
    Ok(())
}

/// Copies to memory of another process. The bytes are there on return.
fn push_there(stream: &Stream, src: DevicePtr, there: Reached, len: u64) -> Result<(), DriverError> {
    let shared = &stream.shared;
    let driver = shared.context.driver;
    let span = shared.tracer.begin(stream);
    // SAFETY: the driver checks the source; the target stays mapped until `there` goes, which is after the copy's end.
    unsafe { driver.cuMemcpyDtoDAsync_v2(there.address(), src.0, len as usize, stream.raw) }?;
    shared.tracer.end(span, stream, SpanKind::Push, len, String::new);
    // SAFETY: the stream is alive. Nothing is put into it meanwhile: it is this operation's turn.
    unsafe { driver.cuStreamSynchronize(stream.raw) }?;
    drop(there);
    Ok(())
}

pub(crate) fn store(stream: &Stream, dst: DevicePtr, bytes: &[u8]) -> Result<(), DriverError> {
    let span = stream.shared.tracer.begin(stream);
    for (index, piece) in bytes.chunks(DIRECT_BYTES_MAX).enumerate() {
        let to = dst.0 + (index * DIRECT_BYTES_MAX) as u64;
        // SAFETY: the bytes are readable; the driver checks the address and takes so few before it returns.
        unsafe {
            stream.shared.context.driver.cuMemcpyHtoDAsync_v2(to, piece.as_ptr().cast(), piece.len(), stream.raw)
        }?;
    }
    stream.shared.tracer.end(span, stream, SpanKind::CopyIn, bytes.len() as u64, String::new);
    Ok(())
}

pub(crate) fn copy(stream: &Stream, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<(), DriverError> {
    let span = stream.shared.tracer.begin(stream);
    move_within(stream, dst, src, len)?;
    stream.shared.tracer.end(span, stream, SpanKind::Copy, len, String::new);
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

fn copy_in(stream: &Stream, seq: u64, dst: DevicePtr, len: usize, mut source: Box<dyn Source>) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream));
    if let Some(range) = source.memory() {
        // What is still on its way to the program's memory may be what this reads.
        if stream.lands_in(range) {
            settle(stream, seq)?;
        }
        match page_lock::look(stream, seq, range) {
            Look::Free if !is_pinned(stream, range) => {}
            Look::Free if !source.immediate() => return direct::hand_in(stream, dst, range).map_err(failed),
            Look::Locked(middle) if !source.immediate() => {
                return direct::copy_in_locked(stream, dst, range, middle).map_err(failed);
            }
            // The device's engines may be writing it.
            _ => settle(stream, seq)?,
        }
        return shared.movers.fill(range.start, len, dst.0, stream.raw, &shared.inward).map_err(failed);
    }
    // Whoever has the bytes may be waiting for those of earlier copies out, which leave here when somebody waits for them.
    if stream.is_landing(seq - 1) {
        settle(stream, seq)?;
    }
    let mut done = 0;
    while done < len {
        let piece = RELAY_SLOT.min(len - done);
        let mut slot = shared.relayed.take().map_err(failed)?;
        source.fill(slot.bytes(piece))?;
        let to = dst.0 + done as u64;
        // SAFETY: the slot is pinned and not touched until the event.
        unsafe { shared.context.driver.cuMemcpyHtoDAsync_v2(to, slot.memory().cast(), piece, stream.raw) }
            .and_then(|()| slot.record(stream.raw))
            .map_err(failed)?;
        slot.release_after();
        done += piece;
    }
    Ok(())
}

fn copy_out(stream: &Stream, seq: u64, src: DevicePtr, len: usize, mut sink: Box<dyn Sink>) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream));
    if let Some(range) = sink.memory() {
        // Older bytes must not come after these.
        if stream.lands_in(range) {
            settle(stream, seq)?;
        }
        match page_lock::look(stream, seq, range) {
            Look::Free if is_pinned(stream, range) => return direct::hand_out(stream, src, range).map_err(failed),
            Look::Locked(middle) => {
                if let Some(landings) = direct::copy_out_locked(stream, src, range, middle).map_err(failed)? {
                    landings.into_iter().for_each(|landing| stream.add_landing(seq, landing));
                    return Ok(());
                }
            }
            _ => {}
        }
        let tracker = Movers::tracker(pieces(len).map(|(_, bytes)| bytes));
        stream.add_landing(seq, Landing::Moved(Arc::clone(&tracker), range));
        for (offset, bytes) in pieces(len) {
            let from = src.0 + offset as u64;
            let slot = fetch(stream, from, bytes).map_err(|error| {
                tracker.abort(error);
                failed(error)
            })?;
            shared.movers.land(stream.index as usize, slot, range.start + offset, bytes, &tracker);
        }
        return Ok(());
    }
    if sink.detached() && stream.onward.is_ready(shared) {
        stream.onward.put(Part::Begin(sink));
        let all = pieces(len).try_for_each(|(offset, bytes)| {
            stream.onward.put(Part::Bytes(fetch(stream, src.0 + offset as u64, bytes)?, bytes));
            Ok(())
        });
        stream.onward.put(if all.is_ok() { Part::End } else { Part::Abort });
        return all.map_err(failed);
    }
    let mut ahead = VecDeque::new();
    let (mut asked, mut done) = (0, 0);
    while done < len {
        while asked < len && ahead.len() < AHEAD {
            let bytes = OUT_SLOT.min(len - asked);
            let slot = fetch(stream, src.0 + asked as u64, bytes).map_err(failed)?;
            ahead.push_back((slot, bytes));
            asked += bytes;
        }
        let Some((mut slot, bytes)) = ahead.pop_front() else { break };
        slot.wait().map_err(failed)?;
        if let Err(error) = sink.drain(slot.bytes(bytes)) {
            // The device writes the others all the same.
            ahead.into_iter().for_each(|(slot, _)| slot.release_after());
            return Err(error);
        }
        done += bytes;
    }
    sink.finish()
}

/// A copy out to the program's memory, if it needs no waiting: straight there if that is pinned or locked, or the caller waits
/// anyway, else into slots if enough are free. False if that can't be; then nothing was done.
pub(crate) fn copy_out_now(
    stream: &Stream,
    state: &mut State,
    src: DevicePtr,
    range: HostRange,
    waited: bool,
) -> Result<bool, DriverError> {
    let shared = &stream.shared;
    // Older bytes must not come after these.
    if state.lands_in(range) {
        return Ok(false);
    }
    let waited = waited || stream.is_lent();
    match page_lock::look(stream, state.next(), range) {
        Look::Free if waited || is_pinned(stream, range) => return direct::hand_out(stream, src, range).map(|()| true),
        Look::Locked(middle) if waited => {
            return direct::copy_out_locked_waited(stream, src, range, middle).map(|()| true);
        }
        Look::Locked(middle) => {
            let Some(landings) = direct::copy_out_locked(stream, src, range, middle)? else { return Ok(false) };
            landings.into_iter().for_each(|landing| state.push_landing(landing));
            return Ok(true);
        }
        // Whoever waits may as well work.
        Look::Mixed if waited => return Ok(false),
        Look::Free | Look::Mixed => {}
    }
    let Some(slots) = slots_now(stream, range.len)? else { return Ok(false) };
    let tracker = Movers::tracker(pieces(range.len).map(|(_, bytes)| bytes));
    let span = shared.tracer.begin(stream);
    for ((offset, bytes), slot) in pieces(range.len).zip(slots) {
        let filled = fill_slot(stream, &slot, src.0 + offset as u64, bytes);
        if let Err(error) = filled {
            tracker.abort(error);
            return Err(error);
        }
        shared.movers.land(stream.index as usize, slot, range.start + offset, bytes, &tracker);
    }
    shared.tracer.end(span, stream, SpanKind::CopyOut, range.len as u64, String::new);
    state.push_landing(Landing::Moved(tracker, range));
    Ok(true)
}

/// A copy out whose bytes somebody else sends on when they are there. False if there are not enough slots; then nothing was done.
pub(crate) fn copy_out_onward(
    stream: &Stream,
    src: DevicePtr,
    len: usize,
    sink: &mut Option<Box<dyn Sink>>,
) -> Result<bool, DriverError> {
    let shared = &stream.shared;
    if !stream.onward.is_ready(shared) {
        return Ok(false);
    }
    let Some(slots) = slots_now(stream, len)? else { return Ok(false) };
    let span = shared.tracer.begin(stream);
    let mut places = pieces(len).zip(&slots);
    let filled = places.try_for_each(|((offset, bytes), slot)| fill_slot(stream, slot, src.0 + offset as u64, bytes));
    if let Err(error) = filled {
        // The device writes those that it was given all the same.
        slots.into_iter().for_each(Slot::release_after);
        return Err(error);
    }
    shared.tracer.end(span, stream, SpanKind::CopyOut, len as u64, String::new);
    if let Some(sink) = sink.take() {
        stream.onward.put(Part::Begin(sink));
        slots.into_iter().zip(pieces(len)).for_each(|(slot, (_, bytes))| stream.onward.put(Part::Bytes(slot, bytes)));
        stream.onward.put(Part::End);
    }
    Ok(true)
}

/// Slots for all of a copy out, a piece each, if so many are free and others don't go without.
fn slots_now(stream: &Stream, len: usize) -> Result<Option<Vec<Slot>>, DriverError> {
    let count = len.div_ceil(OUT_SLOT);
    if count > NOW_SLOTS_MAX {
        return Ok(None);
    }
    (0..count).map(|_| stream.shared.outward.try_take()).collect()
}

/// A slot that the device fills in the stream's order.
fn fetch(stream: &Stream, from: u64, len: usize) -> Result<Slot, DriverError> {
    let slot = stream.shared.outward.take()?;
    fill_slot(stream, &slot, from, len)?;
    Ok(slot)
}

fn fill_slot(stream: &Stream, slot: &Slot, from: u64, len: usize) -> Result<(), DriverError> {
    // SAFETY: the slot is pinned and at least `len` long; its taker waits for the event.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), from, len, stream.raw) }?;
    slot.record(stream.raw)
}

/// A copy out of a few KiB: into a slot now, from there to the sink when somebody waits. False if no slot
/// is free.
pub(crate) fn copy_out_small(
    stream: &Stream,
    state: &mut State,
    src: DevicePtr,
    len: usize,
    sink: &mut Option<Box<dyn Sink>>,
) -> Result<bool, DriverError> {
    let Some(slot) = stream.shared.small.try_take()? else { return Ok(false) };
    let span = stream.shared.tracer.begin(stream);
    // SAFETY: the slot is pinned, and read only after the stream has got past this.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), src.0, len, stream.raw) }?;
    stream.shared.tracer.end(span, stream, SpanKind::CopyOut, len as u64, String::new);
    if let Some(sink) = sink.take() {
        state.push_landing(Landing::Small { slot, len, sink });
    }
    Ok(true)
}

/// Offsets and lengths of a copy out, a slot each: the engines like them long, and the threads divide them.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    (0..len).step_by(OUT_SLOT).map(move |offset| (offset, OUT_SLOT.min(len - offset)))
}

/// Whether the driver knows the program's memory as pinned or managed: then its engines reach it.
pub(crate) fn is_pinned(stream: &Stream, range: HostRange) -> bool {
    use cudarc::driver::sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as TYPE;
    let known = |address: usize| {
        let (mut kind, mut attribute) = (0u32, TYPE);
        let mut value = (&raw mut kind).cast();
        // SAFETY: the attribute is a 32-bit number. Memory that the driver doesn't know has 0; the call for a single attribute
        // says so by an error, which takes longer.
        unsafe {
            stream.shared.context.driver.cuPointerGetAttributes(1, &raw mut attribute, &raw mut value, address as u64)
        }
        .is_ok_and(|()| kind != 0)
    };
    range.len > 0 && known(range.start) && known(range.start + range.len - 1)
}

//! Performs operations in their turn, on the stream's worker or the caller's thread.

use super::copy_out::{copy_out, copy_out_traced, give, settle_before};
use super::direct::{self, HostMemoryQuery};
use super::driver::DriverError;
use super::in_flight;
use super::launch::{self, Shape};
use super::shared::Shared;
use super::staging::copy_route::{self, Direction, End, IssuePoint, Route, TAKEN_MAX};
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::RELAY_SLOT;
use super::stream::{Op, Stream};
use accord_device::stream::Access;
use accord_device::{CopySink, CopySource, NativeSource, PeerWay};
use accord_types::{DevicePtr, Result, SpanKind};

/// Most bytes from other processes that the driver reads before its call returns, which is faster than a slot and an event. The buffer is on the stack.
const HANDED_IN_MAX: usize = 4 << 10;

/// Performs the operation at `seq`. All earlier operations are in the driver's stream or done.
pub(crate) fn perform(stream: &Stream, seq: u64, op: Op) -> Result<()> {
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    let _current = shared.context.enter().map_err(failed)?;
    stream.order_after(&mut stream.lock()).map_err(failed)?;
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
                in_flight::sent(stream, seq, sink, true)
            }
            FetchedPlace::Device => give_native(stream, seq, len as usize, sink, fetched),
        },
        Op::CopyOut { src, len, mut sink, fetched: None } => {
            let way = sink.way(false)?;
            if let PeerWay::Mapped(target) = way {
                return in_flight::written(stream, seq, (src, len), sink, target);
            }
            let start = shared.tracer.begin(stream.raw);
            if let (PeerWay::Library, Some(library)) = (way, sink.library()) {
                settle_before(stream, seq, Access::Device)?;
                let used = shared.memory_uses.begin()?;
                library.start(shared.context.range(src, len as usize))?;
                library.wait()?;
                drop(used);
                stream.arrived(seq);
                shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::Push, len, String::new);
                return sink.finish();
            }
            let given = copy_out_traced(stream, seq, (src, len), sink, start)?;
            given.map_or(Ok(()), |sink| in_flight::sent(stream, seq, sink, false))
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
            let mut state = stream.lock_in_turn();
            let used = shared.memory_uses.begin()?;
            let issued = launch::issue(stream, &mut state, index, &function, shape, &block);
            drop(state);
            issued.map_err(failed)?;
            drop(used);
            stream.launched_in_turn(seq).map_err(failed)
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
    if let Some(range) = source.memory() {
        // Earlier copies out may still write to the memory that this copy reads.
        settle_before(stream, seq, Access::Program(range))?;
        let facts = direct::facts(stream, Direction::In, IssuePoint::Turn, len, End::Program, source.immediate());
        let mut asked = HostMemoryQuery::in_turn(stream, seq, range);
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
    if (1..=HANDED_IN_MAX).contains(&len) && source.library().is_none() {
        let mut bytes = [0; HANDED_IN_MAX];
        source.fill(&mut bytes[..len])?;
        // The device may have been shut down meanwhile.
        let _use = shared.memory_uses.begin()?;
        // SAFETY: the bytes are readable. The driver checks the address and reads so few bytes before it returns.
        return unsafe { shared.context.driver.cuMemcpyHtoDAsync_v2(dst.0, bytes.as_ptr().cast(), len, stream.raw) }
            .map_err(failed);
    }
    let native = source.library().is_some();
    if native {
        // A process that writes to the device's memory does not wait for its stream.
        settle_before(stream, seq, Access::Device)?;
    }
    let (mut done, mut by_driver) = (0, false);
    while done < len {
        let to = dst.offset(done as u64);
        let filled = match source.library() {
            Some(library) => fill_native(shared, library, to, len - done)?,
            None => 0,
        };
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
fn fill_native(shared: &Shared, source: &mut dyn NativeSource, to: DevicePtr, space: usize) -> Result<usize> {
    let _use = shared.memory_uses.begin()?;
    source.fill_native(shared.context.range(to, space))
}

/// Lets a sink's library read fetched bytes. If it can't access them after all, they go through the host.
fn give_native(stream: &Stream, seq: u64, len: usize, mut sink: CopySink, fetched: Fetched) -> Result<()> {
    // As in `copy_out`.
    settle_before(stream, seq, Access::OtherEnd)?;
    let start = stream.shared.tracer.begin(stream.raw);
    if matches!(sink.way(true)?, PeerWay::Library) {
        return in_flight::read(stream, seq, len, sink, (fetched, start));
    }
    let failed = |error: DriverError| stream.shared.driver_failed(error, Some(stream.queue));
    let Some(slot) = fetched.wait().map_err(failed)? else { return sink.finish() };
    let copied = copy_out(stream, seq, slot.address(), len, sink);
    slot.record(stream.raw).map_err(failed)?;
    slot.release_after();
    copied?.map_or(Ok(()), |mut sink| sink.finish())
}

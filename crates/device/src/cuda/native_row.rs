//! Copies out whose bytes a library reads from device slots. Consecutive copies of a stream are concurrent if each target has posted a receive: otherwise each
//! would wait until the one before is complete, which a library takes longer to report than to do.

use super::row::Row;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use super::trace::Start;
use crate::CopySink;
use accord_types::{Result, SpanKind};
use std::cell::Cell;

/// A copy whose library is ready to read the slot.
pub(crate) struct Fetching {
    pub(crate) seq: u64,
    pub(crate) len: usize,
    pub(crate) sink: CopySink,
    pub(crate) fetched: Fetched,
    pub(crate) start: Start,
}

/// A copy that the library has begun. Fields are dropped in this order: the sink waits for the library. The slot's memory stays as long as the slot, so that
/// a device's shutdown waits for none of this.
struct UnderWay {
    sink: CopySink,
    slot: Slot,
    seq: u64,
    len: usize,
    start: Start,
    /// Whether later copies may run concurrently with it.
    has_company: bool,
}

/// Has the library read `first` and the copies after it that may run concurrently, as many as there are slots. All operations before are done.
pub(crate) fn give(stream: &Stream, first: Fetching) -> Result<()> {
    let Some(first) = begin(stream, first)? else { return Ok(()) };
    let last_has_company = Cell::new(first.has_company);
    let next = || {
        let next = if last_has_company.get() { follower(stream)? } else { None };
        let begun = next.map_or(Ok(None), |copy| begin(stream, copy))?;
        if let Some(copy) = &begun {
            last_has_company.set(copy.has_company);
        }
        Ok(begun)
    };
    Row { stream, next, end: |copy, _| end(stream, copy) }.run(first)
}

/// Takes the next copy of the list if it may run concurrently with the copies before it.
fn follower(stream: &Stream) -> Result<Option<Fetching>> {
    let may_follow = |op: &mut Op| match op {
        Op::CopyOut { sink, fetched: Some(fetched), .. } => {
            fetched.place() == FetchedPlace::Device && sink.goes_beside()
        }
        _ => false,
    };
    let taken = stream.take_if(may_follow);
    let Some((seq, Op::CopyOut { len, mut sink, fetched: Some(fetched), .. })) = taken else { return Ok(None) };
    let start = stream.shared.tracer.begin(stream.raw);
    // `follower` has checked that this returns `true` without blocking.
    sink.drains_native()?;
    Ok(Some(Fetching { seq, len: len as usize, sink, fetched, start }))
}

fn begin(stream: &Stream, copy: Fetching) -> Result<Option<UnderWay>> {
    let Fetching { seq, len, mut sink, fetched, start } = copy;
    let filled = fetched.wait().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
    let Some(slot) = filled else { return Ok(None) };
    let has_company = sink.goes_beside();
    sink.drain_native(stream.shared.context.range(slot.address(), len))?;
    Ok(Some(UnderWay { sink, slot, seq, len, start, has_company }))
}

/// Waits until a copy has landed.
fn end(stream: &Stream, copy: UnderWay) -> Result<()> {
    let UnderWay { mut sink, slot, seq, len, start, .. } = copy;
    sink.await_native()?;
    drop(slot);
    stream.shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::Push, len as u64, String::new);
    sink.finish()?;
    stream.is_done(seq);
    Ok(())
}

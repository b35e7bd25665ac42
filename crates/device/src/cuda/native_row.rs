//! Copies out whose bytes a library takes, from where they were fetched to. Those that follow each other in a stream are under way at the same time, where
//! the targets have room for each of them: else each would wait until the one before has landed, which a library takes longer to say than to do.

use super::row::Row;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use super::trace::Start;
use crate::CopySink;
use accord_types::{Result, SpanKind};
use std::cell::Cell;

/// One whose library is ready to take what was fetched.
pub(crate) struct Fetching {
    pub(crate) seq: u64,
    pub(crate) len: usize,
    pub(crate) sink: CopySink,
    pub(crate) fetched: Fetched,
    pub(crate) start: Start,
}

/// One that is under way. What it holds goes in this order: the sink waits for the library. The slot's memory stays as long as the slot does, so a
/// device that is shut down waits for none of this.
struct UnderWay {
    sink: CopySink,
    slot: Slot,
    seq: u64,
    len: usize,
    start: Start,
    /// Others may be under way beside it.
    has_company: bool,
}

/// Has a library take `first`, and those that follow it and may be under way beside it: no more than there are slots. Everything before is done.
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

/// The next one of the list, if it may be under way beside those before it.
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
    // It does, and does not wait for that.
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

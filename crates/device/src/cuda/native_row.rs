//! Copies out whose bytes a library takes, from where they were fetched to. Those that follow each other in a stream are under way at the same time, where
//! the targets have room for each of them: else each would wait until the one before has landed, which a library takes longer to say than to do.

use super::pending::FETCHED_MAX;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use super::trace::Start;
use crate::CopySink;
use accord_types::{Result, SpanKind};
use std::collections::VecDeque;

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

/// Has a library take `first`, and those that follow it and may be under way beside it. Everything before is done.
pub(crate) fn give(stream: &Stream, first: Fetching) -> Result<()> {
    let (mut next, mut row) = (Some(first), VecDeque::new());
    loop {
        while let Some(copy) = next {
            row.extend(begin(stream, copy)?);
            next = follower(stream, &row)?;
        }
        let Some(first) = row.pop_front() else { return Ok(()) };
        end(stream, first)?;
        next = follower(stream, &row)?;
    }
}

/// The next one of the list, if that may be under way beside those of `row`.
fn follower(stream: &Stream, row: &VecDeque<UnderWay>) -> Result<Option<Fetching>> {
    let may_follow = |op: &mut Op| match op {
        Op::CopyOut { sink, fetched: Some(fetched), .. } => {
            fetched.place() == FetchedPlace::Device && sink.goes_beside()
        }
        _ => false,
    };
    let has_place = row.len() < FETCHED_MAX && row.back().is_some_and(|last| last.has_company);
    let taken = if has_place { stream.take_if(may_follow) } else { None };
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

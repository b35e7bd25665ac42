//! Copies out whose bytes a library takes, from where they were fetched to. Those that follow each other in a stream are under way at the same time, where
//! the targets have room for each of them: else each would wait until the one before has landed, which a library takes longer to say than to do.

use super::driver::DriverError;
use super::pending::FETCHED_MAX;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use super::trace::Start;
use crate::CopySink;
use accord_types::{DevicePtr, Result, SpanKind};
use std::collections::VecDeque;

/// One that is asked for.
struct Fetching {
    seq: u64,
    len: usize,
    sink: CopySink,
    fetched: Fetched,
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

/// A copy out by the host, of bytes of the device at an address.
pub(crate) type ByHost = fn(&Stream, u64, DevicePtr, usize, CopySink) -> Result<()>;

/// Has a library take what was fetched for the operation at `seq`, and for those that follow it and may be under way beside it. By the host if the
/// library does not reach it after all. Everything before is done.
pub(crate) fn give(
    stream: &Stream,
    (seq, len): (u64, usize),
    sink: CopySink,
    fetched: Fetched,
    by_host: ByHost,
) -> Result<()> {
    let mut next = Some(Fetching { seq, len, sink, fetched });
    let mut row = VecDeque::new();
    loop {
        while let Some(copy) = next.take().or_else(|| follower(stream, &row)) {
            begin(stream, copy, &mut row, by_host)?;
        }
        let Some(first) = row.pop_front() else { return Ok(()) };
        end(stream, first)?;
    }
}

/// The next one of the list, if that may be under way beside those of `row`.
fn follower(stream: &Stream, row: &VecDeque<UnderWay>) -> Option<Fetching> {
    let may_follow = |op: &mut Op| match op {
        Op::CopyOut { sink, fetched: Some(fetched), .. } => {
            fetched.place() == FetchedPlace::Device && sink.goes_beside()
        }
        _ => false,
    };
    row.back().filter(|last| last.has_company && row.len() < FETCHED_MAX)?;
    match stream.take_if(may_follow)? {
        (seq, Op::CopyOut { len, sink, fetched: Some(fetched), .. }) => {
            Some(Fetching { seq, len: len as usize, sink, fetched })
        }
        _ => None,
    }
}

fn begin(stream: &Stream, copy: Fetching, row: &mut VecDeque<UnderWay>, by_host: ByHost) -> Result<()> {
    let Fetching { seq, len, mut sink, fetched } = copy;
    let shared = &stream.shared;
    let failed = |error: DriverError| shared.driver_failed(error, Some(stream.queue));
    let start = shared.tracer.begin(stream.raw);
    let drains = sink.drains_native()?;
    let has_company = sink.goes_beside();
    let Some(slot) = fetched.wait().map_err(failed)? else { return sink.finish() };
    if drains {
        sink.drain_native(shared.context.range(slot.address(), len))?;
        row.push_back(UnderWay { sink, slot, seq, len, start, has_company });
        return Ok(());
    }
    row.drain(..).try_for_each(|before| end(stream, before))?;
    let copied = by_host(stream, seq, slot.address(), len, sink);
    slot.record(stream.raw).map_err(failed)?;
    slot.release_after();
    copied
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

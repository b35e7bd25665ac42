//! Copies into memory of other processes. Those that follow each other in a stream go into the driver's one behind the other: else each would wait
//! until the one before is done, and its target and its program know that.

use super::row::Row;
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use crate::ipc::MappedRange;
use crate::{CopySink, FetchTo};
use accord_types::{DevicePtr, Result, SpanKind};

/// One, and where its bytes go.
pub(crate) struct Reaching {
    pub(crate) seq: u64,
    pub(crate) src: DevicePtr,
    pub(crate) len: u64,
    pub(crate) sink: CopySink,
    pub(crate) there: MappedRange,
}

/// One that the driver was given, or a sink that was given its bytes in another way.
struct UnderWay<'a> {
    seq: u64,
    sink: Option<CopySink>,
    copying: Option<Copying<'a>>,
}

/// A copy in the driver's hands. Its target stays mapped until it is done.
struct Copying<'a> {
    stream: &'a Stream,
    /// Taken for its event. None where there was none: then nothing comes behind it.
    slot: Option<Slot>,
    is_done: bool,
    #[allow(dead_code, reason = "it is held")]
    there: MappedRange,
}

/// Has the driver copy `first`, and those that follow it whose targets are ready. Everything before is done, or in the driver's stream. What turns out
/// not to be mapped is given to `otherwise`.
pub(crate) fn push(
    stream: &Stream,
    first: Reaching,
    otherwise: impl Fn(u64, DevicePtr, u64, CopySink) -> Result<Option<CopySink>>,
) -> Result<()> {
    let (seq, slot) = (first.seq, event(stream)?);
    let is_alone = slot.is_none();
    let end = |copy: UnderWay<'_>, more| {
        let UnderWay { seq: at, sink, mut copying } = copy;
        copying.iter_mut().try_for_each(Copying::wait)?;
        drop(copying);
        if let Some(mut sink) = sink {
            sink.finish()?;
        }
        // The operation's caller completes a copy that is alone.
        if more || at > seq {
            stream.is_done(at);
        } else {
            stream.arrived(at);
        }
        Ok(())
    };
    // Who brings bytes by the host waits for those that are still to come to the program's memory, and so for all before it: not from within a row.
    let next = || if stream.is_completing(seq) { Ok(None) } else { follower(stream, &otherwise) };
    let first = begin(stream, slot, first)?;
    if is_alone { end(first, false) } else { Row { stream, next, end }.run(first) }
}

/// Has the driver copy the next one of the list, if its target is ready for it.
fn follower(
    stream: &Stream,
    otherwise: impl Fn(u64, DevicePtr, u64, CopySink) -> Result<Option<CopySink>>,
) -> Result<Option<UnderWay<'_>>> {
    let Some(slot) = event(stream)? else { return Ok(None) };
    let follows = |op: &mut Op| match op {
        Op::CopyOut { sink, fetched: None, .. } => sink.fetch_to() == FetchTo::Nowhere && sink.follows(),
        _ => false,
    };
    let Some((seq, Op::CopyOut { src, len, mut sink, .. })) = stream.take_if(follows) else { return Ok(None) };
    let failed = |error| stream.shared.driver_failed(error, Some(stream.queue));
    stream.come_after(&mut stream.lock()).map_err(failed)?;
    if let Some(there) = sink.mapped_range()? {
        return begin(stream, Some(slot), Reaching { seq, src, len, sink, there }).map(Some);
    }
    Ok(Some(UnderWay { seq, sink: otherwise(seq, src, len, sink)?, copying: None }))
}

fn event(stream: &Stream) -> Result<Option<Slot>> {
    stream.shared.small.try_take().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))
}

fn begin(stream: &Stream, slot: Option<Slot>, copy: Reaching) -> Result<UnderWay<'_>> {
    let Reaching { seq, src, len, sink, there } = copy;
    let shared = &stream.shared;
    let failed = |error| shared.driver_failed(error, Some(stream.queue));
    let _use = shared.memory_uses.begin()?;
    let span = shared.tracer.begin(stream.raw);
    let to = there.address().0;
    let mut copying = Copying { stream, slot: None, is_done: false, there };
    // SAFETY: the driver checks the source; the target stays mapped until `copying` goes, which is after the copy's end.
    unsafe { shared.context.driver.cuMemcpyDtoDAsync_v2(to, src.0, len as usize, stream.raw) }.map_err(failed)?;
    shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Push, len, String::new);
    if let Some(slot) = slot {
        slot.record(stream.raw).map_err(failed)?;
        copying.slot = Some(slot);
    }
    Ok(UnderWay { seq, sink: Some(sink), copying: Some(copying) })
}

impl Copying<'_> {
    fn wait(&mut self) -> Result<()> {
        let shared = &self.stream.shared;
        let waited = match &self.slot {
            Some(slot) => slot.synchronize(),
            // SAFETY: the stream is alive. Nothing is put into it meanwhile: it is this operation's turn.
            None => unsafe { shared.context.driver.cuStreamSynchronize(self.stream.raw) },
        };
        self.is_done = true;
        waited.map_err(|error| shared.driver_failed(error, Some(self.stream.queue)))
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // Some other one has failed, which is said elsewhere.
            let _ = self.wait();
        }
    }
}

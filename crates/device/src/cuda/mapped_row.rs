//! Copies into memory of other processes. Consecutive copies of a stream are issued to the driver together. Otherwise each would wait until the previous
//! one is done, and its target and its program know that.

use super::row::Row;
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use crate::ipc::MappedRange;
use crate::{CopySink, FetchTo};
use accord_types::{DevicePtr, Result, SpanKind};

/// A copy with its mapped target.
pub(crate) struct Reaching {
    pub(crate) seq: u64,
    pub(crate) src: DevicePtr,
    pub(crate) len: u64,
    pub(crate) sink: CopySink,
    pub(crate) there: MappedRange,
}

/// A copy that was issued to the driver, or a sink that has received its bytes another way.
struct UnderWay<'a> {
    seq: u64,
    sink: Option<CopySink>,
    copying: Option<Copying<'a>>,
}

/// A copy issued to the driver. Its target stays mapped until it is done.
struct Copying<'a> {
    stream: &'a Stream,
    /// Used for its event. Without a slot no copy follows.
    slot: Option<Slot>,
    is_done: bool,
    #[allow(dead_code, reason = "it is held")]
    there: MappedRange,
}

/// Issues `first`, and those of the following copies whose targets are ready. All earlier operations are done, or in the driver's stream. Copies whose
/// target is not mapped are passed to `otherwise`.
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
    // A copy through the host waits for earlier ones to the program's memory, which must not happen within a batch.
    let next = || if stream.is_completing(seq) { Ok(None) } else { follower(stream, &otherwise) };
    let first = begin(stream, slot, first)?;
    if is_alone { end(first, false) } else { Row { stream, next, end }.run(first) }
}

/// Issues the next copy of the list, if its target is ready.
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
    // SAFETY: the driver checks the source. The target stays mapped until `copying` is dropped, which is after the copy's end.
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
            // SAFETY: the stream is alive, and no operation is added meanwhile, because it is this operation's turn.
            None => unsafe { shared.context.driver.cuStreamSynchronize(self.stream.raw) },
        };
        self.is_done = true;
        waited.map_err(|error| shared.driver_failed(error, Some(self.stream.queue)))
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // Another copy has failed, which is reported elsewhere.
            let _ = self.wait();
        }
    }
}

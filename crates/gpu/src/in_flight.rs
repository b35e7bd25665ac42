//! Copies of a stream that are in flight to other processes, whatever carries their bytes: a lane, a library that reads
//! the device's memory, or the driver, which writes to the target's. All copies in a window have the carrier of its first.
//!
//! Operations ordered after them that only go into the driver's stream are issued without waiting, because the bytes have
//! left the memory. They are reported done after the copies.

use super::copy_out::{copy_out_traced, give};
use super::driver::DriverError;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::Slot;
use super::stream::{Op, Stream};
use super::trace::Start;
use accord_device::in_flight::{IN_FLIGHT_MAX, Sender, complete_in_order};
use accord_device::ipc::MappedRange;
use accord_device::{CopySink, FetchTo, PeerWay};
use accord_types::{DevicePtr, Error, Result, SpanKind};

/// A copy in flight. Fields are dropped in this order: the driver ends its copy before the sink reports to the target
/// that no more bytes are written. A sink waits for its library, whose slot stays as long, so that a device's shutdown
/// waits for none of this.
struct InFlight<'a> {
    seq: u64,
    /// The driver's copy to the target.
    written: Option<DriverCopy<'a>>,
    /// `None` if other code finishes the sink.
    sink: Option<CopySink>,
    read: Option<LibraryRead>,
}

/// A slot whose bytes a library reads.
struct LibraryRead {
    slot: Slot,
    len: usize,
    start: Start,
}

/// A copy that the driver has. Its target stays mapped until it is done.
struct DriverCopy<'a> {
    stream: &'a Stream,
    /// Used for its event. Without a slot no operation follows.
    slot: Option<Slot>,
    is_done: bool,
    #[allow(dead_code, reason = "it is held")]
    target: MappedRange,
}

/// The carrier of a window's copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    /// Over lanes, from slots of the host that were filled before. Copies are fetched only after fetched ones.
    Fetched,
    /// Over lanes, from the device's memory.
    Lane,
    /// By a library, from slots of the device.
    Library,
    /// By the driver.
    Driver,
}

impl Carrier {
    /// Whether a listed operation is a copy with this carrier that may be in flight together with earlier ones.
    fn takes(self, op: &mut Op) -> bool {
        let Op::CopyOut { sink, fetched, .. } = op else { return false };
        let place = fetched.as_ref().map(Fetched::place);
        match self {
            Self::Fetched => place == Some(FetchedPlace::Host) && sink.fetch_to() == FetchTo::Host && sink.follows(),
            Self::Lane => place.is_none() && sink.fetch_to() == FetchTo::Host && sink.follows(),
            Self::Library => place == Some(FetchedPlace::Device) && sink.is_concurrent(),
            Self::Driver => place.is_none() && sink.fetch_to() == FetchTo::Nowhere && sink.follows(),
        }
    }
}

/// The operations that may begin while the copies of a window are in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// None: a copy has no event, or could not be sent.
    Nothing,
    /// Those that only go into the driver's stream.
    Operations,
    /// Other copies as well.
    Copies,
}

/// The copies in flight of one stream.
struct Window<'a> {
    stream: &'a Stream,
    carrier: Carrier,
    first: u64,
    meanwhile: Meanwhile,
}

/// Completes the copy at `seq`, whose sink has its bytes, over a lane, and sends following ones meanwhile. `is_fetched`: the
/// bytes were fetched.
pub(crate) fn sent(stream: &Stream, seq: u64, sink: CopySink, is_fetched: bool) -> Result<()> {
    let carrier = if is_fetched { Carrier::Fetched } else { Carrier::Lane };
    let mut window = Window { stream, carrier, first: seq, meanwhile: Meanwhile::Copies };
    complete_in_order(&mut window, InFlight { seq, written: None, sink: Some(sink), read: None })
}

/// Has a library read the slot of the copy at `seq`, whose sink is ready for that, and those of following copies meanwhile, as many as there are slots. All
/// operations before are done.
pub(crate) fn read(
    stream: &Stream,
    seq: u64,
    len: usize,
    sink: CopySink,
    (fetched, start): (Fetched, Start),
) -> Result<()> {
    let mut window = Window { stream, carrier: Carrier::Library, first: seq, meanwhile: Meanwhile::Operations };
    let Some(first) = window.begin_read(seq, len, sink, (fetched, start))? else { return Ok(()) };
    complete_in_order(&mut window, first)
}

/// Has the driver write the bytes of the copy at `seq` to the target, and those of following copies meanwhile. All earlier
/// operations are done, or in the driver's stream.
pub(crate) fn written(
    stream: &Stream,
    seq: u64,
    (src, len): (DevicePtr, u64),
    sink: CopySink,
    target: MappedRange,
) -> Result<()> {
    let slot = event(stream)?;
    let meanwhile = if slot.is_some() { Meanwhile::Copies } else { Meanwhile::Nothing };
    let mut window = Window { stream, carrier: Carrier::Driver, first: seq, meanwhile };
    let first = window.begin_write(seq, (src, len), sink, (target, slot))?;
    complete_in_order(&mut window, first)
}

impl<'a> Sender for Window<'a> {
    type Copy = InFlight<'a>;

    fn send_next(&mut self) -> Result<Option<InFlight<'a>>> {
        // A copy through the host waits for earlier ones to the program's memory, which must not happen meanwhile.
        let waits = self.carrier == Carrier::Driver && self.stream.is_completing(self.first);
        if self.meanwhile != Meanwhile::Copies || waits {
            return Ok(None);
        }
        self.send_listed().inspect_err(|_| self.meanwhile = Meanwhile::Nothing)
    }

    fn complete(&mut self, copy: InFlight<'a>, others: bool) -> Result<()> {
        if self.meanwhile != Meanwhile::Nothing {
            self.issue_others()?;
        }
        let InFlight { seq, written, mut sink, read } = copy;
        let stream = self.stream;
        if let Some(LibraryRead { slot, len, start }) = read {
            if let Some(library) = sink.as_mut().and_then(CopySink::library) {
                library.wait()?;
            }
            drop(slot);
            stream.shared.tracer.end(start, (stream.raw, stream.queue), SpanKind::Push, len as u64, String::new);
        }
        if let Some(mut written) = written {
            written.wait()?;
        }
        if let Some(mut sink) = sink {
            sink.finish()?;
        }
        let is_alone = !others && seq == self.first;
        match self.carrier {
            // The operation's caller completes these.
            Carrier::Fetched | Carrier::Lane if is_alone => {}
            Carrier::Driver if is_alone => stream.arrived(seq),
            _ => stream.is_done(seq),
        }
        Ok(())
    }
}

impl<'a> Window<'a> {
    /// Sends the next copy of the list, if it may follow.
    fn send_listed(&mut self) -> Result<Option<InFlight<'a>>> {
        let (stream, carrier) = (self.stream, self.carrier);
        let slot = if carrier == Carrier::Driver { event(stream)? } else { None };
        if carrier == Carrier::Driver && slot.is_none() {
            return Ok(None);
        }
        let taken = stream.take_if(|op| carrier.takes(op));
        let Some((seq, Op::CopyOut { src, len, mut sink, fetched })) = taken else { return Ok(None) };
        let sink = match (carrier, fetched) {
            (Carrier::Library, Some(fetched)) => {
                let start = stream.shared.tracer.begin(stream.raw);
                // A sink that goes beside others returns `true` without blocking.
                sink.way(true)?;
                return self.begin_read(seq, len as usize, sink, (fetched, start));
            }
            (_, Some(fetched)) => Some(give(stream, seq, len as usize, sink, fetched)?),
            (_, None) => {
                stream.order_after(&mut stream.lock()).map_err(|error| failed(stream, error))?;
                if carrier == Carrier::Driver
                    && let PeerWay::Mapped(target) = sink.way(false)?
                {
                    return self.begin_write(seq, (src, len), sink, (target, slot)).map(Some);
                }
                copy_out_traced(stream, seq, (src, len), sink, stream.shared.tracer.begin(stream.raw))?
            }
        };
        Ok(Some(InFlight { seq, written: None, sink, read: None }))
    }

    fn begin_read(
        &mut self,
        seq: u64,
        len: usize,
        mut sink: CopySink,
        (fetched, start): (Fetched, Start),
    ) -> Result<Option<InFlight<'a>>> {
        let stream = self.stream;
        let Some(slot) = fetched.wait().map_err(|error| failed(stream, error))? else { return Ok(None) };
        self.meanwhile = if sink.is_concurrent() { Meanwhile::Copies } else { Meanwhile::Operations };
        if let Some(library) = sink.library() {
            library.start(stream.shared.context.range(slot.address(), len))?;
        }
        Ok(Some(InFlight { seq, written: None, sink: Some(sink), read: Some(LibraryRead { slot, len, start }) }))
    }

    fn begin_write(
        &self,
        seq: u64,
        (src, len): (DevicePtr, u64),
        sink: CopySink,
        (target, slot): (MappedRange, Option<Slot>),
    ) -> Result<InFlight<'a>> {
        let (stream, shared) = (self.stream, &self.stream.shared);
        let _use = shared.memory_uses.begin()?;
        let span = shared.tracer.begin(stream.raw);
        let to = target.address().0;
        let mut copy = DriverCopy { stream, slot: None, is_done: false, target };
        // SAFETY: the driver checks the source. The target stays mapped until `copy` is dropped, which is after the copy's end.
        unsafe { shared.context.driver.cuMemcpyDtoDAsync_v2(to, src.0, len as usize, stream.raw) }
            .map_err(|error| failed(stream, error))?;
        shared.tracer.end(span, (stream.raw, stream.queue), SpanKind::Push, len, String::new);
        if let Some(slot) = slot {
            slot.record(stream.raw).map_err(|error| failed(stream, error))?;
            copy.slot = Some(slot);
        }
        Ok(InFlight { seq, written: Some(copy), sink: Some(sink), read: None })
    }

    /// Issues the next operations of the list, as long as they only go into the driver's stream. Operations enqueued later are issued at once.
    fn issue_others(&self) -> Result<()> {
        let is_such =
            |op: &mut Op| matches!(op, Op::Launch { .. } | Op::Store { .. } | Op::Copy { .. } | Op::Peer { .. });
        // Bounded, even if other threads keep enqueuing, because a thread may wait for the copies.
        for _ in 0..IN_FLIGHT_MAX {
            let Some((seq, op)) = self.stream.take_pipelined(is_such) else { break };
            self.stream.perform(seq, op)?;
        }
        Ok(())
    }
}

impl DriverCopy<'_> {
    fn wait(&mut self) -> Result<()> {
        let shared = &self.stream.shared;
        let waited = match &self.slot {
            Some(slot) => slot.synchronize(),
            // SAFETY: the stream is alive, and no operation is added meanwhile, because it is this operation's turn.
            None => unsafe { shared.context.driver.cuStreamSynchronize(self.stream.raw) },
        };
        self.is_done = true;
        waited.map_err(|error| failed(self.stream, error))
    }
}

impl Drop for DriverCopy<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // Another copy has failed, which is reported elsewhere.
            let _ = self.wait();
        }
    }
}

/// Returns a slot for its event, if one is free.
fn event(stream: &Stream) -> Result<Option<Slot>> {
    stream.shared.small.try_take().map_err(|error| failed(stream, error))
}

fn failed(stream: &Stream, error: DriverError) -> Error {
    stream.shared.driver_failed(error, Some(stream.queue))
}

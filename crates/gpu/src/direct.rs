//! Copies by the driver directly from or to the program's memory: its engines can access it, or staging is not worthwhile.

use super::completion::Completion;
use super::driver::DriverError;
use super::page_registration;
use super::registrations::{Pages, RegisteredPart};
use super::staging::copy_route::{self, Direction, End, Facts, IssuePoint, ProgramMemory, Route};
use super::staging::slot_pool::Slot;
use super::stream::{Stream, StreamProgress};
use accord_device::CopySink;
use accord_types::{DevicePtr, HostRange, QueueId, Result};

/// The time when the driver has read the bytes of a copy in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadTime {
    /// Now, by the caller.
    Now,
    /// When the stream reaches the copy.
    InTurn,
}

/// The program's memory at one end of a copy, as the choice of the copy's route queries it.
pub(crate) struct HostMemoryQuery<'a> {
    stream: &'a Stream,
    /// The stream's progress, while no part of the copy was enqueued.
    state: Option<&'a StreamProgress>,
    seq: u64,
    range: HostRange,
    /// The page-locked part, if the route has queried it.
    pub(crate) middle: Option<RegisteredPart>,
}

impl<'a> HostMemoryQuery<'a> {
    /// Creates the query for a copy that is enqueued now. `state` is the stream's.
    pub(crate) fn at_call(stream: &'a Stream, state: &'a StreamProgress, range: HostRange) -> Self {
        Self { stream, state: Some(state), seq: state.core.next(), range, middle: None }
    }

    /// Creates the query for the copy at `seq`, whose turn it is.
    pub(crate) fn in_turn(stream: &'a Stream, seq: u64, range: HostRange) -> Self {
        Self { stream, state: None, seq, range, middle: None }
    }
}

impl ProgramMemory for HostMemoryQuery<'_> {
    fn is_unfinished(&mut self) -> bool {
        self.state.map_or_else(|| self.stream.will_write(self.range), |state| state.will_write(self.range))
    }

    fn pages(&mut self) -> copy_route::Pages {
        match page_registration::usable_pages(&self.stream.shared, self.stream.index, self.seq, self.range) {
            Pages::Unregistered => copy_route::Pages::Unregistered,
            Pages::Registered(middle) => {
                self.middle = Some(middle);
                copy_route::Pages::Registered
            }
            Pages::Mixed => copy_route::Pages::Mixed,
        }
    }

    fn is_pinned(&mut self) -> bool {
        is_pinned(self.stream, self.range)
    }
}

/// The facts of a copy in a stream.
pub(crate) fn facts(stream: &Stream, direction: Direction, at: IssuePoint, len: usize, end: End, waits: bool) -> Facts {
    let (exposed, synchronous) = (stream.is_exposed(), stream.queue == QueueId::SYNC);
    Facts { direction, at, len, end, waits, may_take: false, exposed, synchronous, in_row: false }
}

/// Passes a copy in to the driver, unless it must be staged. `now`: the driver must have read the memory before this
/// returns.
pub(crate) fn copy_in(
    stream: &Stream,
    state: &StreamProgress,
    dst: DevicePtr,
    range: HostRange,
    now: bool,
) -> Result<Option<ReadTime>, DriverError> {
    let facts = facts(stream, Direction::In, IssuePoint::Call, range.len, End::Program, now);
    let mut asked = HostMemoryQuery::at_call(stream, state, range);
    match (copy_route::route(&facts, &mut asked).route, asked.middle) {
        (Route::Direct, _) => hand_in(stream, dst, range).map(|()| Some(ReadTime::InTurn)),
        (Route::DirectNow, _) => hand_in(stream, dst, range).map(|()| Some(ReadTime::Now)),
        (Route::Registered, Some(middle)) => {
            copy_in_registered(stream, dst, range, middle).map(|()| Some(ReadTime::InTurn))
        }
        _ => Ok(None),
    }
}

/// The program's memory, of which `middle` is locked, to the device.
pub(crate) fn copy_in_registered(
    stream: &Stream,
    dst: DevicePtr,
    range: HostRange,
    middle: RegisteredPart,
) -> Result<(), DriverError> {
    let mut parts = edges(range, middle).chain(middle.pieces());
    parts.try_for_each(|part| hand_in(stream, dst.offset((part.start - range.start) as u64), part))
}

/// Starts a copy in. The driver reads locked and pinned memory in the stream's order, other memory before it returns.
pub(crate) fn hand_in(stream: &Stream, dst: DevicePtr, range: HostRange) -> Result<(), DriverError> {
    let from = std::ptr::with_exposed_provenance(range.start);
    // SAFETY: the program keeps its memory until it has waited for the copy, and locked memory stays locked until then.
    unsafe { stream.shared.context.driver.cuMemcpyHtoDAsync_v2(dst.0, from, range.len, stream.raw) }
}

/// Starts a copy out. The driver writes locked and pinned memory in the stream's order, other memory before it returns.
pub(crate) fn hand_out(stream: &Stream, src: DevicePtr, range: HostRange) -> Result<(), DriverError> {
    let to = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: as for `hand_in`.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(to, src.0, range.len, stream.raw) }
}

/// Copies device memory to the program's, of which `middle` is locked; slots carry the rest. Returns `None`, without effect, if there are no slots.
/// The caller adds the completions.
pub(crate) fn copy_out_registered(
    stream: &Stream,
    src: DevicePtr,
    range: HostRange,
    middle: RegisteredPart,
) -> Result<Option<Vec<Completion<Stream>>>, DriverError> {
    let mut completions = Vec::new();
    let mut slots = Vec::new();
    for edge in edges(range, middle) {
        match stream.shared.small.try_take()? {
            Some(slot) => slots.push((slot, edge)),
            None => return Ok(None),
        }
    }
    for (slot, edge) in slots {
        edge_out(stream, src.offset((edge.start - range.start) as u64), &slot, edge)?;
        completions.push(Completion::Small { slot, len: edge.len, sink: CopySink::program(edge, true) });
    }
    middle.pieces().try_for_each(|part| hand_out(stream, src.offset((part.start - range.start) as u64), part))?;
    Ok(Some(completions))
}

/// Copies as [`copy_out_registered`], for a caller that waits anyway.
pub(crate) fn copy_out_registered_waited(
    stream: &Stream,
    src: DevicePtr,
    range: HostRange,
    middle: RegisteredPart,
) -> Result<(), DriverError> {
    let mut parts = middle.pieces().chain(edges(range, middle));
    parts.try_for_each(|part| hand_out(stream, src.offset((part.start - range.start) as u64), part))
}

fn edge_out(stream: &Stream, src: DevicePtr, slot: &Slot, edge: HostRange) -> Result<(), DriverError> {
    // SAFETY: the slot is pinned and longer than a page, and is read only after the stream has passed this copy.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), src.0, edge.len, stream.raw) }
}

/// Returns the unlocked parts of a range.
fn edges(range: HostRange, middle: RegisteredPart) -> impl Iterator<Item = HostRange> {
    let end = middle.range.start + middle.range.len;
    let before = HostRange { start: range.start, len: middle.range.start - range.start };
    let after = HostRange { start: end, len: range.start + range.len - end };
    [before, after].into_iter().filter(|edge| edge.len > 0)
}

/// Whether the driver knows the program's memory as pinned or managed, so that its engines can access it.
pub(crate) fn is_pinned(stream: &Stream, range: HostRange) -> bool {
    use cudarc::driver::sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as TYPE;
    let known = |address: usize| {
        let (mut kind, mut attribute) = (0u32, TYPE);
        let mut value = (&raw mut kind).cast();
        // SAFETY: the attribute is a 32-bit number, 0 for memory that the driver doesn't know. The call for a single attribute
        // returns an error in that case, which takes longer.
        unsafe {
            stream.shared.context.driver.cuPointerGetAttributes(1, &raw mut attribute, &raw mut value, address as u64)
        }
        .is_ok_and(|()| kind != 0)
    };
    range.len > 0 && known(range.start) && known(range.start + range.len - 1)
}

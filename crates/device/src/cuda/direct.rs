//! Copies that the driver makes with the program's memory as it is: the engines reach it, or it is not worth staging.

use super::driver::DriverError;
use super::landing::Landing;
use super::lane::{self, WAITED_IN_MAX, is_pinned};
use super::locks::{Locked, Look};
use super::page_lock;
use super::pinned::Slot;
use super::stream::{Op, State, Stream};
use crate::Sink;
use accord_types::{DevicePtr, HostRange, QueueId, Result, Seq, StreamId};
use std::sync::Arc;

/// When the driver has read what a copy in was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// At once.
    Now,
    /// When the stream gets there.
    InTurn,
}

/// Gives a copy in to the driver, if nothing of it has to be staged. `now`: it has to have been read before the
/// caller goes on.
pub(crate) fn copy_in(
    stream: &Stream,
    state: &State,
    dst: DevicePtr,
    range: HostRange,
    now: bool,
) -> Result<Option<Taken>, DriverError> {
    // What is still on its way to that memory is written by the host.
    if state.lands_in(range) {
        return Ok(None);
    }
    let lent = stream.is_lent();
    // Otherwise waiting for the stream could take as long as the program's regions do.
    let may_wait = !now || lent || stream.queue == QueueId::SYNC;
    match page_lock::look(stream, state.next(), range) {
        Look::Free if is_pinned(stream, range) => {
            if !may_wait {
                return Ok(None);
            }
            hand_in(stream, dst, range)?;
            Ok(Some(Taken::InTurn))
        }
        Look::Free if lent || now && range.len <= WAITED_IN_MAX => {
            hand_in(stream, dst, range)?;
            Ok(Some(Taken::Now))
        }
        Look::Locked(middle) if may_wait => {
            copy_in_locked(stream, dst, range, middle)?;
            Ok(Some(Taken::InTurn))
        }
        _ => Ok(None),
    }
}

/// The program's memory, of which `middle` is locked, to the device.
pub(crate) fn copy_in_locked(
    stream: &Stream,
    dst: DevicePtr,
    range: HostRange,
    middle: Locked,
) -> Result<(), DriverError> {
    let mut parts = edges(range, middle).chain(middle.pieces());
    parts.try_for_each(|part| hand_in(stream, dst.offset((part.start - range.start) as u64), part))
}

/// The driver reads locked and pinned memory in its turn, other memory before it returns.
pub(crate) fn hand_in(stream: &Stream, dst: DevicePtr, range: HostRange) -> Result<(), DriverError> {
    let from = std::ptr::with_exposed_provenance(range.start);
    // SAFETY: the program keeps its memory until it has waited; what is locked stays so until then.
    unsafe { stream.shared.context.driver.cuMemcpyHtoDAsync_v2(dst.0, from, range.len, stream.raw) }
}

/// The driver writes locked and pinned memory in its turn, other memory before it returns.
pub(crate) fn hand_out(stream: &Stream, src: DevicePtr, range: HostRange) -> Result<(), DriverError> {
    let to = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: as for `hand_in`.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(to, src.0, range.len, stream.raw) }
}

/// Device memory to the program's, of which `middle` is locked; the rest goes by slots. None if there are no slots; then nothing
/// was done. The landings are for the caller to add.
pub(crate) fn copy_out_locked(
    stream: &Stream,
    src: DevicePtr,
    range: HostRange,
    middle: Locked,
) -> Result<Option<Vec<Landing>>, DriverError> {
    let mut landings = Vec::new();
    let mut slots = Vec::new();
    for edge in edges(range, middle) {
        match stream.shared.small.try_take()? {
            Some(slot) => slots.push((slot, edge)),
            None => return Ok(None),
        }
    }
    for (slot, edge) in slots {
        edge_out(stream, src.offset((edge.start - range.start) as u64), &slot, edge)?;
        landings.push(Landing::Small { slot, len: edge.len, sink: Box::new(Edge(edge)) });
    }
    middle.pieces().try_for_each(|part| hand_out(stream, src.offset((part.start - range.start) as u64), part))?;
    Ok(Some(landings))
}

/// The same for a caller that waits anyway.
pub(crate) fn copy_out_locked_waited(
    stream: &Stream,
    src: DevicePtr,
    range: HostRange,
    middle: Locked,
) -> Result<(), DriverError> {
    let mut parts = middle.pieces().chain(edges(range, middle));
    parts.try_for_each(|part| hand_out(stream, src.offset((part.start - range.start) as u64), part))
}

fn edge_out(stream: &Stream, src: DevicePtr, slot: &Slot, edge: HostRange) -> Result<(), DriverError> {
    // SAFETY: the slot is pinned and longer than a page; it is read only after the stream has got past this.
    unsafe { stream.shared.context.driver.cuMemcpyDtoHAsync_v2(slot.memory().cast(), src.0, edge.len, stream.raw) }
}

/// What of a range is not locked.
fn edges(range: HostRange, middle: Locked) -> impl Iterator<Item = HostRange> {
    let end = middle.range.start + middle.range.len;
    let before = HostRange { start: range.start, len: middle.range.start - range.start };
    let after = HostRange { start: end, len: range.start + range.len - end };
    [before, after].into_iter().filter(|edge| edge.len > 0)
}

/// The bytes of a range as they are now.
fn taken(range: HostRange) -> Vec<u8> {
    // SAFETY: the program promised that the range is readable during the call.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(range.start), range.len) }.to_vec()
}

/// The part of an array that shares a page with something else.
struct Edge(HostRange);

impl Sink for Edge {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        assert!(piece.len() <= self.0.len, "a device gave more than the copy has");
        // SAFETY: the program promised that its memory is writable until it has waited for the copy.
        unsafe {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(self.0.start);
            to.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
        }
        Ok(())
    }

    fn may_write(&self, range: HostRange) -> bool {
        self.0.overlaps(range)
    }
}

impl super::CudaDevice {
    /// Copies at most 64 KiB of the program's memory in, which are read before the call returns.
    ///
    /// # Errors
    /// The stream's or device's failure.
    pub fn store_memory(&self, stream: StreamId, dst: DevicePtr, range: HostRange) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.put(
            |state| match page_lock::look(stream, state.next(), range) {
                // The driver takes so few bytes before it returns, unless its engines reach them.
                Look::Free if !is_pinned(stream, range) => hand_in(stream, dst, range),
                _ => lane::store(stream, dst, &taken(range)),
            },
            || Ok(Op::Store { dst, bytes: taken(range) }),
        )
    }

    /// Copies at most 64 KiB of the program's memory in, in their turn, if that needs no waiting.
    ///
    /// # Errors
    /// The stream's or device's failure.
    pub fn store_in_turn(&self, stream: StreamId, dst: DevicePtr, range: HostRange) -> Result<Option<Seq>> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.put_if(|state| {
            if state.lands_in(range) {
                return Ok(false);
            }
            match page_lock::look(stream, state.next(), range) {
                Look::Free => hand_in(stream, dst, range)?,
                Look::Locked(middle) => copy_in_locked(stream, dst, range, middle)?,
                Look::Mixed => return Ok(false),
            }
            Ok(true)
        })
    }

    /// Locks the pages of an array that is copied again and again, if that can be done: in the background, until
    /// [`CudaDevice::unlock_pages`] is called as often.
    pub fn lock_pages(&self, range: HostRange) {
        page_lock::ask(&self.shared, range);
    }

    /// Ends what [`CudaDevice::lock_pages`] has begun. With a stream, into which the last copy out was put, when that gets there:
    /// the position is returned. Without one before the call returns, which waits for the copies that use the array.
    ///
    /// # Errors
    /// The stream's or device's failure; the array is unlocked all the same.
    pub fn unlock_pages(&self, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        let Some(unlock) = page_lock::release(&self.shared, range) else { return Ok(None) };
        let stream = stream.map(|stream| self.stream(stream)).transpose()?;
        let mut waited = Ok(());
        for (user, seq) in unlock.streams() {
            if stream.is_none_or(|stream| !Arc::ptr_eq(stream, &user)) {
                waited = waited.and(user.settle(seq));
            }
        }
        match stream {
            Some(stream) => stream.put_host(Op::Unlock(unlock), false).map(Some),
            None => {
                drop(unlock);
                waited.map(|()| None)
            }
        }
    }
}

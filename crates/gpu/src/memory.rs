//! A device's address range and the memory mapped there.

mod host_room;
mod saved;
mod staging;

use super::allocations::Allocations;
use super::context::Context;
use super::driver::DriverError;
use super::scrubber::Scrubber;
use accord_device::ipc::{ExportMemory, Exporter, Keep, PendingReleases, PieceKey, next_id};
use accord_device::memory_handle::{HANDLE_PIECES_MAX, MemoryHandle, PAGE, PIECE_MAX};
use accord_types::turn_lock::TurnLock;
use accord_types::{AddressRange, Count, DeviceInfo, DevicePtr, Error, ErrorCode, Result};
use cudarc::driver::sys::{
    CUdevice, CUdevice_attribute, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationHandleType as HandleType, CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle,
    CUmemLocation, CUmemLocationType, CUstream,
};
use host_room::HostRoom;
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Addresses per byte of memory, so that fragmentation costs nothing.
const ADDRESSES_PER_BYTE: u64 = 4;
/// The limit of waits for memory that other processes still hold, when none is left.
const RETURN_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct Memory {
    context: Arc<Context>,
    start: CUdeviceptr,
    len: u64,
    /// The range's number for other processes.
    id: u64,
    /// Clears memory from the driver, if other users may have used it.
    scrubber: Option<Scrubber>,
    /// Dropped pieces that other processes have not released yet.
    pending: Arc<PendingReleases>,
    /// Set if the driver chooses each allocation's address. There is no range then, and no mapping.
    allocations: Option<Allocations>,
    state: TurnLock<MappedPieces>,
}

#[derive(Default)]
struct MappedPieces {
    /// Pieces by their start.
    pieces: BTreeMap<u64, Piece>,
    /// Pieces in host memory, while the work is suspended.
    saved: BTreeMap<u64, SavedPiece>,
    /// Other devices that may access all of the memory.
    peers: Vec<CUdevice>,
    /// Whether new pieces can be exported to other processes.
    exportable: bool,
    /// Whether network adapters are to reach new pieces themselves.
    rdma: bool,
    /// The exporter of pieces to other processes.
    exporters: Vec<Weak<Exporter>>,
}

/// A piece in host memory, whose addresses have no memory.
struct SavedPiece {
    piece: Piece,
    room: HostRoom,
}

struct Piece {
    /// A number that is never reused, even for memory at the same address.
    id: u64,
    exportable: bool,
    len: u64,
    handle: CUmemGenericAllocationHandle,
    /// Parts that their owner has freed: start to end. The driver only frees whole pieces.
    idle: BTreeMap<u64, u64>,
}

/// Returns how many addresses a device likes to have.
pub(crate) fn addresses_wanted(info: &DeviceInfo) -> u64 {
    info.memory.next_multiple_of(PAGE).saturating_mul(ADDRESSES_PER_BYTE)
}

/// Returns the number of addresses that the device wants, at a place of the driver's choice.
pub(crate) fn anywhere(info: &DeviceInfo) -> AddressRange {
    AddressRange { start: DevicePtr(0), len: addresses_wanted(info) }
}

impl Memory {
    /// Reserves addresses. `ipc`: the memory is exportable to other processes if the device supports it. `scrub`: previous users' data is cleared.
    pub(crate) fn reserve(
        context: Arc<Context>,
        place: AddressRange,
        ipc: bool,
        scrub: bool,
    ) -> Result<Self, DriverError> {
        let (mut start, len) = (0, place.len.next_multiple_of(PAGE));
        // If this process uses addresses in the range, the driver chooses another place.
        // SAFETY: `start` is valid for writing.
        unsafe { context.driver.cuMemAddressReserve(&raw mut start, len as usize, PAGE as usize, place.start.0, 0) }?;
        let supported = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
        let exportable = ipc && context.attribute(supported) != 0;
        let reached = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        let rdma = context.attribute(reached) != 0;
        let state = TurnLock::new(MappedPieces { exportable, rdma, ..MappedPieces::default() });
        let scrubber = scrub.then(|| Scrubber::new(Arc::clone(&context)));
        let pending = Arc::default();
        Ok(Self { context, start, len, id: next_id(), scrubber, pending, allocations: None, state })
    }

    /// Creates memory that comes from [`Memory::allocate`].
    pub(crate) fn of_allocations(context: Arc<Context>, ipc: bool) -> Self {
        let allocations = Some(Allocations::new(Arc::clone(&context), ipc));
        let (pending, state) = (Arc::default(), TurnLock::default());
        Self { context, start: 0, len: 0, id: next_id(), scrubber: None, pending, allocations, state }
    }

    /// Allocates as [`accord_device::Device::allocate`]. The context is current.
    pub(crate) fn allocate(&self, len: u64) -> Result<DevicePtr> {
        let mapped = || Error::new(ErrorCode::ImplementationDefined, "memory is mapped on this device");
        let allocations = self.allocations.as_ref().ok_or_else(mapped)?;
        let before = self.pending.returned();
        let taken = match allocations.take(len) {
            Err(error) if error.code == DriverError::OUT_OF_MEMORY && self.pending.wait(before, RETURN_TIMEOUT) => {
                allocations.take(len)
            }
            outcome => outcome,
        };
        taken.map_err(|error| error.into_error(ErrorCode::System))
    }

    /// Returns how often memory was cleared. A stream that has not waited since must wait.
    #[inline]
    pub(crate) fn scrubs(&self) -> u64 {
        self.scrubber.as_ref().map_or(0, Scrubber::count)
    }

    /// Makes a stream wait until mapped memory is clear. The stream's context is current.
    pub(crate) fn hold_up(&self, stream: CUstream) -> Result<(), DriverError> {
        self.scrubber.as_ref().map_or(Ok(()), |scrubber| scrubber.hold_up(stream))
    }

    /// Blocks until mapped memory is clear. After an error the context is gone, and the memory with it.
    fn settle(&self) {
        let _ = self.scrubber.as_ref().map_or(Ok(()), Scrubber::settle);
    }

    /// Whether all of a range is mapped. Its memory is then clear on return.
    pub(crate) fn is_clear(&self, start: DevicePtr, len: u64) -> bool {
        if len == 0 || self.check(start, len).is_err() || self.allocations.is_some() {
            return false;
        }
        let is_there = self.lock().covering(start.0, start.0 + len).is_some();
        if is_there {
            self.settle();
        }
        is_there
    }

    pub(crate) fn addresses(&self) -> (DevicePtr, u64) {
        (DevicePtr(self.start), self.len)
    }

    fn check(&self, start: DevicePtr, len: u64) -> Result<()> {
        let inside = start.0 >= self.start && start.0.saturating_add(len) <= self.start + self.len;
        if inside || len == 0 { Ok(()) } else { Err(outside(start, len)) }
    }

    /// Maps as [`accord_device::Device::map`].
    pub(crate) fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.check(start, len)?;
        if !start.0.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) {
            return Err(Error::new(
                ErrorCode::ImplementationDefined,
                format!("mapping {len} bytes at {start}: not whole pages"),
            ));
        }
        let before = self.pending.returned();
        match self.try_map(start, len) {
            Err(error) if error.code() == ErrorCode::OutOfMemory && self.pending.wait(before, RETURN_TIMEOUT) => {
                self.try_map(start, len)
            }
            outcome => outcome,
        }
    }

    fn try_map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let mut state = self.lock();
        let (mut at, end) = (start.0, start.0 + len);
        while at < end {
            // A freed part in the middle of a piece is still mapped.
            if let Some((_, piece)) =
                state.pieces.range_mut(..=at).next_back().filter(|(first, piece)| at < *first + piece.len)
            {
                at = piece.use_again(at, end).ok_or_else(|| {
                    Error::new(ErrorCode::ImplementationDefined, format!("memory at {at:#x} is mapped already"))
                })?;
                continue;
            }
            let until = state.pieces.range(at..).next().map_or(end, |(next, _)| end.min(*next));
            let len = (until - at).min(PIECE_MAX);
            let mut piece = self.take(at, len, &state);
            // Some systems have the attributes but refuse their use.
            while piece.as_ref().is_err_and(|error| error.code != DriverError::OUT_OF_MEMORY) && state.wants_less() {
                piece = self.take(at, len, &state);
            }
            let piece = piece.map_err(|error| {
                // The new pieces were not used yet.
                self.retire(&mut state, start.0, at);
                error.into_error(ErrorCode::System)
            })?;
            state.pieces.insert(at, piece);
            at += len;
        }
        Ok(())
    }

    /// Frees a range that is no longer used. Pieces that are wholly idle are returned to the driver.
    pub(crate) fn unmap(&self, start: DevicePtr, len: u64) -> Result<()> {
        if let Some(allocations) = &self.allocations {
            return allocations.give_back(start, len);
        }
        self.check(start, len)?;
        let mut state = self.lock();
        let news = self.retire(&mut state, start.0, start.0 + len);
        drop(state);
        notify(news);
        Ok(())
    }

    /// Lets the device `peer` access all present and future memory here.
    pub(crate) fn share_with(&self, peer: &Context) -> Result<(), DriverError> {
        if let Some(allocations) = &self.allocations {
            return allocations.share_with(peer);
        }
        let peer = peer.device;
        let mut state = self.lock();
        if state.peers.contains(&peer) {
            return Ok(());
        }
        for (start, piece) in &state.pieces {
            self.allow(*start, piece.len, &[peer])?;
        }
        state.peers.push(peer);
        Ok(())
    }

    /// Frees all memory. No work runs on the device any more.
    pub(crate) fn clear(&self) {
        self.allocations.iter().for_each(Allocations::clear);
        let mut news = DroppedPieces::default();
        let mut state = self.lock();
        let saved = std::mem::take(&mut state.saved);
        for (start, piece) in std::mem::take(&mut state.pieces) {
            news.append(&mut self.drop_piece(start, &piece, &state.exporters));
        }
        drop(state);
        drop(saved);
        notify(news);
    }

    fn take(&self, at: u64, len: u64, state: &MappedPieces) -> Result<Piece, DriverError> {
        let handle = self.make(at, len, state.exportable, state)?;
        let piece = Piece { id: next_id(), exportable: state.exportable, len, handle, idle: BTreeMap::new() };
        if let Some(scrubber) = &self.scrubber
            && let Err(error) = scrubber.clear(at, len)
        {
            self.drop_piece(at, &piece, &[]);
            return Err(error);
        }
        Ok(piece)
    }

    /// Maps new memory of the driver.
    fn make(
        &self,
        at: u64,
        len: u64,
        exportable: bool,
        state: &MappedPieces,
    ) -> Result<CUmemGenericAllocationHandle, DriverError> {
        let driver = self.context.driver;
        // SAFETY: all-zero is a valid value: no handles for other processes, no flags.
        let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = location(self.context.device);
        if exportable {
            properties.requestedHandleTypes = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        }
        properties.allocFlags.gpuDirectRDMACapable = u8::from(state.rdma);
        let mut handle = 0;
        // SAFETY: both are valid.
        unsafe { driver.cuMemCreate(&raw mut handle, len as usize, &raw const properties, 0) }?;
        // SAFETY: the range is reserved, and no piece is mapped in it.
        let mapped = unsafe { driver.cuMemMap(at, len as usize, 0, handle, 0) };
        let allowed = mapped.and_then(|()| self.allow(at, len, &[self.context.device]));
        let peers = &state.peers;
        let allowed = allowed.and_then(|()| if peers.is_empty() { Ok(()) } else { self.allow(at, len, peers) });
        if let Err(error) = allowed {
            // SAFETY: nothing uses the memory.
            unsafe {
                let _ = driver.cuMemUnmap(at, len as usize);
                let _ = driver.cuMemRelease(handle);
            }
            return Err(error);
        }
        Ok(handle)
    }

    fn allow(&self, at: u64, len: u64, devices: &[CUdevice]) -> Result<(), DriverError> {
        let access: Vec<_> = devices
            .iter()
            .map(|&device| CUmemAccessDesc {
                location: location(device),
                flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            })
            .collect();
        // SAFETY: the range is mapped, and the list valid for its length.
        unsafe { self.context.driver.cuMemSetAccess(at, len as usize, access.as_ptr(), access.len()) }
    }

    /// Returns a piece to the driver. Returns the processes that must be notified.
    fn drop_piece(&self, at: u64, piece: &Piece, exporters: &[Weak<Exporter>]) -> DroppedPieces {
        self.settle();
        // SAFETY: the piece is no longer used. Both calls fail only when the context is gone, and the memory with it.
        unsafe {
            let _ = self.context.driver.cuMemUnmap(at, piece.len as usize);
            let _ = self.context.driver.cuMemRelease(piece.handle);
        }
        let has_it = |exporter: &Arc<Exporter>| exporter.dropped(piece.id);
        exporters.iter().filter_map(Weak::upgrade).filter(has_it).map(|exporter| (exporter, piece.id)).collect()
    }

    fn retire(&self, state: &mut MappedPieces, start: u64, end: u64) -> DroppedPieces {
        let first = state.pieces.range(..=start).next_back().map_or(start, |(first, _)| *first);
        let mut whole = Vec::new();
        for (&at, piece) in state.pieces.range_mut(first..end) {
            let (from, to) = (start.max(at), end.min(at + piece.len));
            if from < to {
                piece.set_idle(from, to);
                if piece.idle.iter().next() == Some((&at, &(at + piece.len))) {
                    whole.push(at);
                }
            }
        }
        let mut news = DroppedPieces::default();
        for at in whole {
            if let Some(piece) = state.pieces.remove(&at) {
                news.append(&mut self.drop_piece(at, &piece, &state.exporters));
            }
        }
        news
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, MappedPieces> {
        self.state.take()
    }
}

impl ExportMemory for Memory {
    fn handle(&self, exporter: &Arc<Exporter>, start: DevicePtr, len: u64) -> Option<MemoryHandle> {
        if let Some(allocations) = &self.allocations {
            return allocations.handle(exporter, start, len);
        }
        self.check(start, len).ok().filter(|()| len > 0)?;
        // The other process's stream is not ordered after this one's.
        self.settle();
        let mut state = self.lock();
        let end = start.0 + len;
        let (first, covering) = state.covering(start.0, end)?;
        let mut pieces = Vec::new();
        for piece in covering {
            if !piece.exportable || pieces.len() == HANDLE_PIECES_MAX {
                return None;
            }
            pieces.push((piece.id, piece.len));
        }
        state.exporters.retain(|known| known.strong_count() > 0);
        if !state.exporters.iter().any(|known| known.as_ptr() == Arc::as_ptr(exporter)) {
            state.exporters.push(Arc::downgrade(exporter));
        }
        let base = self.start;
        Some(MemoryHandle {
            range: self.id,
            range_len: self.len,
            offset: start.0 - base,
            len,
            first: first - base,
            pieces,
        })
    }

    fn pending_releases(&self) -> &Arc<PendingReleases> {
        &self.pending
    }

    fn export(&self, id: u64, give: &mut dyn FnMut(PieceKey, Keep)) {
        if let Some(allocations) = &self.allocations {
            return allocations.export(id, give);
        }
        let state = self.lock();
        let Some(piece) = state.pieces.values().find(|piece| piece.id == id && piece.exportable) else { return };
        let mut descriptor = -1i32;
        let kind = HandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        // SAFETY: the driver writes a descriptor of 32 bits, which is the caller's.
        let descriptor = unsafe {
            let to = (&raw mut descriptor).cast();
            if self.context.driver.cuMemExportToShareableHandle(to, piece.handle, kind, 0).is_err() {
                return;
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        // A worker that is started now must not keep the memory.
        let _ = fcntl_setfd(&descriptor, FdFlags::CLOEXEC);
        // Another process's import outlives the piece.
        give(PieceKey::Descriptor(descriptor), None);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.clear();
        if self.allocations.is_some() {
            return;
        }
        // SAFETY: no piece is mapped in the range any more.
        let _ = unsafe { self.context.driver.cuMemAddressFree(self.start, self.len as usize) };
    }
}

/// Pieces that are gone, and the importing processes to notify.
type DroppedPieces = Vec<(Arc<Exporter>, u64)>;

fn notify(news: DroppedPieces) {
    news.iter().for_each(|(exporter, piece)| exporter.notify_dropped(*piece));
}

impl MappedPieces {
    /// Returns the pieces that cover a range, in order, and the start of the first; `None` if a part of the range is not mapped.
    fn covering(&self, start: u64, end: u64) -> Option<(u64, impl Iterator<Item = &Piece>)> {
        let first = *self.pieces.range(..=start).next_back()?.0;
        let pieces = self.pieces.range(first..end);
        let mut at = first;
        let is_whole = pieces.clone().all(|(from, piece)| std::mem::replace(&mut at, from + piece.len) == *from);
        (is_whole && at >= end).then(|| (first, pieces.map(|(_, piece)| piece)))
    }

    /// Reduces the requirements on new pieces. Returns `false` if they are minimal.
    fn wants_less(&mut self) -> bool {
        let last = if self.rdma { &mut self.rdma } else { &mut self.exportable };
        std::mem::take(last)
    }
}

impl Piece {
    /// Uses the idle part at `at`, up to `end`, again. Returns its end.
    fn use_again(&mut self, at: u64, end: u64) -> Option<u64> {
        let (&from, &to) = self.idle.range(..=at).next_back().filter(|(_, to)| at < **to)?;
        let until = to.min(end);
        self.idle.remove(&from);
        if from < at {
            self.idle.insert(from, at);
        }
        if until < to {
            self.idle.insert(until, to);
        }
        Some(until)
    }

    fn set_idle(&mut self, mut from: u64, mut to: u64) {
        // Merges adjacent parts.
        let touching: Vec<_> =
            self.idle.range(..=to).filter(|(_, end)| **end >= from).map(|(&start, &end)| (start, end)).collect();
        for (start, end) in touching {
            self.idle.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.idle.insert(from, to);
    }
}

pub(crate) fn location(device: CUdevice) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

fn outside(start: DevicePtr, len: u64) -> Error {
    Error::new(
        ErrorCode::InvalidArgument,
        format!("device address {start}, with {}, is not in the device's memory", Count(len as usize, "byte")),
    )
    .remedy("pass an address that acc_malloc, acc_deviceptr or a data clause gave")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn idle_parts_of_a_piece_are_kept_apart_and_joined(ops in prop::collection::vec((any::<bool>(), 0u64..20, 1u64..8), 0..60)) {
            const LEN: u64 = 24;
            let mut piece = Piece { id: 1, exportable: false, len: LEN, handle: 0, idle: BTreeMap::new() };
            let mut idle = [false; LEN as usize];
            for (give_back, start, len) in ops {
                let end = (start + len).min(LEN);
                if give_back {
                    piece.set_idle(start, end);
                    idle[start as usize..end as usize].fill(true);
                } else {
                    let expected = (start..end).take_while(|at| idle[*at as usize]).count() as u64;
                    let until = piece.use_again(start, end);
                    prop_assert_eq!(until, (expected > 0).then_some(start + expected));
                    idle[start as usize..][..expected as usize].fill(false);
                }
                let seen: Vec<bool> =
                    (0..LEN).map(|at| piece.idle.iter().any(|(&from, &to)| from <= at && at < to)).collect();
                prop_assert_eq!(&seen[..], &idle[..]);
                prop_assert!(piece.idle.iter().zip(piece.idle.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}

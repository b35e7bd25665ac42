//! Memory that the driver allocates where it chooses, which a program's MPI uses best, see docs/design/cuda.md.

use super::context::Context;
use super::driver::DriverError;
use accord_device::ipc::{Exporter, Keep, PieceKey, next_id};
use accord_device::memory_handle::MemoryHandle;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DevicePtr, Error, ErrorCode, Result};
use cudarc::driver::sys::{CUdeviceptr, CUipcMemHandle};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::{Arc, Weak};

/// All that a device has.
pub(super) struct Allocations {
    context: Arc<Context>,
    /// Whether other processes may import the allocations.
    ipc: bool,
    state: ShortLock<AllocationTable>,
}

#[derive(Default)]
struct AllocationTable {
    /// Allocations by their start.
    allocations: BTreeMap<u64, Numbered>,
    /// The exporter of allocations to other processes.
    exporters: Vec<Weak<Exporter>>,
}

struct Numbered {
    /// A number that is never reused, though the driver may return the same address again.
    id: u64,
    allocation: Arc<Allocation>,
}

/// One of the driver's allocations, freed with its last reference: the driver does not define what happens to memory that
/// is freed while another process has it open.
struct Allocation {
    context: Arc<Context>,
    start: CUdeviceptr,
    len: u64,
}

impl Allocations {
    pub(super) fn new(context: Arc<Context>, ipc: bool) -> Self {
        Self { context, ipc, state: ShortLock::default() }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().allocations.is_empty()
    }

    /// The context is current.
    pub(super) fn take(&self, len: u64) -> Result<DevicePtr, DriverError> {
        let mut start = 0;
        // SAFETY: `start` is valid for writing.
        unsafe { self.context.driver.cuMemAlloc_v2(&raw mut start, len as usize) }?;
        let allocation = Arc::new(Allocation { context: Arc::clone(&self.context), start, len });
        self.lock().allocations.insert(start, Numbered { id: next_id(), allocation });
        Ok(DevicePtr(start))
    }

    /// Removes an allocation that this process no longer uses.
    pub(super) fn give_back(&self, start: DevicePtr, len: u64) -> Result<()> {
        let mut state = self.lock();
        if state.allocations.get(&start.0).is_none_or(|known| known.allocation.len != len) {
            let cause = format!("{len} bytes at {start} are not memory that was allocated as a whole");
            return Err(Error::new(ErrorCode::ImplementationDefined, cause));
        }
        let gone = state.allocations.remove(&start.0);
        let exporters = state.exporters.clone();
        drop(state);
        gone.iter().for_each(|gone| gone.notify(&exporters));
        Ok(())
    }

    /// Forgets all allocations, because no work runs on the device any more.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        let (gone, exporters) = (std::mem::take(&mut state.allocations), state.exporters.clone());
        drop(state);
        gone.values().for_each(|gone| gone.notify(&exporters));
    }

    /// Lets another device of this process access all present and future allocations.
    pub(super) fn share_with(&self, peer: &Context) -> Result<(), DriverError> {
        let _current = peer.enter()?;
        // SAFETY: both contexts are alive.
        match unsafe { self.context.driver.cuCtxEnablePeerAccess(self.context.raw, 0) } {
            Err(error) if error.code != DriverError::PEER_ACCESS_ALREADY_ENABLED => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns a handle as [`accord_device::ipc::ExportMemory::handle`]. A range that spans two allocations has none.
    pub(super) fn handle(&self, exporter: &Arc<Exporter>, start: DevicePtr, len: u64) -> Option<MemoryHandle> {
        let mut state = self.lock();
        let (first, known) = state.allocations.range(..=start.0).next_back().filter(|_| self.ipc && len > 0)?;
        let (range, range_len, offset) = (known.id, known.allocation.len, start.0 - first);
        offset.checked_add(len).filter(|end| *end <= range_len)?;
        state.exporters.retain(|known| known.strong_count() > 0);
        if !state.exporters.iter().any(|known| known.as_ptr() == Arc::as_ptr(exporter)) {
            state.exporters.push(Arc::downgrade(exporter));
        }
        let pieces = vec![(range, range_len)];
        Some(MemoryHandle { range, range_len, offset, len, first: 0, pieces })
    }

    /// Exports as [`accord_device::ipc::ExportMemory::export`]. Calls `give` only if the allocation exists.
    pub(super) fn export(&self, id: u64, give: &mut dyn FnMut(PieceKey, Keep)) {
        let Some(allocation) = self.lock().find(id) else { return };
        let Ok(_current) = self.context.enter() else { return };
        let mut handle = CUipcMemHandle { reserved: [0; PieceKey::ALLOCATION] };
        // SAFETY: the handle is valid for writing, and the allocation lives as long as any reference to it.
        let asked = unsafe { self.context.driver.cuIpcGetMemHandle(&raw mut handle, allocation.start) };
        let state = self.lock();
        // The allocation may have been freed meanwhile, and its importers notified.
        if asked.is_ok() && state.find(id).is_some() {
            give(PieceKey::Allocation(handle.reserved.map(c_char::cast_unsigned)), Some(allocation));
        }
    }

    fn lock(&self) -> ShortGuard<'_, AllocationTable> {
        self.state.lock()
    }
}

impl AllocationTable {
    fn find(&self, id: u64) -> Option<Arc<Allocation>> {
        self.allocations.values().find(|known| known.id == id).map(|known| known.allocation.clone())
    }
}

impl Numbered {
    /// Notifies other processes that the allocation is gone.
    fn notify(&self, exporters: &[Weak<Exporter>]) {
        let has_it = |exporter: &Arc<Exporter>| exporter.dropped(self.id);
        exporters.iter().filter_map(Weak::upgrade).filter(has_it).for_each(|exporter| exporter.notify_dropped(self.id));
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: there are no users any more. The call fails only when the context is gone, and the memory with it.
        let _ = unsafe { self.context.driver.cuMemFree_v2(self.start) };
    }
}
